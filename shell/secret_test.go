package shell_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/internal/locked"
	"github.com/orrery-go/orrery/shell/secrets"
	"github.com/orrery-go/orrery/store/bolt"
)

const hushed = "hush-hush-7"

// named are secrets of which one is for the tool count alone.
func named() secrets.Set {
	return secrets.Set{
		"api":   {Read: secrets.Text(hushed)},
		"other": {Read: secrets.Text(hushed), Tools: []string{"other"}},
	}
}

// parrot gives its input back, and logs it; fails and panics with it if it is told to.
type parrot struct{ got []string }

func (p *parrot) Run(_ context.Context, c shell.Call) (json.RawMessage, error) {
	p.got = append(p.got, string(c.Input))
	c.Logger().Info("called", "input", string(c.Input))
	switch c.Label {
	case "fail":
		return c.Input, fmt.Errorf("could not say %s: %w", c.Input, errors.ErrUnsupported)
	case "panic":
		panic(string(c.Input))
	}
	return c.Input, nil
}

func (*parrot) ValidateInput(in json.RawMessage) error {
	if string(in) == `"bad"` {
		return errors.New("tool_input: bad")
	}
	return nil
}

func TestASecretReachesItsToolAndNothingElse(t *testing.T) {
	path, logs := filepath.Join(t.TempDir(), "orrery.db"), &locked.Buffer{}
	synctest.Test(t, func(t *testing.T) {
		st, err := bolt.Open(path, bolt.Options{NoSync: true, MapSize: -1})
		require.NoError(t, err)
		p := &parrot{}
		e, stop := start(t, shell.Options{Store: st, Tools: map[string]shell.Tool{"count": p}, Secrets: named(), Logger: slog.New(slog.NewTextHandler(logs, nil))})
		reasons := map[string]string{}
		for _, label := range []string{"", "fail", "panic"} {
			a, err := e.Actions().Execute(bg(), core.ActionSpec{ToolName: "count", Label: label, ToolInput: json.RawMessage(`{"k":"Bearer {{secret \"api\"}}"}`)})
			require.NoError(t, err)
			assert.JSONEq(t, `{"k":"Bearer {{secret \"api\"}}"}`, string(a.ToolInput))
			if label != "panic" {
				assert.JSONEq(t, `{"k":"Bearer [secret api]"}`, string(a.Status.Result))
			}
			reasons[label] = a.Status.Reason
		}
		assert.Equal(t, `could not say {"k":"Bearer [secret api]"}: unsupported operation`, reasons["fail"])
		assert.Contains(t, reasons["panic"], `panicked: {"k":"Bearer [secret api]"}`)
		assert.Equal(t, []string{`{"k":"Bearer hush-hush-7"}`, `{"k":"Bearer hush-hush-7"}`, `{"k":"Bearer hush-hush-7"}`}, p.got)
		require.NoError(t, stop())
		require.NoError(t, st.Close())
	})
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.NotContains(t, string(raw), hushed, "neither states nor journal have it")
	assert.NotContains(t, logs.String(), hushed)
	assert.Contains(t, logs.String(), "[secret api]")
}

func TestASecretThatIsUnknownOrNotAllowedIsRefusedInTheSameWords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := running(t, shell.Options{Store: inMemory(t), Tools: map[string]shell.Tool{"count": &parrot{}}, Secrets: named()})
		texts := map[string]string{}
		for _, name := range []string{"other", "nonex"} {
			_, err := e.Actions().Create(bg(), core.ActionSpec{ToolName: "count", ToolInput: json.RawMessage(`"{{secret ` + name + `}}"`)})
			require.ErrorAs(t, err, new(*shell.Refusal))
			texts[name] = err.Error()
			spec := everyMinute()
			spec.ActionTemplate.Payload = json.RawMessage(`"{{secret ` + name + `}}"`)
			_, err = e.Recurring().Create(bg(), spec)
			require.ErrorContains(t, err, `payload: secret "`+name+`" is not known here`)
		}
		assert.Contains(t, texts["other"], `tool_input: secret "other" is not known here, or tool "count" of namespace "" and tenant "" may not have it`)
		assert.Equal(t, strings.ReplaceAll(texts["other"], "other", "NAME"), strings.ReplaceAll(texts["nonex"], "nonex", "NAME"))
		_, err := e.Actions().Create(bg(), core.ActionSpec{ToolName: "count", ToolInput: json.RawMessage(`"{{secret}}"`)})
		require.ErrorContains(t, err, `write {{secret "name"}}`)
	})
}

