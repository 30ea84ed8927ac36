package bolt

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"go.etcd.io/bbolt"
)

// What makes a file makes it in a scratch folder beside it, and gives it its name when it is whole. A process
// that is killed leaves that folder; the next one to the same name removes it.

// scratch is a folder beside a file that is being made, in which its parts stand until they are whole.
type scratch struct {
	dir  string
	lock *bbolt.DB // tells others that the maker lives
}

// scratchPrefix is how the names of a file's scratch folders begin.
func scratchPrefix(path string) string { return "." + filepath.Base(path) + ".new-" }

// newScratch makes a scratch folder, and removes those that killed makers of the same file have left.
func newScratch(path string) (*scratch, error) {
	folder, prefix := filepath.Dir(path), scratchPrefix(path)
	if err := removeLeft(folder, prefix); err != nil {
		return nil, err
	}
	for tries := 0; ; tries++ {
		dir, err := os.MkdirTemp(folder, prefix+"*") // mode 0700
		if err != nil {
			return nil, explain(err)
		}
		s := &scratch{dir: dir}
		s.lock, err = lockScratch(dir)
		switch {
		case err == nil:
			return s, nil
		case tries < 10 && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrLocked)):
			// Another one takes the folder for what a killed one left, since the lock was not there yet, and removes it.
		default:
			return nil, errors.Join(err, s.remove())
		}
	}
}

// lockScratch locks a folder with a bbolt file in it, since bbolt knows how to on each system. What has no
// lock yet gets it. [ErrLocked]: another one has the folder.
func lockScratch(dir string) (*bbolt.DB, error) {
	file := &identity{}
	db, err := openFile((&scratch{dir: dir}).lockPath(), Options{LockTimeout: -1, NoSync: true, MapSize: -1}, file)
	if err == nil && file.check(0) != nil { // it was removed between being opened and being locked
		return nil, errors.Join(ErrLocked, closeFile(db))
	}
	return db, err
}

func (s *scratch) lockPath() string { return filepath.Join(s.dir, "lock") }

// file is where the file is made. Nothing stands there at first.
func (s *scratch) file() string { return filepath.Join(s.dir, "file") }

func (s *scratch) remove() error {
	err := s.clear() // while it is locked, or a maker could come in between
	if s.lock == nil {
		return err
	}
	if cerr := closeFile(s.lock); err == nil || cerr != nil {
		return errors.Join(err, cerr)
	}
	return s.clear() // Windows removes no file that is open
}

// clear removes the folder, the lock last: whoever finds none there makes another, and then has the folder.
func (s *scratch) clear() error {
	found, err := os.ReadDir(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range found {
		if path := filepath.Join(s.dir, e.Name()); path != s.lockPath() {
			err = errors.Join(err, os.RemoveAll(path))
		}
	}
	if err == nil {
		err = os.RemoveAll(s.lockPath())
	}
	if err != nil {
		return err
	}
	err = os.Remove(s.dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrExist) { // another one has it, or had
		err = nil
	}
	return err
}

// removeLeft removes the scratch folders that nobody has locked.
func removeLeft(folder, prefix string) error {
	found, err := os.ReadDir(folder)
	if err != nil {
		return explain(err)
	}
	for _, e := range found {
		if !e.IsDir() || !strings.HasPrefix(e.Name(), prefix) {
			continue
		}
		left := &scratch{dir: filepath.Join(folder, e.Name())}
		switch left.lock, err = lockScratch(left.dir); {
		case errors.Is(err, ErrLocked): // another one is at work
			continue
		case err != nil:
			left.lock = nil // it was killed before the lock was whole, or has just ended
		}
		if err := left.remove(); err != nil {
			return fmt.Errorf("remove what a killed process has left: %w", err)
		}
	}
	return nil
}

// newDatabase makes a database file with its journal, if make leaves one beside it. Both appear when they are
// whole and on the disk, the journal first: a file without it would begin another one.
func newDatabase(path string, make func(tmp string) error) (err error) {
	if err := vacant(path); err != nil {
		return err
	}
	w, err := newScratch(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.remove()) }()
	if err := make(w.file()); err != nil {
		return err
	}
	if err := syncDatabase(w.file()); err != nil {
		return fmt.Errorf("bring it to the disk: %w", err)
	}
	if err := vacant(path); err != nil { // meanwhile
		return err
	}
	return publish(w.file(), path)
}

// publish gives a database and its journal their names.
func publish(tmp, path string) error {
	folder, journal := filepath.Dir(path), journalFolder(path)
	switch err := os.Rename(journalFolder(tmp), journal); {
	case errors.Is(err, fs.ErrNotExist): // it has none
		journal = ""
	case err != nil:
		return err
	}
	err := syncFolder(folder)
	if err == nil {
		err = place(tmp, path)
	}
	if err != nil {
		if journal != "" {
			err = errors.Join(err, os.RemoveAll(journal))
		}
		return err
	}
	return syncFolder(folder)
}

// vacant fails unless a database file can be made at a path.
func vacant(path string) error {
	if _, err := os.Lstat(path); err == nil {
		return os.ErrExist
	}
	for _, beside := range []string{logFolder(path), journalFolder(path)} {
		if _, err := os.Lstat(beside); err == nil {
			return fmt.Errorf("the folder %s stands there without the database file, which it may belong to, unless it is of one that was killed at the very end of making that file: move it away, or choose another name: %w", beside, os.ErrExist)
		}
	}
	return nil
}

// NewFile writes a new file with mode 0600, such as a stream that is kept as it is. The file appears
// under its name only when write has returned nil and all is on the disk. A file that is already
// there stays, and the error wraps [os.ErrExist]. A process that is killed leaves a folder named ".NAME.new-…", which the next
// one to the same name removes.
func NewFile(path string, write func(io.Writer) error) error {
	if err := newFile(path, write); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

func newFile(path string, write func(io.Writer) error) (err error) {
	if _, err := os.Lstat(path); err == nil {
		return os.ErrExist
	}
	w, err := newScratch(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.remove()) }()
	f, err := os.OpenFile(w.file(), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return explain(err)
	}
	if err = write(f); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := place(w.file(), path); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(path))
}

// place gives a file its name, unless that is taken. The file may have its earlier name still.
func place(from, to string) error {
	// A link fails where the name was taken meanwhile; a rename would replace it.
	// Some file systems know no links.
	err := os.Link(from, to)
	if err != nil && !errors.Is(err, os.ErrExist) {
		err = os.Rename(from, to)
	}
	return err
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

// syncAbove makes the name of a folder durable, as far as the folder above it may be read:
// what may not be read cannot be synced either, and has been there for longer.
func syncAbove(folder string) error {
	if err := syncFolder(filepath.Dir(folder)); !errors.Is(err, fs.ErrPermission) {
		return err
	}
	return nil
}

// syncFolder makes the names in a folder durable.
func syncFolder(folder string) error {
	if runtime.GOOS == "windows" { // where a folder cannot be synced
		return nil
	}
	d, err := os.Open(folder)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
