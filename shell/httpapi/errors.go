package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/core/schedule"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/effects/texts"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
	"github.com/orrery-go/orrery/shell/internal/plainjson"
	"github.com/orrery-go/orrery/shell/internal/strictjson"
	"github.com/orrery-go/orrery/store"
)

// failure is an error that the caller is told: its text is meant for them.
type failure struct {
	status int
	text   string
	header http.Header // or nil
	cause  error       // for the log; never sent
	quotes bool        // the text may quote what was sent: not for the log of requests

	refused []wire.SetRefused // of a set
}

func (f *failure) Error() string { return f.text }
func (f *failure) Unwrap() error { return f.cause }

func failf(status int, format string, args ...any) *failure {
	return &failure{status: status, text: fmt.Sprintf(format, args...)}
}

func (f *failure) with(key, value string) *failure {
	if f.header == nil {
		f.header = make(http.Header)
	}
	f.header.Set(key, value)
	return f
}

func unauthorized(challenge, format string, args ...any) *failure {
	return failf(http.StatusUnauthorized, format, args...).with("WWW-Authenticate", challenge)
}

// classify turns any error into what the caller is told. What it does not know
// is an internal error: the text of such an error may hold paths and types, so
// it goes to the log alone.
func classify(err error) *failure {
	var (
		known   *failure
		input   *strictjson.Error
		refusal *shell.Refusal
		cron    *schedule.Error
	)
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &input):
		return failf(http.StatusBadRequest, "%s", inputText(input))
	case errors.As(err, &refusal):
		f := failf(refusalStatus(refusal.Code), "%s", oneLine(refusal.Reason))
		if refusal.Code == effects.CodeLimited {
			f = f.with("Retry-After", retryFull)
		}
		return f
	case errors.As(err, &cron):
		return failf(http.StatusBadRequest, "%s", oneLine(cron.Error()))
	case errors.Is(err, shell.ErrKeyReused):
		return keyReused()
	case errors.Is(err, shell.ErrPageToken):
		return errPageToken
	case errors.Is(err, shell.ErrNotFound):
		return failf(http.StatusNotFound, "not found")
	}
	if f := classifyBody(err); f != nil {
		return f
	}
	f := unavailable(err)
	f.cause = err
	return f
}

// classifyBody knows what can go wrong while a body is read.
func classifyBody(err error) *failure {
	var (
		tooLarge *http.MaxBytesError
		timeout  net.Error
	)
	switch {
	case errors.As(err, &tooLarge):
		return tooLong(tooLarge.Limit)
	case errors.As(err, &timeout) && timeout.Timeout() && !errors.Is(err, context.DeadlineExceeded):
		return failf(http.StatusRequestTimeout, "body: did not arrive in time").with("Connection", "close")
	}
	return nil
}

func tooLong(limit int64) *failure {
	return failf(http.StatusRequestEntityTooLarge, "body: is larger than the limit of %d bytes", limit).with("Connection", "close")
}

// unavailable tells faults that pass from those of the program.
func unavailable(err error) *failure {
	retry := func(seconds int, text string) *failure {
		return failf(http.StatusServiceUnavailable, "%s", text).with("Retry-After", strconv.Itoa(seconds))
	}
	switch {
	case errors.Is(err, shell.ErrStopped), errors.Is(err, store.ErrClosed):
		return retry(5, "the engine is stopped")
	case errors.Is(err, shell.ErrReindexing):
		return retry(10, shell.ErrReindexing.Error())
	case errors.Is(err, store.ErrViewTooOld):
		return retry(30, "this took so long, and so much was written meanwhile, that the database could not keep what was being read: try again when less is written")
	case errors.Is(err, store.ErrUnconfirmed):
		why := "the database did not confirm it"
		if errors.Is(err, store.ErrMoved) {
			why = "the database file was removed, renamed or replaced"
		}
		return retry(30, why+": this may have been carried out, and can be sent again with the same Idempotency-Key if it had one")
	case errors.Is(err, store.ErrFenced):
		return retry(1, "another process has the database now: nothing was stored")
	case errors.Is(err, store.ErrUnreachable):
		return retry(1, store.ErrUnreachable.Error()+": try again")
	case cannotWrite(err) != "":
		return retry(30, cannotWrite(err)+": nothing was stored")
	case errors.Is(err, context.DeadlineExceeded):
		return retry(5, "the engine did not answer in time: the request may still be carried out")
	case errors.Is(err, context.Canceled):
		return retry(5, "the request was cancelled")
	}
	return failf(http.StatusInternalServerError, "internal error")
}

