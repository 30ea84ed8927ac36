package shell

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
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
	Subscriber *SubscriberSpec
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

// SubscriberSpec says which subscriber the event bus of a tenant has. It acts in that tenant: where it names none, that is
// meant.
type SubscriberSpec struct {
	Namespace string `json:"namespace"`
	Tenant    string `json:"tenant"`
	core.Subscription
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
	SetAdopts  SetAction = "adopt" // its definition stays: it belonged to no set, or to another one
	SetRemoves SetAction = "remove"
	SetKeeps   SetAction = "none"
	SetLeaves  SetAction = "leave"   // the set owns it, and does not declare it any more: without Prune it stays
	SetRefuses SetAction = "refused" // of a dry run and of [CheckSet]: the set is refused for it, the notes say why
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
	where := strings.TrimPrefix(e.Kind+" "+e.Name, " ")
	if e.File != "" {
		where = e.File + ": " + where
	}
	return where + ": " + e.Err.Error()
}

// Unwrap gives the reason.
func (e *SetError) Unwrap() error { return e.Err }

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

// PrunesMostError says that a set would remove more than a third of what it owns, and was not told that it may: see
// [SetOptions]. It wraps a [*Refusal].
type PrunesMostError struct {
	Set            string
	Removed, Owned int
}

// Error says what can be done.
func (e *PrunesMostError) Error() string {
	return fmt.Sprintf("prune: %d of the %d that the set %q owns would be removed, which is more than a third: look at what it would do with a dry run, and say that it may remove most of them (most)", e.Removed, e.Owned, e.Set)
}

// Unwrap gives the refusal.
func (e *PrunesMostError) Unwrap() error {
	return &effects.Refused{Event: "apply", Code: effects.CodeConflict, Reason: e.Error()}
}

// wrongSet refuses a set as a whole.
func wrongSet(code effects.Code, format string, args ...any) error {
	return &SetError{Err: &effects.Refused{Event: "apply", Code: code, Reason: fmt.Sprintf(format, args...)}}
}

// wrongEntry refuses a declaration for what is wrong with it.
func wrongEntry(kind, name, file, format string, args ...any) *SetError {
	return &SetError{Kind: kind, Name: name, File: file, Err: &effects.Refused{Event: "apply", Code: effects.CodeInvalid, Reason: fmt.Sprintf(format, args...)}}
}

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
		unplanned := p.make(ctx, entries)
		if !o.DryRun { // after the plan, which may see what was done
			if res, before, err := s.appliedBefore(ctx); err != nil || before {
				return res, err
			}
		}
		if unplanned != nil {
			return SetResult{}, unplanned
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
		res.Applied = true
		res, again, err := p.carryOut(ctx, res)
		if err != nil {
			return SetResult{}, err
		}
		if !again {
			return res, nil
		}
		stale = p.overtaken
	}
	return SetResult{}, wrongSet(effects.CodeConflict, "set: others change what it declares at the same time: try again: %s", stale)
}

// appliedBefore gives what a request with a key has come to before. It is asked before the plan is carried out: a plan of what is there
// by now would say that nothing is to be done, or something else.
func (s Sets) appliedBefore(ctx context.Context) (res SetResult, ok bool, err error) {
	before, ok, err := s.e.AnswerAgain(ctx)
	if err != nil || !ok {
		return res, false, err
	}
	res, err = noted(before.Note)
	return res, true, err
}

// noted reads what applying a set has come to from the note that was kept with it.
func noted(note []byte) (res SetResult, err error) {
	if err := json.Unmarshal(note, &res); err != nil {
		return SetResult{}, fmt.Errorf("%w: what applying the set has come to: %w", store.ErrCorrupt, err)
	}
	return res, nil
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
		return s.e.checkChannel(ref, of, "apply", e.Recurring.Alerts)
	case e.Job != nil:
		return s.e.Jobs().Check(*e.Job)
	}
	return nil
}

// check refuses a declaration that is none.
func (e SetEntry) check() *SetError {
	kind, _, name := e.About()
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
	case e.Recurring == nil && !e.Declarable(): // of a recurring action the core says more
		return fail("name: %q is no name: use letters, digits, \".\", \"_\" and \"-\", begin with a letter or a digit, and use at most %d of them", name, core.MaxGivenName)
	case e.Was != "" && e.Recurring == nil:
		return fail("was: a %s cannot be renamed, since its id is made from its name: declare it under the new name, and remove the old one", kind)
	case e.Was != "" && !core.IsGivenName(e.Was):
		return fail("was: %q is no name", e.Was)
	}
	return nil
}

// Declarable reports whether the declaration has a name that a set may declare: one that can be typed, see [core.IsGivenName].
// The id of a job follows rules of its own, and a subscriber of a runbook has the names of the runbook and its worker with "/" between them.
func (e SetEntry) Declarable() bool {
	kind, _, name := e.About()
	switch kind {
	case "job":
		return name != ""
	case "subscriber":
		return core.IsGivenName(name) || strings.Contains(name, "/")
	}
	return core.IsGivenName(name)
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
		kind, of, name := e.About()
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

// About says what a declaration is about: its kind as files call it, whose it is, and its name.
// The kind is empty of what declares nothing.
func (e SetEntry) About() (kind string, of Scope, name string) {
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
		return "subscriber", Scope{Namespace: e.Subscriber.Namespace, Tenant: e.Subscriber.Tenant}, e.Subscriber.Name
	}
	return "", Scope{}, ""
}

// SetKinds lists the kinds of what a set declares, as files call them, in the order in which declarations are made: what others
// name comes first. What is removed goes in the opposite order.
func SetKinds() []string { return slices.Clone(setKinds) }

var setKinds = []string{"calendar", "queue", "semaphore", "worker", "job", "recurring", "subscriber"} // read-only: a table

func rank(kind string) int { return slices.Index(setKinds, kind) }

// SetKindOf is how files call the kind of what is declared, see [SetKinds].
func SetKindOf(d core.Declared) string {
	if d.Kind == core.KindBus {
		return "subscriber"
	}
	return string(d.Kind)
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
