package httpapi

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
)

// query holds the parameters of a request, once they are known to be good.
type query struct{ v url.Values }

// readQuery refuses parameters that the route does not know, so that a misspelt
// filter does not list everything, and those that are given twice; a name that
// ends in "*" may be given more than once.
func readQuery(r *http.Request, known ...string) (query, error) {
	if r.URL.RawQuery == "" {
		return query{}, nil
	}
	v, err := parsedQuery(r)
	if err != nil {
		return query{}, err
	}
	for _, name := range slices.Sorted(maps.Keys(v)) {
		repeatable := slices.Contains(known, name+"*")
		switch {
		case !repeatable && !slices.Contains(known, name):
			return query{}, failf(http.StatusBadRequest, "query: %q is unknown: %s", clip(name), knownQuery(known))
		case !repeatable:
			if err := once(v, name); err != nil {
				return query{}, err
			}
		}
		for _, value := range v[name] {
			if !utf8.ValidString(value) || strings.ContainsFunc(value, func(r rune) bool { return r < 0x20 || r == 0x7f }) {
				return query{}, failf(http.StatusBadRequest, "%s: %q has control characters or is not UTF-8", name, clip(value))
			}
		}
	}
	return query{v}, nil
}

// parsedQuery gives the parameters of a request, whatever they are.
func parsedQuery(r *http.Request) (url.Values, error) {
	v, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, failf(http.StatusBadRequest, "query: is malformed: want name=value&name=value, percent-encoded")
	}
	return v, nil
}

// once refuses a parameter that is given twice.
func once(v url.Values, name string) error {
	if n := len(v[name]); n > 1 {
		return failf(http.StatusBadRequest, "query: %q is given %d times: once is enough", name, n)
	}
	return nil
}

// noQuery serves a route that takes no parameters.
func noQuery(h handler) handler {
	return func(w http.ResponseWriter, r *http.Request, c *call) error {
		if _, err := readQuery(r); err != nil {
			return err
		}
		return h(w, r, c)
	}
}

func knownQuery(known []string) string {
	if len(known) == 0 {
		return "none is taken here"
	}
	return "use " + strings.ReplaceAll(strings.Join(known, ", "), "*", "")
}

func (q query) get(name string) string { return q.v.Get(name) }

// opt gives a parameter; nil if it is not given.
func (q query) opt(name string) *string {
	if !q.v.Has(name) {
		return nil
	}
	v := q.v.Get(name)
	return &v
}

// scope gives namespace and tenant; nil if they are not given.
func (q query) scope() (namespace, tenant *string, err error) {
	for _, name := range []string{"namespace", "tenant"} {
		if v := q.get(name); len(v) > core.MaxNameBytes {
			return nil, nil, failf(http.StatusBadRequest, "%s: %d bytes is longer than %d", name, len(v), core.MaxNameBytes)
		}
	}
	return q.opt("namespace"), q.opt("tenant"), nil
}

// scopeOf reads namespace and tenant of a query, as [query.scope] does, and refuses those that the token is not for.
func (c *call) scopeOf(q query) (namespace, tenant *string, err error) {
	if namespace, tenant, err = q.scope(); err == nil {
		err = c.token.permit(namespace, tenant, "")
	}
	return namespace, tenant, err
}

func (q query) bool(name string) (*bool, error) {
	switch v := q.opt(name); {
	case v == nil:
		return nil, nil
	case *v == "true" || *v == "false":
		b := *v == "true"
		return &b, nil
	default:
		return nil, failf(http.StatusBadRequest, "%s: %q is neither true nor false", name, clip(*v))
	}
}

// onlyTrue reads a filter that chooses what is so: nothing chooses what is not.
func (q query) onlyTrue(name string) (bool, error) {
	b, err := q.bool(name)
	if err == nil && b != nil && !*b {
		err = failf(http.StatusBadRequest, "%s: only true is a filter: leave it out for all actions", name)
	}
	return b != nil, err
}

func (q query) number(name string, def, most int) (int, error) {
	n, err := q.longNumber(name, int64(def), int64(most))
	return int(n), err
}

