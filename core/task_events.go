package core

import "encoding/json"

// TaskEvent is an event of [Task]. The set is closed.
//
//sumtype:decl
type TaskEvent interface {
	Event
	taskEvent()
}

// Liveness is what a heartbeat says of a session.
type Liveness string

// What a heartbeat says (003 heartbeat).
const (
	LivenessActive      Liveness = "active"
	LivenessIdle        Liveness = "idle"
	LivenessSessionDead Liveness = "session_dead"
)

// RecoveryAction is what is done about a task that is stuck.
type RecoveryAction string

// Recovery actions (003 recover).
const (
	RecoverNudge    RecoveryAction = "nudge"
	RecoverRestart  RecoveryAction = "restart"
	RecoverEscalate RecoveryAction = "escalate"
)

type (
	// TaskCreate makes a task, which is due at once. The id must be new.
	TaskCreate struct {
		Spec TaskSpec `json:"spec"`
	}
	// TaskStart starts a pending task.
	TaskStart struct{}
	// TaskDue says that the task's deadline has come.
	TaskDue struct{}
	// TaskHeartbeat is a sign of life, or of its end (003 heartbeat). Of a
	// progress text only a change counts as progress, so that a session which
	// paints its screen for ever is found out; without one, being active counts.
	TaskHeartbeat struct {
		Status Liveness `json:"status"`
		// Session is the one that the heartbeat speaks of; one of another session
		// than the present one is refused. Empty: the present one.
		Session  string `json:"session,omitempty"`
		IdleMS   int64  `json:"idle_ms,omitempty"`   // since when nothing moved
		ExitCode *int32 `json:"exit_code,omitempty"` // of a dead session, if known; 0: its work is done
		Output   string `json:"output,omitempty"`    // the end of its screen; of more than 64 KiB the end is kept
		Progress string `json:"progress,omitempty"`  // what the work says of itself
	}
	// TaskRecover does something about a task that runs or is stuck (003 recover).
	TaskRecover struct {
		Action  RecoveryAction `json:"action"`
		Message string         `json:"message,omitempty"` // of an escalation; empty: made up
	}
	// TaskComplete ends the task: its work is done.
	TaskComplete struct {
		Output json.RawMessage `json:"output,omitempty"` // JSON of at most 1 MiB
	}
	// TaskFail ends the task: its work cannot be done.
	TaskFail struct {
		Error string `json:"error"`
	}
	// TaskCancel ends the task wherever it is, and kills its session.
	TaskCancel struct {
		Reason string `json:"reason"`
	}
	// TaskInput types into the session. It is typed at most once: where nobody
	// knows whether it was, that is announced as task:input_lost.
	TaskInput struct {
		Text string `json:"text"`
	}
	// TaskExpire ends the retention of a task that is done.
	TaskExpire struct{}
)

func (TaskCreate) taskEvent()        {}
func (TaskStart) taskEvent()         {}
func (TaskDue) taskEvent()           {}
func (TaskHeartbeat) taskEvent()     {}
func (TaskRecover) taskEvent()       {}
func (TaskComplete) taskEvent()      {}
func (TaskFail) taskEvent()          {}
func (TaskCancel) taskEvent()        {}
func (TaskInput) taskEvent()         {}
func (TaskExpire) taskEvent()        {}
func (EffectDone) taskEvent()        {}
func (EffectFailed) taskEvent()      {}
func (EffectInterrupted) taskEvent() {}
func (EffectHandedBack) taskEvent()  {}

func (e TaskCreate) owner() Owner { return e.Spec.Owner }

// EventType gives the discriminator in the journal.
func (TaskCreate) EventType() string    { return "create" }
func (TaskStart) EventType() string     { return "start" }
func (TaskDue) EventType() string       { return "due" }
func (TaskHeartbeat) EventType() string { return "heartbeat" }
func (TaskRecover) EventType() string   { return "recover" }
func (TaskComplete) EventType() string  { return "complete" }
func (TaskFail) EventType() string      { return "fail" }
func (TaskCancel) EventType() string    { return "cancel" }
func (TaskInput) EventType() string     { return "input" }
func (TaskExpire) EventType() string    { return "expire" }

func (e TaskHeartbeat) stored() Event { return e.bounded() }
func (e TaskRecover) stored() Event   { return TaskRecover{e.Action, validText(e.Message)} }
func (e TaskComplete) stored() Event  { return TaskComplete{trimJSON(e.Output)} }
func (e TaskFail) stored() Event      { return TaskFail{validText(e.Error)} }
func (e TaskCancel) stored() Event    { return TaskCancel{validText(e.Reason)} }

// taskEvents are the events of Task, as the journal has them.
var taskEvents = []eventType{
	event[TaskCreate](), event[TaskStart](), event[TaskDue](), event[TaskHeartbeat](), event[TaskRecover](),
	event[TaskComplete](), event[TaskFail](), event[TaskCancel](), event[TaskInput](), event[TaskExpire](),
	event[EffectDone](), event[EffectFailed](), event[EffectInterrupted](), event[EffectHandedBack](), event[HomeLost](),
}
