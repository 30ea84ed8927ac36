package docs_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	httpPage      = "docs/http.md"
	queuesPage    = "docs/queues.md"
	pipelinesPage = "docs/pipelines.md"
	pageServer    = "http://127.0.0.1:7460" // where the page's examples go
)

// Marks of the page's blocks. What one daemon was told is still there in the
// next example, and gone with the next daemon.
const (
	markDaemon = "<!-- daemon -->" // the configuration of the daemon from here on
	markRun    = "<!-- run -->"    // an example; the answer follows
	markPoll   = "<!-- run until -->"
	markCLI    = "<!-- cli -->" // lines after "$ " are commands, and what follows is what they print
)

// secretsOf makes a value for each variable that a configuration reads a secret from.
func secretsOf(config string) (env []string) {
	for _, m := range regexp.MustCompile(`(?m)^(?:secret|token)_env = "(\w+)"`).FindAllStringSubmatch(config, -1) {
		env = append(env, m[1]+"=whsec_"+base64.StdEncoding.EncodeToString([]byte(rand.Text())))
	}
	return env
}

// startDaemon runs a daemon on a free port until the test ends, and gives its
// URL.
func startDaemon(t *testing.T, config string, env ...string) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "orrery.toml"), []byte(config), 0o600))
	cmd := exec.CommandContext(t.Context(), daemonBinary(t), "orchestrate",
		"--config", "orrery.toml", "--db", "orrery.db", "--listen", "127.0.0.1:0", "--log-level", "info")
	cmd.Dir = dir
	cmd.Env = plainEnv(env...)
	if runtime.GOOS != "windows" {
		cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	}
	cmd.WaitDelay = time.Minute
	var log bytes.Buffer
	cmd.Stderr = &log
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		err = cmd.Wait()
		require.FailNow(t, "the daemon did not start", "%v\n%s", err, log.String())
	}
	t.Cleanup(func() { // the test's context has ended
		_ = cmd.Wait()
		assert.Zero(t, cmd.ProcessState.ExitCode(), "the daemon did not stop cleanly:\n%s", log.String())
	})
	url := regexp.MustCompile(`http://127\.0\.0\.1:\d+`).FindString(line)
	require.NotEmpty(t, url, "the first line of output names the address: %s", line)
	return url
}

// Values that differ from run to run. A time from 2090 on was chosen by the
// page, and must come back as it is.
const (
	anyID    = `[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}`
	anyToken = `p1\.[0-9A-Za-z_-]{60,}` // of a page
	anyTime  = `20[0-8]\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z`
	anyTook  = `"duration_ms":\d+`
	// A fencing token, of the page and of the daemon.
	pageFence, anyFence = `\b73400\d\d\b`, `\d{6,}`
)

var changing = regexp.MustCompile(`(` + anyID + `|` + anyToken + `|` + pageFence + `)|(` + anyTime + `)|(` + anyTook + `)|(\x00)`)

// compact takes the white space out of JSON, and makes a NUL of each … outside
// its strings.
func compact(text string) string {
	var b strings.Builder
	quoted, escaped := false, false
	for _, r := range text {
		switch {
		case quoted:
			b.WriteRune(r)
			quoted, escaped = escaped || r != '"', !escaped && r == '\\'
		case r == '"':
			quoted = true
			b.WriteRune(r)
		case r == '…':
			b.WriteByte(0)
		case !strings.ContainsRune(" \t\n", r):
			b.WriteRune(r)
		}
	}
	return b.String()
}

// transcript knows which of the daemon's ids stands for which of the page's.
type transcript struct{ ids map[string]string }

// here replaces the page's ids that are known.
func (tr *transcript) here(text string) string {
	return regexp.MustCompile(anyID+`|`+anyToken+`|`+pageFence).ReplaceAllStringFunc(text, func(id string) string {
		if mine, ok := tr.ids[id]; ok {
			return mine
		}
		return id
	})
}

