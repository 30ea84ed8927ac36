package shell_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
)

// Whoever reads of a failure, in the log or as an event, learns what failed and why, and need not ask for it by its id.
func TestAFailureSaysWhatFailedAndWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		tool := func(_ context.Context, c shell.Call) (json.RawMessage, error) {
			if c.Label == "well" {
				return nil, nil
			}
			return nil, fmt.Errorf("no disk on the %d. attempt", c.Attempt)
		}
		e, stop := start(t, shell.Options{
			Store: inMemory(t), Tools: map[string]shell.Tool{"copy": shell.ToolFunc(tool)}, Logger: slog.New(slog.NewTextHandler(&log, nil)),
			ShowCommand: func(s core.State) string { return "show " + string(s.Ref().Kind) },
		})
		events := e.Subscribe(nil, 100)
		for _, spec := range []core.ActionSpec{
			{Label: "nightly", Policy: core.RunPolicy{OnFailure: core.FailureRetry, MaxAttempts: 2}},
			{Label: "well"},
			{Label: "again", Recurrence: core.Every(time.Hour)},
		} {
			spec.Namespace, spec.Tenant, spec.ToolName = "ns", "t1", "copy"
			_, err := e.Actions().Create(bg(), spec)
			require.NoError(t, err)
		}
		<-time.After(time.Minute)
		p, err := e.Pipelines().Create(bg(), core.PipelineSpec{Namespace: "ns", Tenant: "t1", Label: "l", Definition: core.PipelineDef{Name: "p", Phases: []core.PhaseDef{
			{Name: "a", Manual: &core.ManualPhase{}},
		}}})
		require.NoError(t, err)
		_, err = e.Pipelines().Send(bg(), p.ID, core.PhaseFailed{Phase: "a", Error: "no way"})
		require.NoError(t, err)
		require.NoError(t, stop())
		events.Close()

		told := map[string]string{}
		for ev := range events.C {
			if kind := ev.Kind.String(); ev.Source.Component == "action" || ev.Kind == effects.KindPipelineFailed {
				told[kind+" "+label(t, ev)] = string(ev.Data)
			}
		}
		assert.JSONEq(t, `{"namespace":"ns","tenant":"t1","label":"nightly","tool":"copy","attempt":2,"error":"no disk on the 2. attempt"}`, told["action:failed nightly"])
		assert.JSONEq(t, `{"namespace":"ns","tenant":"t1","label":"again","tool":"copy","attempt":1,"error":"no disk on the 1. attempt"}`, told["action:failed again"])
		assert.JSONEq(t, `{"namespace":"ns","tenant":"t1","label":"well","tool":"copy","attempt":1}`, told["action:completed well"])
		assert.JSONEq(t, `{"namespace":"ns","tenant":"t1","label":"l","pipeline":"p","phase":"a","attempt":1,"error":"no way"}`, told["pipeline:failed l"])
		for _, line := range []string{
			`namespace=ns tenant=t1 label=nightly tool=copy attempt=2 reason="no disk on the 2. attempt" show="show action"` + "\n",
			`namespace=ns tenant=t1 label=again tool=copy attempt=1 reason="no disk on the 1. attempt" show="show action"` + "\n",
			`label=l pipeline=p attempt=1 show="show pipeline" error="no way" phase=a` + "\n",
		} {
			assert.Contains(t, log.String(), line)
		}
		assert.NotContains(t, log.String(), `label=well tool=copy attempt=1 show`, "of what goes well nobody needs to see more")
	})
}

