package shell

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/engine"
	"github.com/orrery-go/orrery/shell/internal/plainjson"
	"github.com/orrery-go/orrery/store"
)

// setPlan is what applying a set comes to, as things are in one transaction.
type setPlan struct {
	s        Sets
	actor    string
	set      string
	o        SetOptions
	alone    bool                 // the declarations are looked at by themselves, as if nothing else existed, see [CheckSet]
	supposed map[effects.Ref]bool // calendars that are taken for there
	now      core.Time
	batch    *core.Batch
	stored   core.Loader          // what there is before the plan
	moved    map[effects.Ref]bool // calendars that the plan changes
	entries  int                  // how many declarations there are
	changes  []SetChange          // of the declarations, in their order, and then of what is not declared any more
	steps    []int                // indexes of the changes, in the order in which they are carried out

	wrong    map[int]*SetError    // of the changes that are refused, by their index
	whole    error                // refuses the set as a whole, for what it would remove
	declared map[effects.Ref]bool // the records of whose it is what is declared

	overtaken error
}

// refusal says why the plan cannot be carried out; nil: it can. That too much would be removed comes before what keeps
// one of the things from being removed: whoever names the wrong folder must not be told to empty a queue first.
func (p *setPlan) refusal() error {
	declared := false
	for i := range p.wrong { // order-free: is there one?
		declared = declared || i < p.entries
	}
	if len(p.wrong) > 0 && (declared || p.whole == nil) {
		return inOrder(p.wrong)
	}
	return p.whole
}

// refuse notes that the change of that index is refused. What is no refusal, such as a fault of the store, ends the plan.
func (p *setPlan) refuse(i int, c *SetChange, err error) error {
	of := &SetError{Kind: c.Kind, Name: c.Name, File: c.File, Err: err}
	if r, refused := errors.AsType[*Refusal](err); refused {
		c.Action, c.Fields, c.Notes, c.Before, c.After, c.input = SetRefuses, nil, []string{r.Reason}, nil, nil, nil
		p.wrong[i] = of
		return nil
	}
	return of
}

// make plans the declarations: each in its order on a batch that is never stored.
func (p *setPlan) make(ctx context.Context, entries []SetEntry) error {
	p.now = p.s.e.now()
	return p.s.e.store.View(ctx, func(tx store.ReadTx) error {
		if err := p.declare(storedStates{tx}, entries); err != nil {
			return err
		}
		if err := p.leave(tx, entries); err != nil {
			return err
		}
		return p.noteReferences(entries)
	})
}

// declare plans all declarations, those first that others name.
func (p *setPlan) declare(l core.Loader, entries []SetEntry) error {
	p.batch, p.stored, p.moved, p.entries = core.NewBatch(l, core.Clock{Now: p.now}, 1), l, map[effects.Ref]bool{}, len(entries)
	p.changes, p.wrong = make([]SetChange, len(entries)), map[int]*SetError{}
	p.declared = make(map[effects.Ref]bool, len(entries))
	if p.alone {
		p.suppose(entries)
	}
	order := make([]int, len(entries))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		ka, _, _ := entries[a].About()
		kb, _, _ := entries[b].About()
		return cmp.Compare(rank(ka), rank(kb))
	})
	for _, i := range order {
		if err := p.plan(i, &entries[i]); err != nil {
			return err
		}
	}
	return nil
}

// plan plans one declaration, or notes why it is refused.
func (p *setPlan) plan(i int, e *SetEntry) error {
	kind, of, name := e.About()
	p.changes[i] = SetChange{Kind: kind, Namespace: of.Namespace, Tenant: of.Tenant, Name: name, File: e.File}
	c := &p.changes[i]
	if err := p.entry(i, e, c, of); err != nil {
		if err := p.refuse(i, c, err); err != nil {
			return err
		}
	}
	if !c.Ref.IsZero() {
		p.own(c.Ref, e)
	}
	return nil
}

// own notes that a machine is declared: it is not among what is removed.
func (p *setPlan) own(ref effects.Ref, e *SetEntry) {
	p.declared[core.DeclaredRef(ref, e.part())] = true
}