// match reports whether an answer is the page's, and learns its ids. In JSON,
// white space does not count.
func (tr *transcript) match(page, got string) bool {
	page, got = strings.TrimSpace(page), strings.TrimSpace(got)
	if json.Valid([]byte(got)) && got != "" {
		page, got = compact(page), compact(got)
	} else {
		page = strings.ReplaceAll(page, "…", "\x00")
	}
	var pattern strings.Builder
	var unknown []string
	at := 0
	for _, m := range changing.FindAllStringSubmatchIndex(page, -1) {
		pattern.WriteString(regexp.QuoteMeta(page[at:m[0]]))
		at = m[1]
		text := page[m[0]:m[1]]
		mine, known := tr.ids[text]
		switch {
		case m[2] >= 0 && known:
			pattern.WriteString(regexp.QuoteMeta(mine))
		case m[2] >= 0 && strings.Trim(text, "0-") == "": // none
			pattern.WriteString(text)
		case m[2] >= 0:
			unknown = append(unknown, text)
			pattern.WriteString(`(` + anyID + `|` + anyToken + `|` + anyFence + `)`)
		case m[4] >= 0:
			pattern.WriteString(anyTime)
		case m[6] >= 0:
			pattern.WriteString(anyTook)
		default:
			pattern.WriteString(`(?s:.*?)`)
		}
	}
	pattern.WriteString(regexp.QuoteMeta(page[at:]))
	found := regexp.MustCompile(`^` + pattern.String() + `$`).FindStringSubmatch(got)
	if found == nil {
		return false
	}
	learned := map[string]string{}
	for i, id := range unknown {
		if before, ok := learned[id]; ok && before != found[i+1] {
			return false // one id of the page, two of the daemon's
		}
		learned[id] = found[i+1]
	}
	maps.Copy(tr.ids, learned)
	return true
}

// answer is what the page shows of one, or what one was.
type answer struct {
	status  string
	headers []string
	body    string
}

func parseAnswer(text string) answer {
	head, body, _ := strings.Cut(strings.ReplaceAll(text, "\r\n", "\n"), "\n\n")
	lines := strings.Split(strings.TrimSpace(head), "\n")
	return answer{status: strings.TrimSpace(lines[0]), headers: lines[1:], body: body}
}

// is reports whether the page's answer is the one that came: its status, the
// headers that it shows, its body.
func (tr *transcript) is(page, got answer) bool {
	if page.status != got.status || !tr.match(page.body, got.body) {
		return false
	}
	for _, want := range page.headers {
		name, value, _ := strings.Cut(want, ": ")
		if !slices.ContainsFunc(got.headers, func(h string) bool {
			n, v, _ := strings.Cut(h, ": ")
			return strings.EqualFold(n, name) && tr.match(value, v)
		}) {
			return false
		}
	}
	return true
}

// example is a marked block with its answer.
type example struct {
	markedBlock
	page      string
	poll, cli bool
}

// chapter is one daemon of the page, with its examples.
type chapter struct {
	config   fence
	examples []example
}

func chapters(page, doc string) []chapter {
	var all []chapter
	_, fences := splitMarkdown(doc)
	for i, f := range fences {
		mark := lineAbove(doc, f)
		switch mark {
		case markDaemon:
			all = append(all, chapter{config: f})
		case markRun, markPoll, markCLI:
			e := example{markedBlock: markedBlock{fence: f}, page: page, poll: mark == markPoll, cli: mark == markCLI}
			if i+1 < len(fences) {
				e.next = fences[i+1]
			}
			last := &all[len(all)-1]
			last.examples = append(last.examples, e)
		}
	}
	return all
}

// shell runs the page's commands. Its curl writes the last answer's headers to
// a file, and is silent.
type shell struct {
	dir string
	env []string // beside what it needs
}

func newShell(t *testing.T, env ...string) shell {
	t.Helper()
	sh := shell{dir: t.TempDir(), env: env}
	rc := "silent\nshow-error\nmax-time = 60\ndump-header = " + strconv.Quote(filepath.Join(sh.dir, "headers")) + "\n"
	require.NoError(t, os.WriteFile(filepath.Join(sh.dir, ".curlrc"), []byte(rc), 0o600))
	return sh
}

