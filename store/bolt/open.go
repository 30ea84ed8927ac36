package bolt

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"syscall"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/bolt/internal/kv"
	"github.com/orrery-go/orrery/store/internal/tables"
)

// Format is the version of the file's layout that this package writes. It reads
// older ones and migrates them; a newer one is refused with [ErrNewer].
const Format = 5

// migrations[n] brings a file of format n to n+1, in one transaction.
var migrations = map[int]func(*bbolt.Tx) error{
	1: func(*bbolt.Tx) error { return nil }, // the same tables: since then there may be a log beside the file
	2: func(*bbolt.Tx) error { return nil }, // since then the journal stands in an archive beside the file
	3: func(*bbolt.Tx) error { return nil }, // since then records and the entries of the journal are packed
	4: func(*bbolt.Tx) error { return nil }, // since then entries of the due index have shares; those of before stay without
}

// formatValue names the program and the format, under formatKey.
type formatValue struct {
	Program string `json:"program"`
	Format  int    `json:"format"`
}

const program = "orrery"

var formatKey = []byte("format")

// Open opens the database file at path, and creates it, with mode 0600, where
// there is none. The folder is created too, with mode 0700, where its own parent
// exists; more is not, since that would hide a mistyped path.
//
// It fails with [ErrLocked], [ErrForeign], [ErrNewer], [ErrReadOnly],
// [store.ErrCorrupt], [fs.ErrPermission] or [fs.ErrNotExist], wrapped with the
// path. A damaged file is never changed.
func Open(path string, opts Options) (*Store, error) {
	s, err := open(path, opts)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	return s, nil
}

func open(path string, opts Options) (_ *Store, err error) {
	isNew, err := prepare(path, opts.ReadOnly)
	if err != nil {
		return nil, err
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	if err := inspect(path, opts); err != nil {
		return nil, err
	}
	if isNew { // a new file must not stand beside the log or the journal of one that is missing
		if err := errors.Join(kv.NoLog(logFolder(path), nil), kv.NoPast(journalFolder(path), nil)); err != nil {
			return nil, err
		}
	}
	file := &identity{}
	db, err := openFile(path, opts, file)
	if err != nil {
		if isNew && errors.Is(err, ErrReadOnly) {
			return nil, fmt.Errorf("there is no such file, and none can be made in the folder %s: %w", filepath.Dir(path), err)
		}
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, closeFile(db))
		}
	}()
	if err := ensureFormat(db, logFolder(file.path)); err != nil {
		return nil, err
	}
	if isNew {
		folder := filepath.Dir(target(path))
		if err := errors.Join(syncFolder(folder), syncAbove(folder)); err != nil {
			return nil, fmt.Errorf("make the new file's name durable: %w", err)
		}
	}
	records, err := kv.New(db, kv.Options{
		Folder: logFolder(file.path), Past: pastOptions(file.path), Keep: opts.keep(file.path), NoSync: opts.NoSync, ReadOnly: opts.ReadOnly, Fill: fillPercent, Logger: opts.Logger, Map: int64(opts.mapSize()), Behind: opts.ViewBytes,
		Seal: tables.SealJSON, Unseal: tables.ParseJSON,
	})
	if err != nil {
		return nil, err
	}
	s := newStore(records, path, file, opts)
	if aside := records.PastAside(); len(aside) > 0 && opts.Logger != nil {
		opts.Logger.Warn("this file was closed before its journal was: it is an older copy; what it does not know of the journal is left as it is, for the newer file", "left", aside)
	}
	if err := s.forgetLost(opts.Logger); err != nil {
		return nil, errors.Join(err, s.db.Close())
	}
	return s, nil
}

var pastTables = []string{tables.NameJournal, tables.NameChanges, tables.NameBases}

// pastOptions say which tables a checkpoint brings into the archive.
func pastOptions(path string) kv.Past {
	return kv.Past{
		Folder: journalFolder(path),
		Tables: pastTables,
		Floor: func(tx *kv.Tx) (floor, next uint64, err error) {
			t := tables.NewReadTx(context.Background(), backing{tx})
			epochs, err := t.Epochs()
			if err != nil {
				return 0, 0, nil //nolint:nilerr // what cannot be read keeps the journal, not the checkpoint
			}
			return epochs[0].First, epochs[len(epochs)-1].First, nil
		},
	}
}

