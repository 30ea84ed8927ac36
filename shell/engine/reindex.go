package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

// ErrReindexing says that the records of a database of an earlier version do not yet stand in
// the lists of this one: Run sees to it before anything else.
var ErrReindexing = errors.New("the lists of a database of an earlier version are being built: try again later")

// reindexMeta is the name under which the store keeps how far the reindexing is.
const reindexMeta = "indexes"

// Bounds of one transaction of the reindexing.
const (
	reindexRecords = 5000
	reindexBytes   = 16 << 20
)

// indexes says in which lists the records of a database stand.
type indexes struct {
	Version string       `json:"version"` // see [core.IndexVersion]
	Done    bool         `json:"done"`
	Kind    effects.Kind `json:"kind,omitempty"` // otherwise: what is reindexed, and
	At      int64        `json:"at,omitempty"`   // behind which place in the list of all it goes on
	ID      uuid.UUID    `json:"id,omitzero"`
}

// readIndexes gives the lists of a database; of an empty one, those of this version. What
// cannot be read is an earlier version: to reindex twice changes nothing.
func readIndexes(tx store.ReadTx) (x indexes, err error) {
	if raw, err := tx.Meta(reindexMeta); err == nil && raw != nil && json.Unmarshal(raw, &x) == nil && x.Version == core.IndexVersion {
		return x, nil
	}
	seq, err := tx.Seq()
	return indexes{Version: core.IndexVersion, Done: seq == 0}, err
}

// Indexed returns nil if the records stand in the lists of this version, and else
// [ErrReindexing], or the store's error.
func (e *Engine) Indexed(ctx context.Context) error {
	if e.indexed.Load() {
		return nil
	}
	return e.store.View(ctx, func(tx store.ReadTx) error {
		x, err := readIndexes(tx)
		if err == nil && !x.Done {
			return ErrReindexing
		}
		e.indexed.Store(err == nil)
		return err
	})
}

// reindex gives the records of a database of an earlier version the list terms of this one,
// a part at a time: a start that is interrupted goes on where it was.
func (e *Engine) reindex(ctx context.Context) error {
	var x indexes
	err := e.store.View(ctx, func(tx store.ReadTx) (err error) {
		x, err = readIndexes(tx)
		return err
	})
	if err != nil {
		return err
	}
	e.rebuild.Store(!x.Done)
	defer e.rebuild.Store(false)
	began, told, records := e.o.Clock.Steady(), e.o.Clock.Steady(), 0
	for !x.Done {
		var n int
		if x, n, err = e.reindexPart(ctx, x, reindexRecords); err != nil {
			return fmt.Errorf("build the lists of a database of an earlier version, of which %d records are done: %w", records, err)
		}
		records += n
		if now := e.o.Clock.Steady(); x.Done && records > 0 || now.Sub(told) >= scrubEvery {
			told = now
			e.log.Info("building the lists of a database of an earlier version", "records", records, "kind", x.Kind, "done", x.Done, "took", now.Sub(began))
		}
	}
	e.indexed.Store(true)
	return nil
}

// reindexPart reindexes the next records, at most limit, in one transaction, which notes how
// far it came.
func (e *Engine) reindexPart(ctx context.Context, from indexes, limit int) (x indexes, records int, err error) {
	err = e.store.Update(ctx, func(tx store.Tx) error {
		x, records = from, 0
		kinds := core.ReindexedKinds()
		if x.Kind == "" {
			x.Kind = kinds[0]
		}
		found, err := tx.Scan(x.Kind, core.TermAll, store.Cursor{At: effects.Time(x.At), ID: x.ID}, false, limit)
		if err != nil {
			return err
		}
		size := 0
		for _, c := range found {
			if size > reindexBytes {
				break
			}
			n, err := reindexRecord(tx, effects.Ref{Kind: x.Kind, ID: c.ID})
			if err != nil {
				return err
			}
			x.At, x.ID = int64(c.At), c.ID
			records++
			size += n
		}
		if len(found) < limit && records == len(found) {
			x.nextKind(kinds)
		}
		return x.note(tx)
	})
	return x, records, err
}

func (x indexes) note(tx store.Tx) error {
	raw, err := json.Marshal(x)
	if err != nil {
		return err
	}
	return tx.SetMeta(reindexMeta, raw)
}

// noteIndexes notes in an empty database that its records stand in the lists of this version.
func noteIndexes(tx store.Tx) error {
	if raw, err := tx.Meta(reindexMeta); err == nil && raw != nil {
		return nil
	}
	return indexes{Version: core.IndexVersion, Done: true}.note(tx)
}

// nextKind goes on to the kind behind that which is done.
func (x *indexes) nextKind(kinds []effects.Kind) {
	*x = indexes{Version: x.Version, Kind: x.Kind}
	for i, kind := range kinds[:len(kinds)-1] {
		if kind == x.Kind {
			x.Kind = kinds[i+1]
			return
		}
	}
	*x = indexes{Version: x.Version, Done: true}
}

// reindexRecord gives the record of a machine the terms of this version, and the bytes of
// its state. What cannot be read is left to who sets it aside.
func reindexRecord(tx store.Tx, ref effects.Ref) (size int, err error) {
	rec, err := tx.Get(ref.Kind, ref.ID)
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrCorrupt) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	s, err := core.DecodeState(ref.Kind, rec.State)
	if err != nil || s.Ref() != ref {
		return len(rec.State), nil //nolint:nilerr // said above
	}
	return len(rec.State), tx.Reindex(ref.Kind, ref.ID, core.FormerTerms(s), s.Terms())
}