func (sh shell) run(ctx context.Context, script string) (answer, error) {
	headers := filepath.Join(sh.dir, "headers")
	if err := os.RemoveAll(headers); err != nil {
		return answer{}, err
	}
	cmd := exec.CommandContext(ctx, "sh", "-eu", "-c", script)
	cmd.Dir = sh.dir
	cmd.Env = append(plainEnv("CURL_HOME="+sh.dir, "NO_PROXY=*"), sh.env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return answer{}, fmt.Errorf("%w: %s", err, stderr.String())
	}
	head, err := os.ReadFile(headers)
	if err != nil {
		return answer{}, err
	}
	got := parseAnswer(string(head))
	got.body = string(out)
	return got, nil
}

func TestTheExamplesOfTheHTTPPagesAreAnsweredAsTheySay(t *testing.T) {
	for _, program := range []string{"sh", "curl", "openssl"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("the page's examples need %s: %v", program, err)
		}
	}
	for _, page := range []string{httpPage, queuesPage, pipelinesPage} {
		all := chapters(page, readFile(t, page))
		require.NotEmpty(t, all)
		for _, ch := range all {
			t.Run(fmt.Sprintf("%s, the daemon of line %d", page, ch.config.line), func(t *testing.T) {
				secrets := secretsOf(ch.config.text)
				url := startDaemon(t, ch.config.text, secrets...)
				sh := newShell(t, secrets...)
				tr := &transcript{ids: map[string]string{}}
				require.NotEmpty(t, ch.examples)
				for _, e := range ch.examples {
					if e.cli {
						replayCLI(t, tr, url, e)
						continue
					}
					replay(t, sh, tr, url, e)
				}
			})
		}
	}
}

// replayCLI types the commands of one example at the daemon.
func replayCLI(t *testing.T, tr *transcript, url string, e example) {
	t.Helper()
	for _, typed := range strings.Split("\n"+e.fence.text, "\n$ ")[1:] {
		command, want, _ := strings.Cut(typed, "\n")
		line, ok := strings.CutPrefix(tr.here(command), "orreryd ")
		require.True(t, ok, "%s:%d: %s", e.page, e.fence.line, command)
		cmd := exec.CommandContext(t.Context(), "sh", "-euc", `"$0" `+line, daemonBinary(t))
		cmd.Env = plainEnv("ORRERY_SERVER="+url, "NO_PROXY=*")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s:%d: %s: %s", e.page, e.fence.line, command, out)
		require.True(t, tr.match(want, string(out)), "%s:%d: %s\nthe page says\n%s\nbut it is\n%s", e.page, e.fence.line, command, want, out)
	}
}

// replay runs one example.
func replay(t *testing.T, sh shell, tr *transcript, url string, e example) {
	t.Helper()
	require.Equal(t, "http", e.next.lang, "%s:%d: the answer must follow", e.page, e.fence.line)
	script := strings.ReplaceAll(tr.here(e.fence.text), pageServer, url)
	require.NotContains(t, script, ":7460", "%s:%d", e.page, e.fence.line)
	want := parseAnswer(e.next.text)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		got, err := sh.run(ctx, script)
		if err == nil && tr.is(want, got) {
			return
		}
		if err != nil || !e.poll {
			require.FailNow(t, "another answer", "%s:%d: %v\n%s\nthe page says\n%s\nbut it is\n%s\n%s\n\n%s",
				e.page, e.fence.line, err, e.fence.text, e.next.text, got.status, strings.Join(got.headers, "\n"), got.body)
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			require.FailNow(t, "never the answer of the page", "%s:%d: the last one was\n%s\n%s", e.page, e.fence.line, got.status, got.body)
		}
	}
}

