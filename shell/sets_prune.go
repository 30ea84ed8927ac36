package shell

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

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
		return cmp.Or(cmp.Compare(rank(SetKindOf(b)), rank(SetKindOf(a))), Scope{Namespace: a.Namespace, Tenant: a.Tenant}.Compare(Scope{Namespace: b.Namespace, Tenant: b.Tenant}), cmp.Compare(a.Name, b.Name))
	})
	first := len(p.changes)
	for _, d := range gone {
		if err := p.remove(d); err != nil {
			return err
		}
	}
	removed := 0 // if nothing kept it from that
	for _, c := range p.changes[first:] {
		if c.Action == SetRemoves || c.Action == SetRefuses {
			removed++
		}
	}
	switch {
	case removed == 0:
	case len(entries) == 0:
		p.whole = wrongSet(effects.CodeConflict, "prune: the set %q declares nothing, and owns %d: an empty folder removes nothing. Check that the folder is the right one; to remove all, delete each by itself, and take it over", p.set, owned)
	case removed*3 > owned && !p.o.Most:
		p.whole = &SetError{Err: &PrunesMostError{Set: p.set, Removed: removed, Owned: owned}}
	}
	return nil
}

// tryRemoval applies the removal of what is there, and gives what it leaves.
func (p *setPlan) tryRemoval(in core.Input, s core.State) (core.State, error) {
	if k, ok := s.(core.Calendar); ok && k.Uses > 0 { // no set forces it
		return nil, &Refusal{To: in.To, Event: in.Event.EventType(), Code: effects.CodeConflict, Reason: fmt.Sprintf(
			"schedules that stay (%d) name it: take it out of them first, or declare it until then", k.Uses)}
	}
	return p.try(in)
}

// remove plans the removal of what is not declared any more, or says that it stays.
func (p *setPlan) remove(d core.Declared) error {
	s, err := p.batch.State(d.Of())
	if err != nil {
		return err
	}
	c := SetChange{Action: SetLeaves, Kind: SetKindOf(d), Namespace: d.Namespace, Tenant: d.Tenant, File: d.File, Ref: d.Of(), ID: d.Machine}
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
		after, err := p.tryRemoval(in, s)
		if err != nil {
			if err := p.refuse(len(p.changes), &c, err); err != nil {
				return err
			}
		} else {
			c.Action, c.input, c.revision = SetRemoves, &in, revision
			if w, ok := after.(core.Worker); ok && w.Draining {
				c.Notes = append(c.Notes, fmt.Sprintf("it takes no more items, and goes when those that it has in hand (%d) have ended", len(w.Running)))
			}
			p.steps = append(p.steps, len(p.changes))
		}
	}
	p.changes = append(p.changes, c)
	return nil
}

// onBehalf says for people on whose behalf a set was applied.
func onBehalf(of string) string { return cmp.Or(of, "no tenant in particular") }
