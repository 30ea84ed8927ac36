package engine

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

// maxBatchBytes bounds what one batch takes into memory, beyond its first
// record: payloads may be large.
const maxBatchBytes = 16 << 20

// errNothing ends a transaction in which nothing changed.
var errNothing = errors.New("nothing to commit")

// batch is one batch while it is being built. All that it does to the loop, it
// does in carryOver and letGo: a transaction that fails or is repeated leaves no trace.
type batch struct {
	l    *loop
	n    uint64 // its place in the order of all that were staged, from 1; 0: it was not
	tx   store.Tx
	now  effects.Time
	mono time.Time

	begun         bool        // it has come as far as to decide
	fold          *core.Batch // decides
	entry         core.Entry  // the inputs that have changed something
	dirty         bool        // something beside machines changed
	meta          map[effects.Ref]cached
	trial         *core.Batch            // tries what is to be decided, see foresee
	foreseen      map[effects.Ref]cached // records that were read for that; without a state: there is none
	foreseenBytes int
	corrupt       []unreadable
	broken        error         // the store could not be read: nothing more can be decided
	aside         []effects.Ref // machines whose records were set aside
	loaded        int           // bytes of states that were read
	shared        []effects.Ref // records that were read and that others refer to, too
	expired       uint64
	// lag is the longest that something due has waited for it.
	lag time.Duration
	// expiredEarly counts those that went before their time: their tenant had too many.
	expiredEarly uint64

	absences []core.Absence          // as of this batch
	replies  []Reply                 // one for each gathered request that it takes
	once     map[store.AnswerKey]int // which of them has a key first
	requests []*request              // those, once it is staged, and
	outcomes []outcome               // the outcomes that it has taken
	launches []launch
	unwanted []store.EffectKey    // what runs although the store no longer has it
	stops    []store.EffectKey    // what runs and is to end, and whose answer is awaited
	arrived  []store.FormerResult // what former owners have reported, and it has taken, once it is staged
	compared []string             // sessions of former owners of whom it has looked what they carry out, and
	astray   []store.FormerStop   // what of that is to end
	waiting  map[string]bool      // queues of the outbox of which it changes whether they have entries
	renewed  bool
	recover  time.Time // when to look for lost holders again
	sweep    sweep
	own      []time.Time
	nextDue  effects.Time
	webhooks bool
	retain   retention
	changes  []core.Change
	writes   []store.Write
	buf      []byte // stored forms
}

// build decides everything of the batch, part by part, writes it, and notes what the
// callers want to see of it. The order of the parts is that of the inputs in the journal.
func (b *batch) build() error {
	l := b.l
	if err := b.tx.CheckClaim(l.claim, l.token); err != nil {
		return fmt.Errorf("claim %s with token %d: %w", l.claim, l.token, err)
	}
	seq, err := b.tx.Seq()
	if err != nil {
		return err
	}
	if seq != l.lastSeq {
		l.cache.init() // another instance wrote
		l.backlog.others = l.backlog.entries > 0
	}
	b.sweep, b.nextDue, b.webhooks, b.retain, b.recover = l.sweep, l.nextDue, l.webhooks, l.retention, l.nextRecover
	b.begun = true
	l.unreserve() // what an attempt before this one took
	b.fold.Reset(b, core.Clock{Now: b.now}, seq+1)
	b.fold.Bound(l.allowed())
	b.fold.Subscribers(l.e.o.Subscribers)
	b.fold.Partition(uint16(l.e.o.Partition))
	b.fold.Divided(l.e.o.Partitions)
	inputs := b.entry.Inputs
	b.entry = core.NewEntry(seq+1, b.now, l.e.name)
	b.entry.Inputs, b.entry.Partition = inputs, uint16(l.e.o.Partition)

	for _, part := range []func() error{
		b.fetchGathered, b.presence, b.renew, b.catchUp, b.takeOwn, b.takeRequests, b.compareFormers, b.takeOutcomes, b.takeReported, b.recoverLost,
		b.sweepDue, b.readWebhooks, b.expire, b.forgetAnswers, b.dueNow, b.mendAtEnd, b.stop,
		b.write, b.outbox, b.startWaiting, b.conclude,
	} {
		if err := part(); err != nil {
			return err
		}
	}
	return nil
}

