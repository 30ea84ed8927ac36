package kv

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"

	"go.etcd.io/bbolt"

	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/bolt/internal/archive"
	"github.com/orrery-go/orrery/store/bolt/internal/disk"
)

// Past names tables that are only appended to: a checkpoint writes their entries not into
// the file, but into an [archive] beside it. To a reader they are tables like the others; what
// the file itself has of them, from before there was an archive, counts too. Their keys begin with
// a number of eight bytes, and each is greater than all before it. Of what is in the archive
// nothing can be deleted: it goes as a whole, below the floor.
type Past struct {
	Folder string   // of the archive, beside the file
	Tables []string // which ones; none: there is no archive
	// Floor gives the number below which nobody asks for anything any more, and the greatest one that it will give
	// as far as is known now: a file of the archive begins there, so that what is before can be dropped then.
	Floor func(*Tx) (floor, next uint64, err error)
	// FileBytes is how great a file of the archive gets, about; zero: as package archive has it.
	FileBytes int64
}

// NoPast fails with [ErrOtherLog] where a folder holds an archive.
func NoPast(folder string, fsys disk.FS) error {
	found, err := archive.Any(folder, fsys)
	if err != nil {
		return fmt.Errorf("the journal %s: %w", folder, err)
	}
	if found {
		return otherPast(fmt.Errorf("%w: %s", archive.ErrOther, folder))
	}
	return nil
}

func otherPast(err error) error {
	return fmt.Errorf("%w: %w: put the file back that it belongs to; or, to begin with another one, move the folder away", ErrOtherLog, err)
}

func (db *DB) openPast() (err error) {
	p := db.o.Past
	if len(p.Tables) == 0 {
		return nil
	}
	db.past, err = archive.Open(p.Folder, db.session.Past, archive.Options{FS: db.o.FS, NoSync: db.o.NoSync, ReadOnly: db.o.ReadOnly, File: p.FileBytes, Whole: !db.session.Open && db.session.ID != ""})
	if errors.Is(err, archive.ErrOther) {
		return otherPast(err)
	}
	if err != nil {
		return fmt.Errorf("the journal %s: %w", p.Folder, err)
	}
	named := db.session.Past.ID != ""
	db.session.Past = db.past.Position()
	if named || !db.session.Open || db.o.ReadOnly {
		return nil
	}
	// The log is an earlier build's: what a first checkpoint leaves must be this file's. Else openLog
	// stores the ID.
	if err := db.file.update(&written{}, db.makeWay, func(tx *bbolt.Tx) error { return db.putState(tx, db.session) }); err != nil {
		return errors.Join(err, db.closePast())
	}
	return nil
}

func (db *DB) closePast() error {
	if db.past == nil {
		return nil
	}
	return db.past.Close()
}

// PastLost gives what is missing of the past, as the file tells of it; nil: nothing.
func (db *DB) PastLost() error {
	if db.past == nil {
		return nil
	}
	return db.past.Lost()
}

// PastAside gives the files of the past that were set aside: what a newer copy of the file had written.
func (db *DB) PastAside() []string {
	if db.past == nil {
		return nil
	}
	return db.past.Aside()
}

func (db *DB) currentPast() *archive.Snapshot {
	if db.past == nil {
		return nil
	}
	return db.past.Current()
}

// pastEnds gives the last key of each table of the past. What follows it goes into the archive.
func (db *DB) pastEnds() map[string][]byte {
	ends := make(map[string][]byte, len(db.o.Past.Tables))
	for _, table := range db.o.Past.Tables {
		ends[table] = db.session.Past.LastKey(table)
	}
	return ends
}

// follows reports whether a checkpoint writes an entry into the archive.
func follows(ends map[string][]byte, table string, e *entry) bool {
	end, is := ends[table]
	return is && e.there() && len(e.key) >= 8 && bytes.Compare(e.key, end) > 0
}

// writePast appends what an overlay has for the archive, behind the ends of its tables, and
// gives the position that makes it count.
func (db *DB) writePast(o *overlay, ends map[string][]byte) (at archive.Position, err error) {
	if db.past == nil {
		return at, nil
	}
	floor, next, err := db.floor()
	if err != nil {
		return at, err
	}
	first, last := db.pastNumbers(o, ends)
	if had := db.session.Past.LastNumber(); had < next && last >= next {
		db.past.Roll()
	}
	err = db.past.Begin(first, floor)
	if err == nil {
		err = db.eachPast(o, ends, func(table string, e *entry) (more bool, err error) {
			value, err := db.valueOf(table, e, nil)
			if err != nil {
				return false, err
			}
			return true, db.past.Append(table, e.key, value)
		})
	}
	if err != nil {
		return at, err
	}
	return db.past.Flush()
}

