package kv

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/orrery-go/orrery/store/bolt/internal/disk"
	"github.com/orrery-go/orrery/store/bolt/internal/wal"
)

// Keep says for how long the frames of the log stay where a checkpoint has passed them. A
// segment of the log is moved, in one step, into a folder beside the file; from there it may be
// shipped to another one, which may be on another disk: as long as that fails it waits beside the file.
type Keep struct {
	Folder string        // beside the file; "": nothing is kept
	Ship   string        // where what is kept goes, a folder that is there; "": it stays in Folder
	Age    time.Duration // since a segment was written to last; zero: of any age
	Bytes  int64         // of files, in each of the two folders; zero: as many as there are
}

const (
	// shipAgain is how long what failed waits to be tried again.
	shipAgain = 10 * time.Second
	// lookAgain is how often files become too old at the latest.
	lookAgain = time.Minute
	// shipAtLast is how long a Close takes at most to ship what there is. The rest waits beside
	// the file, for the next opening.
	shipAtLast = 10 * time.Second

	shipping = ".part" // the suffix of a file that is being shipped
)

// kept is what is known of the frames that are kept.
type kept struct {
	bytes   int64 // of the files, those that wait to be shipped among them
	waiting int64 // of those that wait
	err     error // of the last attempt; nil: it went well
}

// keepKept ships what was kept, and removes what is beyond the bounds, until the context ends.
func (db *DB) keepKept(ctx context.Context) {
	if db.o.Keep.Folder == "" {
		return
	}
	for pause := lookAgain; ; {
		again := time.NewTimer(pause)
		select {
		case <-db.keeping:
		case <-again.C:
		case <-ctx.Done():
		}
		again.Stop()
		if ctx.Err() != nil {
			return
		}
		if pause = lookAgain; db.tidyKept(ctx) != nil {
			pause = shipAgain
		}
	}
}

// noteNotKept takes down whether a Drop has failed for a segment that cannot be kept.
func (db *DB) noteNotKept(err error) {
	if !errors.Is(err, wal.ErrNotKept) {
		err = nil
	}
	db.mu.Lock()
	db.notKept = err
	db.mu.Unlock()
}

// endKeeping ships once more, when the file is closed, and waits for that; not for ever: a
// disk that is gone may give no answer at all, and nothing here needs one.
func (db *DB) endKeeping() {
	done := make(chan struct{})
	go func() {
		defer close(done)
		<-db.keeper
		if !db.o.ReadOnly && db.Broken() == nil {
			db.keepAtLast()
		}
	}()
	late := time.NewTimer(2 * shipAtLast)
	defer late.Stop()
	select {
	case <-done:
	case <-late.C:
		db.o.Logger.Error("where redo is shipped to does not answer; what is not there yet waits beside the file", "folder", db.o.Keep.Ship)
	}
}

// keepAtLast ships for as long as a Close may take.
func (db *DB) keepAtLast() {
	if db.o.Keep.Folder == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), shipAtLast)
	defer cancel()
	_ = db.tidyKept(ctx) // it is told, and made up for by the next opening
}

// tidyKept is one attempt. What it fails in is tried again by the next one.
func (db *DB) tidyKept(ctx context.Context) error {
	k := keeper{Keep: db.o.Keep, fs: db.o.FS, noSync: db.o.NoSync, now: time.Now()}
	if k.fs == nil {
		k.fs = disk.OS
	}
	if k.isOneFolder() {
		k.Ship = ""
	}
	err := k.ship(ctx)
	if errors.Is(err, context.Canceled) {
		return err
	}
	gone, bytes, perr := k.prune(k.Folder)
	waiting := bytes
	err = errors.Join(err, perr)
	if k.Ship == "" {
		waiting = 0
	} else {
		if gone > 0 {
			db.o.Logger.Error("redo was removed that could not be shipped: it is too old, or too much; no restore gets past this hole", "files", gone, "folder", k.Folder)
		}
		_, shipped, perr := k.prune(k.Ship)
		bytes += shipped
		err = errors.Join(err, perr)
	}
	db.mu.Lock()
	before := db.kept.err
	db.kept = kept{bytes: bytes, waiting: waiting, err: err}
	db.mu.Unlock()
	switch {
	case err != nil && (before == nil || before.Error() != err.Error()):
		db.o.Logger.Error("redo is not kept as it should be; trying again", "error", err, "bytes_waiting", waiting, "in", shipAgain)
	case err == nil && before != nil:
		db.o.Logger.Info("redo is kept again, with all that waited")
	}
	return err
}

