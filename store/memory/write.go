package memory

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

// tx changes a copy of the data that only it sees.
type tx struct {
	readTx
	session  string
	put      uint64 // the batch that Put was called for; 0: it was not
	appended bool   // AppendJournal was called
}

// unappended fails where records were put for a batch that is not there.
func (t *tx) unappended() error {
	if t.put > t.data.seq {
		return fmt.Errorf("records were put for batch %d, which was not appended to the journal", t.put)
	}
	return nil
}

func (t *tx) Put(seq uint64, writes []store.Write) error {
	if err := t.check("put"); err != nil {
		return err
	}
	if seq != t.data.seq+1 && (!t.appended || seq != t.data.seq) {
		return fmt.Errorf("put: batch %d is out of order: want %d", seq, t.data.seq+1)
	}
	changed, _ := t.data.changes.get(seq)
	changed.list = slices.Clone(changed.list)
	for i := range writes {
		w := &writes[i]
		err := w.Validate()
		if err == nil {
			err = t.write(seq, w, &changed)
		}
		if err != nil {
			return &store.RecordError{Op: "put", Kind: w.Kind, ID: w.ID, Err: err}
		}
	}
	t.put = seq
	t.data.changes.put(seq, changed)
	return nil
}

func (t *tx) write(seq uint64, w *store.Write, changed *changes) error {
	key := recordKey{w.Kind, w.ID}
	old, exists := t.data.records.get(key)
	if old.Version != w.Prev.Version {
		return fmt.Errorf("%w: stored version is %d, the writer expected %d", store.ErrConflict, old.Version, w.Prev.Version)
	}
	if exists {
		if err := checkPrev(old, w.Prev); err != nil {
			return err
		}
		t.data.remove(old)
	}
	if exists || w.State != nil {
		changed.add(w, old, old.Seq < t.data.epochs[len(t.data.epochs)-1].First)
	}
	if w.State == nil {
		return nil
	}
	share := w.Share
	if exists && old.Due == w.Due {
		share = old.Share // the entry stays as it is
	}
	t.data.insert(indexedRecord{
		Record: store.Record{Kind: w.Kind, ID: w.ID, Version: w.Prev.Version + 1, Seq: seq, State: bytes.Clone(w.State)},
		Due:    w.Due,
		Share:  share,
		Terms:  slices.Clone(w.Terms),
	})
	return nil
}

// add notes that a record is written; old is what stood there, with Version 0 nothing. based
// says that the epoch's base has that.
func (c *changes) add(w *store.Write, old indexedRecord, based bool) {
	c.digest += store.Digest(w.Kind, w.ID, w.State)
	changed := store.Changed{Kind: w.Kind, ID: w.ID, Before: old.Seq, Gone: w.State == nil}
	if old.Version != 0 && (!changed.Gone || !based) {
		changed.Delta = store.DeltaOf(old.State, w.State)
	}
	c.list = append(c.list, changed)
}

// checkPrev reports an error unless the writer says truly what the record was: a
// durable store takes its word, and would have wrong index entries.
func checkPrev(old indexedRecord, p store.Prev) error {
	switch {
	case old.Seq != p.Seq:
		return fmt.Errorf("prev.seq is %d, but batch %d wrote the record", p.Seq, old.Seq)
	case old.Due != p.Due:
		return fmt.Errorf("prev.due is %s, but the record is due at %s", p.Due, old.Due)
	case len(old.Terms) != len(p.Terms):
		return fmt.Errorf("prev.terms has %d terms, but the record has %d", len(p.Terms), len(old.Terms))
	}
	for i, term := range p.Terms {
		if !slices.Contains(old.Terms, term) {
			return fmt.Errorf("prev.terms[%d] is %+v, which the record has not", i, term)
		}
	}
	return nil
}