// longNumber is [query.number] of one that a system of 32 bits has no int for.
func (q query) longNumber(name string, def, most int64) (int64, error) {
	v := q.opt(name)
	if v == nil {
		return def, nil
	}
	n, err := strconv.ParseInt(*v, 10, 64)
	if err != nil || n < 1 || n > most {
		return 0, failf(http.StatusBadRequest, "%s: %q is not a number from 1 to %d", name, clip(*v), most)
	}
	return n, nil
}

// time reads a time; zero if it is not given.
func (q query) time(name string) (effects.Time, error) {
	v := q.opt(name)
	if v == nil {
		return 0, nil
	}
	at, err := effects.ParseTime(*v)
	if err != nil {
		return 0, failf(http.StatusBadRequest, "%s: %s", name, oneLine(err.Error()))
	}
	return at, nil
}

// batch reads the number of a batch; 0 if it is not given.
func (q query) batch(name string) (uint64, error) {
	v := q.opt(name)
	if v == nil {
		return 0, nil
	}
	n, err := strconv.ParseUint(*v, 10, 63)
	if err != nil || n == 0 {
		return 0, failf(http.StatusBadRequest, "%s: %q is not the number of a batch", name, clip(*v))
	}
	return n, nil
}

// limit reads how many elements a page has at most.
func (q query) limit(def int) (int, error) { return q.number("limit", def, shell.MaxPage) }

// labels reads label=key=value, as often as given.
func (q query) labels() (map[string]string, error) {
	if len(q.v["label"]) > core.MaxMapEntries {
		return nil, failf(http.StatusBadRequest, "label: %d labels are more than %d", len(q.v["label"]), core.MaxMapEntries)
	}
	out := make(map[string]string, len(q.v["label"]))
	for _, l := range q.v["label"] {
		k, v, ok := strings.Cut(l, "=")
		if !ok || k == "" {
			return nil, failf(http.StatusBadRequest, "label: %q is not key=value", clip(l))
		}
		if other, dup := out[k]; dup && other != v {
			return nil, failf(http.StatusBadRequest, "label: %q cannot be both %q and %q", clip(k), clip(other), clip(v))
		}
		out[k] = v
	}
	return out, nil
}

// parseID takes the one usual form of a UUID; uuid.Parse alone takes several.
func parseID(s string) (uuid.UUID, error) {
	id, err := uuid.Parse(s)
	if err != nil || len(s) != 36 || id == uuid.Nil {
		return uuid.Nil, fmt.Errorf("%q is not a UUID such as 0190b6a4-7c1f-7c3e-9d57-6f2a4b8c9d10", clip(s))
	}
	return id, nil
}

// idOf reads the id that a field of a request gives; zeros if it is left out.
func idOf(field string, given *string) (uuid.UUID, error) {
	if given == nil {
		return uuid.Nil, nil
	}
	id, err := parseID(*given)
	if err != nil {
		return id, failf(http.StatusBadRequest, "%s: %s", field, err)
	}
	return id, nil
}

// status reads which status is asked for; empty: any.
func (q query) status(known []string) (string, error) {
	v := q.opt("status")
	if v == nil || slices.Contains(known, *v) {
		return or(v, ""), nil
	}
	return "", failf(http.StatusBadRequest, "status: %q is unknown: use one of %s", clip(*v), strings.Join(known, ", "))
}

func fromQuery(q query, name string, field **string) error {
	v := q.opt(name)
	switch {
	case v == nil:
	case *field == nil:
		*field = v
	case **field != *v:
		return failf(http.StatusBadRequest, "%s: is %q in the body and %q in the query", name, clip(**field), clip(*v))
	}
	return nil
}

func or[T any](v *T, otherwise T) T {
	if v == nil {
		return otherwise
	}
	return *v
}

// between refuses a number that a conversion could make another one.
func between(field string, v, most int64) error {
	if v < 0 || v > most {
		return failf(http.StatusBadRequest, "%s: %d is not between 0 and %d", field, v, most)
	}
	return nil
}
