package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
)

// A request names other machines in two ways. By a name it means a machine of the caller's own
// namespace and tenant: nothing in it could name another one's, and a token that is bound to
// tools must be allowed what it does with it, see [use]. By an id it could mean anybody's
// machine: such a field is checked here, or may only be given by who is bound to nothing. The
// table of references_internal_test.go has each field of each request.

// maxReferences bounds the pipelines that are looked at to decide one question of a token that
// is bound to tools: what awaits leads on to what awaits.
const maxReferences = 256

// usesAwaits lists what a pipeline waits for: its result comes into the context.
func usesAwaits(field string, d core.PipelineDef, p core.PhaseDef, context given) []use {
	if p.Pipelines == nil {
		return nil
	}
	var out []use
	for i, id := range p.Pipelines.Await {
		out = append(out, use{field: fmt.Sprintf("%s.pipelines.await[%d]", field, i), await: id, ownChild: startedBy(d, context, id)})
	}
	return out
}

// contextOf gives the values of a context that is known.
func contextOf(values map[string]json.RawMessage) given {
	if values == nil {
		return given{}
	}
	return values
}

var wholeReference = regexp.MustCompile(`^\$\{([^.{}$]+)(\.\d{1,4})?\}$`)

// startedBy reports whether a text is a reference that can only stand for the ids of pipelines
// that an earlier phase of the definition has started: no other phase, and nobody from outside,
// gives the context that name.
func startedBy(d core.PipelineDef, context given, text string) bool {
	m := wholeReference.FindStringSubmatch(text)
	if m == nil || context == nil {
		return false
	}
	if _, ok := context[m[1]]; ok || slices.ContainsFunc(d.Inputs, func(in core.InputDef) bool { return in.Name == m[1] }) {
		return false
	}
	starts := 0
	for _, p := range d.Phases {
		if p.Set != nil {
			if _, ok := p.Set.Values[m[1]]; ok {
				return false
			}
		}
		name := p.Output
		if name == "" {
			name = p.Name
		}
		if name != m[1] {
			continue
		}
		if p.Pipelines == nil || len(p.Pipelines.Start) == 0 || p.Pipelines.Wait {
			return false
		}
		starts++
	}
	return starts == 1
}

// mayAwait is about the result of another pipeline: a token that is bound to tools gets it only
// if the pipeline exists for the holder. Who is not bound to tools may wait for each pipeline of
// the tenant; the machines see to that.
func (a asking) mayAwait(ctx context.Context, u use) error {
	if len(a.token.Tools) == 0 || u.ownChild {
		return nil
	}
	a.rights = false // it is the list of tools that says what the token sees
	if strings.Contains(u.await, "${") {
		return a.cannotTell(u.field, "which pipeline the reference stands for: write its id out, or refer to a phase that starts pipelines and does not wait")
	}
	id, err := parseID(u.await)
	if err != nil {
		return nil //nolint:nilerr // the machine says what is wrong with it
	}
	return a.mayRead(ctx, u.field, id)
}

// mayRead is about what is known of a pipeline. One that does not exist, and one that the holder
// does not see, are refused in the same words.
func (a asking) mayRead(ctx context.Context, field string, id uuid.UUID) error {
	key := pipelineKey(id)
	if a.seen[key] {
		return nil
	}
	a.seen[key] = true
	if len(a.seen) > maxReferences {
		return failf(http.StatusForbidden, "%s: more than %d pipelines and jobs would have to be looked at", field, maxReferences)
	}
	missing := failf(http.StatusBadRequest, "%s: pipeline %s not found", field, id)
	p, err := a.s.engine.Pipelines().Get(ctx, id)
	switch {
	case errors.Is(err, shell.ErrNotFound) && a.seeing:
		return nil // it was looked at when the pipeline was made, and has been forgotten
	case errors.Is(err, shell.ErrNotFound):
		return missing
	case err != nil:
		return err
	case !a.token.seesScope(p.Namespace, p.Tenant):
		return missing
	}
	sub := a
	sub.scope, sub.seeing, sub.rights = shell.Scope{Namespace: p.Namespace, Tenant: p.Tenant}, true, false
	if sub.maySeePipeline(ctx, p) != nil {
		return missing
	}
	return nil
}

// maySeePipeline reports why a pipeline does not exist for the holder: they could not have
// started it, with what it depends on.
func (a asking) maySeePipeline(ctx context.Context, p core.Pipeline) error {
	a.seen[pipelineKey(p.ID)] = true
	if err := a.may(ctx, usesOf("definition", p.Definition, given{})); err != nil || !a.bound() {
		return err
	}
	for i, id := range p.DependsOn {
		if err := a.mayRead(ctx, fmt.Sprintf("depends_on[%d]", i), id); err != nil {
			return err
		}
	}
	return nil
}

// pipelineKey is the key of a pipeline among the jobs that were looked at: no id of a job has a
// control character.
func pipelineKey(id uuid.UUID) string { return "\x00" + id.String() }
