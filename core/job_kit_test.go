package core_test

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

var _ = register(core.KindJob, kit{
	typ:     "Job",
	absent:  core.Job{},
	apply:   applying(core.Job.Apply),
	made:    func() core.State { return madeJob(goldenJobSpec()) },
	hostile: hostileJob,
	draw:    drawJobEvent,
	own:     core.JobDue{},
	states:  goldenJobStates,
	events:  goldenJobEvents,
	phase: func(s core.State) string {
		if s.(core.Job).Paused {
			return "paused"
		}
		return "enabled"
	},
	phases: []string{"absent", "enabled", "paused"},
	invariants: []invariant{
		on("Each verdict is recorded once as an occurrence, and counted once.", func(s step, b, a core.Job) string {
			if !exists(a) {
				return ""
			}
			got := map[core.Verdict]uint64{}
			records := sends[core.OccurrenceRecord](s)
			for i, r := range records {
				o := r.Occurrence
				epoch := s.clock.Step
				if a.Ledger != nil {
					epoch = a.Ledger.Epoch
				}
				if o.ID != core.ChildID(a.Key, "occurrence", epoch, b.Sequence+uint64(i)+1) || o.RecurringID != a.Key || o.Count == 0 || o.DecidedAt != s.clock.Now || o.Name != a.ID {
					return fmt.Sprintf("recorded %+v", o)
				}
				got[o.Verdict] += o.Count
			}
			for _, e := range sends[core.OccurrenceDecide](s) {
				got[e.Verdict]++
			}
			for _, e := range sends[core.OccurrenceExtend](s) {
				got["extended"] += e.Count
			}
			delete(got, core.VerdictWaiting)
			counted := map[core.Verdict]uint64{}
			for v, n := range countsOf(a) { // order-free: into a map
				if n -= countsOf(b)[v]; n > 0 {
					counted[v] = n
				}
			}
			ok := maps.Equal(got, counted) || len(sends[core.OccurrenceExtend](s)) > 0 && sumOf(got) == sumOf(counted)
			return unless(ok && a.Sequence-b.Sequence == uint64(len(records)), "%+v → %+v with %v", b.Counts, a.Counts, got)
		}),
		on("A run that is admitted, and only that, counts as dispatched and gets a slot, and as many count as have a slot or ended with one.", func(s step, b, a core.Job) string {
			if !exists(a) {
				return unless(len(sends[core.OrchestratorAdmit](s)) == 0, "admitted by a job that is gone")
			}
			n := a.Counts
			have := uint64(len(staged(a, core.StageAdmitted))) + n.Completed + n.Failed + n.Cancelled + n.Orphaned
			return unless(n.Dispatched == have && n.Dispatched-b.Counts.Dispatched == uint64(len(sends[core.OrchestratorAdmit](s))), "%+v with %v", n, a.Active)
		}),
		on("A slot is given only while fewer runs have one than MaxConcurrentRuns, and only while none has one unless overlap is allow. Those of backfills count only for one another.", func(s step, _, a core.Job) string {
			limit := int(a.MaxConcurrentRuns)
			if a.Overlap != core.OverlapAllow {
				limit = 1
			}
			live, all := 0, 0
			for _, r := range a.Active {
				if r.Stage == core.StageAdmitted {
					all++
					live += int(oneIf(r.Owner.IsZero()))
				}
			}
			return unless(limit == 0 || len(sends[core.OrchestratorAdmit](s)) == 0 || live <= limit && (live == all || all <= limit || live == limit), "%d of %d places are taken", live, limit)
		}),
		on("Runs get their slots in the order in which they asked, those of backfills last.", func(_ step, b, a core.Job) string {
			if !exists(a) {
				return ""
			}
			order := slices.DeleteFunc(staged(b, core.StageAsked), func(id string) bool {
				return slices.ContainsFunc(b.Active, func(r core.ActiveRun) bool { return r.RunID == id && !r.Owner.IsZero() })
			})
			placed := staged(a, core.StageAdmitted)
			passed := ""
			for _, run := range order {
				waits := slices.Contains(staged(a, core.StageAsked), run)
				if waits {
					passed = run
				} else if passed != "" && slices.Contains(placed, run) {
					return fmt.Sprintf("%s passed %s", run, passed)
				}
			}
			return ""
		}),
		on("A run of the schedule is not admitted while the job is paused, but at or after the end of the pause, nor beside another one if overlap is skip.", func(s step, b, _ core.Job) string {
			ask, ok := s.event.(core.JobAdmit)
			i := slices.IndexFunc(b.Active, func(r core.ActiveRun) bool { return r.Run == ask.Run })
			if !ok || i < 0 || b.Active[i].Manual || !b.Active[i].Owner.IsZero() || len(sends[core.OrchestratorAdmit](s)) == 0 {
				return ""
			}
			others := 0
			for _, r := range b.Active {
				others += int(oneIf(r.Owner.IsZero() && (r.Stage == core.StageAdmitted || r.Stage == core.StageAsked)))
			}
			over := b.PausedUntil != 0 && b.PausedUntil <= min(s.clock.Now, max(b.Active[i].ScheduledAt, b.Active[i].NotBefore))
			return unless((!b.Paused || over) && (b.Overlap.Plain() != core.OverlapSkip || others == 0), "paused %t, beside %d", b.Paused, others)
		}),
		on("At most one run of the schedule waits for a slot if overlap is buffer_one, cancel_other or terminate_other, and none that asked while BufferLimit waited if it is buffer_all.", func(s step, b, a core.Job) string {
			if _, asks := s.event.(core.JobAdmit); !asks {
				return ""
			}
			limit := 1
			switch a.Overlap.Plain() {
			case core.OverlapBufferAll:
				if limit = int(a.BufferLimit); limit == 0 {
					limit = core.DefaultBufferLimit
				}
			case core.OverlapAllow, core.OverlapSkip:
				return ""
			case core.OverlapBufferOne, core.OverlapCancelOther, core.OverlapTerminateOther, core.OverlapForbid, core.OverlapReplace:
			}
			was, is := waitingTimes(b), waitingTimes(a)
			return unless(is <= limit || is <= was, "%d wait, of at most %d", is, limit)
		}),
		on("A run that waits for a slot has an entry in the ledger that says so.", func(_ step, b, a core.Job) string {
			for _, r := range a.Active {
				had := slices.ContainsFunc(b.Active, func(o core.ActiveRun) bool {
					return o.Run == r.Run && o.Stage == core.StageAsked && o.Occurrence == uuid.Nil
				})
				if r.Stage == core.StageAsked && r.Occurrence == uuid.Nil && !had {
					return r.RunID + " has none"
				}
			}
			return ""
		}),
		on("NextRunAt is later than LastDueAt, and each due event moves it on.", func(s step, b, a core.Job) string {
			_, due := s.event.(core.JobDue)
			moved := !due || refusal(s.effs) != nil || a.NextRunAt.IsZero() || a.NextRunAt > b.NextRunAt
			return unless((a.NextRunAt.IsZero() || a.NextRunAt > a.LastDueAt) && moved, "next %s → %s, last %s → %s", b.NextRunAt, a.NextRunAt, b.LastDueAt, a.LastDueAt)
		}),
		on("A paused job has no deadline but the end of its pause.", func(_ step, _, a core.Job) string {
			return unless(!a.Paused || a.Deadline().IsZero() || a.Deadline() == max(a.PausedUntil, effects.MinTime), "due at %s", a.Deadline())
		}),
		on("A paused job makes no run but by hand and by backfills.", func(s step, _, a core.Job) string {
			for _, e := range sends[core.OrchestratorCreate](s) {
				if a.Paused && !e.Spec.Manual && e.Spec.Backfill == uuid.Nil {
					return e.Spec.RunID
				}
			}
			return ""
		}),
		on("A due event leaves a deadline that has come only if it has decided about times that had passed.", func(s step, b, a core.Job) string {
			if _, due := s.event.(core.JobDue); !due || refusal(s.effs) != nil {
				return ""
			}
			return unless(a.Deadline().IsZero() || a.Deadline() > s.clock.Now || b.NextRunAt <= s.clock.Now || b.Paused, "due at %s, at %s", a.Deadline(), s.clock.Now)
		}),
		on("A run is made under an id that no run of the job has, and at most MaxActiveRuns have not ended.", func(s step, b, a core.Job) string {
			ids := map[uuid.UUID]bool{}
			for _, r := range a.Active {
				if ids[r.Run] {
					return fmt.Sprintf("%s stands there twice", r.RunID)
				}
				ids[r.Run] = true
			}
			for _, e := range sends[core.OrchestratorCreate](s) {
				if err := e.Spec.Validate(); err != nil || slices.ContainsFunc(b.Active, func(r core.ActiveRun) bool { return r.Run == e.Spec.ID }) {
					return fmt.Sprintf("%s: %v", e.Spec.RunID, err)
				}
			}
			return unless(len(a.Active) <= core.MaxActiveRuns, "%d", len(a.Active))
		}),
		on("A trigger whose dedup key is among the last MaxTriggerKeys makes no run.", func(s step, b, a core.Job) string {
			keys := map[string]bool{}
			for _, t := range a.Triggers {
				if keys[t.Key] || t.Key == "" {
					return fmt.Sprintf("key %q stands there twice, or is none", t.Key)
				}
				keys[t.Key] = true
			}
			e, ok := s.event.(core.JobTrigger)
			known := ok && slices.ContainsFunc(b.Triggers, func(t core.KeyedTrigger) bool { return t.Key == e.DedupKey })
			return unless((!known || len(sends[core.OrchestratorCreate](s)) == 0) && len(a.Triggers) <= core.MaxTriggerKeys, "%q of %d", e.DedupKey, len(a.Triggers))
		}),
		on("Each of Decided stands there once, has no run, and is ahead of the clock or not before NextRunAt or PausedFrom.", func(s step, _, a core.Job) string {
			next := a.NextRunAt
			if a.Paused {
				next = a.PausedFrom
			}
			for i, at := range a.Decided {
				run := slices.ContainsFunc(a.Active, func(r core.ActiveRun) bool { return r.ScheduledAt == at && !r.Manual && r.Owner.IsZero() })
				ahead := at > s.clock.Now || next != 0 && at >= next || refusal(s.effs) != nil
				if run || !ahead || slices.Contains(a.Decided[:i], at) {
					return fmt.Sprintf("%s, at %s, next %s", a.Decided, s.clock.Now, next)
				}
			}
			return ""
		}),
	},
})

