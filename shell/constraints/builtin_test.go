package constraints_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
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
		{"the latest is too old", `{job: load, within: 22h}`, map[core.Time]change{day(1): ended(core.OrchestratorCompleted)}, false, "run load:2026-03-09T12:00:00.000Z completed 23h0m0s ago"},
		{"the latest is just in time", `{job: load, within: 23h}`, map[core.Time]change{day(1): ended(core.OrchestratorCompleted)}, true, "run load:2026-03-09T12:00:00.000Z completed 23h0m0s ago"},
		{"any within a time", `{job: load, match: any, within: 48h}`, map[core.Time]change{day(1): ended(core.OrchestratorFailed), day(2): ended(core.OrchestratorCompleted)}, true, "run load:2026-03-08T12:00:00.000Z completed at 2026-03-08T13:00:00.000Z"},
		{"none within a time", `{job: load, match: any, within: 46h}`, map[core.Time]change{day(1): ended(core.OrchestratorFailed), day(2): ended(core.OrchestratorCompleted)}, false, "no run of job load has succeeded within 46h0m0s"},
		{"the same time", `{job: load, match: scheduled}`, map[core.Time]change{noon: ended(core.OrchestratorCompleted)}, true, "run load:2026-03-10T12:00:00.000Z is completed"},
		{"the same time, still running", `{job: load, match: scheduled}`, map[core.Time]change{noon: in(core.OrchestratorRunning), day(1): ended(core.OrchestratorCompleted)}, false, "run load:2026-03-10T12:00:00.000Z is running"},
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
			list = append(list, core.ActiveRun{Run: run.ID, RunID: run.RunID, Stage: core.StagePlaced})
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

func TestARunHasTheLocksOfItsConstraintsUnlessItIsStopped(t *testing.T) {
	const own = "run:"
	held := core.LockAcquire{Name: "b", Tenant: "acme", Holder: "somebody"}
	for _, row := range []struct {
		name, config string
		before       []core.LockAcquire
		met          bool
		locks        []string
		checks       int
		message      string
	}{
		{name: "free", config: `{lock: {config: {name: b}}}, {lock: {config: {name: a}}}`, met: true, locks: []string{"a", "b"}, checks: 2, message: "all 2 constraints are met"},
		{name: "twice the same", config: `{lock: {config: {name: a}}}, {lock: {config: {name: a}}}`, met: true, locks: []string{"a"}, checks: 2, message: "all 2 constraints are met"},
		{name: "held by another: none is kept", config: `{lock: {config: {name: b}}}, {lock: {config: {name: a}}}`, before: []core.LockAcquire{held}, checks: 1, message: `violated: lock: lock "b" is held by "somebody"`},
		{name: "advisory: the others are kept", config: `{lock: {advisory: true, config: {name: b}}}, {lock: {config: {name: c}}}`, before: []core.LockAcquire{held}, met: true, locks: []string{"c"}, checks: 2, message: `violated: lock: lock "b" is held by "somebody"`},
		{name: "another constraint stops it: none is taken", config: `{lock: {config: {name: a}}}, {says: {}}`, checks: 1, message: "violated: says"},
		{name: "an advisory one does not", config: `{lock: {config: {name: a}}}, {hints: {}}`, met: true, locks: []string{"a"}, checks: 2, message: "violated: hints"},
	} {
		t.Run(row.name, func(t *testing.T) {
			w, j := newWorld(), job(t, `constraints: [`+row.config+`]`, "")
			run := w.run(j, noon, nil)
			for _, ev := range row.before {
				_, err := w.SendLock(t.Context(), shell.Scope{}, ev.Name, ev)
				require.NoError(t, err)
			}
			c := checker(t, w, withSays)
			for range 2 { // it may be asked again
				r := pre(t, w, c, j)
				assert.Equal(t, row.met, r.ShouldProceed)
				assert.Equal(t, row.locks, r.Locks)
				assert.Equal(t, row.message, r.Message)
				assert.Len(t, r.Checks, row.checks)
				for _, name := range []string{"a", "c"} {
					want := ""
					if strings.Contains(strings.Join(row.locks, " "), name) {
						want = own + run.ID.String()
					}
					assert.Equal(t, want, w.holder(name), "lock %s", name)
				}
			}
		})
	}
}