// part is the name of a subscriber, whose machine is the bus; else empty.
func (e *SetEntry) part() string {
	if e.Subscriber == nil {
		return ""
	}
	return e.Subscriber.Name
}

// entry plans what a declaration changes. The error is why it is refused.
func (p *setPlan) entry(i int, e *SetEntry, c *SetChange, of Scope) error {
	ev, err := p.event(e, c)
	if err != nil {
		return err
	}
	if p.noteSupposed(e, c); ev == nil {
		c.Action = SetKeeps
		return nil
	}
	if !p.alone {
		if err := p.s.checkHere(e, of); err != nil {
			return err
		}
	}
	before, err := p.batch.State(c.Ref)
	if err != nil {
		return err
	}
	revision := core.RevisionBefore(before, ev)
	owner, owned, err := p.owner(c.Ref, e)
	if err != nil {
		return err
	}
	in := core.Input{To: c.Ref, Actor: p.actor, Event: ev, BySet: &core.Declaration{Set: p.set, File: e.File, For: p.o.For, TakeOver: p.o.TakeOver}}
	after, err := p.try(in)
	if err != nil {
		return err
	}
	switch {
	case revision == core.NoRevision:
		c.Action = SetCreates
	case drains(before):
		c.Action = SetCreates
		c.Notes = append(c.Notes, "it was deleted, and drains: it stays")
	case core.RevisionBefore(after, ev) != revision && !sameJSON(core.Definition(before, ev), core.Definition(after, ev)):
		c.Action = SetUpdates
	case !owned || owner.Set != p.set || owner.For != p.o.For:
		c.Action = SetAdopts
	default:
		c.Action = SetKeeps
	}
	if owned && owner.Set != p.set {
		c.Notes = append(c.Notes, fmt.Sprintf("taken over from the set %q", owner.Set))
	}
	if owned && owner.Set == p.set && owner.For != p.o.For {
		c.Notes = append(c.Notes, "the set was applied on behalf of "+onBehalf(owner.For)+" until now")
	}
	if c.Action == SetUpdates {
		c.Fields = changedFields(core.Definition(before, ev), core.Definition(after, ev))
	}
	if err := p.noteTimes(e, c, before, after); err != nil {
		return err
	}
	if c.Action != SetKeeps || owner.File != e.File {
		c.input, c.revision = &in, revision
		p.steps = append(p.steps, i)
	}
	return nil
}

// drains reports whether a machine is as good as gone: a worker that was deleted, and has items in hand.
func drains(s core.State) bool {
	w, ok := s.(core.Worker)
	return ok && w.Draining
}

// event gives the event that makes of what there is what the declaration says, and names the machine.
func (p *setPlan) event(e *SetEntry, c *SetChange) (core.Event, error) {
	at := func(ref effects.Ref) (core.State, error) {
		c.Ref, c.ID = ref, ref.ID
		return p.batch.State(ref)
	}
	switch {
	case e.Recurring != nil:
		return p.recurring(e, c)
	case e.Job != nil:
		s, err := at(core.JobRef(e.Job.Namespace, e.Job.Tenant, e.Job.ID))
		if s == nil && e.Job.Schedule != "" && p.over(e.Job.EndsAt, c) {
			return nil, err
		}
		j, _ := s.(core.Job)
		c.notePaused(j.Paused)
		return core.JobApply{Spec: *e.Job}, err
	case e.Queue != nil:
		q := e.Queue
		s, err := at(core.QueueRef(q.Namespace, q.Tenant, q.Name))
		if s == nil {
			return core.QueueCreate{Namespace: q.Namespace, Tenant: q.Tenant, Name: q.Name, Config: q.Config}, err
		}
		was, _ := s.(core.Queue)
		c.notePaused(was.Paused)
		return core.QueueConfigure{Config: q.Config}, err
	case e.Semaphore != nil:
		m := e.Semaphore
		_, err := at(core.SemaphoreRef(m.Namespace, m.Tenant, m.Name))
		if m.Slots == 0 {
			return nil, invalid(c.Ref, "apply", "slots: 0 slots are no semaphore: give one at least")
		}
		return core.SemaphoreConfigure{Namespace: m.Namespace, Tenant: m.Tenant, Name: m.Name, Slots: m.Slots}, err
	case e.Worker != nil:
		s, err := at(core.WorkerRef(e.Worker.Namespace, e.Worker.Tenant, e.Worker.Name))
		w, _ := s.(core.Worker)
		c.notePaused(w.Paused)
		return core.WorkerConfigure{Spec: *e.Worker}, err
	case e.Calendar != nil:
		spec := *e.Calendar
		s, err := at(core.CalendarRef(spec.Namespace, spec.Tenant, spec.Name))
		if s == nil {
			return core.CalendarCreate{Spec: spec}, err
		}
		zone := cmp.Or(spec.Timezone, "UTC")
		return core.CalendarUpdate{Patch: core.CalendarPatch{Timezone: &zone, Description: &spec.Description, Exclude: &spec.Exclude, Include: &spec.Include}}, err
	default:
		of := e.Subscriber
		_, err := at(core.BusOf(of.Namespace, of.Tenant))
		return core.BusSubscribe{Namespace: of.Namespace, Tenant: of.Tenant, Subscriber: of.Subscription}, err
	}
}