// insert puts a record and its index entries.
func (d *data) insert(r indexedRecord) {
	d.records.put(recordKey{r.Kind, r.ID}, r)
	if r.Due != 0 {
		d.due.put(dueKey{store.NewDueKey(r.Due, r.ID), r.Kind}, r.Share)
	}
	d.list(r)
}

// list puts the list entries of a record.
func (d *data) list(r indexedRecord) {
	for _, term := range r.Terms {
		d.lists.put(listKey{r.Kind, term.Name, term.At, r.ID}, struct{}{})
		if term.Counted {
			k := countKey{r.Kind, term.CountName()}
			n, _ := d.counts.get(k)
			d.counts.put(k, n+1)
		}
	}
}

// unlist removes the list entries of a record.
func (d *data) unlist(r indexedRecord) {
	for _, term := range r.Terms {
		d.lists.del(listKey{r.Kind, term.Name, term.At, r.ID})
		if term.Counted {
			k := countKey{r.Kind, term.CountName()}
			n, _ := d.counts.get(k)
			d.counts.put(k, n-1)
		}
	}
}

func (t *tx) Reindex(kind effects.Kind, id uuid.UUID, former, terms []store.Term) error {
	if err := t.check("reindex"); err != nil {
		return err
	}
	refused := func(err error) error { return &store.RecordError{Op: "reindex", Kind: kind, ID: id, Err: err} }
	w := store.Write{Kind: kind, ID: id, Terms: terms, Prev: store.Prev{Terms: former}}
	if err := w.Validate(); err != nil {
		return refused(err)
	}
	key := recordKey{kind, id}
	r, ok := t.data.records.get(key)
	if !ok {
		return refused(store.ErrNotFound)
	}
	t.data.unlist(r)
	kept := slices.Clone(terms)
	for _, term := range r.Terms {
		if !slices.Contains(former, term) && !slices.Contains(terms, term) {
			kept = append(kept, term)
		}
	}
	r.Terms = kept
	t.data.list(r)
	t.data.records.put(key, r)
	return nil
}

// remove removes a record and its index entries. The current epoch keeps how it was.
func (d *data) remove(r indexedRecord) {
	key := recordKey{r.Kind, r.ID}
	if current := d.epochs[len(d.epochs)-1]; r.Seq < current.First {
		d.base.put(baseKey{current.Number, key}, r.Record)
	}
	d.records.del(key)
	if r.Due != 0 {
		d.due.del(dueKey{store.NewDueKey(r.Due, r.ID), r.Kind})
	}
	d.unlist(r)
}

func (t *tx) AppendJournal(seq uint64, _ effects.Time, entry []byte) error {
	if err := t.check("append journal"); err != nil {
		return err
	}
	if seq != t.data.seq+1 {
		return fmt.Errorf("append journal: batch %d is out of order: want %d", seq, t.data.seq+1)
	}
	t.data.journal.put(seq, append([]byte{}, entry...))
	t.data.seq, t.appended = seq, true
	if _, ok := t.data.changes.get(seq); !ok {
		t.data.changes.put(seq, changes{})
	}
	return nil
}

func (t *tx) BeginEpoch(at effects.Time) error {
	if err := t.check("begin epoch"); err != nil {
		return err
	}
	if err := t.unappended(); err != nil {
		return fmt.Errorf("begin epoch: %w", err)
	}
	last := t.data.epochs[len(t.data.epochs)-1]
	t.data.epochs = append(slices.Clone(t.data.epochs), store.Epoch{Number: last.Number + 1, First: t.data.seq + 1, Started: at})
	return nil
}

