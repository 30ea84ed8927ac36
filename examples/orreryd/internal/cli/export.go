package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
	"github.com/orrery-go/orrery/shell/notify/relay"
	"github.com/orrery-go/orrery/shell/setfile"
)

// exporting is an export under way.
type exporting struct {
	a     *app
	c     *client
	scope scoped
	owned map[uuid.UUID]bool // what the set owns; nil: all is exported
	parts map[part]bool      // subscribers that it owns

	entries []shell.SetEntry
}

// part is a subscriber of a tenant.
type part struct {
	of   scoped
	name string
}

func (a *app) exportCommand() *cobra.Command {
	var s scoped
	var set, folder string
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Print what a tenant has, or a set owns, as files that apply takes",
		Long: `Print what a tenant has as files that "orreryd apply" takes: schedules, jobs, queues,
semaphores, workers, calendars and subscribers of the event bus. With --set it is what
that set owns, of all tenants. With --dir the files are written into a folder, none of which may be there already. Without it the file
is printed, if it is one: several, such as one of each job and one of the rest, need
a folder. Secrets are not in them: what refers to one does so there, too. To apply what
was exported changes nothing.`,
		Example: "  orreryd export --dir orrery/\n  orreryd export --tenant reports > reports.toml\n  orreryd export --set ops --dir ops/",
		Args:    noArgs,
	}
	cmd.RunE = a.withClient(func(ctx context.Context, c *client, _ []string) error {
		e := &exporting{a: a, c: c, scope: s}
		if err := e.all(ctx, set); err != nil {
			return err
		}
		files, err := setfile.Marshal(e.entries)
		if err != nil {
			return err
		}
		if folder != "" {
			return e.write(folder, files)
		}
		switch len(files) {
		case 0:
			text.Sayf(a.err, "orreryd: there is nothing to export\n")
			return nil
		case 1:
			_, err = a.out.Write(files[0].Data)
			return err
		}
		return usagef("these are %d files, %s: one after the other they cannot be applied. Name a folder to write them into, as in --dir orrery/", len(files), namesOf(files))
	})
	cmd.Flags().StringVar(&set, "set", "", "`name` of the set whose things are exported")
	cmd.Flags().StringVar(&folder, "dir", "", "`FOLDER` to write the files into")
	return a.addClientFlags(s.addFlags(a, cmd))
}

// namesOf gives the first names of files.
func namesOf(files []setfile.File) string {
	const most = 3
	var names []string
	for _, f := range files[:min(len(files), most)] {
		names = append(names, f.Name)
	}
	says := strings.Join(names, ", ")
	if len(files) > most {
		says += " and so on"
	}
	return text.Clean(says)
}

