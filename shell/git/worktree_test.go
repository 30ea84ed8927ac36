package git_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/git"
)

func TestAWorktreeIsMadeWithItsBranchAndOnce(t *testing.T) {
	for _, path := range []string{"wt", "deep/down/Über uns/日本", "-dashes-", "repo/inside"} {
		t.Run(path, func(t *testing.T) {
			w := newWorkspace(t, git.Options{})
			head := w.id("main")

			r, err := w.add("feature/one-two", path)
			require.NoError(t, err)
			assert.Equal(t, git.AddResult{State: "created", Path: w.path(path), Branch: "feature/one-two", Head: head, CreatedBranch: true}, r)
			assert.Equal(t, "one\n", w.read(path+"/README"))
			assert.Equal(t, "feature/one-two", w.git(path, "branch", "--show-current"))

			tip := w.commit(path, "more", "more\n", "more")
			w.write(path+"/untracked", "mine\n")
			before := w.state()
			r, err = w.add("feature/one-two", path)
			require.NoError(t, err)
			assert.Equal(t, git.AddResult{State: "existing", Path: w.path(path), Branch: "feature/one-two", Head: tip}, r)
			assert.Equal(t, before, w.state())
			w.noTraces()
		})
	}
}

func TestAWorktreeOfABranchThatIsThereTakesIt(t *testing.T) {
	w := newWorkspace(t, git.Options{})
	tip := w.branch("feature", "a", "a\n")
	w.git("repo", "tag", "feature", "main") // of the same name, and not meant
	r, err := w.add("feature", "wt")
	require.NoError(t, err)
	assert.Equal(t, tip, r.Head)
	assert.False(t, r.CreatedBranch)
	assert.Equal(t, "feature", w.git("wt", "branch", "--show-current"))
}

func TestANewBranchStartsFromItsBase(t *testing.T) {
	w := newWorkspace(t, git.Options{})
	first := w.id("main")
	w.commit("repo", "b", "b\n", "second")
	for branch, base := range map[string]string{"by-name": "main~1", "by-id": first, "by-tag": "refs/tags/v1"} {
		w.git("repo", "tag", "--force", "-m", "annotated", "v1", first)
		_, err := w.carry(effects.WorktreeAdd{Repo: "repo", Branch: branch, Path: branch, Base: base})
		require.NoError(t, err)
		assert.Equal(t, first, w.id(branch))
	}
	for _, base := range []string{"nothing", "HEAD:README", "main..main"} {
		_, err := w.carry(effects.WorktreeAdd{Repo: "repo", Branch: "x", Path: "x", Base: base})
		failure(t, err, true, "base: ", "names no commit of this repository")
	}
	_, err := w.carry(effects.WorktreeAdd{Repo: "repo", Branch: "x", Path: "x", Base: "--all"})
	failure(t, err, true, `base: "--all" begins with '-'`)
	w.git(".", "init", "--quiet", "empty")
	_, err = w.carry(effects.WorktreeAdd{Repo: "empty", Branch: "x", Path: "x"})
	failure(t, err, true, "has none yet")
}

func TestAWorktreeThatCannotBeSaysWhy(t *testing.T) {
	w := newWorkspace(t, git.Options{})
	w.branch("feature", "a", "a\n")
	w.write("full/file", "text")
	w.write("file", "text")
	w.git("repo", "worktree", "add", "--quiet", "--detach", w.path("loose"))
	_, err := w.add("feature", "wt")
	require.NoError(t, err)
	before := w.state()
	for _, row := range []struct{ branch, path, want string }{
		{"new", "full", `path: "` + w.path("full") + `" is taken: a directory that is not empty`},
		{"new", "file", `is taken: it is not a directory`},
		{"new", "repo", `is taken by a worktree with branch "main"`},
		{"new", "wt", `is taken by a worktree with branch "feature"`},
		{"new", "loose", `is taken by a worktree with no branch`},
		{"feature", "other", `branch: it is checked out already at "` + w.path("wt") + `"`},
		{"main", "other", `branch: it is checked out already at "` + w.path("repo") + `"`},
		{"feature/below", "other", `branch: it cannot be made`},
		{"new", "repo/.git/hooks/x", `lies in a git directory`},
		{"a.lock", "other", `ends with ".lock"`},
	} {
		_, err := w.add(row.branch, row.path)
		failure(t, err, true, row.want)
		assert.Equal(t, before, w.state(), row)
	}
	w.noTraces()
}

