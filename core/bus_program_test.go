package core_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

// heard is a subscriber of a program: it hears all that it matches.
type heard struct {
	match  func(effects.Event) bool
	handle func(effects.Event) []effects.Effect
}

func (h heard) Matches(e effects.Event) bool            { return h.match(e) }
func (h heard) Handle(e effects.Event) []effects.Effect { return h.handle(e) }

func ofCategory(category string) func(effects.Event) bool {
	return func(e effects.Event) bool { return e.Kind.Category == category }
}

// published applies the registration of a program and then one announcement.
func published(t *testing.T, w world, program map[string]core.Subscriber, kind effects.EventKind) (*core.Batch, error) {
	t.Helper()
	b := core.NewBatch(w, core.Clock{Now: start}, 2)
	b.Subscribers(program)
	_, err := b.Apply(core.Input{To: core.BusRef(), Actor: "test", Event: core.BusPublish{Kind: kind, Source: effects.EventSource{Component: "ci", ID: id(1)}, Data: json.RawMessage(`{"v":1}`)}})
	return b, err
}

func registered(t *testing.T, names ...string) world {
	t.Helper()
	w, seq := world{}, uint64(0)
	require.Nil(t, w.send(t, core.BusRef(), core.BusRegister{Names: names}, start, &seq).Refused)
	return w
}

func TestASubscriberOfTheProgramActsWithinTheTransaction(t *testing.T) {
	spec := core.ActionSpec{ID: id(5), ToolName: "command", Trigger: core.Scheduled(start)}
	program := map[string]core.Subscriber{"roll-out": heard{ofCategory("deploy"), func(e effects.Event) []effects.Effect {
		return []effects.Effect{
			effects.Send{To: effects.Ref{Kind: core.KindAction, ID: spec.ID}, Event: core.ActionCreate{Spec: spec}},
			effects.Emit{Event: effects.Event{Kind: effects.Custom("rollout", "begun"), Source: e.Source, Data: e.Data}},
		}
	}}}
	w := registered(t, "roll-out")
	b, err := published(t, w, program, effects.Custom("deploy", "done"))
	require.NoError(t, err)
	made, err := b.State(effects.Ref{Kind: core.KindAction, ID: spec.ID})
	require.NoError(t, err)
	require.NotNil(t, made)
	require.Len(t, b.Events(), 2)
	assert.Equal(t, "rollout:begun", b.Events()[1].Kind.String())

	b, err = published(t, w, program, effects.Custom("other", "done"))
	require.NoError(t, err)
	assert.Len(t, b.Events(), 1, "it does not match")
	b, err = published(t, world{}, program, effects.Custom("deploy", "done"))
	require.NoError(t, err)
	assert.Len(t, b.Events(), 1, "it is not registered")
	_, err = published(t, w, nil, effects.Custom("deploy", "done"))
	assert.ErrorContains(t, err, `subscriber "roll-out" of the program hears events, and is not here`)
}

func TestSubscribersOfTheProgramHearInTheOrderOfTheirNames(t *testing.T) {
	program := map[string]core.Subscriber{}
	for _, name := range []string{"c", "a", "b"} {
		program[name] = heard{ofCategory("deploy"), func(effects.Event) []effects.Effect {
			return []effects.Effect{effects.Emit{Event: effects.Event{Kind: effects.Custom("by", name), Source: effects.EventSource{Component: "test"}}}}
		}}
	}
	b, err := published(t, registered(t, "b", "c", "a"), program, effects.Custom("deploy", "done"))
	require.NoError(t, err)
	var order []string
	for _, e := range b.Events() {
		order = append(order, e.Kind.String())
	}
	assert.Equal(t, []string{"deploy:done", "by:a", "by:b", "by:c"}, order)
}

func TestASubscriberOfTheProgramThatGoesWrongHasDoneNothing(t *testing.T) {
	fine := effects.Emit{Event: effects.Event{Kind: effects.Custom("rollout", "begun"), Source: effects.EventSource{Component: "test"}}}
	for want, give := range map[string]func(effects.Event) []effects.Effect{
		"panicked": func(effects.Event) []effects.Effect { panic(fmt.Sprintf("%p", new(int))) },
		"announces what it may not: kind.category: \"action\" is reserved": func(effects.Event) []effects.Effect {
			return []effects.Effect{fine, effects.Emit{Event: effects.Event{Kind: effects.EventKind{Category: "action", Action: "failed"}, Source: effects.EventSource{Component: "x"}}}}
		},
		"announces what it may not: data": func(effects.Event) []effects.Effect {
			return []effects.Effect{fine, effects.Emit{Event: effects.Event{Kind: effects.Custom("x", "y"), Source: effects.EventSource{Component: "x"}, Data: json.RawMessage(`{`)}}}
		},
		"gives effects.RunTool, which only a machine may": func(effects.Event) []effects.Effect {
			return []effects.Effect{fine, effects.RunTool{Run: 1, Tool: "command"}}
		},
		"gives effects.Answer, which only a machine may": func(effects.Event) []effects.Effect {
			return []effects.Effect{fine, effects.Answer{}}
		},
		`sends <nil> to "nobody", which no machine takes`: func(effects.Event) []effects.Effect {
			return []effects.Effect{fine, effects.Send{To: effects.Ref{Kind: "nobody", ID: uuid.Nil}}}
		},
	} {
		t.Run(want, func(t *testing.T) {
			b, err := published(t, registered(t, "wrong"), map[string]core.Subscriber{"wrong": heard{ofCategory("deploy"), give}}, effects.Custom("deploy", "done"))
			require.NoError(t, err)
			require.Len(t, b.Events(), 2, "the event, and the escalation alone")
			assert.Equal(t, effects.KindEscalate, b.Events()[1].Kind)
			var data struct{ Message string }
			require.NoError(t, json.Unmarshal(b.Events()[1].Data, &data))
			assert.Contains(t, data.Message, `subscriber "wrong" of the program `+want)
			assert.Contains(t, data.Message, "it has done nothing")
			assert.Empty(t, b.Outer())
		})
	}
}

