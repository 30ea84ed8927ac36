package page

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/effects/texts"
)

// Bounds of what is done to many things at once.
const (
	maxMany      = 10_000 // things
	manyPage     = 1000   // that are counted with one request of the API
	manySent     = 500    // that are acted on with one request
	maxCountTime = 20 * time.Second
	manyShown    = 10 // of those that were counted
)

// many says that an act is done to all that the filters of a list choose, at most [maxMany]: to those that were
// counted when the form was made, which carries their ids, and not to those that come to match afterwards. An id gives
// no right: the API checks each as if it were asked for alone. That each is still in the status in which it was counted
// is checked when the act is done: what was pending and runs by now is no pending one.
type many struct {
	act      string // of the API's request
	verb     string // on the button
	one, all string // what the things are called
	kinds    []manyKind
	filters  []field // of the list, without status
	// statuses are those that the act makes sense for; the first one is taken unless the list shows another. nil: things have
	// none.
	statuses []string
	always   map[string]any // of the body
}

// manyKind is a kind of things that the act is done to.
type manyKind struct {
	kind   string     // its word in the parameter kind; empty: there is one alone
	path   string     // of the API below /v1, and of the pages
	field  string     // of the API's answer
	fixed  url.Values // further parameters of its list
	scoped bool       // the things are known by names within a tenant, and not by ids
}

// chosen are things of one kind that were counted, as the form carries them.
type chosen struct {
	Path      string   `json:"path"`
	Namespace string   `json:"namespace,omitempty"`
	Tenant    string   `json:"tenant,omitempty"`
	IDs       []byte   `json:"ids,omitempty"` // 16 bytes each
	Names     []string `json:"names,omitempty"`
}

func (c *chosen) len() int { return len(c.IDs)/16 + len(c.Names) }

// all lists the ids of the things, or their names.
func (c *chosen) all() []string {
	out := slices.Clone(c.Names)
	for id := range slices.Chunk(c.IDs, 16) {
		out = append(out, uuid.UUID(id).String())
	}
	return out
}

func or(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// tally is what the filters choose.
type tally struct {
	chosen []chosen
	n      int
	first  [][]cell
	last   effects.Time // when the last one was created
	more   bool         // there are more than that
	slow   bool         // counting took too long: there may be more
}

// query gives the parameters of the form's address for the list that is shown; ok is false if the act makes no sense for what the list
// shows.
func (m *many) query(q *visit) (out url.Values, ok bool) {
	given := q.URL.Query()
	out = make(url.Values)
	for _, name := range m.params() {
		if v := given.Get(name); v != "" {
			out.Set(name, v)
		}
	}
	if len(m.statuses) > 0 {
		out.Set("status", cmp.Or(given.Get("status"), m.statuses[0]))
		if !slices.Contains(m.statuses, out.Get("status")) {
			return out, false
		}
	}
	return out, len(m.kindsOf(out.Get("kind"), given)) > 0
}

// params are those of the form's address.
func (m *many) params() []string {
	out := append(slices.Clone(scopeParams), "kind", "order")
	for _, f := range m.filters {
		out = append(out, f.Name)
	}
	return out
}

// kindsOf gives the kinds that a list shows: of those of the word kind, the ones whose fixed parameters the list does not have
// otherwise.
func (m *many) kindsOf(kind string, given url.Values) (out []manyKind) {
	for _, k := range m.kinds {
		fits := kind == "" || kind == k.kind
		for name, values := range k.fixed {
			fits = fits && (given.Get(name) == "" || given.Get(name) == values[0])
		}
		if fits {
			out = append(out, k)
		}
	}
	return out
}

// fields are the filters of the form, which are those of the list.
func (m *many) fields() []field {
	out := slices.Clone(m.filters)
	if len(m.statuses) > 0 {
		out = append([]field{{Name: "status", Label: "Status", Type: fieldChoice, Options: choice(m.statuses...)}}, out...)
	}
	return append(out, scopeFilters...)
}

// countAll counts what the filters of the form's address choose.
func (q *visit) countAll(a act) (*filter, tally, error) {
	var c tally
	params, ok := a.many.query(q)
	if !ok {
		return nil, c, &apiError{Status: http.StatusBadRequest, Text: "the filters choose nothing that this can be done to"}
	}
	f, asked, err := q.asking(params).filtered(a.pattern(), a.many.fields())
	if err != nil {
		return f, c, err
	}
	f.Active = false // there is no list of all
	for _, name := range []string{"kind", "order"} {
		if v := params.Get(name); v != "" {
			f.Keep = append(f.Keep, field{Name: name, Value: v})
		}
	}
	if order := params.Get("order"); order != "" {
		asked.Set("order", order)
	}
	kinds := a.many.kindsOf(params.Get("kind"), params)
	until := time.Now().Add(maxCountTime)
	for _, k := range kinds {
		err := q.countKind(k, maps.Clone(asked), &c, until)
		if forbidden(err) && len(kinds) > 1 {
			continue
		}
		if err != nil || c.more || c.slow {
			return f, c, err
		}
	}
	return f, c, nil
}

// countKind counts the things of one kind, page by page.
func (q *visit) countKind(k manyKind, params url.Values, c *tally, until time.Time) error {
	maps.Copy(params, k.fixed)
	for {
		params.Set("limit", strconv.Itoa(min(manyPage, max(maxMany-c.n, 1))))
		var got map[string]json.RawMessage
		if err := q.get("/"+k.path, params, &got); err != nil {
			return err
		}
		var page []listed
		var next string
		if err := json.Unmarshal(got[k.field], &page); err != nil {
			return fmt.Errorf("count %s: %w", k.path, err)
		}
		if raw := got["next_page_token"]; raw != nil {
			if err := json.Unmarshal(raw, &next); err != nil {
				return fmt.Errorf("count %s: %w", k.path, err)
			}
		}
		for i := range page {
			if c.n >= maxMany {
				c.more = true
				return nil
			}
			if err := c.add(q, k, &page[i]); err != nil {
				return err
			}
		}
		switch {
		case next == "":
			return nil
		case time.Now().After(until):
			c.slow = true
			return nil
		}
		params.Set("page_token", next)
	}
}

// add counts one thing.
func (c *tally) add(q *visit, k manyKind, l *listed) error {
	of := chosen{Path: k.path}
	if k.scoped {
		of.Namespace, of.Tenant = l.Namespace, l.Tenant
	}
	i := slices.IndexFunc(c.chosen, func(o chosen) bool { return o.Path == of.Path && o.Namespace == of.Namespace && o.Tenant == of.Tenant })
	if i < 0 {
		c.chosen = append(c.chosen, of)
		i = len(c.chosen) - 1
	}
	if k.scoped {
		c.chosen[i].Names = append(c.chosen[i].Names, l.ID)
	} else {
		id, err := uuid.Parse(l.ID)
		if err != nil {
			return fmt.Errorf("count %s: %w", k.path, err)
		}
		c.chosen[i].IDs = append(c.chosen[i].IDs, id[:]...)
	}
	c.n++
	c.last = l.CreatedAt
	if len(c.first) < manyShown {
		c.first = append(c.first, []cell{textOf(cmp.Or(l.name(), shortID(l.ID))).to(q.thing(of, l.ID)).wide(), q.at(l.CreatedAt), whose(l.Namespace, l.Tenant)})
	}
	return nil
}

// thing gives the page of one of the things.
func (q *visit) thing(of chosen, id string) string {
	if of.Tenant != "" {
		return q.scoped(pathOf(of.Path, id), of.Namespace, of.Tenant)
	}
	return q.page(pathOf(of.Path, id))
}

// number gives a number of the things in words.
func (m *many) number(n int) string {
	if n == 1 {
		return "1 " + m.one
	}
	return texts.Thousands(n) + " " + m.all
}

func (p *Page) serveManyForm(a act) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if q, ok := p.visit(w, r); ok {
			p.showMany(w, q, a, http.StatusOK, a.fields, "")
		}
	}
}

