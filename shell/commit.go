package shell

import (
	"encoding/json"
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

// plan is one batch while it is being built. All that it does to the loop, it
// does in committed: a transaction that fails or is repeated leaves no trace.
type plan struct {
	l    *loop
	tx   store.Tx
	now  effects.Time
	mono time.Time

	batch   *core.Batch
	entry   core.Entry
	dirty   bool // something beside the batch changed
	meta    map[effects.Ref]cached
	corrupt []unreadable
	broken  error       // the store could not be read: nothing more can be decided
	aside   []uuid.UUID // actions that were set aside: their keys are to be freed
	loaded  int         // bytes of states that were read
	expired uint64

	replies  []reply // one for each gathered request
	launches []launch
	reserved map[string]int  // places of each lane that this batch takes
	waiting  map[string]bool // lanes whose waiting flag changes
	renewed  bool
	recover  time.Time // when to look for lost holders again
	sweep    sweep
	nextDue  effects.Time
	webhooks bool
	retain   retention
	changes  []core.Change
	writes   []store.Write
}

func (p *plan) build() error {
	l := p.l
	if err := p.tx.CheckClaim(l.claim, l.token); err != nil {
		return fmt.Errorf("claim %s with token %d: %w", l.claim, l.token, err)
	}
	seq, err := p.tx.Seq()
	if err != nil {
		return err
	}
	if seq != l.lastSeq {
		l.cache.init() // another instance wrote
	}
	p.sweep, p.nextDue, p.webhooks, p.retain, p.recover = l.sweep, l.nextDue, l.webhooks, l.retention, l.nextRecover
	p.meta = make(map[effects.Ref]cached)
	p.reserved = make(map[string]int)
	p.waiting = make(map[string]bool)
	p.batch = core.NewBatch(p, core.Clock{Now: p.now}, seq+1)
	p.entry = core.NewEntry(seq+1, p.now, l.e.name)

	for _, part := range []func() error{
		p.renew, p.takeRequests, p.takeOutcomes, p.recoverLost,
		p.sweepDue, p.readWebhooks, p.expire, p.dueNow, p.freeKeys,
	} {
		if err := part(); err != nil {
			return err
		}
	}
	p.changes = p.batch.Changes()
	if err := p.write(seq + 1); err != nil {
		return err
	}
	if err := p.outbox(seq + 1); err != nil {
		return err
	}
	if err := p.startWaiting(); err != nil {
		return err
	}
	if p.sweepDone() {
		if err := p.findNextDue(); err != nil {
			return err
		}
	}
	p.readWanted()
	if len(p.entry.Inputs) == 0 && !p.dirty {
		return errNothing
	}
	return nil
}

// readWanted notes the states that the callers want to see, as the whole batch
// leaves them.
func (p *plan) readWanted() {
	for i, r := range p.l.requests {
		if rep := &p.replies[i]; rep.err == nil && !r.want.IsZero() {
			rep.state, rep.err = p.batch.State(r.want)
		}
	}
}

// Load gives the batch the states from before it.
func (p *plan) Load(ref effects.Ref) (core.State, error) {
	if c, ok := p.l.cache.get(ref); ok {
		p.meta[ref] = c
		return c.state, nil
	}
	rec, err := p.tx.Get(ref.Kind, ref.ID)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		if errors.Is(err, store.ErrCorrupt) {
			q := store.Quarantined{Kind: ref.Kind, ID: ref.ID, At: p.now, Reason: err.Error()}
			if bad := (*store.RecordError)(nil); errors.As(err, &bad) {
				q.Raw = slices.Clone(bad.Raw)
			}
			p.corrupt = append(p.corrupt, unreadable{q, p.batch.Serving()})
		} else {
			p.broken = err
		}
		return nil, err
	}
	s, err := core.DecodeState(ref.Kind, rec.State)
	if err == nil && s.Ref() != ref {
		err = fmt.Errorf("the record of %s holds %s", ref, s.Ref())
	}
	if err != nil {
		q := store.Quarantined{Kind: ref.Kind, ID: ref.ID, At: p.now, Reason: err.Error(), Raw: slices.Clone(rec.State)}
		p.corrupt = append(p.corrupt, unreadable{q, p.batch.Serving()})
		return nil, fmt.Errorf("%w: %w", store.ErrCorrupt, err)
	}
	c := cached{state: s, version: rec.Version, seq: rec.Seq, size: len(rec.State)}
	p.meta[ref] = c
	p.loaded += c.size
	return s, nil
}

// Scan gives the batch the list indexes from before it: nothing of the batch is
// written before the batch is over.
func (p *plan) Scan(kind effects.Kind, term string, after core.Cursor, limit int) ([]core.Cursor, error) {
	found, err := p.tx.Scan(kind, term, store.Cursor(after), false, limit)
	if err != nil {
		p.broken = err
		return nil, err
	}
	out := make([]core.Cursor, len(found))
	for i, c := range found {
		out[i] = core.Cursor(c)
	}
	return out, nil
}

