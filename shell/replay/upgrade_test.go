package replay_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/core/schedule"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/jobs"
	"github.com/orrery-go/orrery/shell/jobs/runnertest"
	"github.com/orrery-go/orrery/shell/replay"
)

// clockTime is a time of the day on which the daemon of schedules-killed.tar.gz worked.
func clockTime(hour, minute int) effects.Time {
	return effects.TimeOf(time.Date(2000, 1, 1, hour, minute, 0, 0, time.UTC))
}

// schedules-killed.tar.gz is of a daemon that began at 00:00 and was killed at 02:07:31. Each
// name says what its schedule is there for: those of "paused" were paused at 00:35; of "missed"
// all times until 05:21, when the daemon of today begins, are beyond their start deadline, of
// "late" the last one is not; "hold" runs when the daemon is killed, and "retry" may run again
// then; what "fails" has max_attempts 3, and no on_failure. Of the pods that run when the daemon
// is killed, that of job-survives is still there at 05:21.
func TestTheSchedulesOfAnEarlierCommitGoOn(t *testing.T) {
	path := unpackedFolder(t, filepath.Join("testdata", "written-by-1dc8f5b1", "schedules-killed.tar.gz"))
	synctest.Test(t, func(t *testing.T) {
		d := &oldDaemon{fake: &runnertest.Fake{Script: func(r jobs.Run) runnertest.Script {
			s := runnertest.Succeeds(r)
			if r.JobID == "job-fails" {
				s.Exit = 3
			}
			return s
		}}}
		survivor := jobs.Attempt{Run: core.RunRef(oldScope.Namespace, oldScope.Tenant, "job-survives:2000-01-01T02:05:00.000Z").ID}
		d.fake.Plant(survivor)
		pass(time.Until(clockTime(5, 21).Std()))
		d.start(t, path)
		defer func() { d.end() }()
		pass(30 * time.Second)
		require.True(t, d.fake.End(survivor, 0, "Completed"))
		pass(time.Until(clockTime(7, 25).Std()))

		d.pausedStayPaused()
		d.dueAreDecidedOnce()
		d.runningAreSettledByTheirPolicies()
		d.nothingThatFailedIsTriedAgainByItself()
		d.countsAgreeWithTheHistory()
		d.othersAreThere()
		d.end()
		rep, err := replay.Verify(t.Context(), d.st, replay.Options{})
		require.NoError(t, err)
		assert.Empty(t, rep.Divergences)
		problems, err := d.st.Check(t.Context())
		require.NoError(t, err)
		assert.Empty(t, problems)
		require.NoError(t, d.st.Close())
	})
}

func (d *oldDaemon) pausedStayPaused() {
	r := d.recurring("recurring-paused")
	assert.False(d.t, r.Enabled)
	assert.Zero(d.t, r.NextExecutionAt)
	assert.Contains(d.t, r.DisabledReason, "for the winter")
	assert.EqualValues(d.t, 3, r.ExecutionCount, "00:10, 00:20, 00:30")
	j := d.job("job-paused")
	assert.True(d.t, j.Paused)
	assert.Contains(d.t, j.PausedReason, "for the winter")
	assert.EqualValues(d.t, 3, j.Counts.Dispatched)
	for _, o := range slices.Concat(d.history("recurring-paused"), d.history("job-paused")) {
		assert.False(d.t, o.Verdict == core.VerdictDispatched && o.DueAt > clockTime(0, 35), "%+v", o)
	}
}

