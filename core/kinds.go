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
	KindCalendar     effects.Kind = "calendar"
	KindBackfill     effects.Kind = "backfill"
	KindAlert        effects.Kind = "alert"
	KindDigest       effects.Kind = "digest"
)

// Kinds of what a [Queue] keeps as records of their own. They take no events: the
// [Batch] writes them for their queue.
const (
	KindQueueItem  effects.Kind = "queue_item"
	KindQueueKey   effects.Kind = "queue_key"
	KindQueueDedup effects.Kind = "queue_dedup"
)

// KindName is the kind of the records of names, see [Named]. They take no events.
const KindName effects.Kind = "name"

// KindDeclared is the kind of the records of what sets of files own, see [Declared]. They take no events.
const KindDeclared effects.Kind = "declared"

// Kinds of what a [Pipeline] keeps as records of their own.
const (
	KindPipelineDefinition effects.Kind = "pipeline_definition"
	KindPipelineRuns       effects.Kind = "pipeline_runs"
	KindPipelineHistory    effects.Kind = "pipeline_history"
	KindPipelineContext    effects.Kind = "pipeline_context"
)

// kind is all that the batch, the codec and the shell need to know of a kind of
// machine. What is left out, a machine of that kind has not, or does not need.
type kind struct {
	name   effects.Kind
	zero   State // of a machine that does not exist
	decode func(b []byte) (State, error)
	// apply carries out one transition. An event of another machine is refused.
	apply  func(s State, e Event, c Clock) (State, []effects.Effect)
	events []eventType
	// scanEvent and scanState read the stored forms of what there are many of, see [scan].
	// scanEvent begins behind the type.
	scanEvent func(s *scan, name []byte) Event
	scanState func(s *scan) State

	due       Event          // says that the deadline has come
	expire    Event          // ends the retention
	retention RetentionClass // of a kind that has expire
	tenants   string         // see [Retention]

	outer     *outerEvents                       // of machines that ask for outer effects
	release   func(by Owner, token uint64) Event // gives back what a machine has granted
	passing   func(s State) bool                 // says of a state that it is read at most once more
	child     bool                               // its owner and watchers are told if its record is lost, see [LostTo]
	statuses  []string                           // see [StatusTerms]
	keepsLogs bool                               // see [KeepsLogs]
	paced     bool                               // see [Paced]
	scanned   bool                               // see [Scanned]
	scansAll  bool                               // see [ScansAll]
	bounded   bool                               // see [Bounded]
	shared    bool                               // see [Shared]
	passesOn  bool                               // what it makes on a word from outside was asked for there
	servesAll bool                               // it has to do with machines of all tenants, see [sphere]
}

// machine completes the entry of a kind whose state is S, and whose events are the E;
// what is how a refusal calls one of them.
func machine[S interface {
	State
	Apply(e E, c Clock) (S, []effects.Effect)
}, E Event](what string, k kind) kind {
	k.apply = func(s State, e Event, c Clock) (State, []effects.Effect) {
		own, ok := e.(E)
		m, is := s.(S)
		if !ok || !is {
			return s, refused(s.Ref(), e, effects.CodeInvalid, "%s takes no event %q", what, e.EventType())
		}
		return m.Apply(own, c)
	}
	return record[S](k)
}

// record completes the entry of a kind of records, which take no events unless they
// are machines.
func record[S State](k kind) kind {
	var none S
	k.zero = none
	if k.decode == nil {
		k.decode = decodeStateAs[S]
	}
	if k.apply == nil {
		k.apply = func(s State, e Event, _ Clock) (State, []effects.Effect) {
			return s, refused(s.Ref(), e, effects.CodeInvalid, "this record belongs to a machine: send the event to that")
		}
	}
	return k
}