// apply takes one input, and puts it into the batch where it changed something.
// A record that it meets and that cannot be decoded is moved out of its way. An
// error says that the input alone cannot be decided, unless p.broken is set.
func (p *plan) apply(in core.Input) (core.Result, error) {
	p.broken = nil
	res, err := p.batch.Apply(in)
	for errors.Is(err, store.ErrCorrupt) && len(p.corrupt) > 0 {
		if err := p.setAside(); err != nil {
			return res, err
		}
		res, err = p.batch.Apply(in)
	}
	if err != nil {
		p.l.e.stats.inputErrors.Add(1)
		p.l.e.log.Error("input not decided", "to", in.To.String(), "event", in.Event.EventType(), "actor", in.Actor, "error", err)
		return res, err
	}
	if res.Refused != nil {
		p.l.e.stats.refused.Add(1)
		p.l.e.log.Debug("input refused", "to", res.Refused.To.String(), "event", res.Refused.Event, "actor", in.Actor, "reason", res.Refused.Reason)
	}
	if res.Changed {
		p.entry.Inputs = append(p.entry.Inputs, in)
	}
	return res, nil
}

// renew gives a sign of life when it is time, and after a failed commit, to see
// whether the store takes one again.
func (p *plan) renew() error {
	if p.mono.Before(p.l.nextRenew) && p.l.lastErr == nil {
		return nil
	}
	if _, err := p.tx.Acquire(p.l.claim, p.l.e.name, p.l.e.o.LeaseTTL, p.now); err != nil {
		return err
	}
	p.renewed, p.dirty = true, true
	return nil
}

func (p *plan) takeRequests() error {
	p.replies = make([]reply, len(p.l.requests))
	for i, r := range p.l.requests {
		if r.ctx.Err() != nil {
			p.replies[i].err = r.ctx.Err() // the caller has gone before anything was done
			continue
		}
		if r.webhook != nil {
			if err := p.tx.PutWebhook(*r.webhook); err != nil {
				return err
			}
			p.webhooks, p.dirty = true, true
			continue
		}
		if r.log != nil {
			err := p.putLog(*r.log)
			if p.broken != nil {
				return p.broken
			}
			p.replies[i].err = err
			continue
		}
		for _, in := range r.inputs {
			res, err := p.apply(p.shortened(in))
			p.replies[i] = reply{result: res, err: err}
			if err != nil {
				break
			}
		}
	}
	return nil
}

func (p *plan) takeOutcomes() error {
	for _, o := range p.l.outcomes {
		if err := p.ack(o.run.key, core.Input{To: o.run.ref, Actor: "tool", Event: o.event, Ack: o.run.key.N}); err != nil {
			return err
		}
	}
	return nil
}

// ack answers an outer effect: the machine is told, and the entry goes. A late
// or repeated answer is refused by the machine; the entry has gone then.
func (p *plan) ack(key store.EffectKey, in core.Input) error {
	if _, err := p.apply(in); err != nil {
		return p.broken // else the effect stays outstanding, and the next start asks again
	}
	err := p.tx.DeleteOutbox(key)
	if err == nil {
		p.dirty = true
	} else if errors.Is(err, store.ErrNotFound) {
		err = nil
	}
	return err
}

// sweepDue takes what is due, in time order, up to a batch (B1).
func (p *plan) sweepDue() error {
	if !p.sweep.active || p.l.stopping {
		return nil
	}
	limit := p.l.e.o.MaxBatch
	entries, err := p.tx.Due(p.l.due[:0], p.sweep.after, p.now, limit)
	p.l.due = entries // room for the next sweep
	if err != nil {
		return err
	}
	for _, d := range entries {
		if p.loaded > maxBatchBytes {
			return nil // the next batch goes on from here
		}
		key := d.Key
		p.sweep.after = &key
		if p.skips(d.Kind) || p.sweep.recurring && d.Kind != core.KindRecurring {
			continue
		}
		if err := p.due(d); err != nil {
			return err
		}
	}
	if len(entries) < limit {
		p.sweep = sweep{}
	}
	return nil
}

func (p *plan) skips(kind effects.Kind) bool {
	return kind == core.KindRecurring && p.l.e.o.DisableRecurring
}

// due wakes one machine. An entry that leads nowhere is set aside, so that it
// stops nobody (A10, 002 section 6).
func (p *plan) due(d store.DueEntry) error {
	ref := effects.Ref{Kind: d.Kind, ID: d.Key.ID()}
	ev := core.DueEvent(d.Kind)
	before, err := p.batch.State(ref)
	switch {
	case errors.Is(err, store.ErrCorrupt): // the record is set aside like any other, and the entry led to it alone
		if err := p.setAside(); err != nil {
			return err
		}
		return p.tx.RemoveDue(d)
	case err != nil:
		return err
	case before != nil && ev != nil && (before.Deadline() == d.Key.At() || p.decided(ref)):
		p.observeLateness(d)
		_, _ = p.apply(core.Input{To: ref, Actor: "clock", Event: ev}) // what cannot be decided stays due
		return p.broken
	case before == nil && p.decided(ref):
		return nil // this batch has ended it: its entry goes with it
	case before != nil && ev != nil: // a sound record: only the entry is wrong
		p.dirty = true
		p.l.e.log.Error("stray due entry removed", "ref", ref.String(), "due", d.Key.At().String(), "waits_for", before.Deadline().String())
		return p.tx.RemoveDue(d)
	}
	const reason = "the due index names a record that is not there"
	p.dirty = true
	p.l.e.stats.quarantined.Add(1)
	p.l.e.log.Error("due entry set aside", "ref", ref.String(), "due", d.Key.At().String(), "reason", reason)
	return p.tx.SetAside(store.Quarantined{Kind: ref.Kind, ID: ref.ID, At: p.now, Reason: reason}, d.Key.At())
}

