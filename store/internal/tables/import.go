package tables

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

// importPortion is how many bytes of keys and values an Import commits at a time: so little is in memory.
const importPortion = 8 << 20

// errNotEmpty is the error of an Import into a store in which something was committed.
var errNotEmpty = errors.New("the store is not empty: only a new one can take another's content")

// Portions are the transactions of an [Import], one after the other.
type Portions interface {
	// Begin begins one that writes.
	Begin() (Backing, error)
	// Commit commits the one that was begun last. It should make room in memory.
	Commit() error
	// Rollback ends the one that was begun last.
	Rollback()
}

// Import fills a new store with all that another one gives, as [store.Importer] does. The store is empty, but
// for what [Create] has put there. Nobody else may write to it.
func Import(ctx context.Context, into Portions, from store.Exporter) error {
	i := &importer{ctx: ctx, into: into, counts: make(map[countKey]int64)}
	err := i.begin()
	if err == nil {
		err = i.empty()
	}
	if err == nil {
		err = from.Export(ctx, i)
	}
	if err == nil {
		err = i.finish()
	}
	i.end()
	if err != nil {
		return fmt.Errorf("import: %w", err)
	}
	return nil
}

// Create puts into an empty backing what a store has that is new: its first epoch.
func Create(b Backing) error {
	key, value, err := FirstEpoch()
	if err != nil {
		return err
	}
	b.Table(NameEpochs).Put(key, value)
	return nil
}

// FirstEpoch gives the entry of [NameEpochs] that a new store has.
func FirstEpoch() (key, value []byte, err error) {
	number := SeqKey(1)
	value, err = SealJSON(number[:], EpochValue{First: 1})
	return number[:], value, err
}

// importer is the [store.Sink] that fills a store.
type importer struct {
	ctx     context.Context // of the one call of Import
	into    Portions
	learned Learned
	tx      *Tx // of the portion
	size    int // bytes of the portion
	head    store.Head
	counts  map[countKey]int64 // that are not put yet
	due     store.DueKey       // of words
	words   []byte             // of the entries that it has so far
	epochs  int
	first   store.Epoch
	last    store.Epoch
}

func (i *importer) begin() error {
	b, err := i.into.Begin()
	if err != nil {
		return err
	}
	i.tx, i.size = NewTx(i.ctx, b, "", &i.learned), 0
	return nil
}

// end ends the portion, and forgets what was not committed.
func (i *importer) end() {
	if i.tx != nil {
		i.tx.End()
		i.tx = nil
		i.into.Rollback()
	}
}

func (i *importer) empty() error {
	if i.tx.b.Last() != 0 {
		return errNotEmpty
	}
	for _, name := range i.tx.b.Names("") {
		if name == NameSystem || name == NameEpochs {
			continue
		}
		if k, _ := i.tx.named(name).walk().First(); k != nil {
			return errNotEmpty
		}
	}
	return nil
}

// commit commits the portion.
func (i *importer) commit() (err error) {
	defer Guard("import", &err)
	if i.ctx.Err() != nil {
		return context.Cause(i.ctx)
	}
	i.putCounts()
	i.tx.End()
	i.tx = nil
	return i.into.Commit()
}

// add puts an entry, and commits what is there once it is a portion.
func (i *importer) add(table *table, key, value []byte) (err error) {
	defer Guard("import", &err)
	table.Put(key, value)
	if i.size += len(key) + len(value); i.size < importPortion {
		return nil
	}
	if err := i.commit(); err != nil {
		return err
	}
	return i.begin()
}

func (i *importer) addTo(in int, key, value []byte) error {
	return i.add(i.tx.table(in), key, value)
}

func (i *importer) addJSON(in int, key []byte, v any) error {
	value, err := SealJSON(key, v)
	if err != nil {
		return err
	}
	return i.addTo(in, key, value)
}

// scratch is room for one value until it was added.
func (i *importer) scratch() []byte { return i.tx.scratch[:0] }

// maxCounts is how many counts are kept until they are put.
const maxCounts = 10_000

func (i *importer) putCounts() {
	for _, k := range slices.SortedFunc(maps.Keys(i.counts), countKey.compare) {
		i.tx.add(k, i.counts[k])
	}
	clear(i.counts)
}

// Begin implements [store.Sink].
func (i *importer) Begin(h store.Head) error {
	i.head = h
	if h.Token == 0 {
		return nil
	}
	return i.addJSON(inSystem, TokenKey, TokenValue{h.Token})
}

// Record implements [store.Sink].
func (i *importer) Record(r store.Record) error {
	w := store.Write{Kind: r.Kind, ID: r.ID, State: r.State}
	if err := w.Validate(); err != nil {
		return i.refuse("record", r.ID.String(), err)
	}
	i.tx.scratch = AppendRecord(i.scratch(), r.Kind, r.ID, r.Version, r.Seq, r.State)
	return i.add(i.tx.kind(r.Kind).records, r.ID[:], i.tx.scratch)
}

// refuse is the error about what no store could have had.
func (i *importer) refuse(what, name string, err error) error {
	return fmt.Errorf("%w: %s %s: %w", store.ErrCorrupt, what, name, err)
}

// Due implements [store.Sink].
func (i *importer) Due(d store.DueEntry) error {
	if len(i.words) > 0 && d.Key == i.due {
		i.words = append(i.words, kindSeparator...)
	} else {
		i.due, i.words = d.Key, i.words[:0]
	}
	i.words = appendDueWord(i.words, d.Kind, d.Share)
	return i.addTo(inDue, i.due[:], i.words) // once more for each kind
}

