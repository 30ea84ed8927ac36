package core

import (
	"crypto/sha1" //nolint:gosec // UUID version 5 is made of it
	"encoding/binary"
	"fmt"
	"strconv"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
)

// Version names the behaviour of this package. It is journaled with each batch,
// so that a replay by a build with other rules can say where they part.
const Version = "16"

// Time is an instant; see [effects.Time].
type Time = effects.Time

// Clock is the one instant at which a transition happens. The shell reads the
// time once per batch and journals it.
type Clock struct {
	Now Time
	// Step is the logical time: it numbers the inputs of a journal, and is never
	// the same for two of them, whatever the clock on the wall does. The [Batch]
	// sets it; it is 0 outside of one.
	Step uint64
	// Rules are the rules by which the transition is decided; 0: those of this build.
	// A replay gives those of the build that decided first, see [RulesOf].
	Rules Rules
}

// Rules number the behaviours that this package has had: the [Version] of a build
// names its own. What an earlier build decided is decided as it did in a replay.
type Rules uint8

// RulesOf gives the rules of a build by its [Version], as the journal has it; 0, those
// of this build, where it names none that this build knows.
func RulesOf(version string) Rules {
	n, err := strconv.ParseUint(version, 10, 8)
	if err != nil {
		return 0
	}
	return Rules(n)
}

// before reports whether a build decided whose rules are older than these.
func (r Rules) before(than Rules) bool { return r != 0 && r < than }

// Event is an input of a machine. Each machine has a closed set of its own, in
// a sealed interface such as [ActionEvent].
type Event interface {
	effects.Message
}

// State is the state of one machine of any kind, as the batch and the shell see it.
// Each machine's state implements it, and so do the records that a [Queue] keeps
// beside its own; the table of kinds names them all.
type State interface {
	// Ref names the machine; the zero Ref where it does not exist.
	Ref() effects.Ref
	// Deadline is when the machine next needs waking by its due event; zero
	// where it does not wait (A6).
	Deadline() Time
	// Terms are the list indexes in which the machine stands.
	Terms() []effects.Term
	// AppendJSON appends the stored form.
	AppendJSON(b []byte) []byte
}

// refOf names a machine of that kind; the zero Ref where it does not exist.
func refOf(kind effects.Kind, id uuid.UUID) effects.Ref {
	if id == uuid.Nil {
		return effects.Ref{}
	}
	return effects.Ref{Kind: kind, ID: id}
}

// idSpace is the root of all derived ids.
var idSpace = uuid.MustParse("6f727265-7279-5f67-8f2d-6f7272657279")

// ChildID derives the id of what a machine makes: UUID version 5 of the parent's
// id, a role, the [Clock]'s step and a counter in the parent's state. A replay
// makes the same one. No other input of the journal does, since none has the same
// step: not even one to a parent that was deleted and made again under its id,
// whose counter begins again.
func ChildID(parent uuid.UUID, role string, step, n uint64) uuid.UUID {
	b := make([]byte, 0, 48)
	b = append(b, parent[:]...)
	b = append(b, role...)
	b = binary.BigEndian.AppendUint64(b, step)
	b = binary.BigEndian.AppendUint64(b, n)
	return uuid.NewSHA1(idSpace, b)
}

// namedID derives the id of a machine that is known by its name within a tenant.
// The parts are the role, namespace, tenant and name.
func namedID(parts ...string) uuid.UUID {
	b := make([]byte, 0, 128)
	for _, part := range parts {
		b = append(append(b, part...), 0x1f)
	}
	return hashID(b[:len(b)-1])
}

// hashID is uuid.NewSHA1 in our space, without its allocations: queues and the bus
// derive such ids with each event.
func hashID(name []byte) uuid.UUID {
	var buf [256]byte
	sum := sha1.Sum(append(append(buf[:0], idSpace[:]...), name...)) //nolint:gosec // UUID version 5 is made of it
	id := uuid.UUID(sum[:16])
	id[6] = id[6]&0x0f | 0x50
	id[8] = id[8]&0x3f | 0x80
	return id
}

// refused is the whole answer to an event that changes nothing.
func refused(to effects.Ref, e Event, code effects.Code, format string, args ...any) []effects.Effect {
	return []effects.Effect{effects.Refused{To: to, Event: e.EventType(), Code: code, Reason: fmt.Sprintf(format, args...)}}
}
