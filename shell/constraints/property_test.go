package constraints_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/core/schedule"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/effects/boundtest"
	_ "github.com/orrery-go/orrery/effects/seedtest"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/constraints"
	"github.com/orrery-go/orrery/shell/jobs"
)

// tolerant is a Checker for which everything is configured, over a world with a run
// and all that it can depend on.
func tolerant(t testing.TB) (*constraints.Checker, *world, *jobs.Job) {
	w, j := newWorld(), job(t, "", "")
	other := *j
	other.ID = "load"
	w.run(&other, noon, ended(core.OrchestratorCompleted))
	w.run(j, day(1), ended(core.OrchestratorCompleted))
	w.run(j, noon, nil)
	c := checker(t, w, func(o *constraints.Options) {
		o.Tools = map[string]shell.Tool{"command": shell.ToolFunc(func(context.Context, shell.Call) (json.RawMessage, error) { return nil, nil })}
		o.Notify = func(context.Context, string, effects.Notify) error { return nil }
		o.Secrets = map[string]constraints.Secret{"ops": {Key: "c2VjcmV0"}}
		o.Client = &http.Client{Transport: nobody{}}
	})
	return c, w, j
}

// nobody is a network without anybody in it.
type nobody struct{}

func (nobody) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: 404, Header: http.Header{}, Body: http.NoBody}, nil
}

// checkBoth holds what is valid against both phases: a configuration is never at
// fault any more.
func checkBoth(c *constraints.Checker, j *jobs.Job) error {
	if err := c.Validate(j); err != nil {
		return nil // refused, in words
	}
	if _, err := constraints.Uses(j); err != nil {
		return fmt.Errorf("Uses refuses what Validate takes: %w", err)
	}
	j.ConstraintErrors = core.FailOpen
	for _, phase := range []effects.CheckPhase{effects.CheckPre, effects.CheckPost} {
		check := func() (jobs.ConstraintCheckResult, error) {
			return c.CheckPreExecution(context.Background(), j, core.RunID(j.ID, noon))
		}
		if phase == effects.CheckPost {
			check = func() (jobs.ConstraintCheckResult, error) {
				return c.CheckPostExecution(context.Background(), j, core.RunID(j.ID, noon), noon.Std(), noon.Add(time.Hour).Std(), 0)
			}
		}
		r, err := check()
		if err != nil {
			return fmt.Errorf("%s: %w", phase, err)
		}
		for _, one := range r.Checks {
			// What an expression runs into, or a hook's server, is not the configuration's fault.
			if one.Error != "" && !strings.HasPrefix(one.Error, "evaluate ") && !strings.HasPrefix(one.Error, "webhook: ") {
				return fmt.Errorf("%s: %s: %s", phase, one.Name, one.Error)
			}
		}
	}
	return nil
}

var seeds = []string{
	`{"constraints":[]}`, `{"constraints":[{"previousRun":{"config":{"must":"finished","required":true},"onError":"open"}}]}`,
	`{"constraints":[{"timeWindow":{"config":{"from":"22:00","to":"06:00","weekdays":["mon-fri","sun"],"timezone":"Europe/Berlin","outside":true,"at":"scheduled"},"phase":"both"}}]}`,
	`{"constraints":[{"maxAllowedRunTime":{"config":{"limit":"1h30m"},"onViolation":["skip",{"fail":{"reason":"${message} $${x}"},"continueOnError":true}]}}]}`,
	`{"constraints":[{"maxExpectedRunTime":{"config":{"limit":"1ms"}}},{"maxConcurrentRuns":{"config":{"max":1,"labels":{"team":"data"}}}}]}`,
	`{"constraints":[{"preRunHook":{"config":{"tool":"command","input":{"argv":["true","${run_id}"]},"timeout":"1s"}}},{"lock":{"config":{"name":"a","ttl":"1h"}}}]}`,
	`{"constraints":[{"dependsOn":{"config":{"job":"load","match":"any","within":"24h"}}},{"dependsOn":{"config":{"job":"load","match":"since"}}}]}`,
	`{"constraints":[{"expression":{"config":{"expression":"job.labels['team'] == 'data' && previous_run.succeeded","message":"no"},"phase":"both"}}]}`,
	`{"constraints":[{"previousRun":{"onMet":[{"enqueue":{"queue":"q","data":{"a":["${run_id}"]}}},{"webhook":{"url":"https://example.com/x","secret":"ops","data":1}},"page"]}}]}`,
	`{"actions":{"page":{"notify":{"title":"${constraint}"}}}}`, `{"constraints":[{"lock":null}]}`, `{"constraints":[null]}`, `[`, ``, `null`,
}

