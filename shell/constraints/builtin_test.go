package constraints_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/constraints"
)

func TestATimeWindowIsOneOfTheClockOnTheWall(t *testing.T) {
	for _, row := range []struct {
		name, config, now string
		met               bool
	}{
		{"inside", `{from: "11:00", to: "13:00"}`, "2026-03-10T12:00:00Z", true},
		{"it begins", `{from: "12:00", to: "13:00"}`, "2026-03-10T12:00:00Z", true},
		{"it ends before its end", `{from: "11:00", to: "12:00"}`, "2026-03-10T12:00:00Z", false},
		{"the last second", `{from: "11:00", to: "12:00"}`, "2026-03-10T11:59:59.999Z", true},
		{"outside is asked for", `{from: "11:00", to: "12:00", outside: true}`, "2026-03-10T12:00:00Z", true},
		{"a time zone", `{from: "13:00", to: "14:00", timezone: Europe/Berlin}`, "2026-03-10T12:00:00Z", true},
		{"a zone with half an hour", `{from: "17:30", to: "17:31", timezone: Asia/Kolkata}`, "2026-03-10T12:00:00Z", true},
		{"a day of the week", `{weekdays: [tue]}`, "2026-03-10T12:00:00Z", true},
		{"another day", `{weekdays: [mon, wed]}`, "2026-03-10T12:00:00Z", false},
		{"a range of days", `{weekdays: [mon-fri]}`, "2026-03-10T12:00:00Z", true},
		{"a range over the weekend", `{weekdays: [fri-mon]}`, "2026-03-08T12:00:00Z", true},
		{"a range of one day", `{weekdays: [tue-tue]}`, "2026-03-11T12:00:00Z", false},
		{"over midnight, in the evening", `{from: "22:00", to: "06:00", weekdays: [tue]}`, "2026-03-10T23:00:00Z", true},
		{"over midnight, in the morning, which is of the day before", `{from: "22:00", to: "06:00", weekdays: [tue]}`, "2026-03-11T05:59:00Z", true},
		{"over midnight, the morning before", `{from: "22:00", to: "06:00", weekdays: [tue]}`, "2026-03-10T05:00:00Z", false},
		{"over midnight, from Saturday to Sunday", `{from: "22:00", to: "06:00", weekdays: [sat]}`, "2026-03-15T01:00:00Z", true},
		{"up to midnight", `{from: "22:00", to: "24:00"}`, "2026-03-10T23:59:00Z", true},
		{"up to midnight is over at midnight", `{from: "22:00", to: "24:00"}`, "2026-03-11T00:00:00Z", false},
		{"up to 00:00 is the same", `{from: "22:00", to: "00:00"}`, "2026-03-10T23:59:00Z", true},
		{"the hour before that which is left out", `{from: "02:00", to: "03:00", timezone: Europe/Berlin}`, "2026-03-29T00:59:59Z", false},
		{"the hour that is left out", `{from: "02:00", to: "03:00", timezone: Europe/Berlin}`, "2026-03-29T01:00:00Z", false},
		{"a window that begins in it begins after it", `{from: "02:30", to: "04:00", timezone: Europe/Berlin}`, "2026-03-29T01:00:00Z", true},
		{"the hour that comes twice, first", `{from: "02:00", to: "03:00", timezone: Europe/Berlin}`, "2026-10-25T00:30:00Z", true},
		{"the hour that comes twice, again", `{from: "02:00", to: "03:00", timezone: Europe/Berlin}`, "2026-10-25T01:30:00Z", true},
		{"after it", `{from: "02:00", to: "03:00", timezone: Europe/Berlin}`, "2026-10-25T02:00:00Z", false},
		{"the time of the run counts", `{from: "11:30", to: "12:30", at: scheduled}`, "2026-03-10T18:00:00Z", true},
	} {
		t.Run(row.name, func(t *testing.T) {
			w, j := newWorld(), job(t, "constraints: [{timeWindow: {config: "+row.config+"}}]", "")
			w.run(j, noon, nil)
			c := checker(t, w, func(o *constraints.Options) { o.Now = func() time.Time { return at(row.now).Std() } })
			got := checkOf(t, pre(t, w, c, j))
			assert.Equal(t, row.met, got.Met, got.Message)
		})
	}
}

func TestATimeWindowIsInTheTimeZoneOfItsJobAndSaysWhatItFound(t *testing.T) {
	w, j := newWorld(), job(t, `constraints: [{timeWindow: {config: {from: "22:00", to: "06:00", weekdays: [sat, sun]}}}]`, "")
	j.Timezone = "America/New_York"
	w.run(j, noon, nil)
	assert.Equal(t, "Tue 08:00 in America/New_York is outside of 22:00-06:00 on sat, sun", checkOf(t, pre(t, w, checker(t, w, nil), j)).Message)
}

