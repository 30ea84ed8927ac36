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

// picky is a tool that knows what it can be told.
type picky struct{ shell.Tool }

func (picky) ValidateInput(input json.RawMessage) error {
	if string(input) != `{"run":"0"}` {
		return fmt.Errorf("tool_input.run: is %s", input)
	}
	return nil
}

func TestTheInputOfAHooksToolIsCheckedWhereTheToolCan(t *testing.T) {
	c := checker(t, nil, func(o *constraints.Options) { o.Tools = map[string]shell.Tool{"picky": picky{}} })
	require.NoError(t, c.Validate(job(t, `constraints: [{preRunHook: {config: {tool: picky, input: {run: "${run_id}"}}}}]`, "")))
	require.EqualError(t, c.Validate(job(t, `constraints: [{preRunHook: {config: {tool: picky, input: {}}}}]`, "")), "constraints[0].preRunHook.config: tool_input.run: is {}")
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

func TestAHookThatNamesASecretIsRefusedAtApplyAndGoesOnInAStoredJob(t *testing.T) {
	c := checker(t, nil, func(o *constraints.Options) {
		o.Tools = map[string]shell.Tool{"echo": shell.ToolFunc(func(context.Context, shell.Call) (json.RawMessage, error) { return nil, nil })}
	})
	for text, refused := range map[string]bool{`{{secret api}}`: true, `{{secret`: true, `{{secretKeyRef}}`: false} {
		j := job(t, `constraints: [{preRunHook: {config: {tool: echo, input: {a: "`+text+`"}}}}]`, "")
		require.NoError(t, c.ValidateStored(j), text)
		err := c.Validate(j)
		if !refused {
			require.NoError(t, err, text)
			continue
		}
		require.EqualError(t, err, `constraints[0].preRunHook.config: tool_input: a hook of a job cannot have secrets, as {{secret "…"}} is one: have it start an action`)
	}
}
