package core_test

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

// mine is the tenant that asks, theirs another one.
var (
	mine   = core.Scope{Namespace: "n", Tenant: "mine"}
	theirs = core.Scope{Namespace: "n", Tenant: "theirs"}
)

// reach leads from machines of the tenant mine to the machine that a field names; an input without event cancels the action that
// was made.
type reach struct {
	kind   effects.Kind                                                // of the machine that is named
	inputs func(to effects.Ref, owner core.Owner) (setup []core.Input) // the last one may reach it
}

// machineAt gives the machine of that kind that another one names, of that tenant.
func machineAt(kind effects.Kind, of core.Scope) core.State {
	switch kind {
	case core.KindPipeline:
		p, _ := core.Pipeline{}.Apply(core.PipelineCreate{Spec: core.PipelineSpec{
			ID: id(50), Namespace: of.Namespace, Tenant: of.Tenant, Definition: core.PipelineDef{Name: "p", Phases: []core.PhaseDef{{Name: "wait", Signal: &core.SignalPhase{Name: "go"}}}},
		}}, core.Clock{Now: start})
		p, _ = p.Apply(core.PipelineDue{}, core.Clock{Now: start})
		return p
	case core.KindRecurring:
		spec := goldenRecurringSpec()
		spec.ID, spec.Namespace, spec.Tenant = id(51), of.Namespace, of.Tenant
		r, _ := core.RecurringAction{}.Apply(core.RecurringCreate{Spec: spec}, core.Clock{Now: start})
		return r
	case core.KindOccurrence:
		o, _ := core.Occurrence{}.Apply(core.OccurrenceRecord{Occurrence: core.Occurrence{
			ID: id(52), RecurringID: id(51), Schedule: core.KindRecurring, Namespace: of.Namespace, Tenant: of.Tenant, DueAt: start, LastDueAt: start, Count: 1, Verdict: core.VerdictDispatched, ActionID: id(1), DecidedAt: start,
		}}, core.Clock{Now: start})
		return o
	case core.KindOrchestrator:
		spec := runSpec(jobOf(of), start)
		o, _ := core.Orchestrator{}.Apply(core.OrchestratorCreate{Spec: spec}, core.Clock{Now: start})
		return o
	}
	panic(kind)
}

func jobOf(of core.Scope) core.JobSpec {
	s := goldenJobSpec()
	s.Namespace, s.Tenant = of.Namespace, of.Tenant
	return s
}

func to(kind effects.Kind, n int, e core.Event) core.Input {
	return core.Input{To: effects.Ref{Kind: kind, ID: id(n)}, Event: e}
}

// myAction, myPipeline and so on are what the tenant mine makes.
func myAction(change func(*core.ActionSpec)) core.Input {
	s := core.ActionSpec{ID: id(1), Namespace: mine.Namespace, Tenant: mine.Tenant, ToolName: "x", Trigger: core.Scheduled(start)}
	change(&s)
	return to(core.KindAction, 1, core.ActionCreate{Spec: s})
}

func myPipeline(change func(*core.PipelineSpec)) core.Input {
	s := core.PipelineSpec{ID: id(2), Namespace: mine.Namespace, Tenant: mine.Tenant, Definition: onePhase("p")}
	change(&s)
	return to(core.KindPipeline, 2, core.PipelineCreate{Spec: s})
}

func myTask(change func(*core.TaskSpec)) core.Input {
	s := goldenTaskSpec()
	s.ID, s.Namespace, s.Tenant, s.PipelineID, s.Owner = id(3), mine.Namespace, mine.Tenant, uuid.Nil, core.Owner{}
	change(&s)
	return to(core.KindTask, 3, core.TaskCreate{Spec: s})
}

var (
	myQueue = core.QueueRef(mine.Namespace, mine.Tenant, "q")
	myLock  = core.LockRef(mine.Namespace, mine.Tenant, "l")
	mySem   = core.SemaphoreRef(mine.Namespace, mine.Tenant, "s")
	myItem  = core.QueuePush{Namespace: mine.Namespace, Tenant: mine.Tenant, Name: "q", Data: json.RawMessage(`1`)}
)

