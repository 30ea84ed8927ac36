package pgkv

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/orrery-go/orrery/store"
)

// keepUp makes a checkpoint when enough was committed, or some time after the first commit since the last one.
func (db *DB) keepUp() {
	told := ""
	for db.waitForWork() {
		switch err := db.Checkpoint(db.ctx); {
		case err == nil && told != "":
			db.o.Logger.Info("what the log holds is in the table again")
			told = ""
		case err != nil && db.ctx.Err() == nil:
			if err.Error() != told {
				told = err.Error()
				db.o.Logger.Error("what the log holds cannot be brought into the table; trying again", "error", err, "in", db.o.After)
			}
			tell(db.dirty)
		}
	}
}

// waitForWork waits until a checkpoint is to be made; false: there is none any more.
func (db *DB) waitForWork() bool {
	select {
	case <-db.dirty:
	case <-db.over:
		return false
	case <-db.ctx.Done():
		return false
	}
	pause := time.NewTimer(db.o.After)
	defer pause.Stop()
	select {
	case <-db.full:
		return true
	case <-pause.C:
		return true
	case <-db.over:
		return false
	case <-db.ctx.Done():
		return false
	}
}

// Checkpoint brings all that is committed into the table. Transactions go on meanwhile.
func (db *DB) Checkpoint(ctx context.Context) error {
	db.working.Lock()
	defer db.working.Unlock()
	for {
		is, left, err := db.freeze(ctx)
		if err != nil || !is {
			return err
		}
		if err := db.writeFrozen(ctx); err != nil || !left {
			return err
		}
	}
}

// freeze sets the active overlay aside to be written to the table, unless an earlier one still waits for that, which
// left tells; is reports whether one waits. All that was staged is stored before.
func (db *DB) freeze(ctx context.Context) (is, left bool, err error) {
	if err := db.lock(ctx); err != nil {
		return false, false, err
	}
	defer db.unlock()
	db.mu.RLock()
	wait := Staged{db: db}
	if n := len(db.staged); n > 0 {
		wait.on = db.staged[n-1]
	}
	db.mu.RUnlock()
	if err := wait.Wait(); err != nil {
		return false, false, err
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	left = db.frozen != nil
	if !left && !db.active.empty() {
		db.frozen, db.upTo, db.aside = db.active, db.last, db.bytes
		db.active, db.bytes = &overlay{}, 0
	}
	return db.frozen != nil, left, nil
}

func (db *DB) writeFrozen(ctx context.Context) error {
	began := time.Now()
	w := &overlayWriter{db: db, ctx: ctx, ids: maps.Clone(db.ids), nextID: db.nextID, made: make(map[int32]bool)}
	err := w.write(db.frozen)
	if err == nil {
		db.cache.apply(db.frozen, func(number int) int32 { return w.ids[db.numbers.name(number)] }, w.made)
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	db.failed = err
	if err != nil {
		db.made.Failed++
	} else {
		db.made.Checkpoints++
		db.made.Took = time.Since(began)
		db.made.Total += db.made.Took
		db.frames -= db.upTo - db.inBase
		db.inBase, db.frozen, db.aside = db.upTo, nil, 0
	}
	close(db.ended)
	db.ended = make(chan struct{})
	return err
}

// A transaction of a checkpoint has at most so many entries, or about so many bytes.
const (
	portionEntries = 5000
	portionBytes   = 4 << 20
)

// overlayWriter brings an overlay into the table.
type overlayWriter struct {
	db     *DB
	ctx    context.Context
	ids    map[string]int32
	nextID int32
	made   map[int32]bool // tables that had no number before

	pending []func(*pgx.Batch)
	entries int
	bytes   int
}

func (w *overlayWriter) queue(sql string, args ...any) {
	w.pending = append(w.pending, func(b *pgx.Batch) { b.Queue(sql, args...) })
}

func (w *overlayWriter) write(o *overlay) error {
	for number, l := range o.layers {
		if l == nil {
			continue
		}
		if err := w.table(w.db.numbers.name(number), l); err != nil {
			return err
		}
	}
	w.queue(w.db.s.truncate, w.db.o.Partition, int64(w.db.upTo))
	return w.commit(true)
}

func (w *overlayWriter) table(name string, l *layer) error {
	part, s := w.db.o.Partition, w.db.s
	tab, ok := w.ids[name]
	if !ok {
		w.nextID++
		tab = w.nextID
		w.ids[name], w.made[tab] = tab, true
		w.queue(s.addTable, part, tab, name)
	} else if l.gone {
		w.queue(s.removeAll, part, tab)
	}
	var keys, values, gone [][]byte
	flush := func() {
		if len(gone) > 0 {
			w.queue(s.remove, part, tab, gone)
		}
		if len(keys) > 0 {
			w.queue(s.upsert, part, tab, keys, values)
		}
		keys, values, gone = nil, nil, nil
	}
	iter := l.tree.Iter()
	defer iter.Release()
	for ok := iter.First(); ok; ok = iter.Next() {
		e := iter.Item()
		if e.value == nil {
			gone = append(gone, e.key)
		} else {
			keys, values = append(keys, e.key), append(values, e.value)
		}
		w.entries++
		if w.bytes += len(e.key) + len(e.value); w.entries >= portionEntries || w.bytes >= portionBytes {
			flush()
			if err := w.commit(false); err != nil {
				return err
			}
		}
	}
	flush()
	return nil
}

// commit carries out what is pending in one transaction, of which the last step is the fence: so the partition's row is not
// locked for long.
func (w *overlayWriter) commit(last bool) error {
	db := w.db
	for {
		db.mu.RLock()
		token := db.token
		db.mu.RUnlock()
		b := &pgx.Batch{}
		for _, queue := range w.pending {
			queue(b)
		}
		if last {
			b.Queue(db.s.checkpoint, db.o.Partition, token, int64(db.upTo))
		} else {
			b.Queue(db.s.held, db.o.Partition, token)
		}
		err := db.pool.SendBatch(w.ctx, b).Close()
		if isFenced(err) {
			db.mu.RLock()
			moved := db.token != token // by a commit that has lost its connection
			db.mu.RUnlock()
			if moved {
				continue
			}
			err = fmt.Errorf("partition %d: %w", db.o.Partition, store.ErrFenced)
			db.Break(err)
		}
		if err != nil {
			return fmt.Errorf("write to the table: %w", err)
		}
		w.pending, w.entries, w.bytes = nil, 0, 0
		db.mu.Lock()
		db.ids, db.nextID = maps.Clone(w.ids), w.nextID // a checkpoint that fails later leaves these tables
		db.mu.Unlock()
		return nil
	}
}
