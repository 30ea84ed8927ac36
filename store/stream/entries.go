package stream

import (
	"encoding/binary"
	"encoding/json"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

// Entries stand one behind the other. Numbers are varints, an id has its 16 bytes, and texts and
// bytes their length before them.

const (
	flagCounted = 1 // of a term

	flagKnown = 1 // of a batch

	flagGone  = 1 // of a change
	flagDelta = 2 // there is one

	flagRaw = 1 // of what was set aside: its bytes are there

	// What an entry of the journal is.
	isBase  = 0
	isBatch = 1
)

func appendText[T ~string | ~[]byte](b []byte, s T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendID(b []byte, id uuid.UUID) []byte { return append(b, id[:]...) }

func appendTime(b []byte, t effects.Time) []byte { return binary.AppendVarint(b, int64(t)) }

func appendRecord(b []byte, r *store.Record) []byte {
	b = appendID(appendText(b, r.Kind), r.ID)
	b = binary.AppendUvarint(binary.AppendUvarint(b, r.Version), r.Seq)
	return appendText(b, r.State)
}

func appendDue(b []byte, d *store.DueEntry) []byte {
	return binary.AppendUvarint(appendText(append(b, d.Key[:]...), d.Kind), uint64(d.Share))
}

func appendOutbox(b []byte, e *store.OutboxEntry) []byte {
	b = binary.AppendUvarint(appendID(b, e.Key.ID), uint64(e.Key.N))
	b = binary.AppendUvarint(b, e.Seq)
	b = appendText(appendText(appendText(b, e.Kind), e.Lane), e.Effect)
	return binary.AppendUvarint(appendText(b, e.Holder), e.Token)
}

func appendBatch(b []byte, at effects.Time, batch *store.Batch) []byte {
	b = appendText(appendTime(binary.AppendUvarint(b, batch.Seq), at), batch.Entry)
	if !batch.Known {
		return append(b, 0)
	}
	b = binary.BigEndian.AppendUint64(append(b, flagKnown), batch.Digest)
	b = binary.AppendUvarint(b, uint64(len(batch.Changes)))
	for i := range batch.Changes {
		c := &batch.Changes[i]
		b = binary.AppendUvarint(appendID(appendText(b, c.Kind), c.ID), c.Before)
		flags := byte(0)
		if c.Gone {
			flags |= flagGone
		}
		if d := c.Delta; d.Prefix != 0 || d.Suffix != 0 || len(d.Middle) > 0 {
			flags |= flagDelta
		}
		b = append(b, flags)
		if flags&flagDelta != 0 {
			b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(c.Delta.Prefix)), uint64(c.Delta.Suffix))
			b = appendText(b, c.Delta.Middle)
		}
	}
	return b
}

// parser takes entries apart; what is not as expected spoils all that follows.
type parser struct {
	rest  []byte
	bad   bool
	names map[string]string // texts that come again and again

	noShares bool // of due entries
}

func (p *parser) take(n uint64) []byte {
	if p.bad = p.bad || n > uint64(len(p.rest)); p.bad {
		return nil
	}
	part := p.rest[:n:n]
	p.rest = p.rest[n:]
	return part
}

func (p *parser) number() uint64 {
	n, size := binary.Uvarint(p.rest)
	if p.bad = p.bad || size <= 0; p.bad {
		return 0
	}
	p.rest = p.rest[size:]
	return n
}

// small is a number that fits into n bits.
func (p *parser) small(n int) uint64 {
	v := p.number()
	if p.bad = p.bad || v >= 1<<n; p.bad {
		return 0
	}
	return v
}

func (p *parser) time() effects.Time {
	t, size := binary.Varint(p.rest)
	if p.bad = p.bad || size <= 0; p.bad {
		return 0
	}
	p.rest = p.rest[size:]
	return effects.Time(t)
}

