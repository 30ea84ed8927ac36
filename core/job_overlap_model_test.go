package core_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

// overlapRun is a run of [overlapModel].
type overlapRun struct {
	at   core.Time
	hand bool
	ends core.Time
}

// overlapModel says what becomes of the times of a job whose runs may overlap, from the words of
// docs/jobs.md alone.
type overlapModel struct {
	spec   core.JobSpec
	lasts  func(at core.Time) time.Duration // how long the run of a time takes
	stops  time.Duration                    // how long a run takes to end that is cancelled
	under  []*overlapRun                    // under way, in the order in which they began
	waits  []*overlapRun                    // in the order in which their times came
	told   map[core.Time]outcome
	byHand map[core.Time]bool
}

func (m *overlapModel) slots() int {
	if m.spec.Overlap == core.OverlapAllow {
		return int(m.spec.MaxConcurrentRuns) // 0: any number
	}
	return 1
}

// end lets the runs end whose time that is, and those begin that waited for them.
func (m *overlapModel) end(now core.Time) {
	m.under = slices.DeleteFunc(m.under, func(r *overlapRun) bool { return r.ends <= now })
	for len(m.waits) > 0 && (m.slots() == 0 || len(m.under) < m.slots()) {
		m.begin(m.waits[0], now)
		m.waits = m.waits[1:]
	}
}

func (m *overlapModel) begin(r *overlapRun, now core.Time) {
	r.ends = now.Add(m.lasts(r.at))
	m.under = append(m.under, r)
	m.told[r.at] = outcome{verdict: core.VerdictDispatched}
}

// come decides about a time, or about a trigger by hand, that has come.
func (m *overlapModel) come(at core.Time, hand bool) {
	r := &overlapRun{at: at, hand: hand}
	if hand {
		m.byHand[at] = true
	} else if why := m.skips(); why != "" {
		m.told[at] = outcome{core.VerdictSkipped, why}
		return
	}
	if m.spec.Overlap == core.OverlapCancelOther || m.spec.Overlap == core.OverlapTerminateOther {
		for _, w := range m.waits {
			m.told[w.at] = outcome{core.VerdictCancelled, fmt.Sprintf("run %s took its place", core.RunID(m.spec.ID, at))}
		}
		m.waits = nil
		for _, u := range m.under {
			u.ends = min(u.ends, at.Add(m.stops))
		}
	}
	m.told[at] = outcome{core.VerdictWaiting, "it waits for a slot of its job"}
	m.waits = append(m.waits, r)
	m.end(at)
}

// skips is why a time is skipped.
func (m *overlapModel) skips() string {
	scheduled := 0
	for _, w := range m.waits {
		if !w.hand {
			scheduled++
		}
	}
	switch m.spec.Overlap {
	case core.OverlapSkip:
		if others := slices.Concat(m.under, m.waits); len(others) > 0 {
			return fmt.Sprintf("overlap is skip, and run %s has not ended", core.RunID(m.spec.ID, others[0].at))
		}
	case core.OverlapBufferOne:
		if scheduled > 0 {
			return "buffer full: overlap is buffer_one"
		}
	case core.OverlapBufferAll:
		if scheduled >= int(m.spec.BufferLimit) {
			return fmt.Sprintf("buffer full: overlap is buffer_all, and %d runs wait already", scheduled)
		}
	case core.OverlapAllow, core.OverlapCancelOther, core.OverlapTerminateOther, core.OverlapForbid, core.OverlapReplace:
	}
	return ""
}

// overlapWorld has one job, the ledger that it writes, and runs that do nothing but last.
type overlapWorld struct {
	t      *rapid.T
	m      *overlapModel
	job    core.Job
	clock  core.Clock
	runs   map[uuid.UUID]core.RunSpec // that wait for their time
	ends   map[uuid.UUID]core.Time    // of those that were admitted
	status map[uuid.UUID]core.OrchestratorStatus
	ledger map[effects.Ref]core.State
}

func (w *overlapWorld) send(e core.JobEvent) {
	w.clock.Step++
	job, effs := w.job.Apply(e, w.clock)
	require.Nil(w.t, refusal(effs), "%T", e)
	w.job = job
	for _, eff := range effs {
		send, ok := eff.(effects.Send)
		if !ok {
			continue
		}
		switch e := send.Event.(type) {
		case core.OrchestratorCreate:
			w.runs[send.To.ID] = e.Spec
		case core.OrchestratorAdmit:
			w.ends[send.To.ID], w.status[send.To.ID] = w.clock.Now.Add(w.m.lasts(w.scheduledAt(send.To.ID))), core.OrchestratorCompleted
		case core.OrchestratorCancel:
			ends, admitted := w.ends[send.To.ID]
			if stopped := w.clock.Now.Add(w.m.stops); !admitted {
				ends = w.clock.Now
			} else {
				ends = min(ends, stopped)
			}
			w.ends[send.To.ID], w.status[send.To.ID] = ends, core.OrchestratorCancelled
		case core.OccurrenceEvent:
			before := w.ledger[send.To]
			if before == nil {
				before = core.Occurrence{}
			}
			w.ledger[send.To], _ = apply(before, e, w.clock)
		}
	}
}

func (w *overlapWorld) scheduledAt(run uuid.UUID) core.Time {
	for _, a := range w.job.Active {
		if a.Run == run {
			return a.ScheduledAt
		}
	}
	w.t.Fatalf("run %s is not active", run)
	return 0
}