func (d *oldDaemon) dueAreDecidedOnce() {
	for _, name := range []string{"recurring-missed", "job-missed"} {
		d.missed(name, clockTime(2, 37), clockTime(5, 7), 6)
		assert.NotNil(d.t, d.entry(name, clockTime(5, 37), core.VerdictDispatched), "%s goes on", name)
	}
	for _, name := range []string{"recurring-late", "job-late"} {
		d.missed(name, clockTime(2, 30), clockTime(4, 30), 5)
		late := d.entry(name, clockTime(5, 0), core.VerdictDispatched)
		require.NotNil(d.t, late, "%s: within its start deadline", name)
		assert.Equal(d.t, "completed", late.Outcome)
	}
	d.missed("recurring-ended", clockTime(2, 10), clockTime(2, 50), 5)
	ended := d.recurring("recurring-ended")
	assert.False(d.t, ended.Enabled)
	assert.Contains(d.t, ended.DisabledReason, "ends_at 2000-01-01T03:00:00.000Z was reached")
	options := d.recurring("recurring-options")
	assert.EqualValues(d.t, 12, options.Executions)
	assert.Contains(d.t, options.DisabledReason, "the schedule has dispatched 12 times, as many as it may")

	once := d.action("action-due")
	assert.Equal(d.t, core.StatusCompleted, once.Status.Type)
	assert.EqualValues(d.t, 1, once.Run)
	assert.GreaterOrEqual(d.t, once.StartedAt, clockTime(5, 21))
	ahead := d.action("action-ahead")
	assert.Equal(d.t, clockTime(6, 0), ahead.StartedAt)
	for name, cycles := range map[string]uint32{
		"every-due": 12 + 1 + 12, // 00:10 to 02:00; one at once; 05:30 to 07:20
		"cron-due":  2 + 1 + 2,   // 00:15, 01:15; 06:15, 07:15
	} {
		assert.Equal(d.t, cycles, d.action(name).Cycle-1, name)
	}
}

// missed holds that the outage's times of a schedule are one entry, with its cause.
func (d *oldDaemon) missed(name string, first, last effects.Time, count uint64) {
	o := d.entry(name, first, core.VerdictMissed)
	require.NotNil(d.t, o, "%s: %+v", name, d.history(name))
	assert.Equal(d.t, last, o.LastDueAt, name)
	assert.Equal(d.t, count, o.Count, name)
	span, ok := strings.CutPrefix(o.Reason, "the daemon was away from ")
	require.True(d.t, ok, "%s: %s", name, o.Reason)
	assert.Contains(d.t, span, " (killed, or its machine failed)", name)
	from, to, _ := strings.Cut(span[:strings.Index(span, " (")], " to ")
	assert.Regexp(d.t, `^2000-01-01T02:0[67]:`, from, name)
	assert.Regexp(d.t, `^2000-01-01T05:21:00`, to, name)
}

func (d *oldDaemon) runningAreSettledByTheirPolicies() {
	for name, attempts := range map[string][]uint32{"action-hold": nil, "action-hold-retry": {2}} {
		a := d.action(name)
		assert.Equal(d.t, attempts, d.runs(a.ID), name)
		if attempts == nil {
			assert.Equal(d.t, core.Status{Type: core.StatusFailed, Reason: core.ReasonRecovered}, a.Status, name)
		} else {
			assert.Equal(d.t, core.StatusCompleted, a.Status.Type, name)
		}
	}
	assert.Equal(d.t, "failed", d.entry("recurring-hold", clockTime(2, 6), core.VerdictDispatched).Outcome)
	assert.Equal(d.t, core.ReasonRecovered, d.entry("recurring-hold", clockTime(2, 6), core.VerdictDispatched).Reason)
	assert.Equal(d.t, "completed", d.entry("recurring-hold-retry", clockTime(2, 6), core.VerdictDispatched).Outcome)
	assert.Equal(d.t, "completed", d.entry("recurring-deduplicated", clockTime(0, 25), core.VerdictDispatched).Outcome)
	// Cycles: what was interrupted, then those of today.
	assert.Equal(d.t, []uint32{1, 1, 1, 1}, d.runs(oldID("every-hold")), "05:36, 06:06, 06:36, 07:06")
	assert.Equal(d.t, []uint32{2, 1, 1}, d.runs(oldID("cron-hold-retry")), "at once; 06:06, 07:06")

	for run, want := range map[string]core.OrchestratorStatus{
		"job-survives:2000-01-01T02:05:00.000Z":   core.OrchestratorCompleted,
		"job-lost:2000-01-01T02:05:00.000Z":       core.OrchestratorFailed,
		"job-lost-retry:2000-01-01T02:05:00.000Z": core.OrchestratorCompleted,
	} {
		o, err := d.e.Runs().Get(d.t.Context(), core.RunRef(oldScope.Namespace, oldScope.Tenant, run).ID)
		require.NoError(d.t, err)
		assert.Equal(d.t, want, o.State, "%s: %s", run, o.Error)
	}
	waits := d.entry("job-waits", clockTime(2, 8), core.VerdictMissed)
	require.NotNil(d.t, waits, "its run was made ahead, and missed its start: %+v", d.history("job-waits"))
	assert.Contains(d.t, waits.Reason, "(killed, or its machine failed)")
}

