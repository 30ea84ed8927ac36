package core

import (
	"encoding/json"

	"github.com/orrery-go/orrery/effects"
)

// Kinds of machines.
const (
	KindAction       effects.Kind = "action"
	KindRecurring    effects.Kind = "recurring"
	KindOccurrence   effects.Kind = "occurrence"
	KindDedup        effects.Kind = "dedup"
	KindPipeline     effects.Kind = "pipeline"
	KindQueue        effects.Kind = "queue"
	KindTask         effects.Kind = "task"
	KindStrategy     effects.Kind = "strategy"
	KindWorker       effects.Kind = "worker"
	KindLock         effects.Kind = "lock"
	KindSemaphore    effects.Kind = "semaphore"
	KindBus          effects.Kind = "bus"
	KindJob          effects.Kind = "job"
	KindOrchestrator effects.Kind = "orchestrator"
	KindScheduler    effects.Kind = "scheduler"
)

// Kinds of what a [Queue] keeps as records of their own. They take no events: the
// [Batch] writes them for their queue.
const (
	KindQueueItem  effects.Kind = "queue_item"
	KindQueueKey   effects.Kind = "queue_key"
	KindQueueDedup effects.Kind = "queue_dedup"
)

// kind is all that the batch, the codec and the shell need to know of a kind of
// machine. What is left out, a machine of that kind has not, or does not need.
type kind struct {
	name   effects.Kind
	zero   State // of a machine that does not exist
	decode func(b []byte) (State, error)
	events []eventType

	due       Event          // says that the deadline has come
	expire    Event          // ends the retention
	retention RetentionClass // of a kind that has expire

	outer     *outerEvents                       // of machines that ask for outer effects
	release   func(by Owner, token uint64) Event // gives back what a machine has granted
	passing   func(s State) bool                 // says of a state that it is read at most once more
	child     bool                               // its owner and watchers are told if its record is lost, see [LostTo]
	keepsLogs bool                               // see [KeepsLogs]
	paced     bool                               // see [Paced]
	scanned   bool                               // see [Scanned]
}

// kindTable is the one place that names all kinds. Retention walks it in this order.
var kindTable = []kind{ // read-only: a table
	{
		name: KindAction, zero: Action{}, decode: decodeStateAs[Action], events: actionEvents,
		due: ActionDue{}, expire: ActionExpire{}, outer: &runEvents, child: true,
	},
	{
		name: KindOccurrence, zero: Occurrence{}, decode: decodeStateAs[Occurrence], events: occurrenceEvents,
		expire: OccurrenceExpire{}, retention: RetainHistory, passing: always,
	},
	{
		name: KindPipeline, zero: Pipeline{}, decode: decodeStateAs[Pipeline], events: pipelineEvents,
		due: PipelineDue{}, expire: PipelineExpire{}, outer: &effectEvents, child: true,
	},
	{
		name: KindTask, zero: Task{}, decode: decodeStateAs[Task], events: taskEvents,
		due: TaskDue{}, expire: TaskExpire{}, outer: &effectEvents, child: true,
	},
	{
		name: KindStrategy, zero: Strategy{}, decode: decodeStateAs[Strategy], events: strategyEvents,
		due: StrategyDue{}, expire: StrategyExpire{}, outer: &effectEvents, child: true,
	},
	{
		name: KindOrchestrator, zero: Orchestrator{}, decode: decodeStateAs[Orchestrator], events: orchestratorEvents,
		due: OrchestratorDue{}, expire: OrchestratorExpire{}, outer: &effectEvents, keepsLogs: true,
	},
	{
		name: KindRecurring, zero: RecurringAction{}, decode: decodeRecurring, events: recurringEvents,
		due: RecurringDue{}, paced: true,
	},
	{name: KindDedup, zero: Dedup{}, decode: decodeStateAs[Dedup], events: dedupEvents},
	{name: KindJob, zero: Job{}, decode: decodeStateAs[Job], events: jobEvents, due: JobDue{}},
	{
		name: KindScheduler, zero: Scheduler{}, decode: decodeStateAs[Scheduler], events: schedulerEvents,
		due: SchedulerDue{},
	},
	{name: KindWorker, zero: Worker{}, decode: decodeStateAs[Worker], events: workerEvents, due: WorkerDue{}},
	{
		name: KindLock, zero: Lock{}, decode: decodeStateAs[Lock], events: lockEvents, due: LockDue{},
		release: func(by Owner, token uint64) Event { return LockRelease{Owner: by, Token: token} },
	},
	{
		name: KindSemaphore, zero: Semaphore{}, decode: decodeStateAs[Semaphore], events: semaphoreEvents, due: SemaphoreDue{},
		release: func(by Owner, token uint64) Event { return SemaphoreRelease{Owner: by, Token: token} },
	},
	{name: KindBus, zero: Bus{}, decode: decodeStateAs[Bus], events: busEvents},
	{name: KindQueue, zero: Queue{}, decode: decodeStateAs[Queue], events: queueEvents, due: QueueDue{}},
	{name: KindQueueItem, zero: QueueItem{}, decode: decodeStateAs[QueueItem], passing: passingItem, scanned: true},
	{name: KindQueueKey, zero: QueueKey{}, decode: decodeStateAs[QueueKey], scanned: true},
	{name: KindQueueDedup, zero: QueueDedup{}, decode: decodeStateAs[QueueDedup], passing: always, scanned: true},
}

// kinds is the table by name.
var kinds = func() map[effects.Kind]kind {
	m := make(map[effects.Kind]kind, len(kindTable))
	for _, k := range kindTable {
		m[k.name] = k
	}
	return m
}()

// always says of each state that it is read at most once more.
func always(State) bool { return true }

// outerEvents are the events that answer the outer effects of a kind of machine.
type outerEvents struct {
	done        func(n uint32, result json.RawMessage) Event
	failed      func(n uint32, reason string, result json.RawMessage, permanent bool) Event
	interrupted func(n uint32, reason string) Event
	handedBack  func(n uint32) Event
}

// runEvents answer an action, whose outer effects are its runs.
var runEvents = outerEvents{ // read-only: a table
	done: func(n uint32, result json.RawMessage) Event { return ActionComplete{Run: n, Result: result} },
	failed: func(n uint32, reason string, result json.RawMessage, _ bool) Event {
		return ActionFail{Run: n, Reason: reason, Result: result}
	},
	interrupted: func(n uint32, reason string) Event { return ActionInterrupt{Run: n, Reason: reason} },
	handedBack:  func(n uint32) Event { return ActionHandBack{Run: n} },
}

// effectEvents answer all other machines, which have [PendingEffects].
var effectEvents = outerEvents{ // read-only: a table
	done: func(n uint32, result json.RawMessage) Event { return EffectDone{N: n, Result: result} },
	failed: func(n uint32, reason string, result json.RawMessage, permanent bool) Event {
		return EffectFailed{N: n, Reason: reason, Result: result, Permanent: permanent}
	},
	interrupted: func(n uint32, reason string) Event { return EffectInterrupted{N: n, Reason: reason} },
	handedBack:  func(n uint32) Event { return EffectHandedBack{N: n} },
}
