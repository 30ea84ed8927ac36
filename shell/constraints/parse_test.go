package constraints_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/constraints"
	"github.com/orrery-go/orrery/shell/jobs"
)

func TestWhatCannotBeRightIsRefusedWithItsPath(t *testing.T) {
	c := checker(t, nil, func(o *constraints.Options) {
		o.Tools = map[string]shell.Tool{"command": shell.ToolFunc(nil)}
		o.Secrets = map[string]constraints.Secret{"ops": {Key: "c2VjcmV0"}}
	})
	list := func(text string) string { return "constraints: [" + text + "]" }
	does := func(text string) string { return list("{previousRun: {onViolation: [" + text + "]}}") }
	for _, row := range []struct{ constraints, actions, says string }{
		{constraints: `{constraint: []}`, says: `constraint: unknown field: use one of constraints`},
		{constraints: `{constraints: {}}`, says: `constraints: want an array`},
		{constraints: list(`lock`), says: `constraints[0]: want an object`},
		{constraints: list(`{}`), says: `constraints[0]: want one constraint, {"<type>": {…}}, got 0 fields`},
		{constraints: list(`{lock: {}, previousRun: {}}`), says: `constraints[0]: want one constraint, {"<type>": {…}}, got 2 fields`},
		{constraints: list(`{previousrun: {}}`), says: `constraints[0].previousrun: there is no such constraint: use one of dependsOn, expression, lock, maxAllowedRunTime, maxConcurrentRuns, maxExpectedRunTime, postRunHook, preRunHook, previousRun, timeWindow`},
		{constraints: list(`{previousRun: {onViolated: []}}`), says: `constraints[0].previousRun.onViolated: unknown field`},
		{constraints: list(`{previousRun: {}}, {previousRun: {config: {must: win}}}`), says: `constraints[1].previousRun.config.must: "win" is unknown: use "succeeded" or "finished"`},
		{constraints: list(`{previousRun: {onError: maybe}}`), says: `constraints[0].previousRun.onError: "maybe" is unknown: use "closed" or "open"`},
		{constraints: list(`{previousRun: {phase: post}}`), says: `constraints[0].previousRun.phase: "post": this constraint is checked in phase "pre" alone`},
		{constraints: list(`{timeWindow: {phase: late}}`), says: `constraints[0].timeWindow.phase: "late" is unknown: use "pre", "post" or "both"`},
		{constraints: list(`{maxAllowedRunTime: {phase: post, config: {limit: 1h}}}`), says: `constraints[0].maxAllowedRunTime.phase: "post": this constraint has no choice of its phase: leave it out`},
		{constraints: list(`{previousRun: {name: a}}, {lock: {name: a, config: {name: x}}}`), says: `constraints[1].lock.name: there are two constraints "a"`},
		{constraints: list(`{previousRun: {name: "a\tb"}}`), says: `constraints[0].previousRun.name: "a\tb" has a control character`},

		{constraints: list(`{maxExpectedRunTime: {}}`), says: `constraints[0].maxExpectedRunTime.config.limit: is missing: give a length of time such as "30m"`},
		{constraints: list(`{maxExpectedRunTime: {config: {limit: 30}}}`), says: `constraints[0].maxExpectedRunTime.config.limit: `},
		{constraints: list(`{maxAllowedRunTime: {config: {limit: 1 hour}}}`), says: `"1 hour" is not a length of time between 1ms and 720h0m0s`},
		{constraints: list(`{maxAllowedRunTime: {config: {limit: -1s}}}`), says: `"-1s" is not a length of time`},
		{constraints: list(`{maxConcurrentRuns: {config: {max: 0}}}`), says: `constraints[0].maxConcurrentRuns.config.max: 0 is not between 1 and 100000`},
		{constraints: list(`{maxConcurrentRuns: {config: {max: 1, jobs: [a], labels: {a: b}}}}`), says: `constraints[0].maxConcurrentRuns.config.labels: stands beside jobs: use one of the two`},
		{constraints: list(`{maxConcurrentRuns: {config: {max: 1, jobs: ["a:b"]}}}`), says: `constraints[0].maxConcurrentRuns.config.jobs[0]: "a:b" is no id of a job`},
		{constraints: list(`{preRunHook: {}}`), says: `constraints[0].preRunHook.config.tool: is missing: give the name of a tool, or a url instead`},
		{constraints: list(`{preRunHook: {config: {tool: shell}}}`), says: `constraints[0].preRunHook.config.tool: there is no tool "shell": use one of command`},
		{constraints: list(`{preRunHook: {config: {tool: command, url: "https://x"}}}`), says: `constraints[0].preRunHook.config.tool: stands beside url or headers: use one of the two forms`},
		{constraints: list(`{preRunHook: {config: {tool: command, input: ["${run}"]}}}`), says: `constraints[0].preRunHook.config.input: ${run} is unknown: use one of attempt, constraint,`},
		{constraints: list(`{postRunHook: {config: {url: "ftp://x/s3cret"}}}`), says: `constraints[0].postRunHook.config.url: it is not the URL of a web server`},
		{constraints: list(`{postRunHook: {config: {url: "https://u:s3cret@x"}}}`), says: `constraints[0].postRunHook.config.url: it has a user or password in it`},
		{constraints: list(`{postRunHook: {config: {url: "https://x", headers: {Idempotency-Key: a}}}}`), says: `constraints[0].postRunHook.config.headers: "Idempotency-Key" cannot be set`},
		{constraints: list(`{postRunHook: {config: {url: "https://x", headers: {A: "s3cret\n"}}}}`), says: `constraints[0].postRunHook.config.headers: the value of "A" has a character that no header can have`},
		{constraints: list(`{postRunHook: {config: {url: "https://x", timeout: 11m}}}`), says: `constraints[0].postRunHook.config.timeout: 11m0s is more than 10m0s`},
		{constraints: list(`{lock: {config: {name: ` + strings.Repeat("x", 256) + `}}}`), says: `constraints[0].lock.config.name: 256 bytes is longer than 255`},
		{constraints: list(`{lock: {config: {name: "a\tb"}}}`), says: `constraints[0].lock.config.name: "a\tb" has a control character`},
		{constraints: list(`{timeWindow: {config: {from: "9:00"}}}`), says: `constraints[0].timeWindow.config.from: "9:00" is no time of the day: want one from "00:00" to "23:59"`},
		{constraints: list(`{timeWindow: {config: {from: "24:00"}}}`), says: `constraints[0].timeWindow.config.from: "24:00" is no time of the day`},
		{constraints: list(`{timeWindow: {config: {from: "09:00", to: "09:00"}}}`), says: `constraints[0].timeWindow.config.to: "09:00" is also where the window begins`},
		{constraints: list(`{timeWindow: {config: {weekdays: [mon, monday]}}}`), says: `constraints[0].timeWindow.config.weekdays[1]: "monday" is no day of the week`},
		{constraints: list(`{timeWindow: {config: {timezone: Europe/Berln}}}`), says: `constraints[0].timeWindow.config.timezone: `},
		{constraints: list(`{timeWindow: {config: {at: later}}}`), says: `constraints[0].timeWindow.config.at: "later" is unknown: use "now" or "scheduled"`},
		{constraints: list(`{dependsOn: {}}`), says: `constraints[0].dependsOn.config.job: is missing`},
		{constraints: list(`{dependsOn: {config: {job: report}}}`), says: `constraints[0].dependsOn.config.job: "report" is the job itself: use previousRun`},
		{constraints: list(`{dependsOn: {config: {job: a, match: any}}}`), says: `constraints[0].dependsOn.config.within: is missing`},
		{constraints: list(`{dependsOn: {config: {job: a, match: since, within: 1h}}}`), says: `constraints[0].dependsOn.config.within: match "since" has a time of its own`},
		{constraints: list(`{lock: {}}`), says: `constraints[0].lock.config.name: is missing`},
		{constraints: list(`{expression: {config: {expression: "attempt <"}}}`), says: `constraints[0].expression.config.expression: line 1, column 10: Syntax error`},
		{constraints: list(`{expression: {config: {expression: "attempt < 1 &&\n atempt > 1"}}}`), says: `constraints[0].expression.config.expression: line 2, column 2: undeclared reference to 'atempt'`},
		{constraints: list(`{expression: {config: {expression: "attempt + 1"}}}`), says: `constraints[0].expression.config.expression: it gives int: want a condition, which gives bool`},
		{constraints: list(`{expression: {config: {expression: "job.titel == ''"}}}`), says: `constraints[0].expression.config.expression: line 1, column 4: undefined field 'titel'`},
		{constraints: list(`{expression: {config: {expression: "job.id == 1"}}}`), says: `constraints[0].expression.config.expression: line 1, column 8: found no matching overload`},

		{constraints: does(`stop`), says: `constraints[0].previousRun.onViolation[0].stop: there is no such action: use one of cancelRun, enqueue,`},
		{constraints: does(`7`), says: `constraints[0].previousRun.onViolation[0]: want the name of an action, or {"<type>": {…}}, got 7`},
		{constraints: does(`null`), says: `constraints[0].previousRun.onViolation[0]: want the name of an action`},
		{constraints: does(`{skip: {}, fail: {}}`), says: `constraints[0].previousRun.onViolation[0]: want one action, {"<type>": {…}}, got 2`},
		{constraints: does(`skip, {fail: {because: x}}`), says: `constraints[0].previousRun.onViolation[1].fail.because: unknown field: use one of reason`},
		{constraints: does(`{skip: {}, continueOnError: yes please}`), says: `constraints[0].previousRun.onViolation[0].continueOnError: want `},
		{constraints: does(`kickOffJob`), says: `constraints[0].previousRun.onViolation[0].kickOffJob.job: is missing: give the id of the job to trigger`},
		{constraints: does(`cancelRun`), says: `onViolation[0].cancelRun.run_id: is missing`},
		{constraints: does(`{cancelRun: {run_id: "${job_id}:x"}}`), says: `onViolation[0].cancelRun.run_id: "${job_id}:x": the job must be named`},
		{constraints: does(`enqueue`), says: `onViolation[0].enqueue.queue: is missing: give the name of the queue`},
		{constraints: does(`{enqueue: {queue: q, priority: 1.5}}`), says: `onViolation[0].enqueue.priority: `},
		{constraints: does(`{enqueue: {queue: q, data: {a: ["${x}"]}}}`), says: `onViolation[0].enqueue.data: ${x} is unknown`},
		{constraints: does(`{startPipeline: {definition: {name: p, phases: []}}}`), says: `onViolation[0].startPipeline.definition: `},
		{constraints: does(`webhook`), says: `onViolation[0].webhook.url: is missing`},
		{constraints: does(`{webhook: {url: "https://x", retries: 11}}`), says: `onViolation[0].webhook.retries: 11 is not between 0 and 10`},
		{constraints: does(`{webhook: {url: "https://x", timeout: 11m}}`), says: `onViolation[0].webhook.timeout: 11m0s is more than 10m0s`},
		{constraints: does(`{webhook: {url: "https://x", secret: op}}`), says: `onViolation[0].webhook.secret: there is no secret "op": use one of ops`},
		{constraints: does(`notify`), says: `onViolation[0].notify: no notifications are configured here`},
		{constraints: does(`{log: {level: loud}}`), says: `onViolation[0].log.level: "loud" is unknown: use debug, info, warn or error`},
		{constraints: does(`{log: {message: "${message"}}`), says: `onViolation[0].log.message: "${message" has no end`},
		{constraints: does(`{page: {url: x}}`), actions: `actions: {page: skip}`, says: `actions.page: want an object`},
		{constraints: does(`{page: {url: x}}`), actions: `actions: {page: {skip: {}}}`, says: `onViolation[0].page: it is the name of an action, which takes no configuration here`},

		{actions: `{action: {}}`, says: `action: unknown field: use one of actions`},
		{actions: `actions: {skip: {fail: {}}}`, says: `actions.skip: it has the name of a type of actions: give it another one`},
		{actions: `actions: {page: {}}`, says: `actions.page: want one action, {"<type>": {…}}, got 0`},
		{actions: `actions: {page: {other: {}}, other: {skip: {}}}`, says: `actions.page.other: there is no such action`},
	} {
		t.Run(row.says, func(t *testing.T) {
			err := c.Validate(job(t, row.constraints, row.actions))
			require.ErrorContains(t, err, row.says)
			assert.NotContains(t, err.Error(), "s3cret")
		})
	}
}

