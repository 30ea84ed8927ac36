package engine

import (
	"container/heap"
	"errors"
	"slices"
	"time"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

// write stores the changes and the journal.
func (b *batch) write() error {
	b.changes = b.fold.AppendChanges(b.changes)
	if len(b.entry.Inputs) == 0 {
		return nil
	}
	b.writes = slices.Grow(b.writes, len(b.changes))
	for _, c := range b.changes {
		if err := b.dropLogs(c); err != nil {
			return err
		}
		w := store.Write{Kind: c.Ref.Kind, ID: c.Ref.ID}
		if c.Before != nil {
			m := b.meta[c.Ref]
			if m.terms == nil {
				m.terms = c.Before.Terms()
			}
			w.Prev = store.Prev{Version: m.version, Seq: m.seq, Due: c.Before.Deadline(), Terms: m.terms}
		}
		if c.After != nil {
			w.State, w.Due, w.Terms = b.encode(c.After), c.After.Deadline(), c.After.Terms()
			if w.Due != 0 {
				w.Share = DueShare(core.ScopeOf(c.After))
			}
		}
		b.writes = append(b.writes, w)
	}
	if err := b.tx.Put(b.entry.Seq, b.writes); err != nil {
		return err
	}
	return b.tx.AppendJournal(b.entry.Seq, b.now, b.encode(b.entry))
}

// dropLogs deletes the logs of a machine whose record goes.
func (b *batch) dropLogs(c core.Change) error {
	if !core.KeepsLogs(c.Ref.Kind) || c.After != nil || c.Before == nil {
		return nil
	}
	return b.tx.DeleteRunLogs(c.Ref.ID)
}

// conclude notes when to look again, if this batch has ended the sweep, and the states
// that the callers want to see, as the whole batch leaves them.
func (b *batch) conclude() error {
	if b.l.sweep.active && !b.sweep.active {
		if err := b.findNextDue(); err != nil {
			return err
		}
	}
	for i, r := range b.l.requests[:len(b.replies)] {
		if b.shareAnswer(i, r) || r.once != nil && r.once.again {
			continue
		}
		if rep := &b.replies[i]; rep.Err == nil && !r.Want.IsZero() {
			rep.State, rep.Err = b.fold.State(r.Want)
		}
		b.seeMany(i, r)
		if err := b.keepAnswer(r, b.replies[i]); err != nil {
			return err
		}
	}
	if len(b.entry.Inputs) == 0 && !b.dirty {
		return errNothing
	}
	return nil
}

// encode appends a stored form to the batch's buffer. Where the buffer moves as it grows,
// earlier forms stay in the old one.
func (b *batch) encode(v interface{ AppendJSON([]byte) []byte }) []byte {
	start := len(b.buf)
	b.buf = v.AppendJSON(b.buf)
	return b.buf[start:len(b.buf):len(b.buf)]
}

// outbox commits the outer effects: handed out if their tenant may have a slot of their
// lane, else to wait. Who has waited goes first.
func (b *batch) outbox() error {
	for _, w := range b.fold.Withdrawn() {
		key := effectKey(w.From, w.N)
		if err := b.tx.DeleteOutbox(key); err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
	}
	for _, o := range b.fold.Outer() {
		key := effectKey(o.From, o.Effect.Number())
		state, err := b.fold.State(o.From)
		if err != nil && !errors.Is(err, store.ErrCorrupt) {
			return err
		}
		if !core.Awaits(state, key.N) {
			continue // started and ended within this batch
		}
		of := OuterEffect{Lane: o.Effect.Lane(), Effect: o.Effect, State: state}
		s := b.l.shareOf(o.Effect.Lane(), core.ScopeOf(of.State))
		e := store.OutboxEntry{Key: key, Seq: b.entry.Seq, Kind: o.From.Kind, Lane: s.queue}
		if o.Effect.Repeatable() { // recovery asks for that; the rest stands in the machine's state
			e.Effect = b.encode(o.Effect)
		}
		if b.mayStart(s) {
			b.l.reserve(s, 1)
			b.handOut(&e, of)
		} else {
			b.waiting[e.Lane] = true
		}
		if err := b.tx.PutOutbox(e); err != nil {
			return err
		}
	}
	return nil
}

// mayStart reports whether what a share has just asked for takes a slot at once: nothing
// that has waited may have it.
func (b *batch) mayStart(s *share) bool {
	most := b.l.e.o.MaxLaneShare
	return !b.l.stopping && !b.l.paused && !s.waits() && !b.waiting[s.queue] && s.mayTake(most) && !s.lane.canServe(most) && s.lane.secure()
}

// wanting gives the effect with the machine that waits for it.
func (b *batch) wanting(key store.EffectKey, kind effects.Kind) (OuterEffect, error) {
	s, err := b.fold.State(effects.Ref{Kind: kind, ID: key.ID})
	if err != nil && !errors.Is(err, store.ErrCorrupt) {
		return OuterEffect{}, err
	}
	o := OuterEffect{State: s, Effect: core.OutstandingEffect(s, key.N)}
	if o.Effect == nil {
		return o, errStale
	}
	o.Lane = o.Effect.Lane()
	return o, nil
}

// handOut marks the entry as this instance's. Its share has reserved a slot.
func (b *batch) handOut(e *store.OutboxEntry, of OuterEffect) {
	e.Holder, e.Token = b.l.claim, b.l.token
	b.launches = append(b.launches, launch{OuterEffect: of, key: e.Key, queue: e.Lane})
}

// errStale: the entry's machine does not wait for it any more.
var errStale = errors.New("outbox entry that nobody waits for")

// startWaiting hands out what waits in lanes that have free slots again.
func (b *batch) startWaiting() error {
	if b.l.stopping || b.l.paused {
		return nil
	}
	names := make([]string, 0, len(b.l.lanes))
	for name, la := range b.l.lanes { // the order of lanes does not matter: they share nothing
		if la.canServe(b.l.e.o.MaxLaneShare) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		for short := true; short; {
			var err error
			if short, err = b.serve(b.l.lanes[name]); err != nil {
				return err
			}
		}
	}
	return nil
}

// serve hands out the free slots of a lane to the shares that wait, and reports
// whether one of them had less to start than it was given slots for.
func (b *batch) serve(la *lane) (short bool, err error) {
	given := b.shareOut(la)
	for _, s := range given {
		started, err := b.startShare(s.share, s.slots)
		if err != nil {
			return false, err
		}
		short = short || started < s.slots
	}
	return short, nil
}

// grant is how many slots a share is given at once.
type grant struct {
	*share
	slots int
}

// shareOut reserves the free slots of a lane, one by one, for the shares that wait.
func (b *batch) shareOut(la *lane) (out []grant) {
	var passed []*share
	for la.free() > 0 && len(la.waiting) > 0 {
		s := la.waiting[0]
		if waits, known := b.waiting[s.queue]; known && !waits || !s.mayTake(b.l.e.o.MaxLaneShare) {
			passed = append(passed, s) // nor may it later in this round: others only take more
			heap.Pop(&la.waiting)
			continue
		}
		if !s.lane.secure() { // another engine has taken it meanwhile
			break
		}
		b.l.reserve(s, 1)
		i := slices.IndexFunc(out, func(g grant) bool { return g.share == s })
		if i < 0 {
			i, out = len(out), append(out, grant{share: s})
		}
		out[i].slots++
	}
	for _, s := range passed {
		heap.Push(&la.waiting, s)
	}
	return out
}

// startShare hands out what a share has waiting, up to the slots that are reserved for
// it, and gives back those that it does not need.
func (b *batch) startShare(s *share, slots int) (started int, err error) {
	entries, err := b.tx.Waiting(s.queue, slots)
	if err := b.passOver(err); err != nil {
		return 0, err
	}
	for _, e := range entries {
		b.dirty = true
		e.Effect = slices.Clone(e.Effect)
		of, err := b.wanting(e.Key, e.Kind)
		switch {
		case errors.Is(err, errStale):
			b.l.e.log.Error("stale outbox entry dropped", "kind", e.Kind, "id", e.Key.ID, "n", e.Key.N)
			err = b.tx.DeleteOutbox(e.Key)
		case err == nil:
			started++
			b.handOut(&e, of)
			err = b.tx.PutOutbox(e)
		}
		if err != nil {
			return started, err
		}
	}
	b.l.reserve(s, started-slots)
	b.waiting[s.queue] = len(entries) == slots
	return started, nil
}

// carryOver has the loop go on from a batch that the store has, though perhaps not for
// good: nothing outside of the loop may see any of it.
func (l *loop) carryOver(b *batch) *stagedBatch {
	s := &stagedBatch{batch: b}
	if !b.begun {
		return s
	}
	l.sweep, l.webhooks, l.retention, l.nextRecover = b.sweep, b.webhooks, b.retain, b.recover
	l.nextDue = b.nextDue
	copy(l.own, b.own)
	l.watch.absences, l.watch.open, l.watch.unsaved = b.absences, false, false
	l.backlog.touched = false
	if b.renewed {
		l.nextRenew = b.mono.Add(l.renewEvery())
	}
	if len(b.entry.Inputs) > 0 {
		l.lastSeq = b.entry.Seq
		l.remember(b)
	}
	l.occupy()
	for queue, waits := range b.waiting {
		l.share(queue).setWaiting(waits)
	}
	l.adrift = false
	b.requests = append(b.requests, l.requests[:len(b.replies)]...)
	l.requests = slices.Delete(l.requests, 0, len(b.replies))
	b.outcomes = append(b.outcomes, l.outcomes...)
	clear(l.outcomes)
	l.outcomes = l.outcomes[:0]
	b.arrived = append(b.arrived, l.formers.arrived...)
	l.formers.arrived = l.formers.arrived[:0]
	return s
}

// letGo lets a batch out that is durable with all that it has read: it answers, and lets
// the effects go.
func (l *loop) letGo(s *stagedBatch) {
	e, b := l.e, s.batch
	if !s.nothing {
		l.failures, l.retryAt, l.lastErr = 0, time.Time{}, nil
	}
	if !b.begun {
		return
	}
	if len(b.entry.Inputs) > 0 {
		e.stats.batches.Add(1)
		e.stats.expired.Add(b.expired)
		e.stats.expiredEarly.Add(b.expiredEarly)
		e.stats.inputs.Add(uint64(len(b.entry.Inputs)))
		e.stats.recent.note(l.now(), len(b.entry.Inputs), b.lag)
	}
	e.aside.forget(b.changes)
	e.aside.add(b.aside...)
	l.cancelSome(b)
	l.formers.letGo(b)
	for _, launch := range b.launches {
		e.stats.running.Add(1)
		l.start(launch)
		if l.cancelled { // the stop has come to that while the disk was at work
			l.running[launch.key].cancel(ErrStopping)
		}
	}
	l.tellCount(s)
	for _, o := range b.outcomes {
		o.write.done()
	}
	for i, r := range b.requests {
		if r.once != nil && r.once.again {
			e.stats.repeated.Add(1)
		}
		r.answer(b.replies[i])
	}
	e.announce(s.committed())
	l.recycle(b)
}

// cancelSome cancels what runs and is no longer wanted by the batch, and what it has asked to
// stop.
func (l *loop) cancelSome(b *batch) {
	drop := func(key store.EffectKey, why error) {
		if r, ok := l.running[key]; ok {
			r.dropped = true
			r.cancel(why)
		} else {
			l.formers.stop(key, errors.Is(why, ErrKilled))
		}
	}
	for _, w := range b.fold.Withdrawn() {
		why := ErrCancelled
		if w.Kill {
			why = ErrKilled
		}
		drop(effectKey(w.From, w.N), why)
	}
	for _, key := range b.unwanted {
		drop(key, ErrCancelled)
	}
	for _, key := range b.stops {
		if r, ok := l.running[key]; ok {
			r.cancel(ErrCancelled)
		} else {
			l.formers.stop(key, false)
		}
	}
}

// remember keeps the new states for the batches that follow, and what many of them share.
func (l *loop) remember(b *batch) {
	for _, ref := range b.shared {
		l.cache.put(ref, b.meta[ref])
	}
	for i, c := range b.changes {
		w := b.writes[i]
		if c.After == nil {
			l.cache.drop(c.Ref)
			continue
		}
		if at := w.Due; !at.IsZero() && (l.nextDue.IsZero() || at < l.nextDue) && !b.skips(c.Ref.Kind) {
			l.nextDue = at
		}
		if !core.Cacheable(c.After) {
			l.cache.drop(c.Ref)
			continue
		}
		held, shares := core.Held(c.After)
		l.cache.put(c.Ref, cached{state: c.After, version: w.Prev.Version + 1, seq: b.entry.Seq, size: len(w.State), held: held, terms: w.Terms, shares: shares})
	}
}

// announce tells subscribers, the front and those who wait what a batch has made
// true.
func (e *Engine) announce(committed Committed) {
	e.publish(committed)
	if told := e.o.Hooks.Committed; told != nil {
		told(committed)
	}
	for _, c := range committed.Changes {
		if c.After == nil {
			continue
		}
		if _, ended := core.EndedAt(c.After); ended {
			e.wait.wake(c.After)
		}
	}
}

// Committed is a batch that is durable. Its memory serves another one later: who is told of it
// keeps nothing of it but states and events, as values.
type Committed struct {
	Events  []effects.Event // what was announced, in order
	Changes []core.Change
	b       *batch
}

// Seq is the number of the batch in the journal.
func (c Committed) Seq() uint64 { return c.b.entry.Seq }

// Sizes gives the bytes of the stored forms of one of the Changes.
func (c Committed) Sizes(i int) (before, after int) {
	if i < len(c.b.writes) {
		before, after = c.b.meta[c.Changes[i].Ref].size, len(c.b.writes[i].State)
	}
	return before, after
}

// State gives a machine as the batch leaves it; nil if it does not exist.
func (c Committed) State(ref effects.Ref) (core.State, error) { return c.b.fold.State(ref) }

// Cached gives a machine if it is at hand, and reads nothing.
func (c Committed) Cached(ref effects.Ref) (core.State, bool) {
	if was, changed := c.b.l.since(c.b.n, ref); changed {
		return was, was != nil
	}
	cached, ok := c.b.l.cache.get(ref)
	return cached.state, ok
}