// cannotWrite says why the database takes nothing more, although it may be read;
// "" if that is not the fault.
func cannotWrite(err error) string {
	switch {
	case errors.Is(err, store.ErrMoved):
		return "the database file was removed, renamed or replaced, the daemon's log says how to go on"
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return "the disk is full"
	case errors.Is(err, syscall.EROFS), errors.Is(err, fs.ErrPermission):
		return "the database cannot be written"
	}
	return ""
}

func refusalStatus(c effects.Code) int {
	switch c {
	case effects.CodeNotFound:
		return http.StatusNotFound
	case effects.CodeExists, effects.CodeConflict:
		return http.StatusConflict
	case effects.CodeLimited:
		return http.StatusTooManyRequests
	case effects.CodeStale:
		return http.StatusPreconditionFailed
	case effects.CodeElsewhere:
		return http.StatusMisdirectedRequest
	case effects.CodeInvalid, effects.CodeEmpty: // the engine answers the latter with nothing
	}
	return http.StatusBadRequest
}

// inputText words a fault in a body: "field: problem". A type of the core may
// have named the field already.
func inputText(e *strictjson.Error) string {
	if e.Path == "" {
		return "body: " + oneLine(e.Problem)
	}
	field := e.Path[strings.LastIndexByte(e.Path, '.')+1:]
	return e.Path + ": " + oneLine(strings.TrimPrefix(strings.TrimPrefix(e.Problem, e.Path+": "), field+": "))
}

// oneLine joins what several checks had to say.
func oneLine(s string) string { return strings.ReplaceAll(s, "\n", "; ") }

// notFound replaces the error of a machine that does not exist by the words of its API.
func notFound(what string, err error) error {
	return notFoundIn(what, "", err)
}

// notFoundIn is notFound, and says where the machine was looked for.
func notFoundIn(what, where string, err error) error {
	var refusal *shell.Refusal
	if errors.Is(err, shell.ErrNotFound) || errors.As(err, &refusal) && refusal.Code == effects.CodeNotFound {
		return failf(http.StatusNotFound, "%s not found%s", what, where)
	}
	return err
}

func writeFailure(w http.ResponseWriter, f *failure) {
	maps.Copy(w.Header(), f.header)
	b, _ := plainjson.Marshal(wire.Error{Error: f.text, Refused: f.refused}) // strings always encode
	writeBytes(w, f.status, b)
}

// writeJSON answers with v. It is encoded before the first byte leaves, so that
// a fault is still a whole answer.
func writeJSON(w http.ResponseWriter, status int, v any) error {
	if sw, ok := w.(*statusWriter); ok && sw.dropped {
		sw.begin(status)
		return nil
	}
	b, err := encode(v)
	if err != nil {
		return fmt.Errorf("encode the answer: %w", err)
	}
	if sw, ok := w.(*statusWriter); ok {
		release, err := sw.holdAnswer(len(b))
		if err != nil {
			return err
		}
		defer release()
	}
	writeBytes(w, status, b)
	return nil
}

// encode is [plainjson.Marshal]. An action, which most answers are, is written without the
// detour over the encoder.
func encode(v any) (json.RawMessage, error) {
	a, ok := v.(core.Action)
	if !ok {
		return plainjson.Marshal(v)
	}
	const others = 1 << 10 // of the fields that are no payload
	return plainjson.Compact(a.AppendJSON(make([]byte, 0, others+len(a.ToolInput)+len(a.Status.Result)))), nil
}

// reply answers with v, unless there is an error.
func reply(w http.ResponseWriter, v any, err error) error {
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, v)
}

// done answers that there is nothing to tell, unless there is an error.
func done(w http.ResponseWriter, err error) error {
	if err == nil {
		w.WriteHeader(http.StatusNoContent)
	}
	return err
}

func writeBytes(w http.ResponseWriter, status int, b []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(b, '\n')) //nolint:gosec // JSON under its own media type, with nosniff; the caller has gone: there is nobody to tell
}

// clip shortens a value that is quoted in an error, and makes it valid UTF-8.
func clip(s string) string { return strings.ToValidUTF8(texts.Clip(s, 64), "\uFFFD") }

// inTheQuery are fields that no body has of a request about what a path names: whose that is says the query.
var inTheQuery = map[string]string{
	"namespace": "is given in the query, and not in the body: add ?namespace= to the URL", "tenant": "is given in the query, and not in the body: add ?tenant= to the URL",
}

// explain words the refusal of fields that do exist, but not here.
func explain(err error, reasons map[string]string) error {
	if e, ok := errors.AsType[*strictjson.Error](err); ok {
		if why, ok := reasons[e.Path]; ok && strings.HasPrefix(e.Problem, "unknown field") {
			return failf(http.StatusBadRequest, "%s: %s", e.Path, why)
		}
	}
	return err
}
