package core_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

// configured gives a batch's world with a worker whose take is under way.
func configured(t *testing.T, do core.WorkerDo) (world, effects.Ref, *uint64) {
	t.Helper()
	w, seq := world{}, new(uint64)
	ref := core.WorkerRef("", "", "merge")
	spec := core.WorkerSpec{Name: "merge", Queue: "merges", Do: do}
	s, effs := core.Worker{}.Apply(core.WorkerConfigure{Spec: spec}, core.Clock{Now: start})
	require.Nil(t, refusal(effs))
	require.Equal(t, ref, s.Ref())
	w[ref] = encoded(s)
	return w, ref, seq
}

func item(data string) core.QueueItem {
	return core.QueueItem{ID: id(5), Data: json.RawMessage(data), Attempts: 1}
}

func TestAnItemWhoseJobCannotBeMadeFailsAndFreesItsPlace(t *testing.T) {
	def := core.PipelineDef{Name: "p", Phases: []core.PhaseDef{{Name: "look", Manual: &core.ManualPhase{}}}}
	w, ref, seq := configured(t, core.WorkerDo{Pipeline: &def})
	big := `"` + strings.Repeat("x", core.DefaultContextLimit) + `"` // no context has room for it
	w.send(t, ref, core.QueueTaken{N: 1, Items: []core.QueueItem{item(big)}}, start, seq)
	s, err := w.Load(ref)
	require.NoError(t, err)
	worker := s.(core.Worker)
	assert.Empty(t, worker.Running)
	assert.Equal(t, uint64(1), worker.Failed)
	assert.Equal(t, start.Add(100*time.Millisecond), worker.Deadline(), "it takes the next one a little later, in another transition")
	assert.Len(t, w, 1, "no pipeline was made")
}

func TestAJobRunsToItsEndThroughBatches(t *testing.T) {
	def := core.PipelineDef{Name: "p", Phases: []core.PhaseDef{{Name: "look", Manual: &core.ManualPhase{Instructions: "at ${item.data.branch}"}}}, Result: "look"}
	w, ref, seq := configured(t, core.WorkerDo{Pipeline: &def})
	w.send(t, ref, core.QueueTaken{N: 1, Items: []core.QueueItem{item(`{"branch":"b"}`)}}, start, seq)
	w.fire(t, start, seq)
	require.Len(t, w.machines(), 2)
	for _, other := range w.refs() {
		if other.Kind != core.KindPipeline {
			continue
		}
		s, err := w.Load(other)
		require.NoError(t, err)
		assert.Equal(t, "at b", s.(core.Pipeline).Waiting.Name)
		w.send(t, other, core.PhaseComplete{Phase: "look", Result: json.RawMessage(`{"ok":true}`)}, start, seq)
	}
	s, err := w.Load(ref)
	require.NoError(t, err)
	assert.Empty(t, s.(core.Worker).Running)
	assert.Equal(t, uint64(1), s.(core.Worker).Completed)
}

func TestATakeThatIsNeverAnsweredIsAskedAgain(t *testing.T) {
	s := kitOf(core.KindWorker).made().(core.Worker)
	require.NotZero(t, s.Taking)
	again, effs := s.Apply(core.WorkerDue{}, core.Clock{Now: s.Deadline()})
	require.Nil(t, refusal(effs))
	assert.Greater(t, again.Taking, s.Taking)
	assert.Greater(t, again.Deadline(), s.Deadline())
	_, effs = again.Apply(core.QueueTaken{N: s.Taking}, core.Clock{Now: start})
	assert.NotNil(t, refusal(effs), "the answer to the first one comes too late")
}

func TestWhoWaitsForAnActionThatCannotBeMadeIsTold(t *testing.T) {
	w, ref, seq := configured(t, core.WorkerDo{Run: &core.ToolRun{Tool: "command"}})
	w.send(t, ref, core.QueueTaken{N: 1, Items: []core.QueueItem{item(`1`)}}, start, seq)
	s, err := w.Load(ref)
	require.NoError(t, err)
	job := s.(core.Worker).Running[0]
	// Its action is made once more, as no machine does: the id exists.
	w.send(t, job.Child, core.ActionCreate{Spec: core.ActionSpec{ID: job.Child.ID, Owner: core.Owner{Ref: ref, N: job.N}}}, start, seq)
	s, err = w.Load(ref)
	require.NoError(t, err)
	assert.Empty(t, s.(core.Worker).Running)
	assert.Equal(t, uint64(1), s.(core.Worker).Failed)
}

func TestAWorkerHasANameUnderWhichItCanHoldItems(t *testing.T) {
	spec := workerSpec()
	spec.Name = strings.Repeat("n", core.MaxNameBytes-len("worker:"))
	w := world{}
	ref, seq := core.WorkerRef("", "", spec.Name), new(uint64)
	queue := core.QueueRef("", "", spec.Queue)
	w.send(t, queue, core.QueuePush{Name: spec.Queue, Data: json.RawMessage(`{"branch":"b"}`)}, start, seq)
	w.send(t, ref, core.WorkerConfigure{Spec: spec}, start, seq)
	s, err := w.Load(ref)
	require.NoError(t, err)
	assert.Len(t, s.(core.Worker).Running, 1, "the queue takes the longest name for a holder")

	spec.Name += "n"
	_, effs := core.Worker{}.Apply(core.WorkerConfigure{Spec: spec}, core.Clock{Now: start})
	require.NotNil(t, refusal(effs))
	assert.Equal(t, "name: 249 bytes are longer than the 248 that a worker's may have", refusal(effs).Reason)
}

