package core_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	_ "github.com/orrery-go/orrery/effects/seedtest"
)

// room is how many more machines of each kind the tenant of the tests may have; those of
// a kind that is not in it are not bound.
type room map[effects.Kind]int64

func (r room) allowed(of core.Scope, kind effects.Kind) core.Allowance {
	n, bound := r[kind]
	if !bound || of != ours {
		return core.Allowance{}
	}
	return core.Allowance{Left: n, Most: 7, What: "machines (max)"}
}

var ours = core.Scope{Namespace: "n", Tenant: "t"}

const reasonFull = "the tenant has as many as its limit allows: 7 machines (max)"

// bounded applies inputs to a world in one batch whose machines are bound, and holds that
// what the journal has of it makes the same batch.
func (w world) bounded(t tb, r room, now core.Time, seq *uint64, inputs ...core.Input) (core.Result, []effects.Event) {
	*seq++
	clock := core.Clock{Now: now}
	batch, entry := core.NewBatch(w, clock, *seq), core.NewEntry(*seq, now, "test")
	batch.Bound(r.allowed)
	var last core.Result
	for _, in := range inputs {
		res, err := batch.Apply(in)
		require.NoError(t, err)
		if in.Full = res.Full; res.Changed {
			entry.Inputs = append(entry.Inputs, in)
		}
		last = res
	}
	decoded, err := core.DecodeEntry(entry.AppendJSON(nil))
	require.NoError(t, err)
	again := core.NewBatch(w, clock, *seq)
	for _, in := range decoded.Inputs {
		_, err := again.Apply(in)
		require.NoError(t, err)
	}
	require.Equal(t, changesText(batch), changesText(again), "the replay differs")
	require.Equal(t, batch.Events(), again.Events())
	w.store(batch)
	return last, batch.Events()
}

func changesText(b *core.Batch) (out []string) {
	for _, c := range b.Changes() {
		after := "gone"
		if c.After != nil {
			after = encoded(c.After)
		}
		out = append(out, c.Ref.String()+" "+after)
	}
	return out
}

func dueInput(ref effects.Ref) core.Input {
	return core.Input{To: ref, Actor: "clock", Event: core.DueEvent(ref.Kind)}
}

// made puts a machine into the world, from outside.
func (w world) made(t tb, seq *uint64, to effects.Ref, e core.Event) effects.Ref {
	res, _ := w.bounded(t, nil, start, seq, core.Input{To: to, Event: e})
	require.True(t, res.Changed, "%v", res.Refused)
	return to
}

func named(events []effects.Event) (out []string) {
	for _, e := range events {
		out = append(out, e.Kind.String())
	}
	return out
}

// occurrences gives the verdicts that a world has, with their reasons.
func occurrences(w world) (out []string) {
	for _, ref := range w.refs() {
		if ref.Kind == core.KindOccurrence {
			s, _ := w.Load(ref)
			o := s.(core.Occurrence)
			out = append(out, fmt.Sprintf("%s x%d %s", o.Verdict, o.Count, o.Reason))
		}
	}
	return out
}

func everyMinute(dedup string) core.RecurringSpec {
	return core.RecurringSpec{
		ID: id(1), Namespace: "n", Tenant: "t", CronExpr: "* * * * *", Timezone: "UTC", Enabled: true,
		ActionTemplate: core.RecurringActionTemplate{Provider: "command", ActionType: "x", Payload: json.RawMessage("{}"), DedupKey: dedup},
	}
}