func TestEachConstraintAndActionThatIsWrongIsTold(t *testing.T) {
	const wrongConstraints = `constraints:
  - previousRun: {config: {must: win}, onViolation: [page]}
  - previousRun: {onViolation: [page, fail]}
  - timeWindow: {onError: maybe}
`
	err := checker(t, nil, nil).Validate(job(t, wrongConstraints, `actions: {page: {webhook: {}}, fail: {log: {}}, notes: {log: {level: loud}}}`))
	require.Error(t, err)
	var places []string
	for line := range strings.Lines(err.Error()) {
		place, _, _ := strings.Cut(line, ": ")
		places = append(places, place)
	}
	assert.Equal(t, []string{
		"actions.fail", "actions.notes.log.level", "actions.page.webhook.url", "constraints[0].previousRun.config.must", "constraints[2].timeWindow.onError",
	}, places, "and of what refers to a wrong action nothing")
}

func TestWhatIsTooMuchIsRefused(t *testing.T) {
	c := checker(t, nil, nil)
	many := strings.Repeat(`{"previousRun":{}},`, core.MaxConstraints)
	acts := strings.Repeat(`"skipNext",`, core.MaxRunActions)
	locks := ""
	for n := range 8 {
		locks += fmt.Sprintf(`{"lock":{"config":{"name":"%d"}}},`, n)
	}
	large := `{"log":{"message":"` + strings.Repeat("${message}", 500) + `"}}`
	for says, config := range map[string]string{
		"constraints: 65 are more than 64":                                                     `{"constraints":[` + many + `{"lock":{}}]}`,
		"constraints[0].previousRun.onMet: 129 actions are more than 128":                      `{"constraints":[{"previousRun":{"onMet":[` + acts + `"skip"]}}]}`,
		"constraints: they have 129 actions, more than 128":                                    `{"constraints":[{"previousRun":{"onMet":[` + strings.TrimSuffix(acts, ",") + `],"onViolation":["skip"]}}]}`,
		"constraints: the configurations of their actions have 555014 bytes, more than 524288": `{"constraints":[{"previousRun":{"onMet":[` + large + `]}}]}`,
		"constraints: they take 9 locks, more than 8":                                          `{"constraints":[` + locks + `{"lock":{"config":{"name":"x"}}},{"lock":{"config":{"name":"x"}}}]}`,
		"constraints: 65537 bytes is more than 65536":                                          `{"constraints":[` + strings.Repeat(" ", 65519) + `]}`,
	} {
		j := job(t, "", "")
		j.ConstraintConfig = json.RawMessage(config)
		require.EqualError(t, c.Validate(j), says)
	}
}