func TestSubscribersOfTheProgramThatFeedOneAnotherAreStopped(t *testing.T) {
	again := func(e effects.Event) []effects.Effect {
		return []effects.Effect{effects.Emit{Event: effects.Event{Kind: e.Kind, Source: e.Source}}}
	}
	b, err := published(t, registered(t, "echo"), map[string]core.Subscriber{"echo": heard{ofCategory("deploy"), again}}, effects.Custom("deploy", "done"))
	require.NoError(t, err)
	assert.Len(t, b.Events(), core.MaxRoutings+2)
	assert.Equal(t, effects.KindEscalate, b.Events()[core.MaxRoutings+1].Kind)
}

func TestAnInputIsCarriedOutWithoutWhatTheProgramMadeOfItWhereThatCannotBe(t *testing.T) {
	taken := core.ActionSpec{ID: id(7), ToolName: "command", Trigger: core.Scheduled(start.Add(time.Hour))}
	create := func(to uuid.UUID, spec core.ActionSpec) effects.Effect {
		return effects.Send{To: effects.Ref{Kind: core.KindAction, ID: to}, Event: core.ActionCreate{Spec: spec}}
	}
	for want, gives := range map[string]effects.Effect{
		"exists already": create(taken.ID, taken),
		"would make":     create(id(8), taken),
		"tool_name":      create(id(8), core.ActionSpec{ID: id(8), Trigger: core.Scheduled(start)}),
	} {
		t.Run(want, func(t *testing.T) {
			w, seq := registered(t, "fine", "wrong"), uint64(1)
			require.Nil(t, w.send(t, effects.Ref{Kind: core.KindAction, ID: taken.ID}, core.ActionCreate{Spec: taken}, start, &seq).Refused)
			run := core.ActionSpec{ID: id(6), ToolName: "command", Trigger: core.Scheduled(start)}
			to := effects.Ref{Kind: core.KindAction, ID: run.ID}
			require.Nil(t, w.send(t, to, core.ActionCreate{Spec: run}, start, &seq).Refused)
			require.Nil(t, w.send(t, to, core.ActionDue{}, start, &seq).Refused)
			program := map[string]core.Subscriber{
				"wrong": heard{ofCategory("action"), func(effects.Event) []effects.Effect { return []effects.Effect{gives} }},
				"fine": heard{ofCategory("action"), func(effects.Event) []effects.Effect {
					return []effects.Effect{effects.Emit{Event: effects.Event{Kind: effects.Custom("by", "fine"), Source: effects.EventSource{Component: "test"}}}}
				}},
			}
			b := core.NewBatch(w, core.Clock{Now: start}, seq+1)
			b.Subscribers(program)
			res, err := b.Apply(core.Input{To: to, Actor: "tool", Event: core.ActionComplete{Run: 1}})
			require.NoError(t, err)
			assert.Nil(t, res.Refused, "whoever ran the tool knows nothing of subscribers")
			assert.True(t, res.Changed)
			ended, err := b.State(to)
			require.NoError(t, err)
			assert.Equal(t, core.StatusCompleted, ended.(core.Action).Status.Type)
			require.Len(t, b.Events(), 2, "the end, and the escalation alone")
			assert.Equal(t, effects.KindEscalate, b.Events()[1].Kind)
			assert.Contains(t, string(b.Events()[1].Data), want)
			assert.Len(t, b.Changes(), 1)

			delete(program, "wrong")
			b.Reset(w, core.Clock{Now: start}, seq+1)
			_, err = b.Apply(core.Input{To: to, Actor: "tool", Event: core.ActionComplete{Run: 1}})
			assert.ErrorContains(t, err, `subscriber "wrong" of the program hears events, and is not here`, "what is missing is no defect of theirs")
		})
	}
}
