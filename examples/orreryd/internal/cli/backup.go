package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/examples/orreryd/internal/config"
	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
	"github.com/orrery-go/orrery/examples/orreryd/internal/version"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/bolt"
	"github.com/orrery-go/orrery/store/stream"
)

func (a *app) backupCommand() *cobra.Command {
	b := backingUp{app: a}
	cmd := &cobra.Command{
		Use:   "backup --to FILE",
		Short: "Write a consistent copy of a daemon's database to a file",
		Long: `Write a consistent copy of the database to a new file with mode 0600, and its
journal to the folder FILE.journal beside it, while the daemon goes on; or, with
--db, of a database that no daemon has open. The file appears under its name only
when all is whole and on the disk; an existing one is not overwritten.

With --stream the copy is kept as the daemon sends it: one file, compressed, with
checksums, of which "orreryd restore" makes a database. --to - writes the
stream to the standard output.

How far it is is told on the standard error, but not with --db without --stream.
If a part of the database is damaged, the backup is made without it and says so,
and the exit status is 1.

To restore it, or what the database had at a later time, see
  orreryd restore
Check a backup with
  orreryd check --db FILE
  orreryd replay --verify --db FILE`,
		Example: "  orreryd backup --to orrery-monday.db\n  orreryd backup --stream --to orrery-monday.stream\n  orreryd backup --db orrery.db --to orrery-monday.db",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := b.check(); err != nil {
				return err
			}
			if b.db != "" {
				return withStopped(b.db, func(st *bolt.Store) error { return b.stopped(cmd.Context(), st) })
			}
			return a.withClient(func(ctx context.Context, c *client, _ []string) error { return b.live(ctx, c) })(cmd, nil)
		},
	}
	cmd.Flags().StringVar(&b.to, "to", "", "`file` to write; it must not exist; -: the standard output, with --stream")
	cmd.Flags().StringVar(&b.db, "db", "", "database `file` that no daemon has open")
	cmd.Flags().BoolVar(&b.stream, "stream", false, "keep the stream as it is instead of making a database of it")
	return a.addClientFlags(cmd)
}

// backingUp are the flags of a backup.
type backingUp struct {
	*app
	to, db string
	stream bool
}

func (b *backingUp) check() error {
	switch {
	case b.to == "":
		return usagef("--to: missing: name the file to write")
	case b.to == "-" && !b.stream:
		return usagef("--to: - is the standard output, which takes a stream only: add --stream")
	case b.to == "-" && b.json:
		return usagef("--json: the stream goes to the standard output: leave it out, or name a file")
	case config.IsDatabaseURL(b.to):
		return usagef("--to: is a URL, and no file: orreryd copy copies a stopped database to PostgreSQL")
	case b.to != "-" && !isFolder(filepath.Dir(b.to)):
		return usagef("--to: there is no folder %s", filepath.Dir(b.to))
	}
	return nil
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// stopped copies a database that nobody writes to.
func (b *backingUp) stopped(ctx context.Context, st *bolt.Store) error {
	if !b.stream {
		c, err := st.BackupFile(ctx, b.to)
		if err != nil {
			return existsHint(err)
		}
		return b.wrote(c)
	}
	return b.keep(func(w io.Writer) (stream.Summary, error) {
		p := newProgress(b.err)
		defer p.end()
		o := stream.Options{By: version.Read().Version, Core: core.Version, At: effects.TimeOf(time.Now()), Progress: p.tell}
		return stream.Write(ctx, w, st, o)
	})
}

// live copies the database of a running daemon.
func (b *backingUp) live(ctx context.Context, c *client) (err error) {
	if _, err := os.Lstat(b.to); err == nil && b.to != "-" {
		return existsHint(fmt.Errorf("backup to %s: %w", b.to, os.ErrExist))
	}
	resp, err := c.do(ctx, request{method: http.MethodGet, path: "/v1/backup"})
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	p := newProgress(b.err)
	defer p.end()
	if b.stream {
		return b.keep(func(w io.Writer) (stream.Summary, error) {
			sum, err := stream.Verify(ctx, io.TeeReader(resp.Body, w), p.tell)
			if errors.Is(err, stream.ErrForeign) {
				err = fmt.Errorf("the daemon is of an earlier version and sends a database file: leave --stream out: %w", err)
			}
			return sum, err
		})
	}
	copied, err := bolt.ReceiveBackup(ctx, b.to, resp.Body, p.tell)
	if err != nil {
		return existsHint(err)
	}
	p.end()
	return b.wrote(copied)
}

// keep writes a stream to where it is to go.
func (b *backingUp) keep(write func(io.Writer) (stream.Summary, error)) (err error) {
	var sum stream.Summary
	if b.to == "-" {
		if sum, err = write(b.out); err == nil {
			err = b.lacks(sum.Omitted, sum.Left)
		}
		return err
	}
	err = bolt.NewFile(b.to, func(w io.Writer) (err error) {
		sum, err = write(w)
		return err
	})
	if err != nil {
		return existsHint(err)
	}
	return b.wrote(bolt.Copied{Seq: sum.Head.Seq, Bytes: sum.Bytes, Omitted: sum.Omitted, Left: sum.Left})
}

// backupReport is what a backup says.
type backupReport struct {
	File    string           `json:"file"`
	Bytes   int64            `json:"bytes"`
	Batch   uint64           `json:"batch"` // the last one in it
	LeftOut []store.Omission `json:"left_out,omitempty"`
}

func (b *backingUp) wrote(c bolt.Copied) error {
	err := b.show(backupReport{b.to, c.Bytes, c.Seq, c.Omitted}, fmt.Sprintf("wrote %s, %d bytes, up to batch %d\n", text.Clean(b.to), c.Bytes, c.Seq))
	if err == nil {
		err = b.lacks(c.Omitted, c.Left)
	}
	return err
}

// lacks tells what a backup lacks.
func (b *backingUp) lacks(omitted []store.Omission, left uint64) error {
	return b.tellLeftOut("backup", omitted, left)
}

// tellLeftOut tells what a backup or a copy lacks.
func (a *app) tellLeftOut(what string, omitted []store.Omission, left uint64) error {
	if left == 0 {
		return nil
	}
	for _, o := range omitted {
		text.Sayf(a.err, "left out: %s\n", text.Clean(o.String()))
	}
	return fmt.Errorf("the %s was made, but lacks what could not be read (%d): the database is damaged: see orreryd check, orreryd salvage", what, left)
}

func existsHint(err error) error {
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("%w: it is not overwritten: choose another name", err)
	}
	return err
}

// stoppedWait is how long a file may still be in use: nobody is expected there.
const stoppedWait = 100 * time.Millisecond

// withStopped does something with a database file that no daemon may have open.
func withStopped(path string, do func(*bolt.Store) error) (err error) {
	st, err := openStopped(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	return do(st)
}

// openStopped opens a database file that no daemon may have open.
func openStopped(path string) (*bolt.Store, error) {
	if path == "" {
		return nil, usagef("--db: missing: name the database file")
	}
	if err := notURL("--db", path); err != nil {
		return nil, err
	}
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return nil, &exitError{code: exitNotFound, err: fmt.Errorf("--db: there is no file %s", path)}
	}
	st, err := bolt.Open(path, bolt.Options{ReadOnly: true, LockTimeout: stoppedWait})
	if errors.Is(err, bolt.ErrLocked) {
		return nil, fmt.Errorf("%w: stop the daemon first, or take a backup of it and use that", err)
	}
	return st, err
}
