package page

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/orrery-go/orrery/shell/httpapi"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

// apiError is what the API has answered instead of what was asked for.
type apiError struct {
	Status int
	Text   string
}

func (e *apiError) Error() string { return e.Text }

// answered reports whether an error is an answer of the API with one of some statuses.
func answered(err error, statuses ...int) bool {
	e, ok := errors.AsType[*apiError](err)
	return ok && slices.Contains(statuses, e.Status)
}

// notFound reports whether an error says that there is no such thing, or none that the visitor may see.
func notFound(err error) bool { return answered(err, http.StatusNotFound) }

// forbidden reports whether an error says that the visitor's token may not have something.
func forbidden(err error) bool { return answered(err, http.StatusForbidden) }

// answer collects what the API answers.
type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (a *answer) Header() http.Header { return a.header }

func (a *answer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
}

func (a *answer) Write(b []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.Write(b)
}

// request makes a request of the API for the visitor, as from the browser itself: its bounds by
// address hold.
func (q *visit) request(method, path string, body []byte) (*http.Request, error) {
	r, err := http.NewRequestWithContext(q.Context(), method, path, bytes.NewReader(body)) //nolint:gosec // it goes to a handler of this process
	if err != nil {
		return nil, err
	}
	r.RequestURI, r.RemoteAddr, r.Host, r.TLS = path, q.RemoteAddr, q.Host, q.TLS
	if len(body) > 0 {
		r.Header.Set("Content-Type", "application/json")
	}
	return r, nil
}

// call asks the API, and decodes its answer into out unless that is nil.
func (q *visit) call(method, path string, body, out any) (*answer, error) {
	return q.callIf(nil, method, path, body, out)
}

// callIf is [visit.call] with headers that say under which condition the API is to do it.
func (q *visit) callIf(condition http.Header, method, path string, body, out any) (*answer, error) {
	if a := q.answers[path]; a != nil && method == http.MethodGet {
		return a, a.decode(method, path, out)
	}
	if method != http.MethodGet {
		clear(q.answers)
	}
	var sent []byte
	if body != nil {
		var err error
		if sent, err = json.Marshal(body); err != nil {
			return nil, fmt.Errorf("ask the API: %w", err)
		}
	}
	r, err := q.request(method, path, sent)
	if err != nil {
		return nil, fmt.Errorf("ask the API: %w", err)
	}
	maps.Copy(r.Header, condition)
	a := &answer{header: make(http.Header)}
	if method == http.MethodGet {
		leave, err := q.p.o.API.Turn(q.Context(), q.who, httpapi.TurnToRead)
		if err != nil {
			return nil, err
		}
		defer leave()
	}
	q.p.o.API.Serve(a, r, q.who)
	if a.status < 200 || a.status > 299 {
		return a, errorOf(a)
	}
	if q.answers != nil && method == http.MethodGet {
		q.answers[path] = a
	}
	return a, a.decode(method, path, out)
}

// decode reads an answer into out unless that is nil.
func (a *answer) decode(method, path string, out any) error {
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(a.body.Bytes(), out); err != nil {
		return fmt.Errorf("the API's answer to %s %s: %w", method, path, err)
	}
	return nil
}

// errorOf gives the error that an answer tells.
func errorOf(a *answer) error {
	var told wire.Error
	if err := json.Unmarshal(a.body.Bytes(), &told); err != nil || told.Error == "" {
		told.Error = http.StatusText(a.status)
	}
	return &apiError{Status: a.status, Text: told.Error}
}

// get reads from the API: path is below /v1.
func (q *visit) get(path string, params url.Values, out any) error {
	_, err := q.call(http.MethodGet, withQuery("/v1"+path, params), nil, out)
	return err
}

// getPart is [visit.get] of one of several lists of a page. Unless the visitor may have it, it is left out of the page, which is no
// error.
func (q *visit) getPart(path string, params url.Values, out any) (may bool, err error) {
	err = q.get(path, params, out)
	if forbidden(err) {
		return false, nil
	}
	return err == nil, err
}

// withQuery gives a path with the parameters that have a value.
func withQuery(path string, params url.Values) string {
	given := make(url.Values, len(params))
	for name, values := range params {
		for _, v := range values {
			if v != "" {
				given.Add(name, v)
			}
		}
	}
	if len(given) == 0 {
		return path
	}
	return path + "?" + given.Encode()
}

// pathOf makes a path of segments that may have any character in them.
func pathOf(segments ...string) string {
	var b strings.Builder
	for _, s := range segments {
		b.WriteByte('/')
		b.WriteString(url.PathEscape(s))
	}
	return b.String()
}

// statusOf gives the HTTP status of an error, and what the visitor is told of it.
func (p *Page) statusOf(err error) (status int, text string) {
	if e, ok := errors.AsType[*apiError](err); ok {
		return e.Status, e.Text
	}
	status, text = httpapi.StatusOf(err)
	if status == http.StatusInternalServerError {
		p.o.Logger.Error("page failed", "error", err)
	}
	return status, text
}
