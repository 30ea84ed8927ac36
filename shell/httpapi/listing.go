package httpapi

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strconv"

	"github.com/orrery-go/orrery/shell"
)

// listing serves the list of all records of one kind; Out is a record as lists show it.
type listing[S, Out any] struct {
	params []string          // of the query, beside those of every list
	may    func(*call) error // refuses tokens; nil: none
	check  func(query) error // refuses filters before the token is asked for its scope; nil: none
	limit  int               // of a page, unless the caller gives one; 0: shell.DefaultPage
	// find reads the filters of the query. The scope is nil if the list is about more
	// than one tenant.
	find  func(q query, scope *shell.Scope) (source[S], error)
	scope func(S) (namespace, tenant string)
	sees  func(context.Context, *Token, S) bool // nil: who sees its tenant
	out   func(context.Context, S) (Out, error)
	size  func(S) int // about how many bytes a record takes
}

// source is where the records of a list come from.
type source[S any] struct {
	next func(context.Context, shell.Page) ([]S, string, error)
	keep func(S) bool // what next cannot filter; nil: all
}

// sourceOf is the source of what a list of the engine gives for a filter.
func sourceOf[S, F any](list func(context.Context, F, shell.Page) ([]S, string, error), filter F) source[S] {
	return source[S]{next: func(ctx context.Context, p shell.Page) ([]S, string, error) { return list(ctx, filter, p) }}
}

// plain makes the function of a listing of one that cannot fail.
func plain[S, Out any](of func(S) Out) func(context.Context, S) (Out, error) {
	return func(_ context.Context, v S) (Out, error) { return of(v), nil }
}

// asItIs shows a record as it is stored.
func asItIs[S any](_ context.Context, v S) (S, error) { return v, nil }

// page serves one page of the list, in the form that list gives it.
func (l listing[S, Out]) page(list func(page []Out, next string) any) handler {
	return func(w http.ResponseWriter, r *http.Request, c *call) error {
		q, err := readQuery(r, slices.Concat([]string{"namespace", "tenant"}, l.params, []string{"limit", "page_token"})...)
		if err != nil {
			return err
		}
		if l.may != nil {
			if err := l.may(c); err != nil {
				return err
			}
		}
		namespace, tenant, err := q.scope()
		if err != nil {
			return err
		}
		if l.check != nil {
			if err := l.check(q); err != nil {
				return err
			}
		}
		if err := c.token.permit(namespace, tenant, q.get("tool")); err != nil {
			return err
		}
		scope := c.token.scope(namespace, tenant)
		if scope != nil {
			c.about(scope.Namespace, scope.Tenant)
		}
		from, err := l.find(q, scope)
		if err != nil {
			return err
		}
		return l.answer(w, r, q, from, list, func(v S) bool {
			ns, tn := l.scope(v)
			return l.seen(r.Context(), c.token, v) && matches(q, ns, tn) && (from.keep == nil || from.keep(v))
		})
	}
}

// seen reports whether a record exists for the holder of a token.
func (l listing[S, Out]) seen(ctx context.Context, t *Token, v S) bool {
	if l.sees != nil {
		return l.sees(ctx, t, v)
	}
	return t.seesScope(l.scope(v))
}

// answer gives the page that the query asks for of what a source has.
func (l listing[S, Out]) answer(w http.ResponseWriter, r *http.Request, q query, from source[S], list func([]Out, string) any, keep func(S) bool) error {
	p, err := q.page(cmp.Or(l.limit, shell.DefaultPage))
	if err != nil {
		return err
	}
	ctx, damaged := shell.CountDamaged(r.Context())
	found, next, err := gather(p, func(p shell.Page) ([]S, string, error) {
		return from.next(ctx, p)
	}, func(v S) (bool, int) { return keep(v), l.size(v) })
	if err != nil {
		return err
	}
	out := make([]Out, 0, len(found))
	for _, v := range found {
		o, err := l.out(r.Context(), v)
		if err != nil {
			return err
		}
		out = append(out, o)
	}
	if n := damaged(); n > 0 {
		w.Header().Set("Orrery-Damaged", strconv.Itoa(n))
	}
	return writeJSON(w, http.StatusOK, list(out, next))
}

// byStatus is the source of a kind that is filtered by a status at most.
func byStatus[S any](list func(context.Context, shell.MachineFilter, shell.Page) ([]S, string, error), statuses ...string) func(query, *shell.Scope) (source[S], error) {
	return func(q query, scope *shell.Scope) (source[S], error) {
		status, err := q.status(statuses)
		return sourceOf(list, shell.MachineFilter{Scope: scope, Status: status}), err
	}
}

// Bounds of one page, beside its limit: what it reads, and how large it gets.
const (
	maxPageRounds = 64
	maxPageBytes  = 16 << 20
	firstChunk    = 8
)

// gather fills a page with what the caller may see. It asks the engine in
// chunks that grow while the records are small, since a few may be very large;
// a page ends early, with a token to go on, if it becomes too large or too much was
// left out.
func gather[T any](p shell.Page, next func(shell.Page) ([]T, string, error), keep func(T) (bool, int)) ([]T, string, error) {
	out := make([]T, 0, min(p.Limit, shell.DefaultPage))
	limit, size, chunk, token := p.Limit, 0, firstChunk, p.Token
	for range maxPageRounds {
		list, more, err := next(shell.Page{Token: token, Limit: min(limit-len(out), chunk)})
		if err != nil {
			return nil, "", err
		}
		got := 0
		for _, v := range list {
			ok, n := keep(v)
			got += n
			if ok {
				out = append(out, v)
				size += n
			}
		}
		token = more
		if token == "" || len(out) >= limit || size > maxPageBytes {
			break
		}
		if got < maxPageBytes/8 {
			chunk = min(chunk*4, shell.MaxPage)
		}
	}
	return out, token, nil
}