// countsOf are the counts of a job by verdict.
func countsOf(j core.Job) map[core.Verdict]uint64 {
	n := j.Counts
	return map[core.Verdict]uint64{
		core.VerdictDispatched: n.Dispatched, core.VerdictMissed: n.Missed, core.VerdictSkipped: n.Skipped,
		core.VerdictCancelled: n.VerdictCancelled, core.VerdictExpired: n.VerdictExpired, core.VerdictDeduplicated: n.Deduplicated,
	}
}

func sumOf(n map[core.Verdict]uint64) (sum uint64) {
	for _, k := range n { // order-free: summed up
		sum += k
	}
	return sum
}

// waitingTimes counts the runs of the schedule that wait for a slot.
func waitingTimes(j core.Job) (n int) {
	for _, r := range j.Active {
		n += int(oneIf(r.Stage == core.StageAsked && !r.Manual && r.Owner.IsZero()))
	}
	return n
}

// staged lists the runs of a job in a stage, in order.
func staged(j core.Job, stage core.RunStage) []string {
	var out []string
	for _, a := range j.Active {
		if a.Stage == stage {
			out = append(out, a.RunID)
		}
	}
	return out
}

// madeJob gives the job of a spec, and what some events make of it.
func madeJob(spec core.JobSpec, events ...core.JobEvent) core.Job {
	j, effs := core.Job{}.Apply(core.JobApply{Spec: spec}, core.Clock{Now: start, Step: 1})
	if r := refusal(effs); r != nil {
		panic(r.Reason)
	}
	for i, e := range events {
		now := start
		if _, due := e.(core.JobDue); due {
			now = j.Deadline()
		}
		if j, effs = j.Apply(e, core.Clock{Now: now, Step: uint64(i) + 2}); refusal(effs) != nil {
			panic(refusal(effs).Reason)
		}
	}
	return j
}

