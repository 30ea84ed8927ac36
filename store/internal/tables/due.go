package tables

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

// The due index has one key for all records that have the same id and due time, of
// whatever kinds (A5): its value is a word for each of them, in the order of the kinds. Mostly it is one.
// A word is the kind, and behind a slash the share if it is known: six digits of 6 bits, the
// highest first. So a value of format 4 or before is one without shares.
const (
	kindSeparator  = " " // between the words of one due key: no kind has it in it
	shareSeparator = '/' // no kind has it in it, either
	shareDigits    = 6
	shareTail      = 1 + shareDigits
	firstDigit     = '?' // up to '~': neither of the separators
)

// cutKinds takes the first word off the value of a due key.
func cutKinds(v string) (kind effects.Kind, share uint32, others string) {
	word, others, _ := strings.Cut(v, kindSeparator)
	n, share := cutShare(word)
	return effects.Kind(word[:n]), share, others
}

// cutShare gives the length of the kind that a word begins with, and the share. A word that
// no writer made is a kind in whole.
func cutShare[T string | []byte](word T) (kind int, share uint32) {
	n := len(word) - shareTail
	if n < 1 || word[n] != shareSeparator {
		return len(word), 0
	}
	var v uint64
	for i := n + 1; i < len(word); i++ {
		digit := word[i] - firstDigit
		if digit >= 1<<6 {
			return len(word), 0
		}
		v = v<<6 | uint64(digit)
	}
	if v == 0 || v > math.MaxUint32 {
		return len(word), 0
	}
	return n, uint32(v)
}

// appendDueWord appends the word of an entry.
func appendDueWord(b []byte, kind effects.Kind, share uint32) []byte {
	b = append(b, kind...)
	if share == 0 {
		return b
	}
	b = append(b, shareSeparator)
	for shift := 6 * (shareDigits - 1); shift >= 0; shift -= 6 {
		b = append(b, firstDigit+byte(share>>shift)&(1<<6-1))
	}
	return b
}

// dueOp is what a write does to the due index.
type dueOp struct {
	key   []byte
	kind  effects.Kind
	share uint32
	waits bool // else it waits there no more, whatever its share
}

// putDue carries out what a Put does to the due index. It looks no key up that
// it can know to be new: a look finds the first key from there on, and up to
// that one there is none. So a batch that is due after all others, or before
// them, costs one look. Where each look may be a round trip, and there are more, all
// keys are looked up at once.
func (t *Tx) putDue(ops []dueOp) {
	slices.SortStableFunc(ops, func(a, b dueOp) int { return bytes.Compare(a.key, b.key) })
	table := t.table(inDue)
	var next []byte // the first key from the last look on; nil: none
	looked := false
	fetched := slices.ContainsFunc(ops, func(op dueOp) bool { return !op.waits }) && t.fetchDue(ops)
	var words dueWords
	for len(ops) > 0 {
		key, n := ops[0].key, 1
		for n < len(ops) && bytes.Equal(ops[n].key, key) {
			n++
		}
		var old []byte
		stored := false
		if looked && !fetched && next != nil && bytes.Compare(key, next) >= 0 {
			fetched = t.fetchDue(ops)
		}
		switch {
		case fetched:
			old, stored = table.Get(key)
		case !looked || next != nil && bytes.Compare(key, next) >= 0:
			next, old = table.walk().Seek(key)
			looked = true
			if stored = bytes.Equal(key, next); !stored {
				old = nil // it is that of the next key
			}
		}
		op := &ops[0]
		switch {
		case n == 1 && !stored && op.waits:
			table.PutNew(key, words.of(op))
		case n == 1 && !stored: // it is not there to be taken away
		case n == 1 && !op.waits && isOnly(old, op.kind):
			table.Delete(key)
		default:
			mergeDue(table, key, old, ops[:n], stored)
		}
		ops = ops[n:]
	}
}

// fetchDue has the keys of these ready, if that pays.
func (t *Tx) fetchDue(ops []dueOp) bool {
	f, ok := t.b.(Fetcher)
	if !ok || len(ops) < 2 {
		return false
	}
	keys := make([]Key, len(ops))
	for i := range ops {
		keys[i] = Key{Table: NameDue, Key: ops[i].key}
	}
	f.Fetch(keys)
	return true
}

// dueWords makes the words of entries that are alone at their key. bbolt keeps a value and
// changes none, so one serves all entries of a kind and share that come one behind the other.
type dueWords struct {
	kind  effects.Kind
	share uint32
	word  []byte
	room  []byte
}

func (w *dueWords) of(op *dueOp) []byte {
	if w.word != nil && w.kind == op.kind && w.share == op.share {
		return w.word
	}
	if n := len(op.kind) + shareTail; cap(w.room)-len(w.room) < n {
		w.room = make([]byte, 0, max(n, min(2*cap(w.room), leastKeys)))
	}
	start := len(w.room)
	w.room = appendDueWord(w.room, op.kind, op.share)
	w.kind, w.share, w.word = op.kind, op.share, w.room[start:len(w.room):len(w.room)]
	return w.word
}