func (d *oldDaemon) nothingThatFailedIsTriedAgainByItself() {
	old := d.action("action-failed")
	assert.Equal(d.t, core.StatusFailed, old.Status.Type)
	assert.EqualValues(d.t, 1, old.Run)
	asked := d.action("action-asked-retry")
	assert.EqualValues(d.t, 2, asked.Run, "its policy asks for it")
	assert.Equal(d.t, core.StatusFailed, asked.Status.Type)
	actions := d.actions()
	assert.Greater(d.t, len(actions), 50)
	for _, a := range actions {
		if a.ToolName != "fails" || a.Policy.OnFailure == core.FailureRetry {
			continue
		}
		assert.LessOrEqual(d.t, a.Run, a.Cycle, "%s: at most one run for each cycle", a.Label)
		for _, attempt := range d.runs(a.ID) {
			assert.EqualValues(d.t, 1, attempt, "%s", a.Label)
		}
	}
	for _, o := range d.history("job-fails") {
		if o.Verdict != core.VerdictDispatched {
			continue
		}
		run, err := d.e.Runs().Get(d.t.Context(), o.ActionID)
		require.NoError(d.t, err)
		assert.Equal(d.t, core.OrchestratorFailed, run.State)
		assert.Zero(d.t, run.RetryAttempt, "%s", run.RunID)
	}
}

// countsAgreeWithTheHistory holds that each time of each schedule has one entry, and that the
// counts are those of the entries.
func (d *oldDaemon) countsAgreeWithTheHistory() {
	list, _, err := d.e.Recurring().List(d.t.Context(), shell.RecurringFilter{}, shell.Page{Limit: shell.MaxPage})
	require.NoError(d.t, err)
	require.Len(d.t, list, 9)
	for _, r := range list {
		n := d.partition(r.Description, schedule.Spec{Expr: r.CronExpr, Zone: r.Timezone, Anchor: r.CreatedAt, DST: r.DST, DayMatch: r.DayMatch, StartsAt: r.StartsAt, EndsAt: r.EndsAt}, r.CreatedAt, r.LastDueAt, r.Enabled)
		assert.Equal(d.t, n[core.VerdictDispatched], r.ExecutionCount, r.Description)
		assert.Equal(d.t, n[core.VerdictMissed], r.MissedCount, r.Description)
		assert.Equal(d.t, n[core.VerdictSkipped], r.SkippedCount, r.Description)
		assert.Equal(d.t, n[core.VerdictDeduplicated], r.DeduplicatedCount, r.Description)
	}
	all, _, err := d.e.Jobs().List(d.t.Context(), shell.JobFilter{}, shell.Page{Limit: shell.MaxPage})
	require.NoError(d.t, err)
	require.Len(d.t, all, 8)
	for _, j := range all {
		n := d.partition(j.ID, schedule.Spec{Expr: j.Schedule, Zone: j.Timezone, Anchor: j.CreatedAt}, j.CreatedAt, j.LastVerdictAt, !j.Paused)
		assert.Equal(d.t, n[core.VerdictDispatched], j.Counts.Dispatched, j.ID)
		assert.Equal(d.t, n[core.VerdictMissed], j.Counts.Missed, j.ID)
		assert.Equal(d.t, n[core.VerdictSkipped], j.Counts.Skipped, j.ID)
		assert.Equal(d.t, j.Counts.Dispatched, j.Counts.Completed+j.Counts.Failed+j.Counts.Cancelled+j.Counts.Orphaned, "%s: all have ended", j.ID)
	}
}

