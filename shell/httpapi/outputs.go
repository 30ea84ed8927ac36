package httpapi

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
)

var (
	descOutputBytes  = desc("orrery_output_bytes_total", "Bytes that tools have written while they ran, kept or not.")
	descOutputStored = desc("orrery_output_stored_bytes_total", "Bytes that were stored of what tools have written; the same ones again with each time.")
	descOutputWrites = desc("orrery_output_writes_total", "How often the output of an attempt of an action was stored.")
	descOutputsHeld  = desc("orrery_outputs_held", "Outputs of attempts of actions that are in memory, as their tools run.")
)

func (s *Server) collectOutputs(_ context.Context, ch samples) {
	n := s.engine.Actions().OutputStats()
	ch.counter(descOutputBytes, n.Bytes)
	ch.counter(descOutputStored, n.Stored)
	ch.counter(descOutputWrites, n.Writes)
	ch.gauge(descOutputsHeld, float64(n.Held))
}

// headerWritten is how many bytes an attempt had written when the answer began: of logs that are
// read again from there on nothing is missing.
const headerWritten = "X-Orrery-Logs-Bytes"

// streamOutput sends what an attempt of an action has written. What breaks off has no regular end:
// the reader can tell.
func (s *Server) streamOutput(w http.ResponseWriter, r *http.Request, c *call) error {
	a, q, err := s.actions().visible(r, c, "attempt", "offset", "follow")
	if err != nil {
		return err
	}
	o, err := outputOptions(q)
	if err != nil {
		return err
	}
	of := ""
	if o.Attempt > 0 {
		of = fmt.Sprintf(" of attempt %d", o.Attempt)
	}
	none := fmt.Sprintf("action %s%s has no output%s", a.ID, whichIs(o.Follow, a.Status.Type), of)
	return s.sendOutput(w, r, c, o.Follow, none, func(ctx context.Context, out *tail) error {
		o.Begun = func(now shell.Output) {
			out.say(headerAttempt, strconv.FormatUint(uint64(now.Attempt), 10))
			out.say(headerDropped, strconv.FormatInt(now.Dropped(), 10))
			out.say(headerWritten, strconv.FormatInt(now.Written, 10))
		}
		return s.engine.Actions().CopyOutput(ctx, a.ID, o, out)
	})
}

// whichIs says in which state something was when the request came, unless it was followed since.
func whichIs[S ~string](followed bool, state S) string {
	if followed {
		return ""
	}
	return fmt.Sprintf(", which is %s,", state)
}

// outputMembers are those of a result that have what a program has printed.
var outputMembers = []string{"result", "stdout", "stderr"}

// mayReadOutput refuses a token from which the same text is hidden where it stands in a result.
func (s *Server) mayReadOutput(t *Token) error {
	if !s.redacts(t) {
		return nil
	}
	for _, p := range s.o.Redact.Paths {
		if slices.Contains(outputMembers, p[strings.LastIndexByte(p, '.')+1:]) {
			return failf(http.StatusForbidden, "logs: what actions write is hidden from read-only tokens here, as their results are (%s)", p)
		}
	}
	return nil
}

// outputOptions reads what of an output is asked for.
func outputOptions(q query) (o shell.OutputOptions, err error) {
	follow, err := q.bool("follow")
	if err != nil {
		return o, err
	}
	o.Follow = or(follow, false)
	if v := q.opt("attempt"); v != nil {
		n, err := strconv.ParseUint(*v, 10, 32)
		if err != nil || n == 0 {
			return o, failf(http.StatusBadRequest, "attempt: %q is not the number of an attempt: the first is 1", clip(*v))
		}
		o.Attempt = uint32(n)
	}
	if v := q.opt("offset"); v != nil {
		o.Offset, err = strconv.ParseInt(*v, 10, 64)
		if err != nil || o.Offset < 0 {
			return o, failf(http.StatusBadRequest, "offset: %q is no number of bytes from 0 to %d", clip(*v), int64(math.MaxInt64))
		}
		if o.Offset > 0 && o.Attempt == 0 {
			return o, failf(http.StatusBadRequest, "offset: %d is in the output of one attempt: give attempt too", o.Offset)
		}
	}
	return o, nil
}

// streamPipelineOutput sends what the actions of a pipeline have written that the token sees.
func (s *Server) streamPipelineOutput(w http.ResponseWriter, r *http.Request, c *call) error {
	p, q, err := s.pipelines().visible(r, c, "phase", "follow")
	if err != nil {
		return err
	}
	follow, err := q.bool("follow")
	if err != nil {
		return err
	}
	o := shell.PipelineOutputOptions{Phase: q.get("phase"), Follow: or(follow, false), Sees: func(a core.Action) bool {
		return c.token.sees(a.Namespace, a.Tenant, a.ToolName)
	}}
	none := fmt.Sprintf("pipeline %s%s has no output", p.ID, whichIs(o.Follow, p.Phase.Type))
	return s.sendOutput(w, r, c, o.Follow, none, func(ctx context.Context, out *tail) error {
		return s.engine.CopyPipelineOutput(ctx, p.ID, o, out)
	})
}

// sendOutput sends what write copies of an output to who may read it. none says whose there is none of.
func (s *Server) sendOutput(w http.ResponseWriter, r *http.Request, c *call, follow bool, none string, write func(context.Context, *tail) error) error {
	if err := s.mayReadOutput(c.token); err != nil {
		return err
	}
	out := newTail(w, map[string]string{})
	if r.Method == http.MethodHead {
		out.begin()
		return nil
	}
	leave, err := s.enterLogs(c, follow)
	if err != nil {
		return err
	}
	defer leave()
	err = s.copyWatched(r.Context(), c, follow, out, func(ctx context.Context) error { return write(ctx, out) })
	return s.endOutput(out, err, none)
}

// endOutput ends the answer with an output: regularly also where it was followed, and ended without
// a word.
func (s *Server) endOutput(out *tail, err error, none string) error {
	var phase *shell.NoPhaseError
	switch {
	case err == nil, errors.Is(err, shell.ErrNoOutput) && out.begun.Load():
		out.begin()
		return nil
	case errors.As(err, &phase):
		return &failure{status: http.StatusBadRequest, cause: err, text: oneLine(err.Error())}
	case errors.Is(err, shell.ErrNoOutput):
		return &failure{status: http.StatusNotFound, cause: err, text: fmt.Sprintf("logs: %s: %s", none, oneLine(err.Error()))}
	case errors.Is(err, errSilent):
		return (&failure{status: http.StatusServiceUnavailable, cause: err, text: "logs: the store gave none in time"}).with("Retry-After", "5")
	case errors.Is(err, errExpired):
		return unauthorized(`Bearer realm="orrery", error="invalid_token"`, "token: has expired")
	}
	return err
}
