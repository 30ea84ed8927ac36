package shell

import (
	"context"
	"maps"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/engine"
	"github.com/orrery-go/orrery/store"
)

// Running is how many runs of tools and other outer effects are under way in this process, also those that go on after the store was given back
// ([Options].Handover).
func (e *Engine) Running() int64 { return e.loop.Running() }

// Stats is what the engine has counted since it was made, and the present
// totals of the store.
type Stats struct {
	engine.Stats // of the loop
	ActionCounts
	RecurringActive  uint64 // C10: enabled now
	BackfillsRunning uint64
	AlertsOpen       uint64 // schedules of which an alert is open
	ActionsByStatus  map[core.StatusType]uint64
}

// LagLimit is how long something due may wait until the loop takes it up: if it waits longer, the loop does not keep up. It is a
// second, and with [Options.StrictTick] the tick rate besides.
func (e *Engine) LagLimit() time.Duration {
	if e.o.StrictTick {
		return time.Second + e.o.TickRate
	}
	return time.Second
}

// JobStats is what the engine has counted of jobs and their runs since it was
// made, and the present totals of the store (004 Monitoring & Observability).
type JobStats struct {
	RunCounts
	Jobs       uint64                             // enabled
	JobsPaused uint64                             // not enabled
	Runs       map[core.OrchestratorStatus]uint64 // by state, for each of [core.OrchestratorStatuses]
	InCluster  uint64                             // runs that may have something in a cluster
	// CleanupFailing counts the runs of which what is in the cluster could not be deleted so far.
	CleanupFailing uint64
}

// RunbookStats is what the engine has counted of runbooks since it was made, and
// the present totals of the store.
type RunbookStats struct {
	RunbookCounts
	Pipelines  map[core.PhaseType]uint64
	Tasks      map[core.TaskStateType]uint64
	Strategies map[core.StrategyStatus]uint64
}

// Stats reads the counters. It costs a short read transaction.
func (e *Engine) Stats(ctx context.Context) (out Stats, err error) {
	e.counts.with(func(s *counts) { out.ActionCounts = s.actions })
	out.Stats, err = e.loop.Stats(ctx, func(tx store.ReadTx) error {
		t := totals{tx: tx}
		out.RecurringActive = t.of(core.KindRecurring, core.EnabledTerm(true))
		out.BackfillsRunning = t.of(core.KindBackfill, core.StatusTerm(core.BackfillRunning))
		out.AlertsOpen = t.of(core.KindAlert, core.StatusTerm(core.AlertOpen))
		out.ActionsByStatus = totalsBy(&t, core.KindAction,
			core.StatusPending, core.StatusRunning, core.StatusCompleted, core.StatusFailed, core.StatusCancelled)
		return t.err
	})
	return out, err
}

// JobStats reads the counters. It costs a short read transaction.
func (e *Engine) JobStats(ctx context.Context) (out JobStats, err error) {
	e.counts.with(func(s *counts) { out.RunCounts = s.jobs.clone() })
	err = e.store.View(ctx, func(tx store.ReadTx) error {
		t := totals{tx: tx}
		out.Jobs = t.of(core.KindJob, core.EnabledTerm(true))
		out.JobsPaused = t.of(core.KindJob, core.EnabledTerm(false))
		out.InCluster = t.of(core.KindOrchestrator, core.TermInCluster)
		out.CleanupFailing = t.of(core.KindOrchestrator, core.TermCleanupFailed)
		out.Runs = totalsBy(&t, core.KindOrchestrator, core.OrchestratorStatuses()...)
		return t.err
	})
	return out, err
}

// RunbookStats reads the counters. It costs a short read transaction.
func (e *Engine) RunbookStats(ctx context.Context) (out RunbookStats, err error) {
	e.counts.with(func(s *counts) { out.RunbookCounts = s.runbooks.clone() })
	err = e.store.View(ctx, func(tx store.ReadTx) error {
		t := totals{tx: tx}
		out.Pipelines = totalsBy(&t, core.KindPipeline,
			core.PhaseInit, core.PhaseBlocked, core.PhaseRunning, core.PhaseDone, core.PhaseFailure, core.PhaseCancelled)
		out.Tasks = totalsBy(&t, core.KindTask, core.TaskPending, core.TaskRunning, core.TaskStuck, core.TaskDone)
		out.Strategies = totalsBy(&t, core.KindStrategy,
			core.StrategyRunning, core.StrategySucceeded, core.StrategyExhausted, core.StrategyCancelled)
		return t.err
	})
	return out, err
}

// totals reads the present totals of the store, up to the first error.
type totals struct {
	tx  store.ReadTx
	err error
}

// of reads how many machines of a kind stand under an index term.
func (t *totals) of(kind effects.Kind, term string) (n uint64) {
	if t.err == nil {
		n, t.err = t.tx.Count(kind, term)
	}
	return n
}

// totalsBy reads how many machines of a kind have each status.
func totalsBy[T ~string](t *totals, kind effects.Kind, statuses ...T) map[T]uint64 {
	out := make(map[T]uint64, len(statuses))
	for _, st := range statuses {
		out[st] = t.of(kind, core.StatusTerm(core.StatusType(st)))
	}
	return out
}

