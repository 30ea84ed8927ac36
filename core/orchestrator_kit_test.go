package core_test

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

var _ = register(core.KindOrchestrator, kit{
	typ:     "Orchestrator",
	absent:  core.Orchestrator{},
	apply:   applying(core.Orchestrator.Apply),
	made:    func() core.State { return madeRun(goldenJobSpec()) },
	hostile: hostileRun,
	draw:    drawRunEvent,
	own:     core.OrchestratorDue{},
	states:  goldenRunStates,
	events:  goldenRunEvents,
	phase:   func(s core.State) string { return string(s.(core.Orchestrator).State) },
	// Those in which a run rests; TestEveryStateAndEventIsDecidedAsTheTableSays has the others too.
	phases: []string{
		"absent", "pre_run", "pending", "condition_running", "action_running", "container_creating", "running", "terminating", "retrying",
		"completed", "failed", "cancelled", "orphaned",
	},
	invariants: []invariant{
		on("Only edges of the map are taken, each is announced, and PreviousState is where the last one began.", func(s step, b, a core.Orchestrator) string {
			path := []core.OrchestratorStatus{b.State}
			for _, to := range entered(s) {
				from := path[len(path)-1]
				if !slices.Contains(mapOf004[from], to) && (from != "" || to != core.OrchestratorPreRun) {
					return fmt.Sprintf("%q → %q is no edge", from, to)
				}
				path = append(path, to)
			}
			if !exists(a) || len(path) == 1 {
				return unless(!exists(a) || a.State == b.State && a.PreviousState == b.PreviousState, "%s → %s, unannounced", b.State, a.State)
			}
			return unless(a.State == path[len(path)-1] && a.PreviousState == path[len(path)-2], "%v, but the state is %s after %s", path, a.State, a.PreviousState)
		}),
		on("A run that has ended stays so, but for expire.", func(s step, b, a core.Orchestrator) string {
			_, expire := s.event.(core.OrchestratorExpire)
			return unless(!b.State.Terminal() || expire || a.State == b.State, "%s → %s", b.State, a.State)
		}),
		on("The end is told once to the bus, the job and the scheduler: with the entry into it; and to the occurrence: then, or if the job gave the run a slot as it ended, when the run hears of that.", func(s step, b, a core.Orchestrator) string {
			var ends, forgets, settles int
			if a.State.Terminal() && !b.State.Terminal() {
				ends, forgets = 1, 1
				if a.State == core.OrchestratorOrphaned {
					forgets = 0
				}
			}
			if a.State.Terminal() && a.Occurrence != uuid.Nil && (!b.State.Terminal() || b.Occurrence == uuid.Nil) {
				settles = 1
			}
			bus := 0
			for _, state := range entered(s) {
				if state.Terminal() {
					bus++
				}
			}
			return unless(bus == ends && len(sends[core.JobRunEnded](s)) == ends && len(sends[core.SchedulerForget](s)) == forgets && len(sends[core.OccurrenceSettle](s)) == settles,
				"%s → %s with %v", b.State, a.State, s.effs)
		}),
		on("The metrics are announced once, after the end.", func(s step, b, a core.Orchestrator) string {
			want := 0
			if a.Reported && !b.Reported {
				want = 1
			}
			ok := len(emitted(s, "run:metrics")) == want && (!a.Reported || a.State.Terminal()) && (a.Reported || !b.Reported || !exists(a))
			return unless(ok, "%s, reported %t → %t with %v", a.State, b.Reported, a.Reported, s.effs)
		}),
		on("RetryAttempt never exceeds the configured number of retries, and grows by one with each step from retrying to pending.", func(s step, b, a core.Orchestrator) string {
			if !exists(a) {
				return ""
			}
			want := b.RetryAttempt
			if b.State == core.OrchestratorRetrying && slices.Contains(entered(s), core.OrchestratorPending) {
				want++
			}
			return unless(a.RetryAttempt == want && a.RetryAttempt <= a.Config.RetryConfig.MaxRetries && a.Metrics.RetryAttempt == a.RetryAttempt, "%d → %d of %d", b.RetryAttempt, a.RetryAttempt, a.Config.RetryConfig.MaxRetries)
		}),
		on("Nothing is in a cluster, nor asked for there, but from container_creating to terminating, and if a run has left something: an orphaned one, or one whose pod has ended and could not be deleted.", func(_ step, _, a core.Orchestrator) string {
			asked := false
			for _, e := range core.Outstanding(a) {
				switch e.(type) {
				case effects.CreateRun, effects.FetchLogs, effects.DeleteRun:
					asked = true
				}
			}
			listed := slices.ContainsFunc(a.Terms(), func(t effects.Term) bool { return t.Name == core.TermInCluster })
			may := slices.Contains([]core.OrchestratorStatus{core.OrchestratorContainerCreating, core.OrchestratorRunning, core.OrchestratorTerminating, core.OrchestratorOrphaned}, a.State) || leavesRemains(a)
			return unless((!asked || a.InCluster) && (!a.InCluster || may) && listed == a.InCluster, "%s, in cluster %t, listed %t, waits for %v", a.State, a.InCluster, listed, waitedFor(a))
		}),
		on("A run is completed, failed or cancelled only if nothing of it is in a cluster, or its pod has ended, or an operator has abandoned it; a further attempt begins only if nothing is, and never while a pod that was abandoned may live.", func(_ step, b, a core.Orchestrator) string {
			harmless := !a.InCluster || !a.State.Terminal() || a.State == core.OrchestratorOrphaned || a.Pod.ExitCode != nil
			alone := a.State != core.OrchestratorRetrying && a.RetryAttempt == b.RetryAttempt || !b.InCluster || !a.InCluster
			if !b.Cleanup.AbandonedAt.IsZero() && b.Pod.ExitCode == nil {
				alone = alone && a.RetryAttempt == b.RetryAttempt && a.State != core.OrchestratorRetrying
			}
			return unless(harmless && alone && (a.State != core.OrchestratorRetrying || !a.InCluster), "%s → %s, attempt %d → %d, in cluster %t → %t", b.State, a.State, b.RetryAttempt, a.RetryAttempt, b.InCluster, a.InCluster)
		}),
		on("Cleanup says that a deletion has failed if and only if cleanup_failed was announced, and neither cleaned_up nor cleanup_abandoned was since.", func(s step, b, a core.Orchestrator) string {
			failed, cleaned := len(emitted(s, "run:cleanup_failed")), len(emitted(s, "run:cleaned_up"))+len(emitted(s, "run:cleanup_abandoned"))
			listed := slices.ContainsFunc(a.Terms(), func(t effects.Term) bool { return t.Name == core.TermCleanupFailed })
			is := a.Cleanup.Failing()
			ok := failed <= 1 && cleaned <= 1 && (failed == 1) == (is && !b.Cleanup.Failing()) && (cleaned == 1) == (b.Cleanup.Failing() && !is) &&
				listed == is && (!is || a.InCluster && a.Cleanup.Failures > 0 && (a.Cleanup.RetryAt.IsZero() || a.Cleanup.RetryAt > s.clock.Now || a.Cleanup == b.Cleanup))
			return unless(ok, "%+v → %+v, in cluster %t, listed %t, with %v", b.Cleanup, a.Cleanup, a.InCluster, listed, s.effs)
		}),
		on("At most one effect is waited for, and after the end only by a run that cleans up.", func(s step, b, a core.Orchestrator) string {
			if !exists(a) {
				return unless(len(waitedFor(b)) == 0 && !b.InCluster, "%v is lost", waitedFor(b))
			}
			if problem := numbered(s, b.Pending, a.Pending, 1); problem != "" {
				return problem
			}
			return unless(!a.State.Terminal() || len(waitedFor(a)) == 0 || (a.State == core.OrchestratorOrphaned || leavesRemains(a)) && a.InCluster, "%s waits for %v", a.State, waitedFor(a))
		}),
		on("Actions are taken one after the other, each is noted once, and those that are left wait for the one that is asked for.", func(s step, b, a core.Orchestrator) string {
			if !exists(a) {
				return ""
			}
			taken := a.Metrics.ActionsExecuted - b.Metrics.ActionsExecuted
			if len(emitted(s, "run:action")) != int(taken) {
				return fmt.Sprintf("%d were taken, and announced %v", taken, s.effs)
			}
			for i, r := range a.Actions {
				if want := a.Metrics.ActionsExecuted - uint32(len(a.Actions)-1-i); r.N != want {
					return fmt.Sprintf("action %d has the number %d, want %d", i, r.N, want)
				}
			}
			var open []string
			for _, e := range core.Outstanding(a) {
				if act, ok := e.(effects.TakeAction); ok {
					open = append(open, act.Constraint+act.Type)
				}
			}
			var next []string
			if len(a.ToTake) > 0 {
				next = []string{a.ToTake[0].Constraint + a.ToTake[0].Type}
			}
			return unless(slices.Equal(open, next), "asked for %q, next is %q", open, next)
		}),
		on("A due event leaves no deadline that has come.", func(s step, _, a core.Orchestrator) string {
			if _, due := s.event.(core.OrchestratorDue); !due || refusal(s.effs) != nil || a.State == core.OrchestratorRetrying {
				return ""
			}
			return unless(a.Deadline().IsZero() || a.Deadline() > s.clock.Now, "due at %s, at %s", a.Deadline(), s.clock.Now)
		}),
		on("The configuration changes only in pre_run.", func(_ step, b, a core.Orchestrator) string {
			was, is := fieldsOf(b.RunSpec), fieldsOf(a.RunSpec)
			return unless(!exists(b) || !exists(a) || was == is || b.State == core.OrchestratorPreRun, "%s → %s", was, is)
		}),
		on("Each lock that was taken for the run is given back once, when nothing of it can run any more: at its end, or once an orphaned run has cleaned up.", func(s step, b, a core.Orchestrator) string {
			var released []effects.Ref
			for _, e := range s.effs {
				if send, ok := e.(effects.Send); ok {
					if r, ok := send.Event.(core.LockRelease); ok && r == (core.LockRelease{Holder: "run:" + a.ID.String()}) {
						released = append(released, send.To)
					}
				}
			}
			over := a.State.Terminal() && (!a.InCluster || leavesRemains(a))
			if !over || len(sends[core.LockRelease](s)) != len(released) {
				return unless(len(sends[core.LockRelease](s)) == 0 && subset(b.Locks, a.Locks), "%s, %q → %q with %v", a.State, b.Locks, a.Locks, s.effs)
			}
			for _, name := range b.Locks {
				if n := count(released, core.LockRef(b.Namespace, b.Tenant, name)); n != 1 {
					return fmt.Sprintf("%q is given back %d times", name, n)
				}
			}
			return unless(len(a.Locks) == 0, "it is over, and holds %q", a.Locks)
		}),
	},
})

