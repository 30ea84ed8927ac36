package core

import (
	"errors"
	"fmt"

	"github.com/orrery-go/orrery/effects"
)

// Input is one event from outside the machines, as it is journaled.
type Input struct {
	To    effects.Ref
	Actor string // who caused it: "api:NAME", "clock", "tool"
	Event Event
	// Ack is the number of the outer effect of To that this event answers, or 0.
	Ack uint32
	// BySet says which set of files the input comes from; nil: from none.
	BySet *Declaration
	// Full are the limits that what the input sets off has met; only a [Batch] makes
	// them ([Result.Full]). Without any, the batch asks for the limits.
	Full []Full
}

// Loader gives a batch the states from before it. It returns nil where the
// machine does not exist, and an error where its state cannot be had: the input
// that needs it then fails, and only that one.
type Loader interface {
	Load(ref effects.Ref) (State, error)
	// Scan lists a list index in its order, as it was before the batch, from a cursor
	// on, exclusive; the zero Cursor: from the beginning. At most limit entries, and
	// fewer only where there are no more. A batch reads each list once: each call
	// goes on where the one before ended.
	Scan(kind effects.Kind, term string, after Cursor, limit int) ([]Cursor, error)
}

// Change is what a batch did to one machine.
type Change struct {
	Ref    effects.Ref
	Before State // nil: it did not exist
	After  State // nil: it does not exist any more
}

// OuterEffect is an outer effect and the machine that asked for it.
type OuterEffect struct {
	From   effects.Ref
	Effect effects.Outer
}

// Result is the answer to one input.
type Result struct {
	// Refused is the refusal for which the input was undone, or else the first one
	// that it met, at its machine or at one that it reached; nil where it was taken
	// by all.
	Refused *effects.Refused
	// Changed reports whether any machine changed: only then the input belongs
	// into the journal.
	Changed bool
	// Answer is what a machine answered to the sender, such as the items that it
	// took; nil where it answered nothing ([effects.Answer]).
	Answer effects.Value
	// Full are the limits that were met: they belong into the journal with the input, as
	// its Full.
	Full []Full
}

// Batch applies inputs to machines at one instant. It is the whole of what the
// system does between two commits, and it is pure: the engine runs batches over
// the store, the replay over the journal.
//
// A Batch is not safe for concurrent use.
type Batch struct {
	loader Loader
	clock  Clock
	seq    uint64
	part   uint16 // see [Batch.Partition]
	parts  int    // see [Batch.Divided]

	slots    map[effects.Ref]*slot
	room     []slot  // for the slots to come: those before its length are taken
	order    []*slot // in the order in which they were first changed
	outer    []OuterEffect
	withdraw []WithdrawnEffect
	stop     []StoppedEffect
	events   []effects.Event
	queue    []delivery
	hops     int         // of the delivery that is being made
	serving  effects.Ref // its receiver
	of       sphere      // in which it is, and what it sets off
	undo     []undone
	waking   map[effects.Ref]bool      // machines whose wake is on its way
	lists    map[listKeyOf]*windowList // of queues, as far as they were looked at
	taken    uint64                    // inputs that have changed something: those that are journaled
	bounds   bounds

	busesBefore []Cursor // those of before the batch, once they are read: see [Batch.buses]
	busesRead   bool

	asking   bool         // the delivery that is being made comes from outside
	by       *Declaration // where the input comes from that is being applied
	together bool         // the input is one of several that count as one: see ApplyAll

	program map[string]Subscriber
	muted   bool // the program's subscribers are not asked
	heeded  bool // one of them has given effects in this attempt
	lost    bool // the loader has failed in this attempt
}

// WithdrawnEffect names an outer effect that was taken back.
type WithdrawnEffect struct {
	From effects.Ref
	N    uint32
	Kill bool // without the time that it is given otherwise to end by itself
}

// StoppedEffect names an outer effect that was asked to end, and is answered nevertheless.
type StoppedEffect struct {
	From effects.Ref
	N    uint32
}

