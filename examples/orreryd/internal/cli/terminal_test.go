//go:build unix

package cli

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
)

// terminal is orreryd running in a pseudo-terminal.
type terminal struct {
	t      *testing.T
	file   *os.File
	out    lockedBuffer
	ended  chan struct{}
	exited func() error
}

// inTerminal starts a client command in a pseudo-terminal that is so many columns wide.
func (p *process) inTerminal(columns uint16, env []string, args ...string) *terminal {
	p.t.Helper()
	cmd := program(p.t, args...)
	cmd.Env = append(append(cmd.Env, "ORRERY_SERVER="+p.url, "TERM=xterm-256color", "NO_COLOR="), env...)
	f, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 24, Cols: columns})
	require.NoError(p.t, err)
	term := &terminal{t: p.t, file: f, ended: make(chan struct{}), exited: cmd.Wait}
	go func() {
		defer close(term.ended)
		_, _ = io.Copy(&term.out, f) // ends with an error on Linux
	}()
	p.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-term.ended
		_ = f.Close()
	})
	return term
}

// text waits for the end of a command that does what it should, and gives what was printed.
func (m *terminal) text() string {
	m.t.Helper()
	return m.ends(0)
}

// ends waits for the end with that code, and gives what was printed.
func (m *terminal) ends(code int) string {
	m.t.Helper()
	select {
	case <-m.ended:
	case <-time.After(patience):
		require.Fail(m.t, "the command did not end", m.out.String())
	}
	err, is := m.exited(), 0
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		err, is = nil, failed.ExitCode()
	}
	require.NoError(m.t, err, m.out.String())
	require.Equal(m.t, code, is, m.out.String())
	return strings.ReplaceAll(m.out.String(), "\r\n", "\n")
}

// types answers what was asked.
func (m *terminal) types(line string) {
	m.t.Helper()
	_, err := m.file.WriteString(line)
	require.NoError(m.t, err)
}

// await waits until the terminal was given a text.
func (m *terminal) await(want string) {
	m.t.Helper()
	require.Eventually(m.t, func() bool { return strings.Contains(m.out.String(), want) }, patience, 10*time.Millisecond, "%q in %s", want, &m.out)
}

var sgr = regexp.MustCompile("\x1b\\[[0-9;]*m")

// plainText is what a terminal shows of a text with colours.
func plainText(s string) string { return sgr.ReplaceAllString(s, "") }

// lists are the commands that list something of a daemon that fill has filled.
func lists() [][]string {
	var all [][]string
	for _, line := range []string{
		"actions list", "recurring list", "queue list", "queue items mail", "job list", "run list", "pipeline list", "task list", "strategy list",
		"worker list", "lock list", "semaphore list", "backfill list", "calendars list", "occurrences list", "subscriber list", "audit", "limits", "runners",
		"job runs the-nightly-report-of-the-whole-company", "job history the-nightly-report-of-the-whole-company",
	} {
		all = append(all, strings.Fields(line))
	}
	return all
}

const longJob = `
id: the-nightly-report-of-the-whole-company
schedule: "0 2 * * MON-FRI"
timezone: America/Argentina/Buenos_Aires
podSpec:
  containers:
    - name: main
      image: none
      command: ["sh", "-c", "echo a long line that says why it did not work at all; exit 3"]
`

