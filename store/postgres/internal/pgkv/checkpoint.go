package pgkv

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/orrery-go/orrery/store"
)

// keepUp makes a checkpoint when enough was committed, or some time after the first
// commit since the last one, until the context ends.
func (db *DB) keepUp(ctx context.Context) {
	told := "" // of the last checkpoint, if it failed
	for db.waitForWork(ctx) {
		switch err := db.Checkpoint(ctx); {
		case ctx.Err() != nil || db.Broken() != nil:
		case err == nil && told != "":
			db.o.Logger.Info("what the log holds is in the tables again", "partition", db.o.Partition)
			told = ""
		case err != nil:
			if err.Error() != told {
				told = err.Error()
				db.o.Logger.Error("what the log holds cannot be brought into the tables; trying again", "partition", db.o.Partition, "error", err, "in", db.o.After)
			}
			tell(db.dirty)
		}
	}
}

// waitForWork waits until a checkpoint is to be made; false: the context has ended, or everything is refused.
func (db *DB) waitForWork(ctx context.Context) bool {
	select {
	case <-db.dirty:
	case <-ctx.Done():
		return false
	case <-db.over:
		return false
	}
	pause := time.NewTimer(db.o.After)
	defer pause.Stop()
	select {
	case <-db.full:
		return true
	case <-pause.C:
		return true
	case <-ctx.Done():
		return false
	case <-db.over:
		return false
	}
}

// Checkpoint brings all that is committed into the tables. Transactions go on meanwhile.
func (db *DB) Checkpoint(ctx context.Context) error {
	db.working.Lock()
	defer db.working.Unlock()
	for {
		if err := db.lockWriter(); err != nil {
			return err
		}
		left := db.frozen != nil // by a checkpoint that failed: there may be more since
		is := db.freeze()
		db.writer.Unlock()
		if !is {
			return nil
		}
		if err := db.writeFrozen(ctx); err != nil || !left {
			return err
		}
	}
}

// freeze sets the active overlay aside to be written to the tables, unless an earlier one
// still waits for that; it reports whether one waits. The caller lets nothing be written meanwhile.
func (db *DB) freeze() bool {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.frozen == nil && !db.active.empty() {
		db.frozen, db.upTo = db.active, db.last
		db.active, db.memory, db.aside = &overlay{}, 0, db.memory
	}
	return db.frozen != nil
}

