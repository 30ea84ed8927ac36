package page

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// An act is one thing that a visitor may do: one request of the API that changes something, with the form
// for it. Its form stands at an address of its own, so that it works without script.
type act struct {
	on   string // the address of what it is done to, such as "/actions/{id}"
	name string // the last segment of the form's address
	at   string // the form's address; empty: on/name. What is new and known by its name may have any name, also "new"

	method string // of the API's request
	api    string // its path, with the same names in braces

	label  string
	says   string // what it will do
	danger bool   // it cannot be undone
	main   bool

	fields []field
	params []string // the fields that are parameters of the API's address, and not in its body
	// notes tell what it would affect; nil: nothing.
	notes func(q *visit) ([]block, error)
	// load fills the fields in from what there is; nil: they are as they are.
	load func(q *visit) ([]field, error)
	// amend changes the body that was made of the fields; nil: it is right as it is.
	amend func(q *visit, body map[string]any, form url.Values) error
	// try shows what the act would do with a body, and changes nothing; nil: it cannot be tried.
	try func(q *visit, body map[string]any) ([]block, error)
	// after gives where the act leads; nil: to what it was done to.
	after func(q *visit, a *answer) string

	// many: it is done to all that a list shows; nil: to one thing.
	many *many

	// stale is what is said if the API refuses the act, by 409, since what its form showed is no longer so: the form is then made anew, and does not keep what was
	// sent. Empty: it keeps that, and the API's reason is told.
	stale string

	done string // what is said afterwards
}

// actForm is the form of an act.
type actForm struct {
	Says    string
	Label   string
	Danger  bool
	Fields  []field
	Path    string
	Back    string
	Error   string
	Refused string
	Preview string // the address that shows what the fields mean while they are typed; empty: none
	Try     bool   // it has a button that shows what it would do
	Notes   []block
	// Revision is the one of what is edited when the form was made, or empty.
	Revision string
}

func (a act) pattern() string {
	if a.at != "" {
		return a.at
	}
	return a.on + "/" + a.name
}

// scopeParams are the parameters that say whose a name is. They go from address to address.
var scopeParams = []string{"namespace", "tenant"}

// scopeQuery gives the parameters of the address that say whose a name is.
func (q *visit) scopeQuery() url.Values {
	out := make(url.Values)
	for _, name := range scopeParams {
		if v := q.URL.Query().Get(name); v != "" {
			out.Set(name, v)
		}
	}
	return out
}

// filledIn puts the values of the address into a path with names in braces.
func (q *visit) filledIn(path string) string {
	segments := strings.Split(path, "/")
	for i, s := range segments {
		if strings.HasPrefix(s, "{") && strings.HasSuffix(s, "}") {
			segments[i] = url.PathEscape(q.PathValue(s[1 : len(s)-1]))
		}
	}
	return strings.Join(segments, "/")
}

// page gives an address of this page for links.
func (q *visit) page(path string, params ...string) string {
	values := make(url.Values)
	for i := 0; i+1 < len(params); i += 2 {
		if params[i+1] != "" {
			values.Set(params[i], params[i+1])
		}
	}
	return q.p.base + withQuery(path, values)
}

// here gives the address of the form's subject.
func (q *visit) here(a act) string { return q.p.base + withQuery(q.filledIn(a.on), q.scopeQuery()) }

// edits reports whether the act changes the definition of what it is done to: its form carries the revision that was read.
func (a act) edits() bool { return a.method == http.MethodPut && a.at == "" }

// makes reports whether the act makes something under a name, by a request that would replace what has it.
func (a act) makes() bool { return a.method == http.MethodPut && a.at != "" }

// condition gives the headers by which the API refuses the act if somebody else was quicker, or does it although a set of
// files owns what it changes.
func (a act) condition(q *visit) http.Header {
	h := http.Header{}
	switch revision := q.PostForm.Get(revisionField); {
	case a.makes():
		h.Set("If-None-Match", "*")
	case a.edits() && revision != "":
		h.Set("If-Match", revision)
	}
	if a.defines() && q.PostForm.Get(takeOverField) != "" {
		h.Set("Orrery-Take-Over", "true")
	}
	return h
}

