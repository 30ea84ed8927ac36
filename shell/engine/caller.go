package engine

import (
	"context"

	"github.com/orrery-go/orrery/core"
)

type revisionKey struct{}

// onRevision is the condition that a machine has a revision.
type onRevision struct {
	want  string
	shown func(string) string
}

// WithRevision has what is done under the context refused unless the machine to which it is done has
// that revision ([core.CheckRevision]).
func WithRevision(ctx context.Context, want string, shown func(revision string) string) context.Context {
	return context.WithValue(ctx, revisionKey{}, onRevision{want, shown})
}

// before gives the condition for the machine that an input is for, and then another one unless that is nil.
func (c onRevision) before(in core.Input, other func(core.State) error) func(core.State) error {
	return func(s core.State) error {
		if err := core.CheckRevision(s, in.To, in.Event, c.want, c.shown); err != nil || other == nil {
			return err
		}
		return other(s)
	}
}

type actorKey struct{}

// WithActor names who causes what is done under the context: it is journaled
// with each input.
func WithActor(ctx context.Context, actor string) context.Context {
	return context.WithValue(ctx, actorKey{}, actor)
}

// ActorFrom gives the actor of the context, "embedder" if none was named.
func ActorFrom(ctx context.Context) string {
	if a, ok := ctx.Value(actorKey{}).(string); ok && a != "" {
		return a
	}
	return "embedder"
}