func (t *tx) DropEpochs(before uint64, limit int) (bool, error) {
	if err := t.check("drop epochs"); err != nil {
		return false, err
	}
	if limit < 1 {
		return false, fmt.Errorf("drop epochs: limit is %d: want at least 1", limit)
	}
	epochs := t.data.epochs
	if last := epochs[len(epochs)-1].Number; before > last {
		return false, fmt.Errorf("drop epochs before %d: the current epoch is %d and stays", before, last)
	}
	keep := slices.IndexFunc(epochs, func(e store.Epoch) bool { return e.Number >= before })
	t.data.epochs = slices.Clone(epochs[keep:])
	first := t.data.epochs[0]
	return drop(&t.data.journal, &limit, func(seq uint64) bool { return seq < first.First }) ||
		drop(&t.data.changes, &limit, func(seq uint64) bool { return seq < first.First }) ||
		drop(&t.data.base, &limit, func(k baseKey) bool { return k.epoch < first.Number }), nil
}

// drop deletes the first entries of a tree that are old, at most limit, which it lowers by
// as many; more: there are others.
func drop[K, V any](in *tree[K, V], limit *int, old func(K) bool) (more bool) {
	for k := range in.all() {
		if !old(k) || *limit == 0 {
			return old(k)
		}
		in.del(k)
		*limit--
	}
	return false
}

func (t *tx) PutOutbox(e store.OutboxEntry) error {
	if err := t.check("put outbox"); err != nil {
		return err
	}
	if err := e.Validate(); err != nil {
		return fmt.Errorf("put outbox %s: %w", e.Key, err)
	}
	if old, ok := t.data.outbox.get(e.Key); ok {
		t.data.waiting.del(waitKey{old.Lane, old.Seq, old.Key})
	}
	e.Effect = bytes.Clone(e.Effect)
	t.data.putOutbox(e)
	return nil
}

func (d *data) putOutbox(e store.OutboxEntry) {
	d.outbox.put(e.Key, e)
	if e.Waiting() {
		d.waiting.put(waitKey{e.Lane, e.Seq, e.Key}, struct{}{})
	}
}

func (t *tx) DeleteOutbox(key store.EffectKey) error {
	old, err := find(&t.readTx, "delete outbox", t.data.outbox, key, key.String())
	if err != nil {
		return err
	}
	t.data.outbox.del(key)
	t.data.waiting.del(waitKey{old.Lane, old.Seq, key})
	return nil
}

func (t *tx) PutWebhook(w store.Webhook) error {
	if err := t.check("put webhook"); err != nil {
		return err
	}
	if w.ID == uuid.Nil {
		return errors.New("put webhook: id is zero")
	}
	w.Body, w.Header = bytes.Clone(w.Body), bytes.Clone(w.Header)
	t.data.webhooks.put(w.ID, w)
	return nil
}

func (t *tx) DeleteWebhook(id uuid.UUID) error {
	if _, err := find(&t.readTx, "delete webhook", t.data.webhooks, id, id.String()); err != nil {
		return err
	}
	t.data.webhooks.del(id)
	return nil
}

func (t *tx) PutRunLog(run uuid.UUID, attempt uint32, text []byte) error {
	if err := t.check("put run log"); err != nil {
		return err
	}
	if err := store.ValidateRunLog(run, text); err != nil {
		return fmt.Errorf("put run log %s, attempt %d: %w", run, attempt, err)
	}
	t.data.logs.put(store.EffectKey{ID: run, N: attempt}, notNil(text))
	return nil
}

func (t *tx) DeleteRunLogs(run uuid.UUID) error {
	if err := t.check("delete run logs"); err != nil {
		return err
	}
	for key := range t.data.logs.within(store.EffectKey{ID: run}, func(key store.EffectKey) bool { return key.ID == run }) {
		t.data.logs.del(key)
	}
	return nil
}