// reaches are the fields of events that name a machine to which the event leads.
var reaches = map[string]reach{
	"ActionSpec.owner": {core.KindPipeline, func(_ effects.Ref, o core.Owner) []core.Input {
		return []core.Input{myAction(func(s *core.ActionSpec) { s.Owner = o }), to(core.KindAction, 1, core.ActionCancel{Reason: "no"})}
	}},
	"ActionSpec.occurrence": {core.KindOccurrence, func(ref effects.Ref, _ core.Owner) []core.Input {
		return []core.Input{myAction(func(s *core.ActionSpec) { s.Occurrence = ref.ID }), to(core.KindAction, 1, core.ActionCancel{Reason: "no"})}
	}},
	"ActionSpec.metadata": {core.KindRecurring, func(ref effects.Ref, _ core.Owner) []core.Input {
		spec := core.ActionSpec{
			ID: id(1), Namespace: mine.Namespace, Tenant: mine.Tenant, ToolName: "x", Trigger: core.Scheduled(start), DedupKey: "k", Occurrence: id(9),
			Metadata: map[string]string{core.MetaRecurringID: ref.ID.String()},
		}
		again := spec
		again.ID = id(4)
		key := core.DedupRef(mine.Namespace, mine.Tenant, "k")
		return []core.Input{
			to(core.KindOccurrence, 9, core.OccurrenceRecord{Occurrence: core.Occurrence{
				ID: id(9), RecurringID: id(51), Schedule: core.KindRecurring, Namespace: mine.Namespace, Tenant: mine.Tenant, DueAt: start, LastDueAt: start, Count: 1, Verdict: core.VerdictDispatched, DecidedAt: start,
			}}),
			{To: key, Event: core.DedupClaim{Create: spec, Whole: true}}, {To: key, Event: core.DedupClaim{Create: again}},
		}
	}},
	"BackfillSpec.schedule": {core.KindRecurring, func(ref effects.Ref, _ core.Owner) []core.Input {
		s := backfillOf(2)
		s.Schedule, s.Namespace, s.Tenant = ref, mine.Namespace, mine.Tenant
		return []core.Input{to(core.KindBackfill, 7, core.BackfillCreate{Spec: s}), to(core.KindBackfill, 7, core.BackfillDue{})}
	}},
	"BackfillTime.owner": {core.KindPipeline, func(_ effects.Ref, o core.Owner) []core.Input {
		s := goldenRecurringSpec()
		s.Namespace, s.Tenant = mine.Namespace, mine.Tenant
		return []core.Input{to(core.KindRecurring, 3, core.RecurringCreate{Spec: s}), to(core.KindRecurring, 3, core.BackfillTime{At: start, Owner: o}), {}}
	}},
	"JobTrigger.owner": {core.KindPipeline, func(_ effects.Ref, o core.Owner) []core.Input {
		job := jobOf(mine)
		ref := core.JobRef(mine.Namespace, mine.Tenant, job.ID)
		return []core.Input{{To: ref, Event: core.JobApply{Spec: job}}, {To: ref, Event: core.JobTrigger{Owner: o, DedupKey: strings.Repeat("x", 1<<20)}}}
	}},
	"JobAdmit.run": {core.KindOrchestrator, func(ref effects.Ref, _ core.Owner) []core.Input {
		job := jobOf(mine)
		mine := core.JobRef(mine.Namespace, mine.Tenant, job.ID)
		return []core.Input{{To: mine, Event: core.JobApply{Spec: job}}, {To: mine, Event: core.JobAdmit{Run: ref.ID}}}
	}},
	"OrchestratorCreate.owner": {core.KindPipeline, func(_ effects.Ref, o core.Owner) []core.Input {
		spec := runSpec(jobOf(mine), start)
		create := core.Input{To: effects.Ref{Kind: core.KindOrchestrator, ID: spec.ID}, Event: core.OrchestratorCreate{Spec: spec, Owner: o}}
		return []core.Input{create, create} // the second one is refused
	}},
	"PipelineSpec.owner": {core.KindPipeline, func(_ effects.Ref, o core.Owner) []core.Input {
		return []core.Input{myPipeline(func(s *core.PipelineSpec) { s.Owner, s.Hold = o, true }), to(core.KindPipeline, 2, core.PipelineCancel{Reason: "no"})}
	}},
	"PipelineWatch.owner": {core.KindPipeline, func(_ effects.Ref, o core.Owner) []core.Input {
		return []core.Input{
			myPipeline(func(s *core.PipelineSpec) { s.Hold = true }),
			to(core.KindPipeline, 2, core.PipelineWatch{Owner: o, Namespace: mine.Namespace, Tenant: mine.Tenant}), to(core.KindPipeline, 2, core.PipelineCancel{Reason: "no"}),
		}
	}},
	"PipelineSpec.depends_on": {core.KindPipeline, func(ref effects.Ref, _ core.Owner) []core.Input {
		return []core.Input{myPipeline(func(s *core.PipelineSpec) { s.DependsOn = []uuid.UUID{ref.ID} }), to(core.KindPipeline, 2, core.PipelineDue{})}
	}},
	"SignalReaction.pipeline": {core.KindPipeline, func(ref effects.Ref, _ core.Owner) []core.Input {
		return []core.Input{
			{To: core.BusOf(mine.Namespace, mine.Tenant), Event: core.BusSubscribe{Namespace: mine.Namespace, Tenant: mine.Tenant, Subscriber: core.Subscription{Name: "s", Match: core.EventMatch{Category: "action"}, Do: core.Reaction{Signal: &core.SignalReaction{Pipeline: ref.ID, Name: "go"}}}}},
			myAction(func(*core.ActionSpec) {}), to(core.KindAction, 1, core.ActionCancel{Reason: "no"}),
		}
	}},
	"StrategySpec.owner": {core.KindPipeline, func(_ effects.Ref, o core.Owner) []core.Input {
		s := commandSpec()
		s.Namespace, s.Tenant, s.Owner = mine.Namespace, mine.Tenant, o
		return []core.Input{to(core.KindStrategy, 3, core.StrategyCreate{Spec: s}), to(core.KindStrategy, 3, core.StrategyCancel{Reason: "no"})}
	}},
	"TaskSpec.owner": {core.KindPipeline, func(_ effects.Ref, o core.Owner) []core.Input {
		return []core.Input{myTask(func(s *core.TaskSpec) { s.Owner = o }), to(core.KindTask, 3, core.TaskCancel{Reason: "no"})}
	}},
	"LockAcquire.owner": {core.KindPipeline, func(_ effects.Ref, o core.Owner) []core.Input {
		return []core.Input{{To: myLock, Event: core.LockAcquire{Name: "l", Namespace: mine.Namespace, Tenant: mine.Tenant, Holder: "h", Owner: o}}}
	}},
	"SemaphoreAcquire.owner": {core.KindPipeline, func(_ effects.Ref, o core.Owner) []core.Input {
		return []core.Input{{To: mySem, Event: core.SemaphoreAcquire{Name: "s", Namespace: mine.Namespace, Tenant: mine.Tenant, Holder: "h", Owner: o, Slots: 1, Total: 1}}}
	}},
	"QueuePush.owner": {core.KindPipeline, func(_ effects.Ref, o core.Owner) []core.Input {
		push := myItem
		push.Owner = o
		return []core.Input{{To: myQueue, Event: push}, {To: myQueue, Event: core.QueuePurge{}}}
	}},
	"QueuePush.ack": {core.KindPipeline, func(_ effects.Ref, o core.Owner) []core.Input {
		push := myItem
		push.Ack = o
		return []core.Input{{To: myQueue, Event: push}}
	}},
	"QueueTake.owner": {core.KindPipeline, func(_ effects.Ref, o core.Owner) []core.Input {
		return []core.Input{{To: myQueue, Event: myItem}, {To: myQueue, Event: core.QueueTake{Holder: "h", Max: 1, VisibilityMS: 1000, Owner: o}}}
	}},
	"QueueMend.owner": {core.KindPipeline, func(_ effects.Ref, o core.Owner) []core.Input {
		return []core.Input{{To: myQueue, Event: myItem}, {To: myQueue, Event: core.QueueMend{Kind: core.KindQueueItem, ID: id(8), Owner: o}}}
	}},
}

