package shell

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/engine"
	"github.com/orrery-go/orrery/store"
)

// ErrPageToken says that a page token was not given out for this list.
var ErrPageToken = errors.New("page_token is not one that this list gave out")

// Scope is one tenant of one namespace.
type Scope = core.Scope

// Page bounds one page of a list. The zero value of each field is a sound default.
type Page struct {
	// Token is what the page before gave; empty: the first page. It is a position in an
	// index, readable and not signed: who hands it to callers that may not see
	// everything must seal it, as package httpapi does.
	Token string
	Limit int // at most MaxPage; 0: DefaultPage
	// MaxBytes ends the page early, with a token to go on, once the states that were
	// read for it take so many bytes in the store, with what a machine has as records of its
	// own; it has one machine at least. 0, or more than 16 MiB: 16 MiB.
	MaxBytes int
	// From and To bound a list to what it has from From on and before To, by the times that it is in the order
	// of: mostly those of creation. Zero: no bound. Lists of occurrences have these bounds in their filter, and
	// those of the items of a queue, which are in the order of the queue, have none.
	From, To core.Time
	// FailedSince narrows lists of actions, pipelines, tasks, strategies and runs to what has failed at that time or
	// later, and puts them in the order in which it did. It takes the place of From and To. Zero: no such bound.
	FailedSince core.Time
	// OldestFirst turns a list around that gives the newest first.
	OldestFirst bool
	// Scopes are the tenants that a list over more than one tenant is about, in their
	// common order: no machine of another tenant is read. None: all. They do not count
	// if the filter has a scope, and in lists of what belongs to one machine.
	Scopes []Scope
	// Among narrows a list over all tenants, without Scopes, to those for which it is true,
	// as far as lists can: Visible must say so, too. nil: all. It is asked within a
	// transaction of the store, once for each tenant.
	Among func(Scope) bool
	// Visible reports whether a machine exists for who asks; nil: all do. It is asked
	// before the filter is, outside of the store's transactions.
	Visible func(core.State) bool
	// Marks gets where each machine of the page stands, in the page's order, for who merges the lists of several
	// engines. nil: nobody asks.
	Marks *[]Mark
}

// Mark is where a machine stands in a list.
type Mark struct {
	// Token goes on behind the machine, as [Page.Token].
	Token string
	// Order compares with that of other machines of the list, also of another engine: what is less stands before.
	Order [24]byte
}

// Bounds of a page.
const (
	DefaultPage = 50
	MaxPage     = 1000
	// maxPageBytes ends a page early, with a token to go on.
	maxPageBytes = 16 << 20
	// maxMissed bounds the records that one page reads in vain since a part of its filter has
	// no list, and maxSteps the places of lists that it looks at; the page then ends early,
	// with a token to go on.
	maxMissed = 500
	maxSteps  = 5000
	// maxTenants bounds the tenants whose lists are read as one for a list over all tenants.
	// If there are more, the filter has no list.
	maxTenants = 2000
)

// MachineFilter chooses machines of the runbooks; zero fields choose all.
type MachineFilter struct {
	Scope    *Scope
	Status   string       // as the machine's own list term has it
	WaitsFor core.WaitFor // of pipelines: one of [core.AnsweredWaits]
}

// statusTerm gives the list term of a status; "" if the status is empty.
func statusTerm[T ~string](status T) string {
	if status == "" {
		return ""
	}
	return core.StatusTerm(core.StatusType(status))
}

// flagTerm gives the list term of a flag; "" if the flag is nil.
func flagTerm(flag *bool, term func(bool) string) string {
	if flag == nil {
		return ""
	}
	return term(*flag)
}

// hasStatus reports whether the machine has the status, or what stands for it, with that
// list term; "" is any.
func hasStatus(s core.State, term string) bool {
	if term == "" {
		return true
	}
	name := core.TermWithin(term, core.ScopeOf(s))
	return slices.ContainsFunc(s.Terms(), func(t effects.Term) bool { return t.Name == name })
}

func listOf[S core.State](ctx context.Context, e *Engine, kind effects.Kind, f MachineFilter, p Page) ([]S, string, error) {
	status := statusTerm(f.Status)
	of := filter{kind: kind, scope: f.Scope, status: status}
	waits := ""
	if f.WaitsFor != "" {
		waits = core.WaitsTerm(f.WaitsFor)
		of.also = append(of.also, waits)
		of.token = waits + status
	}
	return list(ctx, e, of, p, func(s S) bool { return hasStatus(s, status) && hasStatus(s, waits) })
}

func hasLabels(have, want map[string]string) bool {
	for k, v := range want {
		if h, ok := have[k]; !ok || h != v {
			return false
		}
	}
	return true
}

// decodeAs reads one record of a list; nil where it cannot be decoded: one bad
// record does not take the list away (A10), and is set aside.
func decodeAs[S core.State](tx store.ReadTx, kind effects.Kind, id uuid.UUID) (s *S, size int, err error) {
	rec, err := tx.Get(kind, id)
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrCorrupt) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	st, err := core.DecodeState(kind, rec.State)
	if err == nil && st.Ref() != (effects.Ref{Kind: kind, ID: id}) {
		err = store.ErrCorrupt
	}
	undecodable := func(ref effects.Ref) {
		if w, ok := tx.(watchedTx); ok {
			w.undecodable(ref)
		}
	}
	if err != nil {
		undecodable(effects.Ref{Kind: kind, ID: id})
		return nil, len(rec.State), nil
	}
	st, parts, err := engine.Whole(tx, st, undecodable)
	if err != nil {
		return nil, 0, err
	}
	v, ok := st.(S)
	if !ok {
		return nil, 0, fmt.Errorf("record %s/%s decodes as %T", kind, id, st)
	}
	return &v, len(rec.State) + parts, nil
}
