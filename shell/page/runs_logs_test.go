package page_test

import (
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/jobs"
)

// withLogs starts a page with a run whose logs are those of a function.
func withLogs(t *testing.T, write func(w io.Writer) error) (p *jobsPage, path string) {
	t.Helper()
	p = newJobsPage(t)
	p.service.logs = func(_ uint32, _ jobs.LogOptions, w io.Writer) error { return write(w) }
	p.apply(core.JobSpec{ID: "j"})
	run := p.trigger("j")
	p.reaches(run, core.OrchestratorContainerCreating)
	return p, "/runs/" + run.String() + "/logs"
}

func numbered(from, to int) func(io.Writer) error {
	return func(w io.Writer) error {
		for i := from; i <= to; i++ {
			if _, err := fmt.Fprintf(w, "this is line %d\n", i); err != nil {
				return err
			}
		}
		return nil
	}
}

var lineText = regexp.MustCompile(`this is line (\d+)\n`)

// shownLines gives the first and the last line of a page, and how many it has.
func shownLines(s string) (first, last string, n int) {
	all := lineText.FindAllStringSubmatch(s, -1)
	if len(all) == 0 {
		return "", "", 0
	}
	return all[0][1], all[len(all)-1][1], len(all)
}

// link finds the address of a link by its text.
func link(t *testing.T, s, text string) string {
	t.Helper()
	m := regexp.MustCompile(`<a (?:rel="next" )?href="/ui([^"]*)">` + regexp.QuoteMeta(text) + `</a>`).FindStringSubmatch(s)
	require.NotNil(t, m, "there is no link %q", text)
	return html.UnescapeString(m[1])
}

func TestLogsShowTheirEndAndArePagedByLines(t *testing.T) {
	p, path := withLogs(t, numbered(1, 1234))
	s := p.read(path)
	first, last, n := shownLines(s)
	assert.Equal(t, []any{"735", "1234", 500}, []any{first, last, n})
	assert.Contains(t, s, "Lines 735 to 1234 of 1234. The run goes on: they are read again every 2 seconds")
	assert.Contains(t, s, `data-every="2"`)

	s = p.read(link(t, s, "Earlier lines"))
	first, last, n = shownLines(s)
	assert.Equal(t, []any{"235", "734", 500}, []any{first, last, n})
	assert.NotContains(t, s, "data-every")

	s = p.read(link(t, s, "First lines"))
	first, last, _ = shownLines(s)
	assert.Equal(t, []any{"1", "500"}, []any{first, last})
	s = p.read(link(t, s, "Later lines"))
	first, last, _ = shownLines(s)
	assert.Equal(t, []any{"501", "1000"}, []any{first, last})
	assert.Contains(t, p.read(path+"?from=2000"), "There is no line 2000: the logs have 1234 lines.")
	assert.Equal(t, http.StatusBadRequest, p.send("GET", path+"?from=0", nil).Code)
}

func TestLogsAreSearchedPageByPage(t *testing.T) {
	p, path := withLogs(t, numbered(1, 3000))
	s := p.read(path + "?find=LINE+2")
	assert.Equal(t, 200, strings.Count(s, "<mark>line 2</mark>"))
	assert.Contains(t, s, "200 lines with this text, from line 2 to 2088; more follow.")
	s = p.read(link(t, s, "Further lines with the text"))
	assert.Contains(t, s, "<mark>line 2</mark>")
	assert.Contains(t, p.read(path+"?find=nowhere"), "No line from line 1 on has this text.")
	assert.Equal(t, http.StatusBadRequest, p.send("GET", path+"?find="+strings.Repeat("x", 300), nil).Code)
}

func TestLogsOfAnyLengthTakeABoundedPartOfMemory(t *testing.T) {
	line := []byte(strings.Repeat("x", 1<<20)) // without an end
	p, path := withLogs(t, func(w io.Writer) error {
		for range 256 {
			if _, err := w.Write(line); err != nil {
				return err
			}
		}
		_, err := io.WriteString(w, "\nthe end\n")
		return err
	})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	s := p.read(path)
	runtime.ReadMemStats(&after)
	assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(16<<20))
	assert.Contains(t, s, "the end")
	assert.Contains(t, s, "268431360 more bytes")
	assert.Contains(t, s, `data-every="60"`, "what is long is not read every 2 seconds")
}

func TestOnceAPageOfLogsIsFullTheRestIsNotRead(t *testing.T) {
	read := 0
	p, path := withLogs(t, func(w io.Writer) error {
		for ; read < 1_000_000; read++ {
			if _, err := io.WriteString(w, "this is line 1\n"); err != nil {
				return err
			}
		}
		return nil
	})
	p.read(path + "?from=1")
	assert.Less(t, read, 1000)
}