func TestASecretThatWasTakenAwaySinceFailsTheRunForGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, p := inMemory(t), &parrot{}
		o := shell.Options{Store: st, Tools: map[string]shell.Tool{"count": p}, Secrets: named()}
		e, stop := start(t, o)
		a, err := e.Actions().Create(bg(), core.ActionSpec{
			ToolName: "count", ToolInput: json.RawMessage(`"{{secret api}}"`), Trigger: at(time.Minute), Policy: core.RunPolicy{MaxAttempts: 3},
		})
		require.NoError(t, err)
		require.NoError(t, stop())
		o.Secrets = secrets.Set{}
		e, stop = start(t, o)
		elapse(time.Hour)
		a = actionOf(t, e, a.ID)
		assert.Equal(t, core.StatusFailed, a.Status.Type)
		assert.EqualValues(t, 1, a.Attempt)
		assert.Contains(t, a.Status.Reason, `secret "api" is not known here`)
		assert.Empty(t, p.got)
		require.NoError(t, stop())
	})
}

func TestOnlyTheDefinitionOfAPipelineMayNameSecretsAndNoValueThatIsFilledIn(t *testing.T) {
	for value, want := range map[string]core.PhaseType{
		"plain":                core.PhaseDone,
		"{{secret api}}":       core.PhaseFailure,
		"{{secret other}}":     core.PhaseFailure,
		"x{{secret \"api\"}}y": core.PhaseFailure,
	} {
		t.Run(value, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &parrot{}
				e := running(t, shell.Options{Store: inMemory(t), Tools: map[string]shell.Tool{"count": p}, Secrets: named()})
				quoted, err := json.Marshal(value)
				require.NoError(t, err)
				made, err := e.Pipelines().Create(bg(), core.PipelineSpec{
					Definition: core.PipelineDef{Name: "p", Inputs: []core.InputDef{{Name: "in"}}, Phases: []core.PhaseDef{{
						Name: "call", Run: &core.ToolRun{Tool: "count", Input: json.RawMessage(`{"key":"{{secret api}}","to":"${in}"}`)},
					}}},
					Context: map[string]json.RawMessage{"in": quoted},
				})
				require.NoError(t, err)
				elapse(time.Hour)
				made, err = e.Pipelines().Get(bg(), made.ID)
				require.NoError(t, err)
				assert.Equal(t, want, made.Phase.Type)
				if want == core.PhaseFailure {
					assert.Empty(t, p.got)
					return
				}
				assert.Equal(t, []string{`{"key":"hush-hush-7","to":"plain"}`}, p.got)
			})
		})
	}
}

// asking are values that ask for a secret, well or badly written.
var asking = []string{"{{secret api}}", "x{{secret \"api\"}}y", "{{secret"}

// endOf runs a pipeline with the value "in" in its context to its end.
func endOf(t *testing.T, p *parrot, in string, phases ...core.PhaseDef) core.Pipeline {
	t.Helper()
	tools := map[string]shell.Tool{"count": p, "tally": p, "pipelines": shell.PipelineTool{}}
	e := running(t, shell.Options{Store: inMemory(t), Tools: tools, Secrets: named()})
	quoted, err := json.Marshal(in)
	require.NoError(t, err)
	made, err := e.Pipelines().Create(bg(), core.PipelineSpec{
		Definition: core.PipelineDef{Name: "p", Inputs: []core.InputDef{{Name: "in"}}, Phases: phases},
		Context:    map[string]json.RawMessage{"in": quoted},
	})
	require.NoError(t, err)
	elapse(time.Hour)
	made, err = e.Pipelines().Get(bg(), made.ID)
	require.NoError(t, err)
	return made
}