func TestAResultThatIsTooLargeForTheQueueDoesNotLeaveTheItemInFlight(t *testing.T) {
	for size, keeps := range map[int]bool{core.MaxInputBytes: true, core.MaxInputBytes + 1: false} {
		w, seq := world{}, new(uint64)
		ref, queue := core.WorkerRef("", "", "merge"), core.QueueRef("", "", "merges")
		w.send(t, queue, core.QueueCreate{Name: "merges", Config: core.QueueConfig{KeepCompletedMS: 1000}}, start, seq)
		w.send(t, queue, core.QueuePush{Name: "merges", Data: json.RawMessage(`{"branch":"b"}`)}, start, seq)
		w.send(t, ref, core.WorkerConfigure{Spec: workerSpec()}, start, seq)
		s, err := w.Load(ref)
		require.NoError(t, err)
		job := s.(core.Worker).Running[0]
		result := json.RawMessage(`"` + strings.Repeat("x", size-2) + `"`)
		res := w.send(t, ref, core.ChildEnded{Child: job.Child, N: job.N, Outcome: core.ChildSucceeded, Result: result}, start, seq)
		assert.Nil(t, res.Refused)
		s, err = w.Load(effects.Ref{Kind: core.KindQueueItem, ID: job.Item})
		require.NoError(t, err)
		assert.Equal(t, core.ItemCompleted, s.(core.QueueItem).State.Type)
		assert.Equal(t, keeps, len(s.(core.QueueItem).State.Result) > 0)
	}
}

func TestAWorkerLooksAgainSoonWhereSomeOfItsItemsFailAtOnce(t *testing.T) {
	s := kitOf(core.KindWorker).made().(core.Worker)
	bad := item(`{}`) // it has no branch
	bad.ID = id(6)
	next, effs := s.Apply(core.QueueTaken{N: s.Taking, Items: []core.QueueItem{item(`{"branch":"b"}`), bad}}, core.Clock{Now: start})
	require.Nil(t, refusal(effs))
	assert.Len(t, next.Running, 1)
	assert.Equal(t, start.Add(100*time.Millisecond), next.Deadline(), "one place is free, and more items may be there")
}

// A thousand items come back, and each push calls for many workers: more wakes than
// one input may cause.
func TestAWorkerIsWokenOnceForAllItemsThatComeAtOnce(t *testing.T) {
	const workers = 12
	w, seq, clock := world{}, new(uint64), core.Clock{Now: start}
	dead, queue := core.QueueRef("", "", "dead"), core.QueueRef("", "", "merges")
	for n := range core.MaxQueueBatch {
		i := core.QueueItem{ID: id(n), Data: json.RawMessage(`{"branch":"b"}`), Origin: &core.QueueOrigin{Name: "merges", To: "dead"}}
		*seq++
		batch := core.NewBatch(w, clock, *seq)
		_, err := batch.Apply(core.Input{To: dead, Event: core.QueueDeadLetter{Item: i}})
		require.NoError(t, err)
		w.store(batch)
	}
	for n := range workers {
		spec := workerSpec()
		spec.Name = string(rune('a' + n))
		sub := core.WorkerWakeSubscriber{Match: core.EventMatch{Category: "queue", SourceID: queue.ID}, Worker: core.MachineName{Name: spec.Name}}
		w.send(t, core.BusRef(), core.BusSubscribe{Subscriber: sub.Subscription(spec.Name)}, start, seq)
		w.send(t, core.WorkerRef("", "", spec.Name), core.WorkerConfigure{Spec: spec}, start, seq)
	}
	w.send(t, dead, core.QueueRedrive{}, start, seq)
	for n := range workers {
		s, err := w.Load(core.WorkerRef("", "", string(rune('a'+n))))
		require.NoError(t, err)
		assert.Len(t, s.(core.Worker).Running, 2, "each has taken what it has places for")
	}
}

func TestAnItemWhoseJobIsRefusedGetsNoFurtherAttempt(t *testing.T) {
	s := kitOf(core.KindWorker).made().(core.Worker)
	s, _ = s.Apply(core.QueueTaken{N: s.Taking, Items: []core.QueueItem{item(`{"branch":"b"}`)}}, core.Clock{Now: start})
	for outcome, permanent := range map[core.ChildOutcome]bool{core.ChildRefused: true, core.ChildFailed: false, core.ChildCancelled: false} {
		_, effs := s.Apply(core.ChildEnded{N: s.Running[0].N, Outcome: outcome, Reason: "no"}, core.Clock{Now: start})
		fails := sends[core.QueueFail](step{effs: effs})
		require.Len(t, fails, 1)
		assert.Equal(t, permanent, fails[0].Permanent, outcome)
	}
}
