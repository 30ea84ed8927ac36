package shell

import (
	"context"
	"maps"
	"slices"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/store"
)

// readSpanning lists the entries that begin in [f.From, f.To), and those that begin before and reach into it. The latter are
// entries of several times: they stand in the lists of how long they span, in which nothing has to be read that begins
// earlier than an entry of that list can reach. All of them begin before the former, so that the two lists stand one
// behind the other, and a page's token says in which of them it goes on.
func (f OccurrenceFilter) readSpanning(ctx context.Context, st store.Store, p Page) ([]core.Occurrence, string, error) {
	of := f.index(p)
	at, err := of.parseToken(p.Token)
	if err != nil {
		return nil, "", err
	}
	into, within := f.reachingInto(p), of
	parts := []index{within, into}
	if p.OldestFirst {
		parts = []index{into, within}
	}
	if p.Token != "" && (at.At < f.From) != p.OldestFirst { // the token is one of the second part
		parts = parts[1:]
	}
	most, found := p.limit(), []core.Occurrence{}
	for i, part := range parts {
		p.Limit = most - len(found)
		list, next, err := page(ctx, st, part, p, f.keeps)
		if err != nil {
			return nil, "", err
		}
		found = append(found, list...)
		switch {
		case next != "" || i+1 == len(parts):
			return found, next, nil
		case len(found) == most: // where the second part begins
			return found, of.token(store.Cursor{At: f.From}), nil
		}
		p.Token = ""
	}
	return found, "", nil
}

// reachingInto is the index of the entries that begin before f.From, and may reach it.
func (f OccurrenceFilter) reachingInto(p Page) index {
	of := f.index(p)
	of.from, of.until = 0, f.From
	of.floors = make(map[string]core.Time)
	of.find = func(tx store.ReadTx) ([][]string, error) {
		groups, err := f.groups(tx, p)
		if err != nil {
			return nil, err
		}
		spans, err := f.spans(tx, p)
		maps.Copy(of.floors, spans)
		if len(groups) == 1 && slices.Equal(groups[0], []string{core.TermAll}) {
			groups = nil
		}
		return append(groups, slices.Sorted(maps.Keys(spans))), err
	}
	return of
}

// spans gives the lists of entries of several times with the earliest beginning of one that reaches f.From.
func (f OccurrenceFilter) spans(tx store.ReadTx, p Page) (map[string]core.Time, error) {
	scopes, complete := f.scopes(p), true
	if len(scopes) == 0 && p.Among != nil {
		var err error
		if scopes, complete, err = tenantsOfOccurrences(tx, p.Among); err != nil {
			return nil, err
		}
	}
	of := make(map[string]core.Time)
	for class, most := range core.SpanClasses() {
		floor := core.Time(0)
		if most > 0 {
			floor = max(f.From.Add(-most), 1)
		}
		term := core.SpanTerm(class)
		if len(scopes) == 0 && p.Among == nil || !complete {
			of[term] = floor
			continue
		}
		for _, s := range scopes {
			of[core.TermWithin(term, s)] = floor
		}
	}
	return of, nil
}
