package shell

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/engine"
	"github.com/orrery-go/orrery/store"
)

// MaxSetEntries bounds what one set may declare: it is decided and stored in one transaction.
const MaxSetEntries = 5000

// Sets are the calls for sets of declarations (G17): what files say that there shall be, of any number of
// tenants. A set owns what it has made, see [core.Declaration].
type Sets struct{ e *Engine }

// Sets gives the calls for sets of declarations.
func (e *Engine) Sets() Sets { return Sets{e} }

// SetEntry is one declaration of a set: exactly one of its pointers is set.
type SetEntry struct {
	File string // where it stands, for people; it is told by who may not change it
	Was  string // the name that it had before, of a recurring action; empty: the same

	// Recurring has a name, which makes it the one that it is; its id is not looked at.
	Recurring  *core.RecurringSpec
	Job        *core.JobSpec
	Queue      *QueueSpec
	Semaphore  *SemaphoreSpec
	Worker     *core.WorkerSpec
	Calendar   *core.CalendarSpec
	Subscriber *core.Subscription
}

// QueueSpec says which queue has which configuration.
type QueueSpec struct {
	Namespace string           `json:"namespace"`
	Tenant    string           `json:"tenant"`
	Name      string           `json:"name"`
	Config    core.QueueConfig `json:"config"`
}

// SemaphoreSpec says which semaphore has how many slots.
type SemaphoreSpec struct {
	Namespace string `json:"namespace"`
	Tenant    string `json:"tenant"`
	Name      string `json:"name"`
	Slots     uint32 `json:"slots"`
}

// SetOptions say what applying a set may do.
type SetOptions struct {
	DryRun   bool // only say what it would do
	Prune    bool // remove what the set owns, and does not declare any more
	Most     bool // although that is more than a third of what it owns
	TakeOver bool // change what other sets own, which is then this one's
	// For is on whose behalf the set is applied, where several apply sets that may have the same name, such as
	// "shop/acme"; empty: of nobody in particular. What was declared for another one is not removed; what is
	// declared again is this one's then.
	For string
	// Within is the only tenant that the caller sees, so that what sets of this name own of others is not even read; nil: several.
	Within *Scope
	// Visible says of which tenants the caller may see and remove what the set owns; nil: of all. What belongs to no
	// tenant is asked for with the zero Scope.
	Visible func(Scope) bool
	// Check, if there is one, refuses what applying the set comes to, before it is carried out: the changes of
	// what is declared stand first, in the order of the declarations. It is asked again if others were quicker,
	// so that nothing is carried out which it has not seen.
	Check func([]SetChange) error
}

// SetAction is what applying a set does to one thing.
type SetAction string

// What applying a set does to one thing.
const (
	SetCreates SetAction = "create"
	SetUpdates SetAction = "update"
	SetAdopts  SetAction = "adopt" // as it is: it belonged to no set, or to another one
	SetRemoves SetAction = "remove"
	SetKeeps   SetAction = "none"
	SetLeaves  SetAction = "leave"   // the set owns it, and does not declare it any more: without Prune it stays
	SetRefuses SetAction = "refused" // of a dry run: applying the set is refused for it, the notes say why
)

// SetChange says what applying a set does to one thing, and why.
type SetChange struct {
	Action    SetAction   `json:"action"`
	Kind      string      `json:"kind"` // "recurring", "job", "queue", "semaphore", "worker", "calendar" or "subscriber"
	Namespace string      `json:"namespace,omitempty"`
	Tenant    string      `json:"tenant,omitempty"`
	Name      string      `json:"name"`
	Was       string      `json:"was,omitempty"` // the name that it has had
	ID        uuid.UUID   `json:"id"`            // of the machine: of a subscriber that of the bus
	File      string      `json:"file,omitempty"`
	Fields    []SetField  `json:"fields,omitempty"` // that change
	Notes     []string    `json:"notes,omitempty"`  // what else is to be known, such as a pause that stays
	Before    []core.Time `json:"next_times_before,omitempty"`
	After     []core.Time `json:"next_times,omitempty"` // at most [core.NextTimesShown], if they are others than before
	Ref       effects.Ref `json:"-"`
	input     *core.Input // nil: nothing is to be done
	revision  string      // of what the input is planned for
}

