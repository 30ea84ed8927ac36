package httpapi

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/core/schedule"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
	"github.com/orrery-go/orrery/shell/internal/plainjson"
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

func maySeeSets(c *call) error {
	return c.token.notBoundToTools("see what sets of files own, which may be for other tools")
}

// setKinds are the kinds of what a set declares, as files call them, in the order of the alphabet.
var setKinds = slices.Sorted(slices.Values(shell.SetKinds()))

// declared says how what sets own is listed.
func (s *Server) declared() listing[core.Declared, wire.Declared] {
	return listing[core.Declared, wire.Declared]{
		params: []string{"set", "kind", "id"},
		may:    maySeeSets,
		find: func(q query, _ *shell.Scope) (source[core.Declared], error) {
			id, err := idOf("id", q.opt("id"))
			set, kind := q.get("set"), q.get("kind")
			if kind != "" && !slices.Contains(setKinds, kind) {
				return source[core.Declared]{}, failf(http.StatusBadRequest, "kind: %q is unknown: use %s", clip(kind), strings.Join(setKinds, ", "))
			}
			from := source[core.Declared]{next: func(ctx context.Context, p shell.Page) ([]core.Declared, string, error) {
				list, next, err := s.engine.Sets().Owned(ctx, set, p)
				nameTies(list)
				return list, next, err
			}}
			from.keep = func(d core.Declared) bool {
				return (kind == "" || shell.SetKindOf(d) == kind) && (q.opt("id") == nil || d.Machine == id)
			}
			return from, err
		},
		scope: func(d core.Declared) (string, string) { return d.Namespace, d.Tenant },
		out:   plain(declaredOf),
		size:  func(core.Declared) int { return 512 },
		small: true,
	}
}

// nameTies puts what has been declared at once, as all is that one set makes, into the order of kinds and names.
func nameTies(list []core.Declared) {
	for rest := list; len(rest) > 0; {
		n := 1
		for n < len(rest) && rest[n].Since == rest[0].Since {
			n++
		}
		slices.SortStableFunc(rest[:n], func(a, b core.Declared) int {
			return cmp.Or(
				cmp.Compare(a.Set, b.Set), cmp.Compare(shell.SetKindOf(a), shell.SetKindOf(b)), cmp.Compare(a.Name, b.Name),
				cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Tenant, b.Tenant),
			)
		})
		rest = rest[n:]
	}
}

// declaredBy gives the set that owns a thing; nil: none does. part is the name of a subscriber where it is the bus.
func (s *Server) declaredBy(ctx context.Context, of effects.Ref, part string) (*wire.DeclaredBy, error) {
	d, err := s.engine.Sets().Owner(ctx, of, part)
	if errors.Is(err, shell.ErrNotFound) {
		return nil, nil
	}
	return &wire.DeclaredBy{Set: d.Set, File: d.File, Since: d.Since}, err
}

// shownWith shows a thing as out does, and with what more adds.
func shownWith[S, Out any](out func(context.Context, S) (Out, error), more func(context.Context, *Out) error) func(context.Context, S) (Out, error) {
	return func(ctx context.Context, v S) (Out, error) {
		o, err := out(ctx, v)
		if err == nil {
			err = more(ctx, &o)
		}
		return o, err
	}
}

func declaredOf(d core.Declared) wire.Declared {
	return wire.Declared{
		Set: d.Set, File: d.File, Kind: shell.SetKindOf(d), ID: d.Machine, Namespace: d.Namespace, Tenant: d.Tenant, Name: d.Name, For: d.For, Since: d.Since,
	}
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
		return setTooLarge(explainEntry(err, ofTheSet))
	}
	if err := s.chargeSet(w.Header(), c.token, r.ContentLength, len(body.Entries)); err != nil {
		return err
	}
	res, err := s.applyEntries(r.Context(), c, r.PathValue("name"), &body)
	if !body.DryRun && !c.once.Repeated() {
		s.applied(res, err)
	}
	return reply(w, setResult(res), err)
}

// setTooLarge says of a set that is larger than a body may be what can be done about it.
func setTooLarge(err error) error {
	f, ok := errors.AsType[*failure](err)
	if !ok {
		f = classifyBody(err)
	}
	if f != nil && f.status == http.StatusRequestEntityTooLarge {
		f.text += " (http.max_body_bytes): split the set in two of other names, or raise the limit"
		return f
	}
	return err
}