func (p *parser) flags() byte {
	if b := p.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (p *parser) bytes() []byte { return p.take(p.number()) }

func (p *parser) id() (id uuid.UUID) {
	copy(id[:], p.take(uint64(len(id))))
	return id
}

// maxNames is how many texts a parser keeps.
const maxNames = 1000

// text is bytes as a string, which is made once where it is short and comes again.
func (p *parser) text() string {
	b := p.bytes()
	if s, ok := p.names[string(b)]; ok {
		return s
	}
	s := string(b)
	if len(s) <= store.MaxName && len(p.names) < maxNames {
		if p.names == nil {
			p.names = make(map[string]string)
		}
		p.names[s] = s
	}
	return s
}

func (p *parser) kind() effects.Kind { return effects.Kind(p.text()) }

func (p *parser) record() store.Record {
	return store.Record{Kind: p.kind(), ID: p.id(), Version: p.number(), Seq: p.number(), State: p.bytes()}
}

func (p *parser) outbox() store.OutboxEntry {
	e := store.OutboxEntry{
		Key: store.EffectKey{ID: p.id(), N: uint32(p.small(32))}, Seq: p.number(), Kind: p.kind(), Lane: p.text(),
		Effect: p.bytes(), Holder: p.text(), Token: p.number(),
	}
	if len(e.Effect) == 0 { // it may be left out
		e.Effect = nil
	}
	return e
}

func (p *parser) claim() store.Claim {
	return store.Claim{Name: p.text(), Holder: p.text(), Token: p.number(), Session: p.text(), Renewed: p.time(), Until: p.time()}
}

func (p *parser) quarantined() store.Quarantined {
	q := store.Quarantined{Kind: p.kind(), ID: p.id(), N: uint32(p.small(32)), At: p.time(), Reason: string(p.bytes())}
	if p.flags()&flagRaw != 0 {
		q.Raw = p.bytes()
	}
	return q
}

func (p *parser) batch() (at effects.Time, b store.Batch) {
	b.Seq, at, b.Entry = p.number(), p.time(), p.bytes()
	if b.Known = p.flags()&flagKnown != 0; !b.Known {
		return at, b
	}
	if raw := p.take(8); raw != nil {
		b.Digest = binary.BigEndian.Uint64(raw)
	}
	for n := p.number(); n > 0 && !p.bad; n-- {
		c := store.Changed{Kind: p.kind(), ID: p.id(), Before: p.number()}
		flags := p.flags()
		c.Gone = flags&flagGone != 0
		if flags&flagDelta != 0 {
			c.Delta = store.Delta{Prefix: int(p.small(31)), Suffix: int(p.small(31)), Middle: p.bytes()}
		}
		b.Changes = append(b.Changes, c)
	}
	return at, b
}

// entry parses one entry of a section, and gives it to the sink.
func (p *parser) entry(s section, to store.Sink) error {
	switch s {
	case sectionRecords:
		if r := p.record(); !p.bad {
			return to.Record(r)
		}
	case sectionDue:
		var d store.DueEntry
		copy(d.Key[:], p.take(uint64(len(d.Key))))
		if d.Kind = p.kind(); !p.noShares {
			d.Share = uint32(p.small(32))
		}
		if !p.bad {
			return to.Due(d)
		}
	case sectionTerms:
		kind, id := p.kind(), p.id()
		t := store.Term{Name: string(p.bytes()), At: p.time(), Counted: p.flags()&flagCounted != 0}
		if !p.bad {
			return to.Term(kind, id, t)
		}
	case sectionOutbox:
		if e := p.outbox(); !p.bad {
			return to.Outbox(e)
		}
	case sectionWebhooks:
		w := store.Webhook{ID: p.id(), Route: p.text(), Header: p.bytes(), ReceivedAt: p.time(), Body: p.bytes()}
		if !p.bad {
			return to.Webhook(w)
		}
	case sectionRunLogs:
		if run, attempt, text := p.id(), uint32(p.small(32)), p.bytes(); !p.bad {
			return to.RunLog(run, attempt, text)
		}
	case sectionClaims:
		if c := p.claim(); !p.bad {
			return to.Claim(c)
		}
	case sectionQuarantine:
		if q := p.quarantined(); !p.bad {
			return to.Quarantined(q)
		}
	default:
		return p.journal(s, to)
	}
	return errForm
}

// journal is entry for the journal, its epochs, and what is small.
func (p *parser) journal(s section, to store.Sink) error {
	switch s {
	case sectionMeta:
		if name, value := p.text(), p.bytes(); !p.bad {
			return to.Meta(name, value)
		}
	case sectionJournal:
		switch what := p.take(1); {
		case p.bad:
		case what[0] == isBase:
			if epoch, seq, r := p.number(), p.number(), p.record(); !p.bad {
				return to.Base(epoch, seq, r)
			}
		case what[0] == isBatch:
			if at, b := p.batch(); !p.bad {
				return to.Batch(at, b)
			}
		}
	case sectionEpochs:
		if e := (store.Epoch{Number: p.number(), First: p.number(), Started: p.time()}); !p.bad {
			return to.Epoch(e)
		}
	case sectionOmitted:
		var o store.Omission
		if err := json.Unmarshal(p.bytes(), &o); err == nil && !p.bad {
			return to.Omitted(o)
		}
	default: // a head or an end in a wrong place
	}
	return errForm
}