// runAt names the run of a job at a time.
func runAt(spec core.JobSpec, at core.Time) uuid.UUID { return runSpec(spec, at).ID }

func goldenJobStates() []core.State {
	spec := goldenJobSpec()
	code := int32(1)
	due := madeJob(spec).NextRunAt
	next := madeJob(spec, core.JobDue{}).NextRunAt
	full := madeJob(spec, core.JobDue{}, core.JobTrigger{By: "ann", DedupKey: "release 7"}, core.JobAdmit{Run: runAt(spec, start)}, core.JobDue{}, core.JobAdmit{Run: runAt(spec, due)},
		core.JobRunEnded{Run: runAt(spec, start), State: core.OrchestratorFailed, ExitCode: &code, Error: "exit code 1"}, core.JobAdmit{Run: runAt(spec, next)})
	bare := core.JobSpec{ID: "by hand", PodSpec: spec.PodSpec}
	buffers := spec
	buffers.Overlap, buffers.BufferLimit, buffers.MaxWaitSeconds, buffers.Missed, buffers.CatchUpSeconds = core.OverlapBufferAll, 2, 60, core.MissedAll, 3600
	waits := madeJob(buffers, core.JobDue{}, core.JobAdmit{Run: runAt(spec, due)}, core.JobDue{}, core.JobAdmit{Run: runAt(spec, next)},
		core.JobRunEnded{Run: runAt(spec, due), State: core.OrchestratorCompleted, RanMS: 1500}, core.JobPause{By: "ann", Reason: "holidays", Until: next.Add(time.Hour)})
	alerts := spec
	alerts.Alerts = core.AlertRules{Failing: 2}
	return []core.State{
		madeJob(alerts, core.JobDue{}, core.JobAdmit{Run: runAt(spec, due)}, core.JobRunBegan{Run: runAt(spec, due)}, core.JobDue{}),
		waits, madeJob(spec, core.JobDue{}, core.JobRunEnded{Run: runAt(spec, due), State: core.OrchestratorCancelled, Error: "by hand"}),
		madeJob(spec), madeJob(spec, core.JobDue{}, core.JobSkipNext{}), full, madeJob(bare),
		madeJob(spec, core.JobDue{}, core.JobPause{Reason: "holidays"}, core.JobApply{Spec: core.JobSpec{ID: spec.ID, Namespace: spec.Namespace, Tenant: spec.Tenant, PodSpec: spec.PodSpec}}),
	}
}

