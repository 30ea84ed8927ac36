package httpapi

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

// Bounds of a search by the beginning of an id.
const (
	defaultFound = 20
	maxFound     = 100
	foundChunk   = 1000      // records that are looked at in one transaction
	maxSearched  = 1_000_000 // records of a kind that are looked at
	maxFindTime  = 5 * time.Second
)

// beginsID matches the beginning of an id in its usual form, of eight digits at least, or a whole one.
var beginsID = regexp.MustCompile(`^[0-9a-f]{8}(-([0-9a-f]{0,4}|[0-9a-f]{4}-([0-9a-f]{0,4}|[0-9a-f]{4}-([0-9a-f]{0,4}|[0-9a-f]{4}-[0-9a-f]{0,12}))))?$`)

// A findable is a kind of machine that is found by the beginning of its id.
type findable struct {
	kind effects.Kind
	// look gives what has the id and exists for who asks; ok is false if there is none.
	look func(ctx context.Context, c *call, q query, id uuid.UUID) (f wire.Found, ok bool, err error)
}

// findableOf makes the findable of machines that the API serves.
func findableOf[S core.State, Out any](kind effects.Kind, m machines[S, Out], name func(S) string) findable {
	return findable{kind, func(ctx context.Context, c *call, q query, id uuid.UUID) (f wire.Found, ok bool, err error) {
		if m.may != nil && m.may(c) != nil {
			return f, false, nil
		}
		s, err := m.get(ctx, id)
		if errors.Is(err, shell.ErrNotFound) || errors.Is(err, shell.ErrSetAside) {
			return f, false, nil
		}
		if err != nil {
			return f, false, err
		}
		namespace, tenant := m.scope(s)
		if !m.seen(ctx, c.token, s) || !matches(q, namespace, tenant) {
			return f, false, nil
		}
		return wire.Found{Kind: kind, ID: id, Namespace: namespace, Tenant: tenant, Name: name(s)}, true, nil
	}}
}

// findables are all of them, in the order in which what is found is listed.
func (s *Server) findables() []findable {
	return []findable{
		findableOf(core.KindAction, s.actions(), func(a core.Action) string { return a.Label }),
		findableOf(core.KindRecurring, s.recurring(), nameToFind),
		findableOf(core.KindOrchestrator, s.runs(), func(o core.Orchestrator) string { return o.RunID }),
		findableOf(core.KindPipeline, s.pipelines(), func(p core.Pipeline) string { return p.Label }),
		findableOf(core.KindTask, s.tasks(), func(t core.Task) string { return t.Label }),
		findableOf(core.KindStrategy, s.strategies(), func(t core.Strategy) string { return t.Label }),
		findableOf(core.KindBackfill, s.backfills(), func(b core.Backfill) string { return b.Name }),
		findableOf(core.KindOccurrence, s.occurrences(), func(o core.Occurrence) string { return o.Name }),
	}
}

// findablesOf gives the findable of a kind; all of them if none is asked for.
func (s *Server) findablesOf(kind *string) ([]findable, error) {
	all := s.findables()
	if kind == nil {
		return all, nil
	}
	var known []effects.Kind
	for _, of := range all {
		if string(of.kind) == *kind {
			return []findable{of}, nil
		}
		known = append(known, of.kind)
	}
	return nil, failf(http.StatusBadRequest, "kind: %q is unknown: use %s", clip(*kind), strings.Join(namesOf(known), ", "))
}

