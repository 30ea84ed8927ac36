package git_test

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/git"
)

// daemon is a process that carries out one effect and is killed while it does.
type daemon struct {
	t    *testing.T
	cmd  *exec.Cmd
	out  *bufio.Reader
	stop io.Closer
}

func (w *workspace) daemon(e effects.Outer, env ...string) *daemon {
	w.t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), append(env, roleVar+"=daemon", rootVar+"="+w.root)...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(w.t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(w.t, err)
	require.NoError(w.t, cmd.Start())
	_, err = in.Write(e.AppendJSON(nil))
	require.NoError(w.t, err)
	d := &daemon{t: w.t, cmd: cmd, out: bufio.NewReader(out), stop: in}
	w.t.Cleanup(d.kill)
	return d
}

func (d *daemon) kill() {
	_ = d.cmd.Process.Kill() // SIGKILL
	_ = d.cmd.Wait()
	_ = d.stop.Close()
}

// killAt carries out an effect in another process, which dies by SIGKILL at a
// step.
func (w *workspace) killAt(e effects.Outer, step string) {
	w.t.Helper()
	d := w.daemon(e, stepVar+"="+step)
	line, err := d.out.ReadString('\n')
	require.NoError(w.t, err)
	require.Equal(w.t, "here\n", line, "it comes to the step")
	d.kill()
}

// slow makes git block when it writes the file "slow", once the file "block" is
// there.
func (w *workspace) slow() {
	w.t.Helper()
	require.NoError(w.t, syscall.Mkfifo(w.path("reached"), 0o600))
	w.write("filter", "#!/bin/sh\nif [ -e '"+w.path("block")+"' ]; then echo x > '"+w.path("reached")+"'; fi\nwhile [ -e '"+w.path("block")+"' ]; do sleep 0.02; done\nexec cat\n")
	require.NoError(w.t, os.Chmod(w.path("filter"), 0o700))
	w.git("repo", "config", "filter.slow.smudge", w.path("filter"))
	w.commit("repo", ".gitattributes", "slow filter=slow\n", "attributes")
}

// killInside does as killAt, while a git command that follows the step writes
// the file "slow".
func (w *workspace) killInside(e effects.Outer, step string) {
	w.t.Helper()
	d := w.daemon(e, stepVar+"="+step, blockVar+"="+w.path("block"))
	reached, err := os.ReadFile(w.path("reached")) // waits for the filter
	require.NoError(w.t, err)
	require.Equal(w.t, "x\n", string(reached))
	d.kill()
	require.NoError(w.t, os.Remove(w.path("block"))) // what is left of the filter ends
	w.awaitFree()
}

// awaitFree waits until nothing of the dead daemon holds the lock.
func (w *workspace) awaitFree() {
	w.t.Helper()
	f, err := os.OpenFile(w.path("repo/.git/orrery-tmp/lock"), os.O_RDWR, 0)
	require.NoError(w.t, err)
	defer func() { _ = f.Close() }()
	require.Eventually(w.t, func() bool {
		return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil
	}, time.Minute, 10*time.Millisecond)
}

func diverged(t *testing.T) (*workspace, effects.Merge) {
	w := newWorkspace(t, git.Options{})
	w.slow()
	w.branch("feature", "a", "a\n")
	w.git("repo", "checkout", "--quiet", "feature")
	w.commit("repo", "slow", strings.Repeat("slow\n", 1000), "slow")
	w.commit("repo", "z", "z\n", "z")
	w.git("repo", "checkout", "--quiet", "main")
	w.commit("repo", "b", "b\n", "on main")
	_, err := w.add("feature", "wt")
	require.NoError(t, err)
	return w, effects.Merge{Repo: "repo", Branch: "feature", Into: "main", Strategy: rebase}
}

