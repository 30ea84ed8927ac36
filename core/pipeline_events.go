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
	// PhaseComplete says that the running phase, a manual one, is done
	// (003 PhaseComplete).
	PhaseComplete struct {
		Phase   string          `json:"phase"`
		Attempt uint32          `json:"attempt,omitempty"` // 0: whichever runs
		Result  json.RawMessage `json:"result,omitempty"`
	}
	// PhaseFailed says that the running phase, a manual one, failed
	// (003 PhaseFailed).
	PhaseFailed struct {
		Phase   string `json:"phase"`
		Attempt uint32 `json:"attempt,omitempty"` // 0: whichever runs
		Error   string `json:"error"`
		// Permanent: no retry can help, the pipeline's failure is not recoverable.
		Permanent bool `json:"permanent,omitempty"`
	}
	// PipelineRetry runs the failed phase again (003 Retry, D3).
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

// EventType gives the discriminator.
func (PipelineCreate) EventType() string { return typeCreate }

// EventType gives the discriminator.
func (PipelineStart) EventType() string { return "start" }

// EventType gives the discriminator.
func (PhaseComplete) EventType() string { return "phase_complete" }

// EventType gives the discriminator.
func (PhaseFailed) EventType() string { return "phase_failed" }

// EventType gives the discriminator.
func (PipelineRetry) EventType() string { return "retry" }

// EventType gives the discriminator.
func (PipelineUnblock) EventType() string { return "unblock" }

// EventType gives the discriminator.
func (PipelineCancel) EventType() string { return typeCancel }

// EventType gives the discriminator.
func (PipelineSignal) EventType() string { return "signal" }

// EventType gives the discriminator.
func (PipelineApprove) EventType() string { return "approve" }

// EventType gives the discriminator.
func (PipelineCheckpoint) EventType() string { return "checkpoint" }

// EventType gives the discriminator.
func (PipelineWatch) EventType() string { return "watch" }

// EventType gives the discriminator.
func (PipelineDue) EventType() string { return typeDue }

// EventType gives the discriminator.
func (PipelineExpire) EventType() string { return typeExpire }

// owner is told where the pipeline cannot be made.
func (e PipelineCreate) owner() Owner { return e.Spec.Owner }

// owner is told where there is no such pipeline.
func (e PipelineWatch) owner() Owner { return e.Owner }

// AppendJSON appends the journal form.
func (e PipelineCreate) AppendJSON(b []byte) []byte { return appendEvent(b, e.EventType(), e) }

// AppendJSON appends the journal form.
func (e PipelineStart) AppendJSON(b []byte) []byte { return bare(b, e.EventType()) }

// AppendJSON appends the journal form.
func (e PhaseComplete) AppendJSON(b []byte) []byte {
	e.Result = storedResult(e.Result)
	return appendEvent(b, e.EventType(), e)
}

// AppendJSON appends the journal form.
func (e PhaseFailed) AppendJSON(b []byte) []byte {
	e.Error = validText(e.Error)
	return appendEvent(b, e.EventType(), e)
}

// AppendJSON appends the journal form.
func (e PipelineRetry) AppendJSON(b []byte) []byte { return bare(b, e.EventType()) }

// AppendJSON appends the journal form.
func (e PipelineUnblock) AppendJSON(b []byte) []byte { return bare(b, e.EventType()) }

// AppendJSON appends the journal form.
func (e PipelineCancel) AppendJSON(b []byte) []byte {
	e.Reason = validText(e.Reason)
	return appendEvent(b, e.EventType(), e)
}

// AppendJSON appends the journal form.
func (e PipelineSignal) AppendJSON(b []byte) []byte {
	e.Payload = storedResult(e.Payload)
	return appendEvent(b, e.EventType(), e)
}

// AppendJSON appends the journal form.
func (e PipelineApprove) AppendJSON(b []byte) []byte {
	e.By, e.Comment = validText(e.By), validText(e.Comment)
	return appendEvent(b, e.EventType(), e)
}

// AppendJSON appends the journal form.
func (e PipelineCheckpoint) AppendJSON(b []byte) []byte {
	e.Message = validText(e.Message)
	return appendEvent(b, e.EventType(), e)
}

// AppendJSON appends the journal form.
func (e PipelineWatch) AppendJSON(b []byte) []byte { return appendEvent(b, e.EventType(), e) }

// AppendJSON appends the journal form.
func (e PipelineDue) AppendJSON(b []byte) []byte { return bare(b, e.EventType()) }

// AppendJSON appends the journal form.
func (e PipelineExpire) AppendJSON(b []byte) []byte { return bare(b, e.EventType()) }

func decodePipelineEvent(typ string, b []byte) (Event, error) {
	switch typ {
	case PipelineCreate{}.EventType():
		return decodeAs[PipelineCreate](b)
	case PipelineStart{}.EventType():
		return PipelineStart{}, nil
	case PhaseComplete{}.EventType():
		return decodeAs[PhaseComplete](b)
	case PhaseFailed{}.EventType():
		return decodeAs[PhaseFailed](b)
	case PipelineRetry{}.EventType():
		return PipelineRetry{}, nil
	case PipelineUnblock{}.EventType():
		return PipelineUnblock{}, nil
	case PipelineCancel{}.EventType():
		return decodeAs[PipelineCancel](b)
	case PipelineSignal{}.EventType():
		return decodeAs[PipelineSignal](b)
	case PipelineApprove{}.EventType():
		return decodeAs[PipelineApprove](b)
	case PipelineCheckpoint{}.EventType():
		return decodeAs[PipelineCheckpoint](b)
	case PipelineWatch{}.EventType():
		return decodeAs[PipelineWatch](b)
	case PipelineDue{}.EventType():
		return PipelineDue{}, nil
	case PipelineExpire{}.EventType():
		return PipelineExpire{}, nil
	case QueuePushed{}.EventType():
		return decodeAs[QueuePushed](b)
	}
	return decodeShared[PipelineEvent](typ, b)
}