func runPhase(name, tool, input string) core.PhaseDef {
	return core.PhaseDef{Name: name, Run: &core.ToolRun{Tool: tool, Input: json.RawMessage(input)}}
}

func approach(name, input string) core.Approach {
	return core.Approach{
		Name: name, Action: core.ApproachAction{Command: &core.ToolRun{Tool: "count", Input: json.RawMessage(input)}},
		FallbackOn: []core.FallbackCondition{{Error: "."}},
	}
}

const (
	withKey = `{"to":"https://api.example","key":"{{secret api}}"}`
	hookIn  = `{"to":"${in}"}`
)

func TestAnotherRunOfTheSameToolLendsAValueNoSecret(t *testing.T) {
	strategy := core.PhaseDef{Name: "try", Strategy: &core.StrategyPhase{Approaches: []core.Approach{approach("a", hookIn), approach("b", withKey)}}}
	for name, phases := range map[string][]core.PhaseDef{
		"a phase before":        {runPhase("a", "count", withKey), runPhase("b", "count", hookIn)},
		"a phase after":         {runPhase("a", "count", hookIn), runPhase("b", "count", withKey)},
		"another member":        {runPhase("a", "count", `{"to":"${in}","key":"{{secret api}}"}`)},
		"the same text":         {runPhase("a", "count", `{"to":"${in} {{secret api}}"}`)},
		"a member of a value":   {{Name: "keep", Set: &core.SetPhase{Values: map[string]json.RawMessage{"v": json.RawMessage(`{"${in}":["${in}"]}`)}}}, runPhase("a", "count", `{"k":"{{secret api}}","v":"${v}"}`)},
		"a split reference":     {runPhase("a", "count", `"{{secret ${in}"`)},
		"an approach after":     {strategy},
		"a strategy and phase":  {runPhase("a", "count", withKey), strategy},
		"a started pipeline":    {runPhase("a", "count", withKey), runPhase("b", "pipelines", `{"wait":true,"definition":{"name":"c","phases":[{"name":"x","run":{"tool":"count","input":{"to":"${in}"}}}]}}`)},
		"a pipeline with a key": {runPhase("b", "pipelines", `{"wait":true,"definition":{"name":"c","phases":[{"name":"x","run":{"tool":"count","input":{"to":"${in}","key":"{{secret api}}"}}}]}}`)},
	} {
		for _, in := range asking {
			t.Run(name+" "+in, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					p := &parrot{}
					made := endOf(t, p, in, phases...)
					for _, got := range p.got {
						assert.JSONEq(t, `{"to":"https://api.example","key":"hush-hush-7"}`, got, "the author's own run alone has it")
					}
					if phases[0].Strategy == nil && (len(phases) < 2 || phases[1].Strategy == nil) {
						assert.Equal(t, core.PhaseFailure, made.Phase.Type, made.Phase)
						return
					}
					assert.Equal(t, core.PhaseDone, made.Phase.Type, "the approach with the key is tried next")
				})
			})
		}
	}
}

func TestAReferenceThatIsWholeOnlyWithAValueIsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &parrot{}
		made := endOf(t, p, "api}}", runPhase("a", "count", `"{{secret ${in}"`))
		assert.Contains(t, made.Phase.Error, `write {{secret "name"}}`)
		assert.Empty(t, p.got)
	})
}

