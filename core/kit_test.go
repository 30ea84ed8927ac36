package core_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	_ "github.com/orrery-go/orrery/effects/seedtest"
)

// kit is what the tests of all machines need to know of one kind.
type kit struct {
	typ        string // the Go type whose doc comment lists the invariants
	absent     core.State
	apply      func(core.State, core.Event, core.Clock) (core.State, []effects.Effect)
	made       func() core.State                                 // one that exists
	hostile    func(*rapid.T) core.State                         // one that no sequence of events leads to
	draw       func(*rapid.T, core.State, core.Clock) core.Event // any event, mostly a sensible one
	own        core.Event                                        // one that every other machine refuses
	states     func() []core.State                               // for the golden file
	events     func() []core.Event                               // for the golden file: at least one of each type
	phase      func(core.State) string                           // of a state that exists, as the diagram names it
	phases     []string                                          // all of the diagram, "absent" included
	invariants []invariant                                       // in the order of the doc comment
}

var kits = map[effects.Kind]kit{}

// register adds a machine to all that is tested of every machine.
func register(kind effects.Kind, k kit) struct{} {
	kits[kind] = k
	kinds = append(kinds, kind)
	invariants[kind] = k.invariants
	phases[kind] = k.phases
	return struct{}{}
}

// applying makes a kit's apply of a machine's own.
func applying[S core.State, E core.Event](apply func(S, E, core.Clock) (S, []effects.Effect)) func(core.State, core.Event, core.Clock) (core.State, []effects.Effect) {
	return func(s core.State, e core.Event, c core.Clock) (core.State, []effects.Effect) {
		return apply(s.(S), e.(E), c)
	}
}

func kitOf(kind effects.Kind) kit {
	k, ok := kits[kind]
	if !ok {
		panic(fmt.Sprintf("unknown kind %q", kind))
	}
	return k
}

// kindOf gives the kind of a state, also of one that does not exist.
func kindOf(s core.State) effects.Kind {
	for kind, k := range kits {
		if fmt.Sprintf("%T", k.absent) == fmt.Sprintf("%T", s) {
			return kind
		}
	}
	panic(fmt.Sprintf("unknown state %T", s))
}

// requireInvalid requires that a creation was refused as invalid, by a reason that says
// what is wrong.
func requireInvalid(t *testing.T, after core.State, effs []effects.Effect, want string) {
	t.Helper()
	require.NotNil(t, refusal(effs))
	assert.Equal(t, effects.CodeInvalid, refusal(effs).Code)
	assert.Contains(t, refusal(effs).Reason, want)
	assert.Less(t, len(refusal(effs).Reason), 500, "a bad value must not flood the log")
	assert.False(t, exists(after))
}

// afterEvents gives what events make of a machine, each of which it must take.
func afterEvents[S core.State, E core.Event](apply func(S, E, core.Clock) (S, []effects.Effect), s S, events ...E) S {
	for _, e := range events {
		var effs []effects.Effect
		if s, effs = apply(s, e, core.Clock{Now: start}); refusal(effs) != nil {
			panic(refusal(effs).Reason)
		}
	}
	return s
}

// changed gives a value with one change.
func changed[T any](v T, change func(*T)) T {
	change(&v)
	return v
}
