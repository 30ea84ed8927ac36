package httpapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/core/schedule"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

// A set of files may declare anything of the tenants that its token is for. A token that is bound to tools applies
// none: what a set takes over or removes may be for other tools.

func (s *Server) setRoutes() []route {
	return []route{
		{"GET", "/v1/sets", anyToken | lists, s.declared().page(s, "declared")},
		{"POST", "/v1/sets/{name}", writingToken, s.applySet},
	}
}

func mayApplySets(c *call) error {
	return c.token.notBoundToTools("apply sets of files, which may change what is for other tools")
}

// declared says how what sets own is listed.
func (s *Server) declared() listing[core.Declared, wire.Declared] {
	return listing[core.Declared, wire.Declared]{
		params: []string{"set", "kind", "id"},
		may:    func(c *call) error { return c.token.notBoundToTools("see what sets of files own") },
		find: func(q query, _ *shell.Scope) (source[core.Declared], error) {
			id, err := idOf("id", q.opt("id"))
			set, kind := q.get("set"), q.get("kind")
			from := source[core.Declared]{next: func(ctx context.Context, p shell.Page) ([]core.Declared, string, error) {
				return s.engine.Sets().Owned(ctx, set, p)
			}}
			from.keep = func(d core.Declared) bool {
				return (kind == "" || kindOfDeclared(d) == kind) && (q.opt("id") == nil || d.Machine == id)
			}
			return from, err
		},
		scope: func(d core.Declared) (string, string) { return d.Namespace, d.Tenant },
		sees: func(_ context.Context, t *Token, d core.Declared) bool {
			if d.Kind == core.KindBus {
				return t.unbound()
			}
			return t.seesScope(d.Namespace, d.Tenant)
		},
		out:  plain(declaredOf),
		size: func(core.Declared) int { return 512 },
	}
}

func declaredOf(d core.Declared) wire.Declared {
	return wire.Declared{
		Set: d.Set, File: d.File, Kind: kindOfDeclared(d), ID: d.Machine, Namespace: d.Namespace, Tenant: d.Tenant, Name: d.Name, Since: d.Since,
	}
}

// kindOfDeclared is how files call the kind of what is declared.
func kindOfDeclared(d core.Declared) string {
	if d.Kind == core.KindBus {
		return "subscriber"
	}
	return string(d.Kind)
}

// applySet makes what a set declares, or says what that would do.
func (s *Server) applySet(w http.ResponseWriter, r *http.Request, c *call) error {
	if err := mayApplySets(c); err != nil {
		return err
	}
	if _, err := readQuery(r); err != nil {
		return err
	}
	var body wire.SetRequest
	if err := s.decode(w, r, &body, false); err != nil {
		return explainEntry(err, ofTheJob)
	}
	entries := make([]shell.SetEntry, len(body.Entries))
	for i := range body.Entries {
		e, err := s.setEntry(r.Context(), c, &body.Entries[i])
		if err != nil {
			return s.ofEntry(c, i, &body.Entries[i], err)
		}
		entries[i] = e
	}
	set := r.PathValue("name")
	o := shell.SetOptions{DryRun: true, Prune: body.Prune, Most: body.Most, TakeOver: body.TakeOver, Visible: func(of shell.Scope) bool {
		if of == (shell.Scope{}) {
			return c.token.unbound()
		}
		return c.token.seesScope(of.Namespace, of.Tenant)
	}}
	res, err := s.engine.Sets().Apply(r.Context(), set, entries, o)
	if err == nil {
		err = s.setWithin(r.Context(), c, body.Entries, entries, res)
	}
	if err == nil && !body.DryRun {
		o.DryRun = false
		res, err = s.engine.Sets().Apply(r.Context(), set, entries, o)
	}
	if err != nil {
		return setFailure(err)
	}
	return writeJSON(w, http.StatusOK, setResult(res))
}