// leavesRemains reports whether what is left of a run that has ended is only to be deleted.
func leavesRemains(o core.Orchestrator) bool {
	return o.State.Terminal() && o.Cleanup.Failing() && o.Pod.ExitCode != nil
}

func subset[E comparable](small, large []E) bool {
	return !slices.ContainsFunc(small, func(e E) bool { return !slices.Contains(large, e) })
}

func count[E comparable](list []E, what E) int {
	n := 0
	for _, e := range list {
		if e == what {
			n++
		}
	}
	return n
}

// entered lists the states that a step announces.
func entered(s step) []core.OrchestratorStatus {
	var out []core.OrchestratorStatus
	for _, e := range s.effs {
		if emit, ok := e.(effects.Emit); ok && emit.Event.Kind.Category == "run" {
			if state := core.OrchestratorStatus(emit.Event.Kind.Action); slices.Contains(core.OrchestratorStatuses(), state) {
				out = append(out, state)
			}
		}
	}
	return out
}

func goldenJobSpec() core.JobSpec {
	return core.JobSpec{
		ID: "nightly", Namespace: "reports", Tenant: "tenant-1", Name: "Größe <3", Schedule: "0 3 * * *", Timezone: "Europe/Zurich",
		PodSpec:          json.RawMessage(`{"containers":[{"name":"main","image":"busybox","command":["sh","-c","echo <hi>"]}]}`),
		ConstraintConfig: json.RawMessage(`{"constraints": []}`), ActionConfig: json.RawMessage(`{}`),
		RetryConfig: core.RetryConfig{MaxRetries: 2, InitialDelayMS: 1000, BackoffMultiplier: 1_500_000, MaxDelayMS: 60_000},
		Overlap:     core.OverlapForbid, StartDeadlineSeconds: 600, MaxConcurrentRuns: 3, OrphanPolicy: core.OrphanAdopt,
		PodStartTimeoutMS: 60_000, CreateAheadMS: 30_000, ConstraintErrors: core.FailOpen, Logs: core.LogPolicy{HeadBytes: 1000, TailBytes: 1000},
		Labels: map[string]string{"team": "a"}, Runner: "local",
	}
}

