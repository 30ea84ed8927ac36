package git_test

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/git"
)

func TestALockFileOfGitIsWaitedForAndNeverRemoved(t *testing.T) {
	for _, lock := range []string{"index.lock", "refs/heads/main.lock"} {
		t.Run(lock, func(t *testing.T) {
			w := newWorkspace(t, git.Options{LockWait: -1})
			w.branch("feature", "a", "a\n")
			w.write("repo/.git/"+lock, "")
			before := w.state()
			_, err := w.merge("feature", "main", ff)
			failure(t, err, false, lock, "is held by another git process")
			assert.FileExists(t, w.path("repo/.git/"+lock))
			assert.Equal(t, before, w.state())

			patient, err := git.New(git.Options{Root: w.root, LockWait: time.Minute})
			require.NoError(t, err)
			git.OnStep(patient, func(step string) {
				if step == "waits" {
					_ = os.Remove(w.path("repo/.git/" + lock))
				}
			})
			_, err = patient.Carry(t.Context(), effects.Ref{}, effects.Merge{Repo: "repo", Branch: "feature", Into: "main", Strategy: ff})
			require.NoError(t, err)
			assert.Equal(t, "a\n", w.read("repo/a"))
		})
	}
}

func TestFilesThatCannotFollowTakeTheBranchesBack(t *testing.T) {
	w := newWorkspace(t, git.Options{})
	w.branch("feature", "a", "a\n")
	before := w.id("main")
	git.OnStep(w.g, func(step string) {
		if step == "publish: moved" { // somebody is faster than the files
			w.write("repo/a", "mine\n")
		}
	})
	_, err := w.merge("feature", "main", ff)
	failure(t, err, false, "update a checkout")
	assert.Equal(t, before, w.id("main"))
	assert.Equal(t, "mine\n", w.read("repo/a"))
	assert.Equal(t, "?? a", w.git("repo", "status", "--porcelain"))
	w.noTraces()
}

func TestWhatAPersonChangedWhenFilesCannotFollowStays(t *testing.T) {
	w := newWorkspace(t, git.Options{})
	w.commit("repo", "other", "other\n", "other")
	w.branch("feature", "README", "two\n")
	before := w.id("main")
	git.OnStep(w.g, func(step string) {
		if step == "publish: moved" {
			w.write("repo/README", "mine\n")
			w.write("repo/other", "mine too\n")
		}
	})
	_, err := w.merge("feature", "main", ff)
	failure(t, err, false, "update a checkout")
	assert.Equal(t, before, w.id("main"))
	assert.Equal(t, "mine\n", w.read("repo/README"))
	assert.Equal(t, "mine too\n", w.read("repo/other"))
	w.noTraces()
}

func TestACancelledMergeIsTakenBack(t *testing.T) {
	for _, at := range []string{"merge: read", "rebase: worktree made", "rebase: done", "publish: noted"} {
		t.Run(at, func(t *testing.T) {
			w := newWorkspace(t, git.Options{})
			w.branch("feature", "a", "a\n")
			w.commit("repo", "b", "b\n", "on main")
			before := w.state()
			ctx, cancel := context.WithCancelCause(t.Context())
			git.OnStep(w.g, func(step string) {
				if step == at {
					cancel(errors.New("enough"))
				}
			})
			_, err := w.g.Carry(ctx, effects.Ref{}, effects.Merge{Repo: "repo", Branch: "feature", Into: "main", Strategy: rebase})
			failure(t, err, false, "enough")
			assert.Equal(t, before, w.state())
			w.noTraces()
		})
	}
}

func TestACheckoutThatFailsHalfwayIsTakenBack(t *testing.T) {
	w := newWorkspace(t, git.Options{})
	w.commit("repo", ".gitattributes", "z filter=bad\n", "attributes")
	w.git("repo", "checkout", "--quiet", "-b", "feature")
	w.commit("repo", "README", "two\n", "two")
	w.commit("repo", "new", "new\n", "new")
	w.commit("repo", "z", "z\n", "z")
	w.git("repo", "checkout", "--quiet", "main")
	w.git("repo", "config", "filter.bad.smudge", "false")
	w.git("repo", "config", "filter.bad.required", "true")
	before := w.state()

	_, err := w.merge("feature", "main", ff)

	failure(t, err, false, "update a checkout", "smudge filter bad failed")
	assert.Equal(t, before, w.state())
	assert.Equal(t, "one\n", w.read("repo/README"))
	assert.NoFileExists(t, w.path("repo/new"))
	w.noTraces()
}

func TestWhoWaitsForAnotherMergeCanBeCancelled(t *testing.T) {
	w := newWorkspace(t, git.Options{})
	w.branch("feature", "a", "a\n")
	ctx, cancel := newCancel(t)
	done := make(chan error, 1)
	git.OnStep(w.g, func(step string) {
		switch step {
		case "waits for another operation":
			cancel()
		case "merge: read":
			_, err := w.g.Carry(ctx, effects.Ref{}, effects.Merge{Repo: "repo", Branch: "feature", Into: "main", Strategy: ff})
			done <- err
		}
	})
	_, err := w.merge("feature", "main", ff)
	require.NoError(t, err)
	failure(t, <-done, false, "enough", "another operation was at work")
}

func TestTheTimeLimitEndsAnEffect(t *testing.T) {
	w := newWorkspace(t, git.Options{TimeLimit: time.Nanosecond})
	_, err := w.merge("feature", "main", ff)
	failure(t, err, false, "the time limit of 1ns is over")
}

// Half of what git says could say something else: that nothing has changed.
func TestOutputThatDoesNotEndIsNotTakenForAll(t *testing.T) {
	w := newWorkspace(t, git.Options{})
	w.branch("feature", "a", "a\n")
	w.write("linger", "")
	t.Cleanup(func() { _ = os.Remove(w.path("linger")) })
	w.write("git", `#!/bin/sh
case " $* " in
*" status "*) (while [ -e '`+w.path("linger")+`' ]; do sleep 0.02; done) & ;;
*) exec git "$@" ;;
esac
`)
	require.NoError(t, os.Chmod(w.path("git"), 0o700))
	g, err := git.New(git.Options{Root: w.root, Git: w.path("git")})
	require.NoError(t, err)
	git.Grace(g, 0)
	before := w.id("main")
	_, err = g.Carry(t.Context(), effects.Ref{}, effects.Merge{Repo: "repo", Branch: "feature", Into: "main", Strategy: ff})
	failure(t, err, false, "its output did not end")
	assert.Equal(t, before, w.id("main"))
}
