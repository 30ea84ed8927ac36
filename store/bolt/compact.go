package bolt

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"

	"go.etcd.io/bbolt"

	"github.com/orrery-go/orrery/store/bolt/internal/kv"
	"github.com/orrery-go/orrery/store/internal/tables"
)

// Sizes tells what a compaction gained, in bytes.
type Sizes struct {
	Before int64
	After  int64
}

// compactBatch is how many bytes one transaction of a compaction copies.
const compactBatch = 16 << 20

// Compact writes a copy of the database file src, which no process may have open
// for writing, to a new file dst, without the space that deletions left. dst
// appears only when it is whole and on the disk; the error wraps [os.ErrExist]
// where it is already there. src is not changed.
func Compact(ctx context.Context, src, dst string) (sizes Sizes, err error) {
	err = newDatabase(dst, func(tmp string) error {
		sizes, err = compact(ctx, src, tmp, false)
		return err
	})
	if err != nil {
		return sizes, fmt.Errorf("compact %s to %s: %w", src, dst, err)
	}
	return sizes, nil
}

// CompactFile is [Compact] in place: the copy takes the file's place when it is
// whole, in one step. Until then the file stays as it was, also where the process
// ends. The folder needs room for the copy.
func CompactFile(ctx context.Context, path string) (Sizes, error) {
	file := target(path) // a link stays one: what it leads to would be an older state
	sizes, err := compactFile(ctx, file)
	if err != nil {
		return sizes, fmt.Errorf("compact %s: %w", path, err)
	}
	return sizes, nil
}

func compactFile(ctx context.Context, path string) (sizes Sizes, err error) {
	if _, err := fileSize(path); err != nil { // before anything is made for it
		return sizes, err
	}
	w, err := newScratch(path)
	if err != nil {
		return sizes, err
	}
	defer func() { err = errors.Join(err, w.remove()) }()
	return compact(ctx, path, w.file(), true)
}

