package core_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

func drawMatch(t *rapid.T) core.EventMatch {
	m := core.EventMatch{
		Category:  rapid.SampledFrom([]string{"", "*", "queue", "pipeline", "pipe*", "deploy", "\xff"}).Draw(t, "category"),
		Action:    rapid.SampledFrom([]string{"", "phase", "push", "*ed"}).Draw(t, "action"),
		Component: rapid.SampledFrom([]string{"", "queue", "*"}).Draw(t, "component"),
		SourceID:  drawID(t, "source_id"),
	}
	if rapid.IntRange(0, 2).Draw(t, "data?") == 0 {
		m.Data = rapid.SampledFrom([]map[string]string{{}, {"phase": "merge"}, {"n": "3", "phase": ""}, {"\xff": ""}}).Draw(t, "data")
	}
	return m
}

func drawSubscription(t *rapid.T) core.Subscription {
	s := core.Subscription{Name: rapid.SampledFrom([]string{"a", "b", "c", "d", "", "\xff"}).Draw(t, "name"), Match: drawMatch(t)}
	machine := core.MachineName{Name: rapid.SampledFrom([]string{"build", "merge", ""}).Draw(t, "machine")}
	switch rapid.IntRange(0, 6).Draw(t, "do") {
	case 0:
	case 1:
		s.Do.Push = &core.PushReaction{MachineName: machine, Priority: rapid.Int32().Draw(t, "priority")}
	case 2:
		s.Do.Signal = &core.SignalReaction{Pipeline: drawID(t, "pipeline"), Name: machine.Name}
	case 3:
		s.Do.StartPipeline = &core.PipelineReaction{Definition: onePhase(machine.Name), Context: map[string]json.RawMessage{"x": drawJSON(t, "x")}}
	default:
		s.Do.WakeWorker = &machine
	}
	return s
}

func drawBusEvent(t *rapid.T, _ core.State, _ core.Clock) core.Event {
	switch rapid.IntRange(0, 8).Draw(t, "event") {
	case 8:
		return core.BusDivide{}
	case 6:
		return core.BusHeartbeat{Instance: drawID(t, "instance"), EveryMS: rapid.SampledFrom([]int64{60_000, 1, 0, -1, 1 << 40}).Draw(t, "every")}
	case 7:
		return core.BusRegister{Names: rapid.SliceOfN(rapid.SampledFrom([]string{"a", "x", "y", "y", "", "\xff"}), 0, 3).Draw(t, "names")}
	case 0:
		return core.BusUnsubscribe{Name: rapid.SampledFrom([]string{"a", "b", "c", "", "\xff"}).Draw(t, "name")}
	case 1:
		return core.BusPublish{
			Kind:   effects.Custom(rapid.SampledFrom([]string{"deploy", "deploy", "queue", "", "a:b", "\xff"}).Draw(t, "category"), rapid.SampledFrom([]string{"done", "", "*"}).Draw(t, "action")),
			Source: effects.EventSource{Component: rapid.SampledFrom([]string{"ci", ""}).Draw(t, "component"), ID: drawID(t, "source")},
			Data:   drawJSON(t, "data"),
		}
	}
	subscribe := core.BusSubscribe{Subscriber: drawSubscription(t)}
	subscribe.Tenant = rapid.SampledFrom([]string{"", "", "", "t", "\xff"}).Draw(t, "tenant")
	return subscribe
}

func hostileBus(t *rapid.T) core.State {
	s := core.Bus{ID: drawID(t, "id"), CreatedAt: drawTime(t, core.Clock{Now: start})}
	for range rapid.IntRange(0, 3).Draw(t, "subscribers") {
		s.Subscribers = append(s.Subscribers, drawSubscription(t))
	}
	_ = s.Route(effects.Event{Kind: effects.Custom(drawText(t, "category"), drawText(t, "action")), Data: drawJSON(t, "data")})
	return s
}

func goldenSubscriptions() []core.Subscription {
	merge := core.EventMatch{Category: "pipeline", Action: "phase", Data: map[string]string{"phase": "merge", "n": "<3>"}}
	return []core.Subscription{
		core.WorkerWakeSubscriber{Match: merge, Worker: core.MachineName{Namespace: "dev", Tenant: "tenant-1", Name: "merge"}}.Subscription("wake"),
		{Name: "push", Match: core.EventMatch{Component: "task*"}, Do: core.Reaction{Push: &core.PushReaction{MachineName: core.MachineName{Name: "review"}, Priority: -1}}}, // in the bus's tenant
		{Name: "signal", Match: core.EventMatch{SourceID: id(2)}, Do: core.Reaction{Signal: &core.SignalReaction{Pipeline: id(3), Name: "go"}}},
		{Name: "start", Match: core.EventMatch{Category: "deploy"}, Do: core.Reaction{StartPipeline: &core.PipelineReaction{
			Namespace: "dev", Tenant: "tenant-1", Definition: onePhase("roll out"), Context: map[string]json.RawMessage{"b": json.RawMessage(`"<b>"`), "a": json.RawMessage(` {"n" : 1.50} `)},
		}}},
	}
}