// leadNowhere are the fields that have an id and lead to no machine that the receiver does not know by itself, and why.
var leadNowhere = map[string]string{
	"ActionSpec.id": "its own", "BackfillSpec.id": "its own", "PipelineSpec.id": "its own", "RecurringSpec.id": "its own", "RunSpec.id": "its own",
	"StrategySpec.id": "its own", "TaskSpec.id": "its own", "Occurrence.id": "its own",
	// A checkpoint is asked for as a subscriber of the program asks for one.
	"TaskSpec.pipeline_id": "see [TestWhatASubscriberOfTheProgramGivesStaysInTheTenantOfTheEvent]", "StrategySpec.pipeline_id": "handed on to its tasks",
	"QueueCancelItem.item": "an item of the queue", "QueueComplete.item": "an item of the queue", "QueueExtend.item": "an item of the queue", "QueueFail.item": "an item of the queue",
	"QueueRedrive.item": "an item of the queue", "QueueRelease.item": "an item of the queue", "QueueItem.id": "an item of the queue", "QueueItem.queue": "the queue's own", "QueueItem.owner": "an item that another queue gave up has none",
	"QueueMend.id": "a record of the queue", "QueueMend.key": "a record of the queue", "QueueMend.dedup": "a record of the queue", "QueueOrigin.item": "told", "QueuePushed.item": "told",
	"ChildEnded.child": "compared with what it waits for", "DedupRelease.holder": "compared with who holds it", "OccurrenceDeduplicate.holder": "told",
	"LockRelease.owner": "compared with who holds it", "LockRenew.owner": "compared with who holds it", "SemaphoreRelease.owner": "compared with who holds it", "SemaphoreRenew.owner": "compared with who holds it",
	"Occurrence.action_id": "told", "Occurrence.backfill": "told", "Occurrence.recurring_id": "told", "OccurrenceDecide.action_id": "told", "OrchestratorAdmit.occurrence": "its entry in the history, told", "RunSpec.backfill": "told",
	"JobKill.except": "a run of the job", "JobRunBegan.run": "a run of the job", "JobRunEnded.run": "a run of the job", "RecurringCancelWaiting.occurrence": "an entry of the schedule",
	"AlertWatch.schedule": "told", "AlertNews.child": "told", "AlertView.runs": "told", "DigestTell.schedule": "told",
	"EventMatch.source_id": "compared with the source of an event", "EventSource.id": "told", "BusHeartbeat.instance": "told",
	"SchedulerForget.run": "a scheduler serves all tenants", "SchedulerHeartbeats.except": "a scheduler serves all tenants", "SchedulerHeartbeats.runs": "a scheduler serves all tenants",
	"SchedulerHeartbeats.unseen": "a scheduler serves all tenants", "SchedulerTrack.run": "a scheduler serves all tenants",
}

