package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/core/schedule"
	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
	"github.com/orrery-go/orrery/shell/replay"
	"github.com/orrery-go/orrery/store/bolt"
)

// Usages of --db, for commands that change the file and for those that do not.
const (
	ownFile = "database `file` that no daemon has open (default $ORRERY_DB)"
	anyFile = "database `file` that no daemon has open, or a backup (default $ORRERY_DB)"
)

// addFileFlags adds what the commands about a database file have in common.
func (a *app) addFileFlags(cmd *cobra.Command, db *string, usage string) *cobra.Command {
	cmd.Flags().StringVar(db, "db", a.env("ORRERY_DB"), usage)
	cmd.Flags().Lookup("db").DefValue = "" // the usage names the variable
	cmd.Flags().BoolVar(&a.json, "json", false, "print JSON, for programs")
	return cmd
}

func (a *app) compactCommand() *cobra.Command {
	var db string
	return a.addFileFlags(&cobra.Command{
		Use:   "compact --db FILE",
		Short: "Give back the space that deleted data left in a stopped database",
		Long: `Rewrite the database file without the space that deleted data left. No daemon may
have it open. The new file takes the old one's place in one step; until then the
old one stays as it was. The folder needs room for both.`,
		Example: "  orreryd compact --db orrery.db",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			// Opened read-only, a wrong file is named as such, and an empty one stays empty.
			if err := withStopped(db, func(*bolt.Store) error { return nil }); err != nil {
				return err
			}
			sizes, err := bolt.CompactFile(cmd.Context(), db)
			if err != nil {
				return err
			}
			return a.show(map[string]any{"file": db, "bytes_before": sizes.Before, "bytes_after": sizes.After},
				fmt.Sprintf("%s had %d bytes, and has %d now\n", text.Clean(db), sizes.Before, sizes.After))
		},
	}, &db, ownFile)
}

func (a *app) checkCommand() *cobra.Command {
	var db string
	return a.addFileFlags(&cobra.Command{
		Use:   "check --db FILE",
		Short: "Check the structure of a stopped database or of a backup",
		Long: `Read the whole file and check its pages, the checksum of each value, and that all
indexes agree with the records. Nothing is changed. It exits with 1 where
anything is wrong. Whether the states are what the journal says is another
question: orreryd replay --verify answers it.`,
		Example: "  orreryd check --db orrery.db",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withStopped(db, func(st *bolt.Store) error { return a.check(cmd.Context(), db, st) })
		},
	}, &db, anyFile)
}

func (a *app) check(ctx context.Context, db string, st *bolt.Store) error {
	found, err := st.Check(ctx)
	if err != nil {
		return err
	}
	list, says := make([]string, 0, len(found)), ""
	for _, f := range found {
		list = append(list, f.String())
		says += text.Clean(f.String()) + "\n"
	}
	err = a.show(map[string]any{"file": db, "findings": list}, cmp.Or(says, text.Clean(db)+" is sound\n"))
	if err == nil && len(list) > 0 {
		err = fmt.Errorf("%s: %d things are wrong", db, len(list))
	}
	return err
}

// replayReport is what replay --verify --json prints.
type replayReport struct {
	File        string            `json:"file"`
	FirstBatch  uint64            `json:"first_batch"`
	Batches     uint64            `json:"batches"`
	Events      uint64            `json:"events"`
	Entities    uint64            `json:"entities"`
	Untouched   uint64            `json:"untouched"`
	Cores       map[string]uint64 `json:"cores"` // batches by the version of core that decided them
	TZDBs       map[string]uint64 `json:"tzdbs"`
	Divergences []string          `json:"divergences"`
	Truncated   bool              `json:"truncated"`
}

func (a *app) replayCommand() *cobra.Command {
	var db string
	var verify bool
	var most int
	cmd := &cobra.Command{
		Use:   "replay --verify --db FILE",
		Short: "Fold the journal through the core and compare with what is stored",
		Long: `Fold the journal of a stopped database, or of a backup, through this program's
core, and compare what comes out with what is stored, byte for byte. Nothing is
changed. It prints how many events and entities it saw and every divergence, and
exits with 1 on any.

Run it with a new version on a backup before an upgrade: it names the first
decision that the new version would have made otherwise.`,
		Example: "  orreryd replay --verify --db orrery.db\n  orreryd backup --to b.db && orreryd replay --verify --db b.db",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !verify {
				return usagef("say what to do with the journal: --verify")
			}
			if most < 1 {
				return usagef("--max-divergences: %d is not at least 1", most)
			}
			return withStopped(db, func(st *bolt.Store) error { return a.verify(cmd.Context(), db, st, most) })
		},
	}
	cmd.Flags().BoolVar(&verify, "verify", false, "compare with what is stored")
	cmd.Flags().IntVar(&most, "max-divergences", 100, "end after that `number` of divergences")
	return a.addFileFlags(cmd, &db, anyFile)
}

func (a *app) verify(ctx context.Context, db string, st *bolt.Store, most int) error {
	r, err := replay.Verify(ctx, st, replay.Options{MaxDivergences: most})
	if err != nil {
		return err
	}
	out := replayReport{
		File: db, FirstBatch: r.FirstBatch, Batches: r.Batches, Events: r.Inputs, Entities: r.Entities, Untouched: r.Untouched,
		Cores: r.OtherCores, TZDBs: r.OtherTZDBs, Divergences: []string{}, Truncated: r.Truncated,
	}
	for _, d := range r.Divergences {
		out.Divergences = append(out.Divergences, d.String())
	}
	err = a.show(out, out.text())
	if err == nil && !r.Clean() {
		err = fmt.Errorf("%s: %d divergences", db, len(r.Divergences))
	}
	return err
}

func (r replayReport) text() string {
	var b strings.Builder
	for _, d := range r.Divergences {
		text.Sayf(&b, "%s\n", text.Clean(d))
	}
	if r.Truncated {
		text.Sayf(&b, "… and more: --max-divergences shows them\n")
	}
	others := func(what, mine string, seen map[string]uint64) {
		for v, n := range seen {
			if v != mine {
				text.Sayf(&b, "%d batches were decided with %s %s; this program has %s\n", n, what, text.Clean(v), mine)
			}
		}
	}
	others("core", core.Version, r.Cores)
	others("time zones", schedule.TZVersion, r.TZDBs)
	text.Sayf(&b, "%d events in %d batches, %d entities (%d more untouched), %d divergences\n",
		r.Events, r.Batches, r.Entities, r.Untouched, len(r.Divergences))
	return b.String()
}