func TestAnEmptyDirectoryMayBecomeAWorktree(t *testing.T) {
	w := newWorkspace(t, git.Options{})
	require.NoError(t, os.Mkdir(w.path("wt"), 0o700))
	_, err := w.add("feature", "wt")
	require.NoError(t, err)
}

func TestAWorktreeWhoseDirectoryWasDeletedIsMadeAgain(t *testing.T) {
	w := newWorkspace(t, git.Options{})
	_, err := w.add("feature", "wt")
	require.NoError(t, err)
	require.NoError(t, os.RemoveAll(w.path("wt")))
	r, err := w.add("feature", "elsewhere")
	require.NoError(t, err)
	assert.Equal(t, "created", r.State)

	w.git("repo", "worktree", "lock", "--reason", "on a stick", "elsewhere")
	require.NoError(t, os.RemoveAll(w.path("elsewhere")))
	_, err = w.add("feature", "elsewhere")
	failure(t, err, true, "is missing, and locked (on a stick)")
}

func TestPathsStayUnderTheRoot(t *testing.T) {
	w := newWorkspace(t, git.Options{})
	outside := t.TempDir()
	require.NoError(t, os.Symlink(outside, w.path("out")))
	require.NoError(t, os.Symlink(filepath.Join(outside, "nowhere"), w.path("dangling")))
	require.NoError(t, os.Mkdir(w.path("real"), 0o700))
	require.NoError(t, os.Symlink("real", w.path("in")))
	for path, want := range map[string]string{
		"../x":                        `"../x" has ".."`,
		"a/../../x":                   `has ".."`,
		"repo/../wt":                  `has ".."`,
		"/etc/x":                      `"/etc/x" is not under the workspace root`,
		filepath.Join(outside, "x"):   `is not under the workspace root`,
		w.root + "-sibling":           `is not under the workspace root`,
		"out/x":                       `"out/x" is not under the workspace root`,
		"out":                         `is not under the workspace root`,
		"dangling":                    `"dangling" cannot be used`,
		"dangling/x":                  `"dangling/x" cannot be used`,
		"":                            `is empty`,
		".":                           `is the workspace root itself`,
		w.root:                        `is the workspace root itself`,
		"a\x00b":                      `has a control character`,
		"a\nb":                        `has a control character`,
		"\xff":                        `is not valid UTF-8`,
		"repo/README/x":               `cannot be used`,
		strings.Repeat("x/", 3<<10):   `is longer than`,
		strings.Repeat("x", 300) + "": `cannot be used`,
	} {
		_, err := w.add("feature", path)
		failure(t, err, true, "path: ", want)
		_, err = w.remove(path, true)
		failure(t, err, true, "path: ", want)
		_, err = w.carry(effects.Merge{Repo: path, Branch: "feature", Into: "main", Strategy: ff})
		failure(t, err, true, "repo: ")
	}
	r, err := w.add("feature", "in/wt")
	require.NoError(t, err, "a link that stays inside is fine")
	assert.Equal(t, w.path("real/wt"), r.Path)
	r, err = w.add("feature", w.path("in/wt"))
	require.NoError(t, err, "so is an absolute path")
	assert.Equal(t, "existing", r.State)
	_, err = w.remove("in/wt", false)
	require.NoError(t, err)
	assert.NoDirExists(t, w.path("real/wt"))
}

func TestARepositoryOutsideTheRootIsNotReached(t *testing.T) {
	outer := newWorkspace(t, git.Options{})
	outer.branch("feature", "a", "a\n")
	require.NoError(t, os.Mkdir(outer.path("repo/jail"), 0o700))
	outer.git("repo", "worktree", "add", "--quiet", "jail/linked", "feature")
	g, err := git.New(git.Options{Root: outer.path("repo/jail")})
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(outer.path("repo/jail/plain"), 0o700))
	before := outer.state()
	for repo, want := range map[string]string{
		"plain":  `repo: "plain" cannot be used as a git repository`,
		"linked": `repo: "linked" belongs to the git directory`,
	} {
		_, err := g.Carry(t.Context(), effects.Ref{}, effects.Merge{Repo: repo, Branch: "feature", Into: "main", Strategy: ff})
		failure(t, err, true, want)
	}
	assert.Equal(t, before, outer.state())
}

