package cli

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
	"github.com/orrery-go/orrery/store/bolt"
)

// restoreReport is what restore --json prints.
type restoreReport struct {
	File    string       `json:"file"`
	From    restorePlace `json:"from"`
	To      restorePlace `json:"to"`
	Commits uint64       `json:"commits"`
	DryRun  bool         `json:"dry_run"`
}

type restorePlace struct {
	Batch uint64       `json:"batch"`
	At    effects.Time `json:"at"`
}

func (a *app) restoreCommand() *cobra.Command {
	var to string
	var o bolt.RestoreOptions
	cmd := &cobra.Command{
		Use:   "restore FROM TO",
		Short: "Make a database of a backup, as it was after a batch or at a time",
		Long: `Make a new database file, TO, of a backup, FROM, or of a database file that no daemon
has open. FROM is not changed. With --to, what the daemon has kept of its log since the
backup ([retention] redo_days) is carried out once more, up to that batch, or up to what was
decided by that time: all that was stored, logs of runs and webhooks too. --redo names the
folder with it, more than once where it is in several; the folder of the log of a database
that cannot be opened is one, too. By default it is FROM.redo.

TO appears only when it is whole. It is another database from then on: move the log, the
journal and the redo of the old one away before you put it in its place. What is under way
in it is what was under way then, as after a crash: what a tool did since it does again.

Where the redo does not reach, nothing is made, and the error says how far it goes.`,
		Example: "  orreryd restore monday.db new.db\n  orreryd restore monday.db new.db --to 2026-11-24T09:30:00Z --redo orrery.db.redo\n  orreryd restore monday.db new.db --to 40210 --redo orrery.db.redo --dry-run",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 || args[0] == "" || args[1] == "" {
				return usagef("want a backup and a new file, as in: %s FROM TO", cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := restoreTo(to, &o); err != nil {
				return err
			}
			r, err := bolt.Restore(cmd.Context(), args[0], args[1], o)
			switch {
			case errors.Is(err, bolt.ErrLocked):
				return fmt.Errorf("%w: stop the daemon first, or take a backup of it and use that", err)
			case err != nil:
				return existsHint(err)
			}
			return a.show(restoreReport{
				File: args[1], From: restorePlace(r.From), To: restorePlace(r.To), Commits: r.Commits, DryRun: o.DryRun,
			}, sayRestored(args[0], args[1], &r, o.DryRun))
		},
	}
	f := cmd.Flags()
	f.StringVar(&to, "to", "", "the last `batch` to be carried out, or the time (RFC 3339) up to which what was decided is")
	f.StringArrayVar(&o.Redo, "redo", nil, "`folder` with what was kept of the log; may be repeated (default FROM.redo)")
	f.BoolVar(&o.DryRun, "dry-run", false, "only say what would be made")
	f.BoolVar(&a.json, "json", false, "print JSON, for programs")
	return cmd
}

// restoreTo reads --to.
func restoreTo(to string, o *bolt.RestoreOptions) (err error) {
	switch {
	case to == "" && len(o.Redo) > 0:
		return usagef("--redo: name with --to the batch, or the time, up to which it is to be carried out")
	case to == "":
		return nil
	case strings.Trim(to, "0123456789") == "":
		if o.Batch, err = strconv.ParseUint(to, 10, 64); err != nil || o.Batch == 0 {
			return usagef("--to: %s is no number of a batch: want 1 or more", to)
		}
		return nil
	}
	if o.At, err = effects.ParseTime(to); err != nil {
		return usagef("--to: neither the number of a batch nor a time: %v", err)
	}
	return nil
}

func sayRestored(from, to string, r *bolt.Restored, dry bool) string {
	from, to = text.Clean(from), text.Clean(to)
	switch {
	case dry:
		return fmt.Sprintf("%s has %s; %d commits would lead to %s\n", from, r.From, r.Commits, r.To)
	case r.Commits == 0:
		return fmt.Sprintf("%s is %s anew, with %s\n", to, from, r.To)
	}
	return fmt.Sprintf("%s is %s, with %s, and %d commits behind it: it has %s\n", to, from, r.From, r.Commits, r.To)
}