// revisionField is the name under which a form carries the revision of what it edits.
const revisionField = "if_match"

// existsText says why nothing was made.
const existsText = "There is one of this name already: choose another name, or edit that one."

// staleText says what became of an act that the API has refused since somebody else was quicker.
func (a act) staleText() string {
	if a.makes() {
		return existsText
	}
	return "Somebody else has changed it since you opened this form, and your change was not made. Its page and its history of changes show how it is now. What you have typed stands below: sent again, it replaces what they have changed."
}

// revision asks the API for the revision of what an act edits; "" if the API tells none.
func (q *visit) revision(a act) (string, error) {
	got, err := q.call(http.MethodGet, withQuery(q.filledIn(a.api), q.scopeQuery()), nil, nil)
	if err != nil {
		return "", err
	}
	return got.header.Get("ETag"), nil
}

// actLinks gives the links to the acts on something, by their names in the table.
func (q *visit) actLinks(on string, names ...string) (out []link) {
	for _, name := range names {
		for _, a := range q.p.acts {
			if a.on != on || a.name != name {
				continue
			}
			params := q.scopeQuery()
			if a.many != nil {
				var ok bool
				if params, ok = a.many.query(q); !ok {
					continue
				}
			}
			out = append(out, link{
				Text: a.label, Danger: a.danger, Main: a.main, Refused: a.refuses(q),
				Href: q.p.base + withQuery(q.filledIn(a.pattern()), params),
			})
		}
	}
	return out
}

func (p *Page) serveActForm(a act) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		q, ok := p.visit(w, r)
		if !ok {
			return
		}
		q.answers = make(map[string]*answer)
		if a.edits() { // before what the fields say: what changes in between is told, and not lost
			var err error
			if q.editing, err = q.revision(a); err != nil {
				p.fail(w, q, err)
				return
			}
		}
		fields, err := a.fieldsFor(q)
		if err != nil {
			p.fail(w, q, err)
			return
		}
		p.showAct(w, q, a, http.StatusOK, fields, "", nil)
	}
}

// fieldsFor gives the fields of an act's form, filled in from what there is.
func (a act) fieldsFor(q *visit) ([]field, error) {
	if a.load != nil {
		return a.load(q)
	}
	return a.fields, nil
}

func (p *Page) showAct(w http.ResponseWriter, q *visit, a act, status int, fields []field, failed string, notes []block) {
	fields, failed = q.inZone(fields), labelled(fields, failed)
	f := &actForm{
		Says: a.says, Label: a.label, Danger: a.danger, Fields: fields, Error: failed, Refused: a.refuses(q),
		Path: p.base + withQuery(q.filledIn(a.pattern()), q.scopeQuery()), Back: q.here(a), Try: a.try != nil, Notes: notes, Revision: q.editing,
	}
	if a.notes != nil {
		own, err := a.notes(q)
		if err != nil && failed == "" { // else that is what is to be told
			p.fail(w, q, err)
			return
		}
		f.Notes = append(own, notes...)
	}
	if strings.HasPrefix(a.on, "/schedules") || strings.HasPrefix(a.on, "/recurring") || strings.HasPrefix(a.on, "/jobs") {
		for i, field := range fields {
			if field.Name == "cron_expr" || field.Name == "schedule" {
				f.Preview = p.base + "/schedules/preview"
			}
			fields[i].Shows = f.Preview != "" && field.Name == "timezone"
		}
	}
	q.ofSet(a, f)
	q.nav, _ = listOf(strings.Split(a.on, "/")[1])
	p.render(w, q, status, view{Title: a.label, Of: q.subject(a), ActForm: f, Static: true, Crumbs: q.crumbsOf(a)})
}

// crumbsOf leads from the form of an act back to what it is done to, by the addresses on the way that have a page.
func (q *visit) crumbsOf(a act) []link {
	var out []link
	segments := strings.Split(strings.Trim(a.on, "/"), "/")
	for i, s := range segments {
		path := "/" + strings.Join(segments[:i+1], "/")
		list, text := listOf(s)
		if path != "/"+s {
			list = path
		}
		if !q.p.views[list] {
			continue
		}
		at := q.filledIn(list)
		if strings.HasPrefix(s, "{") {
			text = shortID(q.PathValue(strings.Trim(s, "{}")))
		}
		out = append(out, link{Text: text, Href: q.p.base + withQuery(at, q.scopeQuery())})
	}
	return out
}

