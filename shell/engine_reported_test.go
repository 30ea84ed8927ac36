package shell_test

import (
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/store/memory"
)

// Tests of what users of other schedulers have reported, each as a test of what its reporter wanted.

// until lets virtual time go on to an instant.
func until(at time.Time) { elapse(time.Until(at)) }

// onDay is an instant of the first day of virtual time.
func onDay(hour, minute, second int) time.Time {
	return time.Date(2000, 1, 1, hour, minute, second, 0, time.UTC)
}

// dispatchedAt lists the due times that were dispatched, in order.
func dispatchedAt(t *testing.T, e *shell.Engine, of uuid.UUID) (times []effects.Time) {
	t.Helper()
	history, _, err := e.Recurring().History(bg(), of, shell.Page{Limit: 1000})
	require.NoError(t, err)
	for _, o := range history {
		if o.Verdict == core.VerdictDispatched {
			times = append(times, o.DueAt)
		}
	}
	slices.Sort(times)
	return times
}

// kubernetes/kubernetes#63371, "Updating a cronjob causes jobs to be scheduled retroactively": at
// 16:34:08 the schedule "33 16 * * *" was changed to "34 16 * * *", and the job ran at once; others sent
// mail a thousand times. They wanted a new schedule to hold from the time of the update on, and nothing to
// be started by an update that leaves the schedule as it is.
func TestReportedAnUpdateOfAScheduleStartsNothingRetroactively(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, k := &counting{}, newCluster()
		k.runFor = time.Second
		o := k.options(inMemory(t))
		o.Tools, o.TickRate = tools(c), time.Minute
		e := k.silent(running(t, o))
		until(onDay(16, 32, 1))
		spec, job := everyMinute(), nightly()
		spec.CronExpr, job.Schedule = "33 16 * * *", "33 16 * * *"
		r, err := e.Recurring().Create(bg(), spec)
		require.NoError(t, err)
		j := applied(t, e, job)
		until(onDay(16, 34, 8))
		first := effects.TimeOf(onDay(16, 33, 0))
		require.Equal(t, []effects.Time{first}, dispatchedAt(t, e, r.ID))
		require.Equal(t, []effects.Time{first}, dispatchedAt(t, e, j.Key))

		earlier := []string{"34 16 * * *", "33 16 * * *", "*/2 16 * * *", "0 9 * * *", "33 16 * * *", "33 16 * * *"}
		for _, cron := range earlier {
			_, err = e.Recurring().Update(bg(), r.ID, core.RecurringPatch{CronExpr: &cron})
			require.NoError(t, err)
			job.Schedule = cron
			applied(t, e, job)
			elapse(time.Second)
		}
		until(onDay(23, 59, 59))
		assert.Equal(t, []effects.Time{first}, dispatchedAt(t, e, r.ID))
		assert.Equal(t, []effects.Time{first}, dispatchedAt(t, e, j.Key))
		elapse(17 * time.Hour)
		assert.Equal(t, []effects.Time{first, first.Add(24 * time.Hour)}, dispatchedAt(t, e, r.ID), "it goes on")
		assert.Equal(t, []effects.Time{first, first.Add(24 * time.Hour)}, dispatchedAt(t, e, j.Key))
		assert.EqualValues(t, 2, c.n.Load())
	})
}