// writeFrozen writes what is frozen, and then shows the tables with it.
func (db *DB) writeFrozen(ctx context.Context) error {
	began := time.Now()
	w := checkpoint{db: db, ctx: ctx, made: make(map[string]int32)}
	err := w.write()
	if errors.Is(err, errRefused) {
		if why := w.refused(); why != nil {
			db.Break(why)
			err = why
		}
	}
	if err == nil {
		ids := maps.Clone(db.ids) // nobody else changes them
		made := make(map[int32]bool)
		for name, id := range w.made {
			ids[name], made[id] = id, true
		}
		// First what is known of the tables, as long as the overlay stands above.
		db.cache.apply(db.frozen, func(number int) int32 { return ids[db.numbers.Name(number)] }, made)
		db.mu.Lock()
		db.ids = ids
		db.mu.Unlock()
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	db.failed = err
	if err == nil {
		db.checkpoint, db.frozen, db.aside = db.upTo, nil, 0
		db.stats.Checkpoints++
		db.stats.Took = time.Since(began)
		db.stats.Total += db.stats.Took
	} else {
		db.stats.Failed++
	}
	close(db.ended)
	db.ended = make(chan struct{})
	return err
}

// checkpoint brings an overlay into the tables, table by table in the order of the keys, in transactions that each
// end with the fence. The last one says up to which commit the tables now have all.
type checkpoint struct {
	db   *DB
	ctx  context.Context
	made map[string]int32 // the tables that it has made
	step int64            // of the last transaction; 0: there was none yet

	tabs, goneTabs []int32
	keys, values   [][]byte
	goneKeys       [][]byte
	drop           int32 // a table of which all that is there goes, a transaction's worth at a time; 0: none
	dropped        int64 // rows of it in the last transaction
	newNames       []string
	bytes          int
}

// portionTime is how long one transaction of a checkpoint may take: then its connection is given up, over which perhaps
// nothing comes any more.
const portionTime = 2 * time.Minute

// mostRows is how many entries one transaction of a checkpoint writes at most.
const mostRows = 10_000

func (w *checkpoint) write() error {
	for number, l := range w.db.frozen.layers {
		if l == nil {
			continue
		}
		if err := w.table(w.db.numbers.Name(number), l); err != nil {
			return err
		}
	}
	return w.commit(true)
}

// id gives a table's number in the database.
func (w *checkpoint) id(name string) int32 {
	if id, ok := w.db.ids[name]; ok {
		return id
	}
	id := int32(len(w.db.ids) + len(w.made) + 1)
	w.made[name] = id
	w.newNames = append(w.newNames, name)
	return id
}

func (w *checkpoint) table(name string, l *layer) error {
	id := w.id(name)
	if w.made[name] == 0 && l.gone {
		for w.drop, w.dropped = id, mostRows; w.dropped == mostRows; {
			if err := w.commit(false); err != nil {
				return err
			}
		}
		w.drop = 0
	}
	iter := l.tree.Iter()
	defer iter.Release()
	for ok := iter.First(); ok; ok = iter.Next() {
		e := iter.Item()
		if e.value == nil {
			w.goneTabs, w.goneKeys = append(w.goneTabs, id), append(w.goneKeys, e.key)
		} else {
			w.tabs, w.keys, w.values = append(w.tabs, id), append(w.keys, e.key), append(w.values, e.value)
		}
		w.bytes += len(e.key) + len(e.value)
		if w.bytes >= w.db.o.Portion || len(w.tabs)+len(w.goneTabs) >= mostRows {
			if err := w.commit(false); err != nil {
				return err
			}
		}
	}
	return nil
}

// commit carries out what was gathered in one transaction.
func (w *checkpoint) commit(last bool) error {
	db := w.db
	ctx, cancel := context.WithTimeout(w.ctx, portionTime)
	defer cancel()
	err := db.locking(ctx, func(tx pgx.Tx, calm func()) error { return w.statements(ctx, tx, last, calm) })
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	w.tabs, w.keys, w.values, w.goneTabs, w.goneKeys, w.newNames, w.bytes = nil, nil, nil, nil, nil, nil, 0
	return nil
}

func (w *checkpoint) statements(ctx context.Context, tx pgx.Tx, last bool, calm func()) error {
	db, part := w.db, w.db.o.Partition
	for _, name := range w.newNames {
		tag, err := tx.Exec(ctx, db.s.newTable, part, w.made[name], name)
		if err == nil && tag.RowsAffected() == 0 {
			err = fmt.Errorf("%w: another table has the number %d of table %s", store.ErrCorrupt, w.made[name], name)
		}
		if err != nil {
			return err
		}
	}
	if w.drop != 0 {
		tag, err := tx.Exec(ctx, db.s.dropTable, part, w.drop, mostRows)
		if err != nil {
			return err
		}
		w.dropped = tag.RowsAffected()
	}
	if len(w.goneTabs) > 0 {
		if _, err := tx.Exec(ctx, db.s.remove, part, w.goneTabs, w.goneKeys); err != nil {
			return err
		}
	}
	if len(w.tabs) > 0 {
		if _, err := tx.Exec(ctx, db.s.upsert, part, w.tabs, w.keys, w.values); err != nil {
			return err
		}
	}
	sql := db.s.fence
	if last {
		if _, err := tx.Exec(ctx, db.s.trim, part, db.checkpoint, db.upTo); err != nil {
			return err
		}
		sql = db.s.finish
	}
	db.place.moves()
	calm() // who has the partition's row may be a commit of this owner that waits for a standby
	err := tx.QueryRow(ctx, sql, part, db.o.Session, db.upTo, db.checkpoint, w.step).Scan(&w.step)
	if noRow(err) {
		return errRefused
	}
	return err
}

// errRefused: the fence has let a transaction of a checkpoint not pass.
var errRefused = errors.New("the database is not as the checkpoint has left it")

// refused says why; nil: the database has lost a step of this checkpoint alone, which is to be made from its
// beginning.
func (w *checkpoint) refused() error {
	db := w.db
	row, err := scanRow(db.writes.QueryRow(w.ctx, db.s.look, db.o.Partition))
	if err != nil {
		return nil // it is asked again
	}
	return db.judge(w.ctx, row, db.upTo, db.checkpoint)
}

// Stats tells what the log holds beyond the tables, and how checkpoints go.
func (db *DB) Stats() store.LogStats {
	db.mu.RLock()
	defer db.mu.RUnlock()
	s := db.stats
	s.Frames, s.Memory, s.Bytes = db.last-db.checkpoint, db.memory+db.aside, db.memory+db.aside
	s.Fill = float64(db.memory) / float64(room*db.o.Bytes)
	s.Written, s.Err = db.written, db.failed
	return s
}
