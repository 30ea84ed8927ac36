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
	"github.com/orrery-go/orrery/store/internal/tables"
	"github.com/orrery-go/orrery/store/stream"
)

// MakeFile makes a new database file with mode 0600, and its journal beside it, of all that
// from gives: a [stream.Reader], or another store. The file appears under its name only when it is
// whole and on the disk, after its journal. A file that is already there stays, and the error wraps [os.ErrExist].
// If it fails nothing is left behind. If the process is killed, a folder named ".NAME.new-…" is left, which the next one
// to the same name removes; if it is killed between its last two renames, also the journal under its name, without
// the file: the next one says that it is to be moved away.
func MakeFile(ctx context.Context, path string, from store.Exporter) (Copied, error) {
	c, err := makeFile(ctx, path, from)
	if err != nil {
		return c, fmt.Errorf("make %s: %w", path, err)
	}
	return c, nil
}

func makeFile(ctx context.Context, path string, from store.Exporter) (c Copied, err error) {
	err = newDatabase(path, func(tmp string) error {
		c, err = fill(ctx, tmp, from)
		return err
	})
	return c, err
}

// fill makes a database at a path at which nothing is. It is not on the disk then.
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
		state, err := at.Moved(b.Get(key), tables.ParseJSON)
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
	w, err := newScratch(beside)
	if err != nil {
		return "", remove, err
	}
	if _, err := fill(ctx, w.file(), r); err != nil {
		return "", remove, errors.Join(err, w.remove())
	}
	return w.file(), w.remove, nil
}