func goldenJobEvents() []core.Event {
	code := int32(137)
	return []core.Event{
		core.JobDue{Absences: goldenAbsences}, core.JobPause{Reason: "holidays", Absences: goldenAbsences},
		core.JobDelete{Absences: goldenAbsences}, core.JobApply{Spec: core.JobSpec{ID: "late"}, Absences: goldenAbsences},
		core.JobApply{Spec: goldenJobSpec()}, core.JobApply{Spec: core.JobSpec{ID: "by hand"}}, core.JobDue{}, core.JobTrigger{By: "ann", DedupKey: "release 7", Owner: core.Owner{Ref: core.RunRef("", "", "a:b"), N: 2}},
		core.JobPause{Reason: "<holidays>"}, core.JobResume{}, core.JobDelete{Reason: "not needed"}, core.JobSkipNext{Reason: "late"}, core.JobKill{Except: id(1), All: true, Reason: "full"},
		core.JobAdmit{Run: id(1)}, core.JobRunEnded{Run: id(1), State: core.OrchestratorFailed, ExitCode: &code, Error: "OOMKilled"},
		core.JobAdmit{Run: id(1), Late: true, Absences: goldenAbsences}, core.JobRunEnded{Run: id(1), State: core.OrchestratorCompleted, RanMS: 1500},
		core.JobPause{Reason: "holidays", By: "ann", Until: start.Add(time.Hour)}, core.JobTrigger{By: "ann", Env: map[string]string{"B": "<", "A": ""}},
		core.BackfillTime{At: start, Owner: core.Owner{Ref: core.JobRef("", "", "a"), N: 2}},
		core.ChildEnded{Child: effects.Ref{Kind: core.KindOrchestrator, ID: id(1)}, Outcome: core.ChildRefused, Reason: "it exists already"},
		core.BackfillTime{At: start, Owner: core.Owner{Ref: effects.Ref{Kind: core.KindBackfill, ID: id(7)}, N: 3}}, core.JobRunBegan{Run: id(1)},
	}
}

