package rewind

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/engine"
	"github.com/orrery-go/orrery/shell/jobs"
	"github.com/orrery-go/orrery/store"
)

// sink takes what the source holds, and gives what it held.
type sink struct {
	*journal
	to      store.Sink
	waiting *waiting
	had     map[effects.Ref]bool // records that were set aside: whether it was told, or is known what they were
	bad     []passed             // records that the source cannot read
	passing *store.Omission      // of one whose name is not told yet
	epoch   bool                 // one was given
	part    int                  // how many parts were begun
	name    []byte
}

// passed is a record that the source cannot read.
type passed struct {
	ref effects.Ref
	o   store.Omission
}

// The parts of an export in which the sink has something of its own, in their order.
const (
	partRecords = iota
	partDue
	partTerms
	partOutbox
	partRest
)

func newSink(to store.Sink, j *journal) *sink {
	return &sink{journal: j, to: to, waiting: newWaiting(j.o), had: map[effects.Ref]bool{}}
}

func (s *sink) close() error { return s.waiting.close() }

// upTo ends the parts before one: what the source has no call for comes then.
func (s *sink) upTo(part int) error {
	for ; s.part < part; s.part++ {
		var err error
		switch s.part {
		case partRecords:
			err = s.endRecords()
		case partDue:
			err = s.waiting.giveDue(s.to)
		case partTerms:
			err = s.waiting.giveTerms(s.to)
		case partOutbox:
			err = s.endOutbox()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Begin implements [store.Sink].
func (s *sink) Begin(h store.Head) error {
	if h.Seq != s.last {
		return fmt.Errorf("the store has batch %d now, and had %d before: nobody may write to it meanwhile", h.Seq, s.last)
	}
	h.Seq, h.Place = s.journal.to, nil // what followed in its log does not follow here
	return s.to.Begin(h)
}

// Record implements [store.Sink].
func (s *sink) Record(r store.Record) error {
	ref := effects.Ref{Kind: r.Kind, ID: r.ID}
	s.name = appendRef(s.name[:0], ref)
	if err := s.before(s.name); err != nil {
		return err
	}
	return s.undoOne(ref, r)
}

// before gives the records that the source does not have any more and that come before a name.
func (s *sink) before(name []byte) error {
	for {
		key, _, ok := s.changes.peek()
		if !ok || name != nil && bytes.Compare(key[:len(key)-changeTail], name) >= 0 {
			return s.ctx.Err()
		}
		gone := bytes.Clone(key[:len(key)-changeTail])
		rest := s.name
		s.name = gone
		err := s.undoOne(refOf(gone), store.Record{})
		if s.name = rest; err != nil {
			return err
		}
	}
}

// undoOne gives what the record of s.name was.
func (s *sink) undoOne(ref effects.Ref, now store.Record) error {
	c, err := s.undo(s.name, ref, now)
	switch {
	case err != nil:
		return err
	case !c.known:
		if told, is := s.had[ref]; is && !told {
			return nil // endRecords tells
		}
		s.had[ref] = true // it is told here
		return s.to.Omitted(store.Omission{
			What: "record", Name: ref.String(),
			Reason: "it was set aside since, and the journal has no state of it from before that: what was set aside is in the quarantine",
		})
	case !c.there:
		if c.aside && !c.missing() {
			s.had[ref] = true // it was made since
		}
		return nil
	}
	if c.aside {
		s.had[ref] = true
	}
	changed := c.undone > 0 || now.Version == 0
	if changed {
		s.report.Records++
	}
	if now.Version == 0 {
		s.report.Gone++
		now = store.Record{Kind: ref.Kind, ID: ref.ID}
	}
	if changed {
		now.Version, now.Seq, now.State = c.version, c.seq, c.state
	}
	return s.give(ref, now, changed, c.other)
}

// give gives a record, and notes what it waits for.
func (s *sink) give(ref effects.Ref, r store.Record, changed, other bool) error {
	if r.Seq == s.journal.to {
		s.digests[0] -= store.Digest(r.Kind, r.ID, r.State)
	}
	state, err := core.DecodeState(r.Kind, r.State)
	if err == nil && state.Ref() != ref {
		err = fmt.Errorf("it is that of %s", state.Ref())
	}
	switch {
	case err != nil && changed:
		return fmt.Errorf("%w: batch %d: %s as it left it: %w", store.ErrCorrupt, r.Seq, ref, err)
	case err != nil: // the engine would set it aside when it meets it
		q := store.Quarantined{Kind: r.Kind, ID: r.ID, At: s.report.To.At, Reason: err.Error(), Raw: r.State}
		return errors.Join(s.to.Omitted(store.Omission{What: "record", Name: ref.String(), Reason: err.Error()}), s.to.Quarantined(q))
	}
	if err := s.waiting.add(state, r, changed, other); err != nil {
		return err
	}
	return s.to.Record(r)
}

// endRecords gives the rest of them, tells which the source cannot read and the journal does not have,
// and holds what the batches left against their digests.
func (s *sink) endRecords() error {
	if err := s.before(nil); err != nil {
		return err
	}
	for _, p := range s.bad {
		if s.had[p.ref] {
			continue
		}
		s.had[p.ref] = true
		if err := s.to.Omitted(p.o); err != nil {
			return err
		}
	}
	if seq := s.unequal(); seq != 0 {
		return fmt.Errorf("%w: batch %d: what it left is not what its digest says", store.ErrCorrupt, seq)
	}
	return s.waiting.begin()
}

// Due implements [store.Sink]: see waiting.
func (s *sink) Due(store.DueEntry) error { return s.upTo(partDue) }

// Term implements [store.Sink]: see waiting.
func (s *sink) Term(effects.Kind, uuid.UUID, store.Term) error { return s.upTo(partTerms) }

// Outbox implements [store.Sink]. What was asked for since tells nothing of an effect with its number that
// was waited for then: it is of another record, under an id that was free again.
func (s *sink) Outbox(e store.OutboxEntry) error {
	if err := s.upTo(partOutbox); err != nil || e.Seq > s.journal.to {
		return err
	}
	return s.waiting.giveOutbox(s.to, &e, s.report)
}

func (s *sink) endOutbox() error { return s.waiting.giveOutbox(s.to, nil, s.report) }

// Webhook implements [store.Sink].
func (s *sink) Webhook(w store.Webhook) error {
	if err := s.upTo(partRest); err != nil {
		return err
	}
	if s.last > s.journal.to && w.ReceivedAt.After(s.until) {
		s.report.Webhooks++
		return nil
	}
	return s.to.Webhook(w)
}

// RunLog implements [store.Sink].
func (s *sink) RunLog(run uuid.UUID, attempt uint32, text []byte) error {
	if err := s.upTo(partRest); err != nil {
		return err
	}
	ended, err := s.waiting.hadEnded(run, attempt)
	if err != nil {
		return err
	}
	if !ended {
		s.report.RunLogs++
		return nil
	}
	return s.to.RunLog(run, attempt, text)
}

// Claim implements [store.Sink]: those who had one are not there.
func (s *sink) Claim(store.Claim) error { return s.upTo(partRest) }

// Quarantined implements [store.Sink].
func (s *sink) Quarantined(q store.Quarantined) error {
	ref := effects.Ref{Kind: q.Kind, ID: q.ID}
	switch {
	case q.Kind == store.KindWebhook, q.Kind == store.KindOutbox:
		return s.to.Quarantined(q)
	case s.passing != nil: // what the export passes over now
		s.aside[ref]++
		s.bad, s.passing, s.had[ref] = append(s.bad, passed{ref, *s.passing}), nil, false
		return s.to.Quarantined(q)
	}
	if err := s.upTo(partRest); err != nil {
		return err
	}
	if q.At.After(s.report.To.At) && !s.had[ref] {
		s.had[ref] = true
		when := "since"
		if s.report.To.At.IsZero() && q.At < s.until { // which that of the batch that comes next is
			when = "before or since"
		}
		err := s.to.Omitted(store.Omission{What: "record", Name: ref.String(), Reason: fmt.Sprintf("it was set aside %s: %s", when, q.Reason)})
		if err != nil {
			return err
		}
	}
	return s.to.Quarantined(q)
}

// Meta implements [store.Sink].
func (s *sink) Meta(name string, value []byte) error {
	if err := s.upTo(partRest); err != nil {
		return err
	}
	value = jobs.MetaAt(name, engine.MetaAt(name, value, s.core), s.journal.to)
	if value == nil {
		return nil
	}
	return s.to.Meta(name, value)
}

// Base implements [store.Sink].
func (s *sink) Base(epoch, seq uint64, r store.Record) error {
	if err := s.upTo(partRest); err != nil {
		return err
	}
	if now, ok := s.epochOf(); !ok || epoch > now.Number || seq > s.journal.to {
		return nil
	}
	return s.to.Base(epoch, seq, r)
}

// Batch implements [store.Sink].
func (s *sink) Batch(at effects.Time, b store.Batch) error {
	if err := s.upTo(partRest); err != nil || b.Seq > s.journal.to {
		return err
	}
	return s.to.Batch(at, b)
}

// Epoch implements [store.Sink]. If all that stays of the journal is left out, the first epoch that
// is given begins behind it.
func (s *sink) Epoch(e store.Epoch) error {
	if err := s.upTo(partRest); err != nil {
		return err
	}
	if e.First > s.journal.to {
		if s.epoch {
			return nil
		}
		e.First = s.journal.to + 1
	}
	s.epoch = true
	return s.to.Epoch(e)
}

// Omitted implements [store.Sink]. What stands in indexes and in the outbox is made anew; a record may be had
// from the journal.
func (s *sink) Omitted(o store.Omission) error {
	switch {
	case o.What == "due entry", o.What == "list entry", o.What == "outbox entry":
		return nil
	case o.What == "record":
		s.passing = &o
		return nil
	case o.What == "journal" && o.From > s.journal.to:
		return nil
	case o.What == "journal":
		o.To = min(o.To, s.journal.to)
	}
	return s.to.Omitted(o)
}
