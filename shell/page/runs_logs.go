package page

import (
	"cmp"
	"encoding/json"
	"html/template"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

// logRefresh is after how many seconds the last lines of a run that goes on are read once more: to find them, all logs are
// read, so that it is later the longer these are.
func logRefresh(bytes int64) int { return 2 + int(min(bytes>>22, 58)) }

// runLogs shows a part of what an attempt of a run has written: its last lines, or those from a line on, or those that have a
// text in them. The logs are read as a stream, of which one part is held.
func (q *visit) runLogs() (view, error) {
	r, err := q.readRun()
	if err != nil {
		return view{}, err
	}
	w, err := q.logWanted()
	if err != nil {
		return view{}, err
	}
	got := q.readLogs(w)
	s := runBadge(r.State)
	v := view{
		Kind: "Logs of run", Title: clip(r.RunID, 200), State: &s,
		Crumbs: []link{{Text: "Runs", Href: q.page("/runs")}, {Text: clip(r.RunID, 60), Href: q.page(pathOf("runs", r.ID.String()))}},
	}
	follows := w.last() && !r.State.Terminal() && (w.attempt == "" || w.attempt == strconv.FormatUint(uint64(r.RetryAttempt), 10))
	if follows {
		v.Every = logRefresh(got.read)
	} else {
		v.Static = true
	}
	v.Body = q.logNotices(got)
	v.Body = append(v.Body, block{Table: &table{Caption: "Logs", Filter: q.logFilter(r, w), Empty: logRange(w, got, follows)}}, block{Links: q.logLinks(w, got)})
	if len(got.lines) > 0 {
		v.Body = append(v.Body, block{Text: &text{HTML: q.logHTML(w, got), Wrap: true, Tail: w.last()}})
	}
	return v, nil
}

// logWanted reads from the address which part of the logs is wanted.
func (q *visit) logWanted() (w logWanted, err error) {
	given := q.URL.Query()
	w = logWanted{attempt: given.Get("attempt"), container: given.Get("container"), find: strings.TrimSpace(given.Get("find"))}
	if from := given.Get("from"); from != "" {
		if w.from, err = strconv.Atoi(from); err != nil || w.from < 1 {
			return w, &apiError{Status: http.StatusBadRequest, Text: "from: " + strconv.Quote(clip(from, 40)) + " is not the number of a line: the first is 1"}
		}
	}
	if len(w.find) > maxLogFind {
		return w, &apiError{Status: http.StatusBadRequest, Text: "find: the text is longer than " + strconv.Itoa(maxLogFind) + " bytes"}
	}
	if w.find != "" {
		w.from = max(w.from, 1)
	}
	return w, nil
}

// logFilter asks which part of the logs is wanted.
func (q *visit) logFilter(r wire.Run, w logWanted) *filter {
	f := &filter{Path: q.p.base + q.URL.EscapedPath(), Active: w.find != "" || w.container != "" || w.attempt != "" || w.from > 0}
	f.Fields = append(f.Fields, field{Name: "find", Label: "Lines with the text", Value: w.find})
	if r.RetryAttempt > 0 {
		options := []option{{"", "the latest"}}
		first := max(int64(r.RetryAttempt)-100, 0)
		for n := int64(r.RetryAttempt); n >= first; n-- {
			options = append(options, option{strconv.FormatInt(n, 10), strconv.FormatInt(n, 10)})
		}
		f.Fields = append(f.Fields, field{Name: "attempt", Label: "Attempt", Type: fieldChoice, Options: options, Value: w.attempt})
	}
	if names := containersOf(r.Config); len(names) > 1 {
		options := []option{{"", "all"}}
		for _, n := range names {
			options = append(options, option{n, n})
		}
		f.Fields = append(f.Fields, field{Name: "container", Label: "Container", Type: fieldChoice, Options: options, Value: w.container})
	}
	for _, name := range scopeParams {
		if v := q.URL.Query().Get(name); v != "" {
			f.Keep = append(f.Keep, field{Name: name, Value: v})
		}
	}
	return f
}

// containersOf names the containers of a job's pod.
func containersOf(spec core.JobSpec) (names []string) {
	type container struct {
		Name string `json:"name"`
	}
	var pod struct {
		InitContainers []container `json:"initContainers"`
		Containers     []container `json:"containers"`
	}
	if err := json.Unmarshal(spec.PodSpec, &pod); err != nil {
		return nil
	}
	for _, c := range append(pod.InitContainers, pod.Containers...) {
		if c.Name != "" {
			names = append(names, c.Name)
		}
	}
	return names
}

// logNotices say why there are no logs, or not all.
func (q *visit) logNotices(got *logWindow) (out []block) {
	say := func(text string, t tone) { out = append(out, block{Notice: &notice{Text: text, Tone: t}}) }
	switch {
	case got.failed == nil:
	case got.failed.Status == http.StatusNotFound:
		say(got.failed.Text, toneWait)
	default:
		say(got.failed.Text, toneBad)
	}
	if got.broken {
		say("The logs broke off behind these lines: their rest could not be read.", toneBad)
	}
	if why := got.header.Get("X-Orrery-Logs-Stored-Only"); why != "" {
		say("These are the logs that were stored so far: "+why, toneWait)
	}
	if got.header.Get("X-Orrery-Logs-Truncated") == "true" {
		say("Not all of the logs were kept: "+got.header.Get("X-Orrery-Logs-Dropped-Bytes")+" bytes or more of the middle were dropped.", toneWait)
	}
	return out
}

// logRange says which lines are shown.
func logRange(w logWanted, got *logWindow, follows bool) string {
	if len(got.lines) == 0 {
		switch {
		case got.failed != nil:
			return "No lines."
		case w.find != "":
			return "No line from line " + strconv.Itoa(w.from) + " on has this text."
		case w.from > 1:
			return "There is no line " + strconv.Itoa(w.from) + ": the logs have " + howMany(uint64(got.n), "line") + "."
		}
		return "It has written nothing."
	}
	first, last := got.lines[0].n, got.lines[len(got.lines)-1].n
	text := "Lines " + strconv.Itoa(first) + " to " + strconv.Itoa(last)
	if w.find != "" {
		text = howMany(uint64(len(got.lines)), "line") + " with this text, from line " + strconv.Itoa(first) + " to " + strconv.Itoa(last)
	}
	switch {
	case got.more:
		text += "; more follow."
	default:
		text += " of " + strconv.Itoa(got.n) + "."
	}
	if follows {
		text += " The run goes on: they are read again every " + strconv.Itoa(logRefresh(got.read)) + " seconds, or when the page is loaded again."
	}
	return text
}

// logLinks lead to other parts of the logs.
func (q *visit) logLinks(w logWanted, got *logWindow) (out []link) {
	to := func(text string, path string, from int, find string) {
		params := url.Values{"attempt": {w.attempt}, "container": {w.container}, "find": {find}}
		if from > 0 {
			params.Set("from", strconv.Itoa(from))
		}
		maps.Copy(params, q.scopeQuery())
		out = append(out, link{Text: text, Href: q.p.base + withQuery(path, params)})
	}
	here := q.URL.EscapedPath()
	shown := len(got.lines) > 0
	if w.from != 1 || w.find != "" {
		to("First lines", here, 1, "")
	}
	if shown && w.find == "" && got.lines[0].n > 1 {
		to("Earlier lines", here, max(got.lines[0].n-logLines, 1), "")
	}
	if shown && got.more {
		to(cmp.Or(map[bool]string{true: "Further lines with the text"}[w.find != ""], "Later lines"), here, got.lines[len(got.lines)-1].n+1, w.find)
	}
	if !w.last() {
		to("Last lines", here, 0, "")
	}
	to("Download all", here+"/download", 0, "")
	return out
}

// logHTML writes the lines with their numbers, and with the colours that a terminal would show.
func (q *visit) logHTML(w logWanted, got *logWindow) template.HTML {
	var d markup
	c := colours{left: maxColours}
	width := len(strconv.Itoa(got.lines[len(got.lines)-1].n))
	for _, l := range got.lines {
		n := strconv.Itoa(l.n)
		pad := strings.Repeat(" ", width-len(n))
		if w.find != "" {
			params := url.Values{"attempt": {w.attempt}, "container": {w.container}, "from": {strconv.Itoa(max(l.n-logContext, 1))}}
			d.add(`<a class="ln" href="%s">%s</a> `, q.p.base+withQuery(q.URL.EscapedPath(), params)+"#L"+n, pad+n)
			d.marked(l.text, w.find)
		} else {
			d.add(`<span class="ln" id="%s">%s</span> `, "L"+n, pad+n)
			c.write(&d, l.text)
		}
		d.endLine(l)
	}
	return d.html()
}

// colours are those that lines have which a terminal would show in turn: what one line sets holds in the next.
type colours struct {
	on   []string
	left int // how many more are shown
}

func (c *colours) write(d *markup, line string) {
	if c.left -= strings.Count(line, "\x1b"); c.left < 0 {
		d.add(`%s`, withoutSequences(line))
		return
	}
	var html template.HTML
	html, c.on = ansiFrom(c.on, line)
	d.WriteString(string(html))
}

// endLine ends a line of a log, and says how much of it was cut off.
func (m *markup) endLine(l logLine) {
	if l.cut > 0 {
		m.add(`<span class="ansi-faint"> … %s</span>`, howMany(uint64(l.cut), "more byte"))
	}
	m.WriteByte('\n')
}

// marked writes a text with the places marked that have another one in them.
func (m *markup) marked(s, find string) {
	low, find := strings.ToLower(s), strings.ToLower(find)
	if len(low) != len(s) || find == "" { // the places would be others
		m.add(`%s`, s)
		return
	}
	at := 0
	for {
		i := strings.Index(low[at:], find)
		if i < 0 {
			m.add(`%s`, s[at:])
			return
		}
		m.add(`%s<mark>%s</mark>`, s[at:at+i], s[at+i:at+i+len(find)])
		at += i + len(find)
	}
}
