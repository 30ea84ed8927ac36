package git_test

import (
	"encoding/json"
	"fmt"
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

// hastily gives a Git that waits for no lock longer than it must.
func (w *workspace) hastily() *git.Git {
	w.t.Helper()
	g, err := git.New(git.Options{Root: w.root, LockWait: -1})
	require.NoError(w.t, err)
	git.Settle(g, 100*time.Millisecond)
	return g
}

// leave makes a lock file as a git does that dies right then.
func (w *workspace) leave(lock, text string) string {
	w.t.Helper()
	w.write("repo/.git/"+lock, text)
	return w.path("repo/.git/" + lock)
}

// killedInAMerge is a workspace in which a daemon was killed as it merged, just
// before it moved the branches.
func killedInAMerge(t *testing.T) (*workspace, effects.Merge) {
	w, e := diverged(t)
	w.killAt(e, "publish: noted")
	w.awaitFree()
	return w, e
}

func TestALockFileThatAGitOfADeadDaemonLeftIsRemoved(t *testing.T) {
	for _, row := range []struct {
		lock, text string
		seesAll    bool
	}{
		{"index.lock", "", false},
		{"index.lock", "the beginning of an index", true},
		{"HEAD.lock", "", true},
		{"refs/heads/main.lock", "", false},
		{"refs/heads/feature.lock", strings.Repeat("0", 40) + "\n", false},
		{"worktrees/wt/index.lock", "", true},
	} {
		t.Run(row.lock, func(t *testing.T) {
			t.Parallel() // it waits
			w, e := killedInAMerge(t)
			lock := w.leave(row.lock, row.text)
			g := w.hastily()
			git.SeesAll(g, row.seesAll)
			_, err := g.Carry(t.Context(), effects.Ref{}, e)
			require.NoError(t, err)
			assert.NoFileExists(t, lock)
			checkMerged(t, w)
		})
	}
}

// removedByAnother requires that other operations remove a file.
func (w *workspace) removedByAnother(g *git.Git, path string) {
	w.t.Helper()
	require.Eventually(w.t, func() bool {
		_, err := g.Carry(w.t.Context(), effects.Ref{}, effects.WorktreeRemove{Repo: "repo", Path: "nothing"})
		assert.NoError(w.t, err)
		_, err = os.Lstat(path)
		return os.IsNotExist(err)
	}, time.Minute, 100*time.Millisecond)
}

func TestAllThatAGitOfADeadDaemonLeftIsRemovedAfterOneWait(t *testing.T) {
	w, e := killedInAMerge(t)
	for _, lock := range []string{"index.lock", "HEAD.lock", "refs/heads/main.lock", "refs/heads/feature.lock", "worktrees/wt/index.lock", "worktrees/wt/HEAD.lock"} {
		w.leave(lock, "")
	}
	g := w.hastily()
	_, err := g.Carry(t.Context(), effects.Ref{}, e)
	require.NoError(t, err)
	// The last of them was in nobody's way.
	w.removedByAnother(g, w.path("repo/.git/orrery-tmp/left.json"))
	checkMerged(t, w)
}

func TestALockFileThatMayHaveBeenLeftIsWaitedForToo(t *testing.T) {
	w, e := killedInAMerge(t)
	lock := w.leave("index.lock", "")
	patient, err := git.New(git.Options{Root: w.root, LockWait: time.Hour})
	require.NoError(t, err)
	for range 2 { // of which the first one finds it
		_, err = patient.Carry(t.Context(), effects.Ref{}, effects.WorktreeRemove{Repo: "repo", Path: "nothing"})
		require.NoError(t, err)
		require.FileExists(t, lock)
	}
	waits := 0
	git.OnStep(patient, func(step string) {
		if step == "waits" {
			if waits++; waits == 2 {
				assert.NoError(t, os.Remove(lock), "it is there")
			}
		}
	})
	_, err = patient.Carry(t.Context(), effects.Ref{}, e)
	require.NoError(t, err)
	assert.Equal(t, 2, waits)
	checkMerged(t, w)
}

// The lock on the packed refs stops no command of ours, but those of persons.
func TestALockFileThatIsInNobodysWayGoesWithALaterOperation(t *testing.T) {
	w, e := killedInAMerge(t)
	lock := w.leave("packed-refs.lock", "")
	g := w.hastily()
	_, err := g.Carry(t.Context(), effects.Ref{}, e)
	require.NoError(t, err)
	w.removedByAnother(g, lock)
	checkMerged(t, w)
}

// Real locks of a real git, which is killed and not the daemon.
func TestTheLocksOfAGitThatIsKilledAreInNobodysWay(t *testing.T) {
	for name, row := range map[string]struct {
		changed string // file, before the one at which git is killed
		met     bool   // the lock, as the merge is taken back
	}{
		"when it is taken back":  {"README", true},
		"when it is tried again": {"new", false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorkspace(t, git.Options{LockWait: time.Second})
			w.write("filter", "#!/bin/sh\nif [ -e '"+w.path("block")+"' ]; then rm '"+w.path("block")+"'; kill -9 $PPID; fi\nexec cat\n")
			require.NoError(t, os.Chmod(w.path("filter"), 0o700))
			w.git("repo", "config", "filter.slow.smudge", w.path("filter"))
			w.commit("repo", ".gitattributes", "slow filter=slow\n", "attributes")
			w.git("repo", "checkout", "--quiet", "-b", "feature")
			w.commit("repo", row.changed, "two\n", "two")
			w.commit("repo", "slow", "slow\n", "slow")
			w.git("repo", "checkout", "--quiet", "main")
			before := w.state()
			met := false
			git.OnStep(w.g, func(step string) {
				switch step {
				case "publish: moved":
					w.write("block", "")
				case "waits":
					met = true
				}
			})
			_, err := w.merge("feature", "main", ff)
			failure(t, err, false, "update a checkout", "signal: killed")
			assert.Equal(t, row.met, met)
			assert.Equal(t, before, w.state())
			assert.NoFileExists(t, w.path("repo/new"))

			git.OnStep(w.g, func(string) {})
			_, err = w.hastily().Carry(t.Context(), effects.Ref{}, effects.Merge{Repo: "repo", Branch: "feature", Into: "main", Strategy: ff})
			require.NoError(t, err)
			assert.Equal(t, "two\n", w.read("repo/"+row.changed))
			assert.Equal(t, "slow\n", w.read("repo/slow"))
			assert.Empty(t, w.git("repo", "status", "--porcelain"))
			w.noTraces()
		})
	}
}

