package shell

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"hash/fnv"
	"iter"
	"maps"
	"slices"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

// index is what a page is read from: the machines that stand in a list of each of the
// groups, in the order of the lists.
type index struct {
	kind   effects.Kind
	groups [][]string // list terms; the lists of a group are read as one; nil: as find says
	find   func(store.ReadTx) ([][]string, error)
	newest bool     // first; else the first in line
	names  []string // what a page token is bound to

	// from and until bound a list by time: it has those at from or later, and before until. Zero: no
	// bound.
	from, until core.Time
	// floors bounds some of the lists further: of what is earlier nothing is asked for.
	floors map[string]core.Time
}

// paged gives a list index in the direction and within the bounds of a page.
func (x index) paged(p Page) index {
	x.newest, x.from, x.until = !p.OldestFirst, p.From, p.To
	if !p.FailedSince.IsZero() {
		x.from, x.until = p.FailedSince, 0
		x.names = append(slices.Clone(x.names), core.TermFailed, p.FailedSince.String())
	}
	if p.OldestFirst {
		x.names = append(slices.Clone(x.names), "oldest")
	}
	if !p.From.IsZero() || !p.To.IsZero() {
		x.names = append(slices.Clone(x.names), p.From.String(), p.To.String())
	}
	return x
}

// beyond reports whether a cursor stands behind the bound of the list, in its direction.
func (x *index) beyond(c store.Cursor) bool {
	if x.newest {
		return !x.from.IsZero() && c.At < x.from
	}
	return !x.until.IsZero() && c.At >= x.until
}

// newest is a list index that is read from its newest machine on.
func newest(kind effects.Kind, term string) index {
	return index{kind: kind, groups: [][]string{{term}}, newest: true, names: []string{term}}
}

// inLine is a list index that is read from the first in line on.
func inLine(kind effects.Kind, term string) index {
	x := newest(kind, term)
	x.newest = false
	return x
}

// filter says which machines of a kind a list is about, as far as lists can tell. The zero value of
// each field chooses all.
type filter struct {
	kind   effects.Kind
	scope  *Scope
	status string            // list term, see [core.StatusTerms]
	tool   string            // name
	also   []string          // list terms, all of them
	begins string            // what one of its list terms begins with
	labels map[string]string // all of them
	more   []string          // list terms that are not those of a tenant
	token  string            // what page tokens are bound to, if not to tenant and status
}

// list reads a page of what the filter chooses: the machines to be kept, which is asked since
// not all of a filter has lists.
func list[S core.State](ctx context.Context, e *Engine, f filter, p Page, keep func(S) bool) ([]S, string, error) {
	if err := e.loop.Indexed(ctx); err != nil {
		return nil, "", err
	}
	of := index{kind: f.kind, names: f.names(p), find: func(tx store.ReadTx) ([][]string, error) { return f.groups(tx, p) }}
	return page(ctx, e.store, of.paged(p), p, keep)
}

// scopes gives the tenants that the filter is about; none: all.
func (f *filter) scopes(p Page) []Scope {
	if f.scope != nil {
		return []Scope{*f.scope}
	}
	return p.Scopes
}

// names gives what a page token is bound to: the tenants, or else the status.
func (f *filter) names(p Page) (names []string) {
	for _, s := range f.scopes(p) {
		names = append(names, "scope:"+s.Namespace+"\x1f"+s.Tenant)
	}
	switch {
	case f.token != "" && (f.scope != nil || len(names) == 0):
		return []string{f.token}
	case len(names) > 0:
		return names
	case f.status != "":
		return []string{f.status}
	}
	return []string{core.TermAll}
}

// groups chooses the lists for a filter.
func (f *filter) groups(tx store.ReadTx, p Page) (groups [][]string, err error) {
	if !p.FailedSince.IsZero() {
		return f.failed(tx, p)
	}
	for _, term := range f.more {
		groups = append(groups, []string{term})
	}
	scopes, wanted := f.scopes(p), f.wanted()
	begun, err := f.begun(tx, p)
	if err != nil {
		return nil, err
	}
	if begun != nil {
		groups = append(groups, begun)
	} else if (len(scopes) > 0 || p.Among != nil) && len(wanted) == 0 {
		wanted = [][]string{core.StatusTerms(f.kind)} // any
	}
	for _, terms := range wanted {
		group, all := []string{}, true
		for _, term := range terms {
			if len(scopes) == 0 && all {
				names, complete, err := f.ofTenants(tx, term, p.Among)
				if err != nil {
					return nil, err
				}
				group, all = append(group, names...), complete
			}
			for _, s := range scopes {
				group = append(group, core.TermWithin(term, s))
			}
		}
		if all {
			groups = append(groups, group)
		}
	}
	if len(groups) == 0 {
		groups = [][]string{{core.TermAll}}
	}
	return groups, nil
}

