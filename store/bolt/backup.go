package bolt

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// Backup implements [store.Store]: it writes a compact database file, which needs no log
// and has the journal in itself, with all that was committed before the call; readers and writers go on. The file is made
// beside the database first, where it needs room. It stops soon after the context ends.
func (s *Store) Backup(ctx context.Context, w io.Writer) (n int64, err error) {
	if n, err = s.backup(ctx, w); err != nil {
		return n, fmt.Errorf("backup: %w", err)
	}
	return n, nil
}

func (s *Store) backup(ctx context.Context, w io.Writer) (n int64, err error) {
	f, err := os.CreateTemp(filepath.Dir(s.file.path), "."+filepath.Base(s.file.path)+".tmp-*")
	if err != nil {
		return 0, explain(err)
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(f.Name())) }()
	if err := s.copyCompact(ctx, f.Name(), false); err != nil {
		return 0, err
	}
	return io.Copy(&copying{ctx: ctx, w: w}, f)
}

// copying is a writer that fails once its context has ended.
type copying struct {
	ctx context.Context
	w   io.Writer
}

func (c *copying) Write(b []byte) (n int, err error) {
	if c.ctx.Err() != nil {
		return 0, context.Cause(c.ctx)
	}
	return c.w.Write(b)
}

// BackupFile writes a [Store.Backup] to a new file with mode 0600. The file
// appears under its name only when it is whole and on the disk. A file that is
// already there stays, and the error wraps [os.ErrExist].
func (s *Store) BackupFile(ctx context.Context, path string) (n int64, err error) {
	n, err = writeNew(path, func(f *os.File) (int64, error) { return s.Backup(ctx, f) })
	if err != nil {
		return n, fmt.Errorf("backup to %s: %w", path, err)
	}
	return n, nil
}

// ReceiveBackup writes what a [Store.Backup] somewhere else gave, as
// [Store.BackupFile] does, once it has been opened and found to be whole. It
// returns how many bytes came.
func ReceiveBackup(path string, from io.Reader) (n int64, err error) {
	n, err = writeNew(path, func(f *os.File) (int64, error) {
		n, err := io.Copy(f, from)
		if err != nil {
			return n, err
		}
		s, err := Open(f.Name(), Options{ReadOnly: true})
		if err != nil {
			return n, fmt.Errorf("what came is no whole database: %w", err)
		}
		return n, s.Close()
	})
	if err != nil {
		return n, fmt.Errorf("backup to %s: %w", path, err)
	}
	return n, nil
}

// writeNew makes a file by a temporary one beside it.
func writeNew(path string, write func(*os.File) (int64, error)) (n int64, err error) {
	if _, err := os.Lstat(path); err == nil {
		return 0, os.ErrExist
	}
	folder := filepath.Dir(path)
	f, err := os.CreateTemp(folder, "."+filepath.Base(path)+".tmp-*") // mode 0600
	if err != nil {
		return 0, explain(err)
	}
	defer func() {
		if rerr := os.Remove(f.Name()); rerr != nil && !errors.Is(rerr, os.ErrNotExist) {
			err = errors.Join(err, rerr)
		}
	}()
	n, err = write(f)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return n, err
	}
	// A link fails where the name was taken meanwhile; a rename would replace it.
	// Some file systems know no links.
	err = os.Link(f.Name(), path)
	if err != nil && !errors.Is(err, os.ErrExist) {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return n, err
	}
	return n, syncFolder(folder)
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