// showMany shows the form, which says what was counted.
func (p *Page) showMany(w http.ResponseWriter, q *visit, a act, status int, fields []field, failed string) {
	m := a.many
	filter, c, err := q.countAll(a)
	if err != nil {
		if failed == "" {
			p.fail(w, q, err)
		} else {
			p.fail(w, q, &apiError{Status: status, Text: failed})
		}
		return
	}
	ids, err := json.Marshal(c.chosen)
	if err != nil {
		p.fail(w, q, err)
		return
	}
	params, _ := m.query(q)
	f := &actForm{
		Says: a.says, Label: m.verb + " " + m.number(c.n), Danger: a.danger, Error: failed, Refused: a.refuses(q),
		Fields: append([]field{{Name: "chosen", Type: fieldHidden, Value: string(ids)}}, q.inZone(fields)...),
		Path:   p.base + withQuery(a.pattern(), params), Back: q.listOfMany(a, params), Notes: m.notes(q, filter, c),
	}
	if c.n == 0 && f.Refused == "" {
		f.Refused = "Nothing matches these filters."
	}
	q.nav, _ = listOf(a.on[1:])
	p.render(w, q, status, view{Title: a.label, ActForm: f, Static: true, Crumbs: q.crumbsOf(a)})
}

// listOfMany gives the list of which an act takes all, with its filters.
func (q *visit) listOfMany(a act, params url.Values) string {
	return q.p.base + withQuery(a.on, params)
}

// notes say what was counted.
func (m *many) notes(q *visit, f *filter, c tally) []block {
	t := &table{Caption: "The first of those that match", Head: []string{"Name", "Created", "Tenant"}, Rows: c.first, Filter: f, Empty: "Nothing matches these filters."}
	out := []block{{Table: t}}
	switch {
	case c.n > len(c.first):
		out[0].Note = fmt.Sprintf("%s match. These are the first %d of them. Those that come to match later are not taken.", m.number(c.n), len(c.first))
	case c.n > 0:
		out[0].Note = m.number(c.n) + " in all. Those that come to match later are not taken."
	}
	if !c.more && !c.slow {
		return out
	}
	why := fmt.Sprintf("More than %s match: the first %s of the list are taken.", texts.Thousands(c.n), texts.Thousands(c.n))
	if c.slow {
		why = fmt.Sprintf("Counting all that match takes too long: the first %s are taken.", texts.Thousands(c.n))
	}
	if slices.ContainsFunc(m.filters, func(f field) bool { return f.Name == "until" }) && q.URL.Query().Get("order") != "oldest" {
		before := c.last.Std().Truncate(time.Second).Add(time.Second) // as it is written
		why += fmt.Sprintf(" To go on with the others afterwards, choose those that were created before %s.", q.moment(effects.TimeOf(before)).Text)
	} else {
		why += " Do it again afterwards for the others."
	}
	return append([]block{{Notice: &notice{Text: why, Tone: toneWait}}}, out...)
}
