package memory

import (
	"context"
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

// readTx reads one data; what it hands out is shared with it.
type readTx struct {
	ctx   context.Context // of the View or Update that this lives in
	data  *data
	ended bool
}

func (t *readTx) end() { t.ended = true }

// check fails where the transaction or its context has ended.
func (t *readTx) check(op string) error {
	if t.ended {
		return fmt.Errorf("%s: %w", op, errEnded)
	}
	if t.ctx.Err() != nil {
		return fmt.Errorf("%s: %w", op, context.Cause(t.ctx))
	}
	return nil
}

// find gives what a tree has under a key; name says in the error what was not found.
func find[K, V any](t *readTx, op string, in tree[K, V], key K, name string) (v V, err error) {
	if err := t.check(op); err != nil {
		return v, err
	}
	v, ok := in.get(key)
	if !ok {
		err = fmt.Errorf("%s %s: %w", op, name, store.ErrNotFound)
	}
	return v, err
}

// visit calls fn with what a tree yields, until fn fails or the transaction ends.
func visit[K, V any](t *readTx, op string, all iter.Seq2[K, V], fn func(K, V) error) error {
	if err := t.check(op); err != nil {
		return err
	}
	for k, v := range all {
		if err := t.check(op); err != nil {
			return err
		}
		if err := fn(k, v); err != nil {
			return err
		}
	}
	return nil
}

func (t *readTx) Get(kind effects.Kind, id uuid.UUID) (store.Record, error) {
	if err := t.check("get"); err != nil {
		return store.Record{}, err
	}
	r, ok := t.data.records.get(recordKey{kind, id})
	if !ok {
		return store.Record{}, &store.RecordError{Op: "get", Kind: kind, ID: id, Err: store.ErrNotFound}
	}
	return r.Record, nil
}

func (t *readTx) GetMany(dst []store.Record, refs []effects.Ref) ([]store.Record, error) {
	if err := t.check("get many"); err != nil {
		return dst, err
	}
	for _, ref := range refs {
		r, ok := t.data.records.get(recordKey{ref.Kind, ref.ID})
		if !ok {
			r.Record = store.Record{Kind: ref.Kind, ID: ref.ID}
		}
		dst = append(dst, r.Record)
	}
	return dst, nil
}

func (t *readTx) LastCommit() (uint64, error) { return t.data.commits, t.check("last commit") }

func (t *readTx) Due(dst []store.DueEntry, after *store.DueKey, now effects.Time, limit int) ([]store.DueEntry, error) {
	if err := t.check("due"); err != nil || limit <= 0 {
		return dst, err
	}
	limit += len(dst)
	var from store.DueKey
	if after != nil {
		from = *after
	}
	for k, share := range t.data.due.from(dueKey{DueKey: from}) {
		if k.At() > max(now, 0) || len(dst) >= limit && k.DueKey != dst[len(dst)-1].Key { // entries of one key are not parted
			break
		}
		if after == nil || k.DueKey != *after {
			dst = append(dst, store.DueEntry{Key: k.DueKey, Kind: k.kind, Share: share})
		}
	}
	return dst, nil
}

func (t *readTx) NextDue(after effects.Time) (effects.Time, bool, error) {
	if err := t.check("next due"); err != nil {
		return 0, false, err
	}
	var from store.DueKey
	if after >= 0 {
		from = store.DueUpperBound(after)
	}
	for k := range t.data.due.from(dueKey{DueKey: from}) {
		if k.At() > after {
			return k.At(), true, nil
		}
	}
	return 0, false, nil
}

func (t *readTx) Scan(kind effects.Kind, term string, from store.Cursor, desc bool, limit int) ([]store.Cursor, error) {
	if err := t.check("scan"); err != nil || limit <= 0 {
		return nil, err
	}
	start := listKey{kind: kind, term: term, at: from.At, id: from.ID}
	if from == (store.Cursor{}) {
		start.at = math.MinInt64
		if desc {
			start.at, start.id = math.MaxInt64, uuid.Max
		}
	}
	seq := t.data.lists.from(start)
	if desc {
		seq = t.data.lists.downFrom(start)
	}
	var found []store.Cursor
	for k := range seq {
		if k.kind != kind || k.term != term || len(found) == limit {
			break
		}
		if c := (store.Cursor{At: k.at, ID: k.id}); c != from {
			found = append(found, c)
		}
	}
	return found, nil
}

func (t *readTx) TermNames(kind effects.Kind, prefix string, limit int) (names []string, err error) {
	if err := t.check("term names"); err != nil || limit <= 0 {
		return nil, err
	}
	from := listKey{kind: kind, term: prefix, at: math.MinInt64}
	for len(names) < limit {
		var name string
		found := false
		for k := range t.data.lists.from(from) {
			name, found = k.term, k.kind == kind && strings.HasPrefix(k.term, prefix)
			break
		}
		if !found {
			break
		}
		names = append(names, name)
		from.term = name + "\x00" // the least name behind it
	}
	return names, nil
}

func (t *readTx) TermsOf(kind effects.Kind, id uuid.UUID) (found []store.Term, err error) {
	if err := t.check("terms of"); err != nil {
		return nil, err
	}
	for k := range t.data.lists.within(listKey{kind: kind, at: math.MinInt64}, func(k listKey) bool { return k.kind == kind }) {
		if k.id == id {
			r, _ := t.data.records.get(recordKey{kind, id})
			counted := slices.Contains(r.Terms, store.Term{Name: k.term, At: k.at, Counted: true})
			found = append(found, store.Term{Name: k.term, At: k.at, Counted: counted})
		}
	}
	return found, nil
}

func (t *readTx) Count(kind effects.Kind, term string) (uint64, error) {
	n, _ := t.data.counts.get(countKey{kind, term})
	return n, t.check("count")
}

func (t *readTx) Seq() (uint64, error) { return t.data.seq, t.check("seq") }

func (t *readTx) Journal(from uint64, fn func(seq uint64, entry []byte) error) error {
	return visit(t, "journal", t.data.journal.from(max(from, t.data.epochs[0].First)), fn)
}

// JournalBytes implements [store.ReadTx]: the entries' lengths.
func (t *readTx) JournalBytes(from, before uint64) (n int64, err error) {
	err = t.Journal(from, func(seq uint64, entry []byte) error {
		if before == 0 || seq < before {
			n += int64(len(entry))
		}
		return nil
	})
	return n, err
}

// Batches implements [store.ReadTx].
func (t *readTx) Batches(from uint64, fn func(store.Batch) error) error {
	return t.Journal(from, func(seq uint64, entry []byte) error { return fn(t.batch(seq, entry)) })
}

// Batch implements [store.ReadTx].
func (t *readTx) Batch(seq uint64) (store.Batch, error) {
	if err := t.check("batch"); err != nil {
		return store.Batch{}, err
	}
	entry, ok := t.data.journal.get(seq)
	if !ok || seq < t.data.epochs[0].First {
		return store.Batch{}, fmt.Errorf("batch %d: %w: the journal does not have it", seq, store.ErrNotFound)
	}
	return t.batch(seq, entry), nil
}

func (t *readTx) batch(seq uint64, entry []byte) store.Batch {
	c, known := t.data.changes.get(seq)
	return store.Batch{Seq: seq, Entry: entry, Known: known, Digest: c.digest, Changes: slices.Clone(c.list)}
}

func (t *readTx) Epochs() ([]store.Epoch, error) {
	return slices.Clone(t.data.epochs), t.check("epochs")
}

func (t *readTx) Base(epoch uint64, fn func(store.Record) error) error {
	if err := t.check("base"); err != nil {
		return err
	}
	if !slices.ContainsFunc(t.data.epochs, func(e store.Epoch) bool { return e.Number == epoch }) {
		return fmt.Errorf("base of epoch %d: %w", epoch, store.ErrNotFound)
	}
	records := t.data.base.within(baseKey{epoch: epoch}, func(k baseKey) bool { return k.epoch == epoch })
	return visit(t, "base", records, func(_ baseKey, r store.Record) error { return fn(r) })
}

func (t *readTx) Records(fn func(store.Record) error) error {
	return visit(t, "records", t.data.records.all(), func(_ recordKey, r indexedRecord) error { return fn(r.Record) })
}

// RecordPage implements [store.Walker].
func (t *readTx) RecordPage(after effects.Ref, limit int, fn func(store.Record) error) (last effects.Ref, err error) {
	if err := t.check("record page"); err != nil || limit <= 0 {
		return last, err
	}
	seen := 0
	for k, r := range t.data.records.from(recordKey{after.Kind, after.ID}) {
		ref := effects.Ref{Kind: k.kind, ID: k.id}
		if ref == after {
			continue
		}
		if err := fn(r.Record); err != nil {
			return ref, err
		}
		if last, seen = ref, seen+1; seen == limit {
			break
		}
	}
	return last, nil
}

func (t *readTx) Outbox(fn func(store.OutboxEntry) error) error {
	return visit(t, "outbox", t.data.outbox.all(), func(_ store.EffectKey, e store.OutboxEntry) error { return fn(e) })
}

func (t *readTx) OutboxEntry(key store.EffectKey) (store.OutboxEntry, error) {
	return find(t, "outbox entry", t.data.outbox, key, key.String())
}

func (t *readTx) Waiting(lane string, limit int) ([]store.OutboxEntry, error) {
	if err := t.check("waiting"); err != nil || limit <= 0 {
		return nil, err
	}
	var found []store.OutboxEntry
	for k := range t.data.waiting.from(waitKey{lane: lane}) {
		if k.lane != lane || len(found) == limit {
			break
		}
		e, _ := t.data.outbox.get(k.key)
		found = append(found, e)
	}
	return found, nil
}

func (t *readTx) WaitingLanes() ([]string, error) {
	var lanes []string
	for k := range t.data.waiting.all() {
		if len(lanes) == 0 || lanes[len(lanes)-1] != k.lane {
			lanes = append(lanes, k.lane)
		}
	}
	return lanes, t.check("waiting lanes")
}

func (t *readTx) Webhooks(limit int) ([]store.Webhook, error) {
	return t.data.webhooks.values(limit), t.check("webhooks")
}

func (t *readTx) Claim(name string) (store.Claim, error) {
	return find(t, "claim", t.data.claims, name, strconv.Quote(name))
}

func (t *readTx) Claims(prefix string) ([]store.Claim, error) {
	var found []store.Claim
	for _, c := range t.data.claims.within(prefix, func(name string) bool { return strings.HasPrefix(name, prefix) }) {
		found = append(found, c)
	}
	return found, t.check("claims")
}

func (t *readTx) Quarantine(limit int) ([]store.Quarantined, error) {
	return t.data.quarantine.values(limit), t.check("quarantine")
}

func (t *readTx) RunLog(run uuid.UUID, attempt uint32) ([]byte, error) {
	return find(t, "run log", t.data.logs, store.EffectKey{ID: run, N: attempt}, fmt.Sprintf("%s, attempt %d", run, attempt))
}

func (t *readTx) Meta(name string) ([]byte, error) {
	v, _ := t.data.meta.get(name)
	return v, t.check("meta")
}

// HasWebhook reports whether a raw webhook is stored.
func (t *readTx) HasWebhook(id uuid.UUID) (bool, error) {
	_, ok := t.data.webhooks.get(id)
	return ok, t.check("has webhook")
}