// partition counts the entries of a schedule by verdict. Of one that goes on, they stand for the
// times in (from, to], each once.
func (d *oldDaemon) partition(name string, spec schedule.Spec, from, to effects.Time, whole bool) map[core.Verdict]uint64 {
	n := map[core.Verdict]uint64{}
	s, err := spec.Compile()
	require.NoError(d.t, err)
	var entries []core.Occurrence
	for _, o := range d.history(name) {
		n[o.Verdict] += o.Count
		if !o.Manual {
			entries = append(entries, o)
		}
		if o.Verdict == core.VerdictDispatched {
			assert.NotEmpty(d.t, o.Outcome, "%s at %s", name, o.DueAt)
		}
	}
	if !whole {
		return n
	}
	slices.SortFunc(entries, func(a, b core.Occurrence) int { return int(a.DueAt - b.DueAt) })
	for i, o := range entries {
		count, _ := s.Count(o.DueAt-1, o.LastDueAt, 1000)
		assert.EqualValues(d.t, o.Count, count, "%s: the times from %s to %s", name, o.DueAt, o.LastDueAt)
		if i > 0 {
			assert.Greater(d.t, o.DueAt, entries[i-1].LastDueAt, "%s: a time has two entries", name)
		}
		count, _ = s.Count(from, o.DueAt-1, 1000)
		assert.Zero(d.t, count, "%s: times from %s to %s have no entry", name, from, o.DueAt)
		from = o.LastDueAt
	}
	left, _ := s.Count(from, to, 1000)
	assert.Zero(d.t, left, "%s: times after %s have no entry", name, from)
	return n
}

// othersAreThere holds that calendars and webhooks do what they did.
func (d *oldDaemon) othersAreThere() {
	calendars, _, err := d.e.Calendars().List(d.t.Context(), shell.MachineFilter{}, shell.Page{})
	require.NoError(d.t, err)
	require.Len(d.t, calendars, 1)
	assert.Equal(d.t, "holidays", calendars[0].Name)
	assert.Equal(d.t, "2000-01-03", calendars[0].Exclude.Dates[0].Date)
	hook := slices.IndexFunc(d.actions(), func(a core.Action) bool { return a.Trigger.Type == core.TriggerWebhook })
	require.GreaterOrEqual(d.t, hook, 0)
	was := d.actions()[hook]
	assert.Equal(d.t, core.StatusCompleted, was.Status.Type)
	assert.JSONEq(d.t, `{"ref":"main"}`, string(was.Trigger.RawPayload))
	assert.Empty(d.t, d.runs(was.ID), "it ran once, before")
	again, err := d.e.Webhooks().Receive(d.t.Context(), "hook", nil, []byte(`{"ref":"next"}`))
	require.NoError(d.t, err)
	a, err := d.e.Actions().Wait(d.t.Context(), again)
	require.NoError(d.t, err)
	assert.Equal(d.t, core.StatusCompleted, a.Status.Type)
}

func (d *oldDaemon) recurring(name string) core.RecurringAction {
	r, err := d.e.Recurring().Get(d.t.Context(), oldID(name))
	require.NoError(d.t, err)
	return r
}

func (d *oldDaemon) job(name string) core.Job {
	j, err := d.e.Jobs().Get(d.t.Context(), oldScope, name)
	require.NoError(d.t, err)
	return j
}

func (d *oldDaemon) action(name string) core.Action {
	a, err := d.e.Actions().Get(d.t.Context(), oldID(name))
	require.NoError(d.t, err)
	return a
}

func (d *oldDaemon) actions() []core.Action {
	list, next, err := d.e.Actions().List(d.t.Context(), shell.ActionFilter{}, shell.Page{Limit: shell.MaxPage})
	require.NoError(d.t, err)
	require.Empty(d.t, next)
	return list
}

// history lists the entries of a recurring action or of a job.
func (d *oldDaemon) history(name string) []core.Occurrence {
	p := shell.Page{Limit: shell.MaxPage}
	var list []core.Occurrence
	var next string
	var err error
	if strings.HasPrefix(name, "job-") {
		list, next, err = d.e.Jobs().History(d.t.Context(), oldScope, name, p)
	} else {
		list, next, err = d.e.Recurring().History(d.t.Context(), oldID(name), p)
	}
	require.NoError(d.t, err)
	require.Empty(d.t, next)
	return list
}

// entry gives the entry that begins with a time; nil: there is none with that verdict.
func (d *oldDaemon) entry(name string, at effects.Time, verdict core.Verdict) *core.Occurrence {
	for _, o := range d.history(name) {
		if o.DueAt == at && o.Verdict == verdict && o.ID != uuid.Nil {
			return &o
		}
	}
	return nil
}