// failed gives the lists of what has failed, which have an order of their own, so that no others can be read with them.
func (f *filter) failed(tx store.ReadTx, p Page) ([][]string, error) {
	var group []string
	for _, s := range f.scopes(p) {
		group = append(group, core.TermWithin(core.TermFailed, s))
	}
	switch {
	case len(group) > 0:
		return [][]string{group}, nil
	case p.Among != nil:
		names, complete, err := f.ofTenants(tx, core.TermFailed, p.Among)
		if err != nil || complete {
			return [][]string{append([]string{}, names...)}, err
		}
	}
	return [][]string{{core.TermFailed}}, nil
}

// begun gives the lists whose terms begin with what the filter says, of the tenants that it is about; nil if it says
// nothing, or if there are too many.
func (f *filter) begun(tx store.ReadTx, p Page) ([]string, error) {
	if f.begins == "" {
		return nil, nil
	}
	names, err := tx.TermNames(f.kind, f.begins, maxTenants+1)
	if err != nil || len(names) > maxTenants {
		return nil, err
	}
	scopes, out := f.scopes(p), []string{}
	for _, name := range names {
		of := core.TermTenant(name)
		if (len(scopes) == 0 || slices.Contains(scopes, of)) && (len(scopes) > 0 || p.Among == nil || p.Among(of)) {
			out = append(out, name)
		}
	}
	return out, nil
}

// ofTenants gives the lists of a term of all tenants, or those among them. complete is
// false if there are too many.
func (f *filter) ofTenants(tx store.ReadTx, term string, among func(Scope) bool) (names []string, complete bool, err error) {
	names, err = tx.TermNames(f.kind, core.TermOfTenants(term), maxTenants+1)
	complete = len(names) <= maxTenants
	if among != nil {
		names = slices.DeleteFunc(names, func(name string) bool { return !among(core.TermTenant(name)) })
	}
	return names, complete, err
}

// wanted gives the list terms within a tenant that the filter asks for: one of each group.
func (f *filter) wanted() (groups [][]string) {
	if f.status != "" {
		groups = append(groups, []string{f.status})
	}
	for _, term := range f.also {
		groups = append(groups, []string{term})
	}
	if f.tool != "" {
		groups = append(groups, []string{core.ToolTerm(f.tool)})
	}
	for _, key := range slices.Sorted(maps.Keys(f.labels)) {
		if term, ok := core.LabelTerm(key, f.labels[key]); ok {
			groups = append(groups, []string{term, core.TermMoreLabels})
		}
	}
	return groups
}

// lists are where list indexes are read: a transaction, or a batch that mends.
type lists interface {
	Scan(kind effects.Kind, term string, from store.Cursor, desc bool, limit int) ([]store.Cursor, error)
	TermNames(kind effects.Kind, prefix string, limit int) ([]string, error)
}

// withStatus gives the machines of a kind with that status, tenant by tenant, to the end or
// to the first error.
func withStatus[T ~string](in lists, kind effects.Kind, status T) iter.Seq2[store.Cursor, error] {
	return func(yield func(store.Cursor, error) bool) {
		const all = 1 << 20
		names, err := in.TermNames(kind, core.TermOfTenants(statusTerm(status)), all)
		if err != nil {
			yield(store.Cursor{}, err)
			return
		}
		for _, name := range names {
			for c, err := range cursors(in, kind, name, false) {
				if !yield(c, err) || err != nil {
					return
				}
			}
		}
	}
}

// cursors gives the cursors of a list index, to its end or to the first error.
func cursors(in lists, kind effects.Kind, term string, newest bool) iter.Seq2[store.Cursor, error] {
	return func(yield func(store.Cursor, error) bool) {
		const most = 1024
		for from, more := (store.Cursor{}), true; more; {
			found, err := in.Scan(kind, term, from, newest, most)
			if err != nil {
				yield(from, err)
				return
			}
			for _, c := range found {
				if from = c; !yield(c, nil) {
					return
				}
			}
			more = len(found) == most
		}
	}
}

// token hides a cursor, bound to the index.
func (x index) token(c store.Cursor) string {
	b := make([]byte, 0, 28)
	b = binary.BigEndian.AppendUint64(b, uint64(c.At))
	b = append(b, c.ID[:]...)
	b = binary.BigEndian.AppendUint32(b, x.sum(b))
	return base64.RawURLEncoding.EncodeToString(b)
}

func (x index) parseToken(s string) (store.Cursor, error) {
	switch {
	case s == "" && x.newest:
		return store.Cursor{At: x.until}, nil
	case s == "":
		return store.Cursor{At: x.from}, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil || len(b) != 28 || binary.BigEndian.Uint32(b[24:]) != x.sum(b[:24]) {
		return store.Cursor{}, ErrPageToken
	}
	return store.Cursor{At: effects.Time(binary.BigEndian.Uint64(b)), ID: uuid.UUID(b[8:24])}, nil
}

func (x index) sum(cursor []byte) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(x.kind))
	_, _ = h.Write([]byte{0})
	for _, name := range x.names {
		_, _ = h.Write([]byte(name))
		_, _ = h.Write([]byte{0})
	}
	_, _ = h.Write(cursor)
	return h.Sum32()
}