// Histogram is a snapshot of a distribution of seconds.
type Histogram = engine.Histogram

// LatenessBuckets are the upper bounds, in seconds, of [Stats.Lateness].
var LatenessBuckets = engine.LatenessBuckets

// PhaseBuckets are the upper bounds, in seconds, of [RunbookStats.Phases].
var PhaseBuckets = [...]float64{0.01, 0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600, 6 * 3600, 24 * 3600}

// ActionCounts are what the engine has counted of actions, and of what makes them, since
// it was made.
type ActionCounts struct {
	ActionsCreated, ActionsCompleted     uint64
	ActionsFailed, ActionsCancelled      uint64
	ActionRetries                        uint64 // runs that failed, and are tried again by their policy
	RecurringDispatched, RecurringErrors uint64 // C10
	Webhooks                             uint64 // raw webhooks stored
	// Past times that backfills have dispatched, and that their schedules have refused.
	BackfillDispatched, BackfillRefused uint64
	AlertsRaised                        core.AlertCounts
	// Messages about alerts that were delivered, and that were given up.
	AlertMessagesSent, AlertMessagesLost uint64
}

// countAlerts counts the alerts that were raised.
func (s *counts) countAlerts(was, is core.Alert) {
	for _, kind := range core.AlertKinds() {
		s.actions.AlertsRaised.Add(kind, is.Raised.Of(kind)-was.Raised.Of(kind))
	}
}

// countMessages counts the messages of a digest.
func (s *counts) countMessages(was, is core.Digest) {
	s.actions.AlertMessagesSent += is.Sent - was.Sent
	s.actions.AlertMessagesLost += is.Lost - was.Lost
}

// countBackfill counts the times that a backfill has dispatched.
func (s *counts) countBackfill(was, is core.Backfill) {
	if n := was.Dispatched(); is.Dispatched() > n {
		s.actions.BackfillDispatched += is.Dispatched() - n
	}
	s.actions.BackfillRefused += is.Counts.Refused - was.Counts.Refused
}

// RunCounts are what the engine has counted of jobs and their runs since it was made.
// Counters that a job or a run also keeps in its record grow here by what this engine has
// committed.
type RunCounts struct {
	Ended               map[core.OrchestratorStatus]uint64 // runs that came to a terminal state
	Verdicts            map[core.Verdict]uint64            // about times of schedules; none is waiting
	Triggered           uint64                             // runs made by hand
	Retries             uint64                             // attempts after the first
	ConstraintsChecked  uint64
	ConstraintsViolated uint64
	ConstraintErrors    uint64 // evaluations that failed
	ActionsExecuted     uint64 // also those that failed
	ActionsFailed       uint64
	Heartbeats          uint64
	KubernetesAPICalls  uint64
	CleanupsFailed      uint64 // runs of which something in a cluster could not be deleted at first

	// Distributions of seconds, by [PhaseBuckets]. The first is of attempts, the
	// others of runs that have ended.
	PodStart  Histogram                             // from the creation of a pod until it runs (004 PodStartLatency)
	Execution Histogram                             // of pods, all attempts of a run together; of runs that had one
	Total     map[core.OrchestratorStatus]Histogram // from the creation of a run to its end
}

// OccurrenceKey tells the counters of decided times apart.
type OccurrenceKey struct {
	Schedule effects.Kind // see [core.OccurrenceSchedules]
	Verdict  core.Verdict
}

// OccurrenceCounts are the times that were decided about since the engine was made: each of those
// that an entry of the ledger stands for. A dispatch that turns out to be deduplicated or refused
// in a later batch counts under both verdicts.
type OccurrenceCounts struct {
	Total    map[OccurrenceKey]uint64
	ByTenant map[Scope]map[core.Verdict]uint64
}

// OccurrenceStats reads the counters.
func (e *Engine) OccurrenceStats() (out OccurrenceCounts) {
	e.counts.with(func(s *counts) { out = s.occurrences.clone() })
	return out
}

func (c OccurrenceCounts) clone() OccurrenceCounts {
	byTenant := make(map[Scope]map[core.Verdict]uint64, len(c.ByTenant))
	for of, n := range c.ByTenant { // order-free: it fills a map
		byTenant[of] = maps.Clone(n)
	}
	return OccurrenceCounts{Total: maps.Clone(c.Total), ByTenant: byTenant}
}

// countOccurrence counts the times that have got a verdict in a change of their entry.
func (s *counts) countOccurrence(was, is core.Occurrence) {
	n := is.Count
	if was.Verdict == is.Verdict {
		n = grown(was.Count, is.Count)
	}
	if n == 0 || is.Schedule == "" || is.Verdict == core.VerdictWaiting {
		return
	}
	c := &s.occurrences
	c.Total[OccurrenceKey{is.Schedule, is.Verdict}] += n
	of := Scope{Namespace: is.Namespace, Tenant: is.Tenant}
	if c.ByTenant[of] == nil {
		c.ByTenant[of] = make(map[core.Verdict]uint64)
	}
	c.ByTenant[of][is.Verdict] += n
}

