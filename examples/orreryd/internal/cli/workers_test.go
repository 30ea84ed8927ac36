//go:build unix

package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/effects/loopbacktest"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

// hire starts a worker as a process group of its own.
func hire(t *testing.T, p *process, name string, args ...string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(context.Background(), args[0], args[1:]...)
	cmd.Env = append(environment("PYTHONDONTWRITEBYTECODE=1"), "ORRERY_SERVER="+p.url, "ORRERY_HOLDER="+name, "ORRERYD="+exe, "WORKER_BEAT_SECONDS=0.2", "TMPDIR="+t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	log := &lockedBuffer{}
	cmd.Stdout, cmd.Stderr = log, log
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("output of %s:\n%s", name, log)
		}
	})
	return cmd
}

// queueNow reads a queue.
func (p *process) queueNow(name string) wire.Queue {
	p.t.Helper()
	var v wire.Queue
	require.NoError(p.t, json.Unmarshal([]byte(p.ok("queue", "show", name, "--json")), &v))
	return v
}

// until waits for a queue to be so.
func (p *process) until(name, what string, so func(wire.Queue) bool) wire.Queue {
	p.t.Helper()
	var v wire.Queue
	require.Eventually(p.t, func() bool {
		v = p.queueNow(name)
		return so(v)
	}, patience, 20*time.Millisecond, "%s: %s", name, what)
	return v
}

func TestWorkersInOtherLanguagesDoWhatIsPushed(t *testing.T) {
	t.Parallel()
	requirePrograms(t, "bash", "python3")
	for _, worker := range []string{"worker.sh", "worker.py"} {
		t.Run(worker, func(t *testing.T) {
			p := start(t, "--db", database(t))
			p.ok("queue", "declare", "work", "--visibility", "1h", "--max-attempts", "2", "--dead-letters", "dead", "--keep-completed", "1h")
			args := []string{filepath.Join("..", "..", "..", "workers", worker), "work"}
			if worker == "worker.sh" {
				args = append(args, "sh", "-c", `read -r data; case $data in *error*) echo "no luck" >&2; exit 1 ;; esac; printf '{"by": "%s", "echo": %s}' "$ORRERY_HOLDER" "$data"`)
			}
			hire(t, p, "ann", args...)
			hire(t, p, "ben", args...)
			const n = 10
			for i := range n {
				p.ok("queue", "push", "work", "--data", fmt.Sprintf(`{"n": %d, "text": "a\ttab and 'quotes' \" \\ $HOME\n"}`, i))
			}
			p.ok("queue", "push", "work", "--data", `{"error": "no luck"}`)
			v := p.until("work", "all is done or dead", func(v wire.Queue) bool { return v.Totals.Completed == n && v.Totals.DeadLettered == 1 })
			assert.EqualValues(t, 2, v.Totals.Failed)
			assert.Zero(t, v.Totals.TimedOut)
			assert.Contains(t, p.ok("queue", "items", "dead"), "no luck")
			items := p.ok("queue", "items", "work", "--state", "completed", "--json")
			for i := range n {
				assert.Contains(t, items, fmt.Sprintf(`"n": %d`, i))
			}
			assert.Equal(t, 2*n, strings.Count(items, `"text": "a\ttab and 'quotes' \" \\ $HOME\n"`), "as data and as result")
		})
	}
}

// metrics gives what a scrape reads.
func (p *process) metrics() string {
	p.t.Helper()
	req, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, p.url+"/metrics", nil)
	require.NoError(p.t, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(p.t, err)
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	require.NoError(p.t, err)
	return string(body)
}

// beats counts the signs of life that the daemon has taken.
func (p *process) beats() int {
	p.t.Helper()
	all := 0
	for _, m := range regexp.MustCompile(`orrery_http_requests_total\{route="POST \S+/(?:heartbeat|extend)",status="200"\} (\d+)`).FindAllStringSubmatch(p.metrics(), -1) {
		n, err := strconv.Atoi(m[1])
		require.NoError(p.t, err)
		all += n
	}
	return all
}

