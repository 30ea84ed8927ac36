package cli

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
	"github.com/orrery-go/orrery/shell/rewind"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/bolt"
)

// restoreReport is what restore --json prints.
type restoreReport struct {
	File    string       `json:"file"`
	From    restorePlace `json:"from"`
	To      restorePlace `json:"to"`
	Commits uint64       `json:"commits"`
	DryRun  bool         `json:"dry_run"`
	Undone  *undoneParts `json:"undone,omitempty"`
}

// undoneParts says what undoing did, and what no journal has.
type undoneParts struct {
	Batches     uint64           `json:"batches"`
	Records     uint64           `json:"records"`     // that are as they were then
	Gone        uint64           `json:"gone"`        // of these, those that are not in FROM
	Interrupted uint64           `json:"interrupted"` // effects that may have begun
	Webhooks    uint64           `json:"webhooks_left_out"`
	RunLogs     uint64           `json:"run_logs_left_out"`
	LeftOut     []store.Omission `json:"left_out,omitempty"` // that could not be read
	lost        uint64
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
		Short: "Make a database of another one, as it was after a batch or at a time",
		Long: `Make a new database file, TO, of a backup, FROM, or of a database file that no daemon
has open. FROM is not changed.

With --to behind what FROM has, what the daemon has kept of its log since the backup
([retention] redo_days) is carried out once more, up to that batch, or up to what was
decided by that time: all that was stored, logs of runs and webhooks too. --redo names the
folder with it, more than once where it is in several; the folder of the log of a database
that cannot be opened is one, too. By default it is FROM.redo.

With --to before what FROM has, what was decided later is undone, as far back as the journal
goes ([retention] journal_days). Nothing else is needed, and records, versions, lists and the
journal are as they were, each batch checked against its digest. What no journal has cannot
be: webhooks that were handled since are lost, later ones and the logs of attempts that were
under way are left out, and so is what was under way in the outside world: each effect that
may have begun by then is interrupted, as after a crash.

TO appears only when it is whole. It is another database from then on: move the log, the
journal and the redo of the old one away before you put it in its place. What is under way
in it is what was under way then, as after a crash: what a tool did since it does again.

Where the redo or the journal does not reach, nothing is made, and the error says how far it
goes.`,
		Example: "  orreryd restore monday.db new.db\n  orreryd restore orrery.db new.db --to 2026-11-24T09:30:00Z\n  orreryd restore monday.db new.db --to 2026-11-24T09:30:00Z --redo orrery.db.redo\n  orreryd restore monday.db new.db --to 40210 --redo orrery.db.redo --dry-run",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 || args[0] == "" || args[1] == "" {
				return usagef("want a backup and a new file, as in: %s FROM TO", cmd.CommandPath())
			}
			return cmp.Or(notURL("FROM", args[0]), notURL("TO", args[1]))
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := restoreTo(to, &o); err != nil {
				return err
			}
			var back *rewind.Rewind
			o.Undo = func(from *bolt.Store, batch uint64, at effects.Time) store.Exporter {
				back = rewind.New(from, rewind.Options{Batch: batch, At: at, Spill: filepath.Dir(args[1])})
				return back
			}
			r, err := bolt.Restore(cmd.Context(), args[0], args[1], o)
			switch {
			case errors.Is(err, bolt.ErrLocked):
				return fmt.Errorf("%w: stop the daemon first, or take a backup of it and use that", err)
			case err != nil:
				return existsHint(err)
			}
			report := restoreReport{
				File: args[1], From: restorePlace(r.From), To: restorePlace(r.To), Commits: r.Commits, DryRun: o.DryRun,
			}
			if back == nil {
				return a.show(report, sayRestored(args[0], args[1], &r, o.DryRun))
			}
			report.Undone = undoneOf(&r, back.Report())
			return a.undid(args[0], &r, &report)
		},
	}
	f := cmd.Flags()
	f.StringVar(&to, "to", "", "the last `batch` that the new file is to have, or the time (RFC 3339) up to which it is to have what was decided")
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

func undoneOf(r *bolt.Restored, back rewind.Report) *undoneParts {
	return &undoneParts{
		Batches: r.Undone, Records: back.Records, Gone: back.Gone, Interrupted: back.Interrupted,
		Webhooks: back.Webhooks, RunLogs: back.RunLogs, LeftOut: r.Copied.Omitted, lost: r.Copied.Left,
	}
}

// undid tells of batches that were undone, and fails if something could not be read.
func (a *app) undid(from string, r *bolt.Restored, report *restoreReport) error {
	u := report.Undone
	made := fmt.Sprintf("%s is %s with %d batches undone", text.Clean(report.File), text.Clean(from), u.Batches)
	if report.DryRun {
		made = fmt.Sprintf("%s has %s; %d batches undone would lead back", text.Clean(from), r.From, u.Batches)
	}
	said := fmt.Sprintf(`%s to %s
records that are as they were: %d, of which %d were gone
effects that may have begun by then, and are interrupted: %d
left out, as no journal has them: %d later webhooks, %d logs of runs; webhooks that were handled since are lost
`, made, r.To, u.Records, u.Gone, u.Interrupted, u.Webhooks, u.RunLogs)
	if err := a.show(report, said); err != nil || u.lost == 0 {
		return err
	}
	for _, o := range u.LeftOut {
		text.Sayf(a.err, "left out: %s\n", text.Clean(o.String()))
	}
	return fmt.Errorf("the database was made, but lacks what could not be read (%d): see orreryd check", u.lost)
}
