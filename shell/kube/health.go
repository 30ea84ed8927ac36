package kube

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/orrery-go/orrery/shell/internal/pause"
	"github.com/orrery-go/orrery/shell/jobs"
)

// What a runner does with its cluster, as its health has it. Calls are parts too, by
// what they do: "create Job".
const (
	watchingJobs   = watching + "jobs"
	watchingPods   = watching + "pods"
	watchingEvents = watching + "events"

	watching = "watch "
)

// vital are the parts without which nobody sees what becomes of pods.
var vital = []string{watchingJobs, watchingPods}

// health is what a Runner knows of how it stands with its cluster.
type health struct {
	mu        sync.Mutex
	parts     map[string]*part
	began     time.Time     // when the Watch began, or the last one ended
	watches   bool          // one runs
	knows     bool          // what the cluster holds
	well      time.Time     // when the last part that did not work did so again
	unreached time.Time     // when the cluster last gave no answer
	back      chan struct{} // closed and replaced when the cluster can be watched again
	last      error
	lastAt    time.Time
}

// part is one thing that a runner does with its cluster.
type part struct {
	err   error // nil: it works
	since time.Time
	tried bool      // and a try to go on has failed; else a watch broke off
	heard time.Time // of a watch: when it last told something
}

// brokenFor is how long a watch may be broken off that is just beginning again: servers and
// what stands before them break connections off, and that is no outage.
const brokenFor = 5 * time.Second

// fails reports whether the part does not work.
func (p *part) fails() bool {
	return p != nil && p.err != nil && (p.tried || time.Since(p.since) >= brokenFor)
}

func newHealth() *health {
	return &health{parts: map[string]*part{}, began: time.Now(), back: make(chan struct{})}
}

func (h *health) part(what string) *part {
	p := h.parts[what]
	if p == nil {
		p = &part{}
		h.parts[what] = p
	}
	return p
}

// watch notes that a Watch begins, or that it has ended.
func (h *health) watch(runs bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.watches, h.knows, h.began = runs, false, time.Now()
	maps.DeleteFunc(h.parts, func(what string, _ *part) bool { return strings.HasPrefix(what, watching) })
}

// synced notes that it is known what the cluster holds.
func (h *health) synced() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.knows, h.well = true, time.Now()
}

// heard notes that a watch has told something, were it only that nothing has changed.
func (h *health) heard(what string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.part(what).heard = time.Now()
}

// failed notes that something does not work, and reports whether it did when it was last
// tried.
func (h *health) failed(what string, err error) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.fail(what, err)
	did := !p.tried
	p.tried = true
	return did
}

// broke notes that a watch has ended that should have gone on: nothing is seen until it has
// begun again.
func (h *health) broke(what string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.fail(what, err)
}

// fail notes the error of a part; under the lock.
func (h *health) fail(what string, err error) *part {
	h.saw(err)
	p := h.part(what)
	if p.err == nil {
		p.since = time.Now()
	}
	p.err = err
	return p
}

// note notes an error, if it is one, of a call that may concern one pod alone.
func (h *health) note(err error) {
	if unreachable(err) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.saw(err)
	}
}

// saw notes an error of the cluster; under the lock.
func (h *health) saw(err error) {
	now := time.Now()
	h.last, h.lastAt = err, now
	if unreachable(err) {
		h.unreached = now
	}
}

// worked notes that something works, and reports whether it did not when it was last tried.
func (h *health) worked(what string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.parts[what]
	if p == nil || p.err == nil {
		return false
	}
	was := p.tried
	if p.fails() {
		h.well = time.Now()
	}
	p.err, p.since, p.tried = nil, time.Time{}, false
	if slices.Contains(vital, what) {
		// What did not reach the cluster meanwhile may not be tried for a long time.
		maps.DeleteFunc(h.parts, func(what string, p *part) bool {
			return !strings.HasPrefix(what, watching) && unreachable(p.err)
		})
		close(h.back)
		h.back = make(chan struct{})
	}
	return was
}

// called notes how a call of the API came out. What the cluster refuses for what was asked
// is no fault of the runner's.
func (h *health) called(what string, err error) {
	switch {
	case err == nil || !unreachable(err) && !apierrors.IsUnauthorized(err) && !lacksRight(err) && !lacksNamespace(err):
		h.worked(what)
	default:
		h.failed(what, err)
	}
}

// away reports whether the cluster cannot be watched at present, and gives what is closed
// once it can be again.
func (h *health) away() (bool, <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.blind(), h.back
}

// blind reports whether a vital part does not work; under the lock.
func (h *health) blind() bool {
	return slices.ContainsFunc(vital, func(what string) bool { return h.parts[what] != nil && h.parts[what].err != nil })
}

// forbiddenFor is how long after an outage a 403 is not believed: a server that has just
// started knows no roles, nor does one whose manifests are being applied.
const forbiddenFor = 30 * time.Second

