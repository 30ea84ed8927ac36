package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
	"github.com/orrery-go/orrery/store/bolt"
)

func (a *app) backupCommand() *cobra.Command {
	var to, db string
	cmd := &cobra.Command{
		Use:   "backup --to FILE",
		Short: "Write a consistent copy of a daemon's database to a file",
		Long: `Write a consistent copy of the database to a new file with mode 0600, while the
daemon goes on; or, with --db, of a database that no daemon has open. The file
appears under its name only when it is whole and on the disk; an existing one is
not overwritten.

To restore it, or what the database had at a later time, see
  orreryd restore
Check a backup with
  orreryd check --db FILE
  orreryd replay --verify --db FILE`,
		Example: "  orreryd backup --to orrery-monday.db\n  orreryd backup --db orrery.db --to orrery-monday.db",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case to == "":
				return usagef("--to: missing: name the file to write")
			case !isFolder(filepath.Dir(to)):
				return usagef("--to: there is no folder %s", filepath.Dir(to))
			case db != "":
				return a.backupFile(cmd.Context(), db, to)
			}
			return a.withClient(func(ctx context.Context, c *client, _ []string) error {
				return a.backupLive(ctx, c, to)
			})(cmd, nil)
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "`file` to write; it must not exist")
	cmd.Flags().StringVar(&db, "db", "", "database `file` that no daemon has open")
	return a.addClientFlags(cmd)
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// backupFile copies a database that nobody writes to.
func (a *app) backupFile(ctx context.Context, db, to string) error {
	return withStopped(db, func(st *bolt.Store) error {
		n, err := st.BackupFile(ctx, to)
		if err != nil {
			return existsHint(err)
		}
		return a.wroteBackup(to, n)
	})
}

// backupLive copies the database of a running daemon.
func (a *app) backupLive(ctx context.Context, c *client, to string) (err error) {
	if _, err := os.Lstat(to); err == nil {
		return existsHint(fmt.Errorf("backup to %s: %w", to, os.ErrExist))
	}
	resp, err := c.do(ctx, request{method: http.MethodGet, path: "/v1/backup"})
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	n, err := bolt.ReceiveBackup(to, resp.Body)
	if err != nil {
		return existsHint(err)
	}
	return a.wroteBackup(to, n)
}

func (a *app) wroteBackup(to string, n int64) error {
	return a.show(map[string]any{"file": to, "bytes": n}, fmt.Sprintf("wrote %s, %d bytes\n", text.Clean(to), n))
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
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return nil, &exitError{code: exitNotFound, err: fmt.Errorf("--db: there is no file %s", path)}
	}
	st, err := bolt.Open(path, bolt.Options{ReadOnly: true, LockTimeout: stoppedWait})
	if errors.Is(err, bolt.ErrLocked) {
		return nil, fmt.Errorf("%w: stop the daemon first, or take a backup of it and use that", err)
	}
	return st, err
}
