package memory

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

// readTx reads one data; what it hands out is shared with it.
type readTx struct {
	ctx  context.Context // of the View or Update that this lives in
	data *data           // nil once the transaction has ended
}

func (t *readTx) end() { t.data = nil }

// check fails where the transaction or its context has ended.
func (t *readTx) check(op string) error {
	if t.data == nil {
		return fmt.Errorf("%s: %w", op, errEnded)
	}
	if t.ctx.Err() != nil {
		return fmt.Errorf("%s: %w", op, context.Cause(t.ctx))
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

func (t *readTx) Due(dst []store.DueEntry, after *store.DueKey, now effects.Time, limit int) ([]store.DueEntry, error) {
	if err := t.check("due"); err != nil || limit <= 0 {
		return dst, err
	}
	limit += len(dst)
	var from store.DueKey
	if after != nil {
		from = *after
	}
	for k := range t.data.due.from(dueKey{DueKey: from}) {
		if k.At() > max(now, 0) || len(dst) >= limit && k.DueKey != dst[len(dst)-1].Key { // entries of one key are not parted
			break
		}
		if after == nil || k.DueKey != *after {
			dst = append(dst, store.DueEntry{Key: k.DueKey, Kind: k.kind})
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

func (t *readTx) TermsOf(kind effects.Kind, id uuid.UUID) (found []store.Term, err error) {
	if err := t.check("terms of"); err != nil {
		return nil, err
	}
	for k := range t.data.lists.from(listKey{kind: kind, at: math.MinInt64}) {
		if k.kind != kind {
			break
		}
		if k.id == id {
			r, _ := t.data.records.get(recordKey{kind, id})
			counted := slices.Contains(r.Terms, store.Term{Name: k.term, At: k.at, Counted: true})
			found = append(found, store.Term{Name: k.term, At: k.at, Counted: counted})
		}
	}
	return found, nil
}

func (t *readTx) Count(kind effects.Kind, term string) (uint64, error) {
	if err := t.check("count"); err != nil {
		return 0, err
	}
	n, _ := t.data.counts.get(countKey{kind, term})
	return n, nil
}

func (t *readTx) Seq() (uint64, error) {
	if err := t.check("seq"); err != nil {
		return 0, err
	}
	return t.data.seq, nil
}

func (t *readTx) Journal(from uint64, fn func(seq uint64, entry []byte) error) error {
	if err := t.check("journal"); err != nil {
		return err
	}
	for seq, entry := range t.data.journal.from(max(from, t.data.epochs[0].First)) {
		if err := t.check("journal"); err != nil {
			return err
		}
		if err := fn(seq, entry); err != nil {
			return err
		}
	}
	return nil
}

func (t *readTx) Epochs() ([]store.Epoch, error) {
	if err := t.check("epochs"); err != nil {
		return nil, err
	}
	return slices.Clone(t.data.epochs), nil
}

func (t *readTx) Base(epoch uint64, fn func(store.Record) error) error {
	if err := t.check("base"); err != nil {
		return err
	}
	if !slices.ContainsFunc(t.data.epochs, func(e store.Epoch) bool { return e.Number == epoch }) {
		return fmt.Errorf("base of epoch %d: %w", epoch, store.ErrNotFound)
	}
	for k, r := range t.data.base.from(baseKey{epoch: epoch}) {
		if k.epoch != epoch {
			break
		}
		if err := t.check("base"); err != nil {
			return err
		}
		if err := fn(r); err != nil {
			return err
		}
	}
	return nil
}

func (t *readTx) Records(fn func(store.Record) error) error {
	if err := t.check("records"); err != nil {
		return err
	}
	for _, r := range t.data.records.all() {
		if err := t.check("records"); err != nil {
			return err
		}
		if err := fn(r.Record); err != nil {
			return err
		}
	}
	return nil
}

func (t *readTx) Outbox(fn func(store.OutboxEntry) error) error {
	if err := t.check("outbox"); err != nil {
		return err
	}
	for _, e := range t.data.outbox.all() {
		if err := t.check("outbox"); err != nil {
			return err
		}
		if err := fn(e); err != nil {
			return err
		}
	}
	return nil
}

func (t *readTx) OutboxEntry(key store.EffectKey) (store.OutboxEntry, error) {
	if err := t.check("outbox entry"); err != nil {
		return store.OutboxEntry{}, err
	}
	e, ok := t.data.outbox.get(key)
	if !ok {
		return e, fmt.Errorf("outbox entry %s: %w", key, store.ErrNotFound)
	}
	return e, nil
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
	if err := t.check("waiting lanes"); err != nil {
		return nil, err
	}
	var lanes []string
	for k := range t.data.waiting.all() {
		if len(lanes) == 0 || lanes[len(lanes)-1] != k.lane {
			lanes = append(lanes, k.lane)
		}
	}
	return lanes, nil
}

func (t *readTx) Webhooks(limit int) ([]store.Webhook, error) {
	if err := t.check("webhooks"); err != nil {
		return nil, err
	}
	var found []store.Webhook
	for _, w := range t.data.webhooks.all() {
		if len(found) >= limit {
			break
		}
		found = append(found, w)
	}
	return found, nil
}

func (t *readTx) Claim(name string) (store.Claim, error) {
	if err := t.check("claim"); err != nil {
		return store.Claim{}, err
	}
	c, ok := t.data.claims.get(name)
	if !ok {
		return c, fmt.Errorf("claim %q: %w", name, store.ErrNotFound)
	}
	return c, nil
}

func (t *readTx) Claims(prefix string) ([]store.Claim, error) {
	if err := t.check("claims"); err != nil {
		return nil, err
	}
	var found []store.Claim
	for name, c := range t.data.claims.from(prefix) {
		if !strings.HasPrefix(name, prefix) {
			break
		}
		found = append(found, c)
	}
	return found, nil
}

func (t *readTx) Quarantine(limit int) ([]store.Quarantined, error) {
	if err := t.check("quarantine"); err != nil {
		return nil, err
	}
	var found []store.Quarantined
	for _, q := range t.data.quarantine.all() {
		if len(found) >= limit {
			break
		}
		found = append(found, q)
	}
	return found, nil
}

func (t *readTx) RunLog(run uuid.UUID, attempt uint32) ([]byte, error) {
	if err := t.check("run log"); err != nil {
		return nil, err
	}
	text, ok := t.data.logs.get(store.EffectKey{ID: run, N: attempt})
	if !ok {
		return nil, fmt.Errorf("run log %s, attempt %d: %w", run, attempt, store.ErrNotFound)
	}
	return text, nil
}

func (t *readTx) Meta(name string) ([]byte, error) {
	if err := t.check("meta"); err != nil {
		return nil, err
	}
	v, _ := t.data.meta.get(name)
	return v, nil
}
