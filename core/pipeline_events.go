package core

import "encoding/json"

// PipelineEvent is an event of [Pipeline]. The set is closed.
//
//sumtype:decl
type PipelineEvent interface {
	Event
	pipelineEvent()
}

type (
	// PipelineCreate makes a pipeline. The id must be new.
	PipelineCreate struct {
		Spec PipelineSpec `json:"spec"`
	}
	// PipelineStart starts one that was held (003 Start).
	PipelineStart struct{}
	// PhaseComplete says that the running phase is done (003 PhaseComplete). It answers
	// a phase that waits for an answer from outside: a [ManualPhase], a [SignalPhase] or an
	// [ApprovalPhase].
	PhaseComplete struct {
		Phase   string          `json:"phase"`
		Attempt uint32          `json:"attempt,omitempty"` // 0: whichever runs
		Result  json.RawMessage `json:"result,omitempty"`
	}
	// PhaseFailed says that the running phase failed (003 PhaseFailed). It answers what
	// [PhaseComplete] does.
	PhaseFailed struct {
		Phase   string `json:"phase"`
		Attempt uint32 `json:"attempt,omitempty"` // 0: whichever runs
		Error   string `json:"error"`
		// Permanent: no retry can help, the pipeline's failure is not recoverable.
		Permanent bool `json:"permanent,omitempty"`
	}
	// PipelineRetry runs another attempt of the failed phase (003 Retry, D3).
	PipelineRetry struct{}
	// PipelineUnblock lets a blocked pipeline run, whatever it waits for
	// (003 Unblock).
	PipelineUnblock struct{}
	// PipelineCancel ends a pipeline that has not ended, and all that it runs.
	PipelineCancel struct {
		Reason string `json:"reason"`
	}
	// PipelineSignal answers a [SignalPhase] of that name; one that comes before
	// its phase is kept.
	PipelineSignal struct {
		Name    string          `json:"name"`
		Payload json.RawMessage `json:"payload,omitempty"`
	}
	// PipelineApprove answers an [ApprovalPhase].
	PipelineApprove struct {
		Phase    string `json:"phase"`
		By       string `json:"by"`
		Approved bool   `json:"approved"` // false: it is rejected, and the phase fails
		Comment  string `json:"comment"`
	}
	// PipelineCheckpoint records how far a pipeline has come (003 Checkpoint).
	PipelineCheckpoint struct {
		Message string `json:"message"`
	}
	// PipelineWatch asks to be told by [ChildEnded] when the pipeline ends. One that
	// has ended tells it at once.
	PipelineWatch struct {
		Owner     Owner  `json:"owner"`
		Namespace string `json:"namespace,omitempty"` // of who asks: of another tenant there is no such pipeline
		Tenant    string `json:"tenant,omitempty"`
	}
	// PipelineDue says that the pipeline's deadline has come.
	PipelineDue struct{}
	// PipelineExpire ends the retention of a pipeline that has ended.
	PipelineExpire struct{}
)

func (PipelineCreate) pipelineEvent()     {}
func (PipelineStart) pipelineEvent()      {}
func (PhaseComplete) pipelineEvent()      {}
func (PhaseFailed) pipelineEvent()        {}
func (PipelineRetry) pipelineEvent()      {}
func (PipelineUnblock) pipelineEvent()    {}
func (PipelineCancel) pipelineEvent()     {}
func (PipelineSignal) pipelineEvent()     {}
func (PipelineApprove) pipelineEvent()    {}
func (PipelineCheckpoint) pipelineEvent() {}
func (PipelineWatch) pipelineEvent()      {}
func (PipelineDue) pipelineEvent()        {}
func (PipelineExpire) pipelineEvent()     {}
func (ChildEnded) pipelineEvent()         {}
func (QueuePushed) pipelineEvent()        {}
func (EffectDone) pipelineEvent()         {}
func (EffectFailed) pipelineEvent()       {}
func (EffectInterrupted) pipelineEvent()  {}
func (EffectHandedBack) pipelineEvent()   {}
func (Granted) pipelineEvent()            {}
func (Lost) pipelineEvent()               {}

// EventType gives the discriminator in the journal.
func (PipelineCreate) EventType() string     { return "create" }
func (PipelineStart) EventType() string      { return "start" }
func (PhaseComplete) EventType() string      { return "phase_complete" }
func (PhaseFailed) EventType() string        { return "phase_failed" }
func (PipelineRetry) EventType() string      { return "retry" }
func (PipelineUnblock) EventType() string    { return "unblock" }
func (PipelineCancel) EventType() string     { return "cancel" }
func (PipelineSignal) EventType() string     { return "signal" }
func (PipelineApprove) EventType() string    { return "approve" }
func (PipelineCheckpoint) EventType() string { return "checkpoint" }
func (PipelineWatch) EventType() string      { return "watch" }
func (PipelineDue) EventType() string        { return "due" }
func (PipelineExpire) EventType() string     { return "expire" }

// owner is told where the pipeline cannot be made.
func (e PipelineCreate) owner() Owner { return e.Spec.Owner }

// owner is told where there is no such pipeline.
func (e PipelineWatch) owner() Owner { return e.Owner }

func (e PhaseComplete) stored() Event {
	return PhaseComplete{e.Phase, e.Attempt, storedResult(e.Result)}
}
func (e PhaseFailed) stored() Event {
	return PhaseFailed{e.Phase, e.Attempt, validText(e.Error), e.Permanent}
}
func (e PipelineCancel) stored() Event { return PipelineCancel{validText(e.Reason)} }
func (e PipelineSignal) stored() Event { return PipelineSignal{e.Name, storedResult(e.Payload)} }
func (e PipelineApprove) stored() Event {
	return PipelineApprove{e.Phase, validText(e.By), e.Approved, validText(e.Comment)}
}
func (e PipelineCheckpoint) stored() Event { return PipelineCheckpoint{validText(e.Message)} }

// pipelineEvents are the events of Pipeline, as the journal has them.
var pipelineEvents = []eventType{
	event[PipelineCreate](), event[PipelineStart](), event[PhaseComplete](), event[PhaseFailed](), event[PipelineRetry](),
	event[PipelineUnblock](), event[PipelineCancel](), event[PipelineSignal](), event[PipelineApprove](),
	event[PipelineCheckpoint](), event[PipelineWatch](), event[PipelineDue](), event[PipelineExpire](),
	event[QueuePushed](), event[ChildEnded](), event[EffectDone](), event[EffectFailed](), event[EffectInterrupted](),
	event[EffectHandedBack](), event[Granted](), event[Lost](), event[HomeLost](),
}