// Load gives the fold the states from before the batch.
func (b *batch) Load(ref effects.Ref) (core.State, error) {
	if was, changed := b.l.since(b.n, ref); changed { // it is asked for after the batch, see [Committed.State]
		return was, nil
	}
	if c, ok := b.l.cache.get(ref); ok {
		b.meta[ref] = c
		return c.state, nil
	}
	if c, known := b.foreseen[ref]; known {
		return b.loads(ref, c), nil
	}
	rec, err := b.tx.Get(ref.Kind, ref.ID)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		if errors.Is(err, store.ErrCorrupt) {
			q := store.Quarantined{Kind: ref.Kind, ID: ref.ID, At: b.now, Reason: err.Error()}
			if bad := (*store.RecordError)(nil); errors.As(err, &bad) {
				q.Raw = slices.Clone(bad.Raw)
			}
			b.corrupt = append(b.corrupt, unreadable{q, b.fold.Serving()})
		} else {
			b.broken = err
		}
		return nil, err
	}
	s, err := core.DecodeStateOf(ref, rec.State)
	if err != nil {
		q := store.Quarantined{Kind: ref.Kind, ID: ref.ID, At: b.now, Reason: err.Error(), Raw: slices.Clone(rec.State)}
		b.corrupt = append(b.corrupt, unreadable{q, b.fold.Serving()})
		return nil, fmt.Errorf("%w: %w", store.ErrCorrupt, err)
	}
	return b.loads(ref, readFrom(rec, s)), nil
}

func readFrom(rec store.Record, s core.State) cached {
	return cached{state: s, version: rec.Version, seq: rec.Seq, size: len(rec.State)}
}

// loads notes a record that the batch has read, if there is one.
func (b *batch) loads(ref effects.Ref, c cached) core.State {
	if c.state == nil {
		return nil
	}
	b.meta[ref] = c
	if core.Shared(ref.Kind) {
		b.shared = append(b.shared, ref)
	}
	b.loaded += c.size
	return c.state
}

// Scan gives the fold the list indexes from before the batch: nothing of the batch
// is written before all of it is decided.
func (b *batch) Scan(kind effects.Kind, term string, after core.Cursor, limit int) ([]core.Cursor, error) {
	found, err := b.tx.Scan(kind, term, store.Cursor(after), false, limit)
	if err != nil {
		b.broken = err
		return nil, err
	}
	out := make([]core.Cursor, len(found))
	for i, c := range found {
		out[i] = core.Cursor(c)
	}
	if err := b.fetchListed(kind, out); err != nil {
		b.broken = err
		return nil, err
	}
	return out, nil
}

// apply takes one input, and puts it into the journal's entry if it changed
// something. A record that it meets and that cannot be decoded is moved out of its
// way. An error says that the input alone cannot be decided, unless b.broken is set.
func (b *batch) apply(in core.Input) (core.Result, error) {
	in = b.informed(in)
	res, err := b.decideOne(in)
	if err != nil {
		b.undecided(in, err)
		return res, err
	}
	b.taken(in, res)
	return res, nil
}

// decideOne has the fold decide about one input.
func (b *batch) decideOne(in core.Input) (res core.Result, err error) {
	err = b.decide(func() (err error) {
		res, err = b.fold.Apply(in)
		return err
	})
	return res, err
}

// decide has the fold decide; again where it met a record that cannot be decoded, once that
// is out of its way.
func (b *batch) decide(fold func() error) error {
	b.broken = nil
	err := fold()
	for errors.Is(err, store.ErrCorrupt) && len(b.corrupt) > 0 {
		if err := b.setAside(); err != nil {
			return err
		}
		err = fold()
	}
	return err
}

// undecided counts and logs an input that cannot be decided.
func (b *batch) undecided(in core.Input, err error) {
	b.l.e.stats.inputErrors.Add(1)
	b.l.e.log.Error("input not decided", "to", in.To.String(), "event", in.Event.EventType(), "actor", in.Actor, "error", err)
}

// taken notes what became of an input that was decided, and puts it into the journal's
// entry if it changed something.
func (b *batch) taken(in core.Input, res core.Result) {
	if res.Refused != nil {
		b.l.e.stats.refused.Add(1)
		b.l.e.log.Debug("input refused", "to", res.Refused.To.String(), "event", res.Refused.Event, "actor", in.Actor, "reason", res.Refused.Reason)
	}
	if in.Full = res.Full; len(in.Full) > 0 && b.l.e.o.Hooks.Limited != nil {
		b.l.e.o.Hooks.Limited(in, in.Full)
	}
	if res.Changed {
		b.entry.Inputs = append(b.entry.Inputs, in)
	}
}

