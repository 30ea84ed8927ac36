package shell

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/internal/plainjson"
	"github.com/orrery-go/orrery/shell/internal/strictjson"
)

// Names of the tools that lead from actions to what else an engine orchestrates
// (B7).
const (
	QueueToolName    = "queue"
	PipelineToolName = "pipeline"
)

// QueueTool pushes an item into a queue of the action's namespace and tenant: so
// a schedule or a webhook gives work to workers. Its input:
//
//	{"queue": NAME, "data": …, "priority": 0, "key": "", "dedup_key": "", "delay_ms": 0}
//
// Where data is missing, the body of the webhook that triggered the action takes
// its place, as text where it is no JSON. Without a dedup_key a repeated run of one
// occurrence pushes no second item while the first one is there. The result is
// {"item": ID, "duplicate": false}.
type QueueTool struct{}

type queueInput struct {
	Queue    string          `json:"queue"`
	Data     json.RawMessage `json:"data"`
	Priority int32           `json:"priority"`
	Key      string          `json:"key"`
	DedupKey string          `json:"dedup_key"`
	DelayMS  int64           `json:"delay_ms"`
}

func (in queueInput) push() core.QueuePush {
	return core.QueuePush{Name: in.Queue, Data: in.Data, Priority: in.Priority, Key: in.Key, DedupKey: in.DedupKey, DelayMS: in.DelayMS}
}

// StoresInput implements [InputStorer].
func (QueueTool) StoresInput() {}

// ValidateInput reports what the queue would refuse.
func (QueueTool) ValidateInput(raw json.RawMessage) error {
	var in queueInput
	if err := strictjson.DecodeAt("tool_input", raw, &in); err != nil {
		return err
	}
	if in.Queue == "" {
		return errors.New("tool_input.queue: missing: give the name of the queue")
	}
	_, effs := core.Queue{}.Apply(in.push(), core.Clock{Now: effects.MinTime})
	return refusedInput("", effs)
}

// refusedInput gives the reason for which a machine that does not exist yet
// refuses to be made.
func refusedInput(member string, effs []effects.Effect) error {
	for _, eff := range effs {
		if r, ok := eff.(effects.Refused); ok {
			return fmt.Errorf("tool_input.%s%s", member, r.Reason)
		}
	}
	return nil
}

// Run pushes the item.
func (QueueTool) Run(ctx context.Context, c Call) (json.RawMessage, error) {
	var in queueInput
	if err := strictjson.DecodeAt("tool_input", c.Input, &in); err != nil {
		return nil, err
	}
	if in.Data == nil {
		in.Data = payloadJSON(c.Payload)
	}
	in.DedupKey = cmp.Or(in.DedupKey, "action:"+c.IdempotencyKey)
	item, duplicate, err := c.engine.Queues().Push(ctx, c.Namespace, c.Tenant, in.Queue, PushOptions{
		Data: in.Data, Priority: in.Priority, Key: in.Key, DedupKey: in.DedupKey, Delay: time.Duration(in.DelayMS) * time.Millisecond,
	})
	if err != nil {
		return nil, err
	}
	return plainjson.Marshal(struct {
		Item      uuid.UUID `json:"item"`
		Duplicate bool      `json:"duplicate"`
	}{item.ID, duplicate})
}

// payloadJSON gives a webhook's body as JSON; nil if it is empty.
func payloadJSON(body []byte) json.RawMessage {
	switch {
	case len(body) == 0:
		return nil
	case strictjson.Check(body) == nil:
		return bytes.Clone(body)
	case !utf8.Valid(body):
		b, _ := json.Marshal(body) // base64: bytes always encode
		return b
	}
	b, _ := plainjson.Marshal(string(body)) // a string always encodes
	return b
}

// PipelineTool starts a pipeline in the action's namespace and tenant: so a
// schedule or a webhook starts a runbook. Its input:
//
//	{"definition": {…}, "inputs": {…}, "payload_as": "", "label": "", "wait": false}
//	{"file": "release.toml", "pipeline": NAME, …}
//
// The second form reads the definition from a file when the action runs, by Load.
// The input that payload_as names gets the body of the webhook that triggered the
// action, as text where it is no JSON. With wait the action ends as the pipeline
// does; where the action is cancelled or its time is up, so is the pipeline. The
// pipeline's id is derived from the occurrence: a repeated run finds the pipeline
// that the first one has started. The result is {"pipeline": ID, "phase": {…}}.
type PipelineTool struct {
	// Load reads a pipeline from a runbook file; the name may be empty where the file
	// has one pipeline only. Nil: there are no files.
	Load func(ctx context.Context, file, pipeline string) (def core.PipelineDef, runbook string, err error)
	// LoadFor is Load for programs whose files depend on the action's namespace and tenant;
	// where there is one, Load is not asked.
	LoadFor func(ctx context.Context, scope Scope, file, pipeline string) (def core.PipelineDef, runbook string, err error)
}

// load reads a pipeline from a file.
func (t PipelineTool) load(ctx context.Context, scope Scope, file, pipeline string) (core.PipelineDef, string, error) {
	if t.LoadFor != nil {
		return t.LoadFor(ctx, scope, file, pipeline)
	}
	return t.Load(ctx, file, pipeline)
}

type pipelineInput struct {
	Definition *core.PipelineDef          `json:"definition"`
	File       string                     `json:"file"`
	Pipeline   string                     `json:"pipeline"`
	Inputs     map[string]json.RawMessage `json:"inputs"`
	PayloadAs  string                     `json:"payload_as"`
	Label      string                     `json:"label"`
	Wait       bool                       `json:"wait"`
}