// kubernetes/kubernetes#42649, "Stopping cluster overnight prevents scheduled jobs from running after
// cluster startup": more than a hundred times were missed, and from then on the job never ran again.
// They wanted it to go on after the night.
func TestReportedAfterANightWithoutADaemonSchedulesGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, c := newCluster(), &counting{}
		k.runFor = time.Second
		o := k.options(inMemory(t))
		o.Tools = tools(c)
		e, stop := start(t, o)
		k.use(e)
		job := nightly()
		job.Schedule, job.CreateAheadMS = "* * * * *", 1 // no run waits for its time during the night
		r, err := e.Recurring().Create(bg(), everyMinute())
		require.NoError(t, err)
		j := applied(t, e, job)
		until(onDay(0, 3, 30))
		require.NoError(t, stop())
		until(onDay(11, 0, 30))
		e = k.use(running(t, o))
		until(onDay(11, 10, 30))
		for name, id := range map[string]uuid.UUID{"recurring action": r.ID, "job": j.Key} {
			want := []effects.Time{}
			for minute := 1; minute <= 3; minute++ {
				want = append(want, effects.TimeOf(onDay(0, minute, 0)))
			}
			for minute := range 11 { // the first one within the start deadline
				want = append(want, effects.TimeOf(onDay(11, minute, 0)))
			}
			assert.Equal(t, want, dispatchedAt(t, e, id), name)
			missed := missedOf(t, e, id)
			require.Len(t, missed, 1, name)
			assert.EqualValues(t, 656, missed[0].Count, name)
			assert.Contains(t, missed[0].Reason, "the daemon was stopped from ", name)
		}
	})
}

// temporalio/temporal#8087: users wanted to be alerted whenever a schedule leaves out a run, for whatever
// reason, and to be told which schedule that was, without looking at each one.
func TestReportedWhatAScheduleLeavesOutIsToldWithItsSchedule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, log, clock := newCluster(), &logLines{}, &drowsy{}
		k.runFor = 90 * time.Second
		o := k.options(inMemory(t))
		o.Tools, o.Clock, o.Logger = tools(&counting{}), clock, slog.New(slog.NewTextHandler(log, nil))
		e := k.use(running(t, o))
		told := e.Subscribe(func(ev effects.Event) bool { return ev.Kind.Action == "missed" || ev.Kind.Action == "skipped" }, 100)
		job := nightly()
		job.Schedule, job.Overlap = "* * * * *", core.OverlapForbid
		named := everyMinute()
		named.Name = "digest.eu"
		r, err := e.Recurring().Create(bg(), named)
		require.NoError(t, err)
		j := applied(t, e, job)
		until(onDay(0, 2, 30))
		clock.sleep(10 * time.Minute)
		until(onDay(0, 7, 30))

		kinds := map[string]int{}
		for len(told.C) > 0 {
			ev := <-told.C
			kinds[fmt.Sprint(ev.Kind, " ", ev.Source.ID)]++
			assert.Contains(t, string(ev.Data), `"reason":"`)
			if ev.Source.ID == r.ID && ev.Kind.Action == "missed" {
				assert.Contains(t, string(ev.Data), `"name":"digest.eu"`, "nobody has to look up an id")
			}
		}
		told.Close()
		assert.Positive(t, kinds[fmt.Sprint("recurring:missed ", r.ID)], "%v", kinds)
		assert.Positive(t, kinds[fmt.Sprint("job:missed ", j.Key)], "%v", kinds)
		assert.Positive(t, kinds[fmt.Sprint("job:skipped ", j.Key)], "%v", kinds)
		assert.NotEmpty(t, log.with("recurring.missed"))
		for _, line := range log.with("recurring.missed") {
			assert.Contains(t, line, r.ID.String())
			assert.Contains(t, line, "name=digest.eu")
		}
		s, err := e.JobStats(bg())
		require.NoError(t, err)
		assert.Positive(t, s.Verdicts[core.VerdictMissed])
		assert.Positive(t, s.Verdicts[core.VerdictSkipped])
		for _, key := range []shell.OccurrenceKey{{Schedule: core.KindRecurring, Verdict: core.VerdictMissed}, {Schedule: core.KindJob, Verdict: core.VerdictMissed}, {Schedule: core.KindJob, Verdict: core.VerdictSkipped}} {
			entries, _, err := e.Occurrences().List(bg(), shell.OccurrenceFilter{Schedule: key.Schedule, Verdict: key.Verdict}, shell.Page{Limit: 1000})
			require.NoError(t, err)
			times := uint64(0)
			for _, o := range entries {
				times += o.Count
				assert.Equal(t, map[effects.Kind]string{core.KindRecurring: named.Name, core.KindJob: job.ID}[key.Schedule], o.Name, "whose it is")
			}
			assert.Positive(t, times, "%v", key)
			assert.Equal(t, times, e.OccurrenceStats().Total[key], "%v: the metric counts each", key)
		}
	})
}

