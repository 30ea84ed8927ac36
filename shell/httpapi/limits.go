package httpapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/core/schedule"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

// Limits bound what tokens that are not an admin's may ask for. They act before anything
// is journaled: what is stored goes on, however they change.
type Limits struct {
	// Default holds for each tenant that is not in Overrides, and for each token that is
	// bound to no single namespace and tenant.
	Default   TenantLimits
	Overrides map[shell.Scope]TenantLimits
}

// TenantLimits bound what one tenant may ask for; zero fields bound nothing. The tokens
// that are bound to one tenant share its rates; each other token has rates of its own.
type TenantLimits struct {
	RequestsPerSecond float64
	RequestBurst      int // requests at once (default: those of a second, at least 1)
	InputsPerSecond   float64
	InputBurst        int // requests that change something, and webhooks, at once (default likewise)

	// Schedules to StoredBytes bound what the tenant has, see [shell.Usage]: more is not
	// taken from outside. They take [shell.Limits.Count]. What machines make is bound by
	// [shell.Limits.Live].
	Schedules, LiveActions, LiveRuns, LivePipelines int64
	LiveTasks, LiveStrategies, StoredBytes          int64
	MinScheduleInterval                             time.Duration // between two times of a schedule

	// Ceilings of the fields timeout_ms, timeout_seconds, total_timeout_seconds;
	// max_attempts; and max_output_bytes, wherever a request has them.
	MaxTimeout     time.Duration
	MaxAttempts    int64
	MaxOutputBytes int64
}

// of gives the limits of a tenant.
func (l *Limits) of(scope shell.Scope) *TenantLimits {
	if t, ok := l.Overrides[scope]; ok {
		return &t
	}
	return &l.Default
}

func (l *Limits) check() (errs []error) {
	of := func(name string, t TenantLimits) {
		for field, v := range map[string]float64{
			"RequestsPerSecond": t.RequestsPerSecond, "RequestBurst": float64(t.RequestBurst),
			"InputsPerSecond": t.InputsPerSecond, "InputBurst": float64(t.InputBurst),
			"Schedules": float64(t.Schedules), "LiveActions": float64(t.LiveActions),
			"LiveRuns": float64(t.LiveRuns), "LivePipelines": float64(t.LivePipelines), "LiveTasks": float64(t.LiveTasks),
			"LiveStrategies": float64(t.LiveStrategies), "StoredBytes": float64(t.StoredBytes),
			"MinScheduleInterval": float64(t.MinScheduleInterval), "MaxTimeout": float64(t.MaxTimeout),
			"MaxAttempts": float64(t.MaxAttempts), "MaxOutputBytes": float64(t.MaxOutputBytes),
		} {
			if !(v >= 0) || math.IsInf(v, 0) {
				errs = append(errs, fmt.Errorf("httpapi: Options.Limits.%s.%s is %v: it must not be negative", name, field, v))
			}
		}
	}
	of("Default", l.Default)
	for scope, t := range l.Overrides {
		of(fmt.Sprintf("Overrides[%q, %q]", scope.Namespace, scope.Tenant), t)
	}
	slices.SortFunc(errs, func(a, b error) int { return cmp.Compare(a.Error(), b.Error()) })
	return errs
}

// counts reports whether a limit takes what [shell.Limits.Count] counts.
func (t *TenantLimits) counts() bool {
	return t.Schedules > 0 || t.LiveActions > 0 || t.LiveRuns > 0 || t.LivePipelines > 0 || t.LiveTasks > 0 || t.LiveStrategies > 0 || t.StoredBytes > 0
}

// rates are the buckets of all tokens and webhooks, of which there are as many as the
// configuration names.
type rates struct {
	mu      sync.Mutex
	buckets map[string]*rate.Limiter
	refused map[string]uint64
}

const (
	requestRate = "requests"
	inputRate   = "inputs"
)

// bucketOf names whose rates and whose requests under way a token counts as: its
// tenant's if it is bound to one, else its own.
func bucketOf(t *Token) (name string, scope shell.Scope) {
	if of := t.scope(nil, nil); of != nil && !t.Admin {
		return "tenant\x00" + of.Namespace + "\x00" + of.Tenant, *of
	}
	return "token\x00" + t.Name, shell.Scope{}
}