func FuzzAnyConfigurationIsRefusedOrWorks(f *testing.F) {
	c, _, j := tolerant(f)
	for _, s := range seeds {
		f.Add(s, `{"actions":{"page":{"notify":{}}}}`)
		f.Add(`{"constraints":[{"previousRun":{"onMet":["page"]}}]}`, s)
	}
	f.Fuzz(func(t *testing.T, constraintConfig, actionConfig string) {
		defer boundtest.Within(t, len(constraintConfig)+len(actionConfig))()
		mine := *j
		mine.ConstraintConfig, mine.ActionConfig = json.RawMessage(constraintConfig), json.RawMessage(actionConfig)
		require.NoError(t, checkBoth(c, &mine))
	})
}

func FuzzAnyExpressionIsRefusedOrEndsSoon(f *testing.F) {
	c, _, j := tolerant(f)
	for _, s := range []string{
		"true", "attempt < 3", "job.labels.all(k, k != '')", "previous_run.duration > duration('1h') || !previous_run.exists", "1/0 == 1",
		"[1,2,3].exists(a, a > 2)", "now.getHours('Europe/Berlin') < 12", "'a'.matches('(a*)*b')", "run.error.contains('x') ? true : false", "{'a': 1}['b'] == 1",
		"dyn(1) == 'x'", "size(job.id + job.id) > 3", "timestamp('2026-01-01T00:00:00Z') < now", "attempt", "\x00", "((((((((1))))))))==1",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		defer boundtest.Within(t, len(text))()
		config, err := json.Marshal(map[string]any{"constraints": []any{map[string]any{"expression": map[string]any{"config": map[string]any{"expression": text}, "phase": "both"}}}})
		require.NoError(t, err)
		mine := *j
		mine.ConstraintConfig = config
		require.NoError(t, checkBoth(c, &mine))
	})
}

// The fuzz target FuzzAnyConfigurationIsRefusedOrWorks finds what parses by chance; this
// property builds what is nearly always right.
func TestAnyConfigurationThatIsValidWorks(t *testing.T) {
	c, _, j := tolerant(t)
	accepted := 0
	rapid.Check(t, func(t *rapid.T) {
		pick := func(name string, of ...string) string { return rapid.SampledFrom(of).Draw(t, name) }
		action := func() string {
			return pick("action", `"skip"`, `"page"`, `"fail"`, `{"retry":{"reason":"${message}"}}`, `{"page":{},"continueOnError":false}`, `{"log":{"level":"warn"}}`,
				`{"enqueue":{"queue":"q","priority":-1,"dedup_key":"${run_id}"}}`, `{"kickOffJob":{"job":"load"}}`, `{"cancelRun":{"run_id":"load:${scheduled_at}"}}`, `{"killAll":null}`, `"stop"`)
		}
		actions := func() string {
			var list []string
			for range rapid.IntRange(0, 3).Draw(t, "actions") {
				list = append(list, action())
			}
			return "[" + strings.Join(list, ",") + "]"
		}
		var entries []string
		for range rapid.IntRange(0, 6).Draw(t, "constraints") {
			body := pick("type",
				`"previousRun":{"config":{"must":"finished"}`, `"previousRun":{"config":{}`, `"lock":{"config":{"name":"a"}`, `"lock":{"config":{"name":"b","ttl":"1h"}`,
				`"timeWindow":{"config":{"from":"01:00","to":"00:30"},"phase":"both"`, `"timeWindow":{"config":{"weekdays":["sun-sat"]}`, `"dependsOn":{"config":{"job":"load","match":"scheduled"}`,
				`"maxAllowedRunTime":{"config":{"limit":"59m"}`, `"maxExpectedRunTime":{"config":{"limit":"2h"}`, `"maxConcurrentRuns":{"config":{"max":1}`,
				`"preRunHook":{"config":{"tool":"command"}`, `"postRunHook":{"config":{"tool":"command"}`, `"expression":{"config":{"expression":"exit_code >= 0"},"phase":"post"`)
			entries = append(entries, "{"+body+`,"onError":"`+pick("onError", "open", "closed")+`","advisory":`+pick("advisory", "true", "false")+`,"onMet":`+actions()+`,"onViolation":`+actions()+"}}")
		}
		mine := *j
		mine.ConstraintConfig = json.RawMessage(`{"constraints":[` + strings.Join(entries, ",") + `]}`)
		mine.ActionConfig = json.RawMessage(`{"actions":{"page":{"notify":{"title":"x"},"continueOnError":true}}}`)
		if c.Validate(&mine) == nil {
			accepted++
		}
		if err := checkBoth(c, &mine); err != nil {
			t.Fatalf("%s: %v", mine.ConstraintConfig, err)
		}
	})
	require.Positive(t, accepted)
}