// decided reports whether this batch has changed the machine before.
func (p *plan) decided(ref effects.Ref) bool {
	return slices.ContainsFunc(p.batch.Changes(), func(c core.Change) bool { return c.Ref == ref })
}

func (p *plan) observeLateness(d store.DueEntry) {
	p.l.e.stats.lateness.observe(p.now.Sub(d.Key.At()).Seconds())
}

// dueNow wakes what this batch itself has left due: what was created for now
// runs without waiting for another batch. With a strict tick that is done at
// ticks only.
func (p *plan) dueNow() error {
	if p.l.stopping || (p.l.e.o.StrictTick && !p.l.sweep.active) {
		return nil
	}
	const rounds = 4 // recurring → action; the rest waits for the sweep
	for range rounds {
		woke := false
		for _, ref := range p.batch.Due() {
			if p.skips(ref.Kind) || p.mustWait(ref) {
				continue
			}
			res, _ := p.apply(core.Input{To: ref, Actor: "clock", Event: core.DueEvent(ref.Kind)})
			if p.broken != nil {
				return p.broken
			}
			woke = woke || res.Changed
		}
		if !woke {
			return nil
		}
	}
	return nil
}

// mustWait reports whether a machine that is due waits for the tick: between two
// strict ticks only recurring actions and what they have dispatched are woken.
func (p *plan) mustWait(ref effects.Ref) bool {
	if !p.l.e.o.StrictTick || !p.l.sweep.recurring || ref.Kind == core.KindRecurring {
		return false
	}
	s, err := p.batch.State(ref)
	a, ok := s.(core.Action)
	return err != nil || !ok || a.Occurrence == uuid.Nil
}

// readWebhooks turns raw webhooks into actions, and deletes them (B4).
func (p *plan) readWebhooks() error {
	if !p.webhooks || p.l.stopping || (p.l.e.o.StrictTick && (!p.l.sweep.active || p.l.sweep.recurring)) {
		return nil
	}
	const limit = 128
	defer func() {
		if p.webhooks && p.l.e.o.StrictTick {
			p.sweep.active = true // the tick goes on until all are read
		}
	}()
	hooks, err := p.tx.Webhooks(limit)
	if err := p.passOver(err); err != nil {
		return err
	}
	for _, h := range hooks {
		if p.loaded > maxBatchBytes {
			return nil
		}
		p.loaded += len(h.Body)
		if err := p.readWebhook(h); err != nil {
			return err
		}
	}
	p.webhooks = len(hooks) == limit
	return nil
}

func (p *plan) readWebhook(h store.Webhook) error {
	p.dirty = true
	reason := ""
	if route, ok := p.l.e.o.Webhooks[h.Route]; ok {
		res, err := p.apply(core.Input{
			To:    effects.Ref{Kind: core.KindAction, ID: h.ID},
			Actor: "webhook:" + h.Route,
			Event: core.ActionCreate{Spec: webhookAction(h, route)},
		})
		switch {
		case p.broken != nil:
			return p.broken
		case err != nil:
			reason = err.Error()
		case res.Refused != nil:
			reason = res.Refused.Reason
		}
	} else {
		reason = fmt.Sprintf("route %q is not configured any more", h.Route)
	}
	if reason != "" {
		p.l.e.stats.quarantined.Add(1)
		p.l.e.log.Error("webhook set aside", "webhook_id", h.ID, "route", h.Route, "reason", reason)
		q := store.Quarantined{Kind: store.KindWebhook, ID: h.ID, At: p.now, Reason: reason, Raw: slices.Clone(h.Body)}
		if err := p.tx.SetAside(q, 0); err != nil {
			return err
		}
	}
	return p.tx.DeleteWebhook(h.ID)
}

func webhookAction(h store.Webhook, route WebhookRoute) core.ActionSpec {
	label := route.Label
	if label == "" {
		label = "webhook " + h.Route
	}
	return core.ActionSpec{
		ID: h.ID, Namespace: route.Namespace, Tenant: route.Tenant, Label: label,
		ToolName: route.Tool, ActionType: route.ActionType, ToolInput: slices.Clone(route.ToolInput), Policy: route.Policy,
		Trigger: core.Trigger{
			Type: core.TriggerWebhook, ReceivedAt: h.ReceivedAt, Route: h.Route,
			RawPayload: slices.Clone(h.Body), Header: slices.Clone(json.RawMessage(h.Header)),
		},
	}
}
