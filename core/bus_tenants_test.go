package core_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

// onDeploy is a subscriber that does something on each deploy.
func onDeploy(name string, do core.Reaction) core.Subscription {
	return core.Subscription{Name: name, Match: core.EventMatch{Category: "deploy"}, Do: do}
}

func pushTo(of core.Scope, queue string) core.Reaction {
	return core.Reaction{Push: &core.PushReaction{MachineName: core.MachineName{Namespace: of.Namespace, Tenant: of.Tenant, Name: queue}}}
}

func startIn(of core.Scope) core.Reaction {
	return core.Reaction{StartPipeline: &core.PipelineReaction{Namespace: of.Namespace, Tenant: of.Tenant, Definition: onePhase("roll out")}}
}

func subscribeIn(of core.Scope, sub core.Subscription) core.Input {
	return core.Input{To: core.BusOf(of.Namespace, of.Tenant), Event: core.BusSubscribe{Namespace: of.Namespace, Tenant: of.Tenant, Subscriber: sub}}
}

func publishIn(of core.Scope) core.Input {
	return core.Input{To: core.BusRef(), Event: core.BusPublish{Namespace: of.Namespace, Tenant: of.Tenant, Kind: effects.Custom("deploy", "done"), Source: effects.EventSource{Component: "ci"}}}
}

// carriedOut makes one batch of inputs that are all taken.
func carriedOut(t *testing.T, w world, rules core.Rules, seq uint64, inputs ...core.Input) *core.Batch {
	t.Helper()
	batch := core.NewBatch(w, core.Clock{Now: start, Rules: rules}, seq)
	for _, in := range inputs {
		res, err := batch.Apply(in)
		require.NoError(t, err)
		require.Nil(t, res.Refused, "%s", in.Event.EventType())
		require.True(t, res.Changed)
	}
	w.store(batch)
	return batch
}

func TestSubscribersOfTwoTenantsMayHaveOneName(t *testing.T) {
	w := world{}
	carriedOut(t, w, 0, 1, subscribeIn(mine, onDeploy("s", pushTo(mine, "q"))), subscribeIn(theirs, onDeploy("s", pushTo(core.Scope{}, "q"))))
	for _, of := range []core.Scope{mine, theirs} {
		s, err := w.Load(core.BusOf(of.Namespace, of.Tenant))
		require.NoError(t, err)
		assert.Equal(t, []core.Subscription{onDeploy("s", pushTo(of, "q"))}, s.(core.Bus).Subscribers, "where it says none, it acts in its own tenant")
		assert.Equal(t, of, core.ScopeOf(s))
	}
	carriedOut(t, w, 0, 2, core.Input{To: core.BusOf(mine.Namespace, mine.Tenant), Event: core.BusUnsubscribe{Name: "s"}})
	assert.Len(t, load[core.Bus](w, core.KindBus), 1, "the other one stays")
}

// An event of no tenant reaches subscribers of one name in two tenants: each starts a pipeline of its own.
func TestSubscribersOfOneNameStartAPipelineEach(t *testing.T) {
	w := world{}
	all := []core.Scope{mine, theirs, {}}
	for i, of := range all {
		carriedOut(t, w, 0, uint64(i+1), subscribeIn(of, onDeploy("s", startIn(of))))
	}
	carriedOut(t, w, 0, 9, publishIn(core.Scope{}))
	var made []core.Scope
	for _, p := range load[core.Pipeline](w, core.KindPipeline) {
		made = append(made, core.ScopeOf(p))
	}
	assert.ElementsMatch(t, all, made)
}

