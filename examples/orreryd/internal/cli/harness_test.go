package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/bolt"
)

// asProgram makes the test binary the program itself: what the tests run is
// built once, and with the race detector where they are.
const asProgram = "ORRERYD_TEST_MAIN"

// ignoresHangups: nohup has SIGHUP ignored by what the tests start. Asked before a daemon that runs within this process listens for it: meanwhile it
// seems not to be ignored.
var ignoresHangups = signal.Ignored(syscall.SIGHUP)

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		os.Exit(Main(os.Args[1:], os.Getenv, os.Stdin, os.Stdout, os.Stderr))
	}
	flag.Parse()
	if atOnce := flag.Lookup("test.parallel"); atOnce.Value.String() == strconv.Itoa(runtime.GOMAXPROCS(0)) {
		_ = atOnce.Value.Set("8") // the tests mostly wait: for a time, for what a daemon does
	}
	os.Exit(m.Run())
}

// patience bounds every wait of these tests; nothing is expected to take long.
const patience = 60 * time.Second

// lockedBuffer collects what a process prints while it runs.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// process is orreryd running for real.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	out    <-chan string // lines of stdout
	errs   <-chan string // lines of stderr
	stderr *lockedBuffer
	url    string
	exited chan struct{}
}

// environment is that of the tests without what would configure orreryd.
func environment(extra ...string) []string {
	var env []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "ORRERY") && !strings.HasPrefix(v, "NOTIFY_SOCKET") && !strings.Contains(strings.ToUpper(v), "_PROXY=") {
			env = append(env, v)
		}
	}
	return append(append(env, asProgram+"=1"), extra...)
}

func program(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(context.Background(), exe, args...) // ended by the test itself, by name of signal
	cmd.Env = environment()
	return cmd
}

// begin starts orreryd without waiting for anything.
func begin(t *testing.T, env []string, args ...string) *process {
	t.Helper()
	return beginProgram(t, "", env, args...)
}

// beginProgram is begin with a program that becomes orreryd, or orreryd itself.
func beginProgram(t *testing.T, path string, env []string, args ...string) *process {
	t.Helper()
	cmd := program(t, args...)
	if path != "" {
		cmd.Path = path
	}
	cmd.Env = append(cmd.Env, env...)
	cmd.Dir = t.TempDir()
	stdout, outW := io.Pipe()
	stderr, errW := io.Pipe()
	p := &process{t: t, cmd: cmd, stderr: &lockedBuffer{}, exited: make(chan struct{})}
	p.out, p.errs = lines(stdout), lines(stderr)
	cmd.Stdout, cmd.Stderr = outW, io.MultiWriter(p.stderr, errW) // so that all is in p.stderr once the process has ended, whoever reads the lines
	require.NoError(t, cmd.Start())
	go func() {
		defer close(p.exited)
		_ = cmd.Wait() // its code is read from ProcessState
		_ = outW.Close()
		_ = errW.Close()
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-p.exited
		if t.Failed() {
			t.Logf("stderr of orreryd:\n%s", p.stderr)
		}
	})
	return p
}

// lines gives what is printed, line by line, and never holds the printer up.
func lines(r io.Reader) <-chan string {
	c := make(chan string, 100_000)
	go func() {
		defer close(c)
		for s := bufio.NewScanner(r); s.Scan(); {
			c <- s.Text()
		}
	}()
	return c
}

// start starts the daemon on a fresh port, and waits until it answers.
func start(t *testing.T, args ...string) *process {
	t.Helper()
	p := begin(t, nil, append([]string{"orchestrate", "--listen", "127.0.0.1:0"}, args...)...)
	p.awaitReady()
	return p
}

var urlIn = regexp.MustCompile(`http://[0-9.:]+[0-9]`)

func (p *process) awaitReady() {
	p.t.Helper()
	p.url = urlIn.FindString(await(p.t, p.out, `http://`))
}

// await gives the first line that matches.
func await(t *testing.T, from <-chan string, pattern string) string {
	t.Helper()
	want := regexp.MustCompile(pattern)
	deadline := time.After(patience)
	var seen []string
	for {
		select {
		case line, ok := <-from:
			if !ok {
				require.Failf(t, "the output ended", "without a line like %q; it was\n%s", pattern, strings.Join(seen, "\n"))
			}
			if want.MatchString(line) {
				return line
			}
			seen = append(seen, line)
		case <-deadline:
			require.Failf(t, "no such line in time", "want one like %q; there was\n%s", pattern, strings.Join(seen, "\n"))
		}
	}
}