type slot struct {
	ref     effects.Ref
	before  State
	now     State // nil: does not exist
	changed bool
}

type delivery struct {
	from  effects.Ref // who sends it; zero: it comes from outside
	to    effects.Ref
	event Event
	hops  int  // how many times in a row the bus has routed to come here
	asked bool // the sender has got an event from outside, of which this comes
	of    sphere
}

type undone struct {
	slot    *slot
	now     State
	changed bool
}

// stepBits is the room for the inputs of one batch in a [Clock]'s step. Steps are
// all different as long as no batch has 1,048,576 inputs that change something,
// and the journal fewer than 2⁴⁴ batches.
const stepBits = 20

// MaxDeliveries bounds the events that one input may cause inside the system.
// More would be a loop between machines; the input is then refused as a whole.
const MaxDeliveries = 10_000

// MaxRoutings bounds how often in a row the bus routes what arose from its own
// routing, within one input. More would be subscribers that feed one another:
// the event is announced, but no subscriber hears it, and an escalation says so.
const MaxRoutings = 8

// NewBatch starts a batch at one instant. seq is the number of the journal
// entry that it will be.
func NewBatch(l Loader, c Clock, seq uint64) *Batch {
	return &Batch{loader: l, clock: c, seq: seq, slots: make(map[effects.Ref]*slot)}
}

// Partition says in which partition the batch is made, of several that have their own journals and so the same
// numbers of entries: the ids that the batch derives from that number have it, so that no two partitions make
// the same. Without, and in partition 0, they are as those of a system that is not divided. It is below
// [MaxPartitions], and holds after [Batch.Reset], too.
func (t *Batch) Partition(n uint16) { t.part = n }

// Serving names the machine that has got the last event: where that could not be
// decided for want of a record, whose record it is.
func (t *Batch) Serving() effects.Ref { return t.serving }

// Clock gives the batch's instant.
func (t *Batch) Clock() Clock { return t.clock }

// Apply takes one input through its machine and through all that follows from
// it inside the system. An error means that the input could not be decided, and
// that it has left no trace; the batch goes on.
//
// A refusal on the way is noted, and the rest goes on: an action ends although
// its occurrence is gone. But a dispatch is made whole or not at all. Where one
// of its parts is refused, the input is undone and refused as a whole: no dedup
// key is held by an action that was not made, no occurrence waits for one, and
// no dispatch counts that was none. A due event of a recurring action or a backfill, which
// would then be due for ever, is applied once more with the refusal, and records
// a missed or refused time; its result has both, the refusal and the change.
//
// A machine that another one would make beyond the limit of a tenant ([Batch.Bound]) is
// refused in the same way.
func (t *Batch) Apply(in Input) (Result, error) {
	t.clock.Step = t.seq<<stepBits + t.taken
	t.bounds.begin(in)
	res, err := t.try(in)
	if errors.Is(err, errHalf) {
		if instead := insteadOf(in.Event, res.Refused); instead != nil {
			refused := res.Refused
			in.Event = instead
			res, err = t.try(in)
			res.Refused = refused
		}
	}
	if err != nil && !errors.Is(err, errHalf) {
		return Result{}, err
	}
	if res.Changed {
		t.taken++
		t.bounds.done()
	}
	res.Full = t.bounds.full
	return res, nil
}

// insteadOf gives what is applied instead of a due event whose dispatch was refused; nil if
// nothing is.
func insteadOf(due Event, r *effects.Refused) Event {
	switch due := due.(type) {
	case interface{ afterRefusal(reason string) Event }:
		return due.afterRefusal(r.Reason)
	case interface {
		afterRefused(reason string, limited bool) Event
	}:
		return due.afterRefused(r.Reason, r.Code == effects.CodeLimited)
	}
	return nil
}

// errHalf: a part of a dispatch was refused.
var errHalf = errors.New("the dispatch was refused")

