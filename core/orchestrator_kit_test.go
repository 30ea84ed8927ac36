package core_test

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

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
		on("A run is completed, failed or cancelled only if nothing of it is in a cluster, or its pod has ended; a further attempt begins only if nothing is.", func(_ step, b, a core.Orchestrator) string {
			harmless := !a.InCluster || !a.State.Terminal() || a.State == core.OrchestratorOrphaned || a.Pod.ExitCode != nil
			alone := a.State != core.OrchestratorRetrying && a.RetryAttempt == b.RetryAttempt || !b.InCluster || !a.InCluster
			return unless(harmless && alone && (a.State != core.OrchestratorRetrying || !a.InCluster), "%s → %s, attempt %d → %d, in cluster %t → %t", b.State, a.State, b.RetryAttempt, a.RetryAttempt, b.InCluster, a.InCluster)
		}),
		on("Cleanup says that a deletion has failed if and only if cleanup_failed was announced, and cleaned_up was not since.", func(s step, b, a core.Orchestrator) string {
			failed, cleaned := len(emitted(s, "run:cleanup_failed")), len(emitted(s, "run:cleaned_up"))
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
		core.OrchestratorAdmit{Occurrence: id(5)}, core.OrchestratorConfigure{Config: goldenJobSpec()}, core.OrchestratorCancel{Reason: "not <needed>"}, core.OrchestratorRetry{},
		core.OrchestratorOrphan{LastHeartbeat: start, Missed: 3}, core.OrchestratorHeartbeats{Sent: math.MaxUint64},
		core.PodCreated{Attempt: 1, Pod: podAt()}, core.PodRunning{Pod: podAt()}, core.PodEnded{Attempt: 1, Pod: podAt(137)}, core.PodLost{Attempt: 1, Reason: "deleted"}, core.OrchestratorExpire{},
		core.ChildEnded{Child: core.JobRef("", "", "other"), N: 1, Outcome: core.ChildRefused, Reason: "job not found"},
		core.EffectDone{N: 1, Result: report(true, violated(core.ActionRequest{Type: "webhook"}))}, core.EffectFailed{N: 1, Reason: "no", Permanent: true}, core.EffectInterrupted{N: 1}, core.EffectHandedBack{N: 1},
		core.OrchestratorDue{Unseen: true}, core.OrchestratorDue{Seen: true},
		core.PodLost{Attempt: 1, Reason: "violates <PodSecurity>", Refused: true, Final: true},
	}
}

func drawJobSpec(t *rapid.T) core.JobSpec {
	config := rapid.SampledFrom([]json.RawMessage{nil, json.RawMessage(`{}`), json.RawMessage(` {"a": "<"} `)})
	s := core.JobSpec{
		ID: rapid.SampledFrom([]string{"nightly", "nightly", "report"}).Draw(t, "id"), PodSpec: json.RawMessage(` {"containers": []}`),
		Schedule:         rapid.SampledFrom([]string{"", "* * * * *", "*/10 * * * * *", "0 3 * * *", "@every 90s", "* * * * * *"}).Draw(t, "schedule"),
		ConstraintConfig: config.Draw(t, "constraint_config"), ActionConfig: config.Draw(t, "action_config"),
		RetryConfig: core.RetryConfig{
			MaxRetries: rapid.SampledFrom([]uint32{0, 0, 1, 3}).Draw(t, "max_retries"), InitialDelayMS: rapid.SampledFrom([]int64{0, 1, 1000}).Draw(t, "delay"),
			BackoffMultiplier: rapid.SampledFrom([]core.Multiplier{0, 1, 1_500_000, 1_000_000_000}).Draw(t, "multiplier"), MaxDelayMS: rapid.SampledFrom([]int64{0, 1, 60_000}).Draw(t, "max_delay"),
		},
		Overlap:           rapid.SampledFrom([]core.OverlapPolicy{"", core.OverlapAllow, core.OverlapForbid, core.OverlapReplace}).Draw(t, "overlap"),
		MaxConcurrentRuns: rapid.SampledFrom([]uint32{0, 1, 2}).Draw(t, "max_concurrent_runs"), StartDeadlineSeconds: rapid.SampledFrom([]int64{0, 1, 3600}).Draw(t, "start_deadline"),
		OrphanPolicy:     rapid.SampledFrom([]core.OrphanPolicy{"", core.OrphanAdopt}).Draw(t, "orphan_policy"),
		ConstraintErrors: rapid.SampledFrom([]core.ErrorPolicy{"", core.FailOpen}).Draw(t, "constraint_errors"), CreateAheadMS: rapid.SampledFrom([]int64{0, 1, 3_600_000}).Draw(t, "create_ahead"),
		Logs: core.LogPolicy{Discard: rapid.IntRange(0, 3).Draw(t, "discard") == 0},
	}
	if rapid.IntRange(0, 19).Draw(t, "odd") == 0 {
		rapid.SampledFrom([]func(){
			func() { s.ID = "a:b" },
			func() { s.ID = "" },
			func() { s.PodSpec = json.RawMessage("[") },
			func() { s.PodSpec = json.RawMessage(`"` + strings.Repeat("a", core.MaxPodSpecBytes) + `"`) },
			func() { s.ConstraintConfig = json.RawMessage("[]") },
			func() { s.Schedule = "61 * * * *" },
			func() { s.Schedule = "0 0 30 2 *" },
			func() { s.Timezone = "Mars/Olympus" },
			func() { s.Overlap = "pray" },
			func() { s.Name = "\xff" },
			func() { s.MaxConcurrentRuns = math.MaxUint32 },
			func() { s.RetryConfig.MaxRetries = math.MaxUint32 },
			func() { s.RetryConfig.BackoffMultiplier = -1 },
			func() { s.CreateAheadMS = -1 },
			func() { s.PodStartTimeoutMS = math.MaxInt64 },
			func() { s.Labels = map[string]string{"": "a"} },
			func() { s.Logs.TailBytes = -1 },
		}).Draw(t, "oddity")()
	}
	return s
}

