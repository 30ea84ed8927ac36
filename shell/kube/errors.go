package kube

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/orrery-go/orrery/shell"
)

// isPersistent divides the errors of the API (004 Network Errors). Persistent is
// what the API server refuses for what was asked: 400, 403, 404, 405, 409 of a name
// that is taken, 413, 415, 422. What may pass is all else: no connection, time-outs,
// 401 (credentials are renewed), 408, 409 of a write that met another, 410, 429, 5xx,
// and 403 of a quota that is used up. For a 403 that follows an outage see
// [health.doubts].
func isPersistent(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	if apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota") {
		return false
	}
	switch code := status.Status().Code; code {
	case http.StatusUnauthorized, http.StatusRequestTimeout, http.StatusGone, http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	case http.StatusConflict:
		return apierrors.IsAlreadyExists(err)
	default:
		return code >= 400 && code < 500
	}
}

// explained says an error of the API in terms of the job, whose fields it names.
func explained(what string, err error) error {
	var status apierrors.APIStatus
	if errors.As(err, &status) && apierrors.IsInvalid(err) {
		if d := status.Status().Details; d != nil && len(d.Causes) > 0 {
			return fmt.Errorf("%s: %s", what, fieldsOf(d.Causes))
		}
	}
	return fmt.Errorf("%s: %w", what, err)
}

func fieldsOf(causes []metav1.StatusCause) string {
	var out []string
	for _, c := range causes {
		field := c.Field
		if inner, ok := strings.CutPrefix(field, "spec.template.spec."); ok {
			field = "pod_spec." + inner
		}
		out = append(out, strings.TrimPrefix(field+": "+c.Message, ": "))
	}
	return strings.Join(out, "; ")
}

// Limits of repeated calls.
const (
	firstWait       = 500 * time.Millisecond
	longestWait     = 30 * time.Second
	doubtWait       = 5 * time.Second  // after a 403 that is not believed yet
	callTimeout     = 30 * time.Second // of one call
	unauthorizedFor = 2 * time.Minute  // credentials are renewed by then, or not at all
)

// retried repeats a call of the API while its error may pass and ctx lasts, with a growing
// wait or the server's, and counts the calls. waits, if any, is told of each such error.
func (r *Runner) retried(ctx context.Context, what string, waits func(error), call func(context.Context) error) (int, error) {
	counter := &counter{}
	ctx = context.WithValue(ctx, counterKey{}, counter)
	var unauthorized time.Time
	for n := 0; ; n++ {
		err := r.once(ctx, call)
		r.learned(ctx, what, err)
		wait := waitAfter(n, err)
		switch {
		case err == nil:
			return counter.calls(), nil
		case shell.IsNotStarted(err): // no call was made: see [jobs.Run] Confirm
			return counter.calls(), err
		case ctx.Err() == nil && r.health.doubts(err):
			unauthorized, wait = time.Time{}, min(wait, doubtWait)
		case isPersistent(err):
			return counter.calls(), shell.Permanent(explained(what, err))
		case shell.IsPermanent(err):
			return counter.calls(), err
		case ctx.Err() != nil:
			return counter.calls(), explained(what, err)
		case !apierrors.IsUnauthorized(err):
			unauthorized = time.Time{}
		case unauthorized.IsZero():
			unauthorized = time.Now()
		case time.Since(unauthorized) > unauthorizedFor:
			return counter.calls(), explained(what, err)
		}
		if waits != nil {
			waits(err)
		}
		anew, ended := r.pause(ctx, wait, err)
		if ended != nil {
			return counter.calls(), explained(what, err)
		}
		if anew {
			n = -1
		}
	}
}

// learned notes for the runner's health how a call came out: what is "create Job NAME".
func (r *Runner) learned(ctx context.Context, what string, err error) {
	if words := strings.Fields(what); ctx.Err() == nil && !shell.IsPermanent(err) && !shell.IsNotStarted(err) && len(words) > 1 {
		r.health.called(strings.Join(words[:2], " "), err)
	}
}

// once makes one call when the limit of calls allows it, and bounds the call in time.
func (r *Runner) once(ctx context.Context, call func(context.Context) error) error {
	if err := r.limit.Wait(ctx); err != nil {
		return fmt.Errorf("the limit of calls left no room for it: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	r.count(ctx)
	return call(ctx)
}

// waitAfter is the wait after the nth failure, from 0: twice as long each time, less
// up to a fifth, so that many runs do not come back at once.
func waitAfter(n int, err error) time.Duration {
	wait := min(firstWait<<min(n, 10), longestWait)
	wait -= time.Duration(rand.Int64N(int64(wait) / 5)) //nolint:gosec // it spreads load, and guards nothing
	if s, ok := apierrors.SuggestsClientDelay(err); ok {
		wait = max(wait, time.Duration(s)*time.Second)
	}
	return wait
}