// listOf gives the list in which things of a sort stand, by the first segment of their addresses, and its name.
func listOf(segment string) (path, name string) {
	if segment == "recurring" { // in the list of all schedules
		segment = "schedules"
	}
	return "/" + segment, navName(segment)
}

func (p *Page) serveAct(a act) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		q, ok := p.visit(w, r)
		if !ok || !p.proven(w, r, q) {
			return
		}
		q.answers = make(map[string]*answer)
		fields, err := a.fieldsFor(q)
		if err != nil { // without its fields the form would be read as empty, and clear all that it is about
			p.fail(w, q, err)
			return
		}
		fields, q.editing = filled(fields, r.PostForm), r.PostForm.Get(revisionField)
		if a.try != nil && r.PostForm.Has("try") {
			p.tryAct(w, q, a, fields)
			return
		}
		got, err := p.carryOut(q, a, fields)
		if err != nil {
			status, text := p.statusOf(err)
			if status == http.StatusPreconditionFailed {
				text = a.staleText()
				if a.edits() {
					q.editing, _ = q.revision(a) // if there is none any more, the form says so when it is sent again
				}
			}
			if status == http.StatusConflict && a.stale != "" {
				text = a.stale
				if fields, err = a.fieldsFor(q); err != nil {
					p.fail(w, q, err)
					return
				}
			}
			p.showAct(w, q, a, status, fields, text, nil)
			return
		}
		to := q.here(a)
		if a.after != nil {
			to = a.after(q, got)
		}
		http.Redirect(w, r, withDone(to, a), http.StatusSeeOther) //nolint:gosec // it begins with the base of the page
	}
}

// tryAct shows the form once more, with what it would do.
func (p *Page) tryAct(w http.ResponseWriter, q *visit, a act, fields []field) {
	body, err := q.bodyOf(a, fields)
	var notes []block
	if err == nil {
		notes, err = a.try(q, body)
	}
	if err != nil {
		status, text := p.statusOf(err)
		p.showAct(w, q, a, status, fields, text, nil)
		return
	}
	p.showAct(w, q, a, http.StatusOK, fields, "", notes)
}

// withDone has the page that an act leads to say what was done.
func withDone(to string, a act) string {
	if strings.Contains(to, "?") {
		return to + "&done=" + url.QueryEscape(a.key())
	}
	return to + "?done=" + url.QueryEscape(a.key())
}

// key names an act in an address: by the words of what it is done to, and its name.
func (a act) key() string {
	var words []string
	for s := range strings.SplitSeq(strings.Trim(a.on, "/"), "/") {
		if !strings.HasPrefix(s, "{") {
			words = append(words, s)
		}
	}
	return strings.Join(append(words, a.name), ".")
}

// doneText gives what is said after an act; nothing if no act has that key.
func (p *Page) doneText(key string) string {
	if key == doneFirst {
		return doneFirstText
	}
	for _, a := range p.acts {
		if key != "" && a.key() == key {
			return a.done
		}
	}
	return ""
}

// bodyOf makes the body of an act's request of the form that was sent.
func (q *visit) bodyOf(a act, fields []field) (map[string]any, error) {
	body, err := q.body(fields, q.PostForm)
	if err != nil || a.amend == nil {
		return body, err
	}
	return body, a.amend(q, body, q.PostForm)
}

func (p *Page) carryOut(q *visit, a act, fields []field) (*answer, error) {
	body, err := q.bodyOf(a, fields)
	if err != nil {
		return nil, err
	}
	params := q.scopeQuery()
	for _, name := range a.params {
		if v, given := body[name]; given {
			params.Set(name, fmt.Sprint(v))
			delete(body, name)
		}
	}
	var sent any
	if len(body) > 0 {
		sent = body
	}
	return q.callIf(a.condition(q), a.method, withQuery(q.filledIn(a.api), params), sent, nil)
}