// TestATimeWindowIsWhatTheStandardLibrarysClockSays compares with a model that goes
// from the beginning of each of the last days by the clock on the wall, minute by
// minute, around the changes of the clocks too.
func TestATimeWindowIsWhatTheStandardLibrarysClockSays(t *testing.T) {
	zones := []string{"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "Pacific/Apia", "Africa/Casablanca"}
	starts := []string{"2026-03-28T00:00:00Z", "2026-10-24T00:00:00Z", "2026-03-07T00:00:00Z", "2026-04-04T00:00:00Z", "2026-02-14T00:00:00Z", "2026-06-01T00:00:00Z"}
	names := []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}
	rapid.Check(t, func(t *rapid.T) {
		zone := rapid.SampledFrom(zones).Draw(t, "zone")
		rules, err := schedule.LoadZone(zone)
		if err != nil {
			t.Fatal(err)
		}
		loc := rules.Location() // by the standard library's algorithm, from the same rules
		now := at(rapid.SampledFrom(starts).Draw(t, "from")).Add(time.Duration(rapid.IntRange(0, 3*24*60*60*1000).Draw(t, "later")) * time.Millisecond).Std()
		from, to := rapid.IntRange(0, 1439).Draw(t, "from"), rapid.IntRange(0, 1440).Draw(t, "to")
		if from == to {
			t.Skip("no window")
		}
		var days []string
		on := map[time.Weekday]bool{}
		for d, name := range names {
			if rapid.Bool().Draw(t, name) {
				days, on[time.Weekday(d)] = append(days, `"`+name+`"`), true
			}
		}
		if len(days) == 0 {
			t.Skip("no days")
		}
		local := now.In(loc)
		wall := local.Hour()*60 + local.Minute()
		yesterday := (local.Weekday() + 6) % 7
		want := false
		for minute := from; minute != to && !want; minute++ { // of the window, from its beginning on
			if minute == 1440 && from > to {
				minute = 0
				if to == 0 {
					break
				}
			}
			begins := local.Weekday()
			if from > to && minute < from {
				begins = yesterday
			}
			want = minute == wall && on[begins]
		}
		hhmm := func(m int) string { return fmt.Sprintf("%02d:%02d", m/60, m%60) }
		c, w := checkerAt(now), newWorld()
		c.Use(w)
		j := &jobs.Job{ID: "report", Tenant: "acme", ConstraintConfig: json.RawMessage(fmt.Sprintf(
			`{"constraints":[{"timeWindow":{"config":{"from":%q,"to":%q,"timezone":%q,"weekdays":[%s]}}}]}`, hhmm(from), hhmm(to), zone, strings.Join(days, ",")))}
		w.run(j, noon, nil)
		r, err := c.CheckPreExecution(context.Background(), j, core.RunID(j.ID, noon))
		if err != nil {
			t.Fatal(err)
		}
		if r.Checks[0].Met != want {
			t.Fatalf("%s: %s, want %t", j.ConstraintConfig, r.Checks[0].Message, want)
		}
	})
}

func checkerAt(now time.Time) *constraints.Checker {
	c, err := constraints.New(constraints.Options{Now: func() time.Time { return now }, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		panic(err)
	}
	return c
}