// fill gives each list of a daemon rows that are wide.
func (p *process) fill() {
	p.t.Helper()
	long := "a label that says much more than a narrow terminal can show, 日本語の表示も, and goes on"
	done := p.add("--wait", "--label", "hello", "--", "echo", "hello from a run that went well, and that says so at some length")
	require.NotEmpty(p.t, done)
	failed := p.do("actions", "add", "--wait", "--label", long, "--", "sh", "-c", "echo no luck today, and none tomorrow >&2; exit 3")
	require.Equal(p.t, 1, failed.code, failed.err)
	p.add("--in", "1h", "--label", long, "--", "echo", "later")
	daily := anID.FindString(p.ok("recurring", "add", "--cron", "*/15 8-18 1,15 JAN-DEC MON-FRI", "--tz", "America/Argentina/Buenos_Aires", "--description", long, "--", "true"))
	p.ok("recurring", "trigger", daily)
	p.ok("recurring", "add", "--disabled", "--cron", "@yearly", "--", "true")
	p.ok("backfill", daily, "--from", "2020-01-01T00:00:00Z", "--to", "2020-01-02T12:00:00Z")
	p.ok("queue", "push", "mail", "--key", "customer-4711-of-the-north", "--data", `{"to": "somebody.with.a.long.name@example.com", "text": "日本語"}`)
	p.ok("queue", "push", "mail", "--delay", "1h")
	p.ok("queue", "take", "mail", "--holder", "a-worker-with-a-long-name-"+long[:8])
	p.ok("queue", "declare", "a-queue-with-a-name-of-forty-characters-x")
	p.ok("queue", "pause", "a-queue-with-a-name-of-forty-characters-x")
	p.ok("worker", "declare", "a-worker-of-some-kind-with-a-name", "--queue", "a-queue-with-a-name-of-forty-characters-x", "--do", `{"run": {"tool": "command", "input": {"argv": ["true"]}}}`)
	p.ok("lock", "acquire", "deployment-of-the-shop-in-the-north", "--holder", "continuous-integration-4711-attempt-2", "--ttl", "1h")
	p.ok("semaphore", "declare", "builds-of-the-shop-in-the-north", "--slots", "2")
	p.ok("calendars", "add", "holidays-of-the-company-in-the-north", "--tz", "America/Argentina/Buenos_Aires", "--exclude", "2026-12-25")
	p.ok("subscriber", "declare", "wake-the-worker-of-the-north", "--match", `{"category": "pipeline", "action": "phase"}`, "--do", `{"wake_worker": {"name": "a-worker-of-some-kind-with-a-name"}}`)
	p.ok("task", "create", "--label", long, "--heartbeat-timeout", "24h", "--idle-timeout", "24h")
	p.do("strategy", "create", "--wait", "--label", long, "--approaches", `[{"name": "the only one that there is", "action": {"command": {"tool": "command", "input": {"argv": ["false"]}}}}]`)
	p.ok("pipeline", "start", "--label", long, "--definition", write(p.t, "p.json", `{"name": "release-of-the-shop", "phases": [{"name": "approval-of-the-boss", "approval": {"message": "Go?"}}]}`))
	p.ok("job", "apply", "-f", write(p.t, "job.yaml", longJob))
	run := p.do("job", "trigger", "the-nightly-report-of-the-whole-company", "--wait")
	require.Equal(p.t, 1, run.code, run.err)
}

func TestNoRowOfAListWrapsInATerminal(t *testing.T) {
	t.Parallel()
	p := start(t, "--db", database(t), "--config", write(t, "orrery.toml", "[runners.local]\n"))
	p.fill()
	for _, columns := range []uint16{80, 50} {
		for _, args := range lists() {
			out := p.inTerminal(columns, nil, args...).text()
			rows := strings.Split(strings.TrimSuffix(plainText(out), "\n"), "\n")
			assert.Greater(t, len(rows), 1, "%v has no row: %s", args, out)
			for _, row := range rows {
				if strings.HasPrefix(row, "There is more: ") { // a line to copy, on the standard error
					continue
				}
				assert.LessOrEqual(t, text.Width(row), int(columns), "%v at %d columns:\n%s", args, columns, plainText(out))
			}
			if columns == 80 {
				t.Logf("%v\n%s", args, plainText(out))
			}
		}
	}
}

