package memory

import (
	"bytes"
	"context"
	"encoding/gob"
	"fmt"
	"io"
	"maps"
	"math"

	"github.com/orrery-go/orrery/store"
)

// dump is the form of a backup: what the indexes are made of, in order.
type dump struct {
	Format     int
	Commits    uint64
	Records    []indexedRecord
	Seq        uint64
	Journal    []batch
	Changes    []changed // none: of an earlier build
	Epochs     []store.Epoch
	Base       []based
	Outbox     []store.OutboxEntry
	Webhooks   []store.Webhook
	Claims     []store.Claim
	Token      uint64
	Quarantine []store.Quarantined
	Meta       map[string][]byte
	RunLogs    []runLog
}

type batch struct {
	Seq  uint64
	Data []byte
}

type changed struct {
	Seq, Digest uint64
	Records     []store.Changed
}

type based struct {
	Epoch  uint64
	Record store.Record
}

type runLog struct {
	Key  store.EffectKey
	Text []byte
}

const dumpFormat = 1

// Backup implements [store.Store]. [Restore] reads what it writes.
func (s *Store) Backup(ctx context.Context, w io.Writer) (int64, error) {
	d, err := s.begin(ctx, "backup")
	if err != nil {
		return 0, err
	}
	defer s.open.Done()
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode(d.dump()); err != nil {
		return 0, fmt.Errorf("backup: %w", err)
	}
	n, err := w.Write(b.Bytes())
	if err != nil {
		return int64(n), fmt.Errorf("backup: %w", err)
	}
	return int64(n), nil
}

func (d *data) dump() dump {
	out := dump{Format: dumpFormat, Commits: d.commits, Seq: d.seq, Epochs: d.epochs, Token: d.token, Meta: map[string][]byte{}}
	const all = math.MaxInt
	out.Records, out.Outbox, out.Webhooks = d.records.values(all), d.outbox.values(all), d.webhooks.values(all)
	out.Claims, out.Quarantine = d.claims.values(all), d.quarantine.values(all)
	for seq, b := range d.journal.all() {
		out.Journal = append(out.Journal, batch{seq, b})
	}
	for seq, c := range d.changes.all() {
		out.Changes = append(out.Changes, changed{seq, c.digest, c.list})
	}
	for k, r := range d.base.all() {
		out.Base = append(out.Base, based{k.epoch, r})
	}
	for k, text := range d.logs.all() {
		out.RunLogs = append(out.RunLogs, runLog{k, text})
	}
	maps.Insert(out.Meta, d.meta.all())
	return out
}

// Restore makes a store of what [Store.Backup] wrote, with that session. It
// fails with [store.ErrCorrupt] where r holds something else.
func Restore(r io.Reader, session string) (*Store, error) {
	var in dump
	if err := gob.NewDecoder(r).Decode(&in); err != nil {
		return nil, fmt.Errorf("restore: %w: %w", store.ErrCorrupt, err)
	}
	if in.Format != dumpFormat || len(in.Epochs) == 0 {
		return nil, fmt.Errorf("restore: %w: format is %d with %d epochs: want format %d", store.ErrCorrupt, in.Format, len(in.Epochs), dumpFormat)
	}
	d := newData()
	d.commits, d.seq, d.epochs, d.token = in.Commits, in.Seq, in.Epochs, in.Token
	for _, r := range in.Records {
		d.insert(r)
	}
	for _, b := range in.Journal {
		d.journal.put(b.Seq, notNil(b.Data))
	}
	for _, c := range in.Changes {
		d.changes.put(c.Seq, changes{c.Digest, c.Records})
	}
	for _, b := range in.Base {
		d.base.put(baseKey{b.Epoch, recordKey{b.Record.Kind, b.Record.ID}}, b.Record)
	}
	for _, e := range in.Outbox {
		d.putOutbox(e)
	}
	for _, w := range in.Webhooks {
		d.webhooks.put(w.ID, w)
	}
	for _, c := range in.Claims {
		d.claims.put(c.Name, c)
	}
	for _, q := range in.Quarantine {
		d.quarantine.put(quarantineKey{q.At, recordKey{q.Kind, q.ID}, q.N}, q)
	}
	for name, v := range in.Meta {
		d.meta.put(name, notNil(v))
	}
	for _, l := range in.RunLogs {
		d.logs.put(l.Key, notNil(l.Text))
	}
	return newStore(session, d), nil
}

// notNil gives back what gob forgets: that an empty value is there.
func notNil(b []byte) []byte { return append([]byte{}, b...) }
