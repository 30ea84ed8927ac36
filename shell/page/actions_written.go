package page

import (
	"cmp"
	"html/template"
	"net/http"
	"net/url"
	"strconv"

	"github.com/orrery-go/orrery/core"
)

const (
	// writtenEvery is after how many seconds the page of an action that runs loads again what it has written.
	writtenEvery = 2
	writtenLines = 200 // that the page of an action shows, the last ones
)

// writtenPath is the API's address of what an action has written.
func (q *visit) writtenPath() string {
	params := q.scopeQuery()
	params.Set("attempt", q.URL.Query().Get("attempt"))
	return withQuery("/v1"+pathOf("actions", q.PathValue("id"), "logs"), params)
}

// written shows the last lines of what an attempt of an action has written, if it has written something, and the ways to
// those of the other attempts. live: more may come.
func (q *visit) written(a core.Action) (out []block, live bool) {
	if a.Attempt == 0 && a.LastRun == nil {
		return nil, false
	}
	live = a.Status.Type == core.StatusRunning
	got := q.readLines(q.writtenPath(), logWanted{})
	ways := q.writtenLinks(a, got)
	switch {
	case got.failed != nil && got.failed.Status == http.StatusNotFound && len(ways) == 0:
		return nil, live
	case got.failed != nil:
		tone := toneBad
		if got.failed.Status == http.StatusNotFound {
			tone = toneOff
		}
		return []block{{Title: "Written", Notice: &notice{Text: got.failed.Text, Tone: tone}}, {Links: ways}}, live
	}
	title := "Written"
	if n := got.header.Get("X-Orrery-Attempt"); n != "" && n != "1" {
		title = "Written in attempt " + n
	}
	lines := got.lines[max(len(got.lines)-writtenLines, 0):]
	if len(lines) == 0 {
		return nil, live
	}
	return append(writtenBlocks(title, lines, got.broken), block{Links: ways}), live
}

// writtenBlocks show lines that something has written.
func writtenBlocks(title string, lines []logLine, broken bool) []block {
	b := block{Title: title, ID: "written", Text: &text{HTML: writtenHTML(lines), Wrap: true, Tail: true}}
	if first := lines[0].n; first > 1 {
		b.Note = "From line " + strconv.Itoa(first) + " on."
	}
	out := []block{b}
	if broken {
		out = append(out, block{Notice: &notice{Text: "It broke off behind these lines: the rest could not be read.", Tone: toneBad}})
	}
	return out
}

// pipelineLogs shows the last lines of what the phases of a pipeline have written, or one of them.
func (q *visit) pipelineLogs() (view, error) {
	p, err := q.loadPipeline()
	if err != nil {
		return view{}, err
	}
	s := badge(string(p.Phase.Type))
	phase := q.URL.Query().Get("phase")
	v := view{
		Kind: "Output of pipeline", Title: clip(cmp.Or(p.Label, p.Definition.Name), 200), State: &s, Static: p.Phase.Type.Ended(),
		Crumbs: []link{{Text: "Pipelines", Href: q.page("/pipelines")}, {Text: clip(cmp.Or(p.Label, p.Definition.Name), 60), Href: q.page(pathOf("pipelines", p.ID.String()))}},
	}
	if !v.Static {
		v.Every = writtenEvery
	}
	f := &filter{Path: q.p.base + q.URL.EscapedPath(), Active: phase != ""}
	options := []option{{"", "all"}}
	for _, d := range p.Definition.Phases {
		options = append(options, option{d.Name, d.Name})
	}
	f.Fields = append(f.Fields, field{Name: "phase", Label: "Phase", Type: fieldChoice, Options: options, Value: phase})
	for _, name := range scopeParams {
		if value := q.URL.Query().Get(name); value != "" {
			f.Keep = append(f.Keep, field{Name: name, Value: value})
		}
	}
	params := q.scopeQuery()
	params.Set("phase", phase)
	got := q.readLines(withQuery("/v1"+pathOf("pipelines", q.PathValue("id"), "logs"), params), logWanted{})
	t := &table{Caption: "Output", Filter: f, Empty: "The last lines of what its actions have written, each below the phase that it worked for."}
	v.Body = append(v.Body, block{Table: t})
	lines := got.lines[max(len(got.lines)-logLines, 0):]
	switch {
	case got.failed != nil:
		v.Body = append(v.Body, block{Notice: &notice{Text: got.failed.Text, Tone: toneWait}})
	case len(lines) > 0:
		v.Body = append(v.Body, writtenBlocks("Written", lines, got.broken)...)
	}
	return v, nil
}

// writtenLinks lead to all of it, and to what other attempts have written.
func (q *visit) writtenLinks(a core.Action, got *logWindow) (out []link) {
	here := q.URL.EscapedPath()
	to := func(text, path, attempt string) {
		params := q.scopeQuery()
		params.Set("attempt", attempt)
		out = append(out, link{Text: text, Href: q.p.base + withQuery(path, params)})
	}
	if got.failed == nil {
		to("Download all", here+"/logs/download", q.URL.Query().Get("attempt"))
	}
	shown := got.header.Get("X-Orrery-Attempt")
	for n := max(int64(a.Attempt)-core.MaxAttemptsKept, 1); n <= int64(a.Attempt) && a.Attempt > 1; n++ {
		if number := strconv.FormatInt(n, 10); number != shown {
			to("Attempt "+number, here, number)
		}
	}
	return out
}

// writtenHTML writes lines with the colours that a terminal would show.
func writtenHTML(lines []logLine) template.HTML {
	var d markup
	c := colours{left: maxColours}
	for _, l := range lines {
		c.write(&d, l.text)
		d.endLine(l)
	}
	return d.html()
}

// downloadWritten sends what an attempt of an action has written as a file.
func (p *Page) downloadWritten(w http.ResponseWriter, r *http.Request) {
	if q, ok := p.visit(w, r); ok {
		p.sendLog(w, q, q.writtenPath(), logFile("action", q.PathValue("id"), url.Values{"attempt": {r.URL.Query().Get("attempt")}}))
	}
}
