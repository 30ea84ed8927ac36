package core

import "encoding/json"

// PipelineCreate is a stub until the pipeline's own stands here.
type PipelineCreate struct {
	Spec PipelineSpec `json:"spec"`
}

// PipelineSignal is a stub until the pipeline's own stands here.
type PipelineSignal struct {
	Name    string          `json:"name"`
	Payload json.RawMessage `json:"payload,omitempty"`
}

func (PipelineCreate) EventType() string            { return "create" }
func (PipelineSignal) EventType() string            { return "signal" }
func (e PipelineCreate) AppendJSON(b []byte) []byte { return appendEvent(b, e.EventType(), e) }
func (e PipelineSignal) AppendJSON(b []byte) []byte { return appendEvent(b, e.EventType(), e) }
