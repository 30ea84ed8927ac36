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

// EventType gives the discriminator.
func (TaskCreate) EventType() string { return typeCreate }

// EventType gives the discriminator.
func (TaskStart) EventType() string { return "start" }

// EventType gives the discriminator.
func (TaskDue) EventType() string { return typeDue }

// EventType gives the discriminator.
func (TaskHeartbeat) EventType() string { return "heartbeat" }

// EventType gives the discriminator.
func (TaskRecover) EventType() string { return "recover" }

// EventType gives the discriminator.
func (TaskComplete) EventType() string { return typeComplete }

// EventType gives the discriminator.
func (TaskFail) EventType() string { return typeFail }

// EventType gives the discriminator.
func (TaskCancel) EventType() string { return typeCancel }

// EventType gives the discriminator.
func (TaskInput) EventType() string { return "input" }

// EventType gives the discriminator.
func (TaskExpire) EventType() string { return typeExpire }

// AppendJSON appends the journal form.
func (e TaskCreate) AppendJSON(b []byte) []byte { return appendEvent(b, e.EventType(), e) }

// AppendJSON appends the journal form.
func (e TaskStart) AppendJSON(b []byte) []byte { return bare(b, e.EventType()) }

// AppendJSON appends the journal form.
func (e TaskDue) AppendJSON(b []byte) []byte { return bare(b, e.EventType()) }

// AppendJSON appends the journal form, with what is kept of the texts.
func (e TaskHeartbeat) AppendJSON(b []byte) []byte {
	return appendEvent(b, e.EventType(), e.bounded())
}

// AppendJSON appends the journal form.
func (e TaskRecover) AppendJSON(b []byte) []byte {
	e.Message = validText(e.Message)
	return appendEvent(b, e.EventType(), e)
}

// AppendJSON appends the journal form.
func (e TaskComplete) AppendJSON(b []byte) []byte {
	e.Output = trimJSON(e.Output)
	return appendEvent(b, e.EventType(), e)
}

// AppendJSON appends the journal form.
func (e TaskFail) AppendJSON(b []byte) []byte {
	e.Error = validText(e.Error)
	return appendEvent(b, e.EventType(), e)
}

// AppendJSON appends the journal form.
func (e TaskCancel) AppendJSON(b []byte) []byte {
	e.Reason = validText(e.Reason)
	return appendEvent(b, e.EventType(), e)
}

// AppendJSON appends the journal form.
func (e TaskInput) AppendJSON(b []byte) []byte { return appendEvent(b, e.EventType(), e) }

// AppendJSON appends the journal form.
func (e TaskExpire) AppendJSON(b []byte) []byte { return bare(b, e.EventType()) }

func decodeTaskEvent(typ string, b []byte) (Event, error) {
	switch typ {
	case TaskCreate{}.EventType():
		return decodeAs[TaskCreate](b)
	case TaskStart{}.EventType():
		return TaskStart{}, nil
	case TaskDue{}.EventType():
		return TaskDue{}, nil
	case TaskHeartbeat{}.EventType():
		return decodeAs[TaskHeartbeat](b)
	case TaskRecover{}.EventType():
		return decodeAs[TaskRecover](b)
	case TaskComplete{}.EventType():
		return decodeAs[TaskComplete](b)
	case TaskFail{}.EventType():
		return decodeAs[TaskFail](b)
	case TaskCancel{}.EventType():
		return decodeAs[TaskCancel](b)
	case TaskInput{}.EventType():
		return decodeAs[TaskInput](b)
	case TaskExpire{}.EventType():
		return TaskExpire{}, nil
	}
	return decodeShared[TaskEvent](typ, b)
}
