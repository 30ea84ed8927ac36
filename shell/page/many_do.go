package page

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"

	"github.com/orrery-go/orrery/effects/texts"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

// Bounds of what is shown of what an act was done to, or was not.
const (
	manyFailures = 200
	manyReasons  = 50
	manyMade     = 200 // of what was made
)

// outcome is what became of many things.
type outcome struct {
	asked, done int      // done: also those that had been before
	before      int      // that had been
	failures    [][]cell // the first ones
	made        [][]cell // the first things that were made, beside what they were made of
	makes       int      // of all
	reasons     map[string]int
	broken      error // what kept the rest from being asked for
}

// read gives the things that a form carries.
func (m *many) read(form string) (out []chosen, n int, err error) {
	wrong := &apiError{Status: http.StatusBadRequest, Text: "the form does not say what it is about: load it again"}
	if err := json.Unmarshal([]byte(form), &out); err != nil {
		return nil, 0, wrong
	}
	for _, c := range out {
		known := slices.ContainsFunc(m.kinds, func(k manyKind) bool { return k.path == c.Path && k.scoped == (len(c.Names) > 0) })
		if !known || len(c.IDs)%16 != 0 {
			return nil, 0, wrong
		}
		n += c.len()
	}
	if n == 0 || n > maxMany {
		return nil, 0, wrong
	}
	return out, n, nil
}

func (p *Page) serveMany(a act) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		q, ok := p.visit(w, r)
		if !ok || !p.proven(w, r, q) {
			return
		}
		fields := filled(a.fields, r.PostForm)
		var body map[string]any
		params, ok := a.many.query(q)
		things, n, err := a.many.read(r.PostForm.Get("chosen"))
		if err == nil && !ok {
			err = &apiError{Status: http.StatusBadRequest, Text: "the filters choose nothing that this can be done to"}
		}
		if err == nil {
			body, err = q.bodyOf(a, fields)
		}
		var out outcome
		if err == nil {
			out = q.doMany(a, things, params.Get("status"), body)
			if out.asked == 0 {
				err = out.broken
			}
		}
		if err != nil {
			status, text := p.statusOf(err)
			p.showMany(w, q, a, status, fields, text)
			return
		}
		q.nav, _ = listOf(a.on[1:])
		p.render(w, q, http.StatusOK, q.outcome(a, params, n, out))
	}
}

// doMany does the act to things, some with each request of the API.
func (q *visit) doMany(a act, things []chosen, status string, body map[string]any) outcome {
	out := outcome{reasons: make(map[string]int)}
	asked := map[string]any{"act": a.many.act}
	if status != "" {
		asked["status"] = status
	}
	maps.Copy(body, a.many.always)
	if len(body) > 0 {
		asked["body"] = body
	}
	for _, c := range things {
		params := url.Values{"namespace": {c.Namespace}, "tenant": {c.Tenant}}
		for ids := range slices.Chunk(c.all(), manySent) {
			asked["ids"] = ids
			var got wire.Bulk
			if _, err := q.call(http.MethodPost, withQuery("/v1/"+c.Path+"/bulk", params), asked, &got); err != nil {
				out.broken = err
				return out
			}
			for _, r := range got.Results {
				out.add(q, c, r)
			}
		}
	}
	return out
}

// idsIn finds what differs in the reasons of things that failed for the same one.
var idsIn = regexp.MustCompile(`"?[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"?`)

func (o *outcome) add(q *visit, of chosen, r wire.BulkResult) {
	o.asked++
	if r.Error == "" {
		o.done++
		if r.Made != "" && r.Status == http.StatusOK {
			o.before++
		}
		if r.Made != "" {
			o.addMade(q, of, r)
		}
		return
	}
	reason := idsIn.ReplaceAllString(r.Error, "…")
	if _, known := o.reasons[reason]; !known && len(o.reasons) >= manyReasons {
		reason = "other reasons"
	}
	o.reasons[reason]++
	if len(o.failures) < manyFailures {
		o.failures = append(o.failures, []cell{codeOf(shortID(r.ID)).to(q.thing(of, r.ID)), number(r.Status), textOf(clip(r.Error, 500)).wide()})
	}
}

// addMade keeps what was made of a thing, of the same kind: it is new, or was made before.
func (o *outcome) addMade(q *visit, of chosen, r wire.BulkResult) {
	o.makes++
	if len(o.made) == manyMade {
		return
	}
	made := codeOf(shortID(r.Made)).to(q.thing(of, r.Made))
	if r.Status == http.StatusOK {
		made.Hint = "made before"
	}
	o.made = append(o.made, []cell{codeOf(shortID(r.ID)).to(q.thing(of, r.ID)), made})
}

// madeBlock leads to what was made.
func (o *outcome) madeBlock() block {
	b := block{Title: "What was made", Table: &table{Caption: "What was made", Head: []string{"Of", "Made"}, Rows: o.made}}
	if o.makes > len(o.made) {
		b.Note = fmt.Sprintf("The first %s of %s.", texts.Thousands(len(o.made)), texts.Thousands(o.makes))
	}
	return b
}

// outcome shows what became of each of so many things.
func (q *visit) outcome(a act, params url.Values, n int, out outcome) view {
	m := a.many
	v := view{Title: a.label, Static: true, Crumbs: q.crumbsOf(a)}
	failed := out.asked - out.done
	says := notice{Text: a.done + " It was done to " + m.number(out.done) + ".", Tone: toneGood}
	if failed > 0 {
		says = notice{Text: fmt.Sprintf("It was done to %s of %s; %s could not be done.", texts.Thousands(out.done), m.number(n), texts.Thousands(failed)), Tone: toneBad}
	}
	if out.broken != nil {
		_, text := q.p.statusOf(out.broken)
		says = notice{Text: fmt.Sprintf("It was broken off: %s. It was done to %s of %s; of %s it is not known whether it was done.", text, texts.Thousands(out.done), m.number(n), texts.Thousands(n-out.asked)), Tone: toneBad}
	}
	if out.before > 0 {
		says.Text += fmt.Sprintf(" Of %s it had been done before: nothing was made once more.", texts.Thousands(out.before))
	}
	v.Body = []block{{Notice: &says}}
	if failed > 0 {
		t := &table{Caption: "Why it could not be done", Head: []string{"Reason", "How many"}}
		for _, reason := range slices.SortedFunc(maps.Keys(out.reasons), func(x, y string) int { return out.reasons[y] - out.reasons[x] }) {
			t.Rows = append(t.Rows, []cell{textOf(clip(reason, 500)).wide(), textOf(texts.Thousands(out.reasons[reason]))})
		}
		each := block{Title: "Each that could not be done", Table: &table{Caption: "Each that could not be done", Head: []string{"Which", "Answer", "Why"}, Rows: out.failures}}
		if failed > len(out.failures) {
			each.Note = fmt.Sprintf("The first %s of %s.", texts.Thousands(len(out.failures)), texts.Thousands(failed))
		}
		v.Body = append(v.Body, block{Title: "Why it could not be done", Table: t}, each)
	}
	if out.makes > 0 {
		v.Body = append(v.Body, out.madeBlock())
	}
	v.Body = append(v.Body, block{Links: []link{{Text: "Back to the list", Href: q.listOfMany(a, params)}}})
	return v
}