// settle tells the job what runs have come to until now.
func (w *overlapWorld) settle() {
	for {
		ended := uuid.Nil
		for _, a := range w.job.Active {
			if end, ok := w.ends[a.Run]; ok && end <= w.clock.Now {
				ended = a.Run
				break
			}
		}
		if ended == uuid.Nil {
			return
		}
		delete(w.ends, ended)
		w.send(core.JobRunEnded{Run: ended, State: w.status[ended]})
	}
}

// ask lets the runs ask whose time has come.
func (w *overlapWorld) ask() {
	for _, a := range w.job.Active {
		if spec, waits := w.runs[a.Run]; waits && spec.ScheduledAt <= w.clock.Now {
			delete(w.runs, a.Run)
			w.send(core.JobAdmit{Run: a.Run})
			w.settle()
			w.ask()
			return
		}
	}
}

// Whatever the policy, however long runs last and take to end when they are cancelled, and
// whatever is triggered by hand between them: each time has the verdict and the reason that the
// words of the guide give.
func TestTimesOfAJobThatOverlapHaveTheVerdictsThatTheirPolicySays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := byHand()
		spec.Schedule = "* * * * *"
		spec.Overlap = rapid.SampledFrom([]core.OverlapPolicy{
			core.OverlapAllow, core.OverlapSkip, core.OverlapBufferOne, core.OverlapBufferAll, core.OverlapCancelOther, core.OverlapTerminateOther,
		}).Draw(t, "overlap")
		switch spec.Overlap {
		case core.OverlapAllow:
			spec.MaxConcurrentRuns = rapid.Uint32Range(0, 2).Draw(t, "slots")
		case core.OverlapBufferAll:
			spec.BufferLimit = rapid.Uint32Range(1, 3).Draw(t, "buffer")
		default: // they have no bounds
		}
		lasts := map[core.Time]time.Duration{}
		m := &overlapModel{
			spec: spec, told: map[core.Time]outcome{}, byHand: map[core.Time]bool{},
			stops: time.Duration(rapid.SampledFrom([]int{0, 10, 30, 100}).Draw(t, "to stop")) * time.Second,
			lasts: func(at core.Time) time.Duration {
				if _, drawn := lasts[at]; !drawn {
					lasts[at] = time.Duration(rapid.IntRange(1, 20).Draw(t, "lasts")) * 10 * time.Second
				}
				return lasts[at]
			},
		}
		w := &overlapWorld{
			t: t, m: m, clock: core.Clock{Now: start}, runs: map[uuid.UUID]core.RunSpec{}, ends: map[uuid.UUID]core.Time{},
			status: map[uuid.UUID]core.OrchestratorStatus{}, ledger: map[effects.Ref]core.State{},
		}
		w.send(core.JobApply{Spec: spec})
		for range rapid.IntRange(10, 90).Draw(t, "ticks") {
			w.clock.Now = w.clock.Now.Add(10 * time.Second)
			now := w.clock.Now
			onTime := now.Sub(start)%minute == 0
			hand := !onTime && rapid.IntRange(0, 9).Draw(t, "by hand") == 0
			w.settle()
			for at := w.job.Deadline(); !at.IsZero() && at <= now; at = w.job.Deadline() {
				w.send(core.JobDue{})
			}
			if hand {
				w.send(core.JobTrigger{By: "ann"})
			}
			w.ask()
			if m.end(now); onTime || hand {
				m.come(now, hand)
			}
			requireUnderWay(t, w)
		}
		requireVerdicts(t, w)
	})
}

// requireUnderWay checks that as many runs are under way, and wait, as the model says.
func requireUnderWay(t *rapid.T, w *overlapWorld) {
	under, waits := staged(w.job, core.StageAdmitted), staged(w.job, core.StageAsked)
	names := func(runs []*overlapRun) (ids []string) {
		for _, r := range runs {
			ids = append(ids, core.RunID(w.m.spec.ID, r.at))
		}
		return ids
	}
	require.ElementsMatch(t, names(w.m.under), under, "%s: under way", w.clock.Now)
	require.Equal(t, names(w.m.waits), waits, "%s: wait", w.clock.Now)
}

// requireVerdicts checks the ledger, and the counts of the job.
func requireVerdicts(t *rapid.T, w *overlapWorld) {
	got, sums := map[core.Time]core.Verdict{}, map[core.Verdict]uint64{}
	for _, s := range w.ledger { // order-free: each by itself
		o, ok := s.(core.Occurrence)
		if !ok || !exists(o) {
			continue
		}
		if sums[o.Verdict] += o.Count; o.Manual {
			require.True(t, w.m.byHand[o.DueAt], "%s", o.DueAt)
		}
		for at := o.DueAt; at <= o.LastDueAt; at = at.Add(minute) {
			require.NotContains(t, got, at, "two verdicts")
			got[at] = o.Verdict
			require.Equal(t, w.m.told[at].verdict, o.Verdict, "%s: %q, and not %q", at, o.Reason, w.m.told[at].why)
			require.Contains(t, o.Reason, w.m.told[at].why, "%s", at)
		}
	}
	require.Len(t, got, len(w.m.told))
	counts := countsOf(w.job)
	for v, n := range sums { // order-free: each by itself
		if v != core.VerdictWaiting {
			require.Equal(t, n, counts[v], "%s", v)
		}
	}
}