func TestAnIDThatATerminalShowsIsTakenByOtherCommands(t *testing.T) {
	t.Parallel()
	p := start(t, "--db", database(t))
	var ids []string
	for range 3 {
		ids = append(ids, p.add("--in", "1h", "--", "true"))
	}
	out := plainText(p.inTerminal(80, nil, "actions", "list").text())
	var shown []string
	for _, row := range strings.Split(strings.TrimSpace(out), "\n")[1:] {
		shown = append(shown, strings.Fields(row)[0])
	}
	require.Len(t, shown, 3, out)
	for i, id := range ids {
		prefix := shown[2-i] // newest first
		assert.True(t, strings.HasPrefix(id, prefix), "%s of %s", prefix, id)
		assert.Less(t, len(prefix), len(id))
		assert.Equal(t, id+"\n", p.ok("actions", "show", prefix, "-o", "name"))
	}
	assert.Contains(t, p.ok("actions", "cancel", shown[0]), ids[2])
	wide := p.inTerminal(80, nil, "actions", "list", "-o", "wide").text()
	for _, id := range ids {
		assert.Contains(t, wide, id)
	}
}

func TestStatesHaveColoursInTerminalsOnly(t *testing.T) {
	t.Parallel()
	p := start(t, "--db", database(t))
	done := p.add("--wait", "--", "true")
	p.do("actions", "add", "--wait", "--", "false")
	p.add("--in", "1h", "--", "true")
	out := p.inTerminal(80, nil, "actions", "list").text()
	for _, want := range []string{"\x1b[32mcompleted\x1b[0m", "\x1b[31mfailed\x1b[0m", "\x1b[33mpending\x1b[0m"} {
		assert.Contains(t, out, want)
	}
	assert.Contains(t, p.inTerminal(80, nil, "actions", "list", "-o", "wide").text(), "\x1b[32mcompleted\x1b[0m")
	for _, env := range []string{"NO_COLOR=1", "TERM=dumb"} {
		assert.NotContains(t, p.inTerminal(80, []string{env}, "actions", "list").text(), "\x1b", env)
	}
	assert.NotContains(t, p.ok("actions", "list"), "\x1b")
	id := p.ok("actions", "list", "--status", "completed", "-o", "name")
	assert.Equal(t, done+"\n", id)
	shown := p.inTerminal(80, nil, "actions", "show", done).text()
	assert.Contains(t, shown, "status    \x1b[32mcompleted\x1b[0m")
}

func TestAListThatIsWatchedIsRedrawnAndSaysWhenItIsOld(t *testing.T) {
	t.Parallel()
	p := start(t, "--db", database(t))
	p.add("--in", "1h", "--label", "the first", "--", "true")
	w := p.inTerminal(80, nil, "actions", "list", "--watch=100ms")
	w.await("the first")
	p.add("--in", "1h", "--label", "the second", "--", "true")
	w.await("the second")
	assert.NotContains(t, w.out.String(), "OLD")
	p.signal(syscall.SIGTERM)
	require.Zero(t, p.code())
	w.await("OLD: as of ")
	w.await("no daemon answers")
	_, err := w.file.WriteString("\x03") // Ctrl-C
	require.NoError(t, err)
	out := w.text()
	assert.True(t, strings.HasPrefix(out, otherScreen))
	_, after, ok := strings.Cut(out, firstScreen)
	require.True(t, ok, "the terminal gets back what it had")
	assert.Contains(t, after, "the second", "and the last list below")
	assert.Contains(t, after, "OLD: as of ")
}

func TestAListThatIsHigherThanTheTerminalIsCutWhileItIsWatched(t *testing.T) {
	t.Parallel()
	p := start(t, "--db", database(t))
	for range 40 {
		p.add("--in", "1h", "--", "true")
	}
	w := p.inTerminal(80, nil, "actions", "list", "--watch")
	w.await("more lines")
	w.await(clearBelow)
	drawn, _, _ := strings.Cut(w.out.String(), clearBelow)
	assert.Equal(t, 23, strings.Count(drawn, "\n"), "as many lines as the terminal has, but for the one of the cursor")
	assert.Contains(t, drawn, "actions list, every 2s: as of ")
	_, err := w.file.WriteString("\x03")
	require.NoError(t, err)
	_, after, _ := strings.Cut(w.text(), firstScreen)
	assert.Equal(t, 41, strings.Count(after, "\n"))
}
