package engine

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

// mostTaken bounds what is read of the results of former owners at once.
const mostTaken = 32

// formers is what the owner of a store knows of those who have owned it before and still carry out effects, see [Handover]. It asks the
// database as long as there are any; what it asks goes on beside the loop, one thing at a time.
type formers struct {
	l      *loop
	told   chan formersTold
	asking bool
	cancel context.CancelFunc
	next   time.Time // when to ask again; zero: there are none, and will be none
	known  bool      // who there is, with all that those have reported who are gone
	looked time.Time // when the last answer had come; zero: the one before this has failed

	seen    map[string]*formerSeen // by session
	gone    map[string]bool        // sessions of those who have departed, or were silent for a lease
	arrived []store.FormerResult   // not yet decided
	had     map[formerKey]bool     // what has arrived and is not deleted
	taken   []store.FormerResult   // decided, and to be deleted
	faulty  bool                   // the database does not answer, and the log says so
}

type formerKey struct {
	session string
	key     store.EffectKey
}

// formerSeen is a former owner.
type formerSeen struct {
	store.Former
	since    time.Time // from when on it is known to be silent
	compared bool      // what it carries out, with what the machines wait for
	stops    map[store.EffectKey]bool
	said     bool // it was told of the stops
}

// formersAsked is what the database is asked in one go, and formersTold the answer.
type formersAsked struct {
	by      string // session of the owner that asks
	taken   []store.FormerResult
	stops   map[string][]store.FormerStop
	departs []string
}

type formersTold struct {
	formersAsked
	all          []store.Former
	results      []store.FormerResult
	began, ended time.Time
	err          error
}

func (f *formers) init(l *loop) {
	f.l, f.known = l, l.e.o.Handover == nil
	if f.known {
		return
	}
	f.told = make(chan formersTold, 1)
	f.seen, f.gone, f.had = make(map[string]*formerSeen), make(map[string]bool), make(map[formerKey]bool)
}

// begin has the database asked from now on.
func (f *formers) begin(now time.Time) {
	if !f.known {
		f.next = now
	}
}

// ask asks the database if it is time for that.
func (f *formers) ask() {
	if f.asking || f.next.IsZero() || f.l.stopping || f.l.lost != nil || f.l.now().Before(f.next) {
		return
	}
	q := formersAsked{by: f.l.e.store.Session(), taken: f.taken, stops: make(map[string][]store.FormerStop)}
	for _, session := range f.sessions() {
		s := f.seen[session]
		switch {
		case f.gone[session]:
			q.departs = append(q.departs, session)
		case !s.said:
			list := make([]store.FormerStop, 0, len(s.stops))
			for key, kill := range s.stops {
				list = append(list, store.FormerStop{Key: key, Kill: kill})
			}
			slices.SortFunc(list, func(a, b store.FormerStop) int { return compareKeys(a.Key, b.Key) })
			q.stops[session], s.said = list, true
		}
	}
	f.taken, f.asking = nil, true
	h := f.l.e.o.Handover
	ctx, cancel := f.l.briefly(h)
	f.cancel = cancel
	f.l.e.activity.add(1)
	go func() {
		defer f.l.e.activity.add(-1)
		a := formersTold{formersAsked: q, began: f.l.now()}
		a.err = a.from(ctx, h)
		a.ended = f.l.now()
		f.l.e.activity.message(ofFormers, 1)
		f.told <- a
	}()
}

// from asks the database.
func (a *formersTold) from(ctx context.Context, h *Handover) (err error) {
	if len(a.taken) > 0 {
		if err := h.Through.Taken(ctx, h.Partition, a.by, a.taken); err != nil {
			return err
		}
	}
	for _, session := range slices.Sorted(maps.Keys(a.stops)) {
		stops := a.stops[session]
		if err := h.Through.Stop(ctx, h.Partition, a.by, session, stops); err != nil {
			return err
		}
	}
	for _, session := range a.departs {
		if err := h.Through.Depart(ctx, h.Partition, a.by, session); err != nil {
			return err
		}
	}
	a.all, a.results, err = h.Through.Formers(ctx, h.Partition, mostTaken)
	return err
}