// runSpec is the run of a job at a time, as a job makes it.
func runSpec(job core.JobSpec, at core.Time) core.RunSpec {
	id := core.RunID(job.ID, at)
	return core.RunSpec{
		ID: core.RunRef(job.Namespace, job.Tenant, id).ID, RunID: id, JobID: job.ID, Namespace: job.Namespace, Tenant: job.Tenant,
		ScheduledAt: at, Config: job,
	}
}

// madeRun gives the run of a job, and what some events make of it.
func madeRun(job core.JobSpec, events ...core.OrchestratorEvent) core.Orchestrator {
	o, effs := core.Orchestrator{}.Apply(core.OrchestratorCreate{Spec: runSpec(job, start)}, core.Clock{Now: start})
	if r := refusal(effs); r != nil {
		panic(r.Reason)
	}
	for i, e := range events {
		var effs []effects.Effect
		if o, effs = o.Apply(e, core.Clock{Now: start.Add(time.Duration(i) * time.Second)}); refusal(effs) != nil {
			panic(refusal(effs).Reason)
		}
	}
	return o
}

// report is the answer to a check of constraints.
func report(proceed bool, checks ...core.ConstraintCheck) json.RawMessage {
	b, err := json.Marshal(core.ConstraintReport{ShouldProceed: proceed, Message: "m <1>", Checks: checks, MaxAllowedRunTimeMS: 3_600_000})
	if err != nil {
		panic(err)
	}
	return b
}

