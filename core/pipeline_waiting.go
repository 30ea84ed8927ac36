package core

import (
	"encoding/json"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
)

// WaitFor says what ends the waiting of a running phase.
type WaitFor string

// What a running phase waits for.
const (
	WaitChild      WaitFor = "child"    // children: an action, a task, a strategy, pipelines, an item
	WaitEffect     WaitFor = "effect"   // the answer to an outer effect
	WaitTime       WaitFor = "time"     // its time
	WaitSignal     WaitFor = "signal"   // a [PipelineSignal]
	WaitApproval   WaitFor = "approval" // a [PipelineApprove]
	WaitManual     WaitFor = "manual"   // [PhaseComplete] or [PhaseFailed]
	WaitHold       WaitFor = "hold"     // a lock or slots
	WaitRegain     WaitFor = "regain"   // locks and slots that it had before it failed
	WaitRetry      WaitFor = "retry"    // the next attempt
	WaitTransition WaitFor = "turn"     // the next transition: this one has run many phases
)

// Waiting says what the running phase waits for.
type Waiting struct {
	For      WaitFor   `json:"for,omitempty"`
	N        uint32    `json:"n,omitempty"`        // the number of the effect, lock or slots
	Name     string    `json:"name,omitempty"`     // of the signal, or what a person is to read
	Children []Awaited `json:"children,omitempty"` // the children, in the order in which they were made
	Until    Time      `json:"until,omitempty"`    // when it goes on by itself
	Deadline Time      `json:"deadline,omitempty"` // when the attempt has taken too long
	Error    string    `json:"error,omitempty"`    // why the last attempt failed
}

// Awaited is another machine whose end is waited for.
type Awaited struct {
	Ref    effects.Ref     `json:"ref"`
	N      uint32          `json:"n,omitempty"`
	Own    bool            `json:"own,omitempty"` // it was made here, and goes where nobody waits for it any more
	Item   uuid.UUID       `json:"item,omitzero"` // of a queue: the one that was pushed, which goes too unless somebody has taken it
	Ended  bool            `json:"ended,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
}

// Signal is one that came before its phase.
type Signal struct {
	Name    string          `json:"name"`
	Payload json.RawMessage `json:"payload,omitempty"`
	At      Time            `json:"at"`
}

// stopWaiting stops whatever the running phase waits for: effects are withdrawn,
// children abandoned, and the waiting for locks ends.
func (t *pipelineTransition) stopWaiting() {
	t.withdraw(&t.Pending)
	t.abandonChildren()
	t.abandonLocks()
	t.Waiting = Waiting{}
}

// abandonChildren stops the waiting for children: those that the pipeline made are
// cancelled, and an item that nobody has taken too.
func (t *pipelineTransition) abandonChildren() {
	for _, child := range t.Waiting.Children {
		if child.Ended {
			continue
		}
		if cancel := cancelEvent(child.Ref.Kind, abandonReason); child.Own && cancel != nil {
			t.send(child.Ref, cancel)
		}
		if child.Item != uuid.Nil {
			t.send(child.Ref, QueueCancelItem{Item: child.Item, Reason: abandonReason})
		}
		t.abandon(child.N)
	}
}

// abandonLocks ends the waiting for locks and slots that were not granted.
func (t *pipelineTransition) abandonLocks() {
	var kept []Hold
	for _, h := range t.Holds {
		if h.Granted {
			kept = append(kept, h)
			continue
		}
		t.release(h)
		if t.Waiting.For == WaitRegain {
			t.noteRegain(h)
		}
	}
	t.Holds = kept
}

// abandon notes that the pipeline will take the end of a child, and do nothing.
func (t *pipelineTransition) abandon(n uint32) {
	if n != 0 {
		t.Abandoned = appendLast(t.Abandoned, maxAbandoned, n)
	}
}

// abandonReason is why a child ends early.
const abandonReason = "its pipeline no longer waits for it"