// find answers with what the token sees whose id begins with a text.
func (s *Server) find(w http.ResponseWriter, r *http.Request, c *call) error {
	q, err := readQuery(r, "q", "kind", "namespace", "tenant", "limit")
	if err != nil {
		return err
	}
	after, to, err := idsFrom(q.get("q"))
	if err != nil {
		return err
	}
	if _, _, err := c.scopeOf(q); err != nil {
		return err
	}
	limit, err := q.number("limit", defaultFound, maxFound)
	if err != nil {
		return err
	}
	all, err := s.findablesOf(q.opt("kind"))
	if err != nil {
		return err
	}
	out := wire.FoundList{Found: []wire.Found{}}
	for _, of := range all {
		found, err := s.findOf(r.Context(), c, q, of, after, to, limit-len(out.Found)+1)
		if err != nil {
			return err
		}
		if out.Found = append(out.Found, found...); len(out.Found) > limit {
			out.Found, out.More = out.Found[:limit], true
			break
		}
	}
	return writeJSON(w, http.StatusOK, out)
}

// findOf gives the machines of one kind, after an id up to another, that exist for the holder of the token. It looks at all
// machines that are there: how far a search comes must not depend on what other tenants have. Those of others are passed over
// without being decoded, so that they cost next to nothing.
func (s *Server) findOf(ctx context.Context, c *call, q query, of findable, after, to uuid.UUID, limit int) (found []wire.Found, err error) {
	in := shell.IDRange{Kind: of.kind, After: after, To: to, Limit: foundChunk, Wanted: mayBeOf(c.token, q)}
	began := time.Now()
	for searched := 0; ; {
		ids, next, err := s.engine.IDs(ctx, in)
		if errors.Is(err, errors.ErrUnsupported) {
			return nil, failf(http.StatusNotImplemented, "find: the store of this server finds nothing by the beginning of an id")
		}
		if err != nil {
			return nil, err
		}
		for _, id := range ids {
			f, ok, err := of.look(ctx, c, q, id)
			if err != nil {
				return nil, err
			}
			if ok {
				found = append(found, f)
			}
			if len(found) >= limit {
				return found, nil
			}
		}
		if next == uuid.Nil {
			return found, nil
		}
		if searched += foundChunk; searched >= maxSearched || time.Since(began) > maxFindTime {
			return nil, failf(http.StatusBadRequest, "q: too many ids begin so: give more of the id")
		}
		in.After = next
	}
}

// mayBeOf gives what passes over states of other tenants than those that a request is about, by their bytes; nil if the names
// do not tell. That another machine has a tenant's name somewhere in it does not matter: it is decoded, then.
func mayBeOf(t *Token, q query) func(state []byte) bool {
	tenants := t.Tenants
	if tenant := q.opt("tenant"); tenant != nil {
		tenants = []string{*tenant}
	}
	var marks [][]byte
	for _, tenant := range tenants {
		if !plainName(tenant) { // it may be written in more than one way
			return nil
		}
		marks = append(marks, []byte(`"tenant":"`+tenant+`"`))
	}
	if len(marks) == 0 {
		return nil
	}
	return func(state []byte) bool {
		return slices.ContainsFunc(marks, func(mark []byte) bool { return bytes.Contains(state, mark) })
	}
}

// idsFrom gives the id right before the least one that begins with a text, and the greatest that does.
func idsFrom(text string) (after, to uuid.UUID, err error) {
	text = strings.ToLower(text)
	if !beginsID.MatchString(text) {
		return after, to, failf(http.StatusBadRequest, "q: %q is not the beginning of an id, of eight digits at least, such as 0193f2a4", clip(text))
	}
	digits := strings.ReplaceAll(text, "-", "")
	whole := func(pad string) (id uuid.UUID) {
		b, _ := hex.DecodeString(digits + strings.Repeat(pad, 2*len(id)-len(digits))) // they are digits
		copy(id[:], b)
		return id
	}
	return before(whole("0")), whole("f"), nil
}

// before gives the id that comes right before another one; that of zeros has none, and no machine has it.
func before(id uuid.UUID) uuid.UUID {
	for i := len(id) - 1; i >= 0; i-- {
		if id[i]--; id[i] != 0xff {
			return id
		}
	}
	return uuid.Nil
}

// nameToFind is by what a recurring action is found: its name and its description.
func nameToFind(a core.RecurringAction) string {
	return strings.TrimSpace(a.Name + " " + a.Description)
}