func TestTheAuthorsOwnReferencesAreFilledInWhereverTheyStand(t *testing.T) {
	for name, c := range map[string]struct {
		phase core.PhaseDef
		want  string
	}{
		"beside a value":     {runPhase("a", "count", `{"to":"${in}","keys":["{{secret api}}","${in}-{{secret \"api\"}}"]}`), `{"to":"plain","keys":["hush-hush-7","plain-hush-hush-7"]}`},
		"in an approach":     {core.PhaseDef{Name: "try", Strategy: &core.StrategyPhase{Approaches: []core.Approach{approach("a", `"${in} {{secret api}}"`)}}}, `"plain hush-hush-7"`},
		"in a new pipeline":  {runPhase("a", "pipelines", `{"wait":true,"definition":{"name":"c","phases":[{"name":"x","run":{"tool":"count","input":"{{secret api}}"}}]}}`), `"hush-hush-7"`},
		"in a child's phase": {core.PhaseDef{Name: "a", Pipelines: &core.PipelinesPhase{Wait: true, Start: []core.PipelineStartDef{{Definition: core.PipelineDef{Name: "c", Phases: []core.PhaseDef{runPhase("x", "count", `"{{secret api}}"`)}}}}}}, `"hush-hush-7"`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &parrot{}
				made := endOf(t, p, "plain", c.phase)
				assert.Equal(t, core.PhaseDone, made.Phase.Type, made.Phase)
				assert.Equal(t, []string{c.want}, p.got)
			})
		})
	}
}

func TestAToolWhoseNameIsFilledInHasNoSecrets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &parrot{}
		made := endOf(t, p, "tally", runPhase("a", "${in}", withKey))
		assert.Contains(t, made.Phase.Error, `secret "api": the name of the tool is filled in: write "tally" instead of "${in}"`)
		assert.Empty(t, p.got)
	})
}

func TestASecretThatCannotBeReadForWantOfADescriptorCostsNoAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, reads := &parrot{}, 0
		lacking := secrets.Set{"api": {Read: func(context.Context) (string, error) {
			if reads++; reads < 4 {
				return "", &os.PathError{Op: "open", Path: "api", Err: syscall.EMFILE}
			}
			return hushed, nil
		}}}
		e := running(t, shell.Options{Store: inMemory(t), Tools: map[string]shell.Tool{"count": p}, Secrets: lacking})
		a, err := e.Actions().Execute(bg(), core.ActionSpec{ToolName: "count", ToolInput: json.RawMessage(`"{{secret api}}"`)})
		require.NoError(t, err)
		assert.Equal(t, core.StatusCompleted, a.Status.Type, a.Status)
		assert.EqualValues(t, 1, a.Attempt)
		assert.Equal(t, []string{`"hush-hush-7"`}, p.got)
		assert.Equal(t, 4, reads)
	})
}

func TestWithoutASourceOfSecretsTheirTextHasNoMeaning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &parrot{}
		e := running(t, shell.Options{Store: inMemory(t), Tools: map[string]shell.Tool{"count": p}})
		for _, in := range []string{`"{{secret \"api\"}}"`, `"{{secret"`, `"{{ secret }} {{secretKeyRef}}"`} {
			a, err := e.Actions().Execute(bg(), core.ActionSpec{ToolName: "count", ToolInput: json.RawMessage(in)})
			require.NoError(t, err)
			assert.JSONEq(t, in, string(a.Status.Result))
		}
	})
}

// keeper stores its input.
type keeper struct{ parrot }

func (*keeper) StoresInput() {}

func TestAToolThatStoresItsInputGetsNoSecrets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &keeper{}
		e := running(t, shell.Options{Store: inMemory(t), Tools: map[string]shell.Tool{"count": k}, Secrets: named()})
		_, err := e.Actions().Execute(bg(), core.ActionSpec{ToolName: "count", ToolInput: json.RawMessage(`"{{secret api}}"`)})
		require.NoError(t, err)
		assert.Equal(t, []string{`"{{secret api}}"`}, k.got, "what reads it later has them")
	})
}

func TestTheToolsOfTheModuleThatStoreTheirInputSaySo(t *testing.T) {
	for _, tool := range []shell.Tool{shell.QueueTool{}, shell.PipelineTool{}} {
		_, ok := tool.(shell.InputStorer)
		assert.True(t, ok, "%T", tool)
	}
}
