package git_test

import (
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/git"
)

const (
	ff     = effects.MergeFastForward
	rebase = effects.MergeRebase
)

func TestAFastForwardMovesTheTargetAndItsCheckout(t *testing.T) {
	w := newWorkspace(t, git.Options{})
	before, tip := w.id("main"), w.branch("feature", "new file.txt", "new\n")

	r, err := w.merge("feature", "main", ff)
	require.NoError(t, err)

	assert.Equal(t, git.MergeResult{Strategy: ff, Branch: "feature", Into: "main", Before: before, After: tip, FastForward: true}, r)
	assert.Equal(t, tip, w.id("main"))
	assert.Equal(t, "new\n", w.read("repo/new file.txt"))
	assert.Empty(t, w.git("repo", "status", "--porcelain"))
	w.noTraces()
}

func TestTheResultOfAMergeHasTheseFields(t *testing.T) {
	w := newWorkspace(t, git.Options{})
	w.branch("feature", "a", "a\n")
	raw, err := w.carry(effects.Merge{Repo: "repo", Branch: "feature", Into: "main", Strategy: ff})
	require.NoError(t, err)
	assert.JSONEq(t, fmt.Sprintf(`{"strategy":"fast-forward","branch":"feature","into":"main","before":%q,"after":%q,"fast_forward":true,"up_to_date":false}`,
		w.id("main~1"), w.id("main")), string(raw))
}

func TestWhatIsMergedAlreadyIsNoError(t *testing.T) {
	w := newWorkspace(t, git.Options{})
	w.branch("feature", "a", "a\n")
	for _, s := range []effects.MergeStrategy{ff, rebase} {
		_, err := w.merge("feature", "main", s)
		require.NoError(t, err)
		before := w.state()
		r, err := w.merge("feature", "main", s)
		require.NoError(t, err)
		assert.True(t, r.UpToDate)
		assert.False(t, r.FastForward)
		assert.Equal(t, r.Before, r.After)
		assert.Equal(t, before, w.state())
	}
}

func TestADivergedBranchIsNotAFastForward(t *testing.T) {
	w := newWorkspace(t, git.Options{})
	w.branch("feature", "a", "a\n")
	w.commit("repo", "b", "b\n", "on main")
	before := w.state()

	_, err := w.merge("feature", "main", ff)

	e := failure(t, err, true, `merge of "feature" in "repo": not a fast-forward`)
	assert.Equal(t, "merge", e.Op)
	assert.NotContains(t, err.Error(), "conflict")
	assert.Equal(t, before, w.state())
	w.noTraces()
}

func TestARebaseMovesBothBranches(t *testing.T) {
	w := newWorkspace(t, git.Options{})
	w.branch("feature", "a", "a\n")
	before := w.commit("repo", "b", "b\n", "on main")

	r, err := w.merge("feature", "main", rebase)
	require.NoError(t, err)

	assert.False(t, r.FastForward)
	assert.Equal(t, before, r.Before)
	assert.Equal(t, before, w.id("main~1"), "the branch stands on what the target was")
	assert.Equal(t, w.id("main"), w.id("feature"))
	assert.Equal(t, r.After, w.id("main"))
	assert.Equal(t, "a\n", w.read("repo/a"))
	assert.Empty(t, w.git("repo", "status", "--porcelain"))
	assert.Equal(t, fakeName+"|Orrery|orrery@localhost", w.git("repo", "log", "-1", "--format=%an|%cn|%ce"), "the author stays")
	w.noTraces()
}

func TestTheConfiguredUserIsTheCommitterOfARebase(t *testing.T) {
	w := newWorkspace(t, git.Options{Author: "Nobody", Email: "nobody@example.org"})
	w.git("repo", "config", "user.name", "Grace")
	w.branch("feature", "a", "a\n")
	w.commit("repo", "b", "b\n", "on main")
	_, err := w.merge("feature", "main", rebase)
	require.NoError(t, err)
	assert.Equal(t, "Grace|nobody@example.org", w.git("repo", "log", "-1", "--format=%cn|%ce"))
}

func TestARebaseOfWhatNeedsNoneIsAFastForward(t *testing.T) {
	w := newWorkspace(t, git.Options{})
	tip := w.branch("feature", "a", "a\n")
	r, err := w.merge("feature", "main", rebase)
	require.NoError(t, err)
	assert.True(t, r.FastForward)
	assert.Equal(t, tip, w.id("main"))
}

