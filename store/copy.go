package store

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
)

// Exporter gives all that a store holds, as it is: a [Store] whose whole content can be
// copied, or what such a copy is read from. Package
// [github.com/orrery-go/orrery/store/stream] writes one to a stream and reads it back.
type Exporter interface {
	// Export calls the methods of to, in the order in which [Sink] has them, with all that
	// one View sees. An error of to ends it, and Export returns that error. What to got
	// counts only if Export returns nil.
	//
	// What is damaged and stands alone is passed over and told by [Sink.Omitted]: a record, a
	// webhook and an outbox entry are then given as [Quarantined]. If the journal cannot be
	// read at a place, all up to the next epoch is left out, so that what is given can be
	// replayed from its first epoch. Other damage is an error.
	Export(ctx context.Context, to Sink) error
}

// Importer is a [Store] that can take all that another one holds.
type Importer interface {
	Store
	// Import fills the store, which must be empty: nothing was ever committed to it. Nobody
	// else may use it meanwhile. If Import fails, the store holds a part, and is of no use.
	Import(ctx context.Context, from Exporter) error
}

// Sink takes what an [Exporter] gives. Bytes that a method gets are valid until it returns.
type Sink interface {
	// Begin comes first.
	Begin(Head) error
	// Record comes for each record, by kind, then id.
	Record(Record) error
	// Due comes for each entry of the due index, by key, then kind, also for one whose record
	// is not there.
	Due(DueEntry) error
	// Term comes for each index term of a record, by kind; those of a kind in an order that
	// does not count.
	Term(effects.Kind, uuid.UUID, Term) error
	// Outbox comes for each entry, by key.
	Outbox(OutboxEntry) error
	// Webhook comes for each raw webhook, by id.
	Webhook(Webhook) error
	// RunLog comes for each text that is kept, by run, then attempt.
	RunLog(run uuid.UUID, attempt uint32, text []byte) error
	// Claim comes for each claim, by name.
	Claim(Claim) error
	// Quarantined comes for what was set aside, and for what the export itself passed over.
	Quarantined(Quarantined) error
	// Meta comes for each small value, by name.
	Meta(name string, value []byte) error
	// Base comes for each record that an epoch keeps as it was before its first change there,
	// and Batch for each batch of the journal, together by number: seq is that of the batch
	// which changed the record, or of the epoch's first one, and the base comes before that batch.
	// at is zero if the store does not know it. Some may come that stand before the first epoch:
	// they do not count.
	Base(epoch, seq uint64, r Record) error
	Batch(at effects.Time, b Batch) error
	// Epoch comes for each epoch, at least one, by number. The first one says where the
	// journal begins.
	Epoch(Epoch) error
	// Omitted may come at any place.
	Omitted(Omission) error
}

// Head is what a copy begins with.
type Head struct {
	Seq   uint64 `json:"seq"`   // the number of the last batch
	Token uint64 `json:"token"` // the last token that a claim got
	Bytes int64  `json:"bytes"` // of keys and values that follow, roughly; zero: unknown
	// Place is where in its own log the store stood, in a form that only stores of that kind
	// know; empty: there is no such place.
	Place json.RawMessage `json:"place,omitempty"`
}

// Omission says what a copy lacks, since it could not be read.
type Omission struct {
	What   string `json:"what"`             // "journal", "record", "due entry" and so on
	Name   string `json:"name,omitempty"`   // which one, if there is a name
	From   uint64 `json:"from,omitempty"`   // of the journal: the first batch that is left out
	To     uint64 `json:"to,omitempty"`     // and the last one
	Reason string `json:"reason,omitempty"` // the error
}

// String gives all of it on one line.
func (o Omission) String() string {
	s := o.What
	if o.Name != "" {
		s += " " + o.Name
	}
	if o.To != 0 {
		s += fmt.Sprintf(" of the batches %d to %d", o.From, o.To)
	}
	return s + ": " + o.Reason
}
