package core_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

var (
	_ core.Subscriber = core.Subscription{}
	_ core.Subscriber = core.WorkerWakeSubscriber{}
)

// busOf makes a bus with these subscribers.
func busOf(t tb, subs ...core.Subscription) core.Bus {
	t.Helper()
	bus := core.Bus{}
	of, _ := subs[0].Acts()
	for _, s := range subs {
		var effs []effects.Effect
		bus, effs = bus.Apply(core.BusSubscribe{Namespace: of.Namespace, Tenant: of.Tenant, Subscriber: s}, core.Clock{Now: start})
		require.Nil(t, refusal(effs))
	}
	return bus
}

func mergePhase() effects.Event {
	return effects.Event{
		ID: id(9), Kind: effects.KindPipelinePhase, Timestamp: start,
		Source: effects.EventSource{Component: "pipeline", ID: id(1)}, Data: json.RawMessage(`{"phase":"merge","n":3,"deep":{"a":[1]},"nothing":null}`),
	}
}

// 003: wake merge worker on pipeline:phase(merge).
func TestAWorkerWakeSubscriberWakesItsWorkerOnThePhaseThatItWaitsFor(t *testing.T) {
	sub := core.WorkerWakeSubscriber{
		Match:  core.EventMatch{Category: "pipeline", Action: "phase", Data: map[string]string{"phase": "merge"}},
		Worker: core.MachineName{Namespace: "n", Tenant: "t", Name: "merge"},
	}
	wake := []effects.Effect{effects.WakeWorker{Worker: core.WorkerRef("n", "t", "merge")}}
	build := mergePhase()
	build.Data = json.RawMessage(`{"phase":"build"}`)
	assert.True(t, sub.Matches(mergePhase()))
	assert.False(t, sub.Matches(build))
	assert.Equal(t, wake, sub.Handle(mergePhase()))

	bus := busOf(t, sub.Subscription("merge"))
	assert.Equal(t, wake, bus.Route(mergePhase()))
	assert.Empty(t, bus.Route(build))
}

func TestAMatchChoosesByEachOfItsFields(t *testing.T) {
	data := func(kv ...string) core.EventMatch { return core.EventMatch{Data: map[string]string{kv[0]: kv[1]}} }
	for _, row := range []struct {
		name  string
		match core.EventMatch
		want  bool
	}{
		{"nothing asked: all", core.EventMatch{}, true},
		{"category", core.EventMatch{Category: "pipeline"}, true},
		{"another category", core.EventMatch{Category: "task"}, false},
		{"a part of the category is not it", core.EventMatch{Category: "pipe"}, false},
		{"action", core.EventMatch{Action: "phase"}, true},
		{"another action", core.EventMatch{Action: "failed"}, false},
		{"any text", core.EventMatch{Category: "*", Action: "*"}, true},
		{"beginning", core.EventMatch{Action: "ph*"}, true},
		{"end", core.EventMatch{Action: "*se"}, true},
		{"middle", core.EventMatch{Action: "p*a*e"}, true},
		{"the same letter cannot be beginning and end", core.EventMatch{Action: "phas*se"}, false},
		{"middle that is not there", core.EventMatch{Action: "p*x*e"}, false},
		{"one letter cannot be the middle and the end", core.EventMatch{Action: "p*e*e"}, false},
		{"component", core.EventMatch{Component: "pipeline"}, true},
		{"another component", core.EventMatch{Component: "queue"}, false},
		{"source", core.EventMatch{SourceID: id(1)}, true},
		{"another source", core.EventMatch{SourceID: id(2)}, false},
		{"member", data("phase", "merge"), true},
		{"member by a pattern", data("phase", "m*"), true},
		{"another value", data("phase", "build"), false},
		{"member that only must be there", data("phase", ""), true},
		{"member that is not there", data("branch", "*"), false},
		{"number", data("n", "3"), true},
		{"another number", data("n", "4"), false},
		{"object, as JSON", data("deep", `{"a":[1]}`), true},
		{"null, as JSON", data("nothing", "null"), true},
	} {
		t.Run(row.name, func(t *testing.T) {
			assert.Equal(t, row.want, row.match.Matches(mergePhase()))
		})
	}
	for _, odd := range []string{"", "null", "[]", `"x"`, "{", "3"} {
		e := mergePhase()
		e.Data = json.RawMessage(odd)
		assert.False(t, data("phase", "").Matches(e), "%s has no members", odd)
	}
}

