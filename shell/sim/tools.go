package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
)

// tool has a tool of a process run when that is picked, and return when that is.
type tool struct {
	*run
	of    *unit
	inner shell.Tool
}

// called is one call of a tool.
type called struct {
	key, action string
	attempt     uint32
	launched    int // the step at which its process last heard of the store
	step        int
}

// Run implements [shell.Tool].
func (t *tool) Run(ctx context.Context, c shell.Call) (json.RawMessage, error) {
	name := fmt.Sprintf("%s tool %s %s/%d", t.of.name, c.Tool, c.IdempotencyKey, c.Attempt)
	ended := func() bool { return ctx.Err() != nil }
	t.mu.Lock()
	if !t.of.leaving {
		t.calls = append(t.calls, called{c.IdempotencyKey, c.ActionID.String(), c.Attempt, t.of.handle.heard, t.steps})
	}
	t.mu.Unlock()
	t.log("%s is called", name)
	defer t.of.begins(ctx, name)()
	d, early := time.Duration(0), true
	if s, ok := t.inner.(Script); ok {
		d, early = s.Takes(c)
	}
	if !early {
		ended = nil
	}
	t.of.parks(name+" works", d, ended)
	if err := t.goneOr(ctx); err != nil {
		return nil, err
	}
	result, err := t.inner.Run(ctx, c)
	t.of.parks(name+" returns", 0, nil)
	return result, err
}

// begins notes that a tool of an engine runs, until who calls what it returns. Those that were told to end may have been left behind, with their slots given back.
func (u *unit) begins(ctx context.Context, name string) (ends func()) {
	r := u.handle.db.run
	r.mu.Lock()
	defer r.mu.Unlock()
	u.at = append(u.at, ctx)
	at := 0
	for _, c := range u.at {
		if c.Err() == nil {
			at++
		}
	}
	if at > r.places && r.o.Engine == nil {
		r.crowded = append(r.crowded, fmt.Sprintf("%s is called beside %d others, of %d slots", name, at-1, r.places))
	}
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		u.at = slices.DeleteFunc(u.at, func(c context.Context) bool { return c == ctx })
	}
}

var errOver = errors.New("the run is over")

// goneOr gives why a call does nothing any more: the run is over, or its context has ended.
func (t *tool) goneOr(ctx context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.of.leaving {
		return errOver
	}
	return context.Cause(ctx)
}

// ValidateInput implements [shell.InputValidator].
func (t *tool) ValidateInput(input json.RawMessage) error {
	if v, ok := t.inner.(shell.InputValidator); ok {
		return v.ValidateInput(input)
	}
	return nil
}

// interpreter has the effects of a lane carried out when that is picked.
type interpreter struct {
	of    *unit
	inner shell.Interpreter
}

// Carry implements [shell.Interpreter].
func (i *interpreter) Carry(ctx context.Context, ref effects.Ref, e effects.Outer) (json.RawMessage, error) {
	return i.carry(ctx, ref, e, func() (json.RawMessage, error) { return i.inner.Carry(ctx, ref, e) })
}

// CarryFor implements [shell.StateInterpreter].
func (i *interpreter) CarryFor(ctx context.Context, s core.State, e effects.Outer) (json.RawMessage, error) {
	return i.carry(ctx, s.Ref(), e, func() (json.RawMessage, error) {
		if inner, ok := i.inner.(shell.StateInterpreter); ok {
			return inner.CarryFor(ctx, s, e)
		}
		return i.inner.Carry(ctx, s.Ref(), e)
	})
}

func (i *interpreter) carry(ctx context.Context, ref effects.Ref, e effects.Outer, do func() (json.RawMessage, error)) (json.RawMessage, error) {
	name := fmt.Sprintf("%s effect %T of %s", i.of.name, e, ref)
	i.of.parks(name+" begins", 0, func() bool { return ctx.Err() != nil })
	i.of.mu.Lock()
	over := i.of.leaving
	i.of.mu.Unlock()
	if over {
		return nil, errOver
	}
	result, err := do()
	i.of.parks(name+" ends", 0, nil)
	return result, err
}

// Script is a [shell.Tool] for a simulation that says how long a call takes in virtual time; it is asked before Run, and Run itself must
// not wait. early says that the call returns at once when its context ends.
type Script interface {
	shell.Tool
	Takes(c shell.Call) (d time.Duration, early bool)
}

// script is the tool of Orrery's own workload: it does what its input says.
type script struct{}

// does is the input of a script.
type does struct {
	Does string `json:"does"`
}

func doing(c shell.Call) string {
	var d does
	_ = json.Unmarshal(c.Input, &d)
	return d.Does
}

// Takes implements [Script].
func (script) Takes(c shell.Call) (time.Duration, bool) {
	switch doing(c) {
	case "slow":
		return 15 * time.Second, true
	case "hang":
		return 24 * time.Hour, true
	case "stubborn":
		return 90 * time.Second, false
	}
	return 0, true
}

// Run implements [shell.Tool].
func (script) Run(_ context.Context, c shell.Call) (json.RawMessage, error) {
	switch doing(c) {
	case "fail":
		return nil, errors.New("no luck")
	case "flaky":
		if c.Attempt < 2 {
			return nil, errors.New("no luck yet")
		}
	}
	return json.RawMessage(fmt.Sprintf(`"%s/%d"`, c.IdempotencyKey, c.Attempt)), nil
}
