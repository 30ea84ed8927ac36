package core

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
)

// Declaration says of an input that it comes from a set of files, which owns what it defines (G17):
// schedules, jobs, queues, semaphores, workers, calendars and subscribers.
type Declaration struct {
	// Set is the set's name; empty: whoever edits takes over what a set has declared, and it belongs
	// to no set any more.
	Set string `json:"set,omitempty"`
	// File is where in the set it stands, for people, such as "backup.toml".
	File string `json:"file,omitempty"`
	// For is on whose behalf the set is applied, as those of the same name may be by several: such as "shop/acme" of who
	// is bound to that tenant; empty: of nobody in particular. What was declared for one is removed by none of the others.
	For string `json:"for,omitempty"`
	// TakeOver lets it change what another set owns. It is then this one's.
	TakeOver bool `json:"take_over,omitempty"`
}

// Declared says which set of files owns a machine, or a subscriber of the bus: that set alone
// changes its definition, until another one takes it over. It takes no events: the [Batch] writes
// it with the transition that defines the machine.
type Declared struct {
	ID        uuid.UUID    `json:"id"`        // derived from what it is about
	Namespace string       `json:"namespace"` // the tenant's; empty: of the bus, which has none
	Tenant    string       `json:"tenant"`
	Kind      effects.Kind `json:"kind"`           // of the machine
	Machine   uuid.UUID    `json:"machine"`        // its id
	Part      string       `json:"part,omitempty"` // the name of a subscriber of the bus
	Name      string       `json:"name"`           // for the reader: what the set calls it
	Set       string       `json:"set"`
	File      string       `json:"file"`
	For       string       `json:"for,omitempty"` // on whose behalf it was declared, see [Declaration]
	Since     Time         `json:"since"`         // when the set began to own it
}

// DeclaredRef names the record of what owns a machine; part is the name of a subscriber where the
// machine is the bus, and else empty.
func DeclaredRef(of effects.Ref, part string) effects.Ref {
	return effects.Ref{Kind: KindDeclared, ID: namedID("declared", string(of.Kind), of.ID.String(), part)}
}

// Of names the machine that is owned.
func (d Declared) Of() effects.Ref { return effects.Ref{Kind: d.Kind, ID: d.Machine} }

// Ref names the record.
func (d Declared) Ref() effects.Ref { return refOf(KindDeclared, d.ID) }

// Deadline is none.
func (d Declared) Deadline() Time { return 0 }

// SetTerm is the list term of the records of what a set of files owns, see [Declared]: one of all tenants, and, within
// a tenant, one of that tenant.
func SetTerm(set string) string { return "set:" + set }

// Terms gives the list terms: all that is declared, and what its set owns, of all tenants and of its own.
func (d Declared) Terms() []effects.Term {
	own, ofSet := twoWithin(TermOwn, SetTerm(d.Set), d.scope())
	return []effects.Term{{Name: TermAll, At: d.Since}, {Name: SetTerm(d.Set), At: d.Since}, {Name: own, At: d.Since}, {Name: ofSet, At: d.Since}}
}

func (d Declared) scope() Scope { return Scope{d.Namespace, d.Tenant} }

// AppendJSON appends the stored form.
func (d Declared) AppendJSON(b []byte) []byte { return appendMarshaled(b, d) }

// defines reports whether an event gives a machine another definition, or none. To pause is none: whoever
// works with what a set has declared may do that, as trigger it or retry.
func defines(e Event) bool {
	switch e := e.(type) {
	case RecurringUpdate:
		return !e.Patch.onlyEnables()
	case RecurringCreate, RecurringDelete, JobApply, JobDelete, QueueCreate, QueueConfigure, QueueDelete, WorkerConfigure, WorkerDelete,
		CalendarCreate, CalendarUpdate, CalendarDelete, SemaphoreConfigure, BusSubscribe, BusUnsubscribe:
		return true
	}
	return false
}

// ends reports whether an event leaves nothing of what it is about, or nothing that is declared.
func ends(after State, e Event) bool {
	if c, ok := e.(SemaphoreConfigure); ok && c.Slots == 0 {
		return true
	}
	return RevisionBefore(after, e) == NoRevision
}