// SetField is a field of a definition that changes. A value that it has not is empty.
type SetField struct {
	Field  string          `json:"field"` // such as "policy.retry.max_attempts"
	Before json.RawMessage `json:"before,omitempty"`
	After  json.RawMessage `json:"after,omitempty"`
}

// SetResult says what applying a set has done, or would do.
type SetResult struct {
	Set     string `json:"set"`
	Applied bool   `json:"applied"` // false: it was a dry run
	// Refused says of a dry run why applying the set would be refused as things are; empty: it would not.
	Refused string      `json:"refused,omitempty"`
	Changes []SetChange `json:"changes"` // what is declared, in its order, and then what is not any more
}

// Changed reports whether there is anything to do, or was.
func (r SetResult) Changed() bool {
	return slices.ContainsFunc(r.Changes, func(c SetChange) bool {
		return c.Action != SetKeeps && c.Action != SetLeaves && c.Action != SetRefuses
	})
}

// SetError says which declaration of a set is refused, and why. It wraps a [*Refusal] where the reason is one.
type SetError struct {
	Kind, Name, File string // empty: it is about the set as a whole
	Err              error
}

// Error names the file and the declaration.
func (e *SetError) Error() string {
	if e.Kind == "" && e.File == "" {
		return e.Err.Error()
	}
	where := e.Kind + " " + e.Name
	if e.File != "" {
		where = e.File + ": " + where
	}
	return where + ": " + e.Err.Error()
}

// SetErrors are all declarations of a set that are refused.
type SetErrors []*SetError