// forgetAtOnce is how many entries of an earlier build's journal go in the one commit of an
// Open, which must not be too great for the log. They do not count any more, and who drops epochs
// next goes on with them.
const forgetAtOnce = 2000

// forgetLost begins an epoch where the archive with the journal is not there, or not all
// of it: the file alone is whole, and only its past is gone.
func (s *Store) forgetLost(logger *slog.Logger) error {
	lost := s.db.PastLost()
	if lost == nil || s.db.ReadOnly() {
		return nil
	}
	var first uint64
	err := s.Update(context.Background(), func(t store.Tx) error {
		epochs, err := t.Epochs()
		if err != nil {
			return err
		}
		current := epochs[len(epochs)-1]
		if err := t.BeginEpoch(current.Started); err != nil {
			return err
		}
		if first, err = t.Seq(); err != nil {
			return err
		}
		_, err = t.DropEpochs(current.Number+1, forgetAtOnce)
		return err
	})
	if err == nil {
		_ = s.db.Checkpoint() // so that nobody meets what is left of it; if it fails it is made again, and told
	}
	if err == nil && logger != nil {
		logger.Error("the journal beside the file is not all there; it begins anew", "first", first+1, "error", lost)
	}
	return err
}

// logFolder gives the folder of a file's log: beside the file itself, whatever links lead there.
func logFolder(path string) string { return target(path) + ".log" }

// journalFolder gives the folder of a file's journal, likewise.
func journalFolder(path string) string { return target(path) + ".journal" }

// redoFolder gives the folder of what is kept of a file's log, likewise.
func redoFolder(path string) string { return target(path) + ".redo" }

// target gives the path that links lead to, also where no file is there.
func target(path string) string {
	for range 255 { // as many as Linux follows, and more
		if real, err := filepath.EvalSymlinks(path); err == nil {
			return real
		}
		to, err := os.Readlink(path)
		if err != nil {
			break
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(path), to)
		}
		path = to
	}
	if folder, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		return filepath.Join(folder, filepath.Base(path))
	}
	return path
}

// prepare says plainly why a path cannot be a database, before bbolt says it
// otherwise.
func prepare(path string, readOnly bool) (isNew bool, err error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if readOnly {
			return false, fmt.Errorf("%w, and it is to be opened read-only", fs.ErrNotExist)
		}
		folder := filepath.Dir(path)
		switch err := os.Mkdir(folder, 0o700); {
		case errors.Is(err, fs.ErrNotExist):
			return false, fmt.Errorf("the folder %s does not exist, nor the one above it: make it first: %w", folder, fs.ErrNotExist)
		case err != nil && !errors.Is(err, fs.ErrExist):
			return false, fmt.Errorf("make the folder %s: %w", folder, explain(err))
		}
		return true, nil
	case err != nil:
		return false, err
	case info.IsDir():
		return false, errors.New("it is a directory: want a file")
	case !info.Mode().IsRegular():
		return false, fmt.Errorf("it is not a regular file but %s", info.Mode().Type())
	}
	if readOnly {
		return false, nil
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return false, explain(err)
	}
	return false, f.Close()
}

