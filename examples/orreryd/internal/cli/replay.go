package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/core/schedule"
	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
	"github.com/orrery-go/orrery/shell/replay"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/bolt"
)

// replayReport is what replay --verify --json prints.
type replayReport struct {
	File        string            `json:"file"` // with --live the daemon's URL
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

// replaying is what a replay is asked for by flags.
type replaying struct {
	place
	verify bool
	live   bool
	most   int
	memory int64 // MiB
	tmp    string
}

func (a *app) replayCommand() *cobra.Command {
	var r replaying
	cmd := &cobra.Command{
		Use:   "replay --verify --db FILE | --database URL | --live",
		Short: "Fold the journal through the core and compare with what is stored",
		Long: `Fold the journal of a stopped database, or of a backup, through this program's
core, and compare what comes out with what is stored, byte for byte; or that of a
database on PostgreSQL, beside its daemon, as it is at this moment. Nothing is changed. It prints how many events and entities it saw and every divergence, and
exits with 1 on any.

With --live it is a running daemon's database: the daemon sends a backup, which
goes to a temporary file and is removed at the end. The daemon goes on, and its
own file is not held up.

States that --memory has no room for go to a temporary file. Temporary files are
in --tmp, which needs room for the backup and for the states that the journal
touches.

Run it with a new version on a backup before an upgrade: it names the first
decision that the new version would have made otherwise.`,
		Example: "  orreryd replay --verify --db orrery.db\n  orreryd replay --verify --live\n  orreryd backup --to b.db && orreryd replay --verify --db b.db",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := r.check(r.isNamed()); err != nil {
				return err
			}
			if r.live {
				return a.withClient(func(ctx context.Context, c *client, _ []string) error {
					return a.replayLive(ctx, c, r)
				})(cmd, nil)
			}
			return r.read(cmd.Context(), func(st store.Store) error { return a.verify(cmd.Context(), r.name(), st, r) })
		},
	}
	f := cmd.Flags()
	f.BoolVar(&r.verify, "verify", false, "compare with what is stored")
	f.IntVar(&r.most, "max-divergences", 100, "end after that `number` of divergences")
	f.BoolVar(&r.live, "live", false, "the database of a running daemon, by a backup that it sends")
	f.Int64Var(&r.memory, "memory", replay.DefaultMemory>>20, "about how many `MiB` of states are kept in memory, from 1 to 1048576; the program takes two to three times as much")
	f.StringVar(&r.tmp, "tmp", "", "`folder` of temporary files (default the system's)")
	r.addTo(a, cmd)
	return a.addClientFlags(cmd)
}

// check says what is wrong with the flags; named tells whether --db was given.
func (r replaying) check(named bool) error {
	switch {
	case !r.verify:
		return usagef("say what to do with the journal: --verify")
	case r.most < 1:
		return usagef("--max-divergences: %d is not at least 1", r.most)
	case r.memory < 1 || r.memory > 1<<20:
		return usagef("--memory: %d MiB is not between 1 MiB and 1 TiB", r.memory)
	case r.tmp != "" && !isFolder(r.tmp):
		return usagef("--tmp: there is no folder %s", r.tmp)
	case r.live && named:
		return usagef("--live: a running daemon is asked for its database: leave --db and --database out")
	}
	return nil
}

// replayLive has the daemon send a backup, and replays that.
func (a *app) replayLive(ctx context.Context, c *client, r replaying) (err error) {
	folder, err := os.MkdirTemp(r.tmp, "orrery-replay-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	path := filepath.Join(folder, "backup.db")
	resp, err := c.do(ctx, request{method: http.MethodGet, path: "/v1/backup"})
	if err != nil {
		return err
	}
	copied, err := bolt.ReceiveBackup(ctx, path, resp.Body, nil)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return err
	}
	b := backingUp{app: a}
	return errors.Join(withStopped(path, func(st *bolt.Store) error { return a.verify(ctx, c.base.String(), st, r) }), b.lacks(copied.Omitted, copied.Left))
}

func (a *app) verify(ctx context.Context, name string, st store.Store, o replaying) error {
	r, err := replay.Verify(ctx, st, replay.Options{MaxDivergences: o.most, Memory: o.memory << 20, Spill: o.tmp})
	if err != nil {
		return err
	}
	out := replayReport{
		File: name, FirstBatch: r.FirstBatch, Batches: r.Batches, Events: r.Inputs, Entities: r.Entities, Untouched: r.Untouched,
		Cores: r.OtherCores, TZDBs: r.OtherTZDBs, Divergences: []string{}, Truncated: r.Truncated,
	}
	for _, d := range r.Divergences {
		out.Divergences = append(out.Divergences, d.String())
	}
	err = a.show(out, out.text())
	if err == nil && !r.Clean() {
		err = fmt.Errorf("%s: %d divergences", name, len(r.Divergences))
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