// compact writes a copy to a path at which nothing is. In place it then gives it the name of the source.
func compact(ctx context.Context, src, tmp string, inPlace bool) (sizes Sizes, err error) {
	// Opened for writing, what is missing or empty would become a database.
	switch n, err := fileSize(src); {
	case err != nil:
		return sizes, err
	case n == 0:
		return sizes, fmt.Errorf("%w: it is empty", ErrForeign)
	}
	// Where the copy is to replace the source, its lock must be exclusive: what
	// another process wrote meanwhile would be lost.
	from, err := open(src, Options{ReadOnly: !inPlace})
	if err != nil {
		return sizes, err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	if inPlace {
		// The lock is ours alone: what stands there is of a compaction by an earlier build that was killed.
		if err := removeAll(filepath.Dir(src), "."+filepath.Base(src)+".compact-"); err != nil {
			return sizes, err
		}
		// What the log holds must be in the file before another one takes its place.
		if err := from.db.Settle(); err != nil {
			return sizes, err
		}
	}
	if err := from.copyCompact(ctx, tmp, inPlace); err != nil {
		return sizes, err
	}
	if sizes.Before, err = fileSize(src); err != nil {
		return sizes, err
	}
	if sizes.After, err = fileSize(tmp); err != nil || !inPlace {
		return sizes, err
	}
	if err := os.Rename(tmp, src); err != nil {
		return sizes, err
	}
	return sizes, syncFolder(filepath.Dir(src))
}

// removeAll removes the files of a folder whose names begin so. A name may hold
// what filepath.Glob takes for a pattern.
func removeAll(folder, prefix string) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), prefix) && e.Type().IsRegular() {
			if err := os.Remove(filepath.Join(folder, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// copyCompact copies all tables, as they are at the call, into the empty file at path, which
// then is whole without a log; also without an archive, unless it is to take this one's place.
func (s *Store) copyCompact(ctx context.Context, path string, inPlace bool) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	ktx, err := s.begin(ctx, "copy", false)
	if err != nil {
		return err
	}
	defer s.open.Done()
	defer ktx.Rollback()
	to, err := bbolt.Open(path, 0o600, &bbolt.Options{NoSync: true, FreelistType: bbolt.FreelistMapType, NoStatistics: true})
	if err != nil {
		return err
	}
	c := copier{ctx: ctx, to: to, inPlace: inPlace, anew: s.db.PastLost() != nil && s.db.ReadOnly()}
	return errors.Join(c.copy(ktx), to.Sync(), to.Close())
}

// copier copies tables in transactions of [compactBatch] bytes.
type copier struct {
	ctx  context.Context
	to   *bbolt.DB
	tx   *bbolt.Tx
	size int
	// inPlace leaves out what stands in the archive, which stays beside the copy too.
	inPlace bool
	// anew begins the journal anew, as opening for writing does where some of it is lost: the copy
	// has no archive that says how far the numbers of batches had come.
	anew bool
}

func (c *copier) copy(from *kv.Tx) (err error) {
	defer guard("copy", &err)
	defer func() {
		if c.tx != nil {
			err = errors.Join(err, c.tx.Rollback())
		}
	}()
	for _, name := range from.Names("") {
		if c.anew && slices.Contains(pastTables, name) {
			continue
		}
		if err := c.table(from.Table(name), []byte(name)); err != nil {
			return err
		}
	}
	if c.inPlace {
		if err := c.copyState(from); err != nil {
			return err
		}
	} else if err := c.putPosition(from.Position()); err != nil {
		return err
	}
	if c.anew {
		if err := c.beginAnew(from); err != nil {
			return err
		}
	}
	return c.commit()
}

// beginAnew leaves one epoch, which begins behind the last batch.
func (c *copier) beginAnew(from *kv.Tx) error {
	t := tables.NewReadTx(c.ctx, backing{from})
	epochs, err := t.Epochs()
	if err != nil {
		return err
	}
	seq, err := t.Seq()
	if err != nil {
		return err
	}
	into, err := c.bucket([]byte(tables.NameEpochs))
	if err != nil {
		return err
	}
	for _, e := range epochs {
		key := tables.SeqKey(e.Number)
		if err := into.Delete(key[:]); err != nil {
			return err
		}
	}
	last := epochs[len(epochs)-1]
	key := tables.SeqKey(last.Number + 1)
	return putSealed(into, key[:], tables.EpochValue{First: seq + 1, Started: last.Started})
}

// copyState copies how the file and its archive belong together.
func (c *copier) copyState(from *kv.Tx) error {
	name, key := kv.StateKey()
	b := from.Base().Bucket([]byte(name))
	if b == nil {
		return nil
	}
	value := b.Get(key)
	if value == nil {
		return nil
	}
	into, err := c.bucket([]byte(name))
	if err != nil {
		return err
	}
	return into.Put(key, value)
}

// putPosition notes behind which frame of which log the copy goes on, for a restore that
// carries out later ones.
func (c *copier) putPosition(at kv.Position) error {
	name, key := kv.StateKey()
	into, err := c.bucket([]byte(name))
	if err != nil {
		return err
	}
	return putSealed(into, key, at.State())
}

func (c *copier) table(from *kv.Table, name []byte) error {
	into, err := c.bucket(name)
	if err != nil {
		return err
	}
	cursor := from.Cursor()
	if c.inPlace {
		cursor = from.WarmCursor()
	}
	for k, v := cursor.First(); k != nil; k, v = cursor.Next() {
		if c.size += len(k) + len(v); c.size > compactBatch {
			if err := c.commit(); err != nil {
				return err
			}
			if into, err = c.bucket(name); err != nil {
				return err
			}
		}
		if err := into.Put(k, v); err != nil {
			return err
		}
	}
	return nil
}

// bucket gives a bucket of the transaction under way.
func (c *copier) bucket(name []byte) (b *bbolt.Bucket, err error) {
	if c.tx == nil {
		if c.tx, err = c.to.Begin(true); err != nil {
			return nil, err
		}
	}
	if b, err = c.tx.CreateBucketIfNotExists(name); err != nil {
		return nil, fmt.Errorf("bucket %q: %w", name, err)
	}
	b.FillPercent = 1 // keys come in order
	return b, nil
}

func (c *copier) commit() error {
	if c.ctx.Err() != nil {
		return context.Cause(c.ctx)
	}
	if c.tx == nil {
		return nil
	}
	tx := c.tx
	c.tx, c.size = nil, 0
	return tx.Commit()
}

func fileSize(path string) (int64, error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}