// doubts reports whether a 403 is not believed yet.
func (h *health) doubts(err error) bool {
	if !apierrors.IsForbidden(err) {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	fresh := h.blind() && !h.knows && time.Since(h.began) <= forbiddenFor
	return fresh || !h.unreached.IsZero() && time.Since(h.unreached) <= forbiddenFor
}

// lacks gives the error for which it will not be known what the cluster holds until somebody
// mends the runner's rights or its namespace; nil: there is none, or it is not believed yet.
func (h *health) lacks() error {
	h.mu.Lock()
	var err error
	for _, what := range vital {
		if p := h.parts[what]; err == nil && p.fails() && (lacksRight(p.err) || lacksNamespace(p.err)) {
			err = p.err
		}
	}
	knows := h.knows
	h.mu.Unlock()
	if knows || err == nil || h.doubts(err) {
		return nil
	}
	return err
}

// of says how the runner is.
func (h *health) of() jobs.Health {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := jobs.Health{Status: jobs.HealthWorks, Since: h.well, LastErrorAt: h.lastAt}
	if h.last != nil {
		out.LastError, out.LastBrief = causeIn(h.last), classOf(h.last)
	}
	for i, what := range vital { // the older of them: all is known up to that
		p := h.parts[what]
		if p == nil || p.heard.IsZero() {
			out.SeenAt = time.Time{}
			break
		}
		if i == 0 || p.heard.Before(out.SeenAt) {
			out.SeenAt = p.heard
		}
	}
	worst := func(status jobs.HealthStatus, since time.Time, why, brief string) {
		if out.Status == jobs.HealthWorks {
			out.Status, out.Since, out.Error, out.Brief = status, since, why, brief
		}
	}
	cannot := func(status jobs.HealthStatus, what string, p *part) {
		worst(status, p.since, "cannot "+what+": "+causeIn(p.err), "cannot "+what+": "+classOf(p.err))
	}
	for _, what := range vital {
		if p := h.parts[what]; p.fails() {
			cannot(jobs.HealthDown, what, p)
		}
	}
	down := func(why string) { worst(jobs.HealthDown, h.began, why, why) }
	switch {
	case !h.watches:
		down("its watch does not run")
	case !h.knows:
		down("the cluster has not told yet what it holds")
	}
	for _, what := range slices.Sorted(maps.Keys(h.parts)) {
		if p := h.parts[what]; p.fails() {
			cannot(jobs.HealthDegraded, what, p)
		}
	}
	return out
}

// causeIn says an error without the address that was asked, which is long and all the same.
func causeIn(err error) string {
	text := err.Error()
	if of, is := errors.AsType[*url.Error](err); is {
		return strings.Replace(text, of.Error(), of.Err.Error(), 1)
	}
	return text
}

// classOf says of an error of the cluster what everybody may know: errors name jobs, which
// are tenants', users and addresses.
func classOf(err error) string {
	switch {
	case apierrors.IsForbidden(err):
		return "forbidden"
	case apierrors.IsNotFound(err):
		return "not found"
	case unreachable(err):
		return "unreachable"
	}
	return "refused"
}

// unreachable reports whether the cluster gave no answer, or one that says that it is not
// there: no connection, a time-out, 5xx.
func unreachable(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, errGone)
	}
	return status.Status().Code >= http.StatusInternalServerError || status.Status().Code == 0
}

// lacksRight reports whether RBAC has refused a call, and not a policy what was asked.
func lacksRight(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), " cannot ") && strings.Contains(err.Error(), " resource ")
}

// lacksNamespace reports whether there is no such namespace.
func lacksNamespace(err error) bool {
	return apierrors.IsNotFound(err) && strings.Contains(err.Error(), "namespaces ")
}

// Health says how the runner stands with its cluster, see [jobs.Healthy]. It is down
// while Jobs or pods cannot be watched, and degraded while its events cannot, or calls fail
// that other attempts will make too.
func (r *Runner) Health() jobs.Health { return r.health.of() }

// Waits of calls that the cluster did not answer.
const (
	longestAway = 8 * time.Second // while it can be watched: it may be one server of several
	backWithin  = 2 * time.Second // so many calls are spread that waited for its return
)

// pause waits before a call is repeated that failed with err. While the cluster cannot be
// watched, it waits until that can be again, but no longer than d: so all calls come back
// with the watch, however long they have failed, and fail rarely until then. anew: that
// was so, and waits begin anew.
func (r *Runner) pause(ctx context.Context, d time.Duration, err error) (anew bool, ended error) {
	if _, asked := apierrors.SuggestsClientDelay(err); asked || !unreachable(err) {
		return false, pause.For(ctx, d)
	}
	away, back := r.health.away()
	if !away {
		d = min(d, longestAway)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return false, context.Cause(ctx)
	case <-ctx.Done():
		return false, context.Cause(ctx)
	case <-back:
		return true, pause.For(ctx, time.Duration(rand.Int64N(int64(backWithin)))) //nolint:gosec // it spreads load, and guards nothing
	}
}