// renew gives a sign of life when it is time, and after a failed commit, to see
// whether the store takes one again.
func (b *batch) renew() error {
	if b.mono.Before(b.l.nextRenew) && b.l.lastErr == nil {
		return nil
	}
	if _, err := b.tx.Acquire(b.l.claim, b.l.e.name, b.l.e.o.LeaseTTL, b.now); err != nil {
		return err
	}
	b.renewed, b.dirty = true, true
	return nil
}

// takeOwn tells machines what the engine tells them by itself.
func (b *batch) takeOwn() error {
	b.own = append(b.own[:0], b.l.own...)
	if b.l.stopping {
		return nil
	}
	for i, own := range b.l.e.o.Own {
		if at := b.own[i]; at.IsZero() || at.After(b.mono) || b.l.withholds(own) {
			continue
		}
		if b.own[i] = (time.Time{}); own.Every > 0 {
			b.own[i] = b.mono.Add(own.Every)
		}
		if err := b.applyOwn(own.Input(b.l.e.name)); err != nil {
			return err
		}
	}
	return nil
}

// applyOwn takes an input of the engine itself. That a machine refuses it, since it knows that
// already, is no news.
func (b *batch) applyOwn(in core.Input) error {
	res, err := b.decideOne(in)
	switch {
	case b.broken != nil:
		return b.broken
	case err != nil:
		b.undecided(in, err)
	case res.Changed:
		b.taken(in, res)
	}
	return nil
}

// takeRequests carries out what callers have asked for, as far as the time and
// [Options.MaxBatch] allow. The rest stays gathered.
func (b *batch) takeRequests() error {
	b.replies = slices.Grow(b.replies, len(b.l.requests))[:len(b.l.requests)]
	timer := b.l.newStint()
	inputs := 0
	for i, r := range b.l.requests {
		if timer.over() || inputs >= b.l.e.o.MaxBatch {
			b.replies = b.replies[:i]
			break
		}
		inputs += len(r.Inputs)
		gone := r.ctx.Err()
		if r.once != nil {
			*r.once = onceOf{Once: r.once.Once, key: r.once.key, of: r.once.of, shape: r.once.shape, note: r.once.note} // an attempt before this one left no trace
			if gone == nil {
				rep, before, err := b.answeredBefore(i, r)
				if err != nil {
					return err
				}
				if b.replies[i] = rep; before {
					continue
				}
			}
		}
		switch {
		case gone != nil:
			b.replies[i].Err = gone // the caller has gone before anything was done
		case r.Webhook != nil:
			if b.replies[i].Before = b.cameBefore(r); b.replies[i].Before != uuid.Nil {
				continue
			}
			if err := b.tx.PutWebhook(*r.Webhook); err != nil {
				return err
			}
			b.webhooks, b.dirty = true, true
		case r.Write != nil:
			err := b.put(*r.Write)
			if b.broken != nil {
				return b.broken
			}
			b.replies[i].Err = err
		case len(r.Suspects) > 0:
			if err := b.readAnew(r.Suspects); err != nil {
				return err
			}
		case r.Many != nil:
			b.replies[i] = b.applyMany(r)
		default:
			if err := b.allowed(r); err != nil {
				b.replies[i].Err = err
				continue
			}
			b.replies[i] = b.applyAll(r.Inputs)
		}
	}
	return nil
}

// cameBefore gives the id under which a webhook has come before; zeros if it has not. It
// is decided in the transaction that stores the webhook, so that of two at once one is
// stored. What cannot be read does not keep a webhook out.
func (b *batch) cameBefore(r *request) uuid.UUID {
	for _, ref := range r.Earlier {
		if raw, ok := b.tx.(store.WebhookFinder); ok {
			if has, err := raw.HasWebhook(ref.ID); err == nil && has {
				return ref.ID
			}
		}
		if s, err := b.fold.State(ref); err == nil && s != nil && r.SameAs(s) {
			return ref.ID
		}
	}
	return uuid.Nil
}

// allowed asks the request whether it still holds. If the machine's record cannot be
// read, the inputs say so.
func (b *batch) allowed(r *request) error {
	if r.If == nil {
		return nil
	}
	s, err := b.fold.State(r.Want)
	if err != nil {
		return nil //nolint:nilerr // said above
	}
	return r.If(s)
}

