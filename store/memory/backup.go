package memory

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/stream"
)

// Backup implements [store.Store]: it writes a stream of package
// [github.com/orrery-go/orrery/store/stream]. [Restore] reads what it writes.
func (s *Store) Backup(ctx context.Context, w io.Writer) (int64, error) {
	sum, err := stream.Write(ctx, w, s, stream.Options{})
	if err != nil {
		return sum.Bytes, fmt.Errorf("backup: %w", err)
	}
	return sum.Bytes, nil
}

// Restore makes a store of what [store.Store.Backup] of any store wrote, with that session. It
// fails with [store.ErrCorrupt] or [stream.ErrForeign] where r holds something else.
func Restore(r io.Reader, session string) (*Store, error) {
	from, err := stream.NewReader(r)
	if err != nil {
		return nil, fmt.Errorf("restore: %w", err)
	}
	s := NewSession(session)
	if err := s.Import(context.Background(), from); err != nil {
		return nil, fmt.Errorf("restore: %w", err)
	}
	return s, nil
}

// Export implements [store.Exporter].
func (s *Store) Export(ctx context.Context, to store.Sink) error {
	d, err := s.begin(ctx, "export")
	if err != nil {
		return err
	}
	defer s.open.Done()
	return (&exporter{readTx{ctx: ctx, data: d}, to}).all()
}

// exporter gives all of one data.
type exporter struct {
	readTx
	to store.Sink
}

func (x *exporter) all() error {
	for _, part := range []func() error{
		func() error { return x.to.Begin(store.Head{Seq: x.data.seq, Token: x.data.token}) },
		x.records, x.kept, x.journal,
	} {
		if err := part(); err != nil {
			return err
		}
	}
	return nil
}