// belongsToDispatch reports whether the event is a part of a dispatch: its
// record, the claim of its dedup key, the action, and the word that the key is
// held.
func belongsToDispatch(e Event) bool {
	d, ok := e.(interface{ belongsToDispatch() bool })
	return ok && d.belongsToDispatch()
}

// attempt runs one input, and undoes it where it fails or comes to nothing.
func (t *Batch) attempt(in Input) (Result, error) {
	if !t.together {
		t.undo = t.undo[:0]
	}
	before := t.mark()
	t.heeded, t.lost = false, false
	t.bounds.retry()
	res, err := t.run(in)
	if err != nil || !res.Changed {
		t.backTo(before)
		res.Changed = false
	}
	return res, err
}

func (t *Batch) run(in Input) (res Result, err error) {
	if in.Event == nil {
		return res, fmt.Errorf("input to %s has no event", in.To)
	}
	// A machine that panics is a defect; it must not take the others along.
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("event %q to %s: the machine panicked: %v", in.Event.EventType(), in.To, p)
		}
	}()
	t.by = in.BySet
	t.queue = append(t.queue[:0], delivery{to: in.To, event: in.Event})
	clear(t.waking)
	for i := 0; i < len(t.queue); i++ {
		if i == MaxDeliveries {
			return res, fmt.Errorf("event %q to %s caused more than %d events", in.Event.EventType(), in.To, MaxDeliveries)
		}
		if err := t.deliver(t.queue[i], &res); err != nil {
			return res, err
		}
	}
	return res, nil
}

func (t *Batch) deliver(d delivery, res *Result) error {
	t.hops, t.serving, t.asking, t.of = d.hops, d.to, d.from.IsZero(), d.of
	if isWake(d.event) {
		delete(t.waking, d.to)
	}
	s, err := t.slot(d.to)
	if err != nil {
		return err
	}
	state, abroad := s.now, t.abroad(d, s.now)
	if abroad {
		state = nil // whoever asks learns nothing of it
	}
	if state == nil {
		if state = zero(d.to.Kind); state == nil {
			return fmt.Errorf("kind %q is unknown", clip(string(d.to.Kind)))
		}
	}
	mark, order := len(t.undo), t.order
	next, effs, err := t.step(d.to.Kind, state, d.event)
	if err != nil {
		return err
	}
	r := refusal(effs)
	if r == nil && (abroad || t.abroad(d, next)) {
		r = t.refuseAbroad(d)
	}
	if r == nil {
		r = t.beyond(d, s, next)
	}
	if r == nil {
		r = t.elsewhere(d, s, next)
	}
	if r == nil && t.asking {
		if r, err = t.declare(d.to, s.now, next, d.event); err != nil {
			return err
		}
	}
	if r != nil {
		t.rollback(mark)
		t.order = order
		r.To = d.to // a machine that does not exist cannot say its id
		t.of = d.by()
		return t.refused(d, r, res)
	}
	if made := next.Ref(); !made.IsZero() && made != d.to {
		return fmt.Errorf("event %q to %s would make %s", d.event.EventType(), d.to, made)
	}
	t.settle(d, s.now, next)
	t.change(s, next)
	res.Changed = true
	for _, e := range effs {
		if a, ok := e.(effects.Answer); ok {
			if d.from.IsZero() { // machines are answered by events
				res.Answer = a.Value
			}
			continue
		}
		if err := t.carry(d.to, e, res); err != nil {
			return err
		}
	}
	return nil
}

// refused goes on after an event was refused.
func (t *Batch) refused(d delivery, r *effects.Refused, res *Result) error {
	if belongsToDispatch(d.event) || r.Code == effects.CodeLimited && isAskedFor(d) {
		res.Refused = r
		return errHalf
	}
	if res.Refused == nil {
		res.Refused = r
	}
	if err := t.tellRefused(d, r, res); err != nil {
		return err
	}
	t.giveBack(d)
	return nil
}

