package bolt

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/stream"
)

// Backup implements [store.Store]: it writes a stream of package
// [github.com/orrery-go/orrery/store/stream] with all that was committed before the call;
// readers and writers go on. [ReceiveBackup] makes a database file of it. It stops soon after the
// context ends.
func (s *Store) Backup(ctx context.Context, w io.Writer) (n int64, err error) {
	sum, err := stream.Write(ctx, w, s, stream.Options{})
	if err != nil {
		return sum.Bytes, fmt.Errorf("backup: %w", err)
	}
	return sum.Bytes, nil
}

// Copied tells of a database file that was made of a stream, or of another store.
type Copied struct {
	Seq     uint64           // the last batch in it
	Bytes   int64            // of the file and its journal
	Omitted []store.Omission // what it lacks, since it could not be read; at most [stream.MaxOmitted] of them
	Left    uint64           // how many there were, also beyond that number
}

// BackupFile makes a new database file, with its journal beside it, of all that was committed before the
// call, as [MakeFile] does.
func (s *Store) BackupFile(ctx context.Context, path string) (Copied, error) {
	c, err := makeFile(ctx, path, s)
	if err != nil {
		return c, fmt.Errorf("backup to %s: %w", path, err)
	}
	return c, nil
}

// ReceiveBackup makes a database file of what a [store.Store.Backup] somewhere else gives, as
// [MakeFile] does. progress is called now and then; nil: nobody is told. What a daemon of an earlier
// version sends, a database file, is taken too, once it has been opened.
func ReceiveBackup(ctx context.Context, path string, from io.Reader, progress func(stream.Progress)) (c Copied, err error) {
	buffered := bufio.NewReaderSize(from, 64<<10)
	beginning, _ := buffered.Peek(len(stream.Magic)) // an error comes again
	if len(beginning) == len(stream.Magic) && !stream.Is(beginning) {
		c, err = receiveFile(path, buffered)
	} else {
		var r *stream.Reader
		if r, err = stream.NewReader(buffered); err == nil {
			r.Progress = progress
			c, err = makeFile(ctx, path, r)
		}
	}
	if err != nil {
		return c, fmt.Errorf("backup to %s: %w", path, err)
	}
	return c, nil
}

// receiveFile writes a file that is a database.
func receiveFile(path string, from io.Reader) (c Copied, err error) {
	if err := vacant(path); err != nil {
		return c, err
	}
	c.Bytes, err = writeNew(path, func(f *os.File) (int64, error) {
		n, err := io.Copy(f, from)
		if err != nil {
			return n, err
		}
		s, err := Open(f.Name(), Options{ReadOnly: true})
		if err != nil {
			return n, fmt.Errorf("what came is no whole database: %w", err)
		}
		err = s.View(context.Background(), func(tx store.ReadTx) (err error) {
			c.Seq, err = tx.Seq()
			return err
		})
		return n, errors.Join(err, s.Close())
	})
	return c, err
}

// temporary gives the pattern of a file's names until it is whole, by what makes it.
func temporary(path, by string) string { return "." + filepath.Base(path) + "." + by + "-*" }

// NewFile writes a new file with mode 0600, such as a stream that is kept as it is. The file appears
// under its name only when write has returned nil and all is on the disk. A file that is already
// there stays, and the error wraps [os.ErrExist].
func NewFile(path string, write func(io.Writer) error) error {
	_, err := writeNew(path, func(f *os.File) (int64, error) { return 0, write(f) })
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// writeNew makes a file by a temporary one beside it.
func writeNew(path string, write func(*os.File) (int64, error)) (n int64, err error) {
	if _, err := os.Lstat(path); err == nil {
		return 0, os.ErrExist
	}
	folder := filepath.Dir(path)
	f, err := os.CreateTemp(folder, temporary(path, "new")) // mode 0600
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
	if err := place(f.Name(), path); err != nil {
		return n, err
	}
	return n, syncFolder(folder)
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
