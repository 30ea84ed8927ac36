package core

import (
	"encoding/json"
	"fmt"
	"maps"

	"github.com/orrery-go/orrery/effects/texts"
)

// put gives a value of the context a name, unless the context would become too long
// or too deep.
func (t *pipelineTransition) put(name string, v json.RawMessage) bool {
	context := withValue(t.Context, name, v)
	if contextSize(context) > t.Definition.contextLimit() || tooDeep(v) {
		return false
	}
	t.Context = context
	t.values = append(t.values, name)
	return true
}

// putResult puts the result of a phase that is done into the context: the phase fails if
// there is no room for it.
func (t *pipelineTransition) putResult(d PhaseDef, o outcome) outcome {
	if o.err != "" {
		return o
	}
	if o.result == nil {
		o.result = json.RawMessage("null")
	}
	if !t.put(d.output(), o.result) {
		o.err = fmt.Sprintf("the result of %d bytes would make the context longer than %d, or is nested deeper than %d levels", len(o.result), t.Definition.contextLimit(), MaxJSONDepth)
		o.final, o.result = true, nil
	}
	return o
}

// putFailure lets later phases see how this one failed.
func (t *pipelineTransition) putFailure(d PhaseDef, o outcome) {
	w := begin(nil)
	w.str("error", texts.Bound(o.err, maxHistoryReasonBytes))
	if len(o.result) > 0 {
		w.raw("result", o.result)
	}
	if !t.put(d.output(), canonical(w.end())) {
		t.put(d.output(), json.RawMessage("null"))
	}
}

// set puts the values of a phase into the context: all of them or none.
func (t *pipelineTransition) set(d SetPhase) outcome {
	before := t.Context
	for _, name := range sortedKeys(d.Values) {
		if v := d.Values[name]; !storable(v) || !t.put(name, canonical(v)) {
			t.Context = before
			return outcome{err: fmt.Sprintf("set.values.%s: the context would be longer than %d bytes, or nested too deeply", clip(name), t.Definition.contextLimit()), final: true}
		}
	}
	return outcome{}
}

// scope is what the references of the running phase can see.
func (t *pipelineTransition) scope() scope {
	phase := begin(nil)
	phase.str("name", t.Phase.Name)
	phase.num("attempt", uint64(t.Attempt))
	return scope{context: t.Context, system: map[string]json.RawMessage{
		systemPipeline: announcementTexts("id", t.ID.String(), "name", t.Definition.Name),
		systemPhase:    phase.end(),
	}}
}

// withValue gives a context with one more value.
func withValue(context map[string]json.RawMessage, name string, v json.RawMessage) map[string]json.RawMessage {
	out := make(map[string]json.RawMessage, len(context)+1)
	maps.Copy(out, context)
	out[name] = v
	return out
}

// contextSize is what counts for the limit: the bytes of all names and values.
func contextSize(context map[string]json.RawMessage) int {
	n := 0
	// order-free: a sum
	for name, v := range context {
		n += len(name) + len(v)
	}
	return n
}
