package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/orrery-go/orrery/shell"
)

// tool has a tool of a process run when that is picked, and return when that is.
type tool struct {
	*run
	of    *incarnation
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
	over := t.of.leaving
	if !over {
		t.calls = append(t.calls, called{c.IdempotencyKey, c.ActionID.String(), c.Attempt, t.of.handle.heard, t.steps})
	}
	t.mu.Unlock()
	if over {
		return nil, errors.New("the run is over")
	}
	t.log("%s is called", name)
	if s, ok := t.inner.(Script); ok {
		if d, early := s.Takes(c); d > 0 {
			if !early {
				ended = nil
			}
			t.of.park(t.of, name+" works", d, ended)
		}
	}
	t.of.park(t.of, name+" returns", 0, nil)
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	return t.inner.Run(ctx, c)
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
