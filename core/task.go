package core

import (
	"fmt"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
)

// Task is a stub.
type Task struct {
	ID uuid.UUID `json:"id"`
}

// TaskSpec is what a creator says of a task.
type TaskSpec struct {
	ID         uuid.UUID         `json:"id"`
	Namespace  string            `json:"namespace"`
	Tenant     string            `json:"tenant"`
	Label      string            `json:"label"`
	PipelineID uuid.UUID         `json:"pipeline_id"` // zero: of no pipeline
	Owner      Owner             `json:"owner"`
	Workspace  string            `json:"workspace"` // the session's directory, under the workspace root
	Command    []string          `json:"command"`   // of the session; empty: no session, whoever does the work says so by events
	Env        map[string]string `json:"env"`
	Prompt     string            `json:"prompt"` // typed into the session once it runs
	Config     TaskConfig        `json:"config"`
}

// TaskConfig bounds a task (003 TaskConfig). Times are in milliseconds.
type TaskConfig struct {
	HeartbeatTimeoutMS   int64  `json:"heartbeat_timeout_ms"`
	IdleTimeoutMS        int64  `json:"idle_timeout_ms"` // without progress; 0: the heartbeat time-out
	MaxRecoveryAttempts  uint32 `json:"max_recovery_attempts"`
	RecoveryIntervalMS   int64  `json:"recovery_interval_ms"`   // between two steps of the recovery
	CheckpointIntervalMS int64  `json:"checkpoint_interval_ms"` // 0: no checkpoints
	TimeoutMS            int64  `json:"timeout_ms"`             // of the whole task; 0: none
	Nudge                string `json:"nudge"`                  // what is typed to nudge; empty: return alone
}

// TaskEvent is an event of [Task]. The set is closed.
//
//sumtype:decl
type TaskEvent interface {
	Event
	taskEvent()
}

func (EffectDone) taskEvent()        {}
func (EffectFailed) taskEvent()      {}
func (EffectInterrupted) taskEvent() {}
func (EffectHandedBack) taskEvent()  {}

// Apply carries out one transition.
func (t Task) Apply(e TaskEvent, c Clock) (Task, []effects.Effect) {
	return t, t.refuse(e, effects.CodeInvalid, "not written yet")
}

// Ref names the task.
func (t Task) Ref() effects.Ref {
	if t.ID == uuid.Nil {
		return effects.Ref{}
	}
	return effects.Ref{Kind: KindTask, ID: t.ID}
}

// Deadline is none.
func (t Task) Deadline() Time { return 0 }

// Terms lists the task under all.
func (t Task) Terms() []effects.Term { return nil }

// AppendJSON appends the stored form.
func (t Task) AppendJSON(b []byte) []byte { return appendMarshaled(b, t) }

func (t Task) apply(e Event, c Clock) (State, []effects.Effect) {
	own, ok := e.(TaskEvent)
	if !ok {
		return t, t.refuse(e, effects.CodeInvalid, fmt.Sprintf("a task takes no event %q", e.EventType()))
	}
	return t.Apply(own, c)
}

func (t Task) refuse(e Event, code effects.Code, reason string) []effects.Effect {
	return refused(effects.Ref{Kind: KindTask, ID: t.ID}, e, code, reason)
}

func decodeTaskEvent(typ string, b []byte) (Event, error) {
	switch typ {
	}
	return decodeShared(typ, b)
}