func violated(actions ...core.ActionRequest) core.ConstraintCheck {
	return core.ConstraintCheck{Name: "timeWindow", Message: "outside", Actions: actions}
}

func podAt(exit ...int32) core.Pod {
	p := core.Pod{Name: "orrery-1-0", UID: "u", Node: "n", StartedAt: start}
	if len(exit) > 0 {
		p.ExitCode, p.FinishedAt = &exit[0], start
		p.Reason = map[bool]string{true: "Completed", false: "Error"}[exit[0] == 0]
	}
	return p
}

// runPhases gives a run of each of the states in which it rests.
func runPhases(job core.JobSpec) map[core.OrchestratorStatus]core.Orchestrator {
	to := func(events ...core.OrchestratorEvent) core.Orchestrator { return madeRun(job, events...) }
	job.RetryConfig.MaxRetries = max(job.RetryConfig.MaxRetries, 1)
	pending := []core.OrchestratorEvent{core.OrchestratorDue{}}
	checking := append(pending[:1:1], core.OrchestratorAdmit{Occurrence: id(5)})
	acting := append(checking[:2:2], core.EffectDone{N: 1, Result: report(true, violated(core.ActionRequest{Type: "webhook", Config: json.RawMessage(`{"url": "<a>"}`)}, core.ActionRequest{Type: core.ActionSkipNext}))})
	creating := append(checking[:2:2], core.EffectDone{N: 1, Result: report(true, core.ConstraintCheck{Name: "a", Met: true})})
	running := append(creating[:3:3], core.EffectDone{N: 2, Result: json.RawMessage(`{"api_calls":1}`)}, core.PodRunning{Pod: podAt()})
	terminating := append(running[:5:5], core.PodEnded{Pod: podAt(0)})
	retrying := append(running[:5:5], core.PodEnded{Pod: podAt(1)}, core.EffectDone{N: 3, Result: json.RawMessage(`{"api_calls":1,"logs":{"stored":true,"bytes":10}}`)},
		core.EffectDone{N: 4}, core.EffectDone{N: 5, Result: report(true)})
	completed := append(terminating[:6:6], core.EffectFailed{N: 3, Reason: "gone"}, core.EffectDone{N: 4}, core.EffectDone{N: 5, Result: report(true)}, core.OrchestratorHeartbeats{Sent: 7})
	return map[core.OrchestratorStatus]core.Orchestrator{
		core.OrchestratorPreRun: to(), core.OrchestratorPending: to(pending...), core.OrchestratorConditionRunning: to(checking...),
		core.OrchestratorActionRunning: to(acting...), core.OrchestratorContainerCreating: to(creating...), core.OrchestratorRunning: to(running...),
		core.OrchestratorTerminating: to(terminating...), core.OrchestratorRetrying: to(retrying...), core.OrchestratorCompleted: to(completed...),
		core.OrchestratorFailed:    to(append(checking[:2:2], core.EffectDone{N: 1, Result: report(false)})...),
		core.OrchestratorCancelled: to(append(pending[:1:1], core.OrchestratorCancel{Reason: "not needed"})...),
		core.OrchestratorOrphaned:  to(append(running[:5:5], core.OrchestratorOrphan{LastHeartbeat: start, Missed: 3})...),
	}
}