func TestLogsHaveTheColoursOfATerminalAndTheirMarkupStaysText(t *testing.T) {
	p, path := withLogs(t, func(w io.Writer) error {
		_, err := io.WriteString(w, "\x1b[31mred <b>\nstill red\x1b[0m\r\nplain\xff")
		return err
	})
	s := p.read(path)
	assert.Contains(t, s, `<span class="ansi-fg-1">red &lt;b&gt;</span>`)
	assert.Contains(t, s, `<span class="ansi-fg-1">still red</span>`)
	assert.Contains(t, s, "plain\uFFFD")
	assert.Contains(t, p.read(path+"?find=%3Cb"), `red <mark>&lt;b</mark>&gt;`)
}

func TestLogsThatThereAreNotOrThatBreakOffSayWhy(t *testing.T) {
	p, path := withLogs(t, func(io.Writer) error { return fmt.Errorf("%w: it has not begun", jobs.ErrNoPod) })
	s := p.read(path)
	assert.Contains(t, s, "has no logs of attempt 0")
	assert.Contains(t, s, "No lines.")
	assert.Equal(t, http.StatusNotFound, p.send("GET", path+"/download", nil).Code)

	p.service.logs = func(_ uint32, _ jobs.LogOptions, w io.Writer) error {
		_, _ = io.WriteString(w, "this is line 1\n")
		return errNoLogs
	}
	s = p.read(path)
	assert.Contains(t, s, "this is line 1")
	assert.Contains(t, s, "The logs broke off behind these lines")
	assert.PanicsWithError(t, http.ErrAbortHandler.Error(), func() { p.send("GET", path+"/download", nil) }, "who downloads can tell that it is not whole")

	p.service.logs = func(uint32, jobs.LogOptions, io.Writer) error { return nil }
	assert.Contains(t, p.read(path), "It has written nothing.")
	assert.Equal(t, http.StatusNotFound, p.send("GET", "/runs/"+uuid.NewString()+"/logs", nil).Code)
}

func TestLogsAreDownloadedWholeAsAFile(t *testing.T) {
	p, path := withLogs(t, numbered(1, 5000))
	w := p.send("GET", path+"/download?attempt=0", nil)
	assert.Equal(t, http.StatusOK, w.Code)
	assert.Equal(t, "text/plain; charset=utf-8", w.Header().Get("Content-Type"))
	assert.Regexp(t, `^attachment; filename=run-[0-9a-f-]+-attempt-0\.log$`, w.Header().Get("Content-Disposition"))
	assert.Equal(t, "nosniff", w.Header().Get("X-Content-Type-Options"))
	_, _, n := shownLines(w.Body.String())
	assert.Equal(t, 5000, n)
}

func TestTheHeadOfADownloadReadsNoLog(t *testing.T) {
	p, path := withLogs(t, func(io.Writer) error {
		assert.Fail(t, "the log is read")
		return nil
	})
	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodHead, "/ui"+path+"/download?attempt=0", nil)
	r.Host, r.RemoteAddr = "127.0.0.1:7460", "127.0.0.1:50000"
	p.page.ServeHTTP(w, r)
	assert.Equal(t, http.StatusOK, w.Code)
	assert.Contains(t, w.Header().Get("Content-Disposition"), "attachment")
}

func TestLogsAreThoseOfOneAttemptAndOneContainer(t *testing.T) {
	p := newJobsPage(t)
	p.service.logs = func(attempt uint32, o jobs.LogOptions, w io.Writer) error {
		_, err := fmt.Fprintf(w, "attempt %d of %q\n", attempt, o.Container)
		return err
	}
	p.apply(core.JobSpec{ID: "j", PodSpec: []byte(`{"initContainers":[{"name":"first"}],"containers":[{"name":"main"}]}`), RetryConfig: core.RetryConfig{MaxRetries: 1}})
	run := p.trigger("j")
	p.pod(run, 1)
	for p.reaches(run, core.OrchestratorContainerCreating).RetryAttempt == 0 {
	}
	path := "/runs/" + run.String() + "/logs"
	s := p.read(path + "?attempt=0&container=first")
	assert.Contains(t, s, "attempt 0 of &#34;first&#34;")
	assert.Contains(t, s, `<option value="first" selected>`)
	assert.Contains(t, s, `<option value="0" selected>`)
	assert.NotContains(t, s, "data-every", "an attempt that has ended writes nothing more")
	assert.Contains(t, p.read(path), "attempt 1 of &#34;&#34;")
	assert.Equal(t, "/runs/"+run.String()+"/logs/download?attempt=0&container=first", link(t, s, "Download all"))
}

func TestLogsWithAColourForEachLetterMakeABoundedPage(t *testing.T) {
	p, path := withLogs(t, func(w io.Writer) error {
		for range 500 {
			if _, err := io.WriteString(w, strings.Repeat("\x1b[31ma\x1b[1mb", 300)+"\n"); err != nil {
				return err
			}
		}
		return nil
	})
	s := p.read(path)
	assert.Less(t, len(s), 2<<20)
	assert.Contains(t, s, strings.Repeat("ab", 300), "the last lines have no colours")
}