// applyAll takes the inputs of a request, up to one that cannot be decided.
func (b *batch) applyAll(inputs []core.Input) (rep Reply) {
	for _, in := range inputs {
		rep.Result, rep.Err = b.apply(b.shortened(in))
		if rep.Err != nil {
			break
		}
	}
	return rep
}

// shortened says the same in fewer words if the journal has it often.
func (b *batch) shortened(in core.Input) core.Input {
	if !core.Shortens(in.Event) {
		return in
	}
	if s, err := b.fold.State(in.To); err == nil && b.broken == nil {
		in.Event = core.Shortened(s, in.Event)
	}
	return in
}

// put stores something that is no state, if the machine that it belongs to is there:
// it is to go with its record. b.broken says that nothing more can be decided.
func (b *batch) put(w Write) error {
	b.broken = nil
	s, err := b.fold.State(w.Of)
	if err != nil {
		return err // what cannot be decoded is set aside with the rest of the batch
	}
	if err := w.Check(s); err != nil {
		return err
	}
	if err := w.Put(b.tx); err != nil {
		b.broken = err
		return err
	}
	b.dirty = true
	return nil
}

// takeOutcomes tells the machines what has come of their outer effects.
func (b *batch) takeOutcomes() error {
	for _, o := range b.l.outcomes {
		if o.write != nil { // refused: the machine is gone, or has another opinion
			if _ = b.put(*o.write); b.broken != nil {
				return b.broken
			}
		}
		if err := b.ack(o.of.key, core.Input{To: o.of.ref, Actor: "tool", Event: o.event, Ack: o.of.key.N}); err != nil {
			return err
		}
	}
	return nil
}

// ack answers an outer effect: the machine is told, and the entry goes. A late
// or repeated answer is refused by the machine; the entry has gone then.
func (b *batch) ack(key store.EffectKey, in core.Input) error {
	if _, err := b.apply(in); err != nil {
		return b.broken // else the effect stays outstanding, and the next start asks again
	}
	err := b.tx.DeleteOutbox(key)
	if err == nil {
		b.dirty = true
	} else if errors.Is(err, store.ErrNotFound) {
		err = nil
	}
	return err
}

// readWebhooks turns raw webhooks into inputs, and deletes them (B4).
func (b *batch) readWebhooks() error {
	if !b.webhooks || b.l.stopping || (b.l.e.o.StrictTick && (!b.l.sweep.active || b.l.sweep.paced)) {
		return nil
	}
	const limit = 128
	defer func() {
		if b.webhooks && b.l.e.o.StrictTick {
			b.sweep.active = true // the tick goes on until all are read
		}
	}()
	hooks, err := b.tx.Webhooks(limit)
	if err := b.passOver(err); err != nil {
		return err
	}
	// Those of deliveries have ids that say nothing of their order.
	slices.SortStableFunc(hooks, func(x, y store.Webhook) int { return cmp.Compare(x.ReceivedAt, y.ReceivedAt) })
	for _, h := range hooks {
		if b.loaded > maxBatchBytes {
			return nil
		}
		b.loaded += len(h.Body)
		if err := b.readWebhook(h); err != nil {
			return err
		}
	}
	b.webhooks = len(hooks) == limit
	return nil
}

// readWebhook gives one webhook to its machine, or sets it aside.
func (b *batch) readWebhook(h store.Webhook) error {
	b.dirty = true
	reason, err := b.takeWebhook(h)
	if err != nil {
		return err
	}
	if reason != "" {
		b.l.e.stats.quarantined.Add(1)
		b.l.e.log.Error("webhook set aside", "webhook_id", h.ID, "route", h.Route, "reason", reason)
		q := store.Quarantined{Kind: store.KindWebhook, ID: h.ID, At: b.now, Reason: reason, Raw: slices.Clone(h.Body)}
		if err := b.tx.SetAside(q, 0); err != nil {
			return err
		}
	}
	return b.tx.DeleteWebhook(h.ID)
}

// takeWebhook gives the reason for which nothing came of a webhook.
func (b *batch) takeWebhook(h store.Webhook) (reason string, broken error) {
	in, err := b.l.e.o.Hooks.ReadWebhook(h)
	if err != nil {
		return err.Error(), nil
	}
	res, err := b.apply(in)
	switch {
	case b.broken != nil:
		return "", b.broken
	case err != nil:
		return err.Error(), nil
	case res.Refused != nil:
		return res.Refused.Reason, nil
	}
	return "", nil
}