func (x *exporter) records() error {
	t, d := &x.readTx, x.data
	err := visit(t, "export", d.records.all(), func(_ recordKey, r indexedRecord) error { return x.to.Record(r.Record) })
	if err == nil {
		err = visit(t, "export", d.due.all(), func(k dueKey, share uint32) error {
			return x.to.Due(store.DueEntry{Key: k.DueKey, Kind: k.kind, Share: share})
		})
	}
	if err == nil {
		err = visit(t, "export", d.records.all(), func(_ recordKey, r indexedRecord) error {
			for _, term := range r.Terms {
				if err := x.to.Term(r.Kind, r.ID, term); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return err
}

func (x *exporter) kept() error {
	t, d := &x.readTx, x.data
	err := visit(t, "export", d.outbox.all(), func(_ store.EffectKey, e store.OutboxEntry) error { return x.to.Outbox(e) })
	if err == nil {
		err = visit(t, "export", d.webhooks.all(), func(_ uuid.UUID, w store.Webhook) error { return x.to.Webhook(w) })
	}
	if err == nil {
		err = visit(t, "export", d.logs.all(), func(k store.EffectKey, text []byte) error { return x.to.RunLog(k.ID, k.N, text) })
	}
	if err == nil {
		err = visit(t, "export", d.claims.all(), func(_ string, c store.Claim) error { return x.to.Claim(c) })
	}
	if err == nil {
		err = visit(t, "export", d.quarantine.all(), func(_ quarantineKey, q store.Quarantined) error { return x.to.Quarantined(q) })
	}
	if err == nil {
		err = visit(t, "export", d.meta.all(), x.to.Meta)
	}
	return err
}

// journal gives the bases of an epoch before its first batch.
func (x *exporter) journal() error {
	epochs := x.data.epochs
	err := x.bases(epochs[0].First)
	if err == nil {
		err = x.Batches(0, func(b store.Batch) error {
			if b.Seq != epochs[0].First {
				if err := x.bases(b.Seq); err != nil {
					return err
				}
			}
			return x.to.Batch(0, b)
		})
	}
	if next := x.data.seq + 1; err == nil && next != epochs[0].First {
		err = x.bases(next)
	}
	for _, e := range epochs {
		if err == nil {
			err = x.to.Epoch(e)
		}
	}
	return err
}

// bases gives what the epochs that begin with a batch keep.
func (x *exporter) bases(first uint64) error {
	for _, e := range x.data.epochs {
		if e.First != first {
			continue
		}
		if err := x.Base(e.Number, func(r store.Record) error { return x.to.Base(e.Number, first, r) }); err != nil {
			return err
		}
	}
	return nil
}

// errNotEmpty is the error of an Import into a store in which something was committed.
var errNotEmpty = errors.New("import: the store is not empty: only a new one can take another's content")

// Import implements [store.Importer].
func (s *Store) Import(ctx context.Context, from store.Exporter) error {
	return s.Update(ctx, func(of store.Tx) error {
		t := of.(*tx)
		if t.data.commits != 0 {
			return errNotEmpty
		}
		i := importer{data: t.data}
		i.data.epochs = nil
		if err := from.Export(ctx, &i); err != nil {
			return fmt.Errorf("import: %w", err)
		}
		return i.finish()
	})
}

// importer is the [store.Sink] that fills a data.
type importer struct {
	data *data
	seq  uint64 // as the head says
}

func (i *importer) finish() error {
	d := i.data
	if len(d.epochs) == 0 {
		return fmt.Errorf("import: %w: there is no epoch", store.ErrCorrupt)
	}
	first := d.epochs[0]
	d.seq = d.epochs[len(d.epochs)-1].First - 1
	for seq := range d.journal.all() {
		if d.seq = max(d.seq, seq); seq < first.First {
			d.journal.del(seq)
			d.changes.del(seq)
		}
	}
	for k := range d.base.all() {
		if k.epoch < first.Number {
			d.base.del(k)
		}
	}
	if d.seq != i.seq {
		return fmt.Errorf("import: %w: the journal ends with batch %d, the head says %d", store.ErrCorrupt, d.seq, i.seq)
	}
	return nil
}

// Begin implements [store.Sink].
func (i *importer) Begin(h store.Head) error {
	i.seq, i.data.token = h.Seq, h.Token
	return nil
}

// Record implements [store.Sink].
func (i *importer) Record(r store.Record) error {
	r.State = notNil(r.State)
	i.data.records.put(recordKey{r.Kind, r.ID}, indexedRecord{Record: r})
	return nil
}

// Due implements [store.Sink].
func (i *importer) Due(e store.DueEntry) error {
	i.data.due.put(dueKey{e.Key, e.Kind}, e.Share)
	key := recordKey{e.Kind, e.Key.ID()}
	if r, ok := i.data.records.get(key); ok {
		r.Due, r.Share = e.Key.At(), e.Share
		i.data.records.put(key, r)
	}
	return nil
}

// Term implements [store.Sink].
func (i *importer) Term(kind effects.Kind, id uuid.UUID, t store.Term) error {
	i.data.list(indexedRecord{Record: store.Record{Kind: kind, ID: id}, Terms: []store.Term{t}})
	key := recordKey{kind, id}
	if r, ok := i.data.records.get(key); ok {
		r.Terms = append(slices.Clip(r.Terms), t)
		i.data.records.put(key, r)
	}
	return nil
}

// Outbox implements [store.Sink].
func (i *importer) Outbox(e store.OutboxEntry) error {
	e.Effect = bytes.Clone(e.Effect)
	i.data.putOutbox(e)
	return nil
}

// Webhook implements [store.Sink].
func (i *importer) Webhook(w store.Webhook) error {
	w.Body, w.Header = bytes.Clone(w.Body), bytes.Clone(w.Header)
	i.data.webhooks.put(w.ID, w)
	return nil
}

// RunLog implements [store.Sink].
func (i *importer) RunLog(run uuid.UUID, attempt uint32, text []byte) error {
	i.data.logs.put(store.EffectKey{ID: run, N: attempt}, notNil(text))
	return nil
}

// Claim implements [store.Sink].
func (i *importer) Claim(c store.Claim) error {
	i.data.claims.put(c.Name, c)
	return nil
}

// Quarantined implements [store.Sink].
func (i *importer) Quarantined(q store.Quarantined) error {
	q.Raw = bytes.Clone(q.Raw)
	i.data.quarantine.put(quarantineKey{q.At, recordKey{q.Kind, q.ID}, q.N}, q)
	return nil
}

// Meta implements [store.Sink].
func (i *importer) Meta(name string, value []byte) error {
	i.data.meta.put(name, notNil(value))
	return nil
}

// Base implements [store.Sink].
func (i *importer) Base(epoch, _ uint64, r store.Record) error {
	r.State = notNil(r.State)
	i.data.base.put(baseKey{epoch, recordKey{r.Kind, r.ID}}, r)
	return nil
}

// Batch implements [store.Sink].
func (i *importer) Batch(_ effects.Time, b store.Batch) error {
	i.data.journal.put(b.Seq, notNil(b.Entry))
	if b.Known {
		list := slices.Clone(b.Changes)
		for n := range list {
			list[n].Delta.Middle = bytes.Clone(list[n].Delta.Middle)
		}
		i.data.changes.put(b.Seq, changes{b.Digest, list})
	}
	return nil
}

// Epoch implements [store.Sink].
func (i *importer) Epoch(e store.Epoch) error {
	i.data.epochs = append(i.data.epochs, e)
	return nil
}

// Omitted implements [store.Sink]: whoever gives it tells, too.
func (i *importer) Omitted(store.Omission) error { return nil }

// notNil copies a value, and says of an empty one that it is there.
func notNil(b []byte) []byte { return append([]byte{}, b...) }
