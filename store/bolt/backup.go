package bolt

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

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
	err = newDatabase(path, func(tmp string) error {
		f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return explain(err)
		}
		c.Bytes, err = io.Copy(f, from)
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
		s, err := Open(tmp, Options{ReadOnly: true})
		if err != nil {
			return fmt.Errorf("what came is no whole database: %w", err)
		}
		err = s.View(context.Background(), func(tx store.ReadTx) (err error) {
			c.Seq, err = tx.Seq()
			return err
		})
		return errors.Join(err, s.Close())
	})
	return c, err
}