// PhaseKey tells the distributions of phase durations apart: not by names, of
// which there may be any number, but by what the phase does and how it ended.
type PhaseKey struct {
	Kind    string // as [core.PhaseDef.Kind] has it
	Outcome core.PhaseOutcome
}

// RunbookCounts are what the engine has counted of runbooks since it was made.
type RunbookCounts struct {
	// Events counts what was announced on the bus. All kinds of a runbook's own
	// stand under [OtherEvents].
	Events map[effects.EventKind]uint64
	// Phases are the durations of phases that have ended, by [PhaseBuckets].
	Phases map[PhaseKey]Histogram
}

// OtherEvents stands for all kinds of events that are not the machines' own.
var OtherEvents = effects.Custom("custom", "")

// counts count what the observers see. All of it is in memory: it starts at zero with
// the process, as counters of a metrics system do.
type counts struct {
	mu       sync.Mutex
	actions  ActionCounts
	jobs     RunCounts
	runbooks RunbookCounts

	occurrences OccurrenceCounts
}

// init makes the maps.
func (s *counts) init() {
	s.runbooks = RunbookCounts{Events: make(map[effects.EventKind]uint64), Phases: make(map[PhaseKey]Histogram)}
	s.occurrences = OccurrenceCounts{Total: make(map[OccurrenceKey]uint64), ByTenant: make(map[Scope]map[core.Verdict]uint64)}
	s.jobs = RunCounts{
		Ended: make(map[core.OrchestratorStatus]uint64), Verdicts: make(map[core.Verdict]uint64),
		Total: make(map[core.OrchestratorStatus]Histogram),
	}
}

// with has fn read or change the counters while nobody else does.
func (s *counts) with(fn func(s *counts)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fn(s)
}

// clone copies the counters with their maps.
func (c RunCounts) clone() RunCounts {
	c.Ended, c.Verdicts, c.Total = maps.Clone(c.Ended), maps.Clone(c.Verdicts), clonedAll(c.Total)
	c.PodStart, c.Execution = cloned(c.PodStart), cloned(c.Execution)
	return c
}

// clone copies the counters with their maps.
func (c RunbookCounts) clone() RunbookCounts {
	return RunbookCounts{Events: maps.Clone(c.Events), Phases: clonedAll(c.Phases)}
}

// observed adds one observation to a distribution by [PhaseBuckets].
func observed(h Histogram, seconds float64) Histogram {
	h = cloned(h)
	h.Counts[sort.SearchFloat64s(PhaseBuckets[:], seconds)]++
	h.Sum += max(seconds, 0)
	return h
}

// cloned copies a distribution; one that has seen nothing has buckets, too.
func cloned(h Histogram) Histogram {
	if h.Counts == nil {
		h.Counts = make([]uint64, len(PhaseBuckets)+1)
	}
	h.Counts = slices.Clone(h.Counts)
	return h
}

func clonedAll[K comparable](m map[K]Histogram) map[K]Histogram {
	out := make(map[K]Histogram, len(m))
	for k, h := range m {
		out[k] = cloned(h)
	}
	return out
}

// countPhases counts the phases that have ended.
func (s *counts) countPhases(before, after core.Pipeline) {
	for _, r := range newRecords(before.History, after.History) {
		k := PhaseKey{Kind: kindOfPhase(after.Definition, r.Name), Outcome: r.Outcome}
		s.runbooks.Phases[k] = observed(s.runbooks.Phases[k], r.EndedAt.Sub(r.StartedAt).Seconds())
	}
}

// newRecords gives what a history has got: what stands behind its last record of
// before. The oldest ones may have gone meanwhile.
func newRecords(before, after []core.PhaseRecord) []core.PhaseRecord {
	if len(before) == 0 {
		return after
	}
	last := before[len(before)-1]
	for i, r := range slices.Backward(after) {
		if r == last {
			return after[i+1:]
		}
	}
	return after
}

// kindOfPhase gives what a phase does.
func kindOfPhase(d core.PipelineDef, name string) string {
	i := slices.IndexFunc(d.Phases, func(p core.PhaseDef) bool { return p.Name == name })
	if i < 0 {
		return ""
	}
	return d.Phases[i].Kind()
}

// countJob counts the verdicts about times of a job's schedule.
func (s *counts) countJob(before, after core.Job) {
	was, is := before.Counts, after.Counts
	s.jobs.Verdicts[core.VerdictDispatched] += grown(was.Dispatched, is.Dispatched)
	s.jobs.Verdicts[core.VerdictMissed] += grown(was.Missed, is.Missed)
	s.jobs.Verdicts[core.VerdictSkipped] += grown(was.Skipped, is.Skipped)
	s.jobs.Verdicts[core.VerdictCancelled] += grown(was.VerdictCancelled, is.VerdictCancelled)
	s.jobs.Verdicts[core.VerdictExpired] += grown(was.VerdictExpired, is.VerdictExpired)
	s.jobs.Verdicts[core.VerdictDeduplicated] += grown(was.Deduplicated, is.Deduplicated)
}
