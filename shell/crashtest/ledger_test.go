//go:build unix

package crashtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
)

// op is what a client asks for.
type op string

const (
	opAction    op = "action"
	opCancel    op = "cancel"
	opTrigger   op = "trigger"
	opWebhook   op = "webhook"
	opRecurring op = "recurring" // create one
	opPause     op = "pause"
	opResume    op = "resume"
	opDelete    op = "delete"
	opFire      op = "fire" // trigger a recurring action
	opSeen      op = "seen" // the state of a recurring action was read
	opLook      op = "look" // an action was read
	opRunbooks  op = "runbooks"
	opJobs      op = "jobs"
	opRun       op = "run" // trigger a job
	opBackfill  op = "backfill"
)

// phase says how far a request is. One that was tried, and neither acknowledged
// nor refused, may have been taken or not.
type phase string

const (
	tried   phase = "tried"
	acked   phase = "acked"
	refused phase = "refused"
)

// note is one line of a ledger. Of requests about one thing the notes stand in
// the order of the requests, since one caller at a time has it.
type note struct {
	Op     op        `json:"op"`
	Phase  phase     `json:"phase"`
	ID     uuid.UUID `json:"id,omitzero"`
	Order  *order    `json:"order,omitempty"`  // action
	Body   string    `json:"body,omitempty"`   // webhook
	State  recState  `json:"state,omitempty"`  // seen
	Saw    *sight    `json:"saw,omitempty"`    // looked
	Plaint string    `json:"plaint,omitempty"` // something that must never be
}

// sight is what a client read of an action.
type sight struct {
	Status core.StatusType `json:"status"`
	Run    uint32          `json:"run"`
	Cycle  uint32          `json:"cycle"`
}

// order is an action as a client asks for it.
type order struct {
	ID       uuid.UUID `json:"id"`
	AtMS     int64     `json:"at_ms"` // when it is due; 0: now
	Retry    bool      `json:"retry,omitempty"`
	Again    bool      `json:"again,omitempty"` // it is tried again if it failed
	Attempts uint32    `json:"attempts,omitempty"`
	Every    bool      `json:"every,omitempty"` // recurs each second
	Dedup    string    `json:"dedup,omitempty"`
	Batch    uuid.UUID `json:"batch,omitzero"` // the first action of those that are made with it, all or none
	Work     work      `json:"work"`
}

// work is what the tool does.
type work struct {
	BeforeMS int  `json:"before_ms,omitempty"` // it waits before its line
	AfterMS  int  `json:"after_ms,omitempty"`  // and after it
	Fails    bool `json:"fails,omitempty"`
}

// recState is what a client can know of a recurring action.
type recState string

const (
	recEnabled  recState = "enabled"
	recDisabled recState = "disabled"
	recGone     recState = "gone"
)

// recStateOf is the state of a recurring action that was read; gone is the error of one
// that is not there.
func recStateOf(r core.RecurringAction, err, gone error) (recState, error) {
	switch {
	case errors.Is(err, gone):
		return recGone, nil
	case err != nil:
		return "", err
	case r.Enabled:
		return recEnabled, nil
	}
	return recDisabled, nil
}

// notebook takes notes: the ledger itself, or a pipe that leads to it.
type notebook interface{ write(note) }

// pipeBook writes notes as lines, each by one system call: what was written
// outlives the writer.
type pipeBook struct {
	mu sync.Mutex
	w  io.Writer
}