// Error has a line for each.
func (es SetErrors) Error() string {
	lines := make([]string, len(es))
	for i, e := range es {
		lines[i] = e.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap gives each of them.
func (es SetErrors) Unwrap() []error {
	out := make([]error, len(es))
	for i, e := range es {
		out[i] = e
	}
	return out
}

// wrongSet refuses a set as a whole.
func wrongSet(code effects.Code, format string, args ...any) error {
	return &SetError{Err: &effects.Refused{Event: "apply", Code: code, Reason: fmt.Sprintf(format, args...)}}
}

// wrongEntry refuses a declaration for what is wrong with it.
func wrongEntry(kind, name, file, format string, args ...any) *SetError {
	return &SetError{Kind: kind, Name: name, File: file, Err: &effects.Refused{Event: "apply", Code: effects.CodeInvalid, Reason: fmt.Sprintf(format, args...)}}
}

// Unwrap gives the reason.
func (e *SetError) Unwrap() error { return e.Err }

// maxSetTries is how often a set is planned anew that others have overtaken.
const maxSetTries = 50

// Apply makes what a set declares: it creates what does not exist, changes what is otherwise, and leaves
// all else as it is, so that a second time does nothing. All of it is decided and stored in one transaction, or
// nothing is. A pause by hand stays. What runs ends by itself, also if what made it is removed.
//
// The error is a [*SetError] where the set as a whole is refused, and a [SetErrors] where declarations are; nothing is changed then.
// A dry run lists what is refused instead. It is safe for concurrent use: of two sets that are applied at once each is made whole.
func (s Sets) Apply(ctx context.Context, set string, entries []SetEntry, o SetOptions) (SetResult, error) {
	if !core.IsGivenName(set) {
		return SetResult{}, wrongSet(effects.CodeInvalid, "set: %q is no name: use letters, digits, \".\", \"_\" and \"-\", at most %d of them", set, core.MaxGivenName)
	}
	if len(entries) > MaxSetEntries {
		return SetResult{}, tooManyEntries(len(entries))
	}
	entries = slices.Clone(entries)
	for i := range entries {
		entries[i].own()
	}
	if wrong := checkForms(entries); len(wrong) > 0 {
		return SetResult{}, inOrder(wrong)
	}
	var stale error
	for range maxSetTries {
		p := &setPlan{s: s, actor: ActorFrom(ctx), set: set, o: o}
		if err := p.make(ctx, entries); err != nil {
			return SetResult{}, err
		}
		refused := p.refusal()
		if refused != nil && !o.DryRun {
			return SetResult{}, refused
		}
		res := SetResult{Set: set, Changes: p.changes}
		if refused != nil {
			res.Refused = refused.Error()
		}
		if o.Check != nil {
			if err := o.Check(p.changes); err != nil {
				return SetResult{}, err
			}
		}
		if o.DryRun {
			return res, nil
		}
		again, err := p.carryOut(ctx)
		if err != nil {
			return SetResult{}, err
		}
		if !again {
			res.Applied = true
			return res, nil
		}
		stale = p.overtaken
	}
	return SetResult{}, wrongSet(effects.CodeConflict, "set: others change what it declares at the same time: try again: %s", stale)
}

// Owned lists what a set owns, or, of an empty name, what all sets do: newest first.
func (s Sets) Owned(ctx context.Context, set string, p Page) ([]core.Declared, string, error) {
	of := filter{kind: core.KindDeclared}
	if set != "" {
		of.also, of.token = []string{core.SetTerm(set)}, core.SetTerm(set)
	}
	return list(ctx, s.e, of, p, func(d core.Declared) bool { return set == "" || d.Set == set })
}

// Owner reads which set owns a machine; part is the name of a subscriber where the machine is the bus, and else empty.
// [ErrNotFound]: none does.
func (s Sets) Owner(ctx context.Context, of effects.Ref, part string) (core.Declared, error) {
	d, err := readAs[core.Declared](ctx, s.e, core.DeclaredRef(of, part))
	if err == nil && part == "" {
		_, err = readAs[core.State](ctx, s.e, of) // what was set aside belongs to nobody
	}
	return d, err
}

// own lets a declaration share nothing with the caller that the engine keeps.
func (e *SetEntry) own() {
	if e.Recurring == nil {
		return
	}
	r := *e.Recurring
	t := &r.ActionTemplate
	t.Payload, t.Metadata = slices.Clone(t.Payload), maps.Clone(t.Metadata)
	r.Labels, r.Calendars = maps.Clone(r.Labels), slices.Clone(r.Calendars)
	e.Recurring = &r
}

// checkHere refuses a declaration that names a tool or a channel which the engine has not.
func (s Sets) checkHere(e *SetEntry, of Scope) error {
	switch {
	case e.Recurring != nil:
		ref, t := recurringRef(e.Recurring.ID), e.Recurring.ActionTemplate
		if err := s.e.checkTool(ref, of, "provider", t.Provider, "payload", t.Payload); err != nil {
			return err
		}
		return s.e.checkChannel(ref, "apply", e.Recurring.Alerts)
	case e.Job != nil:
		return s.e.Jobs().Check(*e.Job)
	}
	return nil
}

// check refuses a declaration that is none.
func (e SetEntry) check() *SetError {
	kind, _, name := e.name()
	fail := func(format string, args ...any) *SetError {
		return wrongEntry(kind, cmp.Or(name, "?"), e.File, format, args...)
	}
	set := 0
	for _, there := range []bool{e.Recurring != nil, e.Job != nil, e.Queue != nil, e.Semaphore != nil, e.Worker != nil, e.Calendar != nil, e.Subscriber != nil} {
		if there {
			set++
		}
	}
	switch {
	case set != 1:
		return fail("a declaration is of one kind, not of %d", set)
	case name == "":
		return fail("name: must not be empty: a set knows what it declares by its name")
	case e.Was != "" && e.Recurring == nil:
		return fail("was: a %s cannot be renamed, since its id is made from its name: declare it under the new name, and remove the old one", kind)
	case e.Was != "" && !core.IsGivenName(e.Was):
		return fail("was: %q is no name", e.Was)
	}
	return nil
}

// checkForms says by their index which declarations are none, and which declare what another one does.
func checkForms(entries []SetEntry) map[int]*SetError {
	type key struct {
		kind, name string
		of         Scope
	}
	wrong := map[int]*SetError{}
	seen := make(map[key]string, len(entries))
	for i, e := range entries {
		if err := e.check(); err != nil {
			wrong[i] = err
			continue
		}
		kind, of, name := e.name()
		names := []string{name}
		if e.Was != "" && e.Was != name {
			names = append(names, e.Was)
		}
		for _, n := range names {
			if file, twice := seen[key{kind, n, of}]; twice && wrong[i] == nil {
				wrong[i] = wrongEntry(kind, name, e.File, "name: %q of %s/%s is declared twice, the first time in %s", n, of.Namespace, of.Tenant, cmp.Or(file, "the same set"))
			}
			seen[key{kind, n, of}] = e.File
		}
	}
	return wrong
}

// inOrder gives errors in the order of the declarations.
func inOrder(wrong map[int]*SetError) (out SetErrors) {
	for _, i := range slices.Sorted(maps.Keys(wrong)) {
		out = append(out, wrong[i])
	}
	return out
}

// name says what a declaration is about.
func (e SetEntry) name() (kind string, of Scope, name string) {
	switch {
	case e.Recurring != nil:
		return "recurring", Scope{Namespace: e.Recurring.Namespace, Tenant: e.Recurring.Tenant}, e.Recurring.Name
	case e.Job != nil:
		return "job", Scope{Namespace: e.Job.Namespace, Tenant: e.Job.Tenant}, e.Job.ID
	case e.Queue != nil:
		return "queue", Scope{Namespace: e.Queue.Namespace, Tenant: e.Queue.Tenant}, e.Queue.Name
	case e.Semaphore != nil:
		return "semaphore", Scope{Namespace: e.Semaphore.Namespace, Tenant: e.Semaphore.Tenant}, e.Semaphore.Name
	case e.Worker != nil:
		return "worker", Scope{Namespace: e.Worker.Namespace, Tenant: e.Worker.Tenant}, e.Worker.Name
	case e.Calendar != nil:
		return "calendar", Scope{Namespace: e.Calendar.Namespace, Tenant: e.Calendar.Tenant}, e.Calendar.Name
	case e.Subscriber != nil:
		return "subscriber", Scope{}, e.Subscriber.Name
	}
	return "", Scope{}, ""
}

// rank is the order in which declarations are made: what others name comes first. What is removed goes in the
// opposite order.
func rank(kind string) int {
	return slices.Index([]string{"calendar", "queue", "semaphore", "worker", "job", "recurring", "subscriber"}, kind)
}

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
	changes  []SetChange
	steps    []int // indexes of the changes, in the order in which they are carried out

	wrong    map[int]*SetError    // of the changes that are refused, by their index
	whole    error                // refuses the set as a whole, for what it would remove
	declared map[effects.Ref]bool // the records of whose it is what is declared

	overtaken error
}

// refusal says why the plan cannot be carried out; nil: it can.
func (p *setPlan) refusal() error {
	if len(p.wrong) > 0 {
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
		return p.leave(tx, entries)
	})
}