func TestTheBusGivesTheEffectsInTheOrderOfSubscription(t *testing.T) {
	push := core.Subscription{Name: "push", Match: core.EventMatch{Category: "pipeline"}, Do: core.Reaction{Push: &core.PushReaction{MachineName: core.MachineName{Name: "merge"}, Priority: 7}}}
	wake := core.WorkerWakeSubscriber{Worker: core.MachineName{Name: "merge"}}.Subscription("wake")
	signal := core.Subscription{Name: "signal", Do: core.Reaction{Signal: &core.SignalReaction{Pipeline: id(3), Name: "go"}}}
	other := core.Subscription{Name: "other", Match: core.EventMatch{Category: "task"}, Do: core.Reaction{WakeWorker: &core.MachineName{Name: "other"}}}
	bus := busOf(t, push, other, wake, signal)
	payload := json.RawMessage(`{"id":"` + id(9).String() + `","category":"pipeline","action":"phase","timestamp":"2026-02-10T14:00:00.000Z","component":"pipeline","source_id":"` + id(1).String() + `","data":{"phase":"merge","n":3,"deep":{"a":[1]},"nothing":null}}`)
	assert.Equal(t, []effects.Effect{
		effects.Send{To: core.QueueRef("", "", "merge"), Event: core.QueuePush{Name: "merge", Priority: 7, Data: payload}},
		effects.WakeWorker{Worker: core.WorkerRef("", "", "merge")},
		effects.Send{To: effects.Ref{Kind: core.KindPipeline, ID: id(3)}, Event: core.PipelineSignal{Name: "go", Payload: payload}},
	}, bus.Route(mergePhase()))

	bus, _ = bus.Apply(core.BusUnsubscribe{Name: "wake"}, core.Clock{Now: start})
	assert.Len(t, bus.Route(mergePhase()), 2)
}

func TestAPipelineThatAnEventStartsIsTheSameOneInAReplay(t *testing.T) {
	start := func(name string) core.Subscription {
		return core.Subscription{Name: name, Match: core.EventMatch{SourceID: id(1)}, Do: core.Reaction{StartPipeline: &core.PipelineReaction{
			Tenant: "t", Definition: onePhase("deploy"), Context: map[string]json.RawMessage{"env": json.RawMessage(` {"a" : "<1>"} `)},
		}}}
	}
	bus := busOf(t, start("one"), start("two"))
	created := func() (specs []core.PipelineSpec) {
		for _, e := range bus.Route(mergePhase()) {
			send := e.(effects.Send)
			spec := send.Event.(core.PipelineCreate).Spec
			require.Equal(t, effects.Ref{Kind: core.KindPipeline, ID: spec.ID}, send.To)
			specs = append(specs, spec)
		}
		return specs
	}
	specs := created()
	require.Len(t, specs, 2)
	assert.Equal(t, specs, created())
	assert.NotEqual(t, specs[0].ID, specs[1].ID, "each subscriber starts one of its own")
	assert.Equal(t, "t", specs[0].Tenant)
	assert.True(t, bytes.Equal([]byte(`{"a":"\u003c1\u003e"}`), specs[0].Context["env"]), "as it is stored")
	assert.Contains(t, string(specs[0].Context["event"]), `"phase":"merge"`)
}