func TestConstraintsWithoutANameAreNamedByTheirType(t *testing.T) {
	w, j := newWorld(), job(t, `constraints: [{previousRun: }, {previousRun: {name: mine}}, {previousRun: {}}, {lock: {config: {name: x}, name: previousRun-2}}, {previousRun: {}}]`, "")
	w.run(j, noon, nil)
	var names []string
	for _, check := range pre(t, w, checker(t, w, nil), j).Checks {
		names = append(names, check.Name)
	}
	assert.Equal(t, []string{"previousRun", "mine", "previousRun-3", "previousRun-2", "previousRun-4"}, names)
}

func TestAJobWithoutConstraintsIsRight(t *testing.T) {
	require.NoError(t, checker(t, nil, nil).Validate(job(t, "", "")))
	_, err := constraints.Uses(job(t, "", ""))
	require.NoError(t, err)
}

func TestUsesListsWhatAJobReaches(t *testing.T) {
	j := job(t, `
constraints:
- preRunHook: {config: {tool: command, input: {argv: ["true"]}}, onViolation: [page, {kickOffJob: {job: b}}]}
- postRunHook: {config: {tool: command}}
- lock: {config: {name: warehouse}}
- ofMyOwn: {config: {any: thing}, onMet: [{enqueue: {queue: work}}, {ofMyOwn: {}}]}
- expression: {config: {expression: "not compiled"}, onMet: [notify, {cancelRun: {run_id: "a:${scheduled_at}"}}]}
- timeWindow: {onMet: [{startPipeline: {definition: {name: p, phases: [{name: one, set: {values: {a: 1}}}]}}}]}
`, `actions: {page: {webhook: {url: "https://example.com"}}}`)
	got, err := constraints.Uses(j)
	require.NoError(t, err)
	require.Len(t, got.Pipelines, 1)
	assert.Equal(t, "p", got.Pipelines[0].Name)
	got.Pipelines = nil
	assert.Equal(t, jobs.Reach{Tools: []string{"command"}, Queues: []string{"work"}, Jobs: []string{"b"}, Cancels: []string{"a"}, Locks: []string{"warehouse"}, Notify: true, Webhooks: true}, got)
	_, err = constraints.Uses(job(t, `{x: 1}`, ""))
	require.Error(t, err)
	hook, err := constraints.Uses(job(t, `constraints: [{preRunHook: {config: {url: "https://example.com"}}}]`, ""))
	require.NoError(t, err)
	assert.Equal(t, jobs.Reach{Webhooks: true}, hook)
}