func (t PipelineTool) decode(raw json.RawMessage) (in pipelineInput, err error) {
	if err := strictjson.DecodeAt("tool_input", raw, &in); err != nil {
		return in, err
	}
	switch {
	case (in.Definition == nil) == (in.File == ""):
		return in, errors.New("tool_input: give either definition or file")
	case in.File != "" && t.Load == nil && t.LoadFor == nil:
		return in, errors.New("tool_input.file: no runbook files can be read here: give definition")
	case in.File == "" && in.Pipeline != "":
		return in, errors.New("tool_input.pipeline: names a pipeline of a file: give file too, or leave it out")
	}
	return in, nil
}

// Starts implements [PipelineStarter].
func (t PipelineTool) Starts(input json.RawMessage) (*PipelineStart, error) {
	in, err := t.decode(input)
	if err != nil {
		return nil, err
	}
	return &PipelineStart{Definition: in.Definition, File: in.File}, nil
}

// with gives the webhook's body to the input that is to have it.
func (in pipelineInput) with(body json.RawMessage) pipelineInput {
	inputs := map[string]json.RawMessage{in.PayloadAs: body}
	maps.Copy(inputs, in.Inputs) // what was given counts
	in.Inputs = inputs
	return in
}

// check refuses an input that is misspelt.
func (in pipelineInput) check(def core.PipelineDef) error {
	return def.CheckInputs("tool_input.inputs", slices.Collect(maps.Keys(in.Inputs)))
}

// StoresInput implements [InputStorer].
func (PipelineTool) StoresInput() {}

// ValidateInput reports what the pipeline would refuse. A file is read when the
// action runs only.
func (t PipelineTool) ValidateInput(raw json.RawMessage) error {
	in, err := t.decode(raw)
	if err != nil || in.Definition == nil {
		return err
	}
	if err := in.Definition.CheckGiven(); err != nil { // before what is large is compiled
		return fmt.Errorf("tool_input.definition: %w", err)
	}
	if in.PayloadAs != "" {
		in = in.with(json.RawMessage("null"))
	}
	if err := in.check(*in.Definition); err != nil {
		return err
	}
	_, effs := core.Pipeline{}.Apply(core.PipelineCreate{Spec: core.PipelineSpec{
		ID: uuid.Max, Label: in.Label, Definition: *in.Definition, Context: in.Inputs,
	}}, core.Clock{Now: effects.MinTime})
	return refusedInput("definition: ", effs)
}

// pipelineSpace is the root of the ids that PipelineTool derives.
var pipelineSpace = uuid.MustParse("0d2c6b83-8f3e-5d0c-9a55-3b6d6d7069e1")

// Run starts the pipeline, and waits for it where it should.
func (t PipelineTool) Run(ctx context.Context, c Call) (json.RawMessage, error) {
	in, err := t.decode(c.Input)
	if err != nil {
		return nil, err
	}
	if body := payloadJSON(c.Payload); in.PayloadAs != "" && body != nil {
		in = in.with(body)
	}
	spec := core.PipelineSpec{
		ID:        uuid.NewSHA1(pipelineSpace, []byte(c.IdempotencyKey)),
		Namespace: c.Namespace, Tenant: c.Tenant, Label: in.Label, Context: in.Inputs,
	}
	if in.Definition != nil {
		spec.Definition = *in.Definition
	} else if spec.Definition, spec.Runbook, err = t.load(ctx, Scope{Namespace: c.Namespace, Tenant: c.Tenant}, in.File, in.Pipeline); err != nil {
		return nil, err
	} else if err := in.check(spec.Definition); err != nil {
		return nil, err
	}
	p, err := t.start(ctx, c, spec)
	if refusedFor(err, effects.CodeExists) { // by a run before this one
		p, err = c.engine.Pipelines().Get(ctx, spec.ID)
	}
	if err == nil && in.Wait {
		p, err = waitOrCancel(ctx, c.engine, spec.ID)
	}
	if err != nil {
		return nil, err
	}
	result, err := plainjson.Marshal(struct {
		Pipeline uuid.UUID  `json:"pipeline"`
		Phase    core.Phase `json:"phase"`
	}{p.ID, p.Phase})
	if in.Wait && p.Phase.Type != core.PhaseDone && err == nil {
		err = fmt.Errorf("pipeline %s is %s: %s", p.ID, p.Phase.Type, cmp.Or(p.Phase.Error, p.Phase.Reason))
	}
	return result, err
}

// start makes the pipeline, unless the tenant has as many as it may have: an action does
// as a machine does, see [Limits.Live].
func (PipelineTool) start(ctx context.Context, c Call, spec core.PipelineSpec) (core.Pipeline, error) {
	if err := c.engine.hasRoom(Scope{Namespace: c.Namespace, Tenant: c.Tenant}, spec.ID); err != nil {
		if p, none := c.engine.Pipelines().Get(ctx, spec.ID); none == nil { // of a run before this one
			return p, nil
		}
		return core.Pipeline{}, err
	}
	return c.engine.Pipelines().Create(ctx, spec)
}

// waitOrCancel waits for a pipeline's end. It is cancelled with the action, but
// goes on where only the engine stops.
func waitOrCancel(ctx context.Context, e *Engine, id uuid.UUID) (core.Pipeline, error) {
	p, err := e.Pipelines().Wait(ctx, id)
	if cause := context.Cause(ctx); errors.Is(cause, ErrCancelled) || errors.Is(cause, ErrTimeLimit) {
		_, tellErr := e.Pipelines().Send(context.WithoutCancel(ctx), id, core.PipelineCancel{Reason: cause.Error()})
		if tellErr != nil && !refusedFor(tellErr, effects.CodeConflict) { // else it has ended
			err = errors.Join(err, tellErr)
		}
	}
	return p, err
}