func TestAnswersAreComparedButForWhatChanges(t *testing.T) {
	const (
		id1, id2 = "01a1fd32-18c1-7d4b-8589-f434ed7ff0bd", "fb8b4d6f-2e6b-4e61-9008-224e12bafa11"
		id3      = "0190b6a4-7c1f-7c3e-9d57-6f2a4b8c9d10"
	)
	tests := []struct {
		name, page, got string
		same            bool
	}{
		{"white space", "{\n \"a\": [1, 2] }", `{"a":[1,2]}`, true},
		{"white space in a string", `{"a":"b c"}`, `{"a":"bc"}`, false},
		{"another value", `{"a":1}`, `{"a":2}`, false},
		{"a field more", `{"a":1}`, `{"a":1,"b":2}`, false},
		{"left out at the end", `{"a":1, …}`, `{"a":1,"b":2}`, true},
		{"left out in the middle", `{"a":1, …, "c":3}`, `{"a":1,"b":{},"c":3}`, true},
		{"left out, but then another", `{"a":1, …, "c":3}`, `{"a":1,"b":2,"c":4}`, false},
		{"dots in a string", `{"a":"…"}`, `{"a":"b"}`, false},
		{"an escaped quote", `{"a":"\" …"}`, `{"a":"\" …"}`, true},
		{"a time", `{"a":"2026-01-01T00:00:00.000Z"}`, `{"a":"2027-12-31T23:59:59.999Z"}`, true},
		{"a time in another form", `{"a":"2026-01-01T00:00:00.000Z"}`, `{"a":"2026-01-01T00:00:00Z"}`, false},
		{"a time that was chosen", `{"a":"2090-01-01T00:00:00.000Z"}`, `{"a":"2090-01-02T00:00:00.000Z"}`, false},
		{"how long it took", `{"duration_ms": 7}`, `{"duration_ms":12}`, true},
		{"an id", `{"a":"` + id1 + `"}`, `{"a":"` + id2 + `"}`, true},
		{"an id and none", `{"a":"` + id1 + `"}`, `{"a":""}`, false},
		{"no id", `{"a":"00000000-0000-0000-0000-000000000000"}`, `{"a":"` + id2 + `"}`, false},
		{"one id twice", `["` + id1 + `","` + id1 + `"]`, `["` + id2 + `","` + id2 + `"]`, true},
		{"one id that is two", `["` + id1 + `","` + id1 + `"]`, `["` + id2 + `","` + id3 + `"]`, false},
		{"text", "a 1\n…\nb 2", "a 1\nx\ny\nb 2\n", true},
		{"other text", "a 1", "a 2", false},
		{"nothing", "", "", true},
		{"something for nothing", "", "{}", false},
	}
	for _, tt := range tests {
		tr := &transcript{ids: map[string]string{}}
		assert.Equal(t, tt.same, tr.match(tt.page, tt.got), tt.name)
	}
	tr := &transcript{ids: map[string]string{}}
	require.True(t, tr.match(`{"id":"`+id1+`"}`, `{"id":"`+id2+`"}`))
	assert.Equal(t, "curl /x/"+id2+"/y", tr.here("curl /x/"+id1+"/y"))
	assert.False(t, tr.match(`{"id":"`+id1+`"}`, `{"id":"`+id3+`"}`), "a known id stays the same")
	page := parseAnswer("HTTP/1.1 200 OK\nAllow: GET\n\n{}\n")
	assert.True(t, tr.is(page, parseAnswer("HTTP/1.1 200 OK\r\nDate: x\r\nallow: GET\r\n\r\n{}")))
	assert.False(t, tr.is(page, parseAnswer("HTTP/1.1 200 OK\r\nallow: PUT\r\n\r\n{}")))
	assert.False(t, tr.is(page, parseAnswer("HTTP/1.1 201 Created\r\nallow: GET\r\n\r\n{}")))
}

// openAPI is the part of the API's description that the page must cover.
type openAPI struct {
	Paths map[string]map[string]struct {
		Parameters []struct {
			Ref string `json:"$ref"`
		} `json:"parameters"`
		Responses map[string]any `json:"responses"`
	} `json:"paths"`
	Components struct {
		Parameters map[string]struct {
			Name, In string
		} `json:"parameters"`
		Schemas map[string]struct {
			Properties map[string]any `json:"properties"`
		} `json:"schemas"`
	} `json:"components"`
}