func drawJobEvent(t *rapid.T, state core.State, c core.Clock) core.Event {
	j := state.(core.Job)
	if !exists(j) && rapid.IntRange(0, 9).Draw(t, "make") > 0 {
		return core.JobApply{Spec: drawJobSpec(t)}
	}
	run := id(1)
	if len(j.Active) > 0 && rapid.IntRange(0, 19).Draw(t, "stray") > 0 {
		run = rapid.SampledFrom(j.Active).Draw(t, "run").Run
	}
	switch rapid.SampledFrom([]string{
		"due", "due", "due", "due", "trigger", "trigger", "backfill", "backfill", "admit", "admit", "admit", "admit", "began", "ended", "ended", "refused", "skip", "kill", "apply", "pause", "resume", "delete",
	}).Draw(t, "event") {
	case "due":
		return core.JobDue{Absences: drawAbsences(t, c.Now.Add(-time.Hour), c.Now)}
	case "trigger":
		return core.JobTrigger{
			By: drawText(t, "by"), Owner: drawOwner(t),
			DedupKey: rapid.SampledFrom([]string{"", "", "a", "b", "c", "d\x00"}).Draw(t, "dedup_key"),
			Env:      rapid.SampledFrom([]map[string]string{nil, nil, {"DAY": "monday"}, {"ORRERY_RUN_ID": "x"}, {"A=B": ""}}).Draw(t, "env"),
		}
	case "backfill":
		at := c.Now.Add(-time.Duration(rapid.IntRange(-1, 30).Draw(t, "ago")) * time.Minute)
		if rapid.Bool().Draw(t, "decided") {
			at = j.LastVerdictAt
		}
		return core.BackfillTime{At: at, Owner: drawOwner(t)}
	case "admit":
		return core.JobAdmit{Run: run, Late: rapid.Bool().Draw(t, "late"), Absences: drawAbsences(t, c.Now.Add(-time.Hour), c.Now)}
	case "began":
		return core.JobRunBegan{Run: run}
	case "ended":
		return core.JobRunEnded{
			Run: run, Error: drawText(t, "error"), RanMS: rapid.Int64Range(-1, 3).Draw(t, "ran"), ExitCode: maybe(t, "exit_code", func() int32 { return 1 }),
			State: rapid.SampledFrom([]core.OrchestratorStatus{core.OrchestratorCompleted, core.OrchestratorFailed, core.OrchestratorCancelled, core.OrchestratorOrphaned, core.OrchestratorRunning, "odd"}).Draw(t, "state"),
		}
	case "refused":
		return core.ChildEnded{
			Child: effects.Ref{Kind: core.KindOrchestrator, ID: run}, Reason: drawText(t, "reason"),
			Outcome: rapid.SampledFrom([]core.ChildOutcome{core.ChildRefused, core.ChildRefused, core.ChildFailed}).Draw(t, "outcome"),
		}
	case "skip":
		return core.JobSkipNext{Reason: drawText(t, "reason")}
	case "kill":
		return core.JobKill{Except: run, All: rapid.Bool().Draw(t, "all"), Reason: drawText(t, "reason")}
	case "pause":
		return core.JobPause{
			Reason: drawText(t, "reason"), By: drawText(t, "by"),
			Until: rapid.SampledFrom([]core.Time{0, 0, c.Now - 1, c.Now.Add(time.Minute), c.Now.Add(time.Hour), math.MaxInt64}).Draw(t, "until"),
		}
	case "resume":
		return core.JobResume{}
	case "delete":
		return core.JobDelete{Reason: drawText(t, "reason")}
	}
	spec := drawJobSpec(t)
	if exists(j) && rapid.IntRange(0, 9).Draw(t, "another") > 0 {
		spec.ID = j.ID
	}
	return core.JobApply{Spec: spec}
}

func hostileJob(t *rapid.T) core.State {
	c := core.Clock{Now: start}
	count := func(label string) uint64 {
		return rapid.SampledFrom([]uint64{0, 1, math.MaxUint64}).Draw(t, label)
	}
	return core.Job{
		JobSpec: drawJobSpec(t), Key: drawID(t, "key"), Paused: rapid.Bool().Draw(t, "paused"), PausedReason: drawText(t, "reason"),
		NextRunAt: drawTime(t, c), LastDueAt: drawTime(t, c), LastVerdictAt: drawTime(t, c), LastTriggeredAt: drawTime(t, c), CreatedAt: drawTime(t, c),
		SkipNext: rapid.SampledFrom([]uint32{0, 1, math.MaxUint32}).Draw(t, "skip_next"), Sequence: count("sequence"),
		Counts: core.JobCounts{Dispatched: count("dispatched"), Missed: count("missed"), Skipped: count("skipped"), Failed: count("failed"), Completed: count("completed")},
		Active: rapid.SliceOfN(rapid.SampledFrom([]core.ActiveRun{
			{}, {Run: id(1), Stage: core.StageWaiting}, {Run: id(1), Stage: core.StageAsked}, {Run: id(2), Stage: core.StageAdmitted, ScheduledAt: start}, {Run: id(3), Stage: "odd", ScheduledAt: -1}, {Run: id(3), Stage: core.StageDenied},
		}), 0, 4).Draw(t, "active"),
	}
}

func refOf(run uuid.UUID) effects.Ref { return effects.Ref{Kind: core.KindOrchestrator, ID: run} }