func TestACheckoutOutsideTheRootIsNotChanged(t *testing.T) {
	w := newWorkspace(t, git.Options{})
	w.branch("feature", "a", "a\n")
	w.git("repo", "checkout", "--quiet", "--detach")
	outside := filepath.Join(t.TempDir(), "main")
	w.git("repo", "worktree", "add", "--quiet", outside, "main")
	before := w.state()
	_, err := w.merge("feature", "main", ff)
	failure(t, err, true, `branch "main" is checked out at`, "not under the workspace root")
	assert.Equal(t, before, w.state())
}

func TestTheEnvironmentOfTheDaemonDoesNotRedirectGit(t *testing.T) {
	w := newWorkspace(t, git.Options{})
	w.branch("feature", "a", "a\n")
	for _, name := range []string{"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR", "GIT_CONFIG_PARAMETERS"} {
		t.Setenv(name, "/nowhere")
	}
	g, err := git.New(git.Options{Root: w.root})
	require.NoError(t, err)
	_, err = g.Carry(t.Context(), effects.Ref{}, effects.Merge{Repo: "repo", Branch: "feature", Into: "main", Strategy: ff})
	require.NoError(t, err)
}

func TestAWorktreeIsRemovedOnce(t *testing.T) {
	w := newWorkspace(t, git.Options{})
	_, err := w.add("feature", "some where/wt")
	require.NoError(t, err)
	r, err := w.remove("some where/wt", false)
	require.NoError(t, err)
	assert.Equal(t, git.RemoveResult{State: "removed", Path: w.path("some where/wt")}, r)
	entries, err := os.ReadDir(w.path("some where"))
	require.NoError(t, err)
	assert.Empty(t, entries)
	before := w.state()
	assert.NotContains(t, before, "some where")
	assert.NotEmpty(t, w.id("feature"), "the branch stays")

	r, err = w.remove("some where/wt", false)
	require.NoError(t, err)
	assert.Equal(t, "gone", r.State)
	assert.Equal(t, before, w.state())
	w.noTraces()
}

func TestTheDataOnAWorktreeThatWasDeletedIsForgotten(t *testing.T) {
	w := newWorkspace(t, git.Options{})
	_, err := w.add("feature", "wt")
	require.NoError(t, err)
	require.NoError(t, os.RemoveAll(w.path("wt")))
	r, err := w.remove("wt", false)
	require.NoError(t, err)
	assert.Equal(t, "gone", r.State)
	assert.NotContains(t, w.state(), "wt")
}

func TestAWorktreeWithChangesIsRemovedByForceOnly(t *testing.T) {
	for name, soil := range map[string]func(*workspace) []string{
		"untracked": func(w *workspace) []string { w.write("wt/neu ä", "x"); return []string{"neu ä"} },
		"changed":   func(w *workspace) []string { w.write("wt/README", "x"); return []string{"README"} },
		"staged": func(w *workspace) []string {
			w.write("wt/staged", "x")
			w.git("wt", "add", "staged")
			return []string{"staged"}
		},
		"unfinished": func(w *workspace) []string {
			w.commit("repo", "README", "two\n", "two")
			w.commit("wt", "README", "three\n", "three")
			_, err := w.try("wt", "rebase", "main")
			require.Error(w.t, err)
			return []string{"README"}
		},
		"unfinished without changes": func(w *workspace) []string {
			w.git("wt", "bisect", "start")
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorkspace(t, git.Options{})
			_, err := w.add("feature", "wt")
			require.NoError(t, err)
			files := soil(w)
			before := w.state()
			_, err = w.remove("wt", false)
			e := failure(t, err, true, "worktree remove", "use force")
			assert.Equal(t, files, e.Files)
			assert.Equal(t, before, w.state())
			_, err = w.remove("wt", true)
			require.NoError(t, err)
			assert.NoDirExists(t, w.path("wt"))
		})
	}
}