func TestTheHTTPPagesHaveEveryRouteParameterFieldAndStatus(t *testing.T) {
	var api openAPI
	require.NoError(t, json.Unmarshal([]byte(readFile(t, "shell/httpapi/openapi.json")), &api))
	doc := readFile(t, httpPage) + "\n" + readFile(t, queuesPage) + "\n" + readFile(t, pipelinesPage)
	prose, _ := splitMarkdown(doc)
	page := strings.Join(prose, "\n")

	var routes []string
	statuses := map[string]bool{"405": true, "500": true} // of all paths, as the description's own text says
	for path, methods := range api.Paths {
		for method, op := range methods {
			routes = append(routes, strings.ToUpper(method)+" "+path)
			for status := range op.Responses {
				if status >= "400" {
					statuses[status] = true
				}
			}
			for _, p := range op.Parameters {
				param := api.Components.Parameters[strings.TrimPrefix(p.Ref, "#/components/parameters/")]
				require.NotEmpty(t, param.Name, p.Ref)
				assert.Contains(t, page, "`"+param.Name+"`", "the parameter %s of %s %s", param.Name, method, path)
			}
		}
	}
	require.NotEmpty(t, routes)
	var headings []string
	for i, line := range prose {
		if !strings.HasPrefix(line, "### `") {
			continue
		}
		heading := spans(line)[0]
		headings = append(headings, heading)
		next := slices.IndexFunc(prose[i+1:], func(l string) bool { return strings.HasPrefix(l, "#") })
		section := prose[i+1:]
		if next >= 0 {
			section = section[:next]
		}
		assert.True(t, slices.Contains(section, markRun) || slices.Contains(section, markPoll), "%s has no example that is run", heading)
	}
	assert.ElementsMatch(t, routes, headings)

	for _, schema := range []string{"ActionRequest", "RecurringRequest", "RecurringPatch", "RunPolicy", "Reason", "TriggerRequest", "Occurrence", "Info",
		"QueueConfig", "QueueRate", "Retry", "PushRequest", "TakeRequest", "FailRequest", "CompleteRequest", "ExtendRequest", "RedriveRequest", "PurgeRequest",
		"PipelineRequest", "ApprovalRequest", "SignalRequest", "PhaseCompleteRequest", "PhaseFailRequest", "HeartbeatRequest", "RecoverRequest",
		"EvaluateRequest", "WorkerRequest", "AcquireSlotsRequest", "HolderRequest", "SubscriberRequest", "EventRequest", "EventMatch", "Reaction"} {
		require.NotEmpty(t, api.Components.Schemas[schema].Properties, schema)
		for field := range api.Components.Schemas[schema].Properties {
			assert.True(t, strings.Contains(page, "`"+field+"`") || strings.Contains(doc, `"`+field+`"`), "the field %s of %s", field, schema)
		}
	}
	listed := map[string]bool{}
	for _, tb := range tablesOf(doc, "status") {
		for _, row := range tb.rows {
			if row[0] >= "400" {
				listed[row[0]] = true
			}
		}
	}
	for status := range statuses {
		assert.True(t, listed[status], "status %s", status)
	}
}

func TestTheHTTPPageHasEveryMetric(t *testing.T) {
	names, err := filepath.Glob(filepath.Join(root, "shell", "httpapi", "*.go"))
	require.NoError(t, err)
	own, err := filepath.Glob(filepath.Join(root, "examples", "orreryd", "internal", "daemon", "*.go"))
	require.NoError(t, err)
	names = append(names, own...)
	var metrics []string
	literal := regexp.MustCompile(`"((?:orrery|recurring)_[a-z_]+)", *(?:Help: *)?"`)
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		b, err := os.ReadFile(name)
		require.NoError(t, err)
		for _, m := range literal.FindAllStringSubmatch(string(b), -1) {
			metrics = append(metrics, m[1])
		}
	}
	require.NotEmpty(t, metrics)
	var rows []string
	for _, tb := range tablesOf(readFile(t, httpPage), "metric") {
		for _, row := range tb.rows {
			rows = append(rows, spans(row[0])...)
		}
	}
	assert.ElementsMatch(t, metrics, rows)
}

func TestTheQueuesPageShowsTheSmallExampleAsItIs(t *testing.T) {
	assert.Contains(t, readFile(t, queuesPage), "```go\n"+readFile(t, "examples/queue/main.go")+"```\n")
}
