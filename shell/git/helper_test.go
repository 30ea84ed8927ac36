package git_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/git"
)

const (
	roleVar  = "ORRERY_TEST_ROLE" // makes a process of this test a daemon that carries out one effect
	rootVar  = "ORRERY_TEST_ROOT"
	stepVar  = "ORRERY_TEST_STEP"  // at which it stops and waits to be killed
	blockVar = "ORRERY_TEST_BLOCK" // a file that it makes at that step instead, so that a filter of git's blocks
	fakeName = "Ada Tester"
)

func TestMain(m *testing.M) {
	if os.Getenv(roleVar) != "" {
		play() // with the environment that its parent has set
	}
	// Never the configuration of whoever runs the tests.
	home, err := os.MkdirTemp("", "orrery-git-home-")
	if err != nil {
		panic(err)
	}
	for name, value := range map[string]string{
		"HOME": home, "XDG_CONFIG_HOME": home, "GIT_CONFIG_GLOBAL": os.DevNull, "GIT_CONFIG_NOSYSTEM": "1",
	} {
		_ = os.Setenv(name, value)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(home)
		os.Exit(code)
	}))
}

// play carries out the effect on stdin, and stops for ever at a step.
func play() {
	g, err := git.New(git.Options{Root: os.Getenv(rootVar)})
	if err != nil {
		panic(err)
	}
	git.OnStep(g, func(step string) {
		switch {
		case step != os.Getenv(stepVar):
		case os.Getenv(blockVar) != "":
			if err := os.WriteFile(os.Getenv(blockVar), nil, 0o600); err != nil {
				panic(err)
			}
		default:
			fmt.Println("here")
			_, _ = os.Stdin.Read(make([]byte, 1)) // until it is killed
		}
	})
	var raw json.RawMessage
	if err := json.NewDecoder(os.Stdin).Decode(&raw); err != nil {
		panic(err)
	}
	e, err := effects.DecodeOuter(raw)
	if err != nil {
		panic(err)
	}
	_, err = g.Carry(context.Background(), effects.Ref{}, e)
	fmt.Println("over", err)
	os.Exit(0)
}

// workspace is a root with one repository "repo", whose branch main has a commit.
type workspace struct {
	t    *testing.T
	root string
	g    *git.Git
}

func newWorkspace(t *testing.T, o git.Options) *workspace {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	o.Root = root
	if o.LockWait == 0 { // the machine may be slow
		o.LockWait = 5 * time.Minute
	}
	g, err := git.New(o)
	require.NoError(t, err)
	git.Grace(g, time.Minute)
	w := &workspace{t: t, root: root, g: g}
	w.git(".", "init", "--quiet", "--initial-branch=main", "repo")
	w.commit("repo", "README", "one\n", "first")
	return w
}

// git runs git as a person would.
func (w *workspace) git(dir string, args ...string) string {
	w.t.Helper()
	out, err := w.try(dir, args...)
	require.NoErrorf(w.t, err, "git %v: %s", args, out)
	return strings.TrimSpace(out)
}

