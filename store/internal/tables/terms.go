package tables

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

// TermNames steps from one name to the next, over all entries of each.
func (t *ReadTx) TermNames(kind effects.Kind, prefix string, limit int) (names []string, err error) {
	if err := t.check("term names"); err != nil || limit <= 0 || len(prefix) > store.MaxName {
		return nil, err
	}
	defer Guard("term names", &err)
	lists := t.kind(kind).lists
	bound := appendName(nil, prefix)
	for len(names) < limit {
		k, _ := lists.walk().Seek(bound)
		if k == nil {
			break
		}
		name, ok := TermOf(k)
		if !ok || bytes.Compare(k, bound) < 0 {
			return nil, fmt.Errorf("term names of %s: %w: key %x", kind, store.ErrCorrupt, k)
		}
		switch n := len(name); {
		case strings.HasPrefix(name, prefix):
			names = append(names, name)
			// The next name begins after the greatest key of this one.
			bound = append(appendName(bound[:0], name), bytes.Repeat([]byte{0xff}, listTail+1)...)
		case name < prefix:
			bound = appendNameFrom(bound[:0], n, prefix)
		case n == math.MaxUint16:
			limit = 0
		default:
			bound = appendNameFrom(bound[:0], n+1, prefix)
		}
	}
	slices.Sort(names) // the keys are in the order of the names' lengths first
	return names, nil
}

// TermOf gives the name of the term in a key of a list index.
func TermOf(k []byte) (string, bool) {
	if len(k) < lengthSize+listTail {
		return "", false
	}
	n := int(binary.BigEndian.Uint16(k))
	return string(k[lengthSize : len(k)-listTail]), n == len(k)-lengthSize-listTail
}

// appendNameFrom appends where the names of n bytes that begin with prefix stand.
func appendNameFrom(b []byte, n int, prefix string) []byte {
	return append(binary.BigEndian.AppendUint16(b, uint16(n)), prefix...)
}

// Reindex implements [store.Tx].
func (t *Tx) Reindex(kind effects.Kind, id uuid.UUID, former, terms []store.Term) (err error) {
	if err := t.check("reindex"); err != nil {
		return err
	}
	defer Guard("reindex", &err)
	w := store.Write{Kind: kind, ID: id, Terms: terms, Prev: store.Prev{Terms: former}}
	if err = w.Validate(); err == nil {
		err = t.reindex(&w)
	}
	if err != nil {
		return &store.RecordError{Op: "reindex", Kind: kind, ID: id, Err: err}
	}
	return nil
}

func (t *Tx) reindex(w *store.Write) error {
	if _, ok := t.kind(w.Kind).records.Get(w.ID[:]); !ok {
		return store.ErrNotFound
	}
	tables := t.kind(w.Kind)
	for i := range w.Prev.Terms {
		if term := &w.Prev.Terms[i]; !slices.Contains(w.Terms, *term) {
			t.setTerm(tables, term, w.ID, false)
		}
	}
	for i := range w.Terms {
		t.setTerm(tables, &w.Terms[i], w.ID, true)
	}
	return nil
}

// setTerm puts one list entry of a record or removes it, and counts what has changed.
func (t *Tx) setTerm(tables *kindTables, term *store.Term, id uuid.UUID, listed bool) {
	key := AppendListKey(nil, term.Name, term.At, id)
	old, was := tables.lists.Get(key)
	wasCounted := was && string(old) == Counted
	if listed && was && wasCounted == term.Counted || !listed && !was {
		return
	}
	value, delta := []byte{}, int64(0)
	if wasCounted {
		delta--
	}
	if listed && term.Counted {
		value, delta = []byte(Counted), delta+1
	}
	if listed {
		tables.lists.Put(key, value)
	} else {
		tables.lists.Delete(key)
	}
	t.add(countKey{tables.kind, term.CountName()}, delta)
}