// naming lists the fields within a type that name a machine by its id, as "Type.field".
func naming(typ reflect.Type, seen map[reflect.Type]bool, found map[string]bool) {
	for typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice || typ.Kind() == reflect.Map {
		typ = typ.Elem()
	}
	if typ.Kind() != reflect.Struct || seen[typ] {
		return
	}
	seen[typ] = true
	for f := range typ.Fields() {
		inner := f.Type
		for inner.Kind() == reflect.Pointer || inner.Kind() == reflect.Slice || inner.Kind() == reflect.Map {
			inner = inner.Elem()
		}
		switch tag, _, _ := strings.Cut(f.Tag.Get("json"), ","); inner {
		case reflect.TypeFor[uuid.UUID](), reflect.TypeFor[effects.Ref](), reflect.TypeFor[core.Owner]():
			found[typ.Name()+"."+tag] = true
		default:
			naming(inner, seen, found)
		}
	}
}

func TestEachFieldThatNamesAMachineIsKnown(t *testing.T) {
	found := map[string]bool{"ActionSpec.metadata": true} // which has the id of a schedule, as text
	for _, list := range goldenEvents() {                 // order-free: it fills a map
		for _, e := range list {
			naming(reflect.TypeOf(e), map[reflect.Type]bool{}, found)
		}
	}
	for field := range reaches { // order-free: each by itself
		assert.NotContains(t, leadNowhere, field)
	}
	assert.ElementsMatch(t, slices.Concat(slices.Sorted(maps.Keys(reaches)), slices.Sorted(maps.Keys(leadNowhere))), slices.Sorted(maps.Keys(found)),
		"say of each field which machine it names, and show here that it reaches the own tenant only")
}