func (p *pipeBook) write(n note) {
	b, err := json.Marshal(n)
	if err != nil {
		panic(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	_, _ = p.w.Write(append(b, '\n')) // a reader that has gone ends us by SIGPIPE
}

// ledger is what the clients know.
type ledger struct {
	mu        sync.Mutex
	actions   map[uuid.UUID]*actionEntry
	recurring map[uuid.UUID]*recurringEntry
	hooks     map[uuid.UUID]string // acknowledged
	bodies    map[string]bool      // tried
	unnamed   int                  // recurring actions whose creation was tried, and never answered: no id is known
	runs      map[uuid.UUID]bool   // of jobs, acknowledged
	backfills map[uuid.UUID]bool   // acknowledged
	counts    map[op]map[phase]int
	plaints   []string
}

type actionEntry struct {
	order          order
	acked          bool
	cancelled, ran bool  // acknowledged
	hurried        bool  // a trigger was tried, which brings its time forward
	saw            sight // by the last look
}

type recurringEntry struct {
	acked    bool
	possible map[recState]bool // the last acknowledged state, and what was tried since
	fired    [2]int            // triggers acknowledged, tried
	steady   bool              // never anything but enabled was asked for
}

func newLedger() *ledger {
	return &ledger{
		actions: make(map[uuid.UUID]*actionEntry), recurring: make(map[uuid.UUID]*recurringEntry),
		hooks: make(map[uuid.UUID]string), bodies: make(map[string]bool), counts: make(map[op]map[phase]int),
		runs: make(map[uuid.UUID]bool), backfills: make(map[uuid.UUID]bool),
	}
}

func (l *ledger) write(n note) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n.Plaint != "" {
		l.plaints = append(l.plaints, n.Plaint)
		return
	}
	if l.counts[n.Op] == nil {
		l.counts[n.Op] = make(map[phase]int)
	}
	l.counts[n.Op][n.Phase]++
	switch n.Op {
	case opAction, opCancel, opTrigger, opLook:
		l.action(n)
	case opWebhook:
		l.bodies[n.Body] = true
		if n.Phase == acked {
			if was, ok := l.hooks[n.ID]; ok {
				l.plaints = append(l.plaints, fmt.Sprintf("webhook id %s was given out twice, for %q and %q", n.ID, was, n.Body))
			}
			l.hooks[n.ID] = n.Body
		}
	case opRecurring:
		switch n.Phase {
		case tried:
			l.unnamed++
		case acked:
			l.unnamed--
			l.recurringOf(n.ID).acked = true
		case refused:
			l.unnamed--
		}
	case opPause, opResume, opDelete, opFire, opSeen:
		l.change(n)
	case opRun:
		l.runs[n.ID] = true
	case opBackfill:
		l.backfills[n.ID] = true
	case opRunbooks, opJobs: // only counted
	}
}

func (l *ledger) action(n note) {
	a := l.actions[n.ID]
	if a == nil {
		a = &actionEntry{}
		l.actions[n.ID] = a
	}
	a.hurried = a.hurried || n.Op == opTrigger
	switch {
	case n.Order != nil:
		a.order = *n.Order
	case n.Phase != acked:
	case n.Op == opLook:
		if a.saw.Status.Terminal() && a.saw != *n.Saw {
			l.plaints = append(l.plaints, fmt.Sprintf("action %s was seen as %+v, and later as %+v", n.ID, a.saw, *n.Saw))
		}
		a.saw = *n.Saw
	case n.Op == opAction:
		a.acked = true
	case n.Op == opCancel:
		a.cancelled = true
	case n.Op == opTrigger:
		a.ran = true
	}
}

func (l *ledger) recurringOf(id uuid.UUID) *recurringEntry {
	r := l.recurring[id]
	if r == nil {
		r = &recurringEntry{possible: map[recState]bool{recEnabled: true}, steady: true}
		l.recurring[id] = r
	}
	return r
}

// change takes note of what may have become of a recurring action.
func (l *ledger) change(n note) {
	r := l.recurringOf(n.ID)
	var leads recState
	switch n.Op {
	case opPause:
		leads = recDisabled
	case opResume:
		leads = recEnabled
	case opDelete:
		leads = recGone
	case opFire:
		switch n.Phase {
		case acked:
			r.fired[0]++
		case tried:
			r.fired[1]++
		case refused:
		}
		return
	case opSeen:
		if !r.possible[n.State] {
			l.plaints = append(l.plaints, fmt.Sprintf("recurring action %s is %s: possible was %v", n.ID, n.State, r.possible))
		}
		return
	default:
		return
	}
	r.steady = false
	switch n.Phase {
	case tried:
		r.possible[leads] = true
	case acked:
		r.possible = map[recState]bool{leads: true}
	case refused:
	}
}

// summary says how much was asked, for the log.
func (l *ledger) summary() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	b, err := json.Marshal(l.counts)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

func (l *ledger) total(p phase) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.counts {
		n += c[p]
	}
	return n
}

// rest says that the test itself has paused a recurring action, for good.
func (l *ledger) rest(id uuid.UUID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.recurringOf(id).possible = map[recState]bool{recDisabled: true}
}

// endless lists the actions that recur: they must be cancelled to end.
func (l *ledger) endless() (ids []uuid.UUID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, a := range l.actions {
		if a.order.Every {
			ids = append(ids, id)
		}
	}
	return ids
}
