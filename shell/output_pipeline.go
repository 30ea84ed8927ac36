package shell

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

// PipelineOutputOptions say what of the output of a pipeline is copied.
type PipelineOutputOptions struct {
	// Phase is the only one whose output is meant; empty: all. One that the pipeline does not have
	// is a [*NoPhaseError].
	Phase string
	// Follow goes on until the pipeline has ended.
	Follow bool
	// Sees says which of the actions count; nil: all.
	Sees func(core.Action) bool
}

// NoPhaseError says that a pipeline does not have a phase.
type NoPhaseError struct {
	Phase string
	Known []string // those that it has
}

// Error names the phases that there are.
func (e *NoPhaseError) Error() string {
	return fmt.Sprintf("phase %q does not exist: use one of %s", e.Phase, strings.Join(e.Known, ", "))
}

// CopyPipelineOutput copies what the actions of a pipeline have written to w, in the order in which they
// were made: those that its phases were, and those that strategies of phases have tried. A line
// "==> PHASE, attempt 2 <==" stands before what each has written, and nothing of what has written
// nothing. The error wraps [ErrNotFound] if there is no such pipeline, and [ErrNoOutput] if nothing was
// written, and nothing more will be.
func (e *Engine) CopyPipelineOutput(ctx context.Context, id uuid.UUID, o PipelineOutputOptions, w io.Writer) error {
	p, err := e.Pipelines().Get(ctx, id)
	if err != nil {
		return err
	}
	r := &pipelineReader{e: e, o: o, p: p, text: &outputText{w: w}, from: p.CreatedAt, known: make(map[uuid.UUID]bool), attempts: make(map[string]int)}
	if err := r.checkPhase(); err != nil {
		return err
	}
	changes := e.Changes(concernsPipeline(id)) // what changes after this is heard of
	defer changes.Close()
	for {
		found, err := r.copyNew(ctx)
		switch {
		case err != nil:
			return err
		case found: // others may have begun meanwhile
		case o.Follow && !r.p.Phase.Type.Ended():
			if err := awaitMore(ctx, e, pipelinePoll, nil, changes.C); err != nil {
				return err
			}
		case r.wrote:
			return nil
		default:
			return noOutputError("none of its actions has written anything")
		}
		if r.p, err = e.Pipelines().Get(ctx, id); err != nil {
			return err
		}
	}
}

// pipelinePoll is how often a reader of a pipeline looks by itself: another engine may run it.
const pipelinePoll = 5 * time.Second

// pipelineReader copies the output of one pipeline for one reader.
type pipelineReader struct {
	e        *Engine
	o        PipelineOutputOptions
	p        core.Pipeline
	text     *outputText
	from     core.Time          // actions that were made before are known
	known    map[uuid.UUID]bool // actions that were copied, or do not count
	attempts map[string]int     // how many actions there were, by what a line calls them
	wrote    bool
}

func (r *pipelineReader) checkPhase() error {
	if r.o.Phase == "" {
		return nil
	}
	known := make([]string, 0, len(r.p.Definition.Phases))
	for _, d := range r.p.Definition.Phases {
		known = append(known, d.Name)
	}
	if !slices.Contains(known, r.o.Phase) {
		return &NoPhaseError{Phase: r.o.Phase, Known: known}
	}
	return nil
}

// concernsPipeline reports of a machine whether with a change of it the pipeline may have another action.
func concernsPipeline(id uuid.UUID) func(core.State) bool {
	return func(s core.State) bool {
		switch s := s.(type) {
		case core.Pipeline:
			return s.ID == id
		case core.Strategy:
			return s.PipelineID == id
		}
		return false
	}
}

// copyNew copies the outputs of the actions that are not known yet; found: there were some.
func (r *pipelineReader) copyNew(ctx context.Context) (found bool, err error) {
	owners, err := r.owners(ctx)
	if err != nil {
		return false, err
	}
	to := core.Time(0)
	if r.p.Phase.Type.Ended() && !r.p.FinishedAt.IsZero() {
		to = r.p.FinishedAt + 1
	}
	for token := ""; ; {
		list, next, err := r.e.Actions().List(ctx, ActionFilter{Scope: &Scope{Namespace: r.p.Namespace, Tenant: r.p.Tenant}}, Page{
			Token: token, Limit: MaxPage, From: r.from, To: to, OldestFirst: true,
		})
		if err != nil {
			return found, err
		}
		for _, a := range list {
			if !r.isNew(a) {
				continue
			}
			if !owners[a.Owner.Ref] || r.o.Sees != nil && !r.o.Sees(a) {
				continue
			}
			found = true
			if err := r.copyOne(ctx, a); err != nil {
				return found, err
			}
		}
		if token = next; token == "" {
			return found, nil
		}
	}
}

// isNew reports whether an action was not seen before, and notes it.
func (r *pipelineReader) isNew(a core.Action) bool {
	if r.known[a.ID] {
		return false
	}
	if a.CreatedAt > r.from { // what was made before cannot come again
		clear(r.known)
		r.from = a.CreatedAt
	}
	r.known[a.ID] = true
	return true
}

// owners gives the machines whose actions count: the pipeline, and the strategies of its phases.
func (r *pipelineReader) owners(ctx context.Context) (map[effects.Ref]bool, error) {
	owners := map[effects.Ref]bool{r.p.Ref(): true}
	if !slices.ContainsFunc(r.p.Definition.Phases, func(d core.PhaseDef) bool { return d.Strategy != nil }) {
		return owners, nil
	}
	for token := ""; ; {
		list, next, err := r.e.Strategies().List(ctx, MachineFilter{Scope: &Scope{Namespace: r.p.Namespace, Tenant: r.p.Tenant}}, Page{
			Token: token, Limit: MaxPage, From: r.p.CreatedAt, OldestFirst: true,
		})
		if err != nil {
			return nil, err
		}
		for _, s := range list {
			if s.PipelineID == r.p.ID {
				owners[s.Ref()] = true
			}
		}
		if token = next; token == "" {
			return owners, nil
		}
	}
}

// copyOne copies what one action has written, below a line that names the phase that it works for, and
// the approach of a strategy: its label does.
func (r *pipelineReader) copyOne(ctx context.Context, a core.Action) error {
	name := strings.TrimPrefix(a.Label, r.p.Definition.Name+"/")
	r.attempts[name]++
	if r.o.Phase != "" && name != r.o.Phase && !strings.HasPrefix(name, r.o.Phase+": ") {
		return nil
	}
	line := "==> " + name + " <=="
	if n := r.attempts[name]; n > 1 {
		line = fmt.Sprintf("==> %s, attempt %d <==", name, n)
	}
	named := &namedOutput{text: r.text, line: line}
	err := r.e.Actions().CopyOutput(ctx, a.ID, OutputOptions{Follow: r.o.Follow}, named)
	r.wrote = r.wrote || named.begun
	if errors.Is(err, ErrNoOutput) || errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}

// namedOutput writes a line before the first of what is written to it.
type namedOutput struct {
	text  *outputText
	line  string
	begun bool
}

// Write implements [io.Writer].
func (n *namedOutput) Write(p []byte) (int, error) {
	if !n.begun {
		n.begun = true
		if err := n.text.line("%s", n.line); err != nil {
			return 0, err
		}
	}
	if err := n.text.put(p); err != nil {
		return 0, err
	}
	return len(p), nil
}