func drawPod(t *rapid.T) core.Pod {
	return core.Pod{
		Name: drawText(t, "name"), Reason: rapid.SampledFrom([]string{"", "", "OOMKilled", "\xff"}).Draw(t, "reason"), Message: rapid.SampledFrom([]string{"", "m"}).Draw(t, "message"),
		ExitCode:  maybe(t, "exit_code", func() int32 { return rapid.SampledFrom([]int32{0, 0, 1, 137, -1}).Draw(t, "exit_code") }),
		StartedAt: rapid.SampledFrom([]core.Time{0, start, -1, math.MaxInt64}).Draw(t, "started_at"),
		Queued:    rapid.IntRange(0, 3).Draw(t, "queued") == 0,
	}
}

func drawReport(t *rapid.T) json.RawMessage {
	if rapid.IntRange(0, 9).Draw(t, "odd report") == 0 {
		return drawJSON(t, "report")
	}
	r := core.ConstraintReport{ShouldProceed: rapid.IntRange(0, 3).Draw(t, "proceed") > 0, MaxAllowedRunTimeMS: rapid.SampledFrom([]int64{0, 1, 60_000, math.MaxInt64, -1}).Draw(t, "max_allowed")}
	r.Locks = rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "größe", "", "\xff", "a\n"}), 0, 4).Draw(t, "locks")
	if rapid.IntRange(0, 19).Draw(t, "many locks") == 0 {
		for n := range core.MaxRunLocks + 1 {
			r.Locks = append(r.Locks, fmt.Sprint(n))
		}
	}
	for range rapid.SampledFrom([]int{0, 1, 2, 2, core.MaxConstraints + 1}).Draw(t, "checks") {
		check := core.ConstraintCheck{Name: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "name"), Met: rapid.Bool().Draw(t, "met")}
		for range rapid.SampledFrom([]int{0, 0, 1, 2, 3}).Draw(t, "actions") {
			check.Actions = append(check.Actions, core.ActionRequest{
				Type: rapid.SampledFrom([]string{
					"webhook", "webhook", "log", core.ActionSkip, core.ActionFailRun, core.ActionRetryRun, core.ActionSkipNext, core.ActionKickOffJob, core.ActionCancelRun,
					core.ActionKillLatest, core.ActionKillAll, core.ActionEnqueue, core.ActionStartPipeline, "",
				}).Draw(t, "type"),
				Config: rapid.SampledFrom([]json.RawMessage{
					nil, json.RawMessage(`{"job":"nightly","run_id":"r","queue":"q","reason":"<r>"}`), json.RawMessage(` {"job": 1}`), json.RawMessage(`[]`),
				}).Draw(t, "config"),
				ContinueOnError: rapid.Bool().Draw(t, "continue"),
			})
		}
		r.Checks = append(r.Checks, check)
	}
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// drawRunAnswer answers what a run waits for, mostly as it expects.
func drawRunAnswer(t *rapid.T, o core.Orchestrator) core.Event {
	open := core.Outstanding(o)
	if len(open) == 0 || rapid.IntRange(0, 3).Draw(t, "odd") == 0 {
		return drawAnswer(t, o)
	}
	return drawDone(t, open[0])
}