func TestALockThatARunLeftBehindIsTaken(t *testing.T) {
	orphan := func(o *core.Orchestrator) { ended(core.OrchestratorOrphaned)(o); o.InCluster = true }
	for _, row := range []struct {
		name   string
		change func(*core.Orchestrator) // nil: there is no such run
		met    bool
	}{
		{"gone", nil, true},
		{"ended", ended(core.OrchestratorCancelled), true},
		{"under way", in(core.OrchestratorRunning), false},
		{"between two attempts", in(core.OrchestratorRetrying), false},
		{"orphaned, and its pod goes on", orphan, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			w, j := newWorld(), job(t, `constraints: [{lock: {config: {name: a, ttl: 1h}}}]`, "")
			id := core.RunRef(j.Namespace, j.Tenant, core.RunID(j.ID, day(1))).ID
			if row.change != nil {
				w.run(j, day(1), row.change)
			}
			run := w.run(j, noon, nil)
			_, err := w.SendLock(t.Context(), shell.Scope{}, "a", core.LockAcquire{Name: "a", Tenant: "acme", Holder: "run:" + id.String()})
			require.NoError(t, err)
			got := checkOf(t, pre(t, w, checker(t, w, nil), j))
			assert.Equal(t, row.met, got.Met)
			if row.met {
				assert.Equal(t, "run:"+run.ID.String(), w.holder("a"))
			} else {
				assert.Equal(t, `lock "a" is held by run report:2026-03-09T12:00:00.000Z`, got.Message)
			}
		})
	}
}

func TestACheckThatIsCutOffKeepsNoLock(t *testing.T) {
	w, j := newWorld(), job(t, `constraints: [{lock: {config: {name: a}}}, {lock: {config: {name: b}}}]`, "")
	w.run(j, noon, nil)
	ctx, cancel := context.WithCancel(t.Context())
	w.onLock = func(ev core.LockEvent) {
		if acquire, ok := ev.(core.LockAcquire); ok && acquire.Name == "b" {
			cancel()
		}
	}
	_, err := checker(t, w, nil).CheckPreExecution(ctx, j, core.RunID(j.ID, noon))
	require.ErrorIs(t, err, context.Canceled)
	assert.Empty(t, w.holder("a"))
}