// What becomes of the inputs where the machine that is named is of that tenant, or where there is none: all that is stored but
// the machine itself, and what was announced, asked for and answered.
type became struct {
	world   world
	named   string
	answers []core.Result
	events  []effects.Event
	outer   []core.OuterEffect
	reached bool // a word has come to the machine
}

// listening notes which machines a batch has looked for.
type listening struct {
	world
	asked map[effects.Ref]bool
}

func (l listening) Load(ref effects.Ref) (core.State, error) {
	l.asked[ref] = true
	return l.world.Load(ref)
}

func (r reach) to(t *testing.T, of *core.Scope, rules core.Rules) (b became) {
	t.Helper()
	b.world = world{}
	there := machineAt(r.kind, theirs) // or its id, if it is not there
	if of != nil {
		there = machineAt(r.kind, *of)
		b.world[there.Ref()] = encoded(there)
	}
	for n, in := range r.inputs(there.Ref(), core.Owner{Ref: there.Ref(), N: 7}) {
		if in.Event == nil { // the end of the action that was made
			for ref := range load[core.Action](b.world, core.KindAction) {
				in = core.Input{To: ref, Event: core.ActionCancel{Reason: "no"}}
			}
		}
		asked := map[effects.Ref]bool{}
		batch := core.NewBatch(listening{b.world, asked}, core.Clock{Now: start.Add(1), Rules: rules}, uint64(n)+1)
		res, err := batch.Apply(in)
		require.NoError(t, err)
		b.world.store(batch)
		b.reached = b.reached || asked[there.Ref()]
		b.answers, b.events, b.outer = append(b.answers, res), append(b.events, batch.Events()...), append(b.outer, batch.Outer()...)
	}
	b.named = b.world[there.Ref()]
	delete(b.world, there.Ref())
	return b
}

// Whoever names another tenant's machine meets what he would meet if there were none: he learns nothing of it, and it nothing of him.
func TestAFieldThatNamesAMachineReachesItsOwnTenantOnly(t *testing.T) {
	for _, field := range slices.Sorted(maps.Keys(reaches)) {
		t.Run(field, func(t *testing.T) {
			r := reaches[field]
			own, foreign, none := r.to(t, &mine, 0), r.to(t, &theirs, 0), r.to(t, nil, 0)
			assert.True(t, own.reached, "the machine of the own tenant is")
			assert.Equal(t, encoded(machineAt(r.kind, theirs)), foreign.named, "the other tenant's is as it was")
			foreign.named = none.named
			assert.Equal(t, none, foreign, "as if it were not there")
		})
	}
}

// By the rules of before a machine was reached wherever it was: a replay of what was decided then does it again.
func TestByEarlierRulesAFieldReachesAnyTenant(t *testing.T) {
	r := reaches["ActionSpec.owner"]
	foreign, none := r.to(t, &theirs, 13), r.to(t, nil, 13)
	assert.NotEqual(t, none.answers, foreign.answers)
}

// giver is a subscriber of the program that makes of each action's end what it was given.
type giver []effects.Effect

func (giver) Matches(e effects.Event) bool            { return e.Kind.String() == "action:cancelled" }
func (g giver) Handle(effects.Event) []effects.Effect { return g }

