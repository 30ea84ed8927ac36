//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package local_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/shell/jobs"
)

func TestADaemonThatIsKilledWhileItCreatesAPodStartsItOnceAllTheSame(t *testing.T) {
	for _, step := range []string{"made", "renamed", "prepared", "launched", "answered"} {
		t.Run(step, func(t *testing.T) {
			dir, count := t.TempDir(), file(t)
			run := script("echo started >> " + count + "; exit 7")
			killedAt(t, hostTask{Dir: dir, Run: run, Step: step})

			w := watching(t, dir)
			w.create(run) // the effect is repeated, since nobody has answered it
			assert.EqualValues(t, 7, *w.reaches(run.Attempt, jobs.PhaseEnded).Pod.ExitCode)
			assert.Equal(t, "started\n", read(t, count))
			for _, o := range w.of(run.Attempt) {
				assert.NotEqual(t, jobs.PhaseLost, o.Phase)
			}
			left, err := filepath.Glob(filepath.Join(w.dir(), ".new-*"))
			require.NoError(t, err)
			assert.Empty(t, left)
		})
	}
}

func TestADaemonThatIsKilledWhileItCreatesAPodCanDeleteItAfterwards(t *testing.T) {
	for _, step := range []string{"renamed", "prepared", "launched", "answered"} {
		t.Run(step, func(t *testing.T) {
			dir := t.TempDir()
			run := script("exec sleep 600", `"terminationGracePeriodSeconds":0`)
			killedAt(t, hostTask{Dir: dir, Run: run, Step: step})

			w := watching(t, dir)
			w.delete(run.Attempt)
			// A supervisor that was still on its way finds nothing to start.
			until(t, "no process of it is left", func() bool { return len(localMarked(w, run)) == 0 })
			assert.NoDirExists(t, filepath.Join(w.dir(), run.Name()))
		})
	}
}

func TestADaemonThatIsKilledWhileItDeletesAPodDeletesItTheNextTime(t *testing.T) {
	for _, step := range []string{"asked", "ended", "gone"} {
		t.Run(step, func(t *testing.T) {
			dir := t.TempDir()
			first := watching(t, dir)
			run := script("exec sleep 600", `"terminationGracePeriodSeconds":1`)
			first.create(run)
			first.reaches(run.Attempt, jobs.PhaseRunning)
			first.stop()
			killedAt(t, hostTask{Dir: dir, Run: run, Delete: true, Step: step})

			w := watching(t, dir)
			w.delete(run.Attempt)
			held, err := w.Held(t.Context())
			require.NoError(t, err)
			assert.Empty(t, held)
			assertNone(t, w, run)
			left, err := filepath.Glob(filepath.Join(w.dir(), ".gone-*"))
			require.NoError(t, err)
			assert.Empty(t, left)
		})
	}
}

func TestAPodOutlivesItsDaemonAndIsFoundAgain(t *testing.T) {
	dir, gate, count := t.TempDir(), file(t), file(t)
	run := script("echo started >> " + count + "; until [ -e " + gate + " ]; do sleep 0.05; done; exit 9")
	killedAt(t, hostTask{Dir: dir, Run: run, Step: "answered"})

	w := watching(t, dir)
	held, err := w.Held(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []jobs.Attempt{run.Attempt}, held)
	w.reaches(run.Attempt, jobs.PhaseRunning)
	w.stop()

	require.NoError(t, os.WriteFile(gate, nil, 0o600))
	again := watching(t, dir)
	assert.EqualValues(t, 9, *again.reaches(run.Attempt, jobs.PhaseEnded).Pod.ExitCode)
	assert.Equal(t, "started\n", read(t, count))
}

func TestAPodWhoseSupervisorIsKilledIsLostAndNeverStartedAgain(t *testing.T) {
	w := watching(t, t.TempDir())
	count := file(t)
	run := script("echo started >> " + count + "; exec sleep 600")
	w.create(run)
	w.reaches(run.Attempt, jobs.PhaseRunning)
	until(t, "it has started", func() bool { return read(t, count) != "" })
	killSupervisor(t, w, run)
	assert.Contains(t, w.reaches(run.Attempt, jobs.PhaseLost).Pod.Reason, "was killed")

	w.create(run)
	w.delete(run.Attempt)
	assertNone(t, w, run)
	assert.Equal(t, "started\n", read(t, count))
}

func TestLogsOfAPodWhoseSupervisorIsKilledEndThere(t *testing.T) {
	w := watching(t, t.TempDir())
	run := script("echo hello; exec sleep 600")
	w.create(run)
	until(t, "it has written", func() bool { return w.log(run.Attempt, "") != "" })
	killSupervisor(t, w, run)
	var b bytes.Buffer
	_, err := w.Logs(t.Context(), run.Attempt, jobs.LogOptions{Follow: true}, &b)
	require.NoError(t, err)
	assert.Equal(t, "hello\n", b.String())
}

func killSupervisor(t *testing.T, w *world, run jobs.Run) {
	t.Helper()
	pid, err := strconv.Atoi(strings.TrimSpace(read(t, filepath.Join(w.dir(), run.Name(), "lock"))))
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
}
