package cli

import (
	"cmp"
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
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

// addPlaceFlags adds what the commands that read a database have in common.
func (a *app) addPlaceFlags(cmd *cobra.Command, p *place) *cobra.Command {
	p.addTo(a, cmd)
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
anything is wrong. What lost pipelines have left is told too, and does no harm.
Whether the states are what the journal says is another
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
	wrong, left, err := auditPipelines(ctx, st)
	if err != nil {
		return err
	}
	list = append(list, wrong...)
	for _, w := range wrong {
		says += text.Clean(w) + "\n"
	}
	says = cmp.Or(says, text.Clean(db)+" is sound\n")
	for _, l := range left {
		says += "left over: " + text.Clean(l) + "\n"
	}
	err = a.show(map[string]any{"file": db, "findings": list, "left_over": left}, says)
	if err == nil && len(list) > 0 {
		err = fmt.Errorf("%s: %d things are wrong", db, len(list))
	}
	return err
}
