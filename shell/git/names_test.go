package git_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/effects/boundtest"
	"github.com/orrery-go/orrery/shell/git"
)

var goodBranches = []string{
	"main", "feature/one-two", "a", "v1.2.3", "Größe/日本", "a@b", "x{y}", "a--b", "a.lock.b", "user's", "a\"b", "$(reboot)", "a;b", "a&b|c", "refs", "%x", "=", "\u00a0",
	strings.Repeat("a", 200), strings.Repeat("a", 39), "x/" + strings.Repeat("a", 40),
}

var badBranches = []string{
	"", "-", "-a", "--all", "@", "HEAD", "a..b", "a@{b", "@{-1}", "a.", "a.lock", "a.lock/b", ".a", "a/.b", "/a", "a/", "a//b",
	strings.Repeat("0a", 20), strings.Repeat("F", 64), "a b", "a~b", "a^b", "a:b", "a?b", "a*b", "a[b", "a\\b", "a\x00b", "a\nb", "a\x7fb", "\xff", strings.Repeat("a", 300), strings.Repeat("a", 241),
}

func TestNamesOfBranchesFollowTheRulesOfGit(t *testing.T) {
	for _, name := range goodBranches {
		assert.NoError(t, git.CheckBranch(name), name)
	}
	for _, name := range badBranches {
		assert.ErrorContains(t, git.CheckBranch(name), "branch: ", name)
	}
}

// Whatever passes our check is the name of a branch to git, and of no other: it
// is read neither as an option nor as a revision that stands for something else.
func FuzzBranchName(f *testing.F) {
	for _, name := range append(goodBranches, badBranches...) {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		defer boundtest.Within(t, len(name))()
		if git.CheckBranch(name) != nil {
			return
		}
		assert.False(t, strings.HasPrefix(name, "-"))
		out, err := exec.CommandContext(t.Context(), "git", "check-ref-format", "--branch", name).CombinedOutput()
		require.NoErrorf(t, err, "%q: %s", name, out)
		assert.Equal(t, name+"\n", string(out))
	})
}

// Whatever passes lies under the root.
func FuzzPath(f *testing.F) {
	root := f.TempDir()
	g, err := git.New(git.Options{Root: root})
	require.NoError(f, err)
	real, err := filepath.EvalSymlinks(root)
	require.NoError(f, err)
	for _, path := range []string{"a", "a/b", "/", "..", "a/..", "../a", "./a", "a//b", "/etc", "-a", "a\x00", "ü", real + "/a", real + "x", real + "/../x", "~", "$HOME"} {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, path string) {
		defer boundtest.Within(t, len(path))()
		got, err := git.Resolve(g, path)
		if err != nil {
			return
		}
		assert.True(t, strings.HasPrefix(got, real+string(filepath.Separator)), got)
		assert.Equal(t, filepath.Clean(got), got)
	})
}