func checkMerged(t *testing.T, w *workspace) {
	assert.Equal(t, w.id("main"), w.id("feature"))
	assert.Equal(t, "z\nslow\non feature\non main\nattributes\nfirst", w.git("repo", "log", "--format=%s", "main"))
	for _, dir := range []string{"repo", "wt"} {
		assert.Empty(t, w.git(dir, "status", "--porcelain"), dir)
		assert.Equal(t, "a\n", w.read(dir+"/a"))
		assert.Equal(t, "b\n", w.read(dir+"/b"))
		assert.Equal(t, strings.Repeat("slow\n", 1000), w.read(dir+"/slow"))
	}
	w.noTraces()
}

// finishedAfter kills a daemon at each step of a merge, and checks that the next daemon
// finishes the merge.
func finishedAfter(t *testing.T, kill func(w *workspace, e effects.Merge, step string), steps ...string) {
	t.Helper()
	for _, step := range steps {
		t.Run(step, func(t *testing.T) {
			w, e := diverged(t)
			kill(w, e, step)
			_, err := w.carry(e)
			require.NoError(t, err)
			checkMerged(t, w)
		})
	}
}

func TestAMergeWhoseDaemonIsKilledIsFinishedByTheNext(t *testing.T) {
	finishedAfter(t, func(w *workspace, e effects.Merge, step string) { w.killAt(e, step) },
		"merge: read", "rebase: worktree made", "rebase: done", "publish: noted", "publish: moved", "publish: followed")
}

func TestAMergeWhoseDaemonIsKilledInsideAGitCommandIsFinishedByTheNext(t *testing.T) {
	finishedAfter(t, func(w *workspace, e effects.Merge, step string) { w.killInside(e, step) },
		"merge: read", "rebase: worktree made", "publish: moved")
}

func TestAnInterruptedMergeDoesNotTouchWhatAPersonChangedSince(t *testing.T) {
	w, e := diverged(t)
	w.killAt(e, "publish: moved")
	w.write("repo/README", "mine\n")
	w.write("repo/a", "mine too\n")

	_, err := w.carry(e)
	f := failure(t, err, false, "dirty worktree", "a merge into branch")
	assert.Equal(t, []string{"README", "a"}, f.Files)
	assert.Equal(t, "mine\n", w.read("repo/README"))
	assert.Equal(t, "mine too\n", w.read("repo/a"))

	w.git("repo", "checkout", "--", "README")
	require.NoError(t, os.Remove(w.path("repo/a")))
	_, err = w.carry(e)
	require.NoError(t, err)
	checkMerged(t, w)
}

// A checkout that is killed leaves the beginning of a file, which is none that
// git knows.
func TestTheBeginningOfAFileThatAKilledMergeHasLeftIsNobodysChange(t *testing.T) {
	long := strings.Repeat("0123456789abcde\n", 20<<20/16)
	for name, row := range map[string]struct {
		attributes, left string
		ours             bool
	}{
		"long":                 {"", long[:19<<20], true},
		"with other line ends": {"big text eol=crlf\n", strings.ReplaceAll(long[:32], "\n", "\r\n"), true},
		"nothing":              {"", "", true},
		"else":                 {"", long[:19<<20] + "mine", false},
		"more":                 {"", long + "mine", false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorkspace(t, git.Options{})
			w.commit("repo", ".gitattributes", row.attributes, "attributes")
			w.commit("repo", "big", "short\n", "short")
			w.branch("feature", "big", long)
			e := effects.Merge{Repo: "repo", Branch: "feature", Into: "main", Strategy: ff}
			w.killAt(e, "publish: moved")
			w.write("repo/big", row.left)

			_, err := w.carry(e)
			if !row.ours {
				f := failure(t, err, false, "dirty worktree")
				assert.Equal(t, []string{"big"}, f.Files)
				return
			}
			require.NoError(t, err)
			assert.Empty(t, w.git("repo", "status", "--porcelain"))
			w.noTraces()
		})
	}
}