// What a batch has changed itself counts: a bus that it has made, and one that it has removed.
func TestAnEventOfNoTenantReachesTheBusesThatThereAreNow(t *testing.T) {
	w := world{}
	carriedOut(t, w, 0, 1, subscribeIn(theirs, onDeploy("s", pushTo(theirs, "q"))))
	batch := carriedOut(t, w, 0, 2,
		publishIn(core.Scope{}),
		core.Input{To: core.BusOf(theirs.Namespace, theirs.Tenant), Event: core.BusUnsubscribe{Name: "s"}},
		subscribeIn(mine, onDeploy("s", pushTo(mine, "q"))),
		publishIn(core.Scope{}),
		subscribeIn(theirs, onDeploy("again", pushTo(theirs, "q"))),
		publishIn(core.Scope{}))
	pushed := map[string]uint64{}
	for _, q := range load[core.Queue](w, core.KindQueue) {
		pushed[q.Tenant] = q.Pushed
	}
	assert.Equal(t, map[string]uint64{"mine": 2, "theirs": 2}, pushed)
	assert.NotEmpty(t, batch.Events())
}

func TestAnEventOfNoTenantReachesABoundedNumberOfSubscribers(t *testing.T) {
	w := world{}
	tenants := core.MaxReactions/core.MaxSubscribers + 1
	for n := range tenants {
		of := core.Scope{Namespace: "n", Tenant: fmt.Sprint(n)}
		bus := core.Bus{ID: core.BusOf(of.Namespace, of.Tenant).ID, Namespace: of.Namespace, Tenant: of.Tenant, CreatedAt: start.Add(1)}
		for i := range core.MaxSubscribers {
			bus.Subscribers = append(bus.Subscribers, onDeploy(fmt.Sprint(i), core.Reaction{WakeWorker: &core.MachineName{Namespace: of.Namespace, Tenant: of.Tenant, Name: fmt.Sprint(i)}}))
		}
		w[bus.Ref()] = encoded(bus)
	}
	batch := core.NewBatch(w, core.Clock{Now: start}, 1)
	res, err := batch.Apply(publishIn(core.Scope{}))
	require.NoError(t, err, "it is not lost for all")
	assert.True(t, res.Changed)
	require.Len(t, batch.Events(), 2)
	assert.Equal(t, effects.KindEscalate, batch.Events()[1].Kind)
	assert.Contains(t, string(batch.Events()[1].Data), "event deploy:done is of no tenant, and 5000 subscribers have heard it")
}

// commonBusOf14 is a database in which subscribers of several tenants stand in one bus, as before version 15.
func commonBusOf14(t *testing.T) (w world, pipeline core.State) {
	t.Helper()
	w, pipeline = world{}, machineAt(core.KindPipeline, theirs)
	w[pipeline.Ref()] = encoded(pipeline)
	set := &core.Declaration{Set: "ops", File: "a.toml"}
	subscribe := func(by *core.Declaration, name string, do core.Reaction) core.Input {
		return core.Input{To: core.BusRef(), BySet: by, Event: core.BusSubscribe{Subscriber: onDeploy(name, do)}}
	}
	carriedOut(t, w, 14, 1,
		subscribe(set, "mine", pushTo(mine, "q")), subscribe(nil, "nobody's", pushTo(core.Scope{}, "q")), subscribe(nil, "theirs", startIn(theirs)),
		subscribe(set, "signal", core.Reaction{Signal: &core.SignalReaction{Pipeline: pipeline.Ref().ID, Name: "go"}}),
		subscribe(nil, "gone", core.Reaction{Signal: &core.SignalReaction{Pipeline: id(99), Name: "go"}}),
		subscribe(nil, "tells", pushTo(core.Scope{Namespace: core.NotifyNamespace, Tenant: core.NotifyTenant}, "ops")))
	return w, pipeline
}