// ofEntry words why a declaration is refused.
func (s *Server) ofEntry(c *call, i int, e *wire.SetEntry, err error) error {
	f := *told(c, err)
	f.text = fmt.Sprintf("entries[%d]: %s", i, f.text)
	if e.File != "" {
		f.text = fmt.Sprintf("%s: %s", clip(e.File), f.text)
	}
	return &f
}

// setFailure words why a set is refused: with the file and the declaration.
func setFailure(err error) error {
	of, ok := errors.AsType[*shell.SetError](err)
	if !ok {
		return err
	}
	status := http.StatusBadRequest
	if r, refused := errors.AsType[*effects.Refused](of); refused {
		status = refusalStatus(r.Code)
	} else if errors.Is(err, shell.ErrNotFound) {
		status = http.StatusNotFound
	}
	f := failf(status, "%s", oneLine(of.Error()))
	f.quotes = true
	return f
}

func setResult(r shell.SetResult) wire.SetResult {
	out := wire.SetResult{Set: r.Set, Applied: r.Applied, Changes: make([]wire.SetChange, len(r.Changes))}
	for i, c := range r.Changes {
		fields := make([]wire.SetField, len(c.Fields))
		for j, f := range c.Fields {
			fields[j] = wire.SetField(f)
		}
		out.Changes[i] = wire.SetChange{
			Action: string(c.Action), Kind: c.Kind, Namespace: c.Namespace, Tenant: c.Tenant, Name: c.Name, Was: c.Was, ID: c.ID, File: c.File,
			Fields: fields, Notes: c.Notes, NextTimesBefore: c.Before, NextTimes: c.After,
		}
	}
	return out
}

// setWithin refuses what a set would make or change beyond the tenant's limits. What is stored goes on as it is.
func (s *Server) setWithin(ctx context.Context, c *call, asked []wire.SetEntry, entries []shell.SetEntry, res shell.SetResult) error {
	schedules := map[shell.Scope]int64{}
	for i, e := range entries {
		if res.Changes[i].Action == shell.SetKeeps || res.Changes[i].Action == shell.SetAdopts {
			continue
		}
		of, wants := wantOf(s, e)
		if (e.Recurring != nil || e.Job != nil) && res.Changes[i].Action == shell.SetCreates {
			schedules[of]++
			wants.schedules = schedules[of]
		}
		if err := s.within(ctx, c.token, of, wants); err != nil {
			return s.ofEntry(c, i, &asked[i], err)
		}
	}
	return nil
}

// wantOf says what a declaration asks for of its tenant's limits.
func wantOf(s *Server, e shell.SetEntry) (of shell.Scope, w want) {
	switch {
	case e.Recurring != nil:
		r := *e.Recurring
		return shell.Scope{Namespace: r.Namespace, Tenant: r.Tenant}, want{asked: r, schedule: s.cron(schedule.Spec{Expr: r.CronExpr, Zone: r.Timezone, DST: r.DST, DayMatch: r.DayMatch})}
	case e.Job != nil:
		j := *e.Job
		w = want{asked: j}
		if j.Schedule != "" {
			w.schedule = s.cron(schedule.Spec{Expr: j.Schedule, Zone: j.Timezone, DST: j.DST, DayMatch: j.DayMatch})
		}
		return shell.Scope{Namespace: j.Namespace, Tenant: j.Tenant}, w
	case e.Worker != nil:
		return shell.Scope{Namespace: e.Worker.Namespace, Tenant: e.Worker.Tenant}, want{asked: map[string]any{"do": e.Worker.Do}}
	case e.Calendar != nil:
		return shell.Scope{Namespace: e.Calendar.Namespace, Tenant: e.Calendar.Tenant}, want{asked: *e.Calendar}
	case e.Queue != nil:
		return shell.Scope{Namespace: e.Queue.Namespace, Tenant: e.Queue.Tenant}, want{}
	case e.Semaphore != nil:
		return shell.Scope{Namespace: e.Semaphore.Namespace, Tenant: e.Semaphore.Tenant}, want{}
	}
	return shell.Scope{}, want{}
}