// hear takes the answer, and reports whether there is something to decide.
func (f *formers) hear(a formersTold) bool {
	f.l.e.activity.message(ofFormers, -1)
	f.asking = false
	f.cancel()
	h := f.l.e.o.Handover
	f.next = f.l.now().Add(h.every())
	if a.err != nil {
		f.failed(a)
		return false
	}
	if f.faulty {
		f.faulty = false
		f.l.e.log.Info("the database tells again of the former owners of the store")
	}
	for _, r := range a.taken {
		delete(f.had, formerKey{r.Session, r.Key})
	}
	gone, complete := len(f.gone), len(a.results) < mostTaken
	for _, is := range a.all {
		f.see(is, a)
	}
	f.looked = a.ended
	for session, s := range f.seen {
		if complete && !slices.ContainsFunc(a.all, func(o store.Former) bool { return o.Session == session }) {
			delete(f.seen, session)
			if !f.gone[session] {
				f.l.e.log.Info("a former owner of the store has ended what it carried out", "owner", s.Owner)
				f.gone[session] = true
			}
		}
	}
	for _, r := range a.results {
		if k := (formerKey{r.Session, r.Key}); !f.had[k] {
			f.had[k] = true
			f.arrived = append(f.arrived, r)
		}
	}
	first := !f.known && complete
	f.known = f.known || complete
	if (first || len(f.gone) > gone) && !f.l.nextRecover.IsZero() {
		f.l.nextRecover = f.l.now()
	}
	if complete && len(a.all) == 0 && len(f.had) == 0 {
		f.next = time.Time{} // whoever hands the store over does so before another one has it
	}
	return first || len(f.gone) > gone || f.toDecide()
}

// failed notes that the database did not answer; what it was asked it is asked again.
func (f *formers) failed(a formersTold) {
	f.looked = time.Time{}
	f.taken = append(a.taken, f.taken...)
	for session := range a.stops {
		if s := f.seen[session]; s != nil {
			s.said = false
		}
	}
	if !f.faulty && !errors.Is(a.err, store.ErrFenced) { // of which the store tells at the next commit
		f.faulty = true
		f.l.e.log.Warn("the database does not tell of the former owners of the store; trying again", "error", a.err)
	}
}

// see notes a former owner. Silence is time on this process's steady clock between looks that the database answered.
func (f *formers) see(is store.Former, a formersTold) {
	s := f.seen[is.Session]
	if s == nil {
		s = &formerSeen{since: a.ended, stops: make(map[store.EffectKey]bool), said: true}
		f.seen[is.Session] = s
		f.l.e.log.Info("a former owner of the store goes on with what it carries out", "owner", is.Owner, "running", len(is.Running))
	}
	lease := f.l.e.o.Handover.Lease
	if is.Beat != s.Beat || f.looked.IsZero() || a.began.Sub(f.looked) >= lease/2 {
		s.since = a.ended
	}
	s.Former = is
	for key := range s.stops {
		if !slices.Contains(is.Running, key) {
			delete(s.stops, key)
		}
	}
	if silent := a.began.Sub(s.since); silent >= lease && !f.gone[is.Session] {
		f.l.e.log.Warn("a former owner of the store is silent; telling the machines whose effects it carried out", "owner", is.Owner, "silent", silent, "running", len(is.Running))
		f.gone[is.Session] = true
	}
}

// sessions gives those of all that were seen, in order.
func (f *formers) sessions() []string { return slices.Sorted(maps.Keys(f.seen)) }

// carriesOn reports whether the holder of a claim is a former owner that goes on with its effects.
func (f *formers) carriesOn(c store.Claim) bool {
	return f.seen[c.Session] != nil && !f.gone[c.Session]
}

func compareKeys(a, b store.EffectKey) int {
	return cmp.Or(bytes.Compare(a.ID[:], b.ID[:]), cmp.Compare(a.N, b.N))
}

// toDecide reports whether something of former owners waits for a batch.
func (f *formers) toDecide() bool {
	switch {
	case f.l.lost != nil:
		return false
	case len(f.arrived) > 0:
		return true
	}
	for session, s := range f.seen {
		if !s.compared && !f.gone[session] {
			return true
		}
	}
	return false
}

// end waits for what the database is asked, and has results deleted that are decided: who copies a database that was given back refuses one that has any.
func (f *formers) end() {
	if f.asking {
		f.cancel()
		f.l.e.activity.rest(ofFormers)
		a := <-f.told
		f.l.e.activity.work()
		f.l.e.activity.message(ofFormers, -1)
		f.asking = false
		f.taken = append(f.taken, a.taken...)
	}
	if len(f.taken) == 0 || f.l.lost != nil {
		return
	}
	h := f.l.e.o.Handover
	ctx, cancel := f.l.briefly(h)
	defer cancel()
	if err := h.Through.Taken(ctx, h.Partition, f.l.e.store.Session(), f.taken); err != nil {
		f.l.e.log.Warn("what former owners of the store have reported is decided, and could not be deleted; the next owner deletes it", "error", err)
	}
}