func TestTheBusOfAllIsDividedAmongTheTenantsOfItsSubscribers(t *testing.T) {
	w, _ := commonBusOf14(t)
	divide := core.Input{To: core.BusRef(), Event: core.BusDivide{}}
	carriedOut(t, w, 0, 2, divide)
	got := map[core.Scope][]string{}
	for ref, bus := range load[core.Bus](w, core.KindBus) { // order-free: it fills a map
		of := core.ScopeOf(bus)
		assert.Equal(t, core.BusOf(of.Namespace, of.Tenant), ref)
		got[of] = subscriberNames(bus)
	}
	assert.Equal(t, map[core.Scope][]string{
		{}: {"nobody's", "gone"}, mine: {"mine"}, theirs: {"theirs", "signal"}, {Namespace: core.NotifyNamespace, Tenant: core.NotifyTenant}: {"tells"},
	}, got)
	owned := map[string]core.Scope{}
	for ref, d := range load[core.Declared](w, core.KindDeclared) { // order-free: it fills a map
		of := core.ScopeOf(d)
		assert.Equal(t, core.DeclaredRef(core.BusOf(of.Namespace, of.Tenant), d.Part), ref)
		assert.Equal(t, core.BusOf(of.Namespace, of.Tenant), d.Of())
		assert.Equal(t, "ops", d.Set)
		owned[d.Part] = of
	}
	assert.Equal(t, map[string]core.Scope{"mine": mine, "signal": theirs}, owned, "the set owns them as before")

	res, err := core.NewBatch(w, core.Clock{Now: start}, 3).Apply(divide)
	require.NoError(t, err)
	require.NotNil(t, res.Refused, "there is nothing more to do")
	assert.Equal(t, effects.CodeExists, res.Refused.Code)
}

// Before and after it is divided, each subscriber does the same, whichever tenant the event is of.
func TestADividedBusRoutesAsItDidBefore(t *testing.T) {
	for _, of := range []core.Scope{mine, theirs, {Namespace: "n", Tenant: "nobody"}, {}} {
		var got [2]map[string]int
		for i := range got {
			w, pipeline := commonBusOf14(t)
			rules := core.Rules(14)
			if i == 1 {
				carriedOut(t, w, 0, 2, core.Input{To: core.BusRef(), Event: core.BusDivide{}})
				rules = 0
			}
			batch := core.NewBatch(w, core.Clock{Now: start, Rules: rules}, 3)
			_, err := batch.Apply(publishIn(of))
			require.NoError(t, err)
			w.store(batch)
			got[i] = map[string]int{}
			for _, q := range load[core.Queue](w, core.KindQueue) { // order-free: it fills a map
				got[i]["queue "+q.Tenant] = int(q.Pushed)
			}
			for _, p := range load[core.Pipeline](w, core.KindPipeline) { // order-free: it fills a map
				if p.ID == pipeline.Ref().ID {
					got[i]["signals"] = len(p.Signals)
					continue
				}
				got[i]["pipeline "+p.Tenant]++
			}
		}
		assert.Equal(t, got[0], got[1], "%q", of)
		assert.NotEmpty(t, got[1])
	}
}

// A subscriber that is made anew before the bus is divided stays as it is.
func TestASubscriberThatIsThereAlreadyIsNotReplacedByTheEarlierOne(t *testing.T) {
	w, _ := commonBusOf14(t)
	carriedOut(t, w, 0, 2, subscribeIn(mine, onDeploy("mine", pushTo(mine, "other"))), core.Input{To: core.BusRef(), Event: core.BusDivide{}})
	s, err := w.Load(core.BusOf(mine.Namespace, mine.Tenant))
	require.NoError(t, err)
	assert.Equal(t, []core.Subscription{onDeploy("mine", pushTo(mine, "other"))}, s.(core.Bus).Subscribers)
	for _, d := range load[core.Declared](w, core.KindDeclared) {
		assert.NotEqual(t, "mine", d.Part, "nobody owns it")
	}
}

func TestWhatBelongsToNoTenantIsNotTakenByTheBusOfOne(t *testing.T) {
	w := world{}
	carriedOut(t, w, 0, 1, subscribeIn(mine, onDeploy("s", pushTo(mine, "q"))))
	publish := publishIn(mine)
	publish.To = core.BusOf(mine.Namespace, mine.Tenant)
	for _, e := range []core.Event{publish.Event, core.BusRegister{Names: []string{"a"}}, core.BusHeartbeat{Instance: id(1), EveryMS: 1}, core.BusDivide{}} {
		res, err := core.NewBatch(w, core.Clock{Now: start}, 2).Apply(core.Input{To: publish.To, Event: e})
		require.NoError(t, err)
		require.NotNil(t, res.Refused, "%s", e.EventType())
		assert.Equal(t, `the bus of namespace "n" and tenant "mine" takes only subscribers: send it to the one without`, res.Refused.Reason)
	}
}