// notePaused notes that a pause by hand stays, if there is one.
func (c *SetChange) notePaused(paused bool) {
	if paused {
		c.Notes = append(c.Notes, "it is paused, and stays so")
	}
}

// over reports whether a schedule that is to be made has ended already, and notes that it is not made.
func (p *setPlan) over(ends core.Time, c *SetChange) bool {
	if ends.IsZero() || ends.After(p.now) {
		return false
	}
	c.Ref, c.ID = effects.Ref{}, uuid.Nil
	c.Notes = append(c.Notes, fmt.Sprintf("it has ended: ends_at %s is past, so it is not made", ends))
	return true
}

// recurring finds the recurring action by its name, or by the one that it had.
func (p *setPlan) recurring(e *SetEntry, c *SetChange) (core.Event, error) {
	spec := *e.Recurring
	had, err := p.named(spec, spec.Name)
	if err != nil {
		return nil, err
	}
	if e.Was != "" && e.Was != spec.Name {
		former, err := p.named(spec, e.Was)
		switch {
		case err != nil:
			return nil, err
		case had != nil && former != nil:
			p.own(had.Ref(), e)
			p.own(former.Ref(), e)
			return nil, invalid(had.Ref(), "apply", "was: both %q and %q exist: remove one of them, or take out \"was\"", e.Was, spec.Name)
		case former != nil:
			had, c.Was = former, e.Was
		case had == nil && !p.alone:
			c.Notes = append(c.Notes, fmt.Sprintf("was: there is no recurring action %q in %s/%s, so this is a new one", e.Was, spec.Namespace, spec.Tenant))
		}
	}
	if had == nil && p.over(spec.EndsAt, c) {
		return nil, nil
	}
	if had == nil {
		if spec.ID, err = uuid.NewV7(); err != nil {
			return nil, err
		}
		c.Ref, c.ID = recurringRef(spec.ID), spec.ID
		if !spec.Enabled {
			c.Notes = append(c.Notes, "it is disabled")
		}
		return core.RecurringCreate{Spec: spec}, nil
	}
	c.Ref, c.ID = had.Ref(), had.ID
	patch := core.PatchTo(spec)
	switch {
	case had.PausedByHand():
		patch.Enabled = nil
		c.Notes = append(c.Notes, fmt.Sprintf("it is %s, and stays so", had.DisabledReason))
	case !had.Enabled && spec.Enabled && !had.DisabledByDefinition() && sameTimes(had.RecurringSpec, spec):
		patch.Enabled = nil
		c.Notes = append(c.Notes, fmt.Sprintf("it is disabled: %s", had.DisabledReason))
	}
	return core.RecurringUpdate{Patch: patch}, nil
}