// explain adds the sentinel that callers decide on to an error of the system,
// and leaves out the path, which the caller names.
func explain(err error) error {
	if at, ok := errors.AsType[*fs.PathError](err); ok {
		err = at.Err
	}
	switch {
	case errors.Is(err, syscall.EROFS):
		return fmt.Errorf("%w: the file system cannot be written to: %w", ErrReadOnly, err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w: no permission to write: %w", ErrReadOnly, err)
	}
	return err
}

// openFile opens the file with bbolt, which panics on some damage.
func openFile(path string, opts Options, file *identity) (db *bbolt.DB, err error) {
	defer func() {
		if p := recover(); p != nil {
			db, err = nil, fmt.Errorf("%w: %v", store.ErrCorrupt, p)
		}
	}()
	db, err = bbolt.Open(path, 0o600, &bbolt.Options{
		Timeout:         opts.lockTimeout(),
		ReadOnly:        opts.ReadOnly,
		NoSync:          opts.NoSync,
		FreelistType:    bbolt.FreelistMapType,
		InitialMmapSize: opts.mapSize(),
		NoStatistics:    true,
		OpenFile:        file.open,
	})
	switch {
	case err == nil:
		readAhead(db, opts.mapSize())
		return db, nil
	case errors.Is(err, berrors.ErrTimeout):
		return nil, ErrLocked
	case errors.Is(err, berrors.ErrInvalid), errors.Is(err, berrors.ErrChecksum), errors.Is(err, berrors.ErrVersionMismatch):
		return nil, fmt.Errorf("%w: %w", store.ErrCorrupt, err)
	}
	return nil, explain(err)
}

func closeFile(db *bbolt.DB) (err error) {
	defer guard("close", &err)
	return db.Close()
}

// ensureFormat lays out an empty file, and brings an older one to this format, unless there
// is the log of another one in the folder.
func ensureFormat(db *bbolt.DB, folder string) (err error) {
	defer guard("read the format", &err)
	var have int
	err = db.View(func(tx *bbolt.Tx) (err error) {
		have, err = readFormat(tx)
		return err
	})
	switch {
	case err != nil:
		return err
	case have > Format:
		return fmt.Errorf("%w: format %d, this one reads up to %d", ErrNewer, have, Format)
	case have == 0 && db.IsReadOnly():
		return fmt.Errorf("%w: it is empty", ErrForeign)
	case have == Format, db.IsReadOnly(): // what was new since is missing, which does no harm
		return nil
	}
	if have <= 1 { // these have no log of their own
		if err := kv.NoLog(folder, nil); err != nil {
			return err
		}
	}
	return db.Update(func(tx *bbolt.Tx) error {
		if have == 0 {
			return create(tx)
		}
		for n := have; n < Format; n++ {
			migrate, ok := migrations[n]
			if !ok {
				return fmt.Errorf("%w: format %d, this one reads from %d", ErrForeign, n, Format)
			}
			if err := migrate(tx); err != nil {
				return fmt.Errorf("migrate from format %d to %d: %w", n, n+1, err)
			}
		}
		return putFormat(tx)
	})
}

// readFormat gives 0 for an empty file.
func readFormat(tx *bbolt.Tx) (int, error) {
	system := tx.Bucket([]byte(tables.NameSystem))
	if system == nil {
		if k, _ := tx.Cursor().First(); k != nil {
			return 0, fmt.Errorf("%w: a bolt file of another program, with a bucket %q", ErrForeign, k)
		}
		return 0, nil
	}
	raw := system.Get(formatKey)
	if raw == nil {
		return 0, fmt.Errorf("%w: a bolt file that names no format", ErrForeign)
	}
	var v formatValue
	if err := tables.ParseJSON(formatKey, raw, &v); err != nil {
		return 0, fmt.Errorf("format: %w", err)
	}
	if v.Program != program || v.Format < 1 {
		return 0, fmt.Errorf("%w: a file of program %q, format %d", ErrForeign, v.Program, v.Format)
	}
	return v.Format, nil
}

func create(tx *bbolt.Tx) error {
	for _, name := range tables.FixedNames() {
		if _, err := tx.CreateBucketIfNotExists([]byte(name)); err != nil {
			return fmt.Errorf("bucket %q: %w", name, err)
		}
	}
	key, value, err := tables.FirstEpoch()
	if err != nil {
		return err
	}
	if err := tx.Bucket([]byte(tables.NameEpochs)).Put(key, value); err != nil {
		return err
	}
	return putFormat(tx)
}

func putFormat(tx *bbolt.Tx) error {
	return putSealed(tx.Bucket([]byte(tables.NameSystem)), formatKey, formatValue{Program: program, Format: Format})
}
