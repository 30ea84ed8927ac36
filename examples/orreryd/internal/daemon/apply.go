package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/jobfile"
	"github.com/orrery-go/orrery/shell/setfile"
)

// applySet applies the set of files that the daemon is configured with: all of it, or nothing; where tenants are divided, of each partition for itself.
func (d *daemon) applySet(ctx context.Context) ([]slog.Attr, error) {
	o := jobfile.Options{}
	if d.checker != nil {
		o.Validate = d.checker.ValidateAnywhere
	}
	files, err := setfile.Read([]string{d.c.Apply.Dir}, setfile.Options{Jobs: o, Paths: true, Variables: d.c.Apply.Variables})
	if err != nil {
		return nil, err
	}
	wrong := d.hearsPart(files.Entries())
	entries := d.own(files.Entries())
	for _, e := range entries {
		if e.Job == nil {
			continue
		}
		if err := d.checkDeclaredJob(*e.Job); err != nil {
			wrong = append(wrong, &shell.SetError{Kind: "job", Name: e.Job.ID, File: e.File, Err: err})
		}
	}
	if len(wrong) > 0 {
		return nil, files.Explain(wrong)
	}
	res, err := d.engine.Sets().Apply(shell.WithActor(ctx, "files:"+d.c.Apply.Set), d.c.Apply.Set, entries, shell.SetOptions{Prune: d.c.Apply.Prune})
	if err != nil {
		return d.commandsFor(err), files.Explain(err)
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

// hearsPart refuses, where tenants are divided, the subscribers that hear the events of other tenants: each would hear those of one partition, and
// act in the same.
func (d *daemon) hearsPart(entries []shell.SetEntry) (wrong shell.SetErrors) {
	if !d.hosted() {
		return nil
	}
	for _, e := range entries {
		s := e.Subscriber
		if s == nil {
			continue
		}
		switch of := (shell.Scope{Namespace: s.Namespace, Tenant: s.Tenant}); of {
		case shell.Scope{}, shell.Scope{Namespace: core.NotifyNamespace, Tenant: core.NotifyTenant}:
			wrong = append(wrong, &shell.SetError{Kind: "subscriber", Name: s.Name, File: e.File, Err: fmt.Errorf(
				"tenant: the subscribers of tenant %q in namespace %q hear the events of other tenants, and here only those of one of %d partitions: make a subscriber for each tenant",
				of.Tenant, of.Namespace, d.term.host.layout.Partitions)})
		}
	}
	return wrong
}

// own gives those of the tenants that live in the daemon's partition: each partition declares its own.
func (d *daemon) own(entries []shell.SetEntry) []shell.SetEntry {
	if !d.hosted() {
		return entries
	}
	return slices.DeleteFunc(slices.Clone(entries), func(e shell.SetEntry) bool {
		_, of, _ := e.About()
		return core.Partition(of, d.term.host.layout.Partitions) != d.term.Partition
	})
}

// commandsFor gives the commands that show and do what the set of the daemon is refused for, where there are such: it would
// remove most of what it owns, which only somebody who has looked at it may say.
func (d *daemon) commandsFor(err error) []slog.Attr {
	if _, ok := errors.AsType[*shell.PrunesMostError](err); !ok {
		return nil
	}
	dir, err := filepath.Abs(d.c.Apply.Dir)
	if err != nil {
		dir = d.c.Apply.Dir
	}
	line := func(flags ...string) string {
		return d.hints.line("apply -f", []string{dir}, append([]string{"--set=" + d.c.Apply.Set, "--prune"}, flags...)...)
	}
	return []slog.Attr{slog.String("dry_run", line("--dry-run")), slog.String("apply", line("--most"))}
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