func TestWhatASubscriberOfTheProgramGivesStaysInTheTenantOfTheEvent(t *testing.T) {
	for _, of := range []core.Scope{mine, theirs} {
		there := machineAt(core.KindPipeline, of)
		action := core.ActionSpec{ID: id(70), Namespace: of.Namespace, Tenant: of.Tenant, ToolName: "x", Trigger: core.Scheduled(start)}
		for name, gives := range map[string]effects.Effect{
			"a checkpoint": effects.Checkpoint{Pipeline: there.Ref().ID, Message: "here"},
			"a signal":     effects.Send{To: there.Ref(), Event: core.PipelineSignal{Name: "go", Payload: json.RawMessage(`1`)}},
			"an action":    effects.Send{To: effects.Ref{Kind: core.KindAction, ID: id(70)}, Event: core.ActionCreate{Spec: action}},
			"a lock":       effects.AcquireLock{Namespace: of.Namespace, Tenant: of.Tenant, Name: "l", Holder: "h"},
			"an item":      effects.Send{To: core.QueueRef(of.Namespace, of.Tenant, "q"), Event: core.QueuePush{Namespace: of.Namespace, Tenant: of.Tenant, Name: "q", Data: json.RawMessage(`1`)}},
		} {
			t.Run(name+" of "+of.Tenant, func(t *testing.T) {
				bus, _ := core.Bus{}.Apply(core.BusRegister{Names: []string{"p"}}, core.Clock{Now: start})
				w := world{there.Ref(): encoded(there), bus.Ref(): encoded(bus)}
				batch := core.NewBatch(w, core.Clock{Now: start}, 1)
				batch.Subscribers(map[string]core.Subscriber{"p": giver{gives}})
				_, err := batch.Apply(myAction(func(*core.ActionSpec) {}))
				require.NoError(t, err)
				before := len(batch.Changes())
				res, err := batch.Apply(to(core.KindAction, 1, core.ActionCancel{Reason: "no"}))
				require.NoError(t, err)
				require.True(t, res.Changed)
				if of == mine {
					assert.Greater(t, len(batch.Changes()), before, "the action and what it leads to")
					return
				}
				assert.Len(t, batch.Changes(), before, "the action alone")
				if res.Refused == nil || res.Refused.Code != effects.CodeNotFound { // it says where it would be
					last := batch.Events()[len(batch.Events())-1]
					assert.Equal(t, effects.KindEscalate, last.Kind)
					assert.Contains(t, string(last.Data), `is not of namespace \"n\" and tenant \"mine\": what begins within a tenant stays there`)
				}
			})
		}
	}
}

// A subscriber hears the events of the tenant in which it acts, and those that are of none; one that tells people hears all.
func TestASubscriberHearsTheTenantInWhichItActs(t *testing.T) {
	pushes := func(rules core.Rules, namespace, tenant string) core.Input {
		subscriber := core.Subscription{Name: "s", Match: core.EventMatch{Category: "deploy"}, Do: core.Reaction{
			Push: &core.PushReaction{MachineName: core.MachineName{Namespace: namespace, Tenant: tenant, Name: "q"}},
		}}
		if rules != 0 { // when there was one bus for all
			subscriber.Name += tenant
			return core.Input{To: core.BusRef(), Event: core.BusSubscribe{Subscriber: subscriber}}
		}
		return core.Input{To: core.BusOf(namespace, tenant), Event: core.BusSubscribe{Namespace: namespace, Tenant: tenant, Subscriber: subscriber}}
	}
	for _, row := range []struct {
		name              string
		namespace, tenant string // of the event
		rules             core.Rules
		want              []string // the tenants whose queue has it
	}{
		{"of one", "n", "mine", 0, []string{"mine", "notify"}},
		{"of another one", "n", "theirs", 0, []string{"theirs", "notify"}},
		{"of one without subscribers", "n", "nobody", 0, []string{"notify"}},
		{"of none", "", "", 0, []string{"mine", "theirs", "notify"}},
		{"of one, when there was one bus", "n", "mine", 14, []string{"mine", "notify"}},
		{"of none, when there was one bus", "", "", 14, []string{"mine", "theirs", "notify"}},
		{"by earlier rules all hear it", "n", "mine", 13, []string{"mine", "theirs", "notify"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			batch := core.NewBatch(world{}, core.Clock{Now: start, Rules: row.rules}, 1)
			for _, in := range []core.Input{
				pushes(row.rules, "n", "mine"), pushes(row.rules, "n", "theirs"), pushes(row.rules, core.NotifyNamespace, core.NotifyTenant),
				{To: core.BusRef(), Event: core.BusPublish{Namespace: row.namespace, Tenant: row.tenant, Kind: effects.Custom("deploy", "done"), Source: effects.EventSource{Component: "ci"}}},
			} {
				res, err := batch.Apply(in)
				require.NoError(t, err)
				require.Nil(t, res.Refused)
			}
			var got []string
			for _, c := range batch.Changes() {
				if q, ok := c.After.(core.Queue); ok {
					got = append(got, q.Tenant)
				}
			}
			assert.ElementsMatch(t, row.want, got)
		})
	}
}
