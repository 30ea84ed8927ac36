package effects

import (
	"encoding/json"

	"github.com/google/uuid"
)

// Effect is something that a transition asks for. The set is closed.
//
//sumtype:decl
type Effect interface {
	effect()
}

// Inner is an effect that stays in the system: it is carried out in the
// transaction that commits the transition.
type Inner interface {
	Effect
	inner()
}

// Outer is an effect that leaves the process: it is committed to the outbox
// with the state, then carried out, then answered by an event to the machine
// that asked for it.
type Outer interface {
	Effect
	// Number tells the outer effects of one machine apart. It only grows.
	Number() uint32
	// WithNumber gives the same effect under another number.
	WithNumber(n uint32) Outer
	// Lane is the queue in which the effect waits for a free interpreter: lanes
	// do not delay one another.
	Lane() string
	// Repeatable reports whether the effect may be carried out once more while nobody
	// knows how far the first time came, nor whether what that has begun still goes on:
	// then it need not wait until its holder is certainly gone.
	Repeatable() bool
	// AppendJSON appends the stored form, an object whose "type" tells which
	// effect it is.
	AppendJSON(b []byte) []byte
}

// Message is an event for a machine, as package core defines them. It is
// opaque here, since core stands above this package.
type Message interface {
	// EventType is the event's JSON discriminator.
	EventType() string
}

// Send delivers an event to another machine, or to one that does not exist yet,
// in the same transaction (inner).
type Send struct {
	To    Ref
	Event Message
}

// Emit announces something on the event bus (inner). The kernel gives the
// event its id and time.
type Emit struct {
	Event Event
}

// Withdraw takes back an outer effect of the same machine that was not
// answered (inner): its outbox entry goes in the same transaction, and where
// it is being carried out, that is cancelled after the commit. An answer that
// comes all the same is refused by the machine.
type Withdraw struct {
	N uint32
	// Kill says that the interpreter is to end it without the time that it is given otherwise to
	// end by itself.
	Kill bool
}

// Stop asks an outer effect of the same machine to end soon (inner), and keeps it: it is
// cancelled after the commit, and its answer is delivered as any other. An effect that was not
// begun is handed back at once. What an interpreter does not stop is left behind after a while,
// and answered as failed.
type Stop struct {
	N uint32
}

// Refused says that an event changed nothing, and why (R14; inner). It is
// answered to whoever sent the event.
type Refused struct {
	To     Ref
	Event  string // the event's type
	Code   Code
	Reason string // names the field, the value and what would be right
}

// Code classes refusals for callers that decide on them.
type Code string

// Codes of [Refused].
const (
	CodeInvalid  Code = "invalid"   // the event itself is wrong, and always will be
	CodeNotFound Code = "not_found" // the machine does not exist
	CodeExists   Code = "exists"    // the machine exists already
	CodeConflict Code = "conflict"  // not in the machine's present state
	CodeEmpty    Code = "empty"     // nothing is there to be taken at the moment
	CodeLimited  Code = "limited"   // the tenant has as many as its limit allows at the moment
	CodeStale    Code = "stale"     // the machine has not the revision that was asked for
	// CodeElsewhere: the tenant lives in another partition, whose engine has to be asked.
	CodeElsewhere Code = "elsewhere"
)

// Error makes a refusal usable as an error.
func (r *Refused) Error() string { return r.Reason }

// RunTool asks for a run of an action's tool (outer). What the tool is given is
// read from the action, whose input never changes.
type RunTool struct {
	Run  uint32 `json:"run"`  // counts the runs of the action; the answer carries it
	Tool string `json:"tool"` // the tool's name
}

func (Send) effect()     {}
func (Send) inner()      {}
func (Emit) effect()     {}
func (Emit) inner()      {}
func (Withdraw) effect() {}
func (Withdraw) inner()  {}
func (Stop) effect()     {}
func (Stop) inner()      {}
func (Refused) effect()  {}
func (Refused) inner()   {}

// Event is what a machine announces on the event bus (003 Event).
type Event struct {
	ID        uuid.UUID       `json:"id"` // derived from the number of the journal's entry and the event's index in the batch
	Kind      EventKind       `json:"kind"`
	Timestamp Time            `json:"timestamp"`
	Source    EventSource     `json:"source"`
	Data      json.RawMessage `json:"data,omitempty"`
}

// EventKind says what happened, as category and action: {"action",
// "completed"} reads "action:completed" (003 EventKind).
type EventKind struct {
	Category string `json:"category"`
	Action   string `json:"action"`
}

// String gives "category:action".
func (k EventKind) String() string { return k.Category + ":" + k.Action }

// EventSource says which machine announced an event (003 EventSource).
type EventSource struct {
	Component string    `json:"component"`
	ID        uuid.UUID `json:"id"`
}