func goldenRunStates() []core.State {
	var out []core.State
	phases := runPhases(goldenJobSpec())
	for _, status := range core.OrchestratorStatuses() {
		if o, ok := phases[status]; ok {
			out = append(out, o)
		}
	}
	adopted := phases[core.OrchestratorOrphaned]
	adopted, _ = adopted.Apply(core.PodEnded{Pod: podAt(3)}, core.Clock{Now: start})
	locking, _ := phases[core.OrchestratorConditionRunning].Apply(core.EffectDone{N: 1, Result: json.RawMessage(`{"should_proceed":true,"locks":["db","<größe>"]}`)}, core.Clock{Now: start})
	return append(out, adopted, locking)
}

func goldenRunEvents() []core.Event {
	return []core.Event{
		core.OrchestratorCreate{Spec: runSpec(goldenJobSpec(), start), Owner: core.Owner{Ref: core.JobRef("reports", "tenant-1", "nightly")}}, core.OrchestratorDue{},
		core.OrchestratorAdmit{Occurrence: id(5)}, core.OrchestratorConfigure{Config: goldenJobSpec()}, core.OrchestratorCancel{Reason: "not <needed>"}, core.OrchestratorAbandon{Reason: "the cluster is <gone>"}, core.OrchestratorRetry{},
		core.OrchestratorOrphan{LastHeartbeat: start, Missed: 3}, core.OrchestratorHeartbeats{Sent: math.MaxUint64},
		core.PodCreated{Attempt: 1, Pod: podAt()}, core.PodRunning{Pod: podAt()}, core.PodEnded{Attempt: 1, Pod: podAt(137)}, core.PodRunning{Pod: core.Pod{Name: "p", Home: "daemon-1"}}, core.PodLost{Attempt: 1, Reason: "deleted"}, core.OrchestratorExpire{},
		core.ChildEnded{Child: core.JobRef("", "", "other"), N: 1, Outcome: core.ChildRefused, Reason: "job not found"},
		core.EffectDone{N: 1, Result: report(true, violated(core.ActionRequest{Type: "webhook"}))}, core.EffectFailed{N: 1, Reason: "no", Permanent: true}, core.EffectInterrupted{N: 1}, core.EffectHandedBack{N: 1},
		core.OrchestratorDue{Unseen: true}, core.OrchestratorDue{Seen: true},
		core.PodLost{Attempt: 1, Reason: "violates <PodSecurity>", Refused: true, Final: true},
	}
}