func TestALockThatCannotBeGivenBackIsTheRunsToGiveBack(t *testing.T) {
	w, j := newWorld(), job(t, `constraints: [{lock: {config: {name: a}}}, {lock: {config: {name: b}}}]`, "")
	w.run(j, noon, nil)
	_, err := w.SendLock(t.Context(), shell.Scope{}, "b", core.LockAcquire{Name: "b", Tenant: "acme", Holder: "somebody"})
	require.NoError(t, err)
	broken := false
	w.onLock = func(ev core.LockEvent) {
		if _, ok := ev.(core.LockRelease); ok {
			broken = true
		}
	}
	w.refuses = func(string) error {
		if broken {
			return errDown
		}
		return nil
	}
	r := pre(t, w, checker(t, w, nil), j)
	assert.False(t, r.ShouldProceed)
	assert.Equal(t, []string{"a", "b"}, r.Locks, "who knows whether b was taken")
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

func TestAHooksVerdictIsItsErrorOrItsAnswer(t *testing.T) {
	for _, row := range []struct {
		name, result string
		err          error
		met          bool
		message      string
		unknown      string
	}{
		{name: "nothing", met: true},
		{name: "no JSON", result: `fine`, met: true},
		{name: "another answer", result: `{"exit_code":0,"stdout":"all is well"}`, met: true},
		{name: "go on", result: `{"proceed":true,"message":"as you like"}`, met: true, message: "as you like"},
		{name: "do not", result: `{"proceed":false,"message":"not today"}`, message: "not today"},
		{name: "a program's output", result: `{"exit_code":0,"stdout":"{\"proceed\":false,\"message\":\"full\"}\n"}`, message: "full"},
		{name: "a server's answer", result: `{"status":200,"body":{"proceed":false,"message":"closed"}}`, message: "closed"},
		{name: "an error", err: errDown, message: "the store is down"},
		{name: "no verdict", result: `{"proceed":"maybe"}`, unknown: `its answer has proceed "maybe": want true or false`},
	} {
		t.Run(row.name, func(t *testing.T) {
			w, j := newWorld(), job(t, `constraints: [{preRunHook: {config: {tool: gate, input: {run: "${run_id}", attempt: "${attempt}"}}}}]`, "")
			run := w.run(j, noon, func(o *core.Orchestrator) { o.RetryAttempt = 2 })
			var call shell.Call
			c := checker(t, w, func(o *constraints.Options) {
				o.Tools = map[string]shell.Tool{"gate": shell.ToolFunc(func(_ context.Context, got shell.Call) (json.RawMessage, error) {
					call = got
					return json.RawMessage(row.result), row.err
				})}
			})
			require.NoError(t, c.Validate(j))
			r, err := c.CheckPreExecution(t.Context(), j, run.RunID)
			if row.unknown != "" {
				require.ErrorContains(t, err, row.unknown)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, row.met, checkOf(t, r).Met)
			assert.Equal(t, row.message, checkOf(t, r).Message)
			assert.JSONEq(t, `{"run":"report:2026-03-10T12:00:00.000Z","attempt":"2"}`, string(call.Input))
			assert.Equal(t, run.ID.String()+"/2/pre/preRunHook", call.IdempotencyKey)
			assert.Equal(t, uint32(3), call.Attempt)
			assert.Equal(t, "acme", call.Tenant)
		})
	}
}

func TestAHookThatGivesNoVerdictInTimeOrPanicsGivesNone(t *testing.T) {
	for name, tool := range map[string]shell.ToolFunc{
		"no verdict within 10ms": func(ctx context.Context, _ shell.Call) (json.RawMessage, error) {
			<-ctx.Done()
			return json.RawMessage(`{"proceed":true}`), nil
		},
		"it panicked": func(context.Context, shell.Call) (json.RawMessage, error) { panic("secret") },
	} {
		w, j := newWorld(), job(t, `constraints: [{postRunHook: {config: {tool: gate, timeout: 10ms}}}]`, "")
		run := w.run(j, noon, in(core.OrchestratorTerminating))
		c := checker(t, w, func(o *constraints.Options) { o.Tools = map[string]shell.Tool{"gate": tool} })
		_, err := c.CheckPostExecution(t.Context(), j, run.RunID, noon.Std(), noon.Std(), 0)
		require.EqualError(t, err, "could not be checked: postRunHook: "+name)
	}
}

func TestExpressionsSeeTheRun(t *testing.T) {
	for _, row := range []struct {
		text string
		met  bool
	}{
		{`job.id == "report" && job.labels["team"] == "data" && job.tenant == "acme"`, true},
		{`run.id.startsWith("report:") && !run.manual && run.attempt == 1 && attempt == 1`, true},
		{`phase == "post"`, true},
		{`exit_code in [0, 3]`, true},
		{`duration > duration("29m") && duration <= duration("30m")`, true},
		{`scheduled_at == timestamp("2026-03-10T12:00:00Z") && scheduled_at.getDayOfWeek() == 2`, true},
		{`now - scheduled_at == duration("1h")`, true},
		{`previous_run.exists && previous_run.succeeded && previous_run.exit_code == 0 && previous_run.duration == duration("59m")`, true},
		{`run.reason == "OOMKilled"`, true},
		{`run.error != ""`, false},
		{`"nope" in job.labels`, false},
	} {
		t.Run(row.text, func(t *testing.T) {
			config, err := json.Marshal(map[string]any{"constraints": []any{map[string]any{"expression": map[string]any{"phase": "post", "config": map[string]any{"expression": row.text}}}}})
			require.NoError(t, err)
			w, j := newWorld(), job(t, "", "")
			j.ConstraintConfig = config
			code := int32(0)
			w.run(j, day(1), func(o *core.Orchestrator) { ended(core.OrchestratorCompleted)(o); o.Pod.ExitCode = &code })
			run := w.run(j, noon, func(o *core.Orchestrator) { o.RetryAttempt, o.Pod.Reason = 1, "OOMKilled" })
			c := checker(t, w, func(o *constraints.Options) { o.Now = func() time.Time { return noon.Add(time.Hour).Std() } })
			require.NoError(t, c.Validate(j))
			r, err := c.CheckPostExecution(t.Context(), j, run.RunID, noon.Std(), noon.Add(30*time.Minute).Std(), 3)
			require.NoError(t, err)
			assert.Equal(t, row.met, checkOf(t, r).Met)
			assert.Equal(t, effects.CheckPost, checkOf(t, r).Phase)
		})
	}
}

func TestAnExpressionReadsTheRunBeforeOnlyWhereItAsksForIt(t *testing.T) {
	w, j := newWorld(), job(t, `constraints: [{expression: {config: {expression: "attempt == 0 || previous_run.exists"}}}]`, "")
	w.run(j, noon, nil)
	assert.True(t, checkOf(t, pre(t, w, checker(t, w, nil), j)).Met)
	assert.Zero(t, w.reads["JobRuns"])
}

func TestAnExpressionThatCostsTooMuchIsStopped(t *testing.T) {
	list := "[" + strings.Repeat("1,", 200) + "1]"
	for _, text := range []string{
		list + ".all(a, " + list + ".all(b, " + list + ".all(c, a + b + c > 0)))",
		`["` + strings.Repeat("x", 1000) + `"].all(a, [a+a+a+a+a+a+a+a+a+a].all(b, [b+b+b+b+b+b+b+b+b+b].all(c, [c+c+c+c+c+c+c+c+c+c].all(d, [d+d+d+d+d+d+d+d+d+d].all(e, size(e+e+e+e) > 0)))))`,
	} {
		config, err := json.Marshal(map[string]any{"constraints": []any{map[string]any{"expression": map[string]any{"config": map[string]any{"expression": text}}}}})
		require.NoError(t, err)
		w, j := newWorld(), job(t, "", "")
		j.ConstraintConfig = config
		w.run(j, noon, nil)
		c := checker(t, w, nil)
		require.NoError(t, c.Validate(j))
		_, err = c.CheckPreExecution(t.Context(), j, core.RunID(j.ID, noon))
		require.ErrorContains(t, err, "cost limit exceeded")
	}
}

func TestARunThatIsStoppedKeepsNoLockOfAnEarlierCheck(t *testing.T) {
	w, j := newWorld(), job(t, `constraints: [{lock: {config: {name: a}}}, {lock: {config: {name: b}}}, {says: {}}]`, "")
	run := w.run(j, noon, nil)
	for name, holder := range map[string]string{"a": "run:" + run.ID.String(), "b": "somebody"} {
		_, err := w.SendLock(t.Context(), shell.Scope{}, name, core.LockAcquire{Name: name, Tenant: "acme", Holder: holder})
		require.NoError(t, err)
	}
	assert.Empty(t, pre(t, w, checker(t, w, withSays), j).Locks)
	assert.Empty(t, w.holder("a"))
	assert.Equal(t, "somebody", w.holder("b"))
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
