package archive

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"

	"github.com/orrery-go/orrery/store/bolt/internal/disk"
)

// writer is what is written and does not count yet.
type writer struct {
	begun bool
	part  part      // the file that is written to; no file: none yet
	f     disk.File // it is open for writing; nil: nothing was written yet
	isNew bool      // part is not in the current snapshot
	name  name      // of the file to make, where there is none
	size  int64
	last  map[string]string
	block builder
	first uint64 // the oldest file that is to stay
}

// Roll has the next Begin make a new file.
func (a *Archive) Roll() { a.roll = true }

// Begin begins to append entries whose keys have numbers from first on. What an earlier
// Begin had appended and was not published is forgotten. Files that have nothing from floor
// on are dropped when this is published.
func (a *Archive) Begin(first, floor uint64) error {
	if err := a.undo(); err != nil {
		return err
	}
	w := &a.out
	w.begun, w.size, w.last, w.first = true, 0, maps.Clone(a.at.Last), a.at.First
	parts := a.current.parts
	switch { // what is missing at the beginning is not asked for again
	case len(parts) > 0:
		w.first = parts[0].number
	case a.at.File != 0:
		w.first = a.at.File + 1
	}
	for i := range parts[:max(len(parts)-1, 0)] {
		if parts[i+1].first > floor || parts[i].holds(floor) {
			break
		}
		w.first = parts[i+1].number
	}
	w.name = name{number: a.at.File + 1, first: first}
	n := len(parts)
	whole := n > 0 && parts[n-1].number == a.at.File && parts[n-1].limit == a.at.Size
	switch {
	case whole && !a.roll && a.at.File != a.suspect && a.at.Size < a.o.File:
		w.part, w.size = parts[n-1], a.at.Size
	case n > 0 && !whole && w.first == parts[n-1].number && !parts[n-1].holds(floor):
		w.first = w.name.number // or its loss would be told at each start
	}
	a.roll = false
	return nil
}

// undo removes what was written and does not count.
func (a *Archive) undo() (err error) {
	w := &a.out
	if w.f != nil {
		err = w.f.Close()
	}
	if w.isNew {
		err = errors.Join(err, a.o.FS.Remove(w.part.path))
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	w.block.begin(a.o.Block)
	*w = writer{block: w.block}
	return err
}

// Append appends an entry. Those of one table follow each other, in the order of their
// keys.
func (a *Archive) Append(table string, key, value []byte) error {
	w := &a.out
	if !w.begun || len(key) < 8 || len(key) > 1<<16-1 || len(table) > 255 {
		return fmt.Errorf("append to the archive: a key of %d bytes for table %q: want 8 to 65535, after Begin", len(key), table)
	}
	if w.block.table != table {
		if err := a.flush(); err != nil {
			return err
		}
		w.block.table = table
	}
	w.block.add(key, value)
	if len(w.block.raw) >= a.o.Block {
		return a.flush()
	}
	return nil
}

// flush writes the block that was gathered.
func (a *Archive) flush() error {
	w := &a.out
	if w.block.count == 0 {
		return nil
	}
	if w.last == nil {
		w.last = make(map[string]string)
	}
	w.last[w.block.table] = hex.EncodeToString(w.block.last)
	if w.f == nil {
		if err := a.openOut(); err != nil {
			return err
		}
	}
	b := w.block.seal()
	if len(b) > maxBlock {
		return fmt.Errorf("append to the archive: an entry of %d bytes is greater than %d", len(b), maxBlock)
	}
	if _, err := w.f.WriteAt(b, w.size); err != nil {
		return err
	}
	w.size += int64(len(b))
	return nil
}

// openOut opens the file that is written to. If that was removed or cut under the owner the next one is made, and
// the next start tells of the loss: a past that is gone keeps nobody from going on.
func (a *Archive) openOut() error {
	w := &a.out
	if w.part.file == nil {
		return a.newFile()
	}
	f, err := a.o.FS.OpenFile(w.part.path, flagsWrite, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return a.newFile()
	} else if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil || info.Size() < w.size {
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
		return a.newFile()
	}
	w.f = f
	return nil
}

// newFile makes the next file.
func (a *Archive) newFile() error {
	w := &a.out
	if err := a.o.FS.Mkdir(a.dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if !a.named {
		if err := a.syncDir(filepath.Dir(a.dir)); err != nil {
			return err
		}
		a.named = true
	}
	path := filepath.Join(a.dir, w.name.String())
	f, err := a.o.FS.OpenFile(path, flagsNew, 0o600)
	if err != nil {
		return err
	}
	w.f, w.part, w.isNew = f, part{file: a.files.add(w.name, path)}, true
	head := newHead(a.id, a.at.Size)
	w.size = int64(len(head))
	_, err = f.WriteAt(head, 0)
	return err
}

func (a *Archive) syncDir(path string) error {
	if a.o.NoSync {
		return nil
	}
	return a.o.FS.SyncDir(path)
}

// Flush makes all that was appended durable, and gives the position that makes it count,
// which the caller stores before it calls [Archive.Publish].
func (a *Archive) Flush() (Position, error) {
	w := &a.out
	if !w.begun {
		return a.at, nil
	}
	if err := a.flush(); err != nil {
		return Position{}, err
	}
	at := a.at
	at.First, at.Last = w.first, w.last
	if w.f == nil {
		return at, nil
	}
	if !a.o.NoSync {
		if err := w.f.Sync(); err != nil {
			a.suspect = w.part.number // what it holds may not be what it shows
			return Position{}, err
		}
	}
	if w.isNew {
		if err := a.syncDir(a.dir); err != nil {
			return Position{}, err
		}
	}
	at.File, at.Size = w.part.number, w.size
	if at.First == 0 {
		at.First = at.File
	}
	return at, nil
}

// Publish makes what Flush gave count: readers that begin from now on see it. The caller
// releases what readers saw before.
func (a *Archive) Publish(at Position) (old *Snapshot) {
	w := &a.out
	if !w.begun {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	old = a.current
	parts := slices.Clone(old.parts)
	switch {
	case w.f == nil:
	case w.isNew:
		parts = append(parts, part{file: w.part.file, limit: at.Size})
	default:
		parts[len(parts)-1].limit = at.Size
	}
	kept := parts[:0]
	for _, p := range parts {
		if p.number >= at.First {
			kept = append(kept, p)
		} else {
			p.dropped.Store(true)
		}
	}
	a.current, a.at = newSnapshot(kept, at), at
	if w.f != nil {
		_ = w.f.Close() // it is synced
	}
	w.f, w.isNew, w.begun, w.part = nil, false, false, part{}
	return old
}

// number gives the number with which a key begins.
func number(key []byte) uint64 {
	if len(key) < 8 {
		return 0
	}
	return binary.BigEndian.Uint64(key)
}