func TestATimeOfARecurringActionWhoseTenantIsFullIsSkippedAndTheNextOneComes(t *testing.T) {
	for _, dedup := range []string{"", "k"} {
		w, seq := world{}, new(uint64)
		ref := w.made(t, seq, effects.Ref{Kind: core.KindRecurring, ID: id(1)}, core.RecurringCreate{Spec: everyMinute(dedup)})
		state := func() core.RecurringAction { return load[core.RecurringAction](w, core.KindRecurring)[ref] }
		at := state().Deadline()
		res, events := w.bounded(t, room{core.KindAction: 0}, at, seq, dueInput(ref))
		assert.True(t, res.Changed)
		assert.Equal(t, effects.CodeLimited, res.Refused.Code)
		assert.Equal(t, []core.Full{{Namespace: "n", Tenant: "t", Kind: core.KindAction, Reason: reasonFull, Refused: 1}}, res.Full)
		assert.Equal(t, []string{"skipped x1 limit: " + reasonFull}, occurrences(w))
		assert.Equal(t, []string{"recurring:skipped"}, named(events))
		assert.Equal(t, at.Add(time.Minute), state().Deadline(), "it is not due for ever")
		assert.Zero(t, state().ExecutionCount)
		assert.Empty(t, load[core.Dedup](w, core.KindDedup), "no key is held")

		res, _ = w.bounded(t, room{core.KindAction: 1}, state().Deadline(), seq, dueInput(ref))
		assert.Nil(t, res.Refused)
		assert.Empty(t, res.Full)
		assert.Len(t, load[core.Action](w, core.KindAction), 1)
	}
}

func TestARunByHandOfAFullTenantIsRefusedAsAWhole(t *testing.T) {
	w, seq := world{}, new(uint64)
	recurring := w.made(t, seq, effects.Ref{Kind: core.KindRecurring, ID: id(1)}, core.RecurringCreate{Spec: everyMinute("")})
	spec := byHand()
	spec.Namespace, spec.Tenant = "n", "t"
	job := w.made(t, seq, core.JobRef("n", "t", spec.ID), core.JobApply{Spec: spec})
	full := room{core.KindAction: 0, core.KindOrchestrator: 0}
	before := fmt.Sprint(w)
	for ref, e := range map[effects.Ref]core.Event{recurring: core.RecurringTrigger{}, job: core.JobTrigger{DedupKey: "k"}} {
		res, events := w.bounded(t, full, start, seq, core.Input{To: ref, Event: e})
		assert.False(t, res.Changed)
		require.NotNil(t, res.Refused)
		assert.Equal(t, effects.CodeLimited, res.Refused.Code)
		assert.Equal(t, reasonFull, res.Refused.Reason)
		assert.Empty(t, events)
		assert.Equal(t, before, fmt.Sprint(w))
	}
	res, _ := w.bounded(t, nil, start, seq, core.Input{To: job, Event: core.JobTrigger{DedupKey: "k"}})
	assert.False(t, res.Answer.(core.JobTriggered).Duplicate, "its dedup key has made nothing")
}

func TestATimeOfAJobWhoseTenantIsFullIsSkippedAndTheNextOneComes(t *testing.T) {
	w, seq := world{}, new(uint64)
	spec := byHand()
	spec.Namespace, spec.Tenant, spec.Schedule = "n", "t", "* * * * *"
	ref := w.made(t, seq, core.JobRef("n", "t", spec.ID), core.JobApply{Spec: spec})
	state := func() core.Job { return load[core.Job](w, core.KindJob)[ref] }
	next, at := state().NextRunAt, max(state().Deadline(), start)
	res, events := w.bounded(t, room{core.KindOrchestrator: 0}, at, seq, dueInput(ref))
	assert.True(t, res.Changed)
	assert.Equal(t, []string{"skipped x1 " + reasonFull}, occurrences(w))
	assert.Equal(t, []string{"job:run_refused", "job:skipped"}, named(events))
	assert.Empty(t, state().Active)
	assert.Equal(t, uint64(1), state().Counts.Skipped)
	assert.Equal(t, next.Add(time.Minute), state().NextRunAt)
	assert.Empty(t, load[core.Orchestrator](w, core.KindOrchestrator))
}

// A machine that makes a run by a trigger is no caller whose word could be refused.
func TestARunThatAMachineTriggersOfAFullTenantGetsAVerdict(t *testing.T) {
	w, seq := world{}, new(uint64)
	spec := byHand()
	spec.Namespace, spec.Tenant = "n", "t"
	ref := w.made(t, seq, core.JobRef("n", "t", spec.ID), core.JobApply{Spec: spec})
	j := load[core.Job](w, core.KindJob)[ref]
	j, effs := j.Apply(core.JobTrigger{DedupKey: "k"}, core.Clock{Now: start})
	require.Nil(t, refusal(effs))
	require.Len(t, j.Triggers, 1)
	j, effs = j.Apply(core.ChildEnded{Child: effects.Ref{Kind: core.KindOrchestrator, ID: j.Active[0].Run}, Outcome: core.ChildRefused, Reason: reasonFull, Limited: true}, core.Clock{Now: start})
	require.Nil(t, refusal(effs))
	assert.Empty(t, j.Active)
	assert.Empty(t, j.Triggers, "its key has made no run")
	assert.Equal(t, uint64(1), j.Counts.Skipped)
}