func (w *workspace) try(dir string, args ...string) (string, error) {
	args = append([]string{"-c", "user.name=" + fakeName, "-c", "user.email=ada@example.org", "-c", "core.quotePath=false"}, args...)
	cmd := exec.CommandContext(w.t.Context(), "git", args...)
	cmd.Dir = w.path(dir)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (w *workspace) path(name string) string { return filepath.Join(w.root, name) }

func (w *workspace) write(name, text string) {
	w.t.Helper()
	require.NoError(w.t, os.MkdirAll(filepath.Dir(w.path(name)), 0o700))
	require.NoError(w.t, os.WriteFile(w.path(name), []byte(text), 0o600))
}

func (w *workspace) read(name string) string {
	w.t.Helper()
	b, err := os.ReadFile(w.path(name))
	require.NoError(w.t, err)
	return string(b)
}

// commit writes a file in a checkout and commits it.
func (w *workspace) commit(dir, file, text, message string) string {
	w.t.Helper()
	w.write(filepath.Join(dir, file), text)
	w.git(dir, "add", "--", file)
	w.git(dir, "commit", "--quiet", "-m", message)
	return w.git(dir, "rev-parse", "HEAD")
}

// branch makes a branch from main with one more commit, and leaves main checked
// out.
func (w *workspace) branch(name, file, text string) string {
	w.t.Helper()
	w.git("repo", "checkout", "--quiet", "-b", name, "main")
	id := w.commit("repo", file, text, "on "+name)
	w.git("repo", "checkout", "--quiet", "main")
	return id
}

func (w *workspace) id(rev string) string { w.t.Helper(); return w.git("repo", "rev-parse", rev) }

func (w *workspace) carry(e effects.Outer) (json.RawMessage, error) {
	return w.g.Carry(w.t.Context(), effects.Ref{}, e)
}

func (w *workspace) add(branch, path string) (git.AddResult, error) {
	var r git.AddResult
	raw, err := w.carry(effects.WorktreeAdd{Repo: "repo", Branch: branch, Path: path})
	if err == nil {
		require.NoError(w.t, json.Unmarshal(raw, &r))
	}
	return r, err
}

func (w *workspace) remove(path string, force bool) (git.RemoveResult, error) {
	var r git.RemoveResult
	raw, err := w.carry(effects.WorktreeRemove{Repo: "repo", Path: path, Force: force})
	if err == nil {
		require.NoError(w.t, json.Unmarshal(raw, &r))
	}
	return r, err
}

func (w *workspace) merge(branch, into string, s effects.MergeStrategy) (git.MergeResult, error) {
	var r git.MergeResult
	raw, err := w.carry(effects.Merge{Repo: "repo", Branch: branch, Into: into, Strategy: s})
	if err == nil {
		require.NoError(w.t, json.Unmarshal(raw, &r))
	}
	return r, err
}

// state is all of a repository that an operation may change: refs, worktrees
// and what status says in each of them.
func (w *workspace) state() string {
	w.t.Helper()
	list := w.git("repo", "worktree", "list", "--porcelain")
	var b strings.Builder
	b.WriteString(w.git("repo", "for-each-ref") + "\n" + list + "\n")
	for line := range strings.SplitSeq(list, "\n") {
		if dir, ok := strings.CutPrefix(line, "worktree "); ok {
			if rel, err := filepath.Rel(w.root, dir); err == nil && isDir(dir) {
				out, _ := w.try(rel, "status", "--porcelain", "--branch")
				b.WriteString(rel + ": " + out + "\n")
			}
		}
	}
	return b.String()
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// noTraces checks that nothing temporary is left.
func (w *workspace) noTraces() {
	w.t.Helper()
	entries, err := os.ReadDir(w.path("repo/.git/orrery-tmp"))
	require.NoError(w.t, err)
	for _, e := range entries {
		assert.Equal(w.t, "lock", e.Name(), "nothing but the lock stays")
	}
	data, _ := os.ReadDir(w.path("repo/.git/worktrees"))
	assert.False(w.t, slices.ContainsFunc(data, func(e os.DirEntry) bool { return strings.HasPrefix(e.Name(), "orrery-") }))
	assert.NoDirExists(w.t, w.path("repo/.git/rebase-merge"))
	w.git("repo", "fsck", "--no-dangling", "--no-progress")
}

// failure checks the kind of an error and gives it.
func failure(t *testing.T, err error, permanent bool, contains ...string) git.Error {
	t.Helper()
	var e *git.Error
	require.ErrorAs(t, err, &e)
	for _, text := range contains {
		require.ErrorContains(t, err, text)
	}
	assert.Equal(t, permanent, e.Permanent(), "permanent: %v", err)
	return *e
}

func newCancel(t *testing.T) (ctx context.Context, cancel func()) {
	ctx, stop := context.WithCancelCause(t.Context())
	return ctx, func() { stop(errors.New("enough")) }
}
