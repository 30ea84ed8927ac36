package git_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/git"
)

// Odd repositories and names.

// As after a merge with git itself, the submodule's own checkout stays what it
// was until somebody updates it.
func TestASubmoduleThatAMergeMovesDoesNotStopTheNextMerge(t *testing.T) {
	w := newWorkspace(t, git.Options{})
	w.git(".", "init", "--quiet", "--initial-branch=main", "lib")
	w.commit("lib", "x", "1\n", "one")
	w.git("repo", "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", w.path("lib"), "lib")
	w.git("repo", "commit", "--quiet", "-m", "lib")
	w.git("repo", "checkout", "--quiet", "-b", "first")
	w.commit("repo/lib", "x", "2\n", "two")
	w.git("repo", "commit", "--quiet", "--all", "-m", "move lib")
	w.git("repo", "checkout", "--quiet", "main")
	w.git("repo", "submodule", "--quiet", "update")
	w.branch("second", "a", "a\n")

	_, err := w.merge("first", "main", ff)
	require.NoError(t, err)
	_, err = w.merge("second", "main", rebase)
	require.NoError(t, err)

	assert.Equal(t, "a\n", w.read("repo/a"))
	assert.Equal(t, w.id("first:lib"), w.id("main:lib"))
	assert.Equal(t, "M lib", w.git("repo", "status", "--porcelain"))

	w.git("repo", "branch", "third", "main~1")
	_, err = w.merge("third", "main", ff)
	require.NoError(t, err)
	w.git("repo", "worktree", "add", "--quiet", w.path("wt"), "third")
	w.git("wt", "reset", "--quiet", "--hard", "main")
	w.commit("wt", "b", "b\n", "third")
	w.git("repo", "add", "lib") // which is a person's change
	_, err = w.merge("third", "main", ff)
	e := failure(t, err, false, "dirty worktree")
	assert.Equal(t, []string{"lib"}, e.Files)
}

func TestAFileInConflictOfACheckoutIsNamed(t *testing.T) {
	w := newWorkspace(t, git.Options{})
	w.branch("feature", "a", "a\n")
	w.branch("other", "it is a file", "theirs\n")
	w.commit("repo", "it is a file", "ours\n", "ours")
	_, err := w.try("repo", "merge", "--quiet", "other")
	require.Error(t, err)
	w.git("repo", "update-ref", "-d", "MERGE_HEAD") // as if it were over
	_, err = w.merge("feature", "main", rebase)
	e := failure(t, err, false, "dirty worktree")
	assert.Equal(t, []string{"it is a file"}, e.Files)
}

func TestARepositoryMayBeNamedByOneOfItsWorktrees(t *testing.T) {
	w := newWorkspace(t, git.Options{})
	_, err := w.add("feature", "wt")
	require.NoError(t, err)
	_, err = w.carry(effects.WorktreeAdd{Repo: "wt", Branch: "deep", Path: "wt/deep"})
	require.NoError(t, err)
	w.commit("wt/deep", "a", "a\n", "deep")
	for _, s := range []effects.MergeStrategy{ff, rebase} {
		_, err = w.carry(effects.Merge{Repo: "wt/deep", Branch: "deep", Into: "main", Strategy: s})
		require.NoError(t, err)
	}
	assert.Equal(t, "a\n", w.read("repo/a"))
	_, err = w.carry(effects.WorktreeRemove{Repo: "wt", Path: "wt/deep"})
	require.NoError(t, err)
	_, err = w.carry(effects.WorktreeRemove{Repo: "wt", Path: "wt"})
	require.NoError(t, err)
	assert.NoDirExists(t, w.path("wt"))
	w.noTraces()
}

func TestARepositoryWithoutCommitsSaysWhatIsMissing(t *testing.T) {
	w := newWorkspace(t, git.Options{})
	w.git(".", "init", "--quiet", "--initial-branch=main", "empty")
	_, err := w.carry(effects.Merge{Repo: "empty", Branch: "feature", Into: "main", Strategy: rebase})
	failure(t, err, true, `branch: there is no branch "feature"`)
	_, err = w.carry(effects.WorktreeRemove{Repo: "empty", Path: "wt"})
	require.NoError(t, err)
}

func TestBranchesWithOddNamesAreMadeAndMerged(t *testing.T) {
	for _, name := range []string{"$(reboot)", "a;b&c|d", "user's \u00fc\u65e5\"quoted\"", "%x=%y", "refs/heads/main", "a{b,c}", "!x", "abc1234", strings.Repeat("n", 240)} {
		name = strings.ReplaceAll(name, " ", "-")
		t.Run(name, func(t *testing.T) {
			w := newWorkspace(t, git.Options{})
			r, err := w.add(name, "wt")
			require.NoError(t, err)
			assert.Equal(t, name, w.git("wt", "branch", "--show-current"))
			assert.Equal(t, name, r.Branch)
			w.commit("wt", "a", "a\n", "a")
			w.commit("repo", "b", "b\n", "b")
			_, err = w.merge(name, "main", rebase)
			require.NoError(t, err)
			assert.Equal(t, "a\n", w.read("repo/a"))
			assert.Equal(t, "b\n", w.read("wt/b"))
			_, err = w.remove("wt", false)
			require.NoError(t, err)
			w.noTraces()
		})
	}
}

// A thousand files in conflict are what an error carries; the text shows a few.
func TestAConflictInMoreFilesThanAnErrorCarriesSaysHowMany(t *testing.T) {
	w := newWorkspace(t, git.Options{})
	const n = 1100
	fill := func(text string) {
		for i := range n {
			w.write(fmt.Sprintf("repo/dir/%04d", i), text)
		}
		w.git("repo", "add", "--all")
		w.git("repo", "commit", "--quiet", "-m", text)
	}
	fill("base\n")
	w.git("repo", "checkout", "--quiet", "-b", "feature")
	fill("theirs\n")
	w.git("repo", "checkout", "--quiet", "main")
	fill("ours\n")
	_, err := w.merge("feature", "main", rebase)
	e := failure(t, err, true, "conflict", "in 1100 files")
	assert.Len(t, e.Files, 1000)
	assert.Less(t, len(err.Error()), 10_000)
}

// What links lead out of the root is not followed by a merge.
func TestAMergeDoesNotWriteThroughALinkThatLeadsOut(t *testing.T) {
	w := newWorkspace(t, git.Options{})
	outside := t.TempDir()
	w.branch("feature", "dir/file", "theirs\n")
	require.NoError(t, os.Symlink(outside, w.path("repo/dir"))) // untracked, and in the way
	_, err := w.merge("feature", "main", ff)
	e := failure(t, err, false, "dirty worktree")
	assert.NotEmpty(t, e.Files)
	entries, err := os.ReadDir(outside)
	require.NoError(t, err)
	assert.Empty(t, entries)
}