// applyEntries applies a set, as far as its token may.
func (s *Server) applyEntries(ctx context.Context, c *call, set string, body *wire.SetRequest) (shell.SetResult, error) {
	entries := make([]shell.SetEntry, len(body.Entries))
	for i := range body.Entries {
		e, err := s.setEntry(ctx, c, &body.Entries[i])
		if err != nil {
			file, kind, name := nameIn(i, &body.Entries[i])
			return shell.SetResult{}, inEntry(c, file, kind, name, err)
		}
		entries[i] = e
	}
	c.aboutEntries(entries)
	res, err := s.engine.Sets().Apply(ctx, set, entries, shell.SetOptions{
		DryRun: body.DryRun, Prune: body.Prune, Most: body.Most, TakeOver: body.TakeOver, For: onBehalfOf(c.token), Within: c.token.scope(nil, nil),
		Visible: func(of shell.Scope) bool {
			if of == (shell.Scope{}) {
				return c.token.unbound()
			}
			return c.token.seesScope(of.Namespace, of.Tenant)
		},
		Check: func(changes []shell.SetChange) error {
			return s.setWithin(ctx, c, body.Entries, entries, changes)
		},
	})
	return res, c.ofTheSet(err)
}

// onBehalfOf says on whose behalf a token applies sets: all that are bound to the same do. Empty: it is bound to nothing.
func onBehalfOf(t *Token) string {
	if len(t.Namespaces) == 0 && len(t.Tenants) == 0 {
		return ""
	}
	said := func(names []string) string {
		if len(names) == 0 {
			return "*"
		}
		return strings.Join(slices.Compact(slices.Sorted(slices.Values(names))), ",")
	}
	of := said(t.Namespaces) + "/" + said(t.Tenants)
	if len(of) > maxBehalf {
		sum := sha256.Sum256([]byte(of))
		of = "tenants " + hex.EncodeToString(sum[:16])
	}
	return of
}

// maxBehalf bounds what is stored with each thing.
const maxBehalf = 600

// maxSetErrors bounds how many refused declarations one answer names.
const maxSetErrors = 20

// ofTheSet words why a set, or declarations of it, are refused.
func (c *call) ofTheSet(err error) error {
	all, ok := errors.AsType[shell.SetErrors](err)
	if of, one := errors.AsType[*shell.SetError](err); !ok && one {
		all = shell.SetErrors{of}
	}
	if len(all) == 0 {
		return err
	}
	var first *failure
	for i, of := range all {
		said := inEntry(c, of.File, of.Kind, of.Name, of.Err)
		f, known := errors.AsType[*failure](said)
		switch {
		case !known:
			return said
		case i == 0:
			first = f
			continue
		case i < maxSetErrors:
			first.text += "; " + f.text
		}
		first.refused = append(first.refused, f.refused...)
	}
	if more := len(all) - maxSetErrors; more > 0 {
		first.text += fmt.Sprintf("; and %d more", more)
	}
	return first
}

// aboutEntries notes what tenant a set is about, if that is one.
func (c *call) aboutEntries(entries []shell.SetEntry) {
	for i, e := range entries {
		_, of, _ := e.About()
		if i == 0 && of != (shell.Scope{}) {
			c.about(of.Namespace, of.Tenant)
		} else if c.of == nil || *c.of != of {
			c.of = nil
			return
		}
	}
}

// placeIn says where a set has something: in which file, and of what kind and name it is.
func placeIn(file, kind, name string) (where string) {
	if file != "" {
		where = clip(file) + ": "
	}
	if kind != "" {
		where += strings.TrimSuffix(kind+" "+clip(name), " ") + ": "
	}
	return where
}

// nameIn says what the i-th entry declares, whose kind or name may be missing.
func nameIn(i int, e *wire.SetEntry) (file, kind, name string) {
	switch {
	case e.Recurring != nil:
		kind, name = "recurring", e.Recurring.Name
	case e.Job != nil:
		kind, name = "job", e.Job.ID
	case e.Queue != nil:
		kind, name = "queue", e.Queue.Name
	case e.Semaphore != nil:
		kind, name = "semaphore", e.Semaphore.Name
	case e.Worker != nil:
		kind, name = "worker", e.Worker.Name
	case e.Calendar != nil:
		kind, name = "calendar", e.Calendar.Name
	case e.Subscriber != nil:
		kind, name = "subscriber", e.Subscriber.Name
	}
	if name == "" {
		return e.File, fmt.Sprintf("entries[%d]", i), ""
	}
	return e.File, kind, name
}

