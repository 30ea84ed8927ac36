package local_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/orrery-go/orrery/shell/confine"
	"github.com/orrery-go/orrery/shell/jobs"
	"github.com/orrery-go/orrery/shell/local"
)

// gone reports whether a process has ended.
func gone(t *testing.T, pid string) bool {
	t.Helper()
	b, err := os.ReadFile("/proc/" + strings.TrimSpace(pid) + "/stat")
	return err != nil || strings.Contains(string(b), ") Z ")
}

func TestWhatAContainerLeavesBehindEndsWithThePod(t *testing.T) {
	w := watching(t, t.TempDir())
	dir := t.TempDir()
	// One in a session of its own, without our mark in its environment, and one in the
	// group.
	run := script(fmt.Sprintf(`env -i setsid sh -c 'echo $$$$ > %[1]s/away; exec sleep 600' & sh -c 'echo $$$$ > %[1]s/near; exec sleep 600' &
		until [ -s %[1]s/away ] && [ -s %[1]s/near ]; do sleep 0.02; done`, dir))
	w.create(run)
	assert.EqualValues(t, 0, *w.reaches(run.Attempt, jobs.PhaseEnded).Pod.ExitCode)
	for _, name := range []string{"away", "near"} {
		pid := read(t, filepath.Join(dir, name))
		require.NotEmpty(t, pid)
		assert.True(t, gone(t, pid), "%s, %s, is still there", name, pid)
	}
}

func TestDeletingEndsDescendantsAndWhatIgnoresSIGTERM(t *testing.T) {
	w := watching(t, t.TempDir())
	dir := t.TempDir()
	run := script(fmt.Sprintf(`trap 'echo asked >> %[1]s/asked' TERM
		setsid sh -c 'trap "" TERM; echo $$$$ > %[1]s/away; while :; do sleep 1; done' &
		echo $$$$ > %[1]s/main; while :; do sleep 0.1; done`, dir), `"terminationGracePeriodSeconds":1`)
	w.create(run)
	w.reaches(run.Attempt, jobs.PhaseRunning)
	until(t, "all have started", func() bool {
		return read(t, dir+"/away") != "" && read(t, dir+"/main") != ""
	})
	w.delete(run.Attempt)
	assert.Equal(t, "asked\n", read(t, dir+"/asked"), "it gets SIGTERM first")
	assert.True(t, gone(t, read(t, dir+"/away")))
	assert.True(t, gone(t, read(t, dir+"/main")))
	assertNone(t, w, run)
}

func TestDeletingEndsWhatIsLeftWhenTheSupervisorWasKilled(t *testing.T) {
	w := watching(t, t.TempDir())
	dir := t.TempDir()
	run := script(fmt.Sprintf(`setsid sh -c 'echo $$$$ > %[1]s/away; exec sleep 600' & echo $$$$ > %[1]s/main; exec sleep 600`, dir))
	w.create(run)
	until(t, "all have started", func() bool {
		return read(t, dir+"/away") != "" && read(t, dir+"/main") != ""
	})
	killSupervisor(t, w, run)
	w.reaches(run.Attempt, jobs.PhaseLost)
	until(t, "the container goes with it", func() bool { return gone(t, read(t, dir+"/main")) })
	assert.False(t, gone(t, read(t, dir+"/away")))
	w.delete(run.Attempt)
	assert.True(t, gone(t, read(t, dir+"/away")))
}

func TestDeletingFindsAPodWhoseFilesAreGone(t *testing.T) {
	w := watching(t, t.TempDir())
	run := script("trap '' TERM; while :; do sleep 1; done", `"terminationGracePeriodSeconds":600`)
	w.create(run)
	w.reaches(run.Attempt, jobs.PhaseRunning)
	require.NotEmpty(t, localMarked(w, run))
	require.NoError(t, os.RemoveAll(filepath.Join(w.dir(), run.Name())))
	w.delete(run.Attempt)
	assertNone(t, w, run)
}

func TestAPodThatIsKilledHasNoGrace(t *testing.T) {
	w := watching(t, t.TempDir())
	run := script("trap '' TERM; while :; do sleep 1; done", `"terminationGracePeriodSeconds":600`)
	w.create(run)
	w.reaches(run.Attempt, jobs.PhaseRunning)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second) // its grace is 10 minutes
	defer cancel()
	var killer jobs.Killer = w.Runner
	_, err := killer.Kill(ctx, run.Attempt)
	require.NoError(t, err)
	assertNone(t, w, run)
	_, err = killer.Kill(ctx, run.Attempt)
	require.NoError(t, err, "that there is none is no error")
}