func TestARebaseWhoseCommitsAreAllThereLeavesTheTarget(t *testing.T) {
	w := newWorkspace(t, git.Options{})
	w.branch("feature", "a", "a\n")
	w.commit("repo", "b", "b\n", "first")
	w.git("repo", "cherry-pick", "feature")
	main := w.id("main")
	r, err := w.merge("feature", "main", rebase)
	require.NoError(t, err)
	assert.True(t, r.UpToDate)
	assert.Equal(t, main, w.id("main"))
	assert.Equal(t, main, w.id("feature"))
}

func TestAConflictNamesTheFilesAndChangesNothing(t *testing.T) {
	for _, row := range []struct{ name, file string }{
		{"a plain name", "README"},
		{"spaces and letters beyond ASCII", "Grüße aus Köln/日本 語.txt"},
		{"a name like an option", "--force"},
		{"a quote", `it's "quoted"`},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := newWorkspace(t, git.Options{})
			w.commit("repo", row.file, "base\n", "base")
			w.branch("feature", row.file, "theirs\n")
			w.commit("repo", row.file, "ours\n", "on main")
			_, err := w.add("feature", "wt")
			require.NoError(t, err)
			before := w.state()

			_, err = w.merge("feature", "main", rebase)

			e := failure(t, err, true, "conflict")
			assert.Equal(t, []string{row.file}, e.Files)
			assert.ErrorContains(t, err, fmt.Sprintf("%q", row.file))
			assert.NotContains(t, err.Error(), "not a fast-forward")
			assert.Equal(t, before, w.state())
			w.noTraces()
		})
	}
}

func TestACheckoutOfTheBranchFollowsItsRebase(t *testing.T) {
	w := newWorkspace(t, git.Options{})
	w.branch("feature", "a", "a\n")
	w.commit("repo", "b", "b\n", "on main")
	_, err := w.add("feature", "wt")
	require.NoError(t, err)
	w.write("wt/untracked", "mine\n")

	_, err = w.merge("feature", "main", rebase)
	require.NoError(t, err)

	assert.Equal(t, "b\n", w.read("wt/b"))
	assert.Equal(t, w.id("main"), w.git("wt", "rev-parse", "HEAD"))
	assert.Equal(t, "?? untracked", w.git("wt", "status", "--porcelain"))
	assert.Equal(t, "feature", w.git("wt", "branch", "--show-current"))
}

func TestADirtyCheckoutStopsAMergeThatWouldChangeIt(t *testing.T) {
	for name, row := range map[string]struct {
		strategy effects.MergeStrategy
		soil     func(*workspace)
		files    []string
	}{
		"the target, changed":         {ff, func(w *workspace) { w.write("repo/README", "mine\n") }, []string{"README"}},
		"the target, staged":          {ff, func(w *workspace) { w.write("repo/x y", "mine\n"); w.git("repo", "add", "x y") }, []string{"x y"}},
		"the target, deleted":         {ff, func(w *workspace) { require.NoError(w.t, os.Remove(w.path("repo/README"))) }, []string{"README"}},
		"the target, in the way":      {ff, func(w *workspace) { w.write("repo/ä a", "mine\n") }, []string{"ä a"}},
		"the target of a rebase":      {rebase, func(w *workspace) { w.commit("repo", "b", "b\n", "b"); w.write("repo/b", "mine\n") }, []string{"b"}},
		"the branch of a rebase":      {rebase, func(w *workspace) { w.commit("repo", "b", "b\n", "b"); w.write("wt/ä a", "mine\n") }, []string{"ä a"}},
		"in the branch's way":         {rebase, func(w *workspace) { w.commit("repo", "b", "b\n", "b"); w.write("wt/b", "mine\n") }, []string{"b"}},
		"ignored, and still somebody": {ff, func(w *workspace) { w.write("repo/.git/info/exclude", "*\n"); w.write("repo/ä a", "mine\n") }, []string{"ä a"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorkspace(t, git.Options{})
			w.branch("feature", "ä a", "a\n")
			_, err := w.add("feature", "wt")
			require.NoError(t, err)
			row.soil(w)
			before := w.state()

			_, err = w.merge("feature", "main", row.strategy)

			e := failure(t, err, false, "dirty worktree")
			assert.Equal(t, row.files, e.Files)
			assert.NotContains(t, err.Error(), "conflict")
			assert.Equal(t, before, w.state())
			w.noTraces()
		})
	}
}