func TestAPhaseWhoseChildIsBeyondALimitFailsOrIsTriedAgain(t *testing.T) {
	every := everyPhase().Phases
	for name, c := range map[string]struct {
		phase core.PhaseDef
		kind  effects.Kind
	}{
		"action": {every[0], core.KindAction}, "task": {every[1], core.KindTask}, "strategy": {every[2], core.KindStrategy},
		"pipelines": {every[7], core.KindPipeline},
	} {
		t.Run(name, func(t *testing.T) {
			c.phase.Retry = core.Retry{MaxAttempts: 2, BackoffMS: 1000}
			def := core.PipelineDef{Name: "p", Inputs: []core.InputDef{{Name: "target", Default: json.RawMessage(`"all"`)}}, Phases: []core.PhaseDef{c.phase}}
			w, seq := world{}, new(uint64)
			ref := w.made(t, seq, pipelineRef(1), core.PipelineCreate{Spec: core.PipelineSpec{ID: id(1), Namespace: "n", Tenant: "t", Definition: def}})
			full := room{c.kind: 0}
			state := func() core.Pipeline { return load[core.Pipeline](w, core.KindPipeline)[ref] }
			res, _ := w.bounded(t, full, start, seq, dueInput(ref))
			require.True(t, res.Changed)
			assert.Equal(t, c.kind, res.Full[0].Kind)
			require.Equal(t, core.PhaseRunning, state().Phase.Type, "it waits for its next attempt")
			at := state().Deadline()
			assert.Greater(t, at, start)
			w.bounded(t, full, at, seq, dueInput(ref))
			p := state()
			assert.Equal(t, core.PhaseFailure, p.Phase.Type)
			assert.Contains(t, encoded(p), string(c.kind)+" refused: "+reasonFull)
		})
	}
}

func TestPipelinesForWhichNobodyWaitsAreAnnouncedIfALimitRefusesThem(t *testing.T) {
	start2 := everyPhase().Phases[7]
	start2.Pipelines = &core.PipelinesPhase{Start: start2.Pipelines.Start}
	w, seq := world{}, new(uint64)
	ref := w.made(t, seq, pipelineRef(1), core.PipelineCreate{Spec: core.PipelineSpec{
		ID: id(1), Namespace: "n", Tenant: "t", Definition: core.PipelineDef{Name: "p", Phases: []core.PhaseDef{start2}},
	}})
	res, events := w.bounded(t, room{core.KindPipeline: 1}, start, seq, dueInput(ref))
	require.True(t, res.Changed)
	assert.Equal(t, int64(1), res.Full[0].Room)
	assert.Len(t, load[core.Pipeline](w, core.KindPipeline), 2, "one of two")
	require.Contains(t, named(events), "pipeline:refused")
	for _, e := range events {
		if e.Kind.Action == "refused" {
			assert.JSONEq(t, fmt.Sprintf(`{"reason":%q,"by":"pipeline:%s"}`, reasonFull, id(1)), string(e.Data))
		}
	}
}

func TestAPipelineThatASubscriberWouldStartBeyondALimitIsAnnouncedAndFeedsNoSubscriber(t *testing.T) {
	w, seq := world{}, new(uint64)
	for name, match := range map[string]core.EventMatch{"first": {Category: "deploy"}, "again": {Category: "pipeline", Action: "refused"}} {
		w.made(t, seq, core.BusOf("n", "t"), core.BusSubscribe{Namespace: "n", Tenant: "t", Subscriber: core.Subscription{
			Name: name, Match: match,
			Do: core.Reaction{StartPipeline: &core.PipelineReaction{Namespace: "n", Tenant: "t", Definition: manualDef()}},
		}})
	}
	res, events := w.bounded(t, room{core.KindPipeline: 0}, start, seq, core.Input{To: core.BusRef(), Event: core.BusPublish{Kind: effects.Custom("deploy", "done"), Source: effects.EventSource{Component: "c"}}})
	assert.True(t, res.Changed)
	assert.Equal(t, []string{"deploy:done", "pipeline:refused"}, named(events))
	assert.Empty(t, load[core.Pipeline](w, core.KindPipeline))
}

