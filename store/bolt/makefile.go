package bolt

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"go.etcd.io/bbolt"

	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/bolt/internal/kv"
	"github.com/orrery-go/orrery/store/stream"
)

// MakeFile makes a new database file with mode 0600, and its journal beside it, of all that
// from gives: a [stream.Reader], or another store. The file appears under its name only when it is
// whole and on the disk, after its journal. A file that is already there stays, and the error wraps [os.ErrExist].
// If it fails nothing is left behind. If the process is killed, a file and folders named
// ".NAME.made-…" may be, which the next one to the same name removes; between its last two renames also the
// journal under its name, without the file: the next one says that it is to be moved away.
func MakeFile(ctx context.Context, path string, from store.Exporter) (Copied, error) {
	c, err := makeFile(ctx, path, from)
	if err != nil {
		return c, fmt.Errorf("make %s: %w", path, err)
	}
	return c, nil
}

func makeFile(ctx context.Context, path string, from store.Exporter) (c Copied, err error) {
	if err := vacant(path); err != nil {
		return c, err
	}
	folder := filepath.Dir(path)
	if err := removeLeft(folder, temporary(path, "made")); err != nil {
		return c, err
	}
	f, err := os.CreateTemp(folder, temporary(path, "made")) // mode 0600
	if err != nil {
		return c, explain(err)
	}
	tmp := f.Name()
	defer func() {
		err = errors.Join(err, removeDatabase(tmp))
	}()
	if err := f.Close(); err != nil {
		return c, err
	}
	if c, err = fill(ctx, tmp, from); err != nil {
		return c, err
	}
	_, err = os.Lstat(journalFolder(tmp))
	journal := err == nil // an empty store has none
	if err := syncDatabase(tmp); err != nil {
		return c, fmt.Errorf("bring it to the disk: %w", err)
	}
	if err := vacant(path); err != nil { // meanwhile
		return c, err
	}
	// The journal first: a file without it would begin another one.
	if journal {
		if err := os.Rename(journalFolder(tmp), journalFolder(path)); err != nil {
			return c, err
		}
	}
	if err = syncFolder(folder); err == nil {
		err = place(tmp, path)
	}
	if err != nil {
		if journal {
			err = errors.Join(err, os.RemoveAll(journalFolder(path)))
		}
		return c, err
	}
	return c, syncFolder(folder)
}

// vacant fails unless a database file can be made at a path.
func vacant(path string) error {
	if _, err := os.Lstat(path); err == nil {
		return os.ErrExist
	}
	for _, beside := range []string{logFolder(path), journalFolder(path)} {
		if _, err := os.Lstat(beside); err == nil {
			return fmt.Errorf("the folder %s stands there without the database file, which it may belong to, unless it is of a backup that was killed at its very end: move it away, or choose another name: %w", beside, os.ErrExist)
		}
	}
	return nil
}

// removeLeft removes what others that were killed have left of that pattern: what nobody has open.
func removeLeft(folder, pattern string) error {
	found, err := os.ReadDir(folder)
	if err != nil {
		return explain(err)
	}
	prefix := pattern[:len(pattern)-1]
	for _, e := range found {
		if name := e.Name(); len(name) > len(prefix) && name[:len(prefix)] == prefix && e.Type().IsRegular() {
			tmp := filepath.Join(folder, name)
			db, err := openFile(tmp, Options{LockTimeout: -1, MapSize: -1}, &identity{})
			switch {
			case errors.Is(err, ErrLocked):
				continue // another one is at work
			case err == nil:
				_ = closeFile(db)
			}
			if err := removeDatabase(tmp); err != nil {
				return err
			}
		}
	}
	return nil
}

// removeDatabase removes a file and what stands beside it. The file goes last, and only if the rest
// has gone: removeLeft goes by it.
func removeDatabase(path string) error {
	for _, part := range []string{logFolder(path), journalFolder(path), path} {
		if err := os.RemoveAll(part); err != nil {
			return err
		}
	}
	return nil
}