func busStates() []core.State {
	bus := core.Bus{}
	for _, s := range goldenSubscriptions() {
		bus, _ = bus.Apply(core.BusSubscribe{Namespace: "dev", Tenant: "tenant-1", Subscriber: s}, core.Clock{Now: start})
	}
	common, _ := core.Bus{}.Apply(core.BusRegister{Names: []string{"billing"}}, core.Clock{Now: start})
	common, _ = common.Apply(core.BusSubscribe{Subscriber: goldenSubscriptions()[1]}, core.Clock{Now: start})
	return []core.State{common, bus}
}

func busEvents() []core.Event {
	var out []core.Event
	for _, s := range goldenSubscriptions() {
		out = append(out, core.BusSubscribe{Namespace: "dev", Tenant: "tenant-1", Subscriber: s})
	}
	return append(out, core.BusSubscribe{Subscriber: goldenSubscriptions()[1]}, core.BusDivide{}, core.BusUnsubscribe{Name: "wake"},
		core.BusPublish{Kind: effects.Custom("deploy", "done"), Source: effects.EventSource{Component: "ci", ID: id(1)}, Data: json.RawMessage(` {"version": "<1>"} `)},
		core.BusPublish{Kind: effects.Custom("deploy", "done"), Source: effects.EventSource{Component: "ci"}},
		core.BusRegister{Names: []string{"billing", "<audit>"}}, core.BusRegister{},
		core.BusHeartbeat{Instance: id(1), EveryMS: 60_000},
	)
}

func subscriberNames(s core.Bus) (names []string) {
	for _, sub := range s.Subscribers {
		names = append(names, sub.Name)
	}
	return names
}

var _ = register(core.KindBus, kit{
	typ: "Bus", absent: core.Bus{}, apply: applying(core.Bus.Apply),
	made: func() core.State { return busStates()[0] }, hostile: hostileBus, draw: drawBusEvent, own: core.BusUnsubscribe{},
	states: busStates, events: busEvents, phase: func(core.State) string { return "listening" }, phases: []string{"absent", "listening"},
	invariants: []invariant{
		on("Each subscriber has a name of its own, acts in the tenant of the bus, and is one that would be accepted.", func(_ step, _, a core.Bus) string {
			seen := map[string]bool{}
			for _, sub := range a.Subscribers {
				of, says := sub.Acts()
				if err := sub.Validate(); err != nil || seen[sub.Name] || says && of != core.ScopeOf(a) {
					return fmt.Sprintf("%s: %v", sub.Name, err)
				}
				seen[sub.Name] = true
			}
			return ""
		}),
		on("There are at most MaxSubscribers, of at most MaxBusBytes together.", func(_ step, _, a core.Bus) string {
			return unless(len(a.Subscribers) <= core.MaxSubscribers && len(a.AppendJSON(nil)) <= core.MaxBusBytes, "%d", len(a.Subscribers))
		}),
		on("The successor of a subscriber stands where that one stood, a new one comes last.", func(s step, b, a core.Bus) string {
			was, is := subscriberNames(b), subscriberNames(a)
			switch e := s.event.(type) {
			case core.BusSubscribe:
				if refusal(s.effs) == nil && !slices.Contains(was, e.Subscriber.Name) {
					was = append(was, e.Subscriber.Name)
				}
			case core.BusUnsubscribe:
				was = slices.DeleteFunc(was, func(name string) bool { return name == e.Name })
			}
			return unless(slices.Equal(was, is), "%s, want %s", strings.Join(is, ","), strings.Join(was, ","))
		}),
		on("Only a publication or a heartbeat announces anything, and it changes nothing.", func(s step, b, a core.Bus) string {
			_, publish := s.event.(core.BusPublish)
			_, beats := s.event.(core.BusHeartbeat)
			if !publish && !beats || refusal(s.effs) != nil {
				return unless(s.emits() == 0, "%v", s.effs)
			}
			return unless(s.emits() == 1 && len(s.effs) == 1 && encoded(a) == encoded(b), "%v", s.effs)
		}),
		on("A bus without subscribers does not exist.", func(_ step, _, a core.Bus) string {
			return unless(exists(a) == (len(a.Subscribers)+len(a.Program) > 0), "%d", len(a.Subscribers))
		}),
	},
})

// onePhase is the smallest definition there is.
func onePhase(name string) core.PipelineDef {
	return core.PipelineDef{Name: name, Phases: []core.PhaseDef{{Name: "only", Checkpoint: &core.CheckpointPhase{Message: "there"}}}}
}