func TestAnItemWhoseChildIsBeyondALimitGoesBackAndIsTakenLater(t *testing.T) {
	w, seq := world{}, new(uint64)
	spec := workerSpec()
	spec.Namespace, spec.Tenant = "n", "t"
	queue, ref := core.QueueRef("n", "t", spec.Queue), core.WorkerRef("n", "t", spec.Name)
	w.made(t, seq, core.BusOf("n", "t"), core.BusSubscribe{Namespace: "n", Tenant: "t", Subscriber: core.WorkerWakeSubscriber{
		Match: core.EventMatch{Category: "queue"}, Worker: core.MachineName{Namespace: "n", Tenant: "t", Name: spec.Name},
	}.Subscription("wake")})
	push := core.QueuePush{Namespace: "n", Tenant: "t", Name: spec.Queue, Data: json.RawMessage(`{"branch":"b"}`)}
	w.made(t, seq, queue, push)
	w.made(t, seq, queue, push)
	full, left := room{core.KindAction: 0}, room{core.KindAction: 1}
	_, events := w.bounded(t, full, start, seq, core.Input{To: ref, Event: core.WorkerConfigure{Spec: spec}})
	assert.NotContains(t, named(events), "system:escalate", "what goes back wakes nobody in a circle")
	worker := func() core.Worker { return load[core.Worker](w, core.KindWorker)[ref] }
	pending := func() (n int) {
		for _, i := range load[core.QueueItem](w, core.KindQueueItem) {
			if i.State.Type == core.ItemPending {
				assert.Zero(t, i.Attempts, "the attempt does not count")
				n++
			}
		}
		return n
	}
	assert.Equal(t, 2, pending())
	assert.Empty(t, worker().Running)
	assert.Zero(t, worker().Failed)
	assert.Equal(t, start.Add(5*time.Second), worker().Deadline())

	w.bounded(t, left, start.Add(time.Second), seq, core.Input{To: ref, Event: core.WorkerWake{}})
	assert.Empty(t, worker().Running, "it is held")
	w.bounded(t, left, start.Add(5*time.Second), seq, dueInput(ref))
	assert.Len(t, worker().Running, 1, "as far as the limit goes")
	assert.Equal(t, 1, pending())
	w.bounded(t, left, start.Add(-time.Hour), seq, core.Input{To: queue, Event: push})
	assert.Len(t, worker().Running, 2, "a clock that goes back holds it no longer")
}

func TestWorkersOfAFullTenantDoNotHandAnItemRoundAmongThemselves(t *testing.T) {
	w, seq := world{}, new(uint64)
	const workers = 2 * core.MaxRoutings
	for i := range workers {
		spec := workerSpec()
		spec.Namespace, spec.Tenant, spec.Name = "n", "t", fmt.Sprintf("w%d", i)
		w.made(t, seq, core.BusOf("n", "t"), core.BusSubscribe{Namespace: "n", Tenant: "t", Subscriber: core.WorkerWakeSubscriber{
			Match: core.EventMatch{Category: "queue"}, Worker: core.MachineName{Namespace: "n", Tenant: "t", Name: spec.Name},
		}.Subscription("wake" + spec.Name)})
		w.made(t, seq, core.WorkerRef("n", "t", spec.Name), core.WorkerConfigure{Spec: spec})
	}
	queue := workerSpec().Queue
	_, events := w.bounded(t, room{core.KindAction: 0}, start, seq, core.Input{
		To: core.QueueRef("n", "t", queue), Event: core.QueuePush{Namespace: "n", Tenant: "t", Name: queue, Data: json.RawMessage(`{"branch":"b"}`)},
	})
	assert.NotContains(t, named(events), "system:escalate")
	taken := map[effects.Ref]bool{}
	for at := start; len(taken) < workers; at = at.Add(250 * time.Millisecond) {
		require.Less(t, at, start.Add(workers*250*time.Millisecond), "each worker has its turn")
		if at > start {
			_, events = w.bounded(t, room{core.KindAction: 0}, at, seq, dueInput(core.QueueRef("n", "t", queue)))
			assert.NotContains(t, named(events), "system:escalate")
		}
		for ref, worker := range load[core.Worker](w, core.KindWorker) {
			if worker.HeldUntil == at.Add(5*time.Second) {
				taken[ref] = true
			}
		}
	}
}