// isOnly reports whether a value is the word of one entry, of that kind.
func isOnly(value []byte, kind effects.Kind) bool {
	n, _ := cutShare(value)
	return string(value[:n]) == string(kind) && bytes.IndexByte(value, kindSeparator[0]) < 0
}

// mergeDue changes the words of one key, each of them alone.
func mergeDue(table *table, key, old []byte, ops []dueOp, stored bool) {
	words := DueEntries(string(old))
	for i := range ops {
		op := &ops[i]
		words = slices.DeleteFunc(words, func(e store.DueEntry) bool { return e.Kind == op.kind })
		if op.waits {
			words = append(words, store.DueEntry{Kind: op.kind, Share: op.share})
		}
	}
	if len(words) > 0 {
		table.Put(key, DueValue(words))
	} else if stored {
		table.Delete(key)
	}
}

// DueEntries gives the entries that the value of a due key has, without the key.
func DueEntries(value string) (entries []store.DueEntry) {
	for value != "" {
		var e store.DueEntry
		if e.Kind, e.Share, value = cutKinds(value); e.Kind != "" {
			entries = append(entries, e)
		}
	}
	return entries
}

// DueValue makes the value of a due key, and sorts the entries.
func DueValue(entries []store.DueEntry) (value []byte) {
	slices.SortFunc(entries, func(a, b store.DueEntry) int { return cmp.Compare(a.Kind, b.Kind) })
	for i, e := range entries {
		if i > 0 {
			value = append(value, kindSeparator...)
		}
		value = appendDueWord(value, e.Kind, e.Share)
	}
	return value
}

// RemoveDue implements [store.Tx].
func (t *Tx) RemoveDue(d store.DueEntry) (err error) {
	if err := t.check("remove due"); err != nil {
		return err
	}
	defer Guard("remove due", &err)
	t.putDue([]dueOp{{key: d.Key[:], kind: d.Kind}})
	return nil
}

// duePage is how many entries a list makes room for at first, and dueGrowth how
// many times as many then: growing costs more than the scan itself.
const (
	duePage   = 64
	dueGrowth = 15
)

// Due implements [store.ReadTx].
func (t *ReadTx) Due(dst []store.DueEntry, after *store.DueKey, now effects.Time, limit int) (found []store.DueEntry, err error) {
	if err := t.check("due"); err != nil || limit <= 0 {
		return dst, err
	}
	defer Guard("due", &err)
	due := t.table(inDue)
	found, limit = dst, len(dst)+limit
	var from store.DueKey
	if after != nil {
		from = *after
	}
	k, v := due.walk().Seek(from[:])
	if after != nil && bytes.Equal(k, from[:]) {
		k, v = due.walk().Next()
	}
	until := uint64(max(now, 0))
	var kind effects.Kind // of the entry before: mostly the next one has the same
	var share uint32
	var last []byte // the value that has both
	for ; k != nil && len(found) < limit; k, v = due.walk().Next() {
		if len(k) != len(from) {
			return dst, fmt.Errorf("due: %w: key %x has %d bytes, not %d", store.ErrCorrupt, k, len(k), len(from))
		}
		if binary.BigEndian.Uint64(k) > until {
			break
		}
		if !bytes.Equal(v, last) {
			if bytes.IndexByte(v, kindSeparator[0]) >= 0 {
				found = t.appendKinds(found, store.DueKey(k), v)
				continue
			}
			var n int
			if n, share = cutShare(v); string(v[:n]) != string(kind) {
				kind = effects.Kind(t.text(v[:n]))
			}
			last = v
		}
		if len(found) == cap(found) {
			found = slices.Grow(found, min(limit-len(found), max(duePage, dueGrowth*(len(found)-len(dst)))))
		}
		found = append(found, store.DueEntry{Key: store.DueKey(k), Kind: kind, Share: share})
	}
	return found, nil
}

// appendKinds appends the entries of a key with several kinds, also beyond a
// limit: they must not be parted (see store.ReadTx).
func (t *ReadTx) appendKinds(found []store.DueEntry, key store.DueKey, value []byte) []store.DueEntry {
	for rest := string(value); rest != ""; {
		e := store.DueEntry{Key: key}
		e.Kind, e.Share, rest = cutKinds(rest)
		found = append(found, e)
	}
	return found
}

// NextDue implements [store.ReadTx].
func (t *ReadTx) NextDue(after effects.Time) (at effects.Time, ok bool, err error) {
	if err := t.check("next due"); err != nil {
		return 0, false, err
	}
	defer Guard("next due", &err)
	due := t.table(inDue)
	var from store.DueKey
	if after >= 0 {
		from = store.DueUpperBound(after)
	}
	k, _ := due.walk().Seek(from[:])
	if after >= 0 && bytes.Equal(k, from[:]) {
		k, _ = due.walk().Next()
	}
	switch {
	case k == nil:
		return 0, false, nil
	case len(k) != len(from):
		return 0, false, fmt.Errorf("next due: %w: key %x has %d bytes, not %d", store.ErrCorrupt, k, len(k), len(from))
	}
	return store.DueKey(k).At(), true, nil
}