// sameTimes reports whether two definitions end alike, so that one that has ended does not begin anew.
func sameTimes(a, b core.RecurringSpec) bool {
	return a.EndsAt == b.EndsAt && a.MaxExecutions == b.MaxExecutions && a.CronExpr == b.CronExpr
}

// named gives the recurring action of the tenant of a definition that has a name; nil: there is none.
func (p *setPlan) named(of core.RecurringSpec, name string) (*core.RecurringAction, error) {
	s, err := p.batch.State(core.NamedRef(core.KindRecurring, of.Namespace, of.Tenant, name))
	if err != nil {
		return nil, err
	}
	n, ok := s.(core.Named)
	if !ok {
		return nil, nil
	}
	if s, err = p.batch.State(effects.Ref{Kind: core.KindRecurring, ID: n.Holder}); err != nil {
		return nil, err
	}
	r, ok := s.(core.RecurringAction)
	if !ok || r.Name != name {
		return nil, nil
	}
	return &r, nil
}

// owner reads whose it is.
func (p *setPlan) owner(ref effects.Ref, e *SetEntry) (core.Declared, bool, error) {
	s, err := p.batch.State(core.DeclaredRef(ref, e.part()))
	d, ok := s.(core.Declared)
	return d, ok, err
}

// try applies an input to the batch of the plan, and gives what it has made.
func (p *setPlan) try(in core.Input) (core.State, error) {
	in, err := core.Given(in)
	if err != nil {
		return nil, err
	}
	res, err := p.batch.Apply(in)
	if err == nil && res.Stopped() {
		err = res.Refused
	}
	if err != nil {
		return nil, err
	}
	return p.batch.State(in.To)
}

// carryOut carries the plan out, which comes to res: all of it or nothing. done is what was done, which is what another one has come to
// if the same set was applied meanwhile under the same key. again: others have changed meanwhile what it was made for.
func (p *setPlan) carryOut(ctx context.Context, res SetResult) (done SetResult, again bool, err error) {
	if len(p.steps) == 0 {
		return res, false, nil
	}
	if o := OnceFrom(ctx); o != nil {
		note, err := plainjson.Marshal(res)
		if err != nil {
			return res, false, err
		}
		o.Note(note)
	}
	req := engine.Request{As: "set.apply", Many: &engine.Many{All: true, If: func(i int, s core.State) error {
		c := &p.changes[p.steps[i]]
		return core.CheckRevision(s, c.Ref, c.input.Event, c.revision, nil)
	}}}
	for _, i := range p.steps {
		req.Inputs = append(req.Inputs, *p.changes[i].input)
		req.Many.Want = append(req.Many.Want, effects.Ref{})
	}
	rep, err := p.s.e.loop.Ask(ctx, req)
	if err == nil {
		err = rep.Err
	}
	if entry, ok := errors.AsType[*EntryError](err); ok {
		c := p.changes[p.steps[entry.Index]]
		p.overtaken = &SetError{Kind: c.Kind, Name: c.Name, File: c.File, Err: entry.Err}
		if r, refused := errors.AsType[*Refusal](entry.Err); refused && r.Code != effects.CodeLimited {
			return res, true, nil // the plan was taken whole: something has changed between the two
		}
		return res, false, p.overtaken
	}
	if note := OnceFrom(ctx).Noted(); err == nil && note != nil {
		res, err = noted(note)
	}
	return res, false, err
}

// storedStates gives a batch the states that a transaction reads.
type storedStates struct{ tx store.ReadTx }

// Load: see [core.Loader].
func (l storedStates) Load(ref effects.Ref) (core.State, error) {
	rec, err := l.tx.Get(ref.Kind, ref.ID)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	s, err := core.DecodeStateOf(ref, rec.State)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", store.ErrCorrupt, err)
	}
	return s, nil
}

// Scan: see [core.Loader].
func (l storedStates) Scan(kind effects.Kind, term string, after core.Cursor, limit int) ([]core.Cursor, error) {
	found, err := l.tx.Scan(kind, term, store.Cursor(after), false, limit)
	out := make([]core.Cursor, len(found))
	for i, c := range found {
		out[i] = core.Cursor(c)
	}
	return out, err
}