func drawDone(t *rapid.T, e effects.Outer) core.Event {
	switch e.(type) {
	case effects.CheckConstraints:
		return core.EffectDone{N: e.Number(), Result: drawReport(t)}
	case effects.FetchLogs, effects.DeleteRun:
		return core.EffectDone{N: e.Number(), Result: json.RawMessage(`{"api_calls": 1, "logs": {"stored": true, "bytes": 5}}`)}
	}
	return core.EffectDone{N: e.Number(), Result: json.RawMessage(`{"api_calls": 4294967295}`)}
}

func drawRunSpec(t *rapid.T, c core.Clock) core.RunSpec {
	s := runSpec(drawJobSpec(t), c.Now.Add(time.Duration(rapid.SampledFrom([]int64{0, 0, 30, -60, -7200}).Draw(t, "ahead"))*time.Second))
	s.Manual = rapid.IntRange(0, 3).Draw(t, "manual") == 0
	if rapid.IntRange(0, 19).Draw(t, "odd") == 0 {
		rapid.SampledFrom([]func(){
			func() { s.ID = id(9) }, func() { s.RunID = "a" }, func() { s.JobID = "b" }, func() { s.ScheduledAt = 0 },
		}).Draw(t, "oddity")()
	}
	return s
}

func drawRunEvent(t *rapid.T, state core.State, c core.Clock) core.Event {
	o := state.(core.Orchestrator)
	if !exists(o) && rapid.IntRange(0, 9).Draw(t, "make") > 0 {
		return core.OrchestratorCreate{Spec: drawRunSpec(t, c)}
	}
	attempt := rapid.SampledFrom([]uint32{o.RetryAttempt, o.RetryAttempt, o.RetryAttempt, o.RetryAttempt + 1, 0}).Draw(t, "attempt")
	events := []string{"due", "due", "answer", "answer", "answer", "answer", "created", "running", "running", "ended", "ended", "lost", "cancel", "retry", "orphan", "configure", "heartbeats", "child", "expire", "create"}
	if o.State == core.OrchestratorPending || rapid.IntRange(0, 9).Draw(t, "stray admit") == 0 {
		events = []string{"admit", "admit", "due"}
	}
	switch rapid.SampledFrom(events).Draw(t, "event") {
	case "due":
		return core.OrchestratorDue{Unseen: rapid.IntRange(0, 3).Draw(t, "unseen") == 0, Seen: rapid.IntRange(0, 3).Draw(t, "seen") == 0}
	case "admit":
		return core.OrchestratorAdmit{Occurrence: drawID(t, "occurrence")}
	case "answer":
		return drawRunAnswer(t, o)
	case "created":
		return core.PodCreated{Attempt: attempt, Pod: drawPod(t)}
	case "running":
		return core.PodRunning{Attempt: attempt, Pod: drawPod(t)}
	case "ended":
		return core.PodEnded{Attempt: attempt, Pod: drawPod(t)}
	case "lost":
		return core.PodLost{Attempt: attempt, Reason: drawText(t, "reason"), Refused: rapid.Bool().Draw(t, "refused"), Final: rapid.Bool().Draw(t, "final")}
	case "cancel":
		return core.OrchestratorCancel{Reason: drawText(t, "reason")}
	case "retry":
		return core.OrchestratorRetry{}
	case "orphan":
		return core.OrchestratorOrphan{LastHeartbeat: drawTime(t, c), Missed: 3}
	case "configure":
		spec := drawJobSpec(t)
		spec.ID = rapid.SampledFrom([]string{o.JobID, o.JobID, "other"}).Draw(t, "job")
		return core.OrchestratorConfigure{Config: spec}
	case "heartbeats":
		return core.OrchestratorHeartbeats{Sent: rapid.Uint64().Draw(t, "sent")}
	case "child":
		return core.ChildEnded{
			Child: core.JobRef("", "", "nightly"), N: rapid.SampledFrom([]uint32{0, 1, o.Metrics.ActionsExecuted, math.MaxUint32}).Draw(t, "n"),
			Outcome: rapid.SampledFrom([]core.ChildOutcome{core.ChildRefused, core.ChildRefused, core.ChildSucceeded, "lost"}).Draw(t, "outcome"), Reason: drawText(t, "reason"),
		}
	case "expire":
		return core.OrchestratorExpire{}
	}
	return core.OrchestratorCreate{Spec: drawRunSpec(t, c), Owner: drawOwner(t)}
}