// untilOpen is worker.py whose work is to say that it has begun, and to wait for a
// file.
const untilOpen = `import os, sys, time
sys.path.insert(0, os.path.join("..", "..", "..", "workers"))
import worker
def handle(data):
    open(sys.argv[2] + ".begun", "w").close()
    while not os.path.exists(sys.argv[2]):
        time.sleep(0.05)
worker.handle = handle
worker.main()`

func TestAWorkerGivesSignsOfLifeAndTheItemOfOneThatIsKilledIsDoneByAnother(t *testing.T) {
	t.Parallel()
	requirePrograms(t, "bash", "python3")
	gate := filepath.Join(t.TempDir(), "gate")
	for name, args := range map[string][]string{
		"shell":  {filepath.Join("..", "..", "..", "workers", "worker.sh"), "work", "sh", "-c", `until [ -e "$0" ]; do sleep 0.05; done; echo '{}'`, gate},
		"python": {"python3", "-c", untilOpen, "work", gate},
	} {
		t.Run(name, func(t *testing.T) {
			_ = os.Remove(gate)
			p := start(t, "--db", database(t))
			// However slow the machine is, no lease ends but by the test.
			p.ok("queue", "declare", "work", "--visibility", "1h")
			doomed := hire(t, p, "doomed", args...)
			id := anID.FindString(p.ok("queue", "push", "work", "--data", `{}`))
			require.Eventually(t, func() bool { return p.beats() >= 2 }, patience, 20*time.Millisecond, "it gives signs of life")
			require.NoError(t, syscall.Kill(-doomed.Process.Pid, syscall.SIGKILL))
			p.until("work", "the lease has ended", func(v wire.Queue) bool {
				// Again and again: a last sign of life may still have been under way.
				p.do("queue", "extend", "work", id, "--holder", "doomed", "--attempt", "1", "--visibility", "1ms")
				return v.Totals.TimedOut == 1
			})
			require.NoError(t, os.WriteFile(gate, nil, 0o600))
			hire(t, p, "heir", args...)
			v := p.until("work", "it is done", func(v wire.Queue) bool { return v.Totals.Completed == 1 })
			assert.EqualValues(t, 2, v.Totals.Taken)
			assert.EqualValues(t, 1, v.Totals.TimedOut)
		})
	}
}

// The daemon is killed while a worker works, and comes back after the work is
// done: what came of it is not lost, and it is not done again.
func TestWhatAWorkerDidWhileNoDaemonAnsweredIsSaidLater(t *testing.T) {
	requirePrograms(t, "bash", "python3")
	for worker, complaint := range map[string]string{"worker.sh": "no daemon answers", "worker.py": "worker: "} {
		t.Run(worker, func(t *testing.T) {
			db, gate := database(t), filepath.Join(t.TempDir(), "gate")
			p := start(t, "--db", db, "--listen", loopbacktest.Daemon()+":0")
			p.ok("queue", "declare", "work", "--visibility", "30m", "--keep-completed", "1h")
			args := []string{filepath.Join("..", "..", "..", "workers", worker), "work", "sh", "-c", `: >"$0.begun"; until [ -e "$0" ]; do sleep 0.05; done; echo '{}'`, gate}
			if worker == "worker.py" {
				args = []string{"python3", "-c", untilOpen, "work", gate}
			}
			cmd := hire(t, p, "ann", args...)
			p.ok("queue", "push", "work", "--data", "{}")
			require.Eventually(t, func() bool { // taken is not enough: the answer might be lost
				_, err := os.Stat(gate + ".begun")
				return err == nil
			}, patience, 20*time.Millisecond)
			p.signal(syscall.SIGKILL)
			p.code()
			require.NoError(t, os.WriteFile(gate, nil, 0o600))
			log, ok := cmd.Stderr.(*lockedBuffer)
			require.True(t, ok)
			require.Eventually(t, func() bool { return strings.Contains(log.String(), complaint) }, patience, 20*time.Millisecond)
			p = start(t, "--db", db, "--listen", strings.TrimPrefix(p.url, "http://"))
			v := p.until("work", "it is done", func(v wire.Queue) bool { return v.Totals.Completed == 1 })
			assert.EqualValues(t, 1, v.Totals.Taken)
			assert.Zero(t, v.Totals.Failed)
		})
	}
}