// says waits until the process has logged a text. What it logs comes by another pipe than what it prints or answers, and may come later.
func (p *process) says(text string) {
	p.t.Helper()
	require.Eventually(p.t, func() bool { return p.said(text) }, patience, 10*time.Millisecond, text)
}

func (p *process) said(text string) bool { return strings.Contains(p.stderr.String(), text) }

// signal sends a signal.
func (p *process) signal(s os.Signal) {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Signal(s))
}

// code waits for the end and gives the exit code.
func (p *process) code() int {
	p.t.Helper()
	select {
	case <-p.exited:
	case <-time.After(patience):
		require.Fail(p.t, "orreryd did not end")
	}
	return p.cmd.ProcessState.ExitCode()
}

// result is what a command printed, and its exit code.
type result struct {
	out, err string
	code     int
}

// cli runs a command of orreryd that ends by itself, in this process: only the
// daemon needs one of its own.
func cli(t *testing.T, env []string, stdin string, args ...string) result {
	t.Helper()
	get := func(k string) string {
		for _, v := range env {
			if name, value, _ := strings.Cut(v, "="); name == k {
				return value
			}
		}
		return ""
	}
	var out, stderr bytes.Buffer
	code := Main(args, get, strings.NewReader(stdin), &out, &stderr)
	return result{out: out.String(), err: stderr.String(), code: code}
}

// do runs a client command against the daemon.
func (p *process) do(args ...string) result {
	p.t.Helper()
	return cli(p.t, []string{"ORRERY_SERVER=" + p.url}, "", args...)
}

// ok runs a client command that must succeed, and gives what it printed.
func (p *process) ok(args ...string) string {
	p.t.Helper()
	r := p.do(args...)
	require.Zerof(p.t, r.code, "orreryd %q: %s%s", args, r.out, r.err)
	return r.out
}

// verified holds that what a daemon left behind is sound.
func verified(t *testing.T, db string) {
	t.Helper()
	for _, args := range [][]string{{"check", "--db", db}, {"replay", "--verify", "--db", db}} {
		r := cli(t, nil, "", args...)
		require.Zerof(t, r.code, "orreryd %q: %s%s", args, r.out, r.err)
	}
}

// journalOf gives all that the journal of a database says, which is compressed in its files.
func journalOf(t *testing.T, db string) string {
	t.Helper()
	st, err := bolt.Open(db, bolt.Options{ReadOnly: true})
	require.NoError(t, err)
	defer func() { require.NoError(t, st.Close()) }()
	var all strings.Builder
	require.NoError(t, st.View(t.Context(), func(tx store.ReadTx) error {
		return tx.Journal(0, func(_ uint64, entry []byte) error {
			all.Write(entry)
			return nil
		})
	}))
	return all.String()
}

// action reads an action as the API shows it.
func (p *process) action(id string) core.Action {
	p.t.Helper()
	var a core.Action
	require.NoError(p.t, json.Unmarshal([]byte(p.ok("actions", "show", id, "--json")), &a))
	return a
}

// add adds an action, and gives its id.
func (p *process) add(args ...string) string {
	p.t.Helper()
	return anID.FindString(p.ok(append([]string{"actions", "add"}, args...)...))
}

// against runs a client command against a server that is not a daemon.
func against(t *testing.T, h http.HandlerFunc, args ...string) result {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return cli(t, []string{"ORRERY_SERVER=" + s.URL}, "", args...)
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func database(t *testing.T) string {
	t.Helper()
	return filepath.Join(podsDir(t), "orrery.db")
}

// podsDir is t.TempDir for a database with pods: those that a test does not wait for
// outlive its daemon, and write beside the database until they end.
func podsDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "orrery-cli-") //nolint:usetesting // t.TempDir removes once, and does not wait
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.Eventually(t, func() bool { return os.RemoveAll(dir) == nil }, patience, 20*time.Millisecond)
	})
	return dir
}

// requirePrograms skips a test if a program is missing, and fails it if the environment
// promises the programs, as the gate does.
func requirePrograms(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		if _, err := exec.LookPath(name); err != nil {
			if os.Getenv("ORRERY_REQUIRE_PROGRAMS") != "" {
				require.NoError(t, err)
			}
			t.Skipf("this test needs %s: %v", name, err)
		}
	}
}

var (
	anID   = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	aStamp = regexp.MustCompile(`20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z`)
	aTime  = regexp.MustCompile(`20\d\d-\d\d-\d\d \d\d:\d\d:\d\d`)
)

// masked hides what differs from run to run, and keeps the widths of columns.
func masked(s string) string {
	s = anID.ReplaceAllString(s, "ID..................................")
	s = aStamp.ReplaceAllString(s, "TIME....................")
	return aTime.ReplaceAllString(s, "TIME...............")
}