// stop has a former owner end an effect, if one carries it out.
func (f *formers) stop(key store.EffectKey, kill bool) {
	for _, s := range f.seen {
		if before, ok := s.stops[key]; slices.Contains(s.Running, key) && (!ok || kill && !before) {
			s.stops[key], s.said = kill, false
		}
	}
}

// letGo notes what a batch that is durable has decided.
func (f *formers) letGo(b *batch) {
	f.taken = append(f.taken, b.arrived...)
	for _, session := range b.compared {
		if s := f.seen[session]; s != nil {
			s.compared = true
		}
	}
	for _, s := range b.astray {
		f.stop(s.Key, s.Kill)
	}
}

// holder reports whether a session's claim has the entry in hand.
func (b *batch) holder(claims []store.Claim, session string, o store.OutboxEntry) bool {
	return !o.Waiting() && slices.ContainsFunc(claims, func(c store.Claim) bool {
		return c.Name == o.Holder && c.Token == o.Token && c.Session == session
	})
}

// takeReported tells the machines what former owners have reported. What nobody waits for any more, since its claim was fenced or it has come
// before, changes nothing.
func (b *batch) takeReported() error {
	if len(b.l.formers.arrived) == 0 {
		return nil
	}
	claims, err := b.tx.Claims(ClaimPrefix)
	if err != nil {
		return err
	}
	var inputs []core.Input
	var writes []*Write
	for _, r := range b.l.formers.arrived {
		o, err := b.tx.OutboxEntry(r.Key)
		switch {
		case errors.Is(err, store.ErrNotFound), errors.Is(err, store.ErrCorrupt): // who finds that tells the machine, see passOver
			continue
		case err != nil:
			return err
		case !b.holder(claims, r.Session, o):
			continue
		}
		in, wrote := b.reportedInput(o, r)
		inputs, writes = append(inputs, in), append(writes, wrote)
	}
	if err := b.fetchDecided(inputs); err != nil {
		return err
	}
	for i, in := range inputs {
		if writes[i] != nil {
			if _ = b.put(*writes[i]); b.broken != nil { // refused: the machine is gone, or has another opinion
				return b.broken
			}
		}
		if err := b.ack(effectKey(in.To, in.Ack), in); err != nil {
			return err
		}
	}
	return nil
}

// reportedInput is what the machine is told of a result, and what is stored with that.
func (b *batch) reportedInput(o store.OutboxEntry, r store.FormerResult) (core.Input, *Write) {
	ref := effects.Ref{Kind: o.Kind, ID: o.Key.ID}
	event, wrote, err := b.l.e.readReported(ref, r.Data)
	if err != nil {
		b.l.e.log.Error("what a former owner of the store has reported cannot be read", "ref", ref.String(), "error", err)
		event = core.InterruptEvent(o.Kind, o.Key.N, core.ReasonRecovered)
	}
	return core.Input{To: ref, Actor: "tool", Event: event, Ack: o.Key.N}, wrote
}

// readReported reads what a former owner has reported.
func (e *Engine) readReported(of effects.Ref, data []byte) (event core.Event, wrote *Write, err error) {
	var r reported
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, nil, err
	}
	if r.Kind != of.Kind {
		return nil, nil, fmt.Errorf("it is about a %q", r.Kind)
	}
	if event, err = core.DecodeEvent(r.Kind, r.Event); err != nil {
		return nil, nil, err
	}
	if read := e.o.Hooks.ReadWrite; len(r.Wrote) > 0 && read != nil {
		if wrote, err = read(of, r.Wrote); err != nil {
			e.log.Error("what a former owner of the store has reported beside a result cannot be read, and is left out", "ref", of.String(), "error", err)
		}
	}
	return event, wrote, nil
}

// compareFormers finds what former owners carry out that nobody waits for any more, or that is to end: the owner before this one may have decided so, and
// have ended before it could tell.
func (b *batch) compareFormers() error {
	f := &b.l.formers
	if !f.toDecide() {
		return nil
	}
	claims, err := b.tx.Claims(ClaimPrefix)
	if err != nil {
		return err
	}
	for _, session := range f.sessions() {
		s := f.seen[session]
		if s.compared || f.gone[session] {
			continue
		}
		for _, key := range s.Running {
			o, err := b.tx.OutboxEntry(key)
			switch {
			case errors.Is(err, store.ErrCorrupt):
				continue
			case err != nil && !errors.Is(err, store.ErrNotFound):
				return err
			case err == nil && b.holder(claims, session, o):
				if is, err := b.fold.State(effects.Ref{Kind: o.Kind, ID: key.ID}); err != nil || !core.Stopping(is, key.N) {
					continue
				}
			}
			b.astray = append(b.astray, store.FormerStop{Key: key})
		}
		b.compared = append(b.compared, session)
	}
	return nil
}