func TestAPublicationReachesTheSubscribersInItsBatch(t *testing.T) {
	bus := busOf(t, core.WorkerWakeSubscriber{Match: core.EventMatch{Category: "deploy"}, Worker: core.MachineName{Name: "merge"}}.Subscription("wake"))
	batch := core.NewBatch(loader{core.BusRef(): bus}, core.Clock{Now: start}, 3)
	res, err := batch.Apply(core.Input{To: core.BusRef(), Event: core.BusPublish{
		Kind: effects.Custom("deploy", "done"), Source: effects.EventSource{Component: "ci", ID: id(1)}, Data: json.RawMessage(` {"a" : 1} `),
	}})
	require.NoError(t, err)
	assert.True(t, res.Changed, "it belongs into the journal")
	require.Len(t, batch.Events(), 1)
	e := batch.Events()[0]
	assert.Equal(t, "deploy:done", e.Kind.String())
	assert.Equal(t, start, e.Timestamp)
	assert.Equal(t, `{"a":1}`, string(e.Data), "as a replay reads it from the journal")
	require.NotNil(t, res.Refused, "the worker was woken, and there is none")
	assert.Equal(t, core.WorkerRef("", "", "merge"), res.Refused.To)
}

func TestQueuesThatFeedOneAnotherEndWithAnEscalation(t *testing.T) {
	feed := func(from, to string) core.Subscription {
		return core.Subscription{Name: from, Match: core.EventMatch{Category: "queue", Action: "push", SourceID: core.QueueRef("", "", from).ID}, Do: core.Reaction{Push: &core.PushReaction{MachineName: core.MachineName{Name: to}}}}
	}
	batch := core.NewBatch(loader{core.BusRef(): busOf(t, feed("a", "b"), feed("b", "a"))}, core.Clock{Now: start}, 1)
	res, err := batch.Apply(core.Input{To: core.QueueRef("", "", "a"), Event: core.QueuePush{Name: "a", Data: json.RawMessage("1")}})
	require.NoError(t, err)
	assert.Nil(t, res.Refused)
	pushes, escalations := 0, 0
	for _, e := range batch.Events() {
		switch e.Kind {
		case effects.KindQueuePush:
			pushes++
		case effects.KindEscalate:
			escalations++
		}
	}
	assert.Equal(t, core.MaxRoutings+1, pushes)
	assert.Equal(t, 1, escalations)
}

func TestTheBusHasALimitOfSubscribersAndOfBytes(t *testing.T) {
	bus := core.Bus{}
	sub := core.WorkerWakeSubscriber{Worker: core.MachineName{Name: "w"}}
	for i := range core.MaxSubscribers {
		bus.Subscribers = append(bus.Subscribers, sub.Subscription(fmt.Sprint(i)))
	}
	bus.ID = core.BusRef().ID
	_, effs := bus.Apply(core.BusSubscribe{Subscriber: sub.Subscription("one more")}, core.Clock{Now: start})
	require.NotNil(t, refusal(effs))
	assert.Equal(t, `subscriber "one more" would be number 1001: at most 1000 are possible`, refusal(effs).Reason)
	_, effs = bus.Apply(core.BusSubscribe{Subscriber: sub.Subscription("7")}, core.Clock{Now: start})
	assert.Nil(t, refusal(effs), "one is replaced")

	large := core.Subscription{Name: "large", Match: core.EventMatch{Category: "x"}, Do: core.Reaction{StartPipeline: &core.PipelineReaction{
		Definition: onePhase("p"), Context: map[string]json.RawMessage{"x": json.RawMessage(`"` + strings.Repeat("x", core.MaxSubscriberBytes-500) + `"`)},
	}}}
	bus = core.Bus{}
	for i := 0; ; i++ {
		large.Name = fmt.Sprint(i)
		next, effs := bus.Apply(core.BusSubscribe{Subscriber: large}, core.Clock{Now: start})
		if r := refusal(effs); r != nil {
			assert.Contains(t, r.Reason, "all subscribers together would have")
			assert.Greater(t, i, 30)
			break
		}
		bus = next
	}
	large.Do.StartPipeline.Context["y"] = large.Do.StartPipeline.Context["x"]
	_, effs = core.Bus{}.Apply(core.BusSubscribe{Subscriber: large}, core.Clock{Now: start})
	require.NotNil(t, refusal(effs))
	assert.Contains(t, refusal(effs).Reason, "bytes are more than 65536")

	_, effs = core.Bus{}.Apply(core.BusPublish{Kind: effects.Custom("a", "b"), Source: effects.EventSource{Component: "c"}, Data: json.RawMessage(`"` + strings.Repeat("x", core.MaxPublishDataBytes) + `"`)}, core.Clock{})
	assert.Contains(t, refusal(effs).Reason, "data: 65538 bytes is more than 65536")
}