func TestIgnoredFilesGoWithTheirWorktree(t *testing.T) {
	w := newWorkspace(t, git.Options{})
	w.write("repo/.git/info/exclude", "*.o\n")
	_, err := w.add("feature", "wt")
	require.NoError(t, err)
	w.write("wt/ro/x.o", "x")
	require.NoError(t, os.Chmod(w.path("wt/ro"), 0o500))
	_, err = w.remove("wt", false)
	require.NoError(t, err)
	entries, err := os.ReadDir(w.root)
	require.NoError(t, err)
	assert.Len(t, entries, 1)
}

func TestWhatMustNotBeRemovedStays(t *testing.T) {
	w := newWorkspace(t, git.Options{})
	_, err := w.add("feature", "wt")
	require.NoError(t, err)
	w.git("repo", "worktree", "lock", "--reason", "mine", w.path("wt"))
	w.write("plain/file", "x")
	before := w.state()
	for path, want := range map[string]string{
		"wt":        "is locked (mine): unlock it first",
		"repo":      "is the repository itself",
		"plain":     "is no worktree of this repository",
		"repo/.git": "is no worktree of this repository",
	} {
		_, err := w.remove(path, true)
		failure(t, err, true, want)
		assert.Equal(t, before, w.state())
	}
	assert.FileExists(t, w.path("plain/file"))
}

func TestOptionsThatCannotBeAreNamed(t *testing.T) {
	root := t.TempDir()
	fake := filepath.Join(root, "fake")
	script := func(text string) string {
		require.NoError(t, os.WriteFile(fake, []byte("#!/bin/sh\n"+text+"\n"), 0o700))
		return fake
	}
	for want, make := range map[string]func() git.Options{
		"option Root: must name":                 func() git.Options { return git.Options{} },
		"option Root: lstat":                     func() git.Options { return git.Options{Root: filepath.Join(root, "nothing")} },
		"option Git: the git command is needed":  func() git.Options { return git.Options{Root: root, Git: "no-such-git"} },
		"is version 2.29: 2.30 or later":         func() git.Options { return git.Options{Root: root, Git: script("echo git version 2.29.3")} },
		"is version 1.99: 2.30 or later":         func() git.Options { return git.Options{Root: root, Git: script("echo git version 1.99.3")} },
		`is not git: it calls itself "hello"`:    func() git.Options { return git.Options{Root: root, Git: script("echo hello")} },
		"does not tell its version":              func() git.Options { return git.Options{Root: root, Git: script("exit 3")} },
		`option Env: "GIT_DIR" would change`:     func() git.Options { return git.Options{Root: root, Env: []string{"GIT_DIR"}} },
		`option Env: "A=B" is not the name`:      func() git.Options { return git.Options{Root: root, Env: []string{"A=B"}} },
		`option Author: "x<y" has the character`: func() git.Options { return git.Options{Root: root, Author: "x<y"} },
	} {
		_, err := git.New(make())
		assert.ErrorContains(t, err, want)
	}
	_, err := git.New(git.Options{Root: root, Git: script("echo 'git version 3.0.0.windows.1 (Apple)'")})
	assert.NoError(t, err)
}

func TestAnErrorTellsItsPartsApart(t *testing.T) {
	cause := errors.New("no room")
	e := &git.Error{Op: "merge", Repo: "r", Branch: "b", Reason: "conflict", Files: []string{"a b", "ü\n"}, Stderr: "fatal: \x1b[31mred\nmore", Err: cause}
	assert.EqualError(t, e, `merge of "b" in "r": conflict: "a b", "ü\n": no room: git says: fatal:  [31mred; more`)
	assert.ErrorIs(t, e, cause)
	assert.False(t, e.Permanent())
	e = &git.Error{Op: "merge", Reason: "conflict", Files: strings.Split(strings.Repeat("f ", 30), " ")}
	assert.ErrorContains(t, e, `"f" and 11 more`)
}

func TestTheOldestGitThatIsTakenTellsEnough(t *testing.T) {
	w := newWorkspace(t, git.Options{})
	git.Pretend(w.g, 30)
	_, err := w.add("feature", "Über uns/wt")
	require.NoError(t, err)
	w.git("repo", "worktree", "lock", "--reason", "mine", w.path("Über uns/wt"))
	_, err = w.remove("Über uns/wt", true)
	failure(t, err, true, "is locked (mine): unlock it first")
	w.git("repo", "worktree", "unlock", w.path("Über uns/wt"))
	_, err = w.remove("Über uns/wt", false)
	require.NoError(t, err)
}