// limiter gives the bucket of that name; nil if nothing is bound.
func (r *rates) limiter(name, what string, perSecond float64, burst int) *rate.Limiter {
	if perSecond <= 0 {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	key := what + "\x00" + name
	l := r.buckets[key]
	if l == nil {
		if r.buckets == nil {
			r.buckets = make(map[string]*rate.Limiter)
		}
		l = rate.NewLimiter(rate.Limit(perSecond), cmp.Or(burst, max(int(perSecond), 1)))
		r.buckets[key] = l
	}
	return l
}

// inputBytes is how much of a body counts as one input: what a large one costs to read,
// check and store grows with its size.
const inputBytes = 64 << 10

// inputsOf is how many inputs a request with a body of that size is; -1: it is not
// declared, so it may be the largest.
func (s *Server) inputsOf(size int64) int {
	if size < 0 {
		size = s.o.MaxBodyBytes
	}
	return 1 + int(min(size, s.o.MaxBodyBytes)/inputBytes)
}

// charge takes a request of a token into account, before its body of that size is read.
func (s *Server) charge(h http.Header, rt access, t *Token, size int64) error {
	if t == nil || t.Admin {
		return nil
	}
	name, scope := bucketOf(t)
	lim := s.o.Limits.of(scope)
	if err := s.chargeRate(h, name, requestRate, 1, lim.RequestsPerSecond, lim.RequestBurst); err != nil {
		return err
	}
	if who := rt.who(); who == writingToken || who == unboundWritingToken {
		return s.chargeRate(h, name, inputRate, s.inputsOf(size), lim.InputsPerSecond, lim.InputBurst)
	}
	return nil
}

// chargeWebhook takes a webhook whose signature is right into account, which is an input of
// its route's tenant.
func (s *Server) chargeWebhook(h http.Header, of shell.Scope, size int) error {
	name, _ := bucketOf(&Token{Namespaces: []string{of.Namespace}, Tenants: []string{of.Tenant}})
	lim := s.o.Limits.of(of)
	return s.chargeRate(h, name, inputRate, 1+size/inputBytes, lim.InputsPerSecond, lim.InputBurst)
}

// admitsWebhook refuses a webhook that is beyond the limits of its route's tenant. Its
// signature is right.
func (s *Server) admitsWebhook(ctx context.Context, h http.Header, route string, size int) error {
	r, ok := s.engine.Webhooks().Route(route)
	if !ok {
		return nil
	}
	of := shell.Scope{Namespace: r.Namespace, Tenant: r.Tenant}
	if err := s.chargeWebhook(h, of, size); err != nil {
		return err
	}
	return s.usageWithin(ctx, s.o.Limits.of(of), of, want{actions: 1})
}

// chargeRate takes so many off a bucket, but no more than it ever holds, and says in the
// headers what is left (draft-ietf-httpapi-ratelimit-headers).
func (s *Server) chargeRate(h http.Header, name, what string, n int, perSecond float64, burst int) error {
	l := s.rates.limiter(name, what, perSecond, burst)
	if l == nil {
		return nil
	}
	now := s.o.Clock.Steady()
	n = min(n, l.Burst())
	ok := l.AllowN(now, n)
	left := s.tellRate(h, what, l, now)
	if ok {
		return nil
	}
	return s.beyondRate(what, l, float64(n)-left)
}

// tellRate says in the headers what is left of a bucket, and gives it.
func (s *Server) tellRate(h http.Header, what string, l *rate.Limiter, now time.Time) (left float64) {
	left, quota := max(l.TokensAt(now), 0), float64(l.Burst())
	seconds := func(tokens float64) int { return int(math.Ceil(tokens / float64(l.Limit()))) }
	set := func(name, format string, args ...any) {
		own := strconv.Quote(what) + ";"
		h[name] = append(slices.DeleteFunc(h[name], func(v string) bool { return strings.HasPrefix(v, own) }), own+fmt.Sprintf(format, args...))
	}
	set("Ratelimit-Policy", "q=%d;w=%d", l.Burst(), max(seconds(quota), 1))
	set("Ratelimit", "r=%d;t=%d", int(left), seconds(quota-left))
	return left
}

// beyondRate refuses what takes so many more than a bucket has.
func (s *Server) beyondRate(what string, l *rate.Limiter, missing float64) error {
	s.rates.mu.Lock()
	if s.rates.refused == nil {
		s.rates.refused = make(map[string]uint64)
	}
	s.rates.refused[what]++
	s.rates.mu.Unlock()
	return failf(http.StatusTooManyRequests, "%s: more than %v a second: see limits.%s_per_second of the daemon", what, float64(l.Limit()), what).
		with("Retry-After", strconv.Itoa(max(int(math.Ceil(missing/float64(l.Limit()))), 1)))
}

// chargeEntries takes the entries of a request into account, of which the request itself was
// the first: each is an input. It gives how many of them are admitted, and the error of the
// others. If all of them are to be, more than the bucket ever holds are refused for good.
func (s *Server) chargeEntries(h http.Header, t *Token, n int, all bool) (admitted int, refused error) {
	if t.Admin {
		return n, nil
	}
	name, scope := bucketOf(t)
	lim := s.o.Limits.of(scope)
	l := s.rates.limiter(name, inputRate, lim.InputsPerSecond, lim.InputBurst)
	if l == nil {
		return n, nil
	}
	if all && n > l.Burst() {
		return 0, failf(http.StatusBadRequest, "inputs: %d entries are more than the %d inputs at once that the tenant may send: send fewer in one request (limits.input_burst of the daemon)", n, l.Burst())
	}
	now := s.o.Clock.Steady()
	for more := n - 1; ; {
		left := max(l.TokensAt(now), 0)
		taken := min(more, int(left))
		switch {
		case all && taken < more:
			return 0, s.beyondRate(inputRate, l, float64(more)-left)
		case !l.AllowN(now, taken): // somebody was quicker
			continue
		}
		s.tellRate(h, inputRate, l, now)
		if taken < more {
			return 1 + taken, s.beyondRate(inputRate, l, 1)
		}
		return n, nil
	}
}

// chargeSet takes the declarations of a set into account, of which the request itself was the first: each is an
// input. They are no more than a full bucket has left after the request, since a set is not made in parts.
func (s *Server) chargeSet(h http.Header, t *Token, size int64, n int) error {
	if t.Admin {
		return nil
	}
	name, scope := bucketOf(t)
	lim := s.o.Limits.of(scope)
	l := s.rates.limiter(name, inputRate, lim.InputsPerSecond, lim.InputBurst)
	if l == nil {
		return nil
	}
	first := s.inputsOf(size)
	if n = min(n-1, l.Burst()-first); n < 1 {
		return nil
	}
	now := s.o.Clock.Steady()
	ok := l.AllowN(now, n)
	left := s.tellRate(h, inputRate, l, now)
	if ok {
		return nil
	}
	return s.beyondRate(inputRate, l, float64(n+first)-left) // the request itself comes again, too
}

// want is what a request would add to what a tenant has, and asks for.
type want struct {
	schedules, actions, runs, pipelines, tasks, strategies int64
	bytes                                                  int64 // that are stored before it, at least

	schedule func() (*schedule.Schedule, error) // of what it makes; nil: none
	asked    any                                // the spec in which ceilings are looked for
}

// and is what two want together of actions, schedules and bytes.
func (w want) and(v want) want {
	return want{schedules: w.schedules + v.schedules, actions: w.actions + v.actions, bytes: w.bytes + v.bytes}
}

// within refuses what is beyond the tenant's limits. Usage is as of the last commit, so
// requests that come together may pass it by as many as they are.
func (s *Server) within(ctx context.Context, t *Token, of shell.Scope, w want) error {
	if t == nil || t.Admin {
		return nil
	}
	lim := s.o.Limits.of(of)
	if err := lim.ceilings(w.asked); err != nil {
		return err
	}
	if err := s.intervalWithin(lim, w); err != nil {
		return err
	}
	return s.unlessAnswered(ctx, s.usageWithin(ctx, lim, of, w))
}

// retryFull is how many seconds to wait if a tenant is full: something ends by then, or is
// forgotten.
const retryFull = "60"

func (s *Server) usageWithin(ctx context.Context, lim *TenantLimits, of shell.Scope, w want) error {
	if !lim.counts() {
		return nil
	}
	u, err := s.engine.Usage(ctx, of)
	if err != nil {
		return err
	}
	for _, b := range []struct {
		key             string
		what            string
		has, adds, most int64
	}{
		{"max_schedules", "recurring actions and jobs", u.Schedules, w.schedules, lim.Schedules},
		{"max_live_actions", "actions that have not ended", u.LiveActions, w.actions, lim.LiveActions},
		{"max_live_runs", "runs that have not ended", u.LiveRuns, w.runs, lim.LiveRuns},
		{"max_live_pipelines", "pipelines that have not ended", u.LivePipelines, w.pipelines, lim.LivePipelines},
		{"max_live_tasks", "tasks that have not ended", u.LiveTasks, w.tasks, lim.LiveTasks},
		{"max_live_strategies", "strategies that have not ended", u.LiveStrategies, w.strategies, lim.LiveStrategies},
		{"max_stored_bytes", "bytes that are stored", u.StoredBytes, 1 + w.bytes, lim.StoredBytes},
	} {
		if b.most > 0 && b.adds > 0 && b.has+b.adds > b.most {
			return failf(http.StatusTooManyRequests, "tenant: %q of namespace %q has %d %s: limits.%s of the daemon allows %d",
				clip(of.Tenant), clip(of.Namespace), b.has, b.what, b.key, b.most).with("Retry-After", retryFull)
		}
	}
	return nil
}

// previewed is how many times of a schedule are looked at for the shortest interval.
const previewed = 400

// intervalWithin refuses a schedule two of whose next times are too near.
func (s *Server) intervalWithin(lim *TenantLimits, w want) error {
	if lim.MinScheduleInterval <= 0 || w.schedule == nil {
		return nil
	}
	sched, err := w.schedule()
	if err != nil || sched == nil {
		return nil //nolint:nilerr // the machine says what is wrong with it
	}
	times := sched.Preview(s.now(), previewed)
	for i := 1; i < len(times); i++ {
		if gap := times[i].Sub(times[i-1]); gap < lim.MinScheduleInterval {
			return failf(http.StatusBadRequest, "schedule: %s to %s is %s: limits.min_schedule_seconds of the daemon asks for %s at least",
				times[i-1], times[i], gap, lim.MinScheduleInterval)
		}
	}
	return nil
}

// cron gives the schedule of an expression in a zone, with the options that say which times it
// means; nil if there is none.
func (s *Server) cron(spec schedule.Spec) func() (*schedule.Schedule, error) {
	if spec.Expr == "" {
		return nil
	}
	return func() (*schedule.Schedule, error) {
		spec.Anchor = s.now()
		return spec.Compile()
	}
}

// recurrenceOf gives the schedule of an action that recurs.
func recurrenceOf(spec *core.ActionSpec, now effects.Time) func() (*schedule.Schedule, error) {
	recurs := spec.Recurrence // and not all of the spec, which would be copied for it
	if recurs.IsZero() {
		return nil
	}
	return func() (*schedule.Schedule, error) {
		if recurs.Period > 0 {
			return schedule.Every(recurs.Period, now)
		}
		return schedule.Parse(recurs.Cron, recurs.Timezone, now)
	}
}

// showLimits answers with what the caller's tenants have and may have.
func (s *Server) showLimits(w http.ResponseWriter, r *http.Request, c *call) error {
	if _, err := readQuery(r); err != nil {
		return err
	}
	all, err := s.engine.Usages(r.Context())
	if err != nil && !errors.Is(err, shell.ErrNotCounted) {
		return err
	}
	state := s.engine.UsageState()
	out := wire.LimitsList{Counted: state.Counted, Gaps: state.Gaps, Tenants: []wire.TenantLimits{}}
	seen := map[shell.Scope]bool{}
	add := func(of shell.Scope) {
		if !seen[of] && c.token.seesScope(of.Namespace, of.Tenant) {
			seen[of] = true
			out.Tenants = append(out.Tenants, shownLimits(of, all[of], s.o.Limits.of(of)))
		}
	}
	for of := range all { // order-free: sorted below
		add(of)
	}
	for of := range s.o.Limits.Overrides { // order-free: sorted below
		add(of)
	}
	if of := c.token.scope(nil, nil); of != nil {
		add(*of)
	}
	slices.SortFunc(out.Tenants, func(a, b wire.TenantLimits) int {
		return cmp.Or(cmp.Compare(b.Usage.StoredBytes, a.Usage.StoredBytes), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Tenant, b.Tenant))
	})
	if more := len(out.Tenants) - maxShownTenants; more > 0 {
		out.Tenants, out.LeftOut = out.Tenants[:maxShownTenants], more
	}
	return writeJSON(w, http.StatusOK, out)
}

