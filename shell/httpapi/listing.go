package httpapi

import (
	"cmp"
	"context"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
)

// listing serves the list of all records of one kind; Out is a record as lists show it.
type listing[S, Out any] struct {
	params []string          // of the query, beside those of every list
	may    func(*call) error // refuses tokens; nil: none
	check  func(query) error // refuses filters before the token is asked for its scope; nil: none
	limit  int               // of a page, unless the caller gives one; 0: shell.DefaultPage
	// wide names the members that may be large: lists leave them out unless the parameter
	// include names them. omit takes those out of a record that were not asked for; nil if
	// there are none.
	wide []string
	omit func(v S, asked include) S
	// find reads the filters of the query. The scope is nil if the list is about more
	// than one tenant.
	find  func(q query, scope *shell.Scope) (source[S], error)
	scope func(S) (namespace, tenant string)
	sees  func(context.Context, *Token, S) bool // nil: who sees its tenant
	out   func(context.Context, S) (Out, error)
	each  func(S) []Out // instead of out, where one record shows several elements: a page ends with a record
	size  func(S) int   // about how many bytes a record takes
	// also gives a member of the answer beside the list; without a name: none. nil: there is none.
	also func(context.Context, *call) (name string, v any, err error)
	// short leaves next_page_token out at the end.
	short  bool
	lines  bool // it may be asked for as one element a line
	timed  bool // it takes since and until, by the times of creation, which it is in the order of
	fails  bool // it takes failed_since
	inLine bool // it has an order of its own, which cannot be turned around
	small  bool // its records are: a page is read at once
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

// include names the members of a list that are left out otherwise, and were asked for.
type include []string

func (i include) has(member string) bool { return slices.Contains(i, member) }

// readInclude reads which members a query asks for.
func readInclude(q query, wide []string) (include, error) {
	v := q.opt("include")
	if v == nil {
		return nil, nil
	}
	asked := strings.Split(*v, ",")
	for _, name := range asked {
		if !slices.Contains(wide, name) {
			return nil, failf(http.StatusBadRequest, "include: %q is unknown: use %s, with commas between", clip(name), strings.Join(wide, ", "))
		}
	}
	return asked, nil
}

// known lists the parameters of the query, in the order in which errors name them.
func (l listing[S, Out]) known(filters ...string) []string {
	out := slices.Concat(filters, l.params)
	if l.timed {
		out = append(out, "since", "until")
	}
	if l.fails {
		out = append(out, "failed_since")
	}
	if len(l.wide) > 0 {
		out = append(out, "include")
	}
	if !l.inLine {
		out = append(out, "order")
	}
	return append(out, "limit", "page_token")
}

// page serves one page of the list, whose elements stand in the member field.
func (l listing[S, Out]) page(s *Server, field string) handler {
	return func(w http.ResponseWriter, r *http.Request, c *call) error {
		q, err := readQuery(r, l.known("namespace", "tenant")...)
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
		visible := func(state core.State) bool {
			v, ok := state.(S)
			if !ok {
				return false
			}
			ns, tn := l.scope(v)
			return l.seen(r.Context(), c.token, v) && matches(q, ns, tn)
		}
		return l.answer(s, w, r, c, q, from, field, shell.Page{Scopes: c.token.scopes(namespace, tenant), Among: c.token.among(q), Visible: visible})
	}
}

// seen reports whether a record exists for the holder of a token.
func (l listing[S, Out]) seen(ctx context.Context, t *Token, v S) bool {
	if l.sees != nil {
		return l.sees(ctx, t, v)
	}
	return t.seesScope(l.scope(v))
}

// byStatus is the source of a kind that is filtered by a status at most.
func byStatus[S any](list func(context.Context, shell.MachineFilter, shell.Page) ([]S, string, error), statuses ...string) func(query, *shell.Scope) (source[S], error) {
	return func(q query, scope *shell.Scope) (source[S], error) {
		status, err := q.status(statuses)
		return sourceOf(list, shell.MachineFilter{Scope: scope, Status: status}), err
	}
}

// Bounds of one page, beside its limit.
const (
	maxPageRounds  = 64        // how often the engine is asked
	maxPageRead    = 16 << 20  // bytes that it reads of the records that it shows
	maxPageBytes   = 8 << 20   // bytes of the answer, but for the last element
	pageChunk      = 64        // records that are in memory at a time,
	pageChunkBytes = 256 << 10 // and their bytes, but for the last one
)

// answer sends the page that the query asks for of what a source has. No more than a
// chunk of it is in memory at a time. The page ends early, with a token to go on, if it
// becomes too large or too much of it was left out.
func (l listing[S, Out]) answer(s *Server, w http.ResponseWriter, r *http.Request, c *call, q query, from source[S], field string, p shell.Page) error {
	limit, err := q.limit(cmp.Or(l.limit, shell.DefaultPage))
	if err != nil {
		return err
	}
	asked, err := readInclude(q, l.wide)
	if err != nil {
		return err
	}
	if len(asked) > 0 {
		mine := s.heldBy(c.token)
		if wide := c.slotsFor(&mine.wide, &mine.partWide); wide != nil {
			if !wide.take() {
				return tooMany(1, "include: %d lists of %s with it are under way: wait for the answer to one", wide.most, mine.of())
			}
			defer wide.leave()
		}
	}
	if err := ordered(q, &p); err != nil {
		return err
	}
	if p.Token, err = s.openPage(r, c, q); err != nil {
		return err
	}
	if c.part != whole {
		return l.answerPart(s, w, r, c, q, from, field, p, limit, asked)
	}
	out := newPageWriter(w, field)
	if l.lines && wantsLines(r) {
		out.lines()
	}
	if err := l.beside(r, c, out); err != nil {
		return err
	}
	ctx, damaged := shell.CountDamaged(r.Context())
	out.damaged = damaged
	next, err := l.fill(ctx, s, out, from, p, limit, func(_ int, v S) error { return l.add(r.Context(), out, v, asked) })
	if err != nil {
		return err
	}
	token, err := s.sealPage(r, c, q, next)
	if err != nil {
		return err
	}
	return out.end(token, l.short)
}

// fill reads chunks of a source, each record of which is added with its place in the chunk, until the page is full; next is where the list goes on.
func (l listing[S, Out]) fill(ctx context.Context, s *Server, out *pageWriter, from source[S], p shell.Page, limit int, add func(i int, v S) error) (next string, err error) {
	read := 0
	for range maxPageRounds {
		p.Limit, p.MaxBytes = limit-out.elements, 0
		if !l.small {
			p.Limit, p.MaxBytes = min(p.Limit, pageChunk), pageChunkBytes
		}
		if p.Marks != nil {
			*p.Marks = nil
		} else if l.each != nil { // how many elements it has, only the record says
			p.Limit = 1
		}
		var list []S
		if list, p.Token, err = readChunk(ctx, s, from.next, p); err != nil {
			return "", err
		}
		for i, v := range list {
			if from.keep != nil && !from.keep(v) {
				continue
			}
			read += l.size(v)
			if err := add(i, v); err != nil {
				return "", err
			}
		}
		if p.Token == "" || out.elements >= limit || out.bytes >= maxPageBytes || read >= maxPageRead {
			break
		}
	}
	return p.Token, nil
}

// ordered reads in which order a list is asked for, and between which times, where it takes these parameters.
func ordered(q query, p *shell.Page) (err error) {
	switch order := q.get("order"); {
	case order == "oldest":
		p.OldestFirst = true
	case order != "newest" && q.opt("order") != nil:
		return failf(http.StatusBadRequest, "order: %q is unknown: use newest or oldest", clip(order))
	}
	if p.From, err = q.time("since"); err != nil {
		return err
	}
	if p.To, err = q.time("until"); err != nil {
		return err
	}
	if p.FailedSince, err = q.time("failed_since"); err != nil {
		return err
	}
	switch between := !p.From.IsZero() || !p.To.IsZero(); {
	case !p.From.IsZero() && !p.To.IsZero() && p.To <= p.From:
		return failf(http.StatusBadRequest, "until: %s is not after since, %s", p.To, p.From)
	case between && !p.FailedSince.IsZero():
		return failf(http.StatusBadRequest, "failed_since: it puts the list in the order of failures; since and until choose by creation: leave them out")
	}
	return nil
}

// add adds one record to a page, alone or behind its place.
func (l listing[S, Out]) add(ctx context.Context, out *pageWriter, v S, asked include, place ...any) error {
	if l.omit != nil {
		v = l.omit(v, asked)
	}
	if l.each != nil && len(place) > 0 {
		return out.add(append(place, l.each(v)))
	}
	if l.each != nil {
		for _, shown := range l.each(v) {
			if err := out.add(shown); err != nil {
				return err
			}
		}
		return nil
	}
	shown, err := l.out(ctx, v)
	if err != nil {
		return err
	}
	if len(place) > 0 {
		return out.add(append(place, shown))
	}
	return out.add(shown)
}

// beside adds what the list has beside its elements.
func (l listing[S, Out]) beside(r *http.Request, c *call, out *pageWriter) error {
	if l.also == nil {
		return nil
	}
	name, v, err := l.also(r.Context(), c)
	if err != nil {
		return err
	}
	return out.beside(name, v)
}

// answerPart sends a page of one partition for a router, which makes one page of those of all: each element with its place in the order
// of the list, and the page token that goes on behind it. The last one has no place, the token to go on by, and how many records could not be read.
func (l listing[S, Out]) answerPart(s *Server, w http.ResponseWriter, r *http.Request, c *call, q query, from source[S], field string, p shell.Page, limit int, asked include) error {
	out := newPageWriter(w, field)
	if err := l.beside(r, c, out); err != nil {
		return err
	}
	ctx, damaged := shell.CountDamaged(r.Context())
	out.damaged = damaged
	var marks []shell.Mark // of the chunk that was read last
	p.Marks = &marks
	next, err := l.fill(ctx, s, out, from, p, limit, func(i int, v S) error {
		token, err := s.sealPage(r, c, q, marks[i].Token)
		if err != nil {
			return err
		}
		return l.add(r.Context(), out, v, asked, hex.EncodeToString(marks[i].Order[:]), token)
	})
	if err != nil {
		return err
	}
	token, err := s.sealPage(r, c, q, next)
	if err != nil {
		return err
	}
	if err := out.add([3]any{"", token, damaged()}); err != nil {
		return err
	}
	return out.end("", true)
}