// inEntry words why a declaration is refused. What is no fault of the declaration is said as it is.
func inEntry(c *call, file, kind, name string, err error) error {
	f := *told(c, err)
	if f.status >= http.StatusInternalServerError {
		return err
	}
	if name != "" {
		reason := f.text
		if r, ok := errors.AsType[*shell.Refusal](err); ok {
			if reason = r.Reason; c.token.hidesMachines() {
				reason = withoutIDs(reason)
			}
		}
		f.refused = []wire.SetRefused{{File: file, Kind: kind, Name: name, Reason: reason}}
	}
	f.text, f.quotes = placeIn(file, kind, name)+f.text, true
	return &f
}

func setResult(r shell.SetResult) wire.SetResult {
	out := wire.SetResult{Set: r.Set, Applied: r.Applied, Refused: oneLine(r.Refused), Changes: make([]wire.SetChange, len(r.Changes))}
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
func (s *Server) setWithin(ctx context.Context, c *call, asked []wire.SetEntry, entries []shell.SetEntry, changes []shell.SetChange) error {
	before := map[shell.Scope]want{}
	for i, e := range entries {
		change := &changes[i]
		if change.Action != shell.SetCreates && change.Action != shell.SetUpdates {
			continue
		}
		_, of, _ := e.About()
		wants := s.wantOf(e)
		if !movesTimes(change) {
			wants.schedule = nil
		}
		if change.Action == shell.SetCreates && (e.Recurring != nil || e.Job != nil) {
			wants.schedules = 1
		}
		size, err := sizeOf(&asked[i])
		if err != nil {
			return err
		}
		wants.schedules, wants.bytes = wants.schedules+before[of].schedules, before[of].bytes
		if err := s.within(ctx, c.token, of, wants); err != nil {
			file, kind, name := nameIn(i, &asked[i])
			return inEntry(c, file, kind, name, err)
		}
		before[of] = want{schedules: wants.schedules, bytes: wants.bytes + size}
	}
	return nil
}

// movesTimes reports whether a change gives a schedule other times.
func movesTimes(c *shell.SetChange) bool {
	return c.Action == shell.SetCreates || slices.ContainsFunc(c.Fields, func(f shell.SetField) bool {
		return slices.Contains([]string{"cron_expr", "schedule", "timezone", "dst", "day_match"}, f.Field)
	})
}

// sizeOf is about how many bytes a declaration takes.
func sizeOf(e *wire.SetEntry) (int64, error) {
	b, err := plainjson.Marshal(e)
	return int64(len(b)), err
}

// wantOf says what an entry asks for of its tenant's limits.
func (s *Server) wantOf(e shell.SetEntry) want {
	switch {
	case e.Recurring != nil:
		r := e.Recurring
		return want{asked: *r, schedule: s.cron(schedule.Spec{Expr: r.CronExpr, Zone: r.Timezone, DST: r.DST, DayMatch: r.DayMatch})}
	case e.Job != nil:
		j := e.Job
		return want{asked: *j, schedule: s.cron(schedule.Spec{Expr: j.Schedule, Zone: j.Timezone, DST: j.DST, DayMatch: j.DayMatch})}
	case e.Worker != nil:
		return want{asked: map[string]any{"do": e.Worker.Do}}
	case e.Calendar != nil:
		return want{asked: *e.Calendar}
	case e.Subscriber != nil:
		return want{asked: map[string]any{"do": e.Subscriber.Do}}
	}
	return want{}
}

// setEntry gives the declaration that was asked for, of what the token may declare: as much as it could make by the
// requests for one.
func (s *Server) setEntry(ctx context.Context, c *call, b *wire.SetEntry) (e shell.SetEntry, err error) {
	e.File, e.Was = b.File, b.Was
	switch {
	case b.Recurring != nil:
		e.Recurring, err = s.declaredRecurring(ctx, c, b.Recurring)
	case b.Job != nil:
		e.Job, err = s.declaredJob(ctx, c, b.Job)
	case b.Queue != nil:
		var of shell.Scope
		of, err = c.token.homeOf(b.Queue.Namespace, b.Queue.Tenant)
		e.Queue = &shell.QueueSpec{Namespace: of.Namespace, Tenant: of.Tenant, Name: b.Queue.Name, Config: b.Queue.Config}
	case b.Semaphore != nil:
		var of shell.Scope
		of, err = c.token.homeOf(b.Semaphore.Namespace, b.Semaphore.Tenant)
		e.Semaphore = &shell.SemaphoreSpec{Namespace: of.Namespace, Tenant: of.Tenant, Name: b.Semaphore.Name, Slots: b.Semaphore.Slots}
	case b.Worker != nil:
		e.Worker, err = s.declaredWorker(ctx, c, b.Worker)
	case b.Calendar != nil:
		var of shell.Scope
		of, err = c.token.homeOf(b.Calendar.Namespace, b.Calendar.Tenant)
		e.Calendar = &core.CalendarSpec{
			Namespace: of.Namespace, Tenant: of.Tenant, Name: b.Calendar.Name, Timezone: b.Calendar.Timezone, Description: b.Calendar.Description,
			Exclude: b.Calendar.Exclude, Include: b.Calendar.Include,
		}
	case b.Subscriber != nil:
		e.Subscriber, err = s.declaredSubscriber(ctx, c, b.Subscriber)
	}
	if n := kindsOf(b); err == nil && n != 1 {
		err = failf(http.StatusBadRequest, "give one of recurring, job, queue, semaphore, worker, calendar and subscriber, not %d of them", n)
	}
	return e, err
}

// kindsOf counts the kinds of what an entry declares.
func kindsOf(b *wire.SetEntry) (n int) {
	for _, given := range []bool{b.Recurring != nil, b.Job != nil, b.Queue != nil, b.Semaphore != nil, b.Worker != nil, b.Calendar != nil, b.Subscriber != nil} {
		if given {
			n++
		}
	}
	return n
}

func (s *Server) declaredRecurring(ctx context.Context, c *call, b *wire.RecurringRequest) (*core.RecurringSpec, error) {
	of, err := c.token.homeOf(b.Namespace, b.Tenant)
	if err != nil {
		return nil, err
	}
	asked := *b
	asked.Namespace, asked.Tenant, asked.ActionType = &of.Namespace, &of.Tenant, cmp.Or(b.ActionType, b.Provider)
	spec, err := recurringSpec(&asked)
	if err == nil {
		err = s.permitTemplate(ctx, c.token, of.Namespace, of.Tenant, spec.ActionTemplate)
	}
	return &spec, err
}

func (s *Server) declaredJob(ctx context.Context, c *call, b *wire.SetJob) (*core.JobSpec, error) {
	if err := forJobs(c); err != nil {
		return nil, err
	}
	of, err := c.token.homeOf(b.Namespace, b.Tenant)
	if err != nil {
		return nil, err
	}
	asked := b.JobRequest
	if err := s.podSpecOf(&asked); err != nil {
		return nil, err
	}
	spec := jobSpec(&asked, named{Scope: of, name: b.ID})
	return &spec, s.checkJob(ctx, c.token, spec)
}

func (s *Server) declaredWorker(ctx context.Context, c *call, b *wire.SetWorker) (*core.WorkerSpec, error) {
	of, err := c.token.homeOf(b.Namespace, b.Tenant)
	if err == nil {
		err = s.permitUses(ctx, c.token, of, usesOfWorker(b.Do))
	}
	return &core.WorkerSpec{
		Namespace: of.Namespace, Tenant: of.Tenant, Name: b.Name, Queue: b.Queue, Concurrency: b.Concurrency, PollMS: b.PollMS, Do: b.Do,
	}, err
}

func (s *Server) declaredSubscriber(ctx context.Context, c *call, b *wire.SetSubscriber) (*shell.SubscriberSpec, error) {
	of, err := c.token.homeOf(b.Namespace, b.Tenant)
	if err == nil {
		err = s.permitSubscriber(ctx, c, of, b.Do)
	}
	if err == nil {
		err = s.permitHearing(of)
	}
	return &shell.SubscriberSpec{Namespace: of.Namespace, Tenant: of.Tenant, Subscription: core.Subscription{Name: b.Name, Match: b.Match, Do: b.Do}}, err
}

// ofTheSet says why some fields of what is stored cannot be declared.
var ofTheSet = func() map[string]string {
	out := map[string]string{}
	for kind, reasons := range map[string]map[string]string{
		"recurring": decidedHere, "job": ofTheJob, "calendar": ofTheCalendar, "worker": madeHere,
	} {
		for name, why := range reasons {
			out[kind+"."+name] = why
		}
	}
	for _, name := range []string{"namespace", "tenant"} { // which a set names
		maps.DeleteFunc(out, func(k, _ string) bool { return strings.HasSuffix(k, "."+name) })
	}
	return out
}()