func TestAFileThatWasTouchedAndIsTheSameIsNoChange(t *testing.T) {
	w := newWorkspace(t, git.Options{})
	w.branch("feature", "README", "two\n")
	require.NoError(t, os.Chtimes(w.path("repo/README"), time.Unix(1e9, 0), time.Unix(1e9, 0)))
	_, err := w.merge("feature", "main", ff)
	require.NoError(t, err)
	assert.Equal(t, "two\n", w.read("repo/README"))
}

func TestABranchThatAPersonIsRebasingIsLeftAlone(t *testing.T) {
	w := newWorkspace(t, git.Options{})
	w.branch("feature", "README", "theirs\n")
	w.commit("repo", "README", "ours\n", "on main")
	_, err := w.add("feature", "wt")
	require.NoError(t, err)
	_, err = w.try("wt", "rebase", "main")
	require.Error(t, err, "it stops at a conflict")
	before := w.state()
	_, err = w.merge("feature", "main", rebase)
	failure(t, err, false, "dirty worktree", "a rebase with branch")
	assert.Equal(t, before, w.state())
}

func TestMergesThatCannotBeAreRefusedForGood(t *testing.T) {
	w := newWorkspace(t, git.Options{})
	w.branch("feature", "a", "a\n")
	w.git("repo", "symbolic-ref", "refs/heads/other", "refs/heads/feature")
	w.git("repo", "update-ref", "refs/tags/tagged", "feature")
	for _, row := range []struct {
		branch, into string
		strategy     effects.MergeStrategy
		want         string
	}{
		{"feature", "main", effects.MergeAgent, "runs it as a task with a session"},
		{"feature", "main", "octopus", `strategy: "octopus" is unknown: use "fast-forward" or "rebase"`},
		{"nothing", "main", ff, `branch: there is no branch "nothing"`},
		{"feature", "nothing", ff, `into: there is no branch "nothing"`},
		{"tagged", "main", ff, `branch: there is no branch "tagged"`},
		{"feat", "main", ff, `branch: there is no branch "feat"`},
		{"main", "main", ff, `into: "main" is the branch itself`},
		{"other", "main", ff, `branch "other" is another name for "refs/heads/feature"`},
		{"--upload-pack=x", "main", ff, `branch: "--upload-pack=x" begins with '-'`},
		{"feature", "-f", ff, `into: "-f" begins with '-'`},
		{"main..feature", "main", ff, `has ".."`},
		{"@{-1}", "main", ff, `has "@{"`},
		{"", "main", ff, `branch: must name a branch, is empty`},
	} {
		before := w.state()
		_, err := w.merge(row.branch, row.into, row.strategy)
		failure(t, err, true, row.want)
		assert.Equal(t, before, w.state(), row)
	}
}

func TestABareRepositoryMerges(t *testing.T) {
	w := newWorkspace(t, git.Options{})
	w.branch("feature", "a", "a\n")
	w.branch("second", "b", "b\n")
	w.git(".", "clone", "--quiet", "--bare", "repo", "bare dir.git")
	for _, row := range []struct {
		branch   string
		strategy effects.MergeStrategy
	}{{"feature", ff}, {"second", rebase}} {
		_, err := w.carry(effects.Merge{Repo: "bare dir.git", Branch: row.branch, Into: "main", Strategy: row.strategy})
		require.NoError(t, err)
		assert.Equal(t, w.git("bare dir.git", "rev-parse", row.branch), w.git("bare dir.git", "rev-parse", "main"))
	}
	assert.Equal(t, "a\nb", w.git("bare dir.git", "diff", "--name-only", "main~2", "main"))
}

func TestAShallowRepositorySaysThatItIs(t *testing.T) {
	w := newWorkspace(t, git.Options{})
	w.branch("feature", "a", "a\n")
	w.commit("repo", "b", "b\n", "on main")
	w.git(".", "clone", "--quiet", "--depth=1", "--no-single-branch", "file://"+w.path("repo"), "shallow")
	w.git("shallow", "branch", "feature", "origin/feature")
	_, err := w.carry(effects.Merge{Repo: "shallow", Branch: "feature", Into: "main", Strategy: ff})
	failure(t, err, true, "not a fast-forward", "shallow")
}