func TestAWorktreeWhoseDaemonIsKilledIsMadeByTheNext(t *testing.T) {
	for name, kill := range map[string]func(*workspace, effects.Outer){
		"before":  func(w *workspace, e effects.Outer) { w.killAt(e, "add: noted") },
		"midways": func(w *workspace, e effects.Outer) { w.killInside(e, "add: noted") },
		"after":   func(w *workspace, e effects.Outer) { w.killAt(e, "add: made") },
		"as by a power cut": func(w *workspace, _ effects.Outer) { // git had no time to clean up
			w.git("repo", "worktree", "add", "--quiet", w.path("new"), "-b", "new")
			require.NoError(w.t, os.Remove(w.path("new/README")))
			w.write("repo/.git/worktrees/new/locked", "initializing")
			w.write("repo/.git/worktrees/new/index.lock", "")
			git.NoteAdd(w.path("repo/.git"), w.path("new"))
		},
		"as by an earlier power cut": func(w *workspace, _ effects.Outer) {
			w.write("new/.git", "gitdir: /nowhere\n")
			git.NoteAdd(w.path("repo/.git"), w.path("new"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, _ := diverged(t)
			w.commit("repo", "slow", "slow\n", "slow")
			e := effects.WorktreeAdd{Repo: "repo", Branch: "new", Path: "new"}
			kill(w, e)
			_, err := w.carry(e)
			require.NoError(t, err)
			assert.Empty(t, w.git("new", "status", "--porcelain"))
			assert.Equal(t, "slow\n", w.read("new/slow"))
			assert.Equal(t, "new", w.git("new", "branch", "--show-current"))
			w.noTraces()
		})
	}
}

// A git that is told to end, as its daemon dies, takes its worktree away, while
// the git that it has started to write the files goes on.
func TestFilesOfAWorktreeThatCouldNotBeMadeAreNobodys(t *testing.T) {
	for name, row := range map[string]struct {
		spoil func(*workspace)
		ours  bool
	}{
		"all":       {func(*workspace) {}, true},
		"some":      {func(w *workspace) { require.NoError(w.t, os.Remove(w.path("new/README"))) }, true},
		"and more":  {func(w *workspace) { w.write("new/dir/mine", "x") }, false},
		"changed":   {func(w *workspace) { w.write("new/README", "mine\n") }, false},
		"ignored":   {func(w *workspace) { w.write("new/x.o", "x"); w.write("repo/.git/info/exclude", "*.o\n") }, false},
		"of a file": {func(w *workspace) { require.NoError(w.t, os.RemoveAll(w.path("new"))); w.write("new", "x") }, false},
	} {
		t.Run(name, func(t *testing.T) {
			w, _ := diverged(t)
			e := effects.WorktreeAdd{Repo: "repo", Branch: "new", Path: "new"}
			w.killAt(e, "add: noted")
			require.NoError(t, os.Mkdir(w.path("new"), 0o700))
			w.git("repo", "--work-tree="+w.path("new"), "checkout", "--quiet", "--force", "new", "--", ".")
			row.spoil(w)

			_, err := w.carry(e)
			if !row.ours {
				failure(t, err, true, "is taken")
				assert.True(t, isDir(w.path("new")) || w.read("new") == "x")
				return
			}
			require.NoError(t, err)
			assert.Empty(t, w.git("new", "status", "--porcelain"))
			w.noTraces()
		})
	}
}

func TestAWorktreeThatAnotherGitIsMakingIsLeftAlone(t *testing.T) {
	w := newWorkspace(t, git.Options{})
	_, err := w.add("feature", "wt")
	require.NoError(t, err)
	w.write("repo/.git/worktrees/wt/locked", "initializing")
	before := w.state()
	_, err = w.add("feature", "wt")
	failure(t, err, false, "just being made by another git")
	_, err = w.remove("wt", true)
	failure(t, err, false, "just being made")
	assert.Equal(t, before, w.state())
}

func TestARemovalWhoseDaemonIsKilledIsFinishedByTheNext(t *testing.T) {
	for _, step := range []string{"remove: moved", "remove: forgotten"} {
		t.Run(step, func(t *testing.T) {
			w := newWorkspace(t, git.Options{})
			_, err := w.add("feature", "wt")
			require.NoError(t, err)
			e := effects.WorktreeRemove{Repo: "repo", Path: "wt"}
			w.killAt(e, step)
			_, err = w.carry(e)
			require.NoError(t, err)
			assert.NotContains(t, w.state(), "wt")
			entries, err := os.ReadDir(w.root)
			require.NoError(t, err)
			assert.Len(t, entries, 1, "only the repository is there")
			w.noTraces()
		})
	}
}

// cancelAfter cancels an effect while a git that runs after that step is blocked, and
// gives the effect's error.
func (w *workspace) cancelAfter(at string, e effects.Outer) error {
	ctx, cancel := newCancel(w.t)
	git.OnStep(w.g, func(step string) {
		if step == at {
			w.write("block", "")
		}
	})
	done := make(chan error, 1)
	go func() {
		_, err := w.g.Carry(ctx, effects.Ref{}, e)
		done <- err
	}()
	_, err := os.ReadFile(w.path("reached"))
	require.NoError(w.t, err)
	cancel()
	return <-done
}

func TestACancelledMergeEndsTheGitCommand(t *testing.T) {
	w, e := diverged(t)
	before := w.state()
	failure(t, w.cancelAfter("rebase: worktree made", e), false, "enough")
	assert.Equal(t, before, w.state())
	w.noTraces()
}

func TestWhatAnotherProcessIsAtWorkOnIsWaitedForAndThenNamed(t *testing.T) {
	w, e := diverged(t)
	d := w.daemon(e, stepVar+"=rebase: done")
	_, err := d.out.ReadString('\n')
	require.NoError(t, err)
	hasty, err := git.New(git.Options{Root: w.root, LockWait: -1})
	require.NoError(t, err)
	_, err = hasty.Carry(t.Context(), effects.Ref{}, e)
	failure(t, err, false, "orrery-tmp/lock", "is held by another process")
	d.kill()
	_, err = w.carry(e)
	require.NoError(t, err)
	checkMerged(t, w)
}

func TestACancelledWorktreeIsTakenBackWithItsBranch(t *testing.T) {
	w, _ := diverged(t)
	w.commit("repo", "slow", "slow\n", "slow")
	before := w.state()
	failure(t, w.cancelAfter("add: noted", effects.WorktreeAdd{Repo: "repo", Branch: "new", Path: "new"}), false, "enough")
	assert.Equal(t, before, w.state())
	assert.NoDirExists(t, w.path("new"))
	w.noTraces()
}

func TestAnyOperationClearsAwayWhatAKilledRebaseHasLeft(t *testing.T) {
	w, e := diverged(t)
	before := w.state()
	w.killAt(e, "rebase: done")
	require.NotEqual(t, before, w.state())
	_, err := w.remove("nothing", false)
	require.NoError(t, err)
	assert.Equal(t, before, w.state())
	w.noTraces()
}

func TestWhatAFilterLeavesBehindDoesNotKeepTheLock(t *testing.T) {
	w, e := diverged(t)
	w.write("linger", "")
	w.write("filter", "#!/bin/sh\n(while [ -e '"+w.path("linger")+"' ]; do sleep 0.02; done) >/dev/null 2>&1 &\nexec cat\n")
	t.Cleanup(func() { _ = os.Remove(w.path("linger")) })
	_, err := w.carry(e)
	require.NoError(t, err)
	hasty, err := git.New(git.Options{Root: w.root, LockWait: -1})
	require.NoError(t, err)
	_, err = hasty.Carry(t.Context(), effects.Ref{}, e)
	require.NoError(t, err)
	checkMerged(t, w)
}