// onlyEnables reports whether a patch does no more than enable or disable.
func (p RecurringPatch) onlyEnables() bool {
	if p.Enabled == nil {
		return false
	}
	p.Enabled = nil
	return string(appendMarshaled(nil, p)) == "{}"
}

// partOf gives the name of the subscriber that an event to the bus is about.
func partOf(e Event) string {
	switch e := e.(type) {
	case BusSubscribe:
		return e.Subscriber.Name
	case BusUnsubscribe:
		return e.Name
	}
	return ""
}

// nameOf gives the name by which files declare a machine, or the subscriber that an event is about.
func nameOf(s State, e Event) string {
	switch s := s.(type) {
	case RecurringAction:
		return s.Name
	case Job:
		return s.JobSpec.ID
	case Queue:
		return s.Name
	case Semaphore:
		return s.Name
	case Worker:
		return s.Name
	case Calendar:
		return s.Name
	}
	return partOf(e)
}

// declare keeps who owns what an event from outside has defined. refused says of an event that
// comes from elsewhere than from the owner whose it is.
func (t *Batch) declare(to effects.Ref, before, after State, e Event) (refused *effects.Refused, err error) {
	by := t.by
	if !defines(e) {
		return nil, nil
	}
	r := records{t: t}
	ref := DeclaredRef(to, partOf(e))
	had, known := r.record(KindDeclared, ref.ID).(Declared)
	if r.err != nil {
		return nil, r.err
	}
	owned := known && RevisionBefore(before, e) != NoRevision // else what it was about was set aside
	if fromNoSet := by == nil || by.Set == "" && !by.TakeOver; owned && fromNoSet && RevisionBefore(before, e) == RevisionBefore(after, e) {
		return nil, nil // it says what the set says: who starts a pipeline declares its runbook's queues again
	}
	if owned && (by == nil || by.Set != had.Set && !by.TakeOver) {
		return &effects.Refused{To: to, Event: e.EventType(), Code: effects.CodeConflict, Reason: had.Refusal(by)}, nil
	}
	if owned && had.For != by.For && !by.TakeOver && ends(after, e) {
		return &effects.Refused{To: to, Event: e.EventType(), Code: effects.CodeConflict, Reason: had.stays()}, nil
	}
	switch {
	case ends(after, e) || by == nil || by.Set == "":
		if known {
			r.drop(KindDeclared, ref.ID)
		}
	default:
		of := ScopeOf(after)
		is := Declared{
			ID: ref.ID, Kind: to.Kind, Machine: to.ID, Part: partOf(e), Name: nameOf(after, e), Namespace: of.Namespace, Tenant: of.Tenant,
			Set: by.Set, File: by.File, For: by.For, Since: t.clock.Now,
		}
		if owned && had.Set == is.Set {
			is.Since = had.Since
		}
		if !known || had != is {
			r.put(is)
		}
	}
	return nil, r.err
}

// Refusal says to who may not change it whose it is, and what to do; by is nil, or the declaration of another set.
func (d Declared) Refusal(by *Declaration) string {
	where := fmt.Sprintf("the set %q", clip(d.Set))
	if d.File != "" {
		where += fmt.Sprintf(" declares it, in %s", clip(d.File))
	} else {
		where += " declares it"
	}
	if by == nil || by.Set == "" {
		return where + ": change it there and apply the set, or take it over"
	}
	return where + fmt.Sprintf(": take it out there, or let %q take it over", clip(by.Set))
}

// stays says why a set does not remove what it owns.
func (d Declared) stays() string {
	return fmt.Sprintf("the set %q was applied on behalf of %s when it declared it: it is removed only so", clip(d.Set), clip(cmp.Or(d.For, "no tenant in particular")))
}

// check refuses a declaration that the journal could not give back, or whose set has no name that could be typed.
func (d Declaration) check() error {
	if d.Set == "" && d.File != "" {
		return errors.New("by_set.set: must not be empty where a file is named")
	}
	if err := checkGivenName("by_set.set", d.Set); err != nil {
		return err
	}
	if err := checkText("by_set.for", d.For); err != nil {
		return err
	}
	return checkText("by_set.file", d.File)
}