// Term implements [store.Sink].
func (i *importer) Term(kind effects.Kind, id uuid.UUID, t store.Term) error {
	if err := store.ValidateKind(kind); err != nil || len(t.Name) > store.MaxName {
		return i.refuse("term", id.String(), fmt.Errorf("its name has %d bytes, its kind is %q", len(t.Name), kind))
	}
	value := ""
	if t.Counted {
		value = Counted
		if i.counts[countKey{kind, t.CountName()}]++; len(i.counts) >= maxCounts {
			i.putCounts()
		}
	}
	var room [256]byte
	return i.add(i.tx.kind(kind).lists, AppendListKey(room[:0], t.Name, t.At, id), []byte(value))
}

// Outbox implements [store.Sink].
func (i *importer) Outbox(e store.OutboxEntry) error {
	if err := e.Validate(); err != nil {
		return i.refuse("outbox entry", e.Key.String(), err)
	}
	key := effectKeyBytes(e.Key)
	if e.Waiting() {
		if err := i.addTo(inWaiting, AppendWaitKey(nil, e.Lane, e.Seq, key[:]), nil); err != nil {
			return err
		}
	}
	i.tx.scratch = appendOutbox(i.scratch(), key[:], &e)
	return i.addTo(inOutbox, key[:], i.tx.scratch)
}

// Webhook implements [store.Sink].
func (i *importer) Webhook(w store.Webhook) error {
	w.ReceivedAt = ClampTime(w.ReceivedAt)
	if err := i.addTo(inWebhooks, w.ID[:], w.Body); err != nil {
		return err
	}
	return i.addTo(inWebhooksInfo, w.ID[:], appendWebhookInfo(nil, &w))
}

// RunLog implements [store.Sink].
func (i *importer) RunLog(run uuid.UUID, attempt uint32, text []byte) error {
	key := runLogKey(run, attempt)
	i.tx.scratch = appendRunLog(i.scratch(), key[:], text)
	return i.addTo(inRunLogs, key[:], i.tx.scratch)
}

// Claim implements [store.Sink].
func (i *importer) Claim(c store.Claim) error {
	return i.addJSON(inClaims, []byte(c.Name), claimValue{c.Holder, c.Token, c.Session, ClampTime(c.Renewed), ClampTime(c.Until)})
}

// Quarantined implements [store.Sink].
func (i *importer) Quarantined(q store.Quarantined) error {
	q.At = ClampTime(q.At)
	return i.addJSON(inQuarantine, AppendQuarantineKey(nil, &q), QuarantineValue(q))
}

// Meta implements [store.Sink].
func (i *importer) Meta(name string, value []byte) error {
	key := []byte(name)
	return i.addTo(inMeta, key, appendMeta(nil, key, value))
}

// Base implements [store.Sink].
func (i *importer) Base(epoch, seq uint64, r store.Record) error {
	at, of := SeqKey(seq), SeqKey(epoch)
	i.tx.scratch = AppendRecord(i.scratch(), r.Kind, r.ID, r.Version, r.Seq, r.State)
	return i.addTo(inBases, append(append(at[:], of[:]...), CountKey(r.Kind, r.ID[:])...), i.tx.scratch)
}

// Batch implements [store.Sink].
func (i *importer) Batch(at effects.Time, b store.Batch) error {
	key := SeqKey(b.Seq)
	if b.Known {
		value := append(append(i.scratch(), changesVersion), make([]byte, changesHead-1)...)
		for n := range b.Changes {
			value = appendChanged(value, &b.Changes[n], b.Changes[n].Before == 0)
		}
		i.tx.scratch = sealChanges(value, key[:], b.Digest)
		if err := i.addTo(inChanges, key[:], i.tx.scratch); err != nil {
			return err
		}
	}
	i.tx.scratch = appendEntry(i.scratch(), key[:], at, b.Entry)
	return i.addTo(inJournal, key[:], i.tx.scratch)
}

// Epoch implements [store.Sink].
func (i *importer) Epoch(e store.Epoch) error {
	if i.epochs++; i.epochs == 1 {
		key := SeqKey(1) // of the empty store
		i.tx.table(inEpochs).Delete(key[:])
		i.first = e
	} else if e.Number <= i.last.Number || e.First < i.last.First {
		return i.refuse("epoch", fmt.Sprint(e.Number), fmt.Errorf("it begins at batch %d, behind epoch %d, which begins at %d", e.First, i.last.Number, i.last.First))
	}
	i.last = e
	key := SeqKey(e.Number)
	return i.addJSON(inEpochs, key[:], EpochValue{e.First, e.Started})
}

// Omitted implements [store.Sink]: whoever gives it tells, too.
func (i *importer) Omitted(store.Omission) error { return nil }

// finish commits the rest, and compares it with the head.
func (i *importer) finish() error {
	if i.epochs == 0 {
		return fmt.Errorf("%w: there is no epoch", store.ErrCorrupt)
	}
	if err := i.commit(); err != nil {
		return err
	}
	if err := i.begin(); err != nil {
		return err
	}
	seq, err := i.tx.lastSeq()
	if err != nil {
		return err
	}
	if seq != i.head.Seq {
		return fmt.Errorf("%w: the journal ends with batch %d, the head says %d", store.ErrCorrupt, seq, i.head.Seq)
	}
	key := SeqKey(i.first.First)
	if k, _, err := seek("import", i.tx.table(inJournal).Cursor(), key[:]); err != nil || k != nil && binary.BigEndian.Uint64(k) != i.first.First {
		return errors.Join(err, fmt.Errorf("%w: the journal begins behind batch %d, where epoch %d begins", store.ErrCorrupt, i.first.First, i.first.Number))
	}
	return nil
}
