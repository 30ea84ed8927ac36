package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
	"github.com/orrery-go/orrery/store"
)

// asideReport is one entry of quarantine --json.
type asideReport struct {
	At     effects.Time `json:"at"`
	Kind   effects.Kind `json:"kind"`
	ID     string       `json:"id"`
	N      uint32       `json:"n,omitempty"`
	Reason string       `json:"reason"`
	Raw    []byte       `json:"raw"`
}

func (a *app) quarantineCommand() *cobra.Command {
	var db place
	var most int
	cmd := &cobra.Command{
		Use:   "quarantine --db FILE | --database URL",
		Short: "List what was set aside in a stopped database, a backup or one on PostgreSQL",
		Long: `List the records, webhooks and pending effects that could not be read and were set
aside, oldest first: when, which, and why. With --json the bytes that were left of
each are there, too, in base64. Nothing is changed.`,
		Example: "  orreryd quarantine --db orrery.db\n  orreryd backup --to b.db && orreryd quarantine --db b.db --json",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if most < 1 {
				return usagef("--limit: %d is not at least 1", most)
			}
			return db.read(cmd.Context(), func(st store.Store) error { return a.quarantine(cmd.Context(), db.name(), st, most) })
		},
	}
	cmd.Flags().IntVar(&most, "limit", 1000, "list at most that `number`")
	return a.addPlaceFlags(cmd, &db)
}

func (a *app) quarantine(ctx context.Context, db string, st store.Store, most int) error {
	list := []asideReport{}
	var b strings.Builder
	err := st.View(ctx, func(tx store.ReadTx) error {
		found, err := tx.Quarantine(most)
		for _, q := range found {
			r := asideReport{At: q.At, Kind: q.Kind, ID: q.ID.String(), N: q.N, Reason: q.Reason, Raw: append([]byte(nil), q.Raw...)}
			list = append(list, r)
			text.Sayf(&b, "%s  %s/%s  %d bytes  %s\n", q.At, text.Clean(string(q.Kind)), r.ID, len(r.Raw), text.Clean(q.Reason))
		}
		return err
	})
	if err != nil {
		return err
	}
	if len(list) == 0 {
		text.Sayf(&b, "nothing was set aside in %s\n", text.Clean(db))
	}
	return a.show(map[string]any{"file": db, "quarantine": list}, b.String())
}