func TestNewRefusesWhatCannotBeRight(t *testing.T) {
	for says, o := range map[string]constraints.Options{
		`constraints: Options.Secrets["ops"].Key: it is not base64`: {Secrets: map[string]constraints.Secret{"ops": {Key: "s3cret!"}}},
		`constraints: Options.Secrets["nil"].Key: it is not base64`: {Secrets: map[string]constraints.Secret{"nil": {}}},
		`constraints: Options.Tools["x"]: is nil`:                   {Tools: map[string]shell.Tool{"x": nil}},
		`constraints: Options.Constraints["lock"]`:                  {Constraints: map[string]constraints.Type{"lock": {New: func(constraints.Spec) (constraints.Constraint, error) { return nil, nil }}}},
		`constraints: Options.Constraints["x"]`:                     {Constraints: map[string]constraints.Type{"x": {}}},
		`constraints: Options.Actions["skip"]`:                      {Actions: map[string]constraints.ActionFactory{"skip": func(string, json.RawMessage) (constraints.Action, error) { return nil, nil }}},
	} {
		_, err := constraints.New(o)
		require.ErrorContains(t, err, says)
		assert.NotContains(t, err.Error(), "s3cret")
	}
}

func TestManyConfigurationsAreCheckedAtOnce(t *testing.T) {
	w := newWorld()
	c := checker(t, w, func(o *constraints.Options) {
		o.Notify = func(context.Context, string, effects.Notify) error { return nil }
	})
	done := make(chan error)
	const n = 300 // more than are remembered
	for i := range n {
		j := job(t, fmt.Sprintf(`constraints: [{expression: {config: {expression: "attempt < %d"}}}]`, i+1), "")
		j.ID = fmt.Sprintf("job-%d", i)
		w.run(j, noon, nil)
		go func() {
			r, err := c.CheckPreExecution(context.Background(), j, core.RunID(j.ID, noon))
			if err == nil && !r.ShouldProceed {
				err = fmt.Errorf("%s: %s", j.ID, r.Message)
			}
			done <- err
		}()
	}
	for range n {
		require.NoError(t, <-done)
	}
}