func day(n int) core.Time { return noon.Add(-time.Duration(n) * 24 * time.Hour) }

func TestThePreviousRunIsTheOneBeforeThatHadAPlaceAndWasNotSkipped(t *testing.T) {
	skipped := func(o *core.Orchestrator) { o.State, o.CompletedAt = core.OrchestratorCompleted, o.ScheduledAt }
	denied := func(o *core.Orchestrator) { o.State, o.Admitted = core.OrchestratorCancelled, false }
	for _, row := range []struct {
		name              string
		runs              []func(*core.Orchestrator) // the day before, the day before that, …
		succeeded, ended  bool
		requiredIsTheSame bool
	}{
		{name: "none", succeeded: true, ended: true},
		{"it completed", []func(*core.Orchestrator){ended(core.OrchestratorCompleted)}, true, true, true},
		{"it failed", []func(*core.Orchestrator){ended(core.OrchestratorFailed), ended(core.OrchestratorCompleted)}, false, true, true},
		{"it was orphaned", []func(*core.Orchestrator){ended(core.OrchestratorOrphaned)}, false, true, true},
		{"it runs", []func(*core.Orchestrator){in(core.OrchestratorRunning), ended(core.OrchestratorCompleted)}, false, false, true},
		{"it was skipped by an action", []func(*core.Orchestrator){skipped, skipped, skipped, skipped, ended(core.OrchestratorFailed)}, false, true, true},
		{"it had no place", []func(*core.Orchestrator){denied, ended(core.OrchestratorCompleted)}, true, true, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			for _, must := range []struct {
				config string
				met    bool
			}{
				{`{}`, row.succeeded}, {`{must: succeeded}`, row.succeeded}, {`{must: finished}`, row.ended},
				{`{must: succeeded, required: true}`, row.succeeded && row.requiredIsTheSame},
			} {
				w, j := newWorld(), job(t, `constraints: [{previousRun: {config: `+must.config+`}}]`, "")
				for i, change := range row.runs {
					w.run(j, day(i+1), change)
				}
				w.run(j, day(-1), ended(core.OrchestratorFailed)) // a later one does not count
				w.run(j, noon, nil)
				got := checkOf(t, pre(t, w, checker(t, w, nil), j))
				assert.Equal(t, must.met, got.Met, "%s: %s", must.config, got.Message)
			}
		})
	}
}

func TestWhichRunOfAnotherJobCounts(t *testing.T) {
	type change = func(*core.Orchestrator)
	for _, row := range []struct {
		name, config string
		runs         map[core.Time]change
		met          bool
		message      string
	}{
		{"no run", `{job: load}`, nil, false, "job load has had no run"},
		{"the latest completed", `{job: load}`, map[core.Time]change{day(1): ended(core.OrchestratorCompleted), day(2): ended(core.OrchestratorFailed)}, true, "run load:2026-03-09T12:00:00.000Z completed 23h0m0s ago"},
		{"the latest failed", `{job: load}`, map[core.Time]change{day(1): ended(core.OrchestratorFailed), day(2): ended(core.OrchestratorCompleted)}, false, "run load:2026-03-09T12:00:00.000Z is failed"},
		{"the latest is too old", `{job: load, within: 22h}`, map[core.Time]change{day(1): ended(core.OrchestratorCompleted)}, false, "run load:2026-03-09T12:00:00.000Z completed 23h0m0s ago, and within 22h0m0s is needed"},
		{"the latest is just in time", `{job: load, within: 23h}`, map[core.Time]change{day(1): ended(core.OrchestratorCompleted)}, true, "run load:2026-03-09T12:00:00.000Z completed 23h0m0s ago, and within 23h0m0s is needed"},
		{"any within a time", `{job: load, match: any, within: 48h}`, map[core.Time]change{day(1): ended(core.OrchestratorFailed), day(2): ended(core.OrchestratorCompleted)}, true, "run load:2026-03-08T12:00:00.000Z completed at 2026-03-08T13:00:00.000Z"},
		{"none within a time", `{job: load, match: any, within: 46h}`, map[core.Time]change{day(1): ended(core.OrchestratorFailed), day(2): ended(core.OrchestratorCompleted)}, false, "no run of job load has succeeded within 46h0m0s"},
		{"the same time", `{job: load, match: scheduled}`, map[core.Time]change{noon: ended(core.OrchestratorCompleted)}, true, "run load:2026-03-10T12:00:00.000Z is completed"},
		{"the same time, still running", `{job: load, match: scheduled}`, map[core.Time]change{noon: in(core.OrchestratorRunning), day(1): ended(core.OrchestratorCompleted)}, false, "run load:2026-03-10T12:00:00.000Z is running"},
		{"the same time, skipped", `{job: load, match: scheduled}`, map[core.Time]change{noon: func(o *core.Orchestrator) { o.State = core.OrchestratorCompleted }}, false, "run load:2026-03-10T12:00:00.000Z is completed"},
		{"no run of the same time", `{job: load, match: scheduled}`, map[core.Time]change{day(1): ended(core.OrchestratorCompleted)}, false, "there is no run load:2026-03-10T12:00:00.000Z"},
		{"since the run before", `{job: load, match: since}`, map[core.Time]change{day(1).Add(time.Hour): ended(core.OrchestratorCompleted)}, true, "run load:2026-03-09T13:00:00.000Z completed at 2026-03-09T14:00:00.000Z"},
		{"not since the run before", `{job: load, match: since}`, map[core.Time]change{day(2): ended(core.OrchestratorCompleted)}, false, "no run of job load has succeeded since run report:2026-03-09T12:00:00.000Z"},
	} {
		t.Run(row.name, func(t *testing.T) {
			w, j := newWorld(), job(t, `constraints: [{dependsOn: {config: `+row.config+`}}]`, "")
			other := *j
			other.ID = "load"
			for when, change := range row.runs {
				w.run(&other, when, change)
			}
			w.run(j, day(1), ended(core.OrchestratorCompleted))
			w.run(j, noon, nil)
			got := checkOf(t, pre(t, w, checker(t, w, nil), j))
			assert.Equal(t, row.met, got.Met)
			assert.Equal(t, row.message, got.Message)
		})
	}
}