// hashicorp/nomad#11052, "Multiple instances of a periodic job are run simultaneously, when
// prohibit_overlap is true": it happened when the leader changed. They wanted one at a time whoever leads.
func TestReportedRunsThatMustNotOverlapDoNotOverlapWhenTheLeaderChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, k := memory.NewSession("0"), newCluster()
		k.runFor = 25 * time.Minute
		o := k.options(st)
		o.RecoverAfter, o.LeaseTTL = 10*time.Second, 20*time.Second
		job := nightly()
		job.Schedule, job.Overlap = "* * * * *", core.OverlapForbid
		most := 0
		watch := func(d time.Duration) {
			for range int(d / time.Second) {
				elapse(time.Second)
				most = max(most, k.podCount())
			}
		}
		for leader := range 4 {
			o.Store = st
			crashed(t, o, func(e *shell.Engine) {
				k.use(e)
				if leader == 0 {
					applied(t, e, job)
				}
				watch(4*time.Minute + 20*time.Second)
			})
			st = st.Reopen(fmt.Sprint(leader + 1))
			watch(10 * time.Second)
		}
		o.Store = st
		e := k.use(running(t, o))
		watch(40 * time.Minute)
		assert.Equal(t, 1, most, "pods at a time")
		key := core.JobRef(tenant.Namespace, tenant.Tenant, job.ID).ID
		assert.Len(t, dispatchedAt(t, e, key), 3, "as each takes 25 minutes")
		history, _, err := e.Recurring().History(bg(), key, shell.Page{Limit: 1000})
		require.NoError(t, err)
		for _, o := range history {
			if o.Verdict == core.VerdictSkipped {
				assert.Contains(t, o.Reason, "overlap is forbid, and run nightly:")
			}
		}
	})
}

// hashicorp/nomad#5410, "Uncontrolled evaluation of periodic batch jobs during DST change": a job of two
// o'clock in New York ran thousands of times on the night on which the clocks skip two o'clock. They
// wanted it to run once.
func TestReportedANightOnWhichTheClocksChangeRunsAJobOnce(t *testing.T) {
	for name, night := range map[string]struct {
		before time.Time
		cron   string
		want   string // its local time on the second of three nights
	}{
		"forward": {time.Date(2000, 4, 1, 1, 0, 0, 0, time.UTC), "0 2 * * *", "2000-04-02T07:00:00.000Z"},
		"back":    {time.Date(2000, 10, 28, 1, 0, 0, 0, time.UTC), "30 1 * * *", "2000-10-29T05:30:00.000Z"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				until(night.before)
				k, c := newCluster(), &counting{}
				k.runFor = time.Second
				o := k.options(inMemory(t))
				o.Tools, o.TickRate = tools(c), time.Minute
				e := k.silent(running(t, o))
				spec, job := everyMinute(), nightly()
				spec.CronExpr, spec.Timezone = night.cron, "America/New_York"
				job.Schedule, job.Timezone = night.cron, "America/New_York"
				r, err := e.Recurring().Create(bg(), spec)
				require.NoError(t, err)
				j := applied(t, e, job)
				elapse(3 * 24 * time.Hour)
				for _, id := range []uuid.UUID{r.ID, j.Key} {
					times := dispatchedAt(t, e, id)
					require.Len(t, times, 3, "%s", times)
					assert.Equal(t, night.want, times[1].String())
					assert.Empty(t, missedOf(t, e, id))
				}
				assert.EqualValues(t, 3, c.n.Load())
			})
		})
	}
}