func TestWhatIsRememberedOfOneJobIsNotTakenForAnother(t *testing.T) {
	w := newWorld()
	c := checker(t, w, nil)
	j := job(t, `constraints: [{timeWindow: {config: {from: "12:00", to: "13:00"}}}, {dependsOn: {config: {job: load}, advisory: true}}]`, "")
	w.run(j, noon, nil)
	assert.True(t, pre(t, w, c, j).Checks[0].Met)
	moved := *j
	moved.Timezone = "Asia/Tokyo"
	w.run(&moved, noon, nil)
	assert.False(t, pre(t, w, c, &moved).Checks[0].Met)
	itself := *j
	itself.ID = "load"
	require.ErrorContains(t, c.Validate(&itself), "is the job itself")
}

func TestAPatternThatIsNotWrittenOutIsRefusedAtApplyAndGoesOnInAStoredJob(t *testing.T) {
	config, err := json.Marshal(map[string]any{"constraints": []any{map[string]any{"expression": map[string]any{"config": map[string]any{"expression": `!job.id.matches("x" + job.tenant)`}}}}})
	require.NoError(t, err)
	w, j := newWorld(), job(t, "", "")
	j.ConstraintConfig = config
	w.run(j, noon, nil)
	c := checker(t, w, nil)
	for _, validate := range []func(*jobs.Job) error{c.Validate, c.ValidateUnscoped, c.ValidateAnywhere} {
		require.ErrorContains(t, validate(j), "constraints[0].expression.config.expression: line 1, column 16: matches: the pattern must be written out")
	}
	require.NoError(t, c.ValidateStored(j))
	r, err := c.CheckPreExecution(t.Context(), j, core.RunID(j.ID, noon))
	require.NoError(t, err)
	assert.True(t, checkOf(t, r).Met)
}