// step carries out one transition. A machine whose parts are records of their own
// looks them up in the batch, and changes them there: what it has changed is taken back
// if the event is refused.
func (t *Batch) step(kind effects.Kind, s State, e Event) (State, []effects.Effect, error) {
	if whole, ok := s.(interface {
		applyIn(t *Batch, e Event) (State, []effects.Effect, error)
	}); ok {
		return whole.applyIn(t, e)
	}
	next, effs := kinds[kind].apply(s, e, t.clock)
	return next, effs, nil
}

// giveBack gives back what a machine has granted to one that does not want it any
// more, or is gone: nobody else would.
func (t *Batch) giveBack(d delivery) {
	g, ok := d.event.(Granted)
	if release := kinds[d.from.Kind].release; ok && release != nil {
		t.send(d.to, d.from, release(Owner{Ref: d.to, N: g.N}, g.Token))
	}
}

// send queues an event for another machine. While a wake is on its way to a
// machine, a second one would tell it nothing: a thousand items that come back at
// once would otherwise leave room for ten wakes each, see [MaxDeliveries].
func (t *Batch) send(from, to effects.Ref, e Event) {
	if isWake(e) {
		if t.waking[to] {
			return
		}
		if t.waking == nil {
			t.waking = make(map[effects.Ref]bool)
		}
		t.waking[to] = true
	}
	t.queue = append(t.queue, delivery{from: from, to: to, event: e, hops: t.hops, asked: t.asking, of: t.of})
}

// isWake reports whether an event only tells a machine to look around.
func isWake(e Event) bool {
	_, ok := e.(interface{ wakes() })
	return ok
}

// ownerOf gives who waits for the machine that the event is to make.
func ownerOf(e Event) Owner {
	if make, ok := e.(interface{ owner() Owner }); ok {
		return make.owner()
	}
	return Owner{}
}

func refusal(effs []effects.Effect) *effects.Refused {
	if len(effs) != 1 {
		return nil
	}
	if r, ok := effs[0].(effects.Refused); ok {
		refused := r // only this one is moved to the heap
		return &refused
	}
	return nil
}

// rollback undoes the changes since the mark.
func (t *Batch) rollback(mark int) {
	for i := len(t.undo) - 1; i >= mark; i-- {
		u := t.undo[i]
		u.slot.now, u.slot.changed = u.now, u.changed
		t.overlay(u.slot.now)
	}
	t.undo = t.undo[:mark]
}

func (t *Batch) slot(ref effects.Ref) (*slot, error) {
	if s, ok := t.slots[ref]; ok {
		return s, nil
	}
	state, err := t.loader.Load(ref)
	if err != nil {
		t.lost = true
		return nil, fmt.Errorf("load %s: %w", ref, err)
	}
	if state, err = Whole(state, t.State); err != nil {
		return nil, fmt.Errorf("load %s: %w", ref, err)
	}
	s := t.newSlot()
	*s = slot{ref: ref, before: state, now: state}
	t.slots[ref] = s
	return s, nil
}

// newSlot gives room for a slot, of which there is more each time that it is used up.
func (t *Batch) newSlot() *slot {
	n := len(t.room)
	if n == cap(t.room) {
		t.room, n = make([]slot, 0, min(max(2*n, 4), 1024)), 0
	}
	t.room = t.room[:n+1]
	return &t.room[n]
}

func (t *Batch) change(s *slot, next State) {
	t.undo = append(t.undo, undone{slot: s, now: s.now, changed: s.changed})
	if next.Ref().IsZero() {
		next = nil
	}
	s.now = next
	t.overlay(next)
	if !s.changed {
		s.changed = true
		t.order = append(t.order, s)
	}
}

// State gives the present state of a machine: as this batch has left it, or as
// it was before. It is nil where the machine does not exist.
func (t *Batch) State(ref effects.Ref) (State, error) {
	s, err := t.slot(ref)
	if err != nil {
		return nil, err
	}
	return s.now, nil
}