func TestALockFileThatNoDeadGitOfOursCanHaveMadeStays(t *testing.T) {
	for name, make := range map[string]func(*workspace) (lock string){
		"older than what died": func(w *workspace) string {
			lock := w.leave("refs/heads/main.lock", "")
			long := time.Now().Add(-time.Hour)
			require.NoError(w.t, os.Chtimes(lock, long, long))
			return lock
		},
		"made after it was seen that something had died": func(w *workspace) string {
			_, err := w.remove("nothing", false)
			require.NoError(w.t, err)
			return w.leave("refs/heads/main.lock", "")
		},
		"made in place of one that was left": func(w *workspace) string {
			lock := w.leave("refs/heads/main.lock", "")
			_, err := w.remove("nothing", false)
			require.NoError(w.t, err)
			require.NoError(w.t, os.Remove(lock))
			return w.leave("refs/heads/main.lock", "")
		},
		"that somebody has open": func(w *workspace) string {
			lock := w.leave("index.lock", "")
			f, err := os.Open(lock)
			require.NoError(w.t, err)
			w.t.Cleanup(func() { _ = f.Close() })
			return lock
		},
		"of another user": func(w *workspace) string {
			lock := w.leave("index.lock", "")
			if err := os.Chown(lock, 12345, -1); err != nil {
				w.t.Skip("only root can give files away")
			}
			return lock
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // it waits
			w, e := killedInAMerge(t)
			lock := make(w)
			before := w.state()
			for range 2 {
				_, err := w.hastily().Carry(t.Context(), effects.Ref{}, e)
				failure(t, err, false, lock, "is held by another git process")
				assert.FileExists(t, lock)
				assert.Equal(t, before, w.state())
			}
			require.NoError(t, os.Remove(lock))
			_, err := w.carry(e)
			require.NoError(t, err)
			checkMerged(t, w)
		})
	}
}

