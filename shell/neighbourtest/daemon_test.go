//go:build linux

package neighbourtest

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Tokens of the daemon under test.
const (
	adminToken = "admin-2f6b8d1c4e7a90b3"
	tokenA     = "tenant-a-5d8c1e90b37f26a4"
	tokenB     = "tenant-b-93c0a7f5e1d48b62"
)

// maxMemory is what the daemon may need, whatever its neighbours do.
const maxMemory = 512 << 20

// config is that of a daemon whose tenants do not trust one another, as
// docs/security.md says it should be.
const config = `
db = %q
listen = "127.0.0.1:0"

[limits]
requests_per_second = 200
inputs_per_second = 100
max_schedules = 100
max_live_actions = 10000
max_stored_bytes = 67108864
max_timeout_seconds = 3600

[tools.http]
concurrency = 32
allow = ["127.0.0.0/8"]

[tools.command]
concurrency = 2
executables = ["head"]

[runners.local]
enabled = true
executables = ["true", "sleep"]

[webhooks.hook]
tool = "http"
signature = "standard"
secret = "bmVpZ2hib3VycyBrZWVwIGEgc2VjcmV0"
tool_input = { method = "GET", url = "http://127.0.0.1:1/" }

[[tokens]]
name = "ops"
token = "` + adminToken + `"
admin = true

[[tokens]]
name = "a"
token = "` + tokenA + `"
namespaces = ["a"]
tenants = ["a"]

[[tokens]]
name = "b"
token = "` + tokenB + `"
namespaces = ["b"]
tenants = ["b"]
runners = ["local"]
`

// daemon is a running daemon with its folder.
type daemon struct {
	t      *testing.T
	dir    string
	cmd    *exec.Cmd
	url    string
	gone   chan struct{}
	err    error // of its end; read once gone is closed
	cgroup string
}

func (d *daemon) db() string { return filepath.Join(d.dir, "orrery.db") }

// launch starts a daemon on a new database, and waits until it answers.
func launch(t *testing.T) *daemon {
	t.Helper()
	d := &daemon{t: t, dir: t.TempDir(), gone: make(chan struct{})}
	file := filepath.Join(d.dir, "orrery.toml")
	require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, config, d.db()), 0o600))
	// The limit of descriptors is one at which a test can come near it.
	d.cmd = exec.CommandContext(context.Background(), "sh", "-c", `ulimit -n 1024; exec "$0" "$@"`,
		daemonProgram(t), "orchestrate", "--config", file)
	log, err := os.Create(filepath.Join(d.dir, "log"))
	require.NoError(t, err)
	d.cmd.Stderr = log
	out, err := d.cmd.StdoutPipe()
	require.NoError(t, err)
	d.enterCgroup()
	require.NoError(t, d.cmd.Start())
	ready := make(chan string, 1)
	go func() {
		defer close(d.gone)
		defer log.Close()
		for r := bufio.NewScanner(out); r.Scan(); {
			if _, url, ok := strings.Cut(r.Text(), "ready at "); ok {
				ready <- strings.TrimSpace(url)
			}
		}
		d.err = d.cmd.Wait()
	}()
	t.Cleanup(d.kill)
	select {
	case d.url = <-ready:
	case <-d.gone:
		require.FailNow(t, "the daemon ended at its start", d.log())
	case <-time.After(time.Minute):
		require.FailNow(t, "the daemon does not answer", d.log())
	}
	d.joinCgroup()
	return d
}

// cgroupRoots are where memory groups are made: version 2, or else 1.
var cgroupRoots = []struct{ root, limit string }{
	{"/sys/fs/cgroup", "memory.max"},
	{"/sys/fs/cgroup/memory", "memory.limit_in_bytes"},
}

// enterCgroup makes a group with the limit of memory, if this machine lets it.
func (d *daemon) enterCgroup() {
	for _, c := range cgroupRoots {
		dir := filepath.Join(c.root, fmt.Sprintf("orrery-neighbours-%d-%d", os.Getpid(), time.Now().UnixNano()))
		if os.Mkdir(dir, 0o755) != nil {
			continue
		}
		if os.WriteFile(filepath.Join(dir, c.limit), []byte(strconv.Itoa(maxMemory)), 0o600) == nil {
			d.cgroup = dir
			d.t.Cleanup(func() { _ = os.Remove(dir) }) // once the daemon is gone
			return
		}
		_ = os.Remove(dir)
	}
	d.t.Log("no cgroup can be made here: the daemon's own memory is looked at alone")
}

func (d *daemon) joinCgroup() {
	if d.cgroup != "" {
		require.NoError(d.t, os.WriteFile(filepath.Join(d.cgroup, "cgroup.procs"), []byte(strconv.Itoa(d.cmd.Process.Pid)), 0o600))
	}
}

// peak gives the most memory that the daemon had resident so far, in bytes.
func (d *daemon) peak() int64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", d.cmd.Process.Pid))
	require.NoError(d.t, err)
	_, rest, found := strings.Cut(string(b), "VmHWM:")
	require.True(d.t, found)
	var kb int64
	_, err = fmt.Sscan(rest, &kb)
	require.NoError(d.t, err)
	return kb << 10
}

func (d *daemon) alive() bool {
	select {
	case <-d.gone:
		return false
	default:
		return true
	}
}

func (d *daemon) kill() {
	_ = d.cmd.Process.Kill()
	<-d.gone
}

// stop ends the daemon politely; then its database must be sound and replay.
func (d *daemon) stop() {
	d.t.Helper()
	require.NoError(d.t, d.cmd.Process.Signal(os.Interrupt))
	select {
	case <-d.gone:
		require.NoError(d.t, d.err, d.log())
	case <-time.After(2 * time.Minute):
		require.FailNow(d.t, "the daemon does not stop", d.log())
	}
	for _, args := range [][]string{{"replay", "--verify", "--db", d.db()}, {"check", "--db", d.db()}} {
		out, err := exec.CommandContext(d.t.Context(), daemonProgram(d.t), args...).CombinedOutput()
		assert.NoError(d.t, err, "orreryd %s: %s", strings.Join(args, " "), out)
	}
}

// log gives the end of the daemon's log.
func (d *daemon) log() string {
	b, err := os.ReadFile(filepath.Join(d.dir, "log"))
	require.NoError(d.t, err)
	return string(b[max(0, len(b)-4<<10):])
}

// client gives an HTTP client that shares no connection with others.
func client(connections int) *http.Client {
	return &http.Client{
		Transport: &http.Transport{MaxConnsPerHost: connections, MaxIdleConnsPerHost: connections},
		Timeout:   90 * time.Second,
	}
}
