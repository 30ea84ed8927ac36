package page

import (
	"bytes"
	"context"
	"errors"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"
)

// Bounds of what a page holds of logs, whatever their length.
const (
	logLines   = 500     // of a page
	logHits    = 200     // lines with a text, of a page
	logContext = 10      // lines before one that was found
	maxLogLine = 4 << 10 // bytes of a line that are shown
	maxLogScan = 64 << 10
	maxLogFind = 200
	maxColours = 10_000   // sequences of a terminal that are shown, of a page: each makes 20 times as much HTML
	maxLogTold = 64 << 10 // bytes of an error
)

// logWanted says which part of the logs is wanted.
type logWanted struct {
	attempt   string // empty: the latest
	container string // empty: all
	from      int    // the first line, from 1; 0: the last lines
	find      string // only lines that have this text, whatever its case
}

// last reports whether the last lines are wanted.
func (w logWanted) last() bool { return w.from == 0 }

// logLine is one line of logs.
type logLine struct {
	n    int // from 1
	text string
	cut  int // bytes that are not in text
}

// logWindow takes the API's answer with logs, and keeps the lines that are wanted, and no more than a page of them.
type logWindow struct {
	want   logWanted
	stop   func() // once nothing more is wanted
	header http.Header
	status int
	told   bytes.Buffer // of an answer that is an error

	line   []byte // that is under way, at most maxLogScan
	length int    // of it
	n      int    // lines so far
	read   int64  // bytes so far
	lines  []logLine
	more   bool // there are more behind the last one
	broken bool // the answer broke off
	failed *apiError
	enough bool
}

// errEnoughLogs ends an answer of which the rest is not wanted.
var errEnoughLogs = errors.New("no more lines are wanted")

// Header implements [http.ResponseWriter].
func (l *logWindow) Header() http.Header { return l.header }

// WriteHeader implements [http.ResponseWriter].
func (l *logWindow) WriteHeader(status int) {
	if l.status == 0 {
		l.status = status
	}
}

// Flush implements [http.Flusher], which the API uses after each part.
func (l *logWindow) Flush() { l.WriteHeader(http.StatusOK) }

// Write implements [http.ResponseWriter].
func (l *logWindow) Write(b []byte) (int, error) {
	l.WriteHeader(http.StatusOK)
	if l.status != http.StatusOK {
		l.told.Write(b[:min(len(b), max(maxLogTold-l.told.Len(), 0))])
		return len(b), nil
	}
	l.read += int64(len(b))
	for rest := b; len(rest) > 0; {
		if l.enough {
			l.stop()
			return 0, errEnoughLogs
		}
		part, after, ended := bytes.Cut(rest, []byte{'\n'})
		l.length += len(part)
		l.line = append(l.line, part[:min(len(part), maxLogScan-len(l.line))]...)
		if ended {
			l.take()
		}
		rest = after
	}
	return len(b), nil
}

// end takes what has no line end.
func (l *logWindow) end() {
	if l.length > 0 && !l.enough {
		l.take()
	}
}

// take takes the line that has come to its end.
func (l *logWindow) take() {
	l.n++
	line, length := l.line, l.length
	l.line, l.length = l.line[:0], 0
	most := logLines
	switch {
	case l.n < l.want.from:
		return
	case l.want.find != "":
		most = logHits
		line = []byte(withoutSequences(string(line)))
		if !strings.Contains(strings.ToLower(string(line)), strings.ToLower(l.want.find)) {
			return
		}
	}
	if len(l.lines) == most && !l.want.last() {
		l.more, l.enough = true, true
		return
	}
	shown := line[:min(len(line), maxLogLine)]
	for cut := len(shown); cut < len(line) && cut > 0 && !utf8.RuneStart(line[cut]); cut-- { // at the border of a character
		shown = line[:cut-1]
	}
	l.lines = append(l.lines, logLine{n: l.n, text: strings.ToValidUTF8(strings.TrimSuffix(string(shown), "\r"), "\uFFFD"), cut: max(length-max(len(shown), 0), 0)})
	if l.want.find != "" && len(line) <= maxLogLine && length <= maxLogScan {
		l.lines[len(l.lines)-1].cut = 0 // what is not shown of it are sequences of a terminal
	}
	if len(l.lines) >= 2*most {
		l.lines = append(l.lines[:0], l.lines[len(l.lines)-most:]...)
	}
}