// kindTable is the one place that names all kinds. Retention walks it in this order.
var kindTable = []kind{ // read-only: a table
	machine[Action, ActionEvent]("an action", kind{
		name: KindAction, events: actionEvents, due: ActionDue{}, expire: ActionExpire{}, outer: &runEvents, child: true, bounded: true, keepsLogs: true,
		scanEvent: scanActionEvent, scanState: scanStateAs((*scan).action),
		statuses: statusTerms(StatusPending, StatusRunning, StatusCompleted, StatusFailed, StatusCancelled),
	}),
	machine[Occurrence, OccurrenceEvent]("an occurrence", kind{
		name: KindOccurrence, events: occurrenceEvents, expire: OccurrenceExpire{}, retention: RetainHistory, passing: always,
		statuses: OccurrenceTerms("", "", ""), tenants: TermOfAnyTenant,
	}),
	machine[Pipeline, PipelineEvent]("a pipeline", kind{
		name: KindPipeline, decode: decodePipeline, events: pipelineEvents, due: PipelineDue{}, expire: PipelineExpire{}, outer: &effectEvents, child: true, bounded: true,
		statuses: statusTerms(PhaseInit, PhaseBlocked, PhaseRunning, PhaseDone, PhaseFailure, PhaseCancelled),
	}),
	machine[Task, TaskEvent]("a task", kind{
		name: KindTask, events: taskEvents, due: TaskDue{}, expire: TaskExpire{}, outer: &effectEvents, child: true, bounded: true,
		statuses: statusTerms(TaskPending, TaskRunning, TaskStuck, TaskDone),
	}),
	machine[Strategy, StrategyEvent]("a strategy", kind{
		name: KindStrategy, events: strategyEvents, due: StrategyDue{}, expire: StrategyExpire{}, outer: &effectEvents, child: true, bounded: true,
		statuses: statusTerms(StrategyRunning, StrategySucceeded, StrategyExhausted, StrategyCancelled),
	}),
	machine[Orchestrator, OrchestratorEvent]("a run", kind{
		name: KindOrchestrator, events: orchestratorEvents, due: OrchestratorDue{}, expire: OrchestratorExpire{}, outer: &effectEvents, keepsLogs: true, bounded: true,
		statuses: statusTerms(OrchestratorStatuses()...),
	}),
	machine[RecurringAction, RecurringEvent]("a recurring action", kind{
		name: KindRecurring, decode: decodeRecurring, events: recurringEvents, due: RecurringDue{}, paced: true,
		statuses: enabledTerms,
	}),
	machine[Dedup, DedupEvent]("a dedup key", kind{name: KindDedup, events: dedupEvents, passesOn: true}),
	machine[Job, JobEvent]("a job", kind{name: KindJob, events: jobEvents, due: JobDue{}, statuses: enabledTerms}),
	machine[Scheduler, SchedulerEvent]("a scheduler", kind{name: KindScheduler, events: schedulerEvents, due: SchedulerDue{}, servesAll: true}),
	machine[Worker, WorkerEvent]("a worker", kind{name: KindWorker, events: workerEvents, due: WorkerDue{}, statuses: statusTerms("idle", "busy", "paused", "draining")}),
	machine[Lock, LockEvent]("a lock", kind{
		name: KindLock, events: lockEvents, due: LockDue{}, statuses: heldTerms,
		release: func(by Owner, token uint64) Event { return LockRelease{Owner: by, Token: token} },
	}),
	machine[Semaphore, SemaphoreEvent]("a semaphore", kind{
		name: KindSemaphore, events: semaphoreEvents, due: SemaphoreDue{}, statuses: heldTerms,
		release: func(by Owner, token uint64) Event { return SemaphoreRelease{Owner: by, Token: token} },
	}),
	machine[Calendar, CalendarEvent]("a calendar", kind{name: KindCalendar, decode: decodeCalendar, events: calendarEvents, statuses: []string{TermOwn}}),
	machine[Backfill, BackfillEvent]("a backfill", kind{
		name: KindBackfill, events: backfillEvents, due: BackfillDue{}, expire: BackfillExpire{},
		statuses: statusTerms(BackfillRunning, BackfillCompleted, BackfillCancelled),
	}),
	machine[Alert, AlertEvent]("an alert", kind{
		name: KindAlert, events: alertEvents, due: AlertDue{}, statuses: statusTerms(AlertOpen, AlertQuiet),
	}),
	machine[Digest, DigestEvent]("a digest", kind{name: KindDigest, events: digestEvents, due: DigestDue{}, outer: &effectEvents}),
	machine[Bus, BusEvent]("a bus", kind{name: KindBus, events: busEvents, scanned: true, scansAll: true}),
	machine[Queue, QueueEvent]("a queue", kind{
		name: KindQueue, events: queueEvents, due: QueueDue{}, statuses: []string{QueueStatusTerm(false), QueueStatusTerm(true)},
		scanEvent: scanQueueEvent,
	}),
	record[QueueItem](kind{name: KindQueueItem, passing: passingItem, scanned: true, scanState: scanStateAs((*scan).queueItem)}),
	record[QueueKey](kind{name: KindQueueKey, scanned: true}),
	record[QueueDedup](kind{name: KindQueueDedup, passing: always, scanned: true}),
	record[Named](kind{name: KindName}),
	record[Declared](kind{name: KindDeclared, statuses: []string{TermOwn}}),
	record[PipelineDefinition](kind{name: KindPipelineDefinition, shared: true}),
	record[PipelineRuns](kind{name: KindPipelineRuns}),
	record[HistoryPage](kind{name: KindPipelineHistory, passing: always}),
	record[ContextPage](kind{name: KindPipelineContext, passing: always}),
}

// kinds is the table by name.
var kinds = func() map[effects.Kind]kind {
	m := make(map[effects.Kind]kind, len(kindTable))
	for _, k := range kindTable {
		m[k.name] = k
	}
	return m
}()

// What stands for the statuses of kinds that have none.
var (
	enabledTerms = []string{EnabledTerm(false), EnabledTerm(true)} // read-only: a table
	heldTerms    = []string{HeldTerm(false), HeldTerm(true)}       // read-only: a table
)

// always says of each state that it is read at most once more.
func always(State) bool { return true }

// outerEvents are the events that answer the outer effects of a kind of machine.
type outerEvents struct {
	done        func(n uint32, result json.RawMessage) Event
	failed      func(n uint32, result json.RawMessage, f Failure) Event
	interrupted func(n uint32, reason string) Event
	handedBack  func(n uint32) Event
}

// runEvents answer an action, whose outer effects are its runs.
var runEvents = outerEvents{ // read-only: a table
	done: func(n uint32, result json.RawMessage) Event { return ActionComplete{Run: n, Result: result} },
	failed: func(n uint32, result json.RawMessage, f Failure) Event {
		return ActionFail{Run: n, Reason: f.Reason, Result: result, Permanent: f.Permanent, TimedOut: f.TimedOut, RetryAfterMS: f.RetryAfterMS}
	},
	interrupted: func(n uint32, reason string) Event { return ActionInterrupt{Run: n, Reason: reason} },
	handedBack:  func(n uint32) Event { return ActionHandBack{Run: n} },
}

// effectEvents answer all other machines, which have [PendingEffects].
var effectEvents = outerEvents{ // read-only: a table
	done: func(n uint32, result json.RawMessage) Event { return EffectDone{N: n, Result: result} },
	failed: func(n uint32, result json.RawMessage, f Failure) Event {
		return EffectFailed{N: n, Reason: f.Reason, Result: result, Permanent: f.Permanent}
	},
	interrupted: func(n uint32, reason string) Event { return EffectInterrupted{N: n, Reason: reason} },
	handedBack:  func(n uint32) Event { return EffectHandedBack{N: n} },
}