func TestWhatComesFromOutsideIsCountedAndNotRefused(t *testing.T) {
	w, seq := world{}, new(uint64)
	recurring := w.made(t, seq, effects.Ref{Kind: core.KindRecurring, ID: id(1)}, core.RecurringCreate{Spec: everyMinute("")})
	at := load[core.RecurringAction](w, core.KindRecurring)[recurring].Deadline()
	spec := core.ActionSpec{ID: id(2), Namespace: "n", Tenant: "t", ToolName: "command", Trigger: core.Scheduled(at), DedupKey: "k"}
	claim := core.Input{To: core.DedupRef("n", "t", "k"), Event: core.DedupClaim{Create: spec}}
	res, _ := w.bounded(t, room{core.KindAction: 0}, at, seq, claim)
	assert.Nil(t, res.Refused, "its dedup key is no machine that makes it")
	spec.ID, spec.DedupKey = id(3), ""
	create := core.Input{To: effects.Ref{Kind: core.KindAction, ID: id(3)}, Event: core.ActionCreate{Spec: spec}}
	res, _ = w.bounded(t, room{core.KindAction: 1}, at, seq, create, dueInput(recurring))
	require.NotNil(t, res.Refused, "the batch has room for one, which is taken")
	assert.Len(t, load[core.Action](w, core.KindAction), 2)
	assert.Contains(t, string(core.Entry{Inputs: []core.Input{{To: recurring, Event: core.RecurringDue{}, Full: res.Full}}}.AppendJSON(nil)),
		`"full":[{"namespace":"n","tenant":"t","kind":"action","reason":"`+reasonFull+`"}],"event"`)
	assert.NotContains(t, string(core.Entry{Inputs: []core.Input{create}}.AppendJSON(nil)), `"full"`)
}

func TestWhateverMachinesMakeTheyPassNoLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, seq := world{}, new(uint64)
		var due []effects.Ref
		for n := range rapid.IntRange(1, 4).Draw(t, "recurring") {
			spec := everyMinute("")
			spec.ID = id(n + 1)
			due = append(due, w.made(t, seq, effects.Ref{Kind: core.KindRecurring, ID: spec.ID}, core.RecurringCreate{Spec: spec}))
		}
		for n := range rapid.IntRange(0, 3).Draw(t, "pipelines") {
			start2 := everyPhase().Phases[7]
			start2.Pipelines = &core.PipelinesPhase{Start: start2.Pipelines.Start, Wait: rapid.Bool().Draw(t, "wait")}
			phases := []core.PhaseDef{start2, {Name: "run", Run: &core.ToolRun{Tool: "command"}}}
			due = append(due, w.made(t, seq, pipelineRef(n+5), core.PipelineCreate{Spec: core.PipelineSpec{
				ID: id(n + 5), Namespace: "n", Tenant: "t", Definition: core.PipelineDef{Name: "p", Phases: phases},
			}}))
		}
		most := room{core.KindAction: rapid.Int64Range(0, 4).Draw(t, "actions"), core.KindPipeline: rapid.Int64Range(0, 6).Draw(t, "more pipelines")}
		pipelines := len(load[core.Pipeline](w, core.KindPipeline))
		var inputs []core.Input
		for range rapid.IntRange(1, 6).Draw(t, "inputs") {
			inputs = append(inputs, dueInput(rapid.SampledFrom(due).Draw(t, "due")))
		}
		w.bounded(t, most, start.Add(time.Minute), seq, inputs...)
		assert.LessOrEqual(t, int64(len(load[core.Action](w, core.KindAction))), most[core.KindAction])
		assert.LessOrEqual(t, int64(len(load[core.Pipeline](w, core.KindPipeline))-pipelines), most[core.KindPipeline])
	})
}