// What a subscriber gets must not depend on whether the bus came from memory, or
// the publication from the journal.
func TestRoutingGivesTheSameAfterTheStoredForms(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bus := core.Bus{}
		for range rapid.IntRange(1, 6).Draw(t, "subscribers") {
			bus, _ = bus.Apply(core.BusSubscribe{Subscriber: drawSubscription(t)}, core.Clock{Now: start})
		}
		publish := core.BusPublish{Kind: effects.Custom("deploy", "done"), Source: effects.EventSource{Component: "ci", ID: id(1)}, Data: drawJSON(t, "data")}
		_, effs := bus.Apply(publish, core.Clock{Now: start})
		if refusal(effs) != nil || !exists(bus) {
			return
		}
		e := effs[0].(effects.Emit).Event
		stored, err := core.DecodeState(core.KindBus, bus.AppendJSON(nil))
		require.NoError(t, err)
		journaled, err := core.DecodeEvent(core.KindBus, core.AppendEvent(nil, publish))
		require.NoError(t, err)
		_, again := core.Bus{}.Apply(journaled.(core.BusEvent), core.Clock{Now: start})
		require.Equal(t, e, again[0].(effects.Emit).Event)
		require.Equal(t, bus.Route(e), stored.(core.Bus).Route(e))
	})
}

func TestWhatTheBusItselfAnnouncesIsRoutedToNobody(t *testing.T) {
	bus := busOf(t, core.WorkerWakeSubscriber{Worker: core.MachineName{Name: "merge"}}.Subscription("all"))
	e := effects.Event{Kind: effects.KindEscalate, Source: effects.EventSource{Component: "task", ID: id(1)}}
	assert.Len(t, bus.Route(e), 1)
	e.Source = effects.EventSource{Component: "bus", ID: core.BusRef().ID}
	assert.Empty(t, bus.Route(e))
}

func TestABusWithoutSubscribersCostsNothing(t *testing.T) {
	e := mergePhase()
	assert.Zero(t, testing.AllocsPerRun(100, func() { core.Bus{}.Route(e) }))
}

func TestReservedCategoriesAreThoseOfTheMachinesAndOf003(t *testing.T) {
	for _, kind := range kinds {
		// These announce as the scheduler and the alerts do: older journals may have categories of others with their names.
		assert.Equal(t, kind != core.KindCalendar && kind != core.KindBackfill && kind != core.KindDigest, effects.ReservedCategory(string(kind)), kind)
	}
	for _, kind := range effects.Announced() {
		assert.True(t, effects.ReservedCategory(kind.Category), kind)
	}
	assert.False(t, effects.ReservedCategory("deploy"))
}

func TestTheKindsThatMachinesAnnounceAreThoseOfTheirTraces(t *testing.T) {
	shown := map[string]bool{}
	line := regexp.MustCompile(`(?m)^  (?:emit|bus) (\w+:\w+)`)
	paths, err := filepath.Glob(filepath.Join("testdata", "*", "*.txt"))
	require.NoError(t, err)
	for _, path := range paths {
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		for _, m := range line.FindAllStringSubmatch(string(b), -1) {
			if category, _, _ := strings.Cut(m[1], ":"); effects.ReservedCategory(category) {
				shown[m[1]] = true
			}
		}
	}
	var listed []string
	for _, kind := range effects.Announced() {
		listed = append(listed, kind.String())
	}
	assert.ElementsMatch(t, slices.Collect(maps.Keys(shown)), listed)
	assert.True(t, slices.IsSorted(listed))
}