// Who is to approve learns of what, and by which command: in the log, and as an event that can be followed.
func TestAPhaseThatWaitsForAnApprovalSaysHowItIsApproved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		e, stop := start(t, shell.Options{
			Store: inMemory(t), Logger: slog.New(slog.NewTextHandler(&log, nil)),
			ApproveCommand: func(p core.Pipeline) string { return "approve " + p.Phase.Name },
		})
		events := e.Subscribe(nil, 100)
		p, err := e.Pipelines().Create(bg(), core.PipelineSpec{Namespace: "ns", Tenant: "t1", Label: "l", Definition: core.PipelineDef{Name: "p", Phases: []core.PhaseDef{
			{Name: "a", Approval: &core.ApprovalPhase{Message: "ship it?"}},
			{Name: "b", Manual: &core.ManualPhase{}},
		}}})
		require.NoError(t, err)
		_, err = e.Pipelines().Send(bg(), p.ID, core.PipelineApprove{Phase: "a", Approved: true})
		require.NoError(t, err)
		require.NoError(t, stop())
		events.Close()

		var told []string
		for ev := range events.C {
			if ev.Kind == effects.KindPipelineApproval {
				told = append(told, string(ev.Data))
			}
		}
		require.Len(t, told, 1, "the phase that waits for something else announces none")
		assert.JSONEq(t, `{"namespace":"ns","tenant":"t1","label":"l","pipeline":"p","pipeline_id":"`+p.ID.String()+`","phase":"a","message":"ship it?","approve":"approve a"}`, told[0])
		assert.Contains(t, log.String(), `level=INFO msg=pipeline.approval pipeline_id=`+p.ID.String()+` namespace=ns tenant=t1 label=l pipeline=p approve="approve a" message="ship it?" phase=a`+"\n")
	})
}

func label(t *testing.T, ev effects.Event) string {
	var d struct {
		Label string `json:"label"`
	}
	if len(ev.Data) > 0 {
		require.NoError(t, json.Unmarshal(ev.Data, &d))
	}
	return d.Label
}

// What the bus has pushed into a queue is told as it is told at once, as long as the machine has not gone on.
func TestTheDetailOfAnEventIsThatOfItsMachineUnlessItHasGoneOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tool := func(_ context.Context, c shell.Call) (json.RawMessage, error) {
			return json.RawMessage(`{"stderr":"no space"}`), fmt.Errorf("no disk on the %d. attempt", c.Attempt)
		}
		e := running(t, shell.Options{Store: inMemory(t), Tools: map[string]shell.Tool{"copy": shell.ToolFunc(tool)}})
		failed := e.Subscribe(func(ev effects.Event) bool { return ev.Kind.Action == "failed" }, 100)
		defer failed.Close()
		detail := func(ev effects.Event) (string, core.State) {
			ev.Data = nil // as it was announced
			ev, s, err := e.Detail(bg(), ev)
			require.NoError(t, err)
			return string(ev.Data), s
		}
		retry := core.RunPolicy{OnFailure: core.FailureRetry, MaxAttempts: 2}
		a, err := e.Actions().Create(bg(), core.ActionSpec{Namespace: "ns", Tenant: "t1", Label: "nightly", ToolName: "copy", Policy: retry})
		require.NoError(t, err)
		once := <-failed.C
		told, s := detail(once)
		assert.JSONEq(t, `{"namespace":"ns","tenant":"t1","label":"nightly","tool":"copy","attempt":2,"error":"no disk on the 2. attempt","output":"no space"}`, told)
		assert.Equal(t, a.ID, s.Ref().ID)

		_, err = e.Actions().Create(bg(), core.ActionSpec{Namespace: "ns", Tenant: "t1", Label: "hourly", ToolName: "copy", Recurrence: core.Every(time.Hour), Policy: retry})
		require.NoError(t, err)
		first := <-failed.C
		told, _ = detail(first)
		assert.JSONEq(t, `{"namespace":"ns","tenant":"t1","label":"hourly","tool":"copy","attempt":2,"error":"no disk on the 2. attempt","output":"no space"}`, told)
		<-failed.C // an hour later
		told, _ = detail(first)
		assert.JSONEq(t, `{"namespace":"ns","tenant":"t1","label":"hourly","tool":"copy"}`, told, "how the cycle after it has ended is not told of this one")

		_, err = e.Actions().Create(bg(), core.ActionSpec{Namespace: "ns", Tenant: "t1", Label: "once", ToolName: "copy"})
		require.NoError(t, err)
		told, _ = detail(<-failed.C)
		assert.JSONEq(t, `{"namespace":"ns","tenant":"t1","label":"once","tool":"copy","attempt":1,"error":"no disk on the 1. attempt","output":"no space"}`, told, "of one that is not tried again, too")

		_, err = e.Actions().Create(bg(), core.ActionSpec{Namespace: "ns", Tenant: "t1", Label: "daily", ToolName: "copy", Recurrence: core.Every(24 * time.Hour)})
		require.NoError(t, err)
		for ev := range failed.C {
			if told, _ = detail(ev); strings.Contains(told, "daily") {
				break
			}
		}
		assert.JSONEq(t, `{"namespace":"ns","tenant":"t1","label":"daily","tool":"copy","attempt":1,"error":"no disk on the 1. attempt","output":"no space"}`, told, "and of one that recurs")

		for _, ev := range []effects.Event{
			{Kind: effects.Custom("action", "failed"), Source: effects.EventSource{Component: "action", ID: id(99)}},
			{Kind: effects.Custom("deploy", "done"), Source: effects.EventSource{Component: "ci", ID: a.ID}},
			{Kind: effects.KindEscalate, Source: effects.EventSource{Component: "action"}},
		} {
			told, s := detail(ev)
			assert.Empty(t, told)
			assert.Nil(t, s)
		}
	})
}

