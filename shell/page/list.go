package page

import (
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

// pageRows is how many rows a page of a list has.
const pageRows = 50

// A list is one of the API's lists as a table: its state is in the address, under the names that
// the API has for it.
type list struct {
	api     string // its path below /v1
	path    string // its address on this page
	fixed   url.Values
	filters []field
	single  bool // it is of one thing, and has no filters by tenant
	ordered bool // it is newest first, and may be turned around
	rows    int  // of a page; 0: pageRows
	caption string
	empty   string // what would fill it
	head    []string
}

// read asks the API for the page of the list that the address names, and gives the table without its rows.
func (q *visit) read(l list, out any) (*table, error) {
	rows := l.rows
	if rows == 0 {
		rows = pageRows
	}
	params := url.Values{"limit": {strconv.Itoa(rows)}}
	for name, values := range l.fixed {
		params[name] = slices.Clone(values)
	}
	fields := slices.Clone(l.filters)
	if !l.single && l.fixed.Get("tenant") == "" {
		fields = append(fields, scopeFilters...)
	}
	given := q.URL.Query()
	f, asked, err := q.filtered(l.path, fields)
	if err != nil {
		return nil, err
	}
	maps.Copy(params, asked)
	t := &table{Caption: l.caption, Head: l.head, Empty: l.empty, Filter: f}
	if order := given.Get("order"); l.ordered {
		params.Set("order", order)
		q.turn(t, order)
	}
	params.Set("page_token", given.Get("page_token"))
	if err := q.get(l.api, params, out); err != nil {
		return nil, err
	}
	if len(f.Fields) == 0 {
		t.Filter = nil
	}
	if f.Active {
		t.Empty = "Nothing matches these filters."
	}
	t.First = q.firstPage(l.path)
	return t, nil
}

// firstPage leads from a later page of the list at a path to its first one; "" on that.
func (q *visit) firstPage(path string) string {
	given := q.URL.Query()
	if given.Get("page_token") == "" {
		return ""
	}
	given.Del("page_token")
	given.Del("done")
	return q.p.base + withQuery(path, given)
}

// asking is a visit of the same page with other parameters in its address.
func (q *visit) asking(params url.Values) *visit {
	other := *q
	other.Request = q.Clone(q.Context())
	other.URL.RawQuery = params.Encode()
	return &other
}

// statusFilter chooses by the status of the machines of a kind.
func statusFilter(kind effects.Kind) field {
	return field{Name: "status", Label: "Status", Type: fieldChoice, Options: choice(append([]string{""}, core.Statuses(kind)...)...)}
}

// scopeFilters choose by tenants.
var scopeFilters = []field{{Name: "namespace", Label: "Namespace"}, {Name: "tenant", Label: "Tenant"}}

// filtered reads the filters that the address has: for the form above the list at that path, and as parameters of the API.
func (q *visit) filtered(path string, fields []field) (*filter, url.Values, error) {
	f, params, given := &filter{Path: q.p.base + path}, make(url.Values), q.URL.Query()
	for _, field := range fields {
		field.Value = given.Get(field.Name)
		if len(field.Options) > 0 && field.Options[0].Value == "" {
			field.Options = slices.Clone(field.Options)
			field.Options[0].Text = "any"
		}
		f.Active = f.Active || field.Value != ""
		if field.Value != "" {
			v := field.Value
			if field.Type == fieldTime {
				at, err := q.readTime(v)
				if err != nil {
					return nil, nil, &apiError{Status: 400, Text: field.Label + ": " + err.Error()}
				}
				v = at.String()
			}
			params.Set(field.Name, v)
		}
		f.Fields = append(f.Fields, field)
	}
	return f, params, nil
}

// turn has a list say which end of it comes first, with a link to the other one.
func (q *visit) turn(t *table, order string) {
	given := q.URL.Query()
	given.Del("page_token")
	given.Del("done")
	given.Del("order")
	t.Order = &link{Text: "Oldest first"}
	if order == "oldest" {
		t.Caption = strings.Replace(t.Caption, "newest first", "oldest first", 1)
		t.Order.Text = "Newest first"
		t.Filter.Keep = append(t.Filter.Keep, field{Name: "order", Value: order})
	} else {
		given.Set("order", "oldest")
	}
	t.Order.Href = q.p.base + withQuery(q.URL.EscapedPath(), given)
}

// next gives the address of the page that follows.
func (q *visit) next(t *table, token string) {
	if token == "" {
		return
	}
	given := q.URL.Query()
	given.Del("done")
	given.Set("page_token", token)
	t.Next = q.p.base + withQuery(q.URL.EscapedPath(), given)
}

// doneFirst has a page say that another one of its list was asked for.
const (
	doneFirst     = "first-page"
	doneFirstText = "The address was of a further page of this list, which only the token that it was shown to can open, with the same filters. This is the first page."
)

// toFirstPage gives the address of the first page of the list whose further page cannot be shown.
func (q *visit) toFirstPage() string {
	given := q.URL.Query()
	given.Del("page_token")
	given.Set("done", doneFirst)
	return q.p.base + withQuery(q.URL.EscapedPath(), given)
}

// scoped gives an address with the namespace and tenant of a name.
func (q *visit) scoped(path, namespace, tenant string) string {
	return q.page(path, "namespace", namespace, "tenant", tenant)
}

// whose tells a tenant in one cell.
func whose(namespace, tenant string) cell { return cell{Text: namespace + " / " + tenant, Code: true} }
