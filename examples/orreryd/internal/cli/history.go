package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
	"github.com/orrery-go/orrery/shell/replay"
	"github.com/orrery-go/orrery/store"
)

// stepReport is one entry of history --json.
type stepReport struct {
	Batch   uint64              `json:"batch"`
	At      effects.Time        `json:"at"`
	Engine  string              `json:"engine"`
	Inputs  []wire.ChangeInput  `json:"inputs"`
	Changed []wire.ChangedField `json:"changed"`
	Effects []wire.ChangeEffect `json:"effects"`
}

func (a *app) historyCommand() *cobra.Command {
	var db place
	var most int
	cmd := &cobra.Command{
		Use:   "history KIND/ID --db FILE | --database URL",
		Short: "Tell what changed a machine, as far as the journal of a database goes",
		Long: `Tell what changed an action, a run or any other machine, newest first: when, in
which batch, by whose input, which fields of its state became what, and which
outer effects, such as runs of tools, it requested, had answered or withdrew. A
batch without an input of the machine's own changed it by what another machine did.

It walks from the machine's last batch along its own, and reads no others. It
ends where the journal does.`,
		Example: "  orreryd history action/0198a1b2-7c1f-7c3e-9d57-6f2a4b8c9d10 --db orrery.db\n  orreryd backup --to b.db && orreryd history recurring/0198a1b2-7c1f-7c3e-9d57-6f2a4b8c9d11 --db b.db --json",
		Args:    oneArg("KIND/ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ref, err := parseRef(args[0])
			if err != nil {
				return err
			}
			if most < 1 {
				return usagef("--limit: %d is not at least 1", most)
			}
			return db.read(cmd.Context(), func(st store.Store) error { return a.history(cmd.Context(), st, ref, most) })
		},
	}
	cmd.Flags().IntVar(&most, "limit", 100, "tell at most that `number` of changes")
	return a.addPlaceFlags(cmd, &db)
}

// parseRef reads KIND/ID.
func parseRef(s string) (ref effects.Ref, err error) {
	kind, id, ok := strings.Cut(s, "/")
	if ref.ID, err = uuid.Parse(id); !ok || kind == "" || err != nil {
		return ref, usagef("%q is not a kind and an id, as in action/0198a1b2-7c1f-7c3e-9d57-6f2a4b8c9d10", text.Clip(s, 60))
	}
	ref.Kind = effects.Kind(kind)
	return ref, nil
}

func (a *app) history(ctx context.Context, st store.Store, ref effects.Ref, most int) error {
	trail, err := replay.History(ctx, st, ref, replay.HistoryOptions{Limit: most})
	if errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("there is no %s: it never was, or it was deleted", text.Clean(ref.String()))
	}
	if err != nil {
		return err
	}
	list := []stepReport{}
	var b strings.Builder
	for _, s := range trail.Steps {
		r := newStepReport(s)
		list = append(list, r)
		text.Sayf(&b, "batch %d  %s  %s\n", r.Batch, r.At, text.Clean(r.Engine))
		for _, in := range r.Inputs {
			from := ""
			if set := in.BySet.Text(); set != "" {
				from = " (" + text.Clean(set) + ")"
			}
			text.Sayf(&b, "  by %s: %s%s\n", text.Clean(in.Actor), text.Clean(in.Event), from)
		}
		for _, e := range r.Effects {
			text.Sayf(&b, "  %s %s, effect %d\n", e.What, text.Clean(e.Effect), e.Number)
		}
		for _, f := range s.Fields {
			text.Sayf(&b, "  %s: %s → %s\n", text.Clean(f.Name), valueText(f.Before), valueText(f.After))
		}
	}
	switch {
	case trail.Reached:
		text.Sayf(&b, "the journal begins after batch %d, which changed it before\n", trail.Before)
	case trail.Before != 0:
		text.Sayf(&b, "and more, from batch %d back: see --limit\n", trail.Before)
	}
	return a.show(map[string]any{"machine": ref.String(), "steps": list, "before": trail.Before, "journal_ends": trail.Reached}, b.String())
}

// valueText is a value of a field on a line of its own.
func valueText(v json.RawMessage) string {
	if v == nil {
		return "nothing"
	}
	return text.Clip(string(v), 200)
}

func newStepReport(s replay.Step) stepReport {
	r := stepReport{Batch: s.Seq, At: s.At, Engine: s.Instance, Inputs: []wire.ChangeInput{}, Changed: []wire.ChangedField{}, Effects: []wire.ChangeEffect{}}
	for _, in := range s.Inputs {
		r.Inputs = append(r.Inputs, wire.ChangeInput{Actor: in.Actor, BySet: wire.ChangeSetOf(in.BySet), Event: in.Event.EventType(), Data: core.AppendEvent(nil, in.Event)})
	}
	for _, f := range s.Fields {
		r.Changed = append(r.Changed, wire.ChangedField{Field: f.Name, Before: f.Before, After: f.After}) // nil is written as null
	}
	for _, e := range s.Effects {
		r.Effects = append(r.Effects, wire.ChangeEffect{What: e.What, Effect: e.Type(), Number: e.Effect.Number(), Data: e.Effect.AppendJSON(nil)})
	}
	return r
}
