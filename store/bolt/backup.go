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
	"runtime/debug"
)

// Backup implements [store.Store]: it writes a copy of the file as it is at the
// call, with a read transaction; readers and writers go on. It stops soon after
// the context ends.
func (s *Store) Backup(ctx context.Context, w io.Writer) (n int64, err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	btx, err := s.begin(ctx, "backup", false)
	if err != nil {
		return 0, err
	}
	defer s.open.Done()
	defer func() { _ = s.rollback(btx) }()
	out := &copying{ctx: ctx, w: w}
	n, err = btx.WriteTo(out)
	if out.err != nil { // bbolt does not wrap it everywhere
		err = out.err
	}
	if err != nil {
		return n, fmt.Errorf("backup: %w", err)
	}
	return n, nil
}

// copying is a writer that fails once its context has ended, and remembers why
// it failed.
type copying struct {
	ctx context.Context
	w   io.Writer
	err error
}

func (c *copying) Write(b []byte) (n int, err error) {
	if c.ctx.Err() != nil {
		c.err = context.Cause(c.ctx)
		return 0, c.err
	}
	n, c.err = c.w.Write(b)
	return n, c.err
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