// Git holds the lock on an index, and has it not open, while a person writes a
// message.
func TestALockFileOfAPersonWhoCommitsStays(t *testing.T) {
	w, e := killedInAMerge(t)
	require.NoError(t, syscall.Mkfifo(w.path("begun"), 0o600))
	require.NoError(t, syscall.Mkfifo(w.path("written"), 0o600))
	w.write("editor", "#!/bin/sh\necho x > '"+w.path("begun")+"'\nread x < '"+w.path("written")+"'\n")
	require.NoError(t, os.Chmod(w.path("editor"), 0o700))
	cmd := exec.Command("git", "-c", "user.name=A", "-c", "user.email=a@example.org", "commit", "--quiet", "--all", "--amend")
	cmd.Dir = w.path("repo")
	cmd.Env = append(os.Environ(), "GIT_EDITOR="+w.path("editor"))
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	_, err := os.ReadFile(w.path("begun"))
	require.NoError(t, err)
	lock := w.path("repo/.git/index.lock")
	require.FileExists(t, lock)

	for range 2 {
		_, err = w.hastily().Carry(t.Context(), effects.Ref{}, e)
		failure(t, err, false, lock, fmt.Sprintf("process %d (git) may hold it", cmd.Process.Pid))
		assert.FileExists(t, lock)
	}
	require.NoError(t, os.WriteFile(w.path("written"), []byte("x\n"), 0o600))
	require.NoError(t, cmd.Wait(), "the person's commit is made")
	_, err = w.carry(e)
	require.NoError(t, err)
}

func TestAnIndexLockWithSomethingInItStaysWhereNotAllProcessesAreSeen(t *testing.T) {
	w, e := killedInAMerge(t)
	lock := w.leave("index.lock", "an index")
	g := w.hastily()
	git.SeesAll(g, false)
	_, err := g.Carry(t.Context(), effects.Ref{}, e)
	failure(t, err, false, lock, "may be where the daemon cannot see")
	assert.FileExists(t, lock)

	// But nobody holds one of before the system was started.
	note := w.path("repo/.git/orrery-tmp/left.json")
	var left []map[string]any
	require.NoError(t, json.Unmarshal([]byte(w.read("repo/.git/orrery-tmp/left.json")), &left))
	require.Len(t, left, 1)
	left[0]["boot"] = "another"
	b, err := json.Marshal(left)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(note, b, 0o600))
	_, err = g.Carry(t.Context(), effects.Ref{}, e)
	require.NoError(t, err)
	checkMerged(t, w)
}

func TestNotesThatAreDamagedRemoveNothing(t *testing.T) {
	w, e := diverged(t)
	w.write("repo/.git/orrery-tmp/left.json", `[{"path":"../file.lock"},{"path":"config"},{"pa`)
	w.write("repo/file.lock", "mine")
	_, err := w.carry(e)
	require.NoError(t, err)
	assert.FileExists(t, w.path("repo/file.lock"))
	require.NoError(t, os.Remove(w.path("repo/file.lock")))
	checkMerged(t, w)
}

func TestOnlyLockFilesThatOurCommandsMakeCanBeLeft(t *testing.T) {
	for _, path := range []string{"index.lock", "HEAD.lock", "ORIG_HEAD.lock", "packed-refs.lock", "packed-refs.new", "refs/heads/a.lock", "refs/heads/a/b.lock", "worktrees/a/index.lock"} {
		assert.True(t, git.Lockable(path), path)
	}
	for _, path := range []string{
		"", "index", "config.lock", "shallow.lock", "gc.pid.lock", "../index.lock", "/index.lock", "a/index.lock", "refs/heads/a", "refs/heads/../../x.lock",
		"refs/tags/a.lock", "refs/heads.lock", "worktrees/index.lock", "worktrees/a/b/index.lock", "worktrees/../index.lock", "worktrees/a/packed-refs.lock", "worktrees/a/gitdir.lock",
	} {
		assert.False(t, git.Lockable(path), path)
	}
}
