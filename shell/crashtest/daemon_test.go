//go:build unix

package crashtest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// daemonConfig makes everything come soon. The tool is a shell of the system,
// which starts fast, and writes its line with one call.
const daemonConfig = `
db = %q
listen = "127.0.0.1:0"
tick_rate_seconds = 1

[engine]
recover_after_seconds = %v
lease_ttl_seconds = %v
stop_timeout_seconds = 5

[tools.line]
type = "command"
concurrency = 8

[webhooks.hook]
tool = "line"
signature = "none"
namespace = "crash"
tenant = "crash"

[webhooks.hook.tool_input]
argv = ["/bin/sh", "-c", %q, "line", %q, "0", "0", "0"]
`

// toolScript takes the file, the seconds before and after, and its exit code.
const toolScript = `[ "$2" = 0 ] || sleep "$2"
printf '%-255s\n' "$ORRERY_IDEMPOTENCY_KEY $ORRERY_ATTEMPT" >> "$1"
[ "$3" = 0 ] || sleep "$3"
exit "$4"`

// daemonHome is where a daemon has its files.
type daemonHome struct {
	program string
	dir     string // of the configuration, the log and the side effects
	db      string
}

func (h daemonHome) effects() string { return filepath.Join(h.dir, effectsFile) }
func (h daemonHome) config() string  { return filepath.Join(h.dir, "orrery.toml") }
func (h daemonHome) log() string     { return filepath.Join(h.dir, "daemon.log") }

// timing is what the faults need to choose, in seconds.
type timing struct{ recoverAfter, lease float64 }

// newHome builds the daemon, and makes its folder. The database may be elsewhere.
func newHome(t *testing.T, dbDir string, tm timing) daemonHome {
	t.Helper()
	h := daemonHome{program: daemonProgram(t), dir: workDir(t)}
	if dbDir == "" {
		dbDir = h.dir
	}
	h.db = filepath.Join(dbDir, dbFile)
	h.configure(t, tm)
	return h
}

// configure writes the configuration.
func (h daemonHome) configure(t *testing.T, tm timing) {
	t.Helper()
	text := fmt.Sprintf(daemonConfig, h.db, tm.recoverAfter, tm.lease, toolScript, h.effects())
	require.NoError(t, os.WriteFile(h.config(), []byte(text), 0o600))
}

// command makes a command of the daemon's program.
func (h daemonHome) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, h.program, args...)
	cmd.Env = cleanEnv()
	return cmd
}

// cleanEnv is the environment without settings of a daemon.
func cleanEnv() []string {
	var env []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "ORRERY_") {
			env = append(env, v)
		}
	}
	return env
}

// process is a running daemon.
type process struct {
	cmd   *exec.Cmd
	ready chan string   // gets the address once it answers
	gone  chan struct{} // closed when it has ended
	err   error         // then: how
}

// launch starts the daemon. Its log goes to a file.
func (h daemonHome) launch(t *testing.T) *process {
	t.Helper()
	log, err := os.OpenFile(h.log(), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	require.NoError(t, err)
	cmd := h.command(context.Background(), "orchestrate", "--config", h.config())
	cmd.Stderr = log
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	p := &process{cmd: cmd, ready: make(chan string, 1), gone: make(chan struct{})}
	t.Cleanup(p.kill) // where the test ends early
	go func() {
		defer close(p.gone)
		r := bufio.NewReader(out)
		for {
			s, err := r.ReadString('\n')
			if _, url, ok := strings.Cut(strings.TrimSpace(s), "ready at "); ok {
				p.ready <- url
			}
			if err != nil {
				break
			}
		}
		p.err = cmd.Wait()
		_ = log.Close()
	}()
	return p
}

// url waits until the daemon answers.
func (p *process) url(t *testing.T, h daemonHome) string {
	t.Helper()
	timer := time.NewTimer(2 * time.Minute)
	defer timer.Stop()
	select {
	case url := <-p.ready:
		return url
	case <-p.gone:
		require.FailNow(t, "the daemon ended at its start", "%v\n%s", p.err, h.tail(t))
	case <-timer.C:
		p.kill()
		require.FailNow(t, "the daemon does not answer", h.tail(t))
	}
	return ""
}

// kill ends the daemon as kill -9 does, and waits for its end.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.gone
}

// stop ends the daemon politely: it must end by itself, with success.
func (p *process) stop(t *testing.T, h daemonHome) {
	t.Helper()
	require.NoError(t, p.cmd.Process.Signal(os.Interrupt))
	timer := time.NewTimer(2 * time.Minute)
	defer timer.Stop()
	select {
	case <-p.gone:
		require.NoError(t, p.err, h.tail(t))
	case <-timer.C:
		p.kill()
		require.FailNow(t, "the daemon does not stop", h.tail(t))
	}
}

// tail gives the end of the daemon's log.
func (h daemonHome) tail(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(h.log())
	require.NoError(t, err)
	const most = 4 << 10
	return string(b[max(0, len(b)-most):])
}

// complaints gives what the daemon's log holds that a run of this suite gives no
// reason for.
func (h daemonHome) complaints(t *testing.T) (found []string) {
	t.Helper()
	b, err := os.ReadFile(h.log())
	require.NoError(t, err)
	for s := range strings.Lines(string(b)) {
		switch {
		case strings.Contains(s, "DATA RACE"), strings.HasPrefix(s, "panic:"), strings.HasPrefix(s, "fatal error:"):
		case !strings.Contains(s, "level=ERROR"):
			continue
		case strings.Contains(s, "msg=recurring.dispatch_error"): // tools that fail are part of the load
			continue
		case strings.Contains(s, "no space left on device"): // what a test brings about
			continue
		}
		found = append(found, "the daemon's log: "+strings.TrimSpace(s))
	}
	return found
}

// link tells the clients where the daemon is, while it comes and goes.
type link struct {
	mu      sync.Mutex
	address string
	changed chan struct{}
}

func newLink() *link { return &link{changed: make(chan struct{})} }

func (l *link) set(url string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.address = url
	close(l.changed)
	l.changed = make(chan struct{})
}

// wait gives the address as soon as there is one.
func (l *link) wait(ctx context.Context) (string, error) {
	for {
		l.mu.Lock()
		url, changed := l.address, l.changed
		l.mu.Unlock()
		if url != "" {
			return url, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}

// mustRun runs a command of the program that must succeed.
func (h daemonHome) mustRun(t *testing.T, args ...string) string {
	t.Helper()
	out, err := h.command(t.Context(), args...).CombinedOutput()
	require.NoError(t, err, "orreryd %s: %s", strings.Join(args, " "), out)
	return string(out)
}

// copyFile copies a file that nobody writes to.
func copyFile(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	require.NoError(t, err)
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	require.NoError(t, err)
	_, err = io.Copy(out, in)
	require.NoError(t, err)
	require.NoError(t, out.Close())
}
