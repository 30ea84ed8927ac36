package cli

import (
	"cmp"
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/orrery-go/orrery/examples/orreryd/internal/config"
	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/bolt"
)

// Usages of --db, for commands that change the file and for those that do not.
const (
	ownFile = "database `file` that no daemon has open (default $ORRERY_DB)"
	anyFile = "database `file` that no daemon has open, or a backup (default $ORRERY_DB)"
)

// notURL refuses the URL of a database on PostgreSQL where a command works on files only. The URL is not quoted: it may have a password.
func notURL(name, file string) error {
	if config.IsDatabaseURL(file) {
		return usagef("%s: is a URL, and no file: this command works on files", name)
	}
	return nil
}

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
	var p place
	return a.addPlaceFlags(&cobra.Command{
		Use:   "check --db FILE | --database URL",
		Short: "Check the structure of a stopped database, of a backup, or of one on PostgreSQL",
		Long: `Read the whole file and check its pages, the checksum of each value, and that all
indexes agree with the records. Nothing is changed. It exits with 1 where
anything is wrong. What lost pipelines have left is told too, and does no harm.
Of a database on PostgreSQL each partition is checked, beside its daemons, as it
is at this moment; one of them with --partition. The pages are PostgreSQL's, and
are not looked at.
Whether the states are what the journal says is another
question: orreryd replay --verify answers it.`,
		Example: "  orreryd check --db orrery.db\n  orreryd check --database postgres://orrery@db.example/orrery",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var c checking
			if err := p.each(cmd.Context(), func(of string, st store.Store) error { return c.check(cmd.Context(), of, st) }); err != nil {
				return err
			}
			return a.showChecked(p.name(), c)
		},
	}, &p)
}

// checking gathers what is wrong in the parts of a database, and what does no harm.
type checking struct{ found, left []string }

// check looks at a file, or at a partition; of begins what is told of one partition of several.
func (c *checking) check(ctx context.Context, of string, st store.Store) error {
	checker, ok := st.(store.Checker)
	if !ok {
		return fmt.Errorf("%scannot be checked: it is a %T", of, st)
	}
	found, err := checker.Check(ctx)
	if err != nil {
		return fmt.Errorf("%s%w", of, err)
	}
	for _, f := range found {
		c.found = append(c.found, of+f.String())
	}
	wrong, left, err := auditPipelines(ctx, st)
	if err != nil {
		return fmt.Errorf("%s%w", of, err)
	}
	for _, w := range wrong {
		c.found = append(c.found, of+w)
	}
	for _, l := range left {
		c.left = append(c.left, of+l)
	}
	return nil
}

// showChecked says what was found; the error says that something was.
func (a *app) showChecked(name string, c checking) error {
	says := ""
	for _, f := range c.found {
		says += text.Clean(f) + "\n"
	}
	says = cmp.Or(says, text.Clean(name)+" is sound\n")
	for _, l := range c.left {
		says += "left over: " + text.Clean(l) + "\n"
	}
	list := c.found
	if list == nil {
		list = []string{}
	}
	if err := a.show(map[string]any{"file": name, "findings": list, "left_over": c.left}, says); err != nil {
		return err
	}
	if len(list) > 0 {
		if len(list) == 1 {
			return fmt.Errorf("%s: 1 thing is wrong", name)
		}
		return fmt.Errorf("%s: %d things are wrong", name, len(list))
	}
	return nil
}