// withoutSequences is a text without the escape sequences of a terminal.
func withoutSequences(s string) string {
	if !strings.Contains(s, "\x1b") {
		return s
	}
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(s, "\x1b")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		_, s = cutSequence(rest)
	}
}

// logPath is the API's address of the logs.
func (q *visit) logPath(attempt, container string) string {
	params := q.scopeQuery()
	params.Set("attempt", attempt)
	params.Set("container", container)
	return withQuery("/v1"+pathOf("runs", q.PathValue("id"), "logs"), params)
}

// readLogs reads the logs of a run as far as they are wanted.
func (q *visit) readLogs(w logWanted) *logWindow {
	return q.readLines(q.logPath(w.attempt, w.container), w)
}

// readLines reads what the API gives at an address as far as it is wanted.
func (q *visit) readLines(path string, w logWanted) *logWindow {
	ctx, cancel := context.WithCancel(q.Context())
	defer cancel()
	got := &logWindow{want: w, stop: cancel, header: make(http.Header)}
	r, err := q.request(http.MethodGet, path, nil)
	if err != nil {
		got.failed = &apiError{Status: http.StatusBadRequest, Text: err.Error()}
		return got
	}
	whole := q.serveWhole(got, r.WithContext(ctx))
	got.end()
	got.broken = !whole && !got.enough
	if w.last() && len(got.lines) > logLines {
		got.lines = got.lines[len(got.lines)-logLines:]
	}
	if got.status != http.StatusOK {
		a := &answer{status: got.status}
		a.body.Write(got.told.Bytes())
		got.failed, _ = errors.AsType[*apiError](errorOf(a))
	}
	return got
}

// serveWhole has the API answer a request, and reports whether the answer came to its end.
func (q *visit) serveWhole(w http.ResponseWriter, r *http.Request) (whole bool) {
	defer func() {
		if p := recover(); p != nil {
			if err, ok := p.(error); !ok || !errors.Is(err, http.ErrAbortHandler) {
				panic(p)
			}
		}
	}()
	q.p.o.API.Serve(w, r, q.who)
	return true
}

// logDownload passes the API's answer on as a file.
type logDownload struct {
	http.ResponseWriter
	name   string
	status int
	told   bytes.Buffer
}

// WriteHeader implements [http.ResponseWriter]: an error is kept for a page.
func (d *logDownload) WriteHeader(status int) {
	if d.status != 0 {
		return
	}
	d.status = status
	if status == http.StatusOK {
		d.Header().Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": d.name}))
		d.ResponseWriter.WriteHeader(status)
	}
}

// Write implements [http.ResponseWriter].
func (d *logDownload) Write(b []byte) (int, error) {
	d.WriteHeader(http.StatusOK)
	if d.status != http.StatusOK {
		return d.told.Write(b)
	}
	return d.ResponseWriter.Write(b)
}

// Flush implements [http.Flusher].
func (d *logDownload) Flush() {
	if d.status == 0 || d.status == http.StatusOK {
		d.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(d.ResponseWriter).Flush()
	}
}

// Unwrap lets the API set the deadlines of the connection.
func (d *logDownload) Unwrap() http.ResponseWriter { return d.ResponseWriter }

// downloadLogs sends the logs of an attempt of a run as a file, as they are read.
func (p *Page) downloadLogs(w http.ResponseWriter, r *http.Request) {
	if q, ok := p.visit(w, r); ok {
		given := r.URL.Query()
		p.sendLog(w, q, q.logPath(given.Get("attempt"), given.Get("container")), logFile("run", q.PathValue("id"), given))
	}
}

// sendLog sends what the API gives at an address as a file of that name.
func (p *Page) sendLog(w http.ResponseWriter, q *visit, path, name string) {
	asked, err := q.request(q.Method, path, nil)
	if err != nil {
		p.fail(w, q, err)
		return
	}
	d := &logDownload{ResponseWriter: w, name: name}
	p.o.API.Serve(d, asked, q.who)
	if d.status != 0 && d.status != http.StatusOK {
		a := &answer{status: d.status}
		a.body.Write(d.told.Bytes())
		w.Header().Del("Content-Length")
		p.fail(w, q, errorOf(a))
	}
}

// logFile names the file of a download.
func logFile(what, id string, given url.Values) string {
	name := id
	for _, part := range []string{"attempt", "container"} {
		if v := given.Get(part); v != "" {
			name += "-" + part + "-" + v
		}
	}
	name = strings.Map(func(r rune) rune {
		if r == '-' || r == '.' || r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '-'
	}, clip(name, 150))
	return what + "-" + name + ".log"
}
