package core

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"
)

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
	Hold       bool                       `json:"hold"`       // wait for [PipelineStart] instead of starting at once
}

// normal gives the spec as it reads after one way through the journal, so that a
// replay sees the same, with the defaults of the inputs.
func (s PipelineSpec) normal() (PipelineSpec, error) {
	if err := errors.Join(checkName("namespace", s.Namespace, false), checkName("tenant", s.Tenant, false),
		checkName("runbook", s.Runbook, false), checkText("label", s.Label)); err != nil {
		return s, err
	}
	out, err := throughJSON(s)
	if err != nil {
		return s, fmt.Errorf("definition and context: %w", err)
	}
	for _, in := range out.Definition.Inputs {
		if _, given := out.Context[in.Name]; !given && len(in.Default) > 0 {
			out.Context = withValue(out.Context, in.Name, in.Default)
		}
	}
	out.Context, out.DependsOn = nilIfEmpty(out.Context, len(out.Context)), nilIfEmpty(out.DependsOn, len(out.DependsOn))
	return out, nil
}

// checked gives the spec in its normal form, and tells what is wrong with it.
func (s PipelineSpec) checked() (PipelineSpec, error) {
	spec, err := s.normal()
	if err == nil {
		err = spec.validate()
	}
	return spec, err
}

// throughJSON gives a value as it reads after one way through JSON, and an error
// where it is not the same after another.
func throughJSON[T any](v T) (T, error) {
	var out T
	b, err := json.Marshal(v)
	if err != nil {
		return v, err
	}
	if err := json.Unmarshal(b, &out); err != nil {
		return v, err
	}
	if second, err := json.Marshal(out); err != nil || !bytes.Equal(b, second) {
		return v, errors.New("a text is not valid UTF-8")
	}
	return out, nil
}

// validate tells what is wrong with a spec in its normal form.
func (s PipelineSpec) validate() error {
	if s.ID == uuid.Nil {
		return errors.New("id: must be a UUID that is not all zeros")
	}
	if err := checkDefinition("definition", s.Definition); err != nil {
		return err
	}
	if n := len(s.DependsOn); n > MaxDependencies {
		return fmt.Errorf("depends_on: %d pipelines are more than %d", n, MaxDependencies)
	}
	for i, id := range s.DependsOn {
		if id == uuid.Nil || id == s.ID || slices.Contains(s.DependsOn[:i], id) {
			return fmt.Errorf("depends_on[%d]: %s is no id, this pipeline's own, or there twice", i, id)
		}
	}
	for _, name := range sortedKeys(s.Context) {
		if err := checkJSON("context."+name, s.Context[name], MaxContextLimit); err != nil {
			return err
		}
	}
	for _, in := range s.Definition.Inputs {
		if _, given := s.Context[in.Name]; in.Required && !given {
			return fmt.Errorf("context.%s: the input is missing", in.Name)
		}
	}
	if n, most := contextSize(s.Context), s.Definition.contextLimit(); n > most {
		return fmt.Errorf("context: %d bytes are more than %d", n, most)
	}
	return errors.Join(checkScope(s.Namespace, s.Tenant), checkContextNames("context", s.Context),
		s.Definition.ValidateWith(sortedKeys(s.Context)...))
}

// checkDefinition bounds the size and the depth of a definition's JSON.
func checkDefinition(field string, definition any) error {
	b, err := json.Marshal(definition)
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", field, err)
	case len(b) > MaxDefinitionBytes:
		return fmt.Errorf("%s: %d bytes of JSON are more than %d", field, len(b), MaxDefinitionBytes)
	case tooDeep(b):
		return fmt.Errorf("%s: nested deeper than %d levels", field, MaxJSONDepth)
	}
	return nil
}
