package shell

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"iter"
	"slices"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
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
	// read for it take so many bytes in the store; it has one machine at least. 0, or
	// more than 16 MiB: 16 MiB.
	MaxBytes int
	// Scopes are the tenants that a list over more than one tenant is about, in their
	// common order: no machine of another tenant is read. None: all. They do not count
	// if the filter has a scope, and in lists of what belongs to one machine.
	Scopes []Scope
	// Visible reports whether a machine exists for who asks; nil: all do. It is asked
	// before the filter is, outside of the store's transactions.
	Visible func(core.State) bool
}

// Bounds of a page.
const (
	DefaultPage = 50
	MaxPage     = 1000
	// maxPageBytes ends a page early, with a token to go on.
	maxPageBytes = 16 << 20
	// maxExamined bounds the records that one page looks at where a filter has no
	// index; the page then ends early, with a token to go on.
	maxExamined = 5000
)

// MachineFilter chooses machines of the runbooks; zero fields choose all.
type MachineFilter struct {
	Scope  *Scope
	Status string // as the machine's own list term has it
}

// scopeOr gives the index term of a scope, and the other one if there is no scope.
func scopeOr(s *Scope, other string) string {
	if s == nil {
		return other
	}
	return core.ScopeTerm(s.Namespace, s.Tenant)
}

// statusTerm gives the index term of a status; of all machines if the status is empty.
func statusTerm[T ~string](status T) string {
	if status == "" {
		return core.TermAll
	}
	return core.StatusTerm(core.StatusType(status))
}

// flagTerm gives the index term of a flag; of all machines if the flag is nil.
func flagTerm(flag *bool, term func(bool) string) string {
	if flag == nil {
		return core.TermAll
	}
	return term(*flag)
}

// hasTerm reports whether the machine stands in the list.
func hasTerm(s core.State, name string) bool {
	return slices.ContainsFunc(s.Terms(), func(t effects.Term) bool { return t.Name == name })
}

func listOf[S core.State](ctx context.Context, e *Engine, kind effects.Kind, f MachineFilter, p Page) ([]S, string, error) {
	return page(ctx, e.store, newest(kind, scopeOr(f.Scope, statusTerm(f.Status))).within(f.Scope, p), p, func(s S) bool {
		return f.Status == "" || hasTerm(s, core.StatusTerm(core.StatusType(f.Status)))
	})
}

func hasLabels(have, want map[string]string) bool {
	for k, v := range want {
		if h, ok := have[k]; !ok || h != v {
			return false
		}
	}
	return true
}

// index is a list index, or several that are read as one, and the order in which it is
// read.
type index struct {
	kind   effects.Kind
	terms  []string
	newest bool // first; else the first in line
}

// newest is an index that is read from its newest machine on.
func newest(kind effects.Kind, term string) index { return index{kind, []string{term}, true} }

// within narrows an index over more than one tenant to the scopes of a page.
func (x index) within(scope *Scope, p Page) index {
	if scope != nil || len(p.Scopes) == 0 {
		return x
	}
	x.terms = make([]string, 0, len(p.Scopes))
	for _, s := range p.Scopes {
		x.terms = append(x.terms, core.ScopeTerm(s.Namespace, s.Tenant))
	}
	return x
}

// cursors gives the cursors of a list index, to its end or to the first error.
func cursors(scan func(effects.Kind, string, store.Cursor, bool, int) ([]store.Cursor, error), of index) iter.Seq2[store.Cursor, error] {
	return func(yield func(store.Cursor, error) bool) {
		const most = 1024
		for from, more := (store.Cursor{}), true; more; {
			found, err := scan(of.kind, of.terms[0], from, of.newest, most)
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
	if err != nil {
		if w, ok := tx.(watchedTx); ok {
			w.undecodable(effects.Ref{Kind: kind, ID: id})
		}
		return nil, len(rec.State), nil
	}
	v, ok := st.(S)
	if !ok {
		return nil, 0, fmt.Errorf("record %s/%s decodes as %T", kind, id, st)
	}
	return &v, len(rec.State), nil
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
	if s == "" {
		return store.Cursor{}, nil
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
	for _, term := range x.terms {
		_, _ = h.Write([]byte(term))
		_, _ = h.Write([]byte{0})
	}
	_, _ = h.Write(cursor)
	return h.Sum32()
}