func TestOfACommandThatHasPrintedNothingNoOutputIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		results := map[string]string{
			"silent": `{"exit_code":3,"stdout":"","stderr":""}`, "silent too": `{"exit_code":3,"stdout":""}`, "heard": `{"exit_code":3,"stdout":"x","stderr":""}`, "other": `{"stdout":""}`,
		}
		tool := func(_ context.Context, c shell.Call) (json.RawMessage, error) {
			return json.RawMessage(results[c.Label]), errors.New("exit code 3")
		}
		e := running(t, shell.Options{Store: inMemory(t), Tools: map[string]shell.Tool{"command": shell.ToolFunc(tool)}})
		failed := e.Subscribe(func(ev effects.Event) bool { return ev.Kind.Action == "failed" }, 100)
		defer failed.Close()
		output := func(label string, p core.RunPolicy) string {
			_, err := e.Actions().Create(bg(), core.ActionSpec{Label: label, ToolName: "command", Policy: p})
			require.NoError(t, err)
			ev, _, err := e.Detail(bg(), <-failed.C)
			require.NoError(t, err)
			var data struct{ Error, Output string }
			require.NoError(t, json.Unmarshal(ev.Data, &data))
			assert.Equal(t, "exit code 3", data.Error)
			return data.Output
		}
		for _, p := range []core.RunPolicy{{}, {OnFailure: core.FailureRetry, MaxAttempts: 2, Backoff: &core.Backoff{InitialMS: 1}}} {
			assert.Empty(t, output("silent", p))
			assert.Empty(t, output("silent too", p))
			assert.Equal(t, "x", output("heard", p))
			assert.JSONEq(t, `{"stdout":""}`, output("other", p), "the result of another tool")
		}
	})
}

func TestTheDetailOfAnEventOfARunSaysWhoseItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		c.exit = func(uuid.UUID, uint32) int32 { return 1 }
		e := running(t, c.options(inMemory(t)))
		failed := e.Subscribe(func(ev effects.Event) bool { return ev.Kind.String() == "run:failed" }, 100)
		defer failed.Close()
		applied(t, e, nightly())
		run := triggered(t, e, "nightly")
		ev, s, err := e.Detail(bg(), <-failed.C)
		require.NoError(t, err)
		var data struct{ Namespace, Tenant string }
		require.NoError(t, json.Unmarshal(ev.Data, &data))
		assert.Equal(t, shell.Scope{Namespace: data.Namespace, Tenant: data.Tenant}, tenant, "or else channels of this tenant were not told")
		require.IsType(t, core.Orchestrator{}, s)
		assert.Equal(t, run, s.Ref().ID)
	})
}