// argoproj/argo-workflows#9632, "Missed CronWorkflows should be scheduled after a downtime of the
// controller": after five minutes without a controller only the latest time ran, and its run did not
// know for which time it stood. They wanted each of the times to be run with its own time, up to a
// bound.
func TestReportedAfterADowntimeEachTimeIsRunWithItsOwnTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, c := newCluster(), &counting{}
		k.runFor = time.Second
		o := k.options(inMemory(t))
		o.Tools = tools(c)
		e, stop := start(t, o)
		k.use(e)
		spec, bounded, job := everyMinute(), everyMinute(), nightly()
		spec.Missed, bounded.Missed, bounded.CatchUpLimit = core.MissedAll, core.MissedAll, 3
		job.Schedule, job.Missed, job.CreateAheadMS = "* * * * *", core.MissedAll, 1
		all, err := e.Recurring().Create(bg(), spec)
		require.NoError(t, err)
		last, err := e.Recurring().Create(bg(), bounded)
		require.NoError(t, err)
		j := applied(t, e, job)
		until(onDay(0, 2, 30))
		require.NoError(t, stop())
		until(onDay(0, 7, 45))
		e = k.use(running(t, o))
		elapse(10 * time.Second)
		want := []effects.Time{}
		for minute := range 7 {
			want = append(want, effects.TimeOf(onDay(0, minute+1, 0)))
		}
		assert.Equal(t, want, dispatchedAt(t, e, all.ID))
		assert.Equal(t, want, dispatchedAt(t, e, j.Key))
		assert.Empty(t, missedOf(t, e, all.ID))
		assert.Equal(t, slices.Concat(want[:2], want[4:]), dispatchedAt(t, e, last.ID))
		missed := missedOf(t, e, last.ID)
		require.Len(t, missed, 1)
		assert.Equal(t, [3]any{want[2], want[3], uint64(2)}, [3]any{missed[0].DueAt, missed[0].LastDueAt, missed[0].Count})
		assert.Contains(t, missed[0].Reason, "the daemon was stopped from 2000-01-01T00:02:30")
		assert.Contains(t, missed[0].Reason, "at most the last 3 are caught up")

		actions, _, err := e.Actions().List(bg(), shell.ActionFilter{}, shell.Page{Limit: 100})
		require.NoError(t, err)
		var told []effects.Time
		for _, a := range actions {
			if a.Metadata[core.MetaRecurringID] == all.ID.String() {
				told = append(told, a.Trigger.NextTickAt)
			}
		}
		slices.Sort(told)
		assert.Equal(t, want, told, "what the tool is told")
	})
}

// argoproj/argo-workflows#2706, "Backfill cron workflows": they wanted to ask a schedule to run as if it
// had been there already, and to make up by a command for a time without a controller, in order and
// each time once.
func TestReportedAScheduleRunsAsIfItHadBeenThereAlready(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newCluster()
		k.runFor = time.Second
		o := k.options(inMemory(t))
		o.Tools = tools(&counting{})
		e := k.use(running(t, o))
		until(onDay(12, 0, 0).AddDate(0, 0, 2))
		spec, job := everyMinute(), nightly()
		spec.CronExpr, job.Schedule = "0 2 * * *", "0 2 * * *"
		r, err := e.Recurring().Create(bg(), spec)
		require.NoError(t, err)
		j := applied(t, e, job)
		var want []effects.Time
		for day := range 2 {
			want = append(want, effects.TimeOf(onDay(2, 0, 0).AddDate(0, 0, day+1)))
		}
		from := effects.TimeOf(onDay(12, 0, 0))
		for name, request := range map[string]shell.BackfillRequest{
			"recurring action": {Recurring: r.ID, From: from}, "job": {Scope: tenant, Job: job.ID, From: from},
		} {
			for again, times := range [][]effects.Time{want, {}} {
				made, err := e.Backfills().Create(bg(), request)
				require.NoError(t, err, name)
				require.Equal(t, times, made.Times, "%s, request %d", name, again)
				ended, err := e.Backfills().Wait(bg(), made.ID)
				require.NoError(t, err, name)
				assert.EqualValues(t, len(times), ended.Counts.Succeeded, "%s: %v", name, ended.Problems)
			}
		}
		until(onDay(3, 0, 0).AddDate(0, 0, 3))
		for name, of := range map[string]uuid.UUID{"recurring action": r.ID, "job": j.Key} {
			assert.Equal(t, append(slices.Clone(want), effects.TimeOf(onDay(2, 0, 0).AddDate(0, 0, 3))), dispatchedAt(t, e, of), "%s: and the live time", name)
		}
	})
}