// setEntry gives the declaration that was asked for, of what the token may declare.
func (s *Server) setEntry(ctx context.Context, c *call, b *wire.SetEntry) (e shell.SetEntry, err error) {
	e.File, e.Was = b.File, b.Was
	switch {
	case b.Recurring != nil:
		of, err := c.token.homeOf(b.Recurring.Namespace, b.Recurring.Tenant)
		if err != nil {
			return e, err
		}
		asked := *b.Recurring
		asked.Namespace, asked.Tenant, asked.ActionType = &of.Namespace, &of.Tenant, cmp.Or(asked.ActionType, asked.Provider)
		spec, err := recurringSpec(&asked)
		if err == nil {
			err = s.permitTemplate(ctx, c.token, of.Namespace, of.Tenant, spec.ActionTemplate)
		}
		e.Recurring = &spec
		return e, err
	case b.Job != nil:
		if err := forJobs(c); err != nil {
			return e, err
		}
		of, err := c.token.homeOf(b.Job.Namespace, b.Job.Tenant)
		if err != nil {
			return e, err
		}
		asked := b.Job.JobRequest
		if err := s.podSpecOf(&asked); err != nil {
			return e, err
		}
		spec := jobSpec(&asked, named{Scope: of, name: b.Job.ID})
		e.Job = &spec
		return e, s.checkJob(ctx, c.token, spec)
	case b.Queue != nil:
		of, err := c.token.homeOf(b.Queue.Namespace, b.Queue.Tenant)
		e.Queue = &shell.QueueSpec{Namespace: of.Namespace, Tenant: of.Tenant, Name: b.Queue.Name, Config: b.Queue.Config}
		return e, err
	case b.Semaphore != nil:
		of, err := c.token.homeOf(b.Semaphore.Namespace, b.Semaphore.Tenant)
		e.Semaphore = &shell.SemaphoreSpec{Namespace: of.Namespace, Tenant: of.Tenant, Name: b.Semaphore.Name, Slots: b.Semaphore.Slots}
		return e, err
	case b.Worker != nil:
		of, err := c.token.homeOf(b.Worker.Namespace, b.Worker.Tenant)
		e.Worker = &core.WorkerSpec{
			Namespace: of.Namespace, Tenant: of.Tenant, Name: b.Worker.Name,
			Queue: b.Worker.Queue, Concurrency: b.Worker.Concurrency, PollMS: b.Worker.PollMS, Do: b.Worker.Do,
		}
		if err == nil {
			err = s.permitUses(ctx, c.token, of, usesOfWorker(b.Worker.Do))
		}
		return e, err
	case b.Calendar != nil:
		of, err := c.token.homeOf(b.Calendar.Namespace, b.Calendar.Tenant)
		e.Calendar = &core.CalendarSpec{
			Namespace: of.Namespace, Tenant: of.Tenant, Name: b.Calendar.Name, Timezone: b.Calendar.Timezone, Description: b.Calendar.Description,
			Exclude: b.Calendar.Exclude, Include: b.Calendar.Include,
		}
		return e, err
	case b.Subscriber != nil:
		if !c.token.unbound() {
			return e, failf(http.StatusForbidden, "subscriber: token: %q is bound to a tenant: subscribers of the bus belong to none", c.token.Name)
		}
		e.Subscriber = &core.Subscription{Name: b.Subscriber.Name, Match: b.Subscriber.Match, Do: b.Subscriber.Do}
		if p := b.Subscriber.Do.StartPipeline; p != nil {
			err = s.permitUses(ctx, c.token, shell.Scope{}, usesOf("do.start_pipeline.definition", p.Definition, nil))
		}
		return e, err
	}
	return e, failf(http.StatusBadRequest, "give one of recurring, job, queue, semaphore, worker, calendar and subscriber")
}
