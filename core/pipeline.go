package core

import (
	"encoding/json"
	"fmt"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
)

// Pipeline is a stub.
type Pipeline struct {
	ID uuid.UUID `json:"id"`
}

// PipelineSpec is what a creator says of a pipeline.
type PipelineSpec struct {
	ID         uuid.UUID                  `json:"id"`
	Namespace  string                     `json:"namespace"`
	Tenant     string                     `json:"tenant"`
	Label      string                     `json:"label"`
	Runbook    string                     `json:"runbook"` // the name of the file's runbook (003)
	Owner      Owner                      `json:"owner"`
	Definition PipelineDef                `json:"definition"` // kept: a run never sees a later edit
	Context    map[string]json.RawMessage `json:"context"`    // variables passed between phases (003)
	DependsOn  []uuid.UUID                `json:"depends_on"` // pipelines that must be done first (003: unmet dependencies)
}

// PipelineDef is the definition of a pipeline.
type PipelineDef struct {
	Name string `json:"name"`
}

// PipelineCheckpoint records how far a pipeline has come (003 Checkpoint).
type PipelineCheckpoint struct {
	Message string `json:"message"`
}

func (PipelineCheckpoint) EventType() string            { return "checkpoint" }
func (e PipelineCheckpoint) AppendJSON(b []byte) []byte { return appendEvent(b, e.EventType(), e) }

// PipelineEvent is an event of [Pipeline]. The set is closed.
//
//sumtype:decl
type PipelineEvent interface {
	Event
	pipelineEvent()
}

func (PipelineCheckpoint) pipelineEvent() {}
func (ChildEnded) pipelineEvent()         {}
func (EffectDone) pipelineEvent()         {}
func (EffectFailed) pipelineEvent()       {}
func (EffectInterrupted) pipelineEvent()  {}
func (EffectHandedBack) pipelineEvent()   {}
func (Granted) pipelineEvent()            {}
func (Lost) pipelineEvent()               {}

// Apply carries out one transition.
func (p Pipeline) Apply(e PipelineEvent, c Clock) (Pipeline, []effects.Effect) {
	return p, p.refuse(e, effects.CodeInvalid, "not written yet")
}

// Ref names the pipeline.
func (p Pipeline) Ref() effects.Ref {
	if p.ID == uuid.Nil {
		return effects.Ref{}
	}
	return effects.Ref{Kind: KindPipeline, ID: p.ID}
}

// Deadline is none.
func (p Pipeline) Deadline() Time { return 0 }

// Terms lists the pipeline under all.
func (p Pipeline) Terms() []effects.Term { return nil }

// AppendJSON appends the stored form.
func (p Pipeline) AppendJSON(b []byte) []byte { return appendMarshaled(b, p) }

func (p Pipeline) apply(e Event, c Clock) (State, []effects.Effect) {
	own, ok := e.(PipelineEvent)
	if !ok {
		return p, p.refuse(e, effects.CodeInvalid, fmt.Sprintf("a pipeline takes no event %q", e.EventType()))
	}
	return p.Apply(own, c)
}

func (p Pipeline) refuse(e Event, code effects.Code, reason string) []effects.Effect {
	return refused(effects.Ref{Kind: KindPipeline, ID: p.ID}, e, code, reason)
}

func decodePipelineEvent(typ string, b []byte) (Event, error) {
	switch typ {
	case PipelineCheckpoint{}.EventType():
		return decodeAs[PipelineCheckpoint](b)
	}
	return decodeShared(typ, b)
}