// maxShownTenants bounds the tenants of one answer: those that store the most.
const maxShownTenants = 1000

func shownLimits(of shell.Scope, u shell.Usage, l *TenantLimits) wire.TenantLimits {
	return wire.TenantLimits{
		Namespace: of.Namespace, Tenant: of.Tenant,
		Usage: wire.TenantUsage{
			Schedules: u.Schedules, LiveActions: u.LiveActions, LiveRuns: u.LiveRuns, LivePipelines: u.LivePipelines,
			LiveTasks: u.LiveTasks, LiveStrategies: u.LiveStrategies, Queues: u.Queues, StoredBytes: u.StoredBytes,
		},
		Limits: wire.TenantBounds{
			RequestsPerSecond: l.RequestsPerSecond, InputsPerSecond: l.InputsPerSecond,
			MaxSchedules: l.Schedules, MaxLiveActions: l.LiveActions, MaxLiveRuns: l.LiveRuns,
			MaxLivePipelines: l.LivePipelines, MaxLiveTasks: l.LiveTasks, MaxLiveStrategies: l.LiveStrategies, MaxStoredBytes: l.StoredBytes,
			MinScheduleSeconds: l.MinScheduleInterval.Seconds(), MaxTimeoutSeconds: l.MaxTimeout.Seconds(),
			MaxAttempts: l.MaxAttempts, MaxOutputBytes: l.MaxOutputBytes,
		},
	}
}