// keeper is one attempt to ship and to remove.
type keeper struct {
	Keep
	fs     disk.FS
	noSync bool
	now    time.Time
}

// isOneFolder reports whether redo is to be shipped to where it is, under another path.
func (k *keeper) isOneFolder() bool {
	if k.Ship == "" {
		return false
	}
	from, err := k.fs.Stat(k.Folder)
	if err != nil {
		return false
	}
	to, err := k.fs.Stat(k.Ship)
	return err == nil && os.SameFile(from, to)
}

// list gives the names of the files that were kept, the oldest frames first.
func (k *keeper) list(folder string) (names []string, err error) {
	entries, err := k.fs.ReadDir(folder)
	for _, e := range entries { // by name
		if strings.HasSuffix(e.Name(), wal.KeptSuffix) && !e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names, err
}

// ship copies what is beside the file to where it goes, and removes it then, the oldest first.
func (k *keeper) ship(ctx context.Context) error {
	if k.Ship == "" {
		return nil
	}
	names, err := k.list(k.Folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, name := range names {
		if err == nil {
			err = k.shipOne(ctx, name)
		}
	}
	if err != nil {
		return fmt.Errorf("ship redo to %s: %w", k.Ship, err)
	}
	return nil
}

// shipOne has the copy under its name only once all of it is durable, and removes the file only
// once that name is.
func (k *keeper) shipOne(ctx context.Context, name string) error {
	from, to := filepath.Join(k.Folder, name), filepath.Join(k.Ship, name)
	if _, err := k.fs.Stat(to); errors.Is(err, fs.ErrNotExist) {
		if err := k.copy(ctx, from, to+shipping); err != nil {
			return err
		}
		if err := k.fs.Rename(to+shipping, to); err != nil {
			return err
		}
	} else if err != nil {
		return err
	}
	if err := k.syncDir(k.Ship); err != nil {
		return err
	}
	return k.fs.Remove(from)
}

func (k *keeper) copy(ctx context.Context, from, to string) (err error) {
	in, err := k.fs.OpenFile(from, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	out, err := k.fs.OpenFile(to, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	buf := make([]byte, min(256<<10, info.Size()))
	for off := int64(0); off < info.Size(); off += int64(len(buf)) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		part := buf[:min(int64(len(buf)), info.Size()-off)]
		if n, err := in.ReadAt(part, off); n < len(part) {
			return fmt.Errorf("read %s at offset %d: %w", from, off, err)
		}
		if _, err := out.WriteAt(part, off); err != nil {
			return err
		}
	}
	if k.noSync {
		return nil
	}
	return out.Sync()
}

func (k *keeper) syncDir(folder string) error {
	if k.noSync {
		return nil
	}
	return k.fs.SyncDir(folder)
}

// prune removes from a folder what is too old, and what is too much of the rest, the oldest
// first, so that what stays has no hole. It gives how many files went, and how many bytes stay.
func (k *keeper) prune(folder string) (gone int, bytes int64, err error) {
	names, err := k.list(folder)
	if errors.Is(err, fs.ErrNotExist) && folder != k.Ship {
		return 0, 0, nil
	}
	infos := make([]fs.FileInfo, 0, len(names))
	for _, name := range names {
		info, serr := k.fs.Stat(filepath.Join(folder, name))
		if serr != nil {
			return 0, 0, errors.Join(err, serr)
		}
		infos = append(infos, info)
		bytes += info.Size()
	}
	for i, info := range infos {
		old := k.Age > 0 && !info.ModTime().IsZero() && k.now.Sub(info.ModTime()) > k.Age
		if !old && (k.Bytes == 0 || bytes <= k.Bytes) {
			break
		}
		if err := k.fs.Remove(filepath.Join(folder, names[i])); err != nil {
			return gone, bytes, err
		}
		gone, bytes = gone+1, bytes-info.Size()
	}
	return gone, bytes, err
}
