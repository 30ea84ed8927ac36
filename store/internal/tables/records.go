package tables

import (
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

// Get implements [store.ReadTx].
func (t *ReadTx) Get(kind effects.Kind, id uuid.UUID) (r store.Record, err error) {
	if err := t.check("get"); err != nil {
		return r, err
	}
	defer Guard("get", &err)
	raw, ok := t.kind(kind).records.Get(t.keyOf(id[:]...))
	if !ok {
		return r, &store.RecordError{Op: "get", Kind: kind, ID: id, Err: store.ErrNotFound}
	}
	if r, err = ParseRecord(kind, id, raw, &t.texts); err != nil {
		return store.Record{}, &store.RecordError{Op: "get", Kind: kind, ID: id, Err: err, Raw: Legible(raw)}
	}
	return r, nil
}

// GetMany implements [store.ReadTx].
func (t *ReadTx) GetMany(dst []store.Record, refs []effects.Ref) ([]store.Record, error) {
	if err := t.check("get many"); err != nil {
		return dst, err
	}
	if err := t.fetch(refs); err != nil {
		return dst, err
	}
	var bad []error
	for _, ref := range refs {
		r, err := t.Get(ref.Kind, ref.ID)
		switch {
		case err == nil:
		case errors.Is(err, store.ErrNotFound):
			r = store.Record{Kind: ref.Kind, ID: ref.ID}
		case errors.Is(err, store.ErrCorrupt):
			r = store.Record{Kind: ref.Kind, ID: ref.ID}
			bad = appendBad(bad, err)
		default:
			return dst, err
		}
		dst = append(dst, r)
	}
	return dst, errors.Join(bad...)
}

// LastCommit implements [store.ReadTx].
func (t *ReadTx) LastCommit() (uint64, error) {
	if err := t.check("last commit"); err != nil {
		return 0, err
	}
	return t.b.Last(), nil
}

// Records calls fn for each record. Those that cannot be read are passed over;
// when all others were visited it fails with a [store.RecordError] for each of
// the first few, joined (A10).
func (t *ReadTx) Records(fn func(store.Record) error) error {
	if err := t.check("records"); err != nil {
		return err
	}
	kinds, err := t.kindsOf(RecordsPrefix)
	if err != nil {
		return err
	}
	var bad []error
	for _, kind := range kinds {
		err := t.scan("records", t.kind(kind).records, nil, func(k, v []byte) (bool, error) {
			r, err := RecordAt(kind, k, v, &t.texts)
			if err != nil {
				bad = appendBad(bad, err)
				return true, nil
			}
			return true, fn(r)
		})
		if err != nil {
			return err
		}
	}
	return errors.Join(bad...)
}

// RecordAt reads the record that stands under a key; the error is a [store.RecordError].
func RecordAt(kind effects.Kind, k, v []byte, room *Texts) (r store.Record, err error) {
	id := uuid.UUID(Fit(k, IDLen))
	if len(k) != IDLen {
		err = fmt.Errorf("%w: key %x has %d bytes, not %d", store.ErrCorrupt, k, len(k), IDLen)
	} else {
		r, err = ParseRecord(kind, id, v, room)
	}
	if err != nil {
		return store.Record{}, &store.RecordError{Op: "records", Kind: kind, ID: id, Err: err}
	}
	return r, nil
}

// maxBad bounds how many damaged entries one error names.
const maxBad = 100

func appendBad(bad []error, err error) []error {
	if len(bad) < maxBad {
		bad = append(bad, err)
	}
	return bad
}

// kindsOf lists the kinds that have a bucket with that prefix, in order.
func (t *ReadTx) kindsOf(prefix string) (kinds []effects.Kind, err error) {
	err = t.buckets(prefix, func(name string) bool {
		kinds = append(kinds, effects.Kind(strings.TrimPrefix(name, prefix)))
		return true
	})
	return kinds, err
}

// buckets calls fn with the names that begin with prefix, in order.
func (t *ReadTx) buckets(prefix string, fn func(name string) bool) (err error) {
	defer Guard("buckets", &err)
	for _, name := range t.b.Names(prefix) {
		if !fn(name) {
			break
		}
	}
	return nil
}