// pastNumbers gives the least and the greatest number of what an overlay has for the archive; zero: it has nothing.
func (db *DB) pastNumbers(o *overlay, ends map[string][]byte) (first, last uint64) {
	_ = db.eachPast(o, ends, func(table string, e *entry) (more bool, err error) {
		if n := binary.BigEndian.Uint64(e.key); first == 0 || n < first {
			first = n
		}
		if e, ok := o.layer(db.numbers.Of(table, false)).tree.Max(); ok && follows(ends, table, &e) {
			last = max(last, binary.BigEndian.Uint64(e.key))
		}
		return false, nil
	})
	return first, last
}

// eachPast visits what an overlay has for the archive, table by table in the order of the keys;
// where fn says that there is no more to do it goes on with the next table.
func (db *DB) eachPast(o *overlay, ends map[string][]byte, fn func(table string, e *entry) (more bool, err error)) (err error) {
	for _, table := range db.o.Past.Tables {
		l := o.layer(db.numbers.Of(table, false))
		if l == nil || err != nil {
			continue
		}
		l.tree.Ascend(entry{key: ends[table]}, func(e entry) (more bool) {
			if more = true; follows(ends, table, &e) {
				more, err = fn(table, &e)
			}
			return more && err == nil
		})
	}
	return err
}

// floor asks for the number below which the past may go, and where it will go next.
func (db *DB) floor() (floor, next uint64, err error) {
	if db.o.Past.Floor == nil {
		return 0, 0, nil
	}
	tx, err := db.begin(false)
	if err != nil {
		return 0, 0, err
	}
	defer tx.Rollback()
	return db.o.Past.Floor(tx)
}

// publishPast shows what was written to the archive to whoever begins from now on.
// They may go on with what it gives; the caller releases it.
func (db *DB) publishPast() (old *archive.Snapshot) {
	if db.past == nil {
		return nil
	}
	return db.past.Publish(db.session.Past)
}

// pastOf gives a cursor over what the archive has of a table; nil: it has none.
func (tx *Tx) pastOf(table string) *pastCursor {
	if tx.past == nil || !slices.Contains(tx.db.o.Past.Tables, table) {
		return nil
	}
	return &pastCursor{tx.past.Cursor(table)}
}

func (tx *Tx) pastNames(prefix string) (names []string) {
	for _, name := range tx.db.o.Past.Tables {
		if strings.HasPrefix(name, prefix) && tx.table(name).hasPast() {
			names = append(names, name)
		}
	}
	return names
}

// PastLast gives the last key that the archive ever had of a table; nil: it never had one.
func (tx *Tx) PastLast(table string) []byte { return tx.past.Position().LastKey(table) }

// PastBytes gives about how many bytes the archive has for numbers from one on and below
// another; upTo zero: to the end.
func (tx *Tx) PastBytes(from, upTo uint64) int64 { return tx.past.Bytes(from, upTo) }

func (t *Table) hasPast() bool {
	if t.past == nil {
		return false
	}
	k, _ := t.past.First()
	return k != nil
}

func (t *Table) getPast(key []byte) (value []byte, ok bool) {
	if t.past == nil {
		return nil, false
	}
	k, v := t.past.Seek(key)
	if k == nil || !bytes.Equal(k, key) {
		return nil, false
	}
	return v, true
}

// WarmCursor is Cursor without what is in the archive.
func (t *Table) WarmCursor() *Cursor { return &Cursor{table: t, warm: true} }

// pastCursor is a cursor of the archive that panics, as bbolt's do, where it cannot read: see
// [Guard].
type pastCursor struct{ of *archive.Cursor }

func (c *pastCursor) First() (k, v []byte)          { return c.read(c.of.First()) }
func (c *pastCursor) Seek(key []byte) (k, v []byte) { return c.read(c.of.Seek(key)) }
func (c *pastCursor) Last() (k, v []byte)           { return c.read(c.of.Last()) }
func (c *pastCursor) Next() (k, v []byte)           { return c.read(c.of.Next()) }
func (c *pastCursor) Prev() (k, v []byte)           { return c.read(c.of.Prev()) }

func (c *pastCursor) read(k, v []byte) (_, _ []byte) {
	err := c.of.Err()
	switch {
	case err == nil:
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE): // which is no damage
		panic(unread{err})
	default:
		panic(fmt.Errorf("%w: %w", store.ErrCorrupt, err))
	}
	return k, v
}