func TestTheFirstRunSinceNoneNeedsAnySuccess(t *testing.T) {
	w, j := newWorld(), job(t, `constraints: [{dependsOn: {config: {job: load, match: since}}}]`, "")
	other := *j
	other.ID = "load"
	w.run(&other, day(30), ended(core.OrchestratorCompleted))
	w.run(j, noon, nil)
	assert.True(t, checkOf(t, pre(t, w, checker(t, w, nil), j)).Met)
}

func TestConcurrentRunsAreThoseWithAPlaceInTheCluster(t *testing.T) {
	orphan := func(o *core.Orchestrator) { ended(core.OrchestratorOrphaned)(o); o.InCluster = true }
	for _, row := range []struct {
		name   string
		others []func(*core.Orchestrator)
		want   int
	}{
		{"none", nil, 0},
		{"running, creating, terminating", []func(*core.Orchestrator){in(core.OrchestratorRunning), in(core.OrchestratorContainerCreating), in(core.OrchestratorTerminating)}, 3},
		{"waiting, retrying, ended", []func(*core.Orchestrator){in(core.OrchestratorPending), in(core.OrchestratorRetrying), ended(core.OrchestratorCompleted)}, 0},
		{"checked before", []func(*core.Orchestrator){func(o *core.Orchestrator) { o.ConstraintCheckStarted = noon - 1 }}, 1},
		{"checked later", []func(*core.Orchestrator){func(o *core.Orchestrator) { o.ConstraintCheckStarted = noon + 1 }}, 0},
		{"an orphan is no run of its job any more", []func(*core.Orchestrator){orphan}, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			for _, most := range []int{row.want, row.want + 1} {
				if most == 0 {
					continue
				}
				for _, by := range []string{"", "jobs: [report, unheard-of], ", "labels: {team: data}, "} {
					w, j := newWorld(), job(t, fmt.Sprintf(`constraints: [{maxConcurrentRuns: {config: {%s max: %d}}}]`, by, most), "")
					foreign := *j
					foreign.Tenant = "other"
					w.run(&foreign, day(20), in(core.OrchestratorRunning))
					for i, change := range row.others {
						w.run(j, day(i+1), change)
					}
					w.jobs[j.ID] = core.Job{JobSpec: *j, Active: active(w, j.ID, j.Tenant)}
					w.run(j, noon, nil)
					got := checkOf(t, pre(t, w, checker(t, w, nil), j))
					assert.Equal(t, most > row.want, got.Met, "%s%d: %s", by, most, got.Message)
				}
			}
		})
	}
}

func active(w *world, job, tenant string) (list []core.ActiveRun) {
	for _, run := range w.runs {
		if run.JobID == job && run.Tenant == tenant && !run.State.Terminal() {
			list = append(list, core.ActiveRun{Run: run.ID, RunID: run.RunID, Stage: core.StageAdmitted})
		}
	}
	return list
}