func hostileRun(t *rapid.T) core.State {
	c := core.Clock{Now: start}
	count := func(label string) uint32 {
		return rapid.SampledFrom([]uint32{0, 0, 1, math.MaxUint32}).Draw(t, label)
	}
	spec := drawRunSpec(t, c)
	if rapid.Bool().Draw(t, "exists") && spec.ID == uuid.Nil {
		spec.ID = id(1)
	}
	asked := drawPending(t)
	asked.Open = rapid.SliceOfN(rapid.SampledFrom([]core.PendingEffect{
		{Effect: effects.CheckConstraints{N: 1}}, {Effect: effects.TakeAction{N: 1}}, {Effect: effects.CreateRun{N: 1}}, {Effect: effects.FetchLogs{N: 1}}, {Effect: effects.DeleteRun{N: 1}}, {Effect: effects.DeleteRun{N: 1, Logs: true}}, {Effect: effects.Kill{N: 1}},
	}), 0, 3).Draw(t, "open")
	return core.Orchestrator{
		RunSpec: spec, Pending: asked,
		State:         rapid.SampledFrom(append(core.OrchestratorStatuses(), "", "odd")).Draw(t, "state"),
		PreviousState: rapid.SampledFrom(append(core.OrchestratorStatuses(), "", "odd")).Draw(t, "previous_state"),
		RetryAttempt:  count("attempt"), Admitted: rapid.Bool().Draw(t, "admitted"), InCluster: rapid.Bool().Draw(t, "in_cluster"), Repeats: count("repeats"),
		Step: rapid.SampledFrom([]core.RunStep{core.StepNone, core.StepLogs, core.StepChecking, core.StepActing, core.StepDeleting, core.StepAdopted, "odd"}).Draw(t, "step"),
		Cleanup: core.RunCleanup{
			FailedSince: rapid.SampledFrom([]core.Time{0, 0, start, math.MinInt64}).Draw(t, "failed_since"), Failures: count("failures"),
			RetryAt: rapid.SampledFrom([]core.Time{0, 0, start, -1, math.MaxInt64}).Draw(t, "cleanup_at"),
		},
		Exit:      core.RunExit{To: rapid.SampledFrom(append(core.OrchestratorStatuses(), "", "", "", "odd")).Draw(t, "leaving")},
		Actions:   rapid.SliceOfN(rapid.Just(core.ActionRecord{N: 1}), 0, 2).Draw(t, "actions"),
		ToTake:    rapid.SliceOfN(rapid.SampledFrom([]core.ActionRequest{{Type: "webhook"}, {Type: core.ActionSkip}, {Type: core.ActionKickOffJob, Config: json.RawMessage("{")}}), 0, 2).Draw(t, "to_take"),
		Decision:  core.Decision{Verdict: rapid.SampledFrom([]core.RunVerdict{"", "odd", core.RunFail, core.RunSkip, core.RunRetry, core.RunStop, core.RunProceed}).Draw(t, "verdict")},
		Locks:     rapid.SliceOfN(rapid.SampledFrom([]string{"a", "", "\xff", strings.Repeat("l", 1000)}), 0, 100).Draw(t, "locks"),
		CreatedAt: drawTime(t, c), CreationAskedAt: drawTime(t, c), ExecutionStartedAt: drawTime(t, c), ExecutionEndedAt: drawTime(t, c), RetryAt: drawTime(t, c), SparedAt: drawTime(t, c),
		SparedMS:            rapid.SampledFrom([]int64{0, 10_000, 600_000, math.MaxInt64, math.MinInt64}).Draw(t, "spared"),
		MaxAllowedRunTimeMS: rapid.SampledFrom([]int64{0, 1, math.MaxInt64, math.MinInt64}).Draw(t, "max_allowed"),
		Metrics:             core.OrchestratorMetrics{KubernetesAPICalls: count("calls"), ActionsExecuted: count("executed")},
	}
}