// write writes the files into a folder, none of which may be there.
func (e *exporting) write(folder string, files []setfile.File) error {
	if err := os.MkdirAll(folder, 0o750); err != nil {
		return usagef("--dir: %w", err)
	}
	root, err := os.OpenRoot(folder) // whatever tenants are called, nothing is written elsewhere
	if err != nil {
		return usagef("--dir: %w", err)
	}
	defer func() { _ = root.Close() }() // each file is closed by itself
	var says strings.Builder
	for _, f := range files {
		path := filepath.Join(folder, f.Name)
		out, err := root.OpenFile(f.Name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if errors.Is(err, os.ErrExist) {
			return usagef("--dir: %s exists already: export into an empty folder", path)
		}
		if err != nil {
			return usagef("--dir: %w", err)
		}
		_, err = out.Write(f.Data)
		if err := errors.Join(err, out.Close()); err != nil {
			return fmt.Errorf("write %s: %w", path, err)
		}
		fmt.Fprintln(&says, text.Clean(path))
	}
	return e.a.show(map[string]int{"files": len(files)}, says.String())
}

// has reports whether something is exported.
func (e *exporting) has(id uuid.UUID) bool { return e.owned == nil || e.owned[id] }

// add exports a declaration. What has a name that no set may declare is left out, and named.
func (e *exporting) add(entry shell.SetEntry) {
	if !entry.Declarable() {
		kind, _, name := entry.About()
		text.Sayf(e.a.err, "orreryd: warning: %s %q is left out: a set declares names of letters, digits, \".\", \"_\" and \"-\" alone\n", kind, name)
		return
	}
	e.entries = append(e.entries, entry)
}

// all collects what is exported.
func (e *exporting) all(ctx context.Context, set string) error {
	scopes := []scoped{e.scope}
	if set != "" {
		_, owned, _, err := readPages[wire.Declared](ctx, e.c, request{method: http.MethodGet, path: setsPath, query: url.Values{"set": {set}}}, "declared", page{limit: 1000, all: true})
		if err != nil {
			return err
		}
		e.owned, e.parts, scopes = map[uuid.UUID]bool{}, map[part]bool{}, nil
		seen := map[scoped]bool{}
		for _, d := range owned {
			of := scoped{d.Namespace, d.Tenant}
			if d.Kind == "subscriber" {
				e.parts[part{of, d.Name}] = true
			} else {
				e.owned[d.ID] = true
			}
			if !seen[of] {
				seen[of] = true
				scopes = append(scopes, of)
			}
		}
		if len(owned) == 0 {
			return &exitError{exitNotFound, fmt.Errorf("no set %q owns anything here", set)}
		}
	}
	for _, of := range scopes {
		for _, collect := range []func(context.Context, scoped) error{e.calendars, e.queues, e.semaphores, e.workers, e.recurring, e.jobs, e.subscribers} {
			if err := collect(ctx, of); err != nil {
				return err
			}
		}
	}
	return nil
}

// listed reads all of a list of a tenant.
func listed[S any](ctx context.Context, e *exporting, of scoped, path, field string) ([]S, error) {
	_, list, _, err := readPages[S](ctx, e.c, request{method: http.MethodGet, path: path, query: of.query()}, field, page{limit: 1000, all: true})
	return list, err
}

func (e *exporting) calendars(ctx context.Context, of scoped) error {
	list, err := listed[wire.Calendar](ctx, e, of, "/v1/calendars", "calendars")
	for _, c := range list {
		if e.has(c.ID) {
			e.add(shell.SetEntry{Calendar: &c.CalendarSpec})
		}
	}
	return err
}

func (e *exporting) queues(ctx context.Context, of scoped) error {
	list, err := listed[wire.Queue](ctx, e, of, "/v1/queues", "queues")
	for _, q := range list {
		if e.has(q.ID) {
			e.add(shell.SetEntry{Queue: &shell.QueueSpec{Namespace: q.Namespace, Tenant: q.Tenant, Name: q.Name, Config: q.Config}})
		}
	}
	return err
}

func (e *exporting) semaphores(ctx context.Context, of scoped) error {
	list, err := listed[core.Semaphore](ctx, e, of, "/v1/semaphores", "semaphores")
	for _, s := range list {
		if e.has(s.ID) && s.Configured {
			e.add(shell.SetEntry{Semaphore: &shell.SemaphoreSpec{Namespace: s.Namespace, Tenant: s.Tenant, Name: s.Name, Slots: s.Total}})
		}
	}
	return err
}

func (e *exporting) workers(ctx context.Context, of scoped) error {
	list, err := listed[core.Worker](ctx, e, of, "/v1/workers", "workers")
	for _, w := range list {
		if e.has(w.ID) && !w.Draining { // one that drains was deleted
			e.add(shell.SetEntry{Worker: &w.WorkerSpec})
		}
	}
	return err
}

func (e *exporting) recurring(ctx context.Context, of scoped) error {
	list, err := listed[wire.RecurringSummary](ctx, e, of, "/v1/recurring", "recurring_actions")
	if err != nil {
		return err
	}
	for _, s := range list {
		if !e.has(s.ID) {
			continue
		}
		if s.Name == "" {
			text.Sayf(e.a.err, "orreryd: warning: recurring action %s has no name, by which a file would declare it: give it one with: orreryd recurring update %s --name NAME\n", s.ID, s.ID)
			continue
		}
		var r core.RecurringAction
		if _, err := e.c.json(ctx, request{method: http.MethodGet, path: "/v1/recurring/" + s.ID.String(), query: of.query()}, &r); err != nil {
			return err
		}
		if r.PausedByHand() || !r.Enabled && !r.DisabledByDefinition() {
			r.Enabled = true // what its definition says: a pause by hand, and the end, stay with it
		}
		e.add(shell.SetEntry{Recurring: &r.RecurringSpec})
	}
	return nil
}

func (e *exporting) jobs(ctx context.Context, of scoped) error {
	list, err := listed[wire.JobSummary](ctx, e, of, "/v1/jobs", "jobs")
	if err != nil {
		return err
	}
	for _, s := range list {
		if !e.has(core.JobRef(of.namespace, of.tenant, s.ID).ID) {
			continue
		}
		var j core.Job
		if _, err := e.c.json(ctx, request{method: http.MethodGet, path: "/v1/jobs/" + url.PathEscape(s.ID), query: of.query()}, &j); err != nil {
			return err
		}
		e.add(shell.SetEntry{Job: &j.JobSpec})
	}
	return nil
}

// subscribers exports those of a tenant.
func (e *exporting) subscribers(ctx context.Context, of scoped) error {
	list, err := listed[wire.Subscriber](ctx, e, of, subscribersPath, "subscribers")
	if err != nil {
		return err
	}
	for _, s := range list {
		if strings.HasPrefix(s.Name, relay.Subscribers) {
			continue // the daemon's configuration makes those
		}
		if e.owned == nil || e.parts[part{of, s.Name}] {
			e.add(shell.SetEntry{Subscriber: &shell.SubscriberSpec{Namespace: s.Namespace, Tenant: s.Tenant, Subscription: s.Subscription}})
		}
	}
	return nil
}
