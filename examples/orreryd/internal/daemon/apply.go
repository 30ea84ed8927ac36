package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/jobfile"
	"github.com/orrery-go/orrery/shell/setfile"
)

// applySet applies the set of files that the daemon is configured with: all of it, or nothing.
func (d *daemon) applySet(ctx context.Context) ([]slog.Attr, error) {
	o := jobfile.Options{}
	if d.checker != nil {
		o.Validate = d.checker.ValidateAnywhere
	}
	entries, err := setfile.Load([]string{d.c.Apply.Dir}, setfile.Options{Jobs: o})
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if e.Job == nil {
			continue
		}
		if err := d.checkDeclaredJob(*e.Job); err != nil {
			return nil, fmt.Errorf("%s: job %s: %w", e.File, e.Job.ID, err)
		}
	}
	res, err := d.engine.Sets().Apply(shell.WithActor(ctx, "files:"+d.c.Apply.Set), d.c.Apply.Set, entries, shell.SetOptions{Prune: d.c.Apply.Prune})
	if err != nil {
		return nil, err
	}
	counts := map[shell.SetAction]int{}
	for _, c := range res.Changes {
		counts[c.Action]++
		if c.Action != shell.SetKeeps || len(c.Notes) > 0 {
			attrs := []any{"set", res.Set, "does", string(c.Action), "kind", c.Kind, "namespace", c.Namespace, "tenant", c.Tenant, "name", c.Name, "file", c.File}
			if len(c.Notes) > 0 {
				attrs = append(attrs, "notes", strings.Join(c.Notes, "; "))
			}
			d.log.Info("declared in files", attrs...)
		}
	}
	return []slog.Attr{
		slog.String("set", res.Set), slog.String("dir", d.c.Apply.Dir), slog.Int("created", counts[shell.SetCreates]), slog.Int("changed", counts[shell.SetUpdates]+counts[shell.SetAdopts]),
		slog.Int("removed", counts[shell.SetRemoves]), slog.Int("unchanged", counts[shell.SetKeeps]),
	}, nil
}

// checkDeclaredJob refuses a job that cannot run here, as the API would.
func (d *daemon) checkDeclaredJob(spec core.JobSpec) error {
	if err := spec.Validate(); err != nil {
		return err
	}
	if d.jobs == nil {
		return errors.New("no runner is configured here: configure a cluster, or local processes")
	}
	if err := d.jobs.MayRun(spec); err != nil {
		return err
	}
	return d.jobs.Check(spec)
}