func TestMergesAtOnceIntoOneBranchAllArrive(t *testing.T) {
	w := newWorkspace(t, git.Options{})
	second, err := git.New(git.Options{Root: w.root, LockWait: 5 * time.Minute}) // as another daemon
	require.NoError(t, err)
	const n = 4
	for i := range n {
		w.branch(fmt.Sprint("feature-", i), fmt.Sprint("file-", i), "text\n")
	}
	var wg sync.WaitGroup
	for i := range n {
		g := []*git.Git{w.g, second}[i%2]
		wg.Go(func() {
			e := effects.Merge{Repo: "repo", Branch: fmt.Sprint("feature-", i), Into: "main", Strategy: rebase}
			_, err := g.Carry(t.Context(), effects.Ref{}, e)
			assert.NoError(t, err)
		})
	}
	wg.Wait()
	for i := range n {
		assert.Equal(t, "text\n", w.read(fmt.Sprint("repo/file-", i)))
	}
	assert.Empty(t, w.git("repo", "status", "--porcelain"))
	w.noTraces()
}

func TestATargetThatSomebodyMovesMeanwhileIsMergedOnto(t *testing.T) {
	w := newWorkspace(t, git.Options{})
	w.branch("feature", "a", "a\n")
	w.commit("repo", "b", "b\n", "on main")
	times := 0
	git.OnStep(w.g, func(step string) {
		if step == "publish: noted" && times == 0 {
			times++
			w.git("repo", "commit", "--quiet", "--allow-empty", "-m", "by a person")
		}
	})
	_, err := w.merge("feature", "main", rebase)
	require.NoError(t, err)
	assert.Equal(t, "on feature\nby a person\non main\nfirst", w.git("repo", "log", "--format=%s", "main"))
	w.noTraces()
}

func TestATargetThatNeverRestsIsGivenUpWithoutATrace(t *testing.T) {
	w := newWorkspace(t, git.Options{})
	w.branch("feature", "a", "a\n")
	git.OnStep(w.g, func(step string) {
		if step == "publish: noted" {
			w.git("repo", "commit", "--quiet", "--allow-empty", "-m", "by a person")
		}
	})
	_, err := w.merge("feature", "main", rebase)
	failure(t, err, false, "tried 5 times")
	assert.Empty(t, w.git("repo", "status", "--porcelain"))
	w.noTraces()
}

func TestHooksOfTheRepositoryDoNotRun(t *testing.T) {
	w := newWorkspace(t, git.Options{})
	w.branch("feature", "a", "a\n")
	w.commit("repo", "b", "b\n", "on main")
	for _, hook := range []string{"pre-rebase", "post-checkout", "post-rewrite", "reference-transaction", "post-index-change", "pre-commit", "post-commit"} {
		w.write("repo/.git/hooks/"+hook, "#!/bin/sh\ntouch '"+w.path("ran")+"'\nexit 1\n")
		require.NoError(t, os.Chmod(w.path("repo/.git/hooks/"+hook), 0o700))
	}
	_, err := w.merge("feature", "main", rebase)
	require.NoError(t, err)
	assert.NoFileExists(t, w.path("ran"))
}

// The chain of 003: fast-forward, on "not a fast-forward" rebase, on "conflict"
// an agent.
func TestTheMergeChainOf003(t *testing.T) {
	for _, row := range []struct {
		name    string
		prepare func(*workspace)
		want    string
	}{
		{"clean", func(*workspace) {}, "fast-forward"},
		{"diverged", func(w *workspace) { w.commit("repo", "b", "b\n", "on main") }, "rebase"},
		{"conflicting", func(w *workspace) { w.commit("repo", "a", "ours\n", "on main") }, "agent"},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := newWorkspace(t, git.Options{})
			w.branch("feature", "a", "a\n")
			row.prepare(w)
			assert.Equal(t, row.want, chain(t, w))
		})
	}
}

func chain(t *testing.T, w *workspace) string {
	for _, approach := range []struct {
		strategy   effects.MergeStrategy
		fallbackOn string
	}{{ff, "not a fast-forward"}, {rebase, "conflict"}} {
		_, err := w.merge("feature", "main", approach.strategy)
		if err == nil {
			return string(approach.strategy)
		}
		require.True(t, core.MatchPattern(approach.fallbackOn, err.Error()), err)
	}
	return "agent"
}

func TestAnEffectOfAnotherKindIsRefused(t *testing.T) {
	w := newWorkspace(t, git.Options{})
	_, err := w.carry(effects.Notify{})
	failure(t, err, true, "effects.Notify")
	_, err = json.Marshal(err)
	assert.NoError(t, err)
}
