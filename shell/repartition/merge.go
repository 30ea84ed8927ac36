package repartition

import (
	"bytes"
	"cmp"
	"container/heap"
	"context"
	"errors"
	"iter"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

// part is the part of an export that an item belongs to, in the order of [store.Sink].
type part uint8

const (
	partAny part = iota // what may come at any place
	partBegin
	partRecord
	partDue
	partTerm
	partOutbox
	partWebhook
	partLog
	partClaim
	partMeta
)

// item is one call of a [store.Sink].
type item struct {
	source int
	to     int // the target, of what the copy itself has made; else -1
	place

	head        store.Head
	record      store.Record
	due         store.DueEntry
	term        store.Term
	outbox      store.OutboxEntry
	webhook     store.Webhook
	claim       store.Claim
	quarantined *store.Quarantined
	omitted     *store.Omission
	bytes       []byte // of a log or a small value
}

// place is where an item stands in the order of an export.
type place struct {
	part part
	kind effects.Kind
	key  store.DueKey // or an id at its beginning
	name string
	n    uint32
}

func (p place) compare(o place) int {
	return cmp.Or(cmp.Compare(p.part, o.part), cmp.Compare(p.kind, o.kind), bytes.Compare(p.key[:], o.key[:]), cmp.Compare(p.name, o.name), cmp.Compare(p.n, o.n))
}

func (p place) ref() effects.Ref { return effects.Ref{Kind: p.kind, ID: uuid.UUID(p.key[:16])} }

func placeOf(of part, kind effects.Kind, id uuid.UUID) (p place) {
	p.part, p.kind = of, kind
	copy(p.key[:], id[:])
	return p
}

// puller takes what an exporter gives, one item at a time.
type puller struct {
	next func() (*item, bool)
	stop func()
	err  error
	head *item
}

// errStopped is what an exporter gets whose items nobody takes any more.
var errStopped = errors.New("the copy was given up")

// pull begins an export. Each item is valid until the next one is taken.
func pull(ctx context.Context, from store.Exporter, source int) *puller {
	p := &puller{}
	p.next, p.stop = iter.Pull(func(yield func(*item) bool) {
		if err := from.Export(ctx, &feeder{yield: yield, item: item{source: source, to: -1}}); err != nil && !errors.Is(err, errStopped) {
			p.err = err
		}
	})
	return p
}

// advance takes the next item; false: there is none.
func (p *puller) advance() (ok bool, err error) {
	p.head, ok = p.next()
	return ok, p.err
}

// feeder is the [store.Sink] of a puller.
type feeder struct {
	yield func(*item) bool
	item  item
}

func (f *feeder) give(at place) error {
	if f.item.place = at; !f.yield(&f.item) {
		return errStopped
	}
	return nil
}

func (f *feeder) Begin(h store.Head) error {
	f.item.head = h
	return f.give(place{part: partBegin})
}

func (f *feeder) Record(r store.Record) error {
	f.item.record = r
	return f.give(placeOf(partRecord, r.Kind, r.ID))
}

func (f *feeder) Due(d store.DueEntry) error {
	f.item.due = d
	return f.give(place{part: partDue, key: d.Key, name: string(d.Kind)})
}

func (f *feeder) Term(kind effects.Kind, id uuid.UUID, t store.Term) error {
	f.item.term = t
	f.item.record.ID = id
	return f.give(place{part: partTerm, kind: kind})
}

func (f *feeder) Outbox(e store.OutboxEntry) error {
	f.item.outbox = e
	at := placeOf(partOutbox, "", e.Key.ID)
	at.n = e.Key.N
	return f.give(at)
}

func (f *feeder) Webhook(w store.Webhook) error {
	f.item.webhook = w
	return f.give(placeOf(partWebhook, "", w.ID))
}

func (f *feeder) RunLog(run uuid.UUID, attempt uint32, text []byte) error {
	f.item.bytes = text
	at := placeOf(partLog, "", run)
	at.n = attempt
	return f.give(at)
}

func (f *feeder) Claim(c store.Claim) error {
	f.item.claim = c
	return f.give(place{part: partClaim, name: c.Name})
}

func (f *feeder) Quarantined(q store.Quarantined) error {
	f.item.quarantined, f.item.omitted = &q, nil
	return f.give(place{part: partAny})
}

func (f *feeder) Omitted(o store.Omission) error {
	if o.What == "journal" {
		return nil // which stays behind
	}
	f.item.quarantined, f.item.omitted = nil, &o
	return f.give(place{part: partAny})
}

func (f *feeder) Meta(name string, value []byte) error {
	f.item.bytes = value
	return f.give(place{part: partMeta, name: name})
}

// The journal stays behind.
func (*feeder) Base(uint64, uint64, store.Record) error { return nil }
func (*feeder) Batch(effects.Time, store.Batch) error   { return nil }
func (*feeder) Epoch(store.Epoch) error                 { return nil }

// merge calls fn for the items of all pullers, in the order of an export, first for the beginning of each. What stands at one place comes
// in the order of the sources.
func merge(ctx context.Context, pullers []*puller, fn func(*item) error) (err error) {
	defer func() {
		for _, p := range pullers {
			p.stop()
		}
	}()
	var h byPlace
	for _, p := range pullers {
		ok, err := p.advance()
		if ok && err == nil { // it begins
			if err = fn(p.head); err == nil {
				ok, err = p.advance()
			}
		}
		if err != nil {
			return err
		}
		if ok {
			h = append(h, p)
		}
	}
	heap.Init(&h)
	for len(h) > 0 {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := fn(h[0].head); err != nil {
			return err
		}
		ok, err := h[0].advance()
		switch {
		case err != nil:
			return err
		case ok:
			heap.Fix(&h, 0)
		default:
			heap.Pop(&h)
		}
	}
	return nil
}

// byPlace is a heap of them by their next items.
type byPlace []*puller

func (h byPlace) Len() int { return len(h) }
func (h byPlace) Less(i, j int) bool {
	a, b := h[i].head, h[j].head
	return cmp.Or(a.compare(b.place), cmp.Compare(a.source, b.source)) < 0
}
func (h byPlace) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *byPlace) Push(x any)   { *h = append(*h, x.(*puller)) }
func (h *byPlace) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}