func (t *tx) Acquire(name, holder string, ttl time.Duration, now effects.Time) (store.Claim, error) {
	if err := t.check("acquire"); err != nil {
		return store.Claim{}, err
	}
	if err := errors.Join(store.ValidateName("claim", name), store.ValidateName("holder", holder)); err != nil {
		return store.Claim{}, fmt.Errorf("acquire: %w", err)
	}
	if ttl < time.Millisecond {
		return store.Claim{}, fmt.Errorf("acquire claim %q: ttl is %s: want at least 1ms", name, ttl)
	}
	c, held := t.data.claims.get(name)
	mine := held && c.Holder == holder
	if held && !mine && now < c.Until {
		return store.Claim{}, fmt.Errorf("acquire claim %q for %q: %w: %q until %s", name, holder, store.ErrClaimed, c.Holder, c.Until)
	}
	if !mine || c.Session != t.session {
		t.data.token++
		c = store.Claim{Name: name, Holder: holder, Token: t.data.token, Session: t.session}
	}
	c.Renewed, c.Until = now, now.Add(ttl)
	t.data.claims.put(name, c)
	return c, nil
}

func (t *tx) CheckClaim(name string, token uint64) error {
	return t.holds("check claim", name, token)
}

func (t *tx) holds(op, name string, token uint64) error {
	if err := t.check(op); err != nil {
		return err
	}
	c, ok := t.data.claims.get(name)
	switch {
	case !ok:
		return fmt.Errorf("%s %q: %w: it is free, the caller's token is %d", op, name, store.ErrFenced, token)
	case c.Token != token:
		return fmt.Errorf("%s %q: %w: token is %d, the caller's is %d", op, name, store.ErrFenced, c.Token, token)
	}
	return nil
}

func (t *tx) Release(name string, token uint64) error {
	if err := t.holds("release", name, token); err != nil {
		return err
	}
	t.data.claims.del(name)
	return nil
}

func (t *tx) Fence(name string) error {
	if _, err := find(&t.readTx, "fence", t.data.claims, name, strconv.Quote(name)); err != nil {
		return err
	}
	t.data.claims.del(name)
	return nil
}

func (t *tx) RemoveDue(d store.DueEntry) error {
	if err := t.check("remove due"); err != nil {
		return err
	}
	t.data.due.del(dueKey{d.Key, d.Kind})
	return nil
}

func (t *tx) SetAside(q store.Quarantined, due effects.Time) error {
	if err := t.check("set aside"); err != nil {
		return err
	}
	key := recordKey{q.Kind, q.ID}
	if err := store.ValidateKind(q.Kind); err != nil && due == 0 { // else it is of a damaged due entry
		return &store.RecordError{Op: "set aside", Kind: q.Kind, ID: q.ID, Err: err}
	}
	if q.Raw = bytes.Clone(q.Raw); q.Raw == nil {
		q.Raw = t.standing(q)
	}
	if old, ok := t.data.records.get(key); ok {
		t.data.remove(old)
	}
	if due != 0 {
		t.data.due.del(dueKey{store.NewDueKey(due, q.ID), q.Kind})
	}
	aside := quarantineKey{q.At, key, q.N}
	if _, ok := t.data.quarantine.get(aside); !ok || q.Raw != nil { // else it was set aside before, perhaps with its bytes
		t.data.quarantine.put(aside, q)
	}
	return nil
}

// standing gives the bytes of what is set aside; nil where there is none.
func (t *tx) standing(q store.Quarantined) []byte {
	switch q.Kind {
	case store.KindWebhook:
		w, _ := t.data.webhooks.get(q.ID)
		return w.Body
	case store.KindOutbox:
		e, _ := t.data.outbox.get(store.EffectKey{ID: q.ID, N: q.N})
		return e.Effect
	default:
		r, _ := t.data.records.get(recordKey{q.Kind, q.ID})
		return r.State
	}
}

func (t *tx) SetMeta(name string, value []byte) error {
	if err := t.check("set meta"); err != nil {
		return err
	}
	if err := store.ValidateName("meta", name); err != nil {
		return fmt.Errorf("set meta: %w", err)
	}
	if value == nil {
		t.data.meta.del(name)
		return nil
	}
	t.data.meta.put(name, append([]byte{}, value...))
	return nil
}