// declare plans all declarations, those first that others name.
func (p *setPlan) declare(l core.Loader, entries []SetEntry) error {
	p.batch = core.NewBatch(l, core.Clock{Now: p.now}, 1)
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
		ka, _, _ := entries[a].name()
		kb, _, _ := entries[b].name()
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
	kind, of, name := e.name()
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
	if c.Action == SetCreates || c.Action == SetUpdates {
		if c.Before, c.After, err = p.times(before, after); err != nil {
			return err
		}
	}
	if c.Action != SetKeeps || owner.File != e.File {
		c.input, c.revision = &in, revision
		p.steps = append(p.steps, i)
	}
	return nil
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
		if j, ok := s.(core.Job); ok && j.Paused {
			c.Notes = append(c.Notes, "it is paused, and stays so")
		}
		return core.JobApply{Spec: *e.Job}, err
	case e.Queue != nil:
		q := e.Queue
		s, err := at(core.QueueRef(q.Namespace, q.Tenant, q.Name))
		if s == nil {
			return core.QueueCreate{Namespace: q.Namespace, Tenant: q.Tenant, Name: q.Name, Config: q.Config}, err
		}
		if was, ok := s.(core.Queue); ok && was.Paused {
			c.Notes = append(c.Notes, "it is paused, and stays so")
		}
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
		if w, ok := s.(core.Worker); ok && w.Paused {
			c.Notes = append(c.Notes, "it is paused, and stays so")
		}
		if err == nil {
			err = p.noteQueue(e.Worker, c)
		}
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
		_, err := at(core.BusRef())
		return core.BusSubscribe{Subscriber: *e.Subscriber}, err
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

// noteQueue notes that a worker's queue does not exist.
func (p *setPlan) noteQueue(w *core.WorkerSpec, c *SetChange) error {
	s, err := p.batch.State(core.QueueRef(w.Namespace, w.Tenant, w.Queue))
	switch {
	case err != nil || s != nil || w.Queue == "":
	case p.alone:
		c.Notes = append(c.Notes, fmt.Sprintf("queue %q is in none of these files: the daemon must have it", w.Queue))
	default:
		c.Notes = append(c.Notes, fmt.Sprintf("there is no queue %q in %s/%s: the worker gets no items until there is one", w.Queue, w.Namespace, w.Tenant))
	}
	return err
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

// times gives the next times of a schedule before and after, if they are others.
func (p *setPlan) times(before, after core.State) (was, is []core.Time, err error) {
	if was, err = p.upcoming(before); err != nil {
		return nil, nil, err
	}
	if is, err = p.upcoming(after); err != nil || slices.Equal(was, is) {
		return nil, nil, err
	}
	return was, is, nil
}

func (p *setPlan) upcoming(s core.State) ([]core.Time, error) {
	switch s := s.(type) {
	case core.RecurringAction:
		calendars, err := p.calendars(s.Namespace, s.Tenant, s.Calendars)
		return s.Upcoming(p.now, core.NextTimesShown, calendars), err
	case core.Job:
		calendars, err := p.calendars(s.Namespace, s.Tenant, s.Calendars)
		return s.Upcoming(p.now, core.NextTimesShown, calendars), err
	}
	return nil, nil
}

// calendars gives those of the names that exist, as the plan leaves them.
func (p *setPlan) calendars(namespace, tenant string, names []string) (core.Calendars, error) {
	found := make(core.Calendars, len(names))
	for _, name := range names {
		s, err := p.batch.State(core.CalendarRef(namespace, tenant, name))
		if err != nil {
			return nil, err
		}
		if c, ok := s.(core.Calendar); ok {
			found[name] = c
		}
	}
	return found, nil
}

// leave plans what becomes of what the set owns, and does not declare any more.
func (p *setPlan) leave(tx store.ReadTx, entries []SetEntry) error {
	owned, gone := 0, []core.Declared(nil)
	term := core.SetTerm(p.set)
	if p.o.Within != nil {
		term = core.TermWithin(term, *p.o.Within)
	}
	for c, err := range cursors(tx, core.KindDeclared, term, false) {
		if err != nil {
			return err
		}
		s, err := storedStates{tx}.Load(effects.Ref{Kind: core.KindDeclared, ID: c.ID})
		if err != nil {
			return err
		}
		d, ok := s.(core.Declared)
		if !ok || p.o.Visible != nil && !p.o.Visible(Scope{Namespace: d.Namespace, Tenant: d.Tenant}) {
			continue
		}
		if d.For == p.o.For {
			owned++
		}
		if !p.declared[d.Ref()] {
			gone = append(gone, d)
		}
	}
	slices.SortStableFunc(gone, func(a, b core.Declared) int {
		return cmp.Or(cmp.Compare(rank(kindOf(b)), rank(kindOf(a))), Scope{Namespace: a.Namespace, Tenant: a.Tenant}.Compare(Scope{Namespace: b.Namespace, Tenant: b.Tenant}), cmp.Compare(a.Name, b.Name))
	})
	first := len(p.changes)
	for _, d := range gone {
		if err := p.remove(d); err != nil {
			return err
		}
	}
	removed := 0
	for _, c := range p.changes[first:] {
		if c.Action == SetRemoves {
			removed++
		}
	}
	switch {
	case removed == 0:
	case len(entries) == 0:
		p.whole = wrongSet(effects.CodeConflict, "prune: the set %q declares nothing, and owns %d: an empty folder removes nothing. Check that the folder is the right one; to remove all, delete each by itself, and take it over", p.set, owned)
	case removed*3 > owned && !p.o.Most:
		p.whole = wrongSet(effects.CodeConflict, "prune: %d of the %d that the set %q owns would be removed, which is more than a third: look at what it would do with a dry run, and say that it may remove most of them (most)", removed, owned, p.set)
	}
	return nil
}

// kindOf is how people call the kind of what is declared.
func kindOf(d core.Declared) string {
	switch d.Kind {
	case core.KindBus:
		return "subscriber"
	default:
		return string(d.Kind)
	}
}

// remove plans the removal of what is not declared any more, or says that it stays.
func (p *setPlan) remove(d core.Declared) error {
	s, err := p.batch.State(d.Of())
	if err != nil {
		return err
	}
	c := SetChange{Action: SetLeaves, Kind: kindOf(d), Namespace: d.Namespace, Tenant: d.Tenant, File: d.File, Ref: d.Of(), ID: d.Machine}
	var e core.Event
	switch s := s.(type) {
	case core.RecurringAction:
		c.Name, e = cmp.Or(s.Name, s.ID.String()), core.RecurringDelete{}
	case core.Job:
		c.Name, e = s.ID, core.JobDelete{Reason: fmt.Sprintf("the set %q does not declare it any more", p.set), Drain: true}
	case core.Queue:
		c.Name, e = s.Name, core.QueueDelete{}
	case core.Semaphore:
		c.Name, e = s.Name, core.SemaphoreConfigure{Namespace: s.Namespace, Tenant: s.Tenant, Name: s.Name}
	case core.Worker:
		c.Name, e = s.Name, core.WorkerDelete{Drain: true}
	case core.Calendar:
		c.Name, e = s.Name, core.CalendarDelete{}
	case core.Bus:
		c.Name, e = d.Part, core.BusUnsubscribe{Name: d.Part}
	}
	revision := core.NoRevision
	if e != nil {
		revision = core.RevisionBefore(s, e)
	}
	if revision == core.NoRevision {
		return nil // what it was about is gone
	}
	if d.For != p.o.For {
		c.Notes = append(c.Notes, "the set was applied on behalf of "+onBehalf(d.For)+" when it declared it: it is removed only so")
	} else if p.o.Prune {
		in := core.Input{To: c.Ref, Actor: p.actor, Event: e, BySet: &core.Declaration{Set: p.set, File: d.File, For: p.o.For}}
		if _, err := p.try(in); err != nil {
			if err := p.refuse(len(p.changes), &c, err); err != nil {
				return err
			}
		} else {
			c.Action, c.input, c.revision = SetRemoves, &in, revision
			p.steps = append(p.steps, len(p.changes))
		}
	}
	p.changes = append(p.changes, c)
	return nil
}

// onBehalf says for people on whose behalf a set was applied.
func onBehalf(of string) string { return cmp.Or(of, "no tenant in particular") }

// carryOut carries the plan out, all of it or nothing. again: others have changed meanwhile what it was made for.
func (p *setPlan) carryOut(ctx context.Context) (again bool, err error) {
	if len(p.steps) == 0 {
		return false, nil
	}
	req := engine.Request{Many: &engine.Many{All: true, If: func(i int, s core.State) error {
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
			return true, nil // the plan was taken whole: something has changed between the two
		}
		return false, p.overtaken
	}
	return false, err
}

type takeOverKey struct{}

// WithTakeOver lets the calls that are made with the context change what a set of files owns, see [Sets]. It belongs to
// no set any more then.
func WithTakeOver(ctx context.Context) context.Context {
	return context.WithValue(ctx, takeOverKey{}, &core.Declaration{TakeOver: true})
}

func takeOver(ctx context.Context) *core.Declaration {
	by, _ := ctx.Value(takeOverKey{}).(*core.Declaration)
	return by
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
	s, err := core.DecodeState(ref.Kind, rec.State)
	if err == nil && s.Ref() != ref {
		err = fmt.Errorf("the record of %s holds %s", ref, s.Ref())
	}
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

// changedFields compares two definitions: which of their fields differ, in the order of their names.
func changedFields(before, after json.RawMessage) []SetField {
	was, is := map[string]json.RawMessage{}, map[string]json.RawMessage{}
	flatten("", before, was)
	flatten("", after, is)
	names := maps.Clone(was)
	maps.Copy(names, is)
	var out []SetField
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if !bytes.Equal(was[name], is[name]) {
			out = append(out, SetField{Field: name, Before: was[name], After: is[name]})
		}
	}
	return out
}

// sameJSON reports whether two documents say the same, in whatever order their members stand.
func sameJSON(a, b json.RawMessage) bool {
	read := func(doc json.RawMessage) (v any, err error) {
		dec := json.NewDecoder(bytes.NewReader(doc))
		dec.UseNumber() // exactly as it is written
		err = dec.Decode(&v)
		return v, err
	}
	x, errX := read(a)
	y, errY := read(b)
	return errX == nil && errY == nil && reflect.DeepEqual(x, y)
}

// flatten gives each value within objects under its path. Lists are values.
func flatten(path string, v json.RawMessage, out map[string]json.RawMessage) {
	var object map[string]json.RawMessage
	if json.Unmarshal(v, &object) != nil || object == nil || len(object) == 0 {
		if path != "" && string(v) != "null" {
			out[path] = v
		}
		return
	}
	for name, value := range object {
		at := name
		if path != "" {
			at = path + "." + name
		}
		flatten(at, value, out)
	}
}
