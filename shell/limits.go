package shell

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/engine"
)

// Limits keep one tenant's work from stopping another's. The zero value bounds
// nothing.
type Limits struct {
	// MaxLaneShare is the part of the slots of a tool, or of another lane, that one
	// tenant may hold of those that other tenants do not hold, but always one (default
	// 1: all). With 0.75 and 64 slots one tenant holds at most 48, a second one then at
	// most 12 of the other 16, a third one 3, and a fourth one the last: so three leave a
	// slot free for who has none, four do not.
	MaxLaneShare float64
	// Weights say how many slots of a lane a tenant has for one of another's while both
	// wait for some; a tenant that is not listed has 1.
	Weights map[Scope]int
	// MaxTimeout bounds the time of a run of a tool, whatever its action asks for, and also
	// if it asks for none (default 0: no bound); MaxTimeouts those of some tenants, 0 for
	// none. An action that was stored before is bound from its next run on.
	MaxTimeout  time.Duration
	MaxTimeouts map[Scope]time.Duration
	// Live bounds what machines make, such as the actions of a schedule, the runs of a
	// job and the children of a pipeline or worker: a tenant that has as many as it may
	// have gets no more of them, and who was to make one says so ([core.Batch.Bound]).
	// Lives are those of some tenants, instead of Live. They have the engine count as
	// Count does; while that has not counted all, more is made. What is asked for from
	// outside is not bound by them, but for a run by hand of a job or a recurring action.
	Live  LiveLimits
	Lives map[Scope]LiveLimits
	// Count has the engine count what each tenant has, for [Engine.Usage]. At the start
	// it reads all records once, part by part and beside its work: see [Engine.UsageState].
	Count bool
}

// LiveLimits bound what a tenant has and what has not ended, where machines would make
// more; zero fields bound nothing.
type LiveLimits struct {
	Actions, Runs, Pipelines, Tasks, Strategies int64
	StoredBytes                                 int64 // see [Usage]; bounds all of them
}

// check lists what is wrong.
func (l Limits) check() (errs []error) {
	of := func(name string, v LiveLimits) {
		for _, n := range []int64{v.Actions, v.Runs, v.Pipelines, v.Tasks, v.Strategies, v.StoredBytes} {
			if n < 0 {
				errs = append(errs, fmt.Errorf("shell: Options.Limits.%s: %d must not be negative", name, n))
			}
		}
	}
	of("Live", l.Live)
	for _, scope := range slices.SortedFunc(maps.Keys(l.Lives), Scope.Compare) {
		of(fmt.Sprintf("Lives[%q, %q]", scope.Namespace, scope.Tenant), l.Lives[scope])
	}
	return errs
}

// bindsMachines reports whether anything that machines make is bound.
func (l Limits) bindsMachines() bool {
	if l.Live != (LiveLimits{}) {
		return true
	}
	for _, v := range l.Lives { // order-free: any will do
		if v != (LiveLimits{}) {
			return true
		}
	}
	return false
}

// allowance gives what a tenant that has that may still have.
func (l Limits) allowance(of Scope, kind effects.Kind, has Usage) core.Allowance {
	live, own := l.Lives[of]
	if !own {
		live = l.Live
	}
	if live.StoredBytes > 0 && has.StoredBytes >= live.StoredBytes {
		return core.Allowance{Most: live.StoredBytes, What: "bytes that are stored (max_stored_bytes)"}
	}
	bound := func(has, most int64, what string) core.Allowance {
		if most == 0 {
			return core.Allowance{}
		}
		return core.Allowance{Left: most - has, Most: most, What: what}
	}
	switch kind {
	case core.KindAction:
		return bound(has.LiveActions, live.Actions, "actions that have not ended (max_live_actions)")
	case core.KindOrchestrator:
		return bound(has.LiveRuns, live.Runs, "runs that have not ended (max_live_runs)")
	case core.KindPipeline:
		return bound(has.LivePipelines, live.Pipelines, "pipelines that have not ended (max_live_pipelines)")
	case core.KindTask:
		return bound(has.LiveTasks, live.Tasks, "tasks that have not ended (max_live_tasks)")
	case core.KindStrategy:
		return bound(has.LiveStrategies, live.Strategies, "strategies that have not ended (max_live_strategies)")
	}
	return core.Allowance{}
}

// allowed is the engine's [engine.Hooks.Allowed].
func (e *Engine) allowed(of Scope, kind effects.Kind) core.Allowance {
	e.usages.mu.Lock()
	has := e.usages.shown.of[of]
	e.usages.mu.Unlock()
	return e.o.Limits.allowance(of, kind, has)
}

// limited counts what machines did not make because of a limit, and says it once a
// minute for each tenant and kind.
func (e *Engine) limited(in core.Input, full []core.Full) {
	now := e.o.Clock.Steady()
	for _, f := range full {
		of := limitedOf{Scope{Namespace: f.Namespace, Tenant: f.Tenant}, f.Kind}
		e.usages.mu.Lock()
		if e.usages.limited == nil {
			e.usages.limited = make(map[limitedOf]limitedCount)
		}
		c := e.usages.limited[of]
		say := c.n == 0 || now.Sub(c.said) >= time.Minute
		if c.n += f.Refused; say {
			c.said = now
		}
		e.usages.limited[of] = c
		e.usages.mu.Unlock()
		if say {
			e.log.Warn("a machine is not made: its tenant has as many as its limit allows",
				"kind", string(f.Kind), "namespace", f.Namespace, "tenant", f.Tenant, "by", in.To.String(), "reason", f.Reason)
		}
	}
}

// hasRoom refuses the pipeline of an action if its tenant has as many as it may have.
func (e *Engine) hasRoom(of Scope, id uuid.UUID) error {
	a := e.allowed(of, core.KindPipeline)
	if a.What == "" || a.Left > 0 {
		return nil
	}
	ref := effects.Ref{Kind: core.KindPipeline, ID: id}
	refused := Refusal{To: ref, Event: core.PipelineCreate{}.EventType(), Code: effects.CodeLimited, Reason: a.Reason()}
	e.limited(core.Input{To: ref}, []core.Full{{Namespace: of.Namespace, Tenant: of.Tenant, Kind: ref.Kind, Reason: refused.Reason, Refused: 1}})
	return &refused
}

// limitedOf names what is counted of the limits that machines have met.
type limitedOf struct {
	of   Scope
	kind effects.Kind
}

type limitedCount struct {
	n    uint64
	said time.Time
}

// Limited gives how many machines other machines did not make because of
// [Limits.Live], by their tenant, since the start.
func (e *Engine) Limited() map[Scope]uint64 {
	e.usages.mu.Lock()
	defer e.usages.mu.Unlock()
	out := make(map[Scope]uint64)
	for of, c := range e.usages.limited { // order-free: sums
		out[of.of] += c.n
	}
	return out
}

// weights gives the weights by the names that the loop has for tenants.
func (l Limits) weights() map[string]int {
	out := make(map[string]int, len(l.Weights))
	for scope, n := range l.Weights { // order-free: it fills a map
		out[engine.ShareOf(scope)] = n
	}
	return out
}

// timeout gives the time limit of a run that asks for one; 0: none.
func (l Limits) timeout(of Scope, asked time.Duration) time.Duration {
	most, own := l.MaxTimeouts[of]
	if !own {
		most = l.MaxTimeout
	}
	if most > 0 && (asked == 0 || asked > most) {
		return most
	}
	return asked
}