// fill makes a database of an empty file. It is not on the disk then.
func fill(ctx context.Context, path string, from store.Exporter) (c Copied, err error) {
	s, err := open(path, Options{NoSync: true})
	if err != nil {
		return c, err
	}
	w := &watched{from: from}
	err = s.Import(ctx, w)
	c.Seq, c.Omitted, c.Left = w.seq, w.omitted, w.left
	if err = errors.Join(err, s.Close()); err != nil {
		return c, err
	}
	if err := goOnFrom(path, w.place); err != nil {
		return c, fmt.Errorf("note where the copy stands in the chain of commits: %w", err)
	}
	for _, part := range []string{path, journalFolder(path)} {
		n, err := sizeOf(part)
		if err != nil {
			return c, err
		}
		c.Bytes += n
	}
	return c, nil
}

// goOnFrom has a closed file go on behind the commit that it is a copy of, so that a restore finds
// the commits that followed.
func goOnFrom(path string, place json.RawMessage) (err error) {
	var at kv.Position
	if err := json.Unmarshal(place, &at); err != nil {
		return nil //nolint:nilerr // a store of another kind gave it
	}
	db, err := openFile(path, Options{NoSync: true, MapSize: -1}, &identity{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeFile(db)) }()
	return db.Update(func(tx *bbolt.Tx) error {
		name, key := kv.StateKey()
		b := tx.Bucket([]byte(name))
		state, err := at.Moved(b.Get(key), parseJSON)
		if err != nil {
			return err
		}
		return putSealed(b, key, state)
	})
}

// watched notes what an import is told of.
type watched struct {
	from    store.Exporter
	seq     uint64
	place   json.RawMessage
	omitted []store.Omission
	left    uint64
}

func (w *watched) Export(ctx context.Context, to store.Sink) error {
	return w.from.Export(ctx, watching{to, w})
}

type watching struct {
	store.Sink
	w *watched
}

func (s watching) Begin(h store.Head) error {
	s.w.seq, s.w.place = h.Seq, h.Place
	return s.Sink.Begin(h)
}

func (s watching) Omitted(o store.Omission) error {
	if s.w.left++; len(s.w.omitted) < stream.MaxOmitted {
		s.w.omitted = append(s.w.omitted, o)
	}
	return s.Sink.Omitted(o)
}

// sizeOf gives the bytes of a file, or of the files in a folder, which need not be there.
func sizeOf(path string) (n int64, err error) {
	err = filepath.WalkDir(path, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		info, err := e.Info()
		if err == nil {
			n += info.Size()
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return n, err
}

// syncDatabase makes a closed database that was written without syncs durable: the file, its
// journal, and their names there.
func syncDatabase(path string) error {
	if err := syncFile(path); err != nil {
		return err
	}
	folder := journalFolder(path)
	found, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range found {
		err = errors.Join(err, syncFile(filepath.Join(folder, e.Name())))
	}
	if err != nil {
		return err
	}
	return syncFolder(folder)
}

func syncFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// fileOfStream gives a database file that is made of a stream for a while, beside another one that is
// to be made of it; of what is no stream it gives the path itself.
func fileOfStream(ctx context.Context, path, beside string) (file string, remove func() error, err error) {
	remove = func() error { return nil }
	f, err := os.Open(path)
	if err != nil {
		return path, remove, nil //nolint:nilerr // whoever opens it tells
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	beginning := make([]byte, len(stream.Magic))
	if _, err := io.ReadFull(f, beginning); err != nil || !stream.Is(beginning) {
		return path, remove, nil //nolint:nilerr // likewise
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return "", remove, err
	}
	r, err := stream.NewReader(bufio.NewReader(f))
	if err != nil {
		return "", remove, err
	}
	folder, err := os.MkdirTemp(filepath.Dir(beside), temporary(beside, "stream"))
	if err != nil {
		return "", remove, explain(err)
	}
	remove = func() error { return os.RemoveAll(folder) }
	file = filepath.Join(folder, "backup.db")
	if _, err := makeFile(ctx, file, r); err != nil {
		return "", remove, errors.Join(err, remove())
	}
	return file, remove, nil
}
