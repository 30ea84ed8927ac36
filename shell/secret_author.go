package shell

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/secrets"
)

// A pipeline fills references "${…}" in before it makes an action. Who gave the values is
// not who wrote the definition, so a value must not be able to ask for a secret. The rule:
// an action that a pipeline made has secrets only if its input refers to the same secrets,
// in the same order and as often, as the input that the definition has for the very run
// that made the action. Filling in leaves the author's own references as they are, so that
// one more, wherever it stands, is one that came with a value, and refuses the run.
//
// The rule does not say where a secret goes: that is what the author wrote around it, with
// the values that the author let in there.

// wholeInput is all of an input, as the part of it in which references count.
func wholeInput(input json.RawMessage) json.RawMessage { return input }

// definitionOf is the definition within an input of the tool that starts pipelines.
func definitionOf(input json.RawMessage) json.RawMessage {
	var members map[string]json.RawMessage
	if json.Unmarshal(input, &members) != nil {
		return nil
	}
	return members["definition"]
}

// checkAuthor refuses the names of secrets to which that part of an action's input refers
// if not all of them were written by the author of what made the action.
func (e *Engine) checkAuthor(ctx context.Context, a *core.Action, names []string, part func(json.RawMessage) json.RawMessage) error {
	if a.Owner.IsZero() || a.Owner.Ref.Kind == core.KindRecurring {
		return nil // nothing was filled in
	}
	run, err := e.authored(ctx, a)
	if err != nil || run == nil {
		return err
	}
	written, err := secrets.Names(part(run.Input))
	switch {
	case err != nil:
		return Permanent(fmt.Errorf("tool_input: as the definition has it: %w", err))
	case !slices.Equal(written, names):
		return Permanent(fmt.Errorf("tool_input: it refers to the secrets %q, and as the definition has it to %q: a value that is filled in may not refer to secrets", names, written))
	case run.Tool != a.ToolName:
		return Permanent(fmt.Errorf("tool_input: secret %q: the name of the tool is filled in: write %q instead of %q", names[0], a.ToolName, run.Tool))
	}
	return nil
}

// checkStarted refuses the definition of a pipeline that an action is about to start if
// there are references to secrets in it that came with a value.
func (e *Engine) checkStarted(ctx context.Context, a *core.Action, tool Tool) error {
	if _, starts := tool.(PipelineStarter); !starts || e.o.Secrets == nil || a.Owner.IsZero() || a.Owner.Ref.Kind == core.KindRecurring {
		return nil
	}
	names, err := secrets.Names(definitionOf(a.ToolInput))
	if err != nil {
		return Permanent(fmt.Errorf("tool_input.definition: %w", err))
	}
	if len(names) == 0 {
		return nil
	}
	return e.checkAuthor(ctx, a, names, definitionOf)
}

// authored gives the run that made an action as its author wrote it; nil if nothing was
// filled in since.
func (e *Engine) authored(ctx context.Context, a *core.Action) (*core.ToolRun, error) {
	made, owner := a.Ref(), a.Owner
	s, err := e.maker(ctx, owner)
	if err != nil {
		return nil, err
	}
	approach := -1
	if strategy, ok := s.(core.Strategy); ok {
		switch {
		case strategy.Child != made:
			return nil, notItsRun(owner)
		case strategy.Owner.IsZero():
			return nil, nil //nolint:nilnil // its approaches are as they were given
		}
		approach = int(strategy.Current)
		made, owner = owner.Ref, strategy.Owner
		if s, err = e.maker(ctx, owner); err != nil {
			return nil, err
		}
	}
	p, ok := s.(core.Pipeline)
	if !ok {
		return nil, Permanent(fmt.Errorf("tool_input: an action that %s made cannot have secrets", owner.Ref))
	}
	run := runOf(p, made, approach)
	if run == nil {
		return nil, notItsRun(owner)
	}
	return run, nil
}

// notItsRun refuses an action that nothing waits for any more, or never did.
func notItsRun(owner core.Owner) error {
	return Permanent(fmt.Errorf("tool_input: %s has no run that waits for this action: it cannot have secrets", owner.Ref))
}

// maker gives the machine that made an action, or made what made it.
func (e *Engine) maker(ctx context.Context, owner core.Owner) (core.State, error) {
	s, err := e.loop.Read(ctx, owner.Ref)
	if err != nil {
		return nil, fmt.Errorf("tool_input: who made this action cannot be read: %w", err)
	}
	return s, nil
}

// runOf gives the run with which the present phase of a pipeline made an action, or that
// approach of the strategy that the phase made; nil if the phase does not wait for it.
func runOf(p core.Pipeline, made effects.Ref, approach int) *core.ToolRun {
	waits := slices.ContainsFunc(p.Waiting.Children, func(c core.Awaited) bool { return c.Own && !c.Ended && c.Ref == made })
	at := slices.IndexFunc(p.Definition.Phases, func(d core.PhaseDef) bool { return d.Name == p.Phase.Name })
	if !waits || at < 0 {
		return nil
	}
	d := p.Definition.Phases[at]
	switch {
	case approach < 0:
		return d.Run
	case d.Strategy != nil && approach < len(d.Strategy.Approaches):
		return d.Strategy.Approaches[approach].Action.Command
	}
	return nil
}