func TestOfTwoRunsThatAreCheckedAtOnceExactlyOneGoesOn(t *testing.T) {
	w, j := newWorld(), job(t, `constraints: [{maxConcurrentRuns: {config: {max: 1}}}]`, "")
	for _, when := range []core.Time{noon, day(1)} {
		w.run(j, when, func(o *core.Orchestrator) { o.ConstraintCheckStarted = noon })
	}
	c := checker(t, w, nil)
	met := 0
	for _, when := range []core.Time{noon, day(1)} {
		r, err := c.CheckPreExecution(t.Context(), j, core.RunID(j.ID, when))
		require.NoError(t, err)
		if r.ShouldProceed {
			met++
		}
	}
	assert.Equal(t, 1, met)
}

func TestWhereTheEngineDoesNotAnswerNothingIsKnown(t *testing.T) {
	for _, config := range []string{
		`previousRun: {}`, `dependsOn: {config: {job: load}}`, `dependsOn: {config: {job: load, match: since}}`, `maxConcurrentRuns: {config: {max: 1}}`,
		`maxConcurrentRuns: {config: {max: 1, labels: {a: b}}}`, `expression: {config: {expression: previous_run.succeeded}}`,
	} {
		w, j := newWorld(), job(t, `constraints: [{`+config+`}]`, "")
		w.run(j, noon, nil)
		w.broken = errDown
		c := checker(t, w, nil)
		require.NoError(t, c.Validate(j))
		_, err := c.CheckPreExecution(t.Context(), j, core.RunID(j.ID, noon))
		require.ErrorContains(t, err, errDown.Error(), config)
	}
}

func TestTheLatestRunIsTheOneForTheLatestTimeAndNotTheOneMadeLast(t *testing.T) {
	w, j := newWorld(), job(t, `constraints: [{previousRun: {}}]`, "")
	j.CreateAheadMS = time.Hour.Milliseconds()
	ahead := func(state core.OrchestratorStatus, by time.Duration) func(*core.Orchestrator) {
		return func(o *core.Orchestrator) {
			ended(state)(o)
			o.CreatedAt = o.ScheduledAt.Add(-by)
		}
	}
	for n := range 10 { // by hand, before the one that counts, but made after it
		w.run(j, day(1).Add(-time.Duration(n+1)*time.Minute), ahead(core.OrchestratorFailed, 0))
	}
	w.run(j, day(1), ahead(core.OrchestratorCompleted, time.Hour))
	w.run(j, noon, nil)
	got := checkOf(t, pre(t, w, checker(t, w, nil), j))
	assert.True(t, got.Met, got.Message)
}

func TestRunsWithLabelsAreCountedOverAllPagesAndJobs(t *testing.T) {
	w, j := newWorld(), job(t, `constraints: [{maxConcurrentRuns: {config: {max: 2, labels: {database: warehouse}}}}]`, "")
	for n := range 8 { // the two that count are the oldest of their lists
		other := *j
		other.ID = fmt.Sprintf("job-%d", n)
		if n >= 6 {
			other.Labels = map[string]string{"database": "warehouse", "team": "ops"}
		}
		w.run(&other, day(n+1), in(core.OrchestratorRunning))
	}
	w.run(j, noon, nil)
	got := checkOf(t, pre(t, w, checker(t, w, nil), j))
	assert.False(t, got.Met)
	assert.Equal(t, "2 other runs are under way, and 2 may be at a time", got.Message)
}

func TestARunThatItsJobHasGivenNoPlaceDoesNotCount(t *testing.T) {
	w, j := newWorld(), job(t, `constraints: [{maxConcurrentRuns: {config: {max: 1}}}]`, "")
	w.run(j, day(1), in(core.OrchestratorRunning))
	known := w.jobs[j.ID]
	known.Active[0].Stage = core.StageAsked
	w.run(j, noon, nil)
	assert.True(t, checkOf(t, pre(t, w, checker(t, w, nil), j)).Met)
	assert.Equal(t, 1, w.reads["JobRun"], "nobody reads more than the run itself")
}

func TestARunThatGoesOnWhileRunsAreCountedIsCountedOnce(t *testing.T) {
	w, j := newWorld(), job(t, `constraints: [{maxConcurrentRuns: {config: {max: 2, labels: {team: data}}}}]`, "")
	path := []core.OrchestratorStatus{core.OrchestratorConditionRunning, core.OrchestratorActionRunning, core.OrchestratorContainerCreating, core.OrchestratorRunning, core.OrchestratorTerminating}
	for begins := range path {
		w.runs = nil
		w.run(j, noon, nil)
		w.run(j, day(1), in(path[begins]))
		now := begins
		w.onList = func() {
			now = min(now+1, len(path)-1)
			for i := range w.runs {
				if w.runs[i].ScheduledAt == day(1) {
					w.runs[i].State = path[now]
				}
			}
		}
		got := checkOf(t, pre(t, w, checker(t, w, nil), j))
		assert.Equal(t, "1 other runs are under way, and 2 may be at a time", got.Message, path[begins])
	}
}