func TestAProgramThatPrintsWithoutEndDoesNotFillTheDisk(t *testing.T) {
	const most = 1 << 20
	w := watching(t, t.TempDir(), func(o *local.Options) { o.MaxLogBytes = most })
	// 100 MB, in lines, between a first and a last one.
	run := script("echo first; yes 0123456789 | head -c 100000000; echo; echo last")
	w.create(run)
	largest := int64(0)
	until(t, "it has ended", func() bool {
		largest = max(largest, sizeOf(t, filepath.Join(w.dir(), run.Name(), "logs")))
		for _, o := range w.of(run.Attempt) {
			if o.Phase == jobs.PhaseEnded {
				return true
			}
		}
		return false
	})
	largest = max(largest, sizeOf(t, filepath.Join(w.dir(), run.Name(), "logs")))
	assert.LessOrEqual(t, largest, int64(most*3/2))

	log := w.log(run.Attempt, "")
	assert.True(t, strings.HasPrefix(log, "first\n0123456789\n"))
	assert.True(t, strings.HasSuffix(log, "\nlast\n"))
	before, rest, found := strings.Cut(log, "\n[orrery: ")
	require.True(t, found)
	number, after, _ := strings.Cut(rest, " bytes of the log are missing here]\n")
	missing, err := strconv.Atoi(number)
	require.NoError(t, err)
	assert.Len(t, before+"\n"+after, 100000000+len("first\n")+len("\nlast\n")-missing)
	assert.NotContains(t, after, "[orrery")
}

func sizeOf(t *testing.T, dir string) int64 {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	total := int64(0)
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			total += info.Size()
		}
	}
	return total
}

func TestSupervisorsHoldNothingOpenOfTheDaemon(t *testing.T) {
	w := watching(t, t.TempDir())
	r, own, err := os.Pipe()
	require.NoError(t, err)
	run := script("exec sleep 600", `"terminationGracePeriodSeconds":0`)
	w.create(run)
	w.reaches(run.Attempt, jobs.PhaseRunning)
	require.NoError(t, own.Close())
	_, err = r.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
	require.NoError(t, r.Close())
}

func TestADaemonWhoseProgramWasReplacedStartsPodsAllTheSame(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	program, err := os.ReadFile(self)
	require.NoError(t, err)
	exe, dir := filepath.Join(t.TempDir(), "daemon"), t.TempDir()
	require.NoError(t, os.WriteFile(exe, program, 0o700))
	run := script("exit 7")
	raw, err := json.Marshal(hostTask{Dir: dir, Run: run, Step: "prepared", Upgrade: true})
	require.NoError(t, err)
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), hostVar+"="+string(raw))
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	now, err := os.ReadFile(exe)
	require.NoError(t, err)
	require.Contains(t, string(now), "exit 99")

	w := watching(t, dir)
	assert.EqualValues(t, 7, *w.reaches(run.Attempt, jobs.PhaseEnded).Pod.ExitCode)
}

func TestThePodsOfARunnerHaveAControlGroupEachThatEndsWithThem(t *testing.T) {
	_, err := local.New(local.Options{Dir: t.TempDir(), Limits: confine.Limits{PidsMax: 8}})
	require.EqualError(t, err, "local: Limits: need Cgroups, where the groups are made")
	root := os.Getenv("ORRERY_TEST_CGROUP")
	var at unix.Statfs_t
	if root == "" || unix.Statfs(root, &at) != nil || at.Type != unix.CGROUP2_SUPER_MAGIC {
		t.Skip("no control group (v2) is delegated here: name one by ORRERY_TEST_CGROUP")
	}
	tree, err := confine.OpenTree(root, confine.Limits{})
	require.NoError(t, err)
	w := watching(t, t.TempDir(), func(o *local.Options) { o.Cgroups = tree })
	run := script("grep ^0:: /proc/self/cgroup")
	w.create(run)
	w.reaches(run.Attempt, jobs.PhaseEnded)
	group := filepath.Join(root, "pod-"+run.Name())
	assert.Contains(t, w.log(run.Attempt, ""), "/pod-"+run.Name()+"\n")
	assert.NoDirExists(t, group)

	away := file(t)
	lost := script("setsid env -i sh -c 'echo $$ > " + away + "; exec sleep 1000' & exec sleep 1000")
	w.create(lost)
	until(t, "all have begun", func() bool { return read(t, away) != "" })
	killSupervisor(t, w, lost)
	w.reaches(lost.Attempt, jobs.PhaseLost)
	assert.DirExists(t, filepath.Join(root, "pod-"+lost.Name()))
	w.delete(lost.Attempt)
	assert.NoDirExists(t, filepath.Join(root, "pod-"+lost.Name()))
	assert.True(t, gone(t, read(t, away)), "also what carries no mark and lost its parent")
}

func TestAPodWhoseControlGroupCannotBeMadeStartsNothing(t *testing.T) {
	dir, began := t.TempDir(), file(t)
	w := watching(t, dir, func(o *local.Options) { o.Cgroups = new(confine.Tree) }) // of no directory
	run := script("touch " + began)
	w.create(run)
	o := w.reaches(run.Attempt, jobs.PhaseEnded)
	assert.Equal(t, "StartError", o.Pod.Reason)
	assert.NotEqual(t, int32(0), *o.Pod.ExitCode)
	assert.NoFileExists(t, began)
}
