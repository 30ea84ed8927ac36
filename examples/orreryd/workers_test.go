//go:build unix

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// requirePrograms skips a test that needs programs which are not there; where the
// environment promises them, that is a failure.
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

// hire starts one of examples/workers as a process group of its own.
func hire(t *testing.T, p *process, name string, env []string, args ...string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	if !filepath.IsAbs(args[0]) {
		args[0] = filepath.Join("..", "workers", args[0])
	}
	cmd := exec.CommandContext(context.Background(), args[0], args[1:]...)
	cmd.Env = append(environment(env...), "ORRERY_SERVER="+p.url, "ORRERY_HOLDER="+name, "ORRERYD="+exe, "WORKER_BEAT_SECONDS=0.2", "TMPDIR="+t.TempDir())
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
func (p *process) queueNow(name string) queueView {
	p.t.Helper()
	var v queueView
	require.NoError(p.t, json.Unmarshal([]byte(p.ok("queue", "show", name, "--json")), &v))
	return v
}

// until waits for a queue to be so.
func (p *process) until(name, what string, so func(queueView) bool) queueView {
	p.t.Helper()
	var v queueView
	require.Eventually(p.t, func() bool {
		v = p.queueNow(name)
		return so(v)
	}, patience, 20*time.Millisecond, "%s: %s", name, what)
	return v
}

func TestWorkersInOtherLanguagesDoWhatIsPushed(t *testing.T) {
	requirePrograms(t, "bash", "python3")
	for _, worker := range []string{"worker.sh", "worker.py"} {
		t.Run(worker, func(t *testing.T) {
			p := start(t, "--db", database(t))
			p.ok("queue", "declare", "work", "--max-attempts", "2", "--dead-letters", "dead", "--keep-completed", "1h")
			args := []string{worker, "work"}
			if worker == "worker.sh" {
				args = append(args, "sh", "-c", `read -r data; case $data in *error*) echo "no luck" >&2; exit 1 ;; esac; printf '{"by": "%s", "echo": %s}' "$ORRERY_HOLDER" "$data"`)
			}
			hire(t, p, "ann", nil, args...)
			hire(t, p, "ben", nil, args...)
			const n = 10
			for i := range n {
				p.ok("queue", "push", "work", "--data", fmt.Sprintf(`{"n": %d, "text": "a\ttab and 'quotes' \" \\ $HOME\n"}`, i))
			}
			p.ok("queue", "push", "work", "--data", `{"error": "no luck"}`)
			v := p.until("work", "all is done or dead", func(v queueView) bool { return v.Totals.Completed == n && v.Totals.DeadLettered == 1 })
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

func TestTheItemOfAWorkerThatIsKilledIsDoneByAnother(t *testing.T) {
	requirePrograms(t, "bash", "python3")
	for _, worker := range []string{"worker.sh", "worker.py"} {
		t.Run(worker, func(t *testing.T) {
			p := start(t, "--db", database(t))
			p.ok("queue", "declare", "work", "--visibility", "4s", "--keep-completed", "1h")
			gate := filepath.Join(t.TempDir(), "gate")
			args := []string{worker, "work"}
			if worker == "worker.sh" { // who is killed hangs; the other one finds the gate open
				args = append(args, "sh", "-c", `until [ -e "$0" ]; do sleep 0.05; done; echo '{}'`, gate)
			}
			doomed := hire(t, p, "doomed", nil, args...)
			p.ok("queue", "push", "work", "--data", `{"seconds": 6}`)
			p.until("work", "it is taken", func(v queueView) bool { return v.Items.Processing == 1 })
			require.NoError(t, syscall.Kill(-doomed.Process.Pid, syscall.SIGKILL))
			require.NoError(t, os.WriteFile(gate, nil, 0o600))
			hire(t, p, "heir", nil, args...)
			v := p.until("work", "it is done", func(v queueView) bool { return v.Totals.Completed == 1 })
			assert.EqualValues(t, 1, v.Totals.TimedOut, "and the heir held on to it for longer than the visibility timeout")
			assert.EqualValues(t, 2, v.Totals.Taken)
		})
	}
}

// gatedWorker writes a program that is worker.py, but whose work is to wait for a
// file.
func gatedWorker(t *testing.T, gate string) string {
	t.Helper()
	workers, err := filepath.Abs(filepath.Join("..", "workers"))
	require.NoError(t, err)
	path := write(t, "gated.py", fmt.Sprintf(`#!/usr/bin/env python3
import os, sys, time
sys.dont_write_bytecode = True
sys.path.insert(0, %q)
import worker

def handle(data):
    open(%q, "w").close()
    while not os.path.exists(%q):
        time.sleep(0.05)

worker.handle = handle
worker.main()
`, workers, gate+".begun", gate))
	require.NoError(t, os.Chmod(path, 0o700)) // #nosec G302 -- it is to be run
	return path
}

// The daemon is killed while a worker works, and comes back after the work is
// done: what came of it is not lost, and it is not done again.
func TestWhatAWorkerDidWhileNoDaemonAnsweredIsSaidLater(t *testing.T) {
	requirePrograms(t, "bash", "python3")
	for worker, complaint := range map[string]string{"worker.sh": "no daemon answers", "worker.py": "worker: "} {
		t.Run(worker, func(t *testing.T) {
			db, gate := database(t), filepath.Join(t.TempDir(), "gate")
			p := start(t, "--db", db)
			p.ok("queue", "declare", "work", "--visibility", "30m", "--keep-completed", "1h")
			args := []string{worker, "work", "sh", "-c", `: >"$0.begun"; until [ -e "$0" ]; do sleep 0.05; done; echo '{}'`, gate}
			if worker == "worker.py" {
				args = []string{gatedWorker(t, gate), "work"}
			}
			cmd := hire(t, p, "ann", nil, args...)
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
			v := p.until("work", "it is done", func(v queueView) bool { return v.Totals.Completed == 1 })
			assert.EqualValues(t, 1, v.Totals.Taken)
			assert.Zero(t, v.Totals.Failed)
		})
	}
}
