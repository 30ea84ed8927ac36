package daemon

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/examples/orreryd/internal/config"
	"github.com/orrery-go/orrery/examples/orreryd/internal/workspace"
	"github.com/orrery-go/orrery/shell"
)

// carriers are the interpreters of sessions and git of a daemon with that configuration,
// which begins with keys of no table, and a workspace.
func carriers(t *testing.T, dir, text string, sessions ...string) map[string]shell.Interpreter {
	t.Helper()
	file := write(t, "orrery.toml", "db = '"+filepath.Join(t.TempDir(), "orrery.db")+"'\nworkspace = '"+dir+"'\n"+text+"[sessions]\nbackend = 'pty'\n"+strings.Join(sessions, "\n"))
	c, err := config.Load(pflag.NewFlagSet("orchestrate", pflag.ContinueOnError), func(name string) string { return map[string]string{"ORRERY_CONFIG": file}[name] })
	require.NoError(t, err)
	d := &daemon{c: c, log: slog.New(slog.DiscardHandler)}
	t.Cleanup(func() { assert.NoError(t, d.close()) })
	out, err := d.interpreters()
	require.NoError(t, err)
	return out
}

// carry has a machine's effect carried out as the engine does.
func carry(t *testing.T, i shell.Interpreter, s core.State, e effects.Outer) (json.RawMessage, error) {
	t.Helper()
	if i, ok := i.(shell.StateInterpreter); ok {
		return i.CarryFor(t.Context(), s, e)
	}
	return i.Carry(t.Context(), s.Ref(), e)
}

func pipelineOf(namespace, tenant string) core.Pipeline {
	return core.Pipeline{PipelineSpec: core.PipelineSpec{ID: uuid.New(), Namespace: namespace, Tenant: tenant}}
}

// repository makes one with the branches main and work, which is a commit further.
func repository(t *testing.T, dir string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(dir, 0o700))
	for _, args := range [][]string{
		{"init", "-q", "-b", "main"}, {"-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "one"},
		{"checkout", "-q", "-b", "work"}, {"-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "two"},
	} {
		out, err := exec.Command("git", append([]string{"-C", dir}, args...)...).CombinedOutput()
		require.NoError(t, err, string(out))
	}
}

func tip(t *testing.T, dir, branch string) string {
	t.Helper()
	out, err := exec.Command("git", "-C", dir, "rev-parse", branch).Output()
	require.NoError(t, err)
	return string(out)
}

const tenants = "[[tokens]]\nname = 'a'\nnamespaces = ['shop']\ntenants = ['acme']\ntoken = '0123456789-0123456789'\n" +
	"[[tokens]]\nname = 'b'\nnamespaces = ['shop']\ntenants = ['bolt']\ntoken = '9876543210-0123456789'\n"

func TestAPipelineOfOneTenantMergesNothingInARepositoryOfAnother(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("no git here")
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	git := carriers(t, dir, tenants)[effects.LaneGit]
	acme, bolt := filepath.Join(dir, "shop", "acme"), filepath.Join(dir, "shop", "bolt")
	repository(t, filepath.Join(acme, "repo"))
	require.NoError(t, os.MkdirAll(bolt, 0o700))
	require.NoError(t, os.Symlink(filepath.Join(acme, "repo"), filepath.Join(bolt, "link")))
	before := tip(t, filepath.Join(acme, "repo"), "main")
	merge := func(repo string) effects.Merge {
		return effects.Merge{N: 1, Repo: repo, Branch: "work", Into: "main", Strategy: effects.MergeFastForward}
	}
	for _, repo := range []string{"repo", "acme/repo", "shop/acme/repo", "../acme/repo", filepath.Join(acme, "repo"), filepath.Join(bolt, "..", "acme", "repo"), "link", "link/.git"} {
		_, err := carry(t, git, pipelineOf("shop", "bolt"), merge(repo))
		assert.Error(t, err, repo)
		_, err = carry(t, git, pipelineOf("shop", "bolt"), effects.WorktreeAdd{N: 2, Repo: repo, Branch: "work", Path: "tree"})
		assert.Error(t, err, repo)
	}
	_, err = carry(t, git, pipelineOf("shop", "acme"), effects.WorktreeAdd{N: 2, Repo: "repo", Branch: "main", Path: filepath.Join(bolt, "tree")})
	assert.Error(t, err, "nor does a worktree go there")
	assert.Equal(t, before, tip(t, filepath.Join(acme, "repo"), "main"))

	_, err = carry(t, git, pipelineOf("shop", "acme"), merge("repo"))
	require.NoError(t, err)
	assert.Equal(t, tip(t, filepath.Join(acme, "repo"), "work"), tip(t, filepath.Join(acme, "repo"), "main"))
	_, err = git.Carry(t.Context(), effects.Ref{}, merge("repo"))
	assert.True(t, shell.IsPermanent(err), "an effect of nobody has no root")
}

func TestTheWorkspaceIsOneForAllWithoutTenantsOrIfTheConfigurationSaysSo(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("no git here")
	}
	for text, shared := range map[string]bool{
		"": true, tenants: false,
		"[[tokens]]\nname = 'adm'\nadmin = true\ntoken = '0123456789-0123456789'\n": true,
	} {
		for line, shared := range map[string]bool{"": shared, "workspace_shared = true\n": true, "workspace_shared = false\n": false} {
			dir := t.TempDir()
			repository(t, filepath.Join(dir, "repo"))
			git := carriers(t, dir, line+text)[effects.LaneGit]
			_, err := carry(t, git, pipelineOf("shop", "acme"), effects.Merge{N: 1, Repo: "repo", Branch: "work", Into: "main", Strategy: effects.MergeFastForward})
			assert.Equal(t, shared, err == nil, "%s%s: %v", line, text, err)
		}
	}
}

func TestASessionBeginsInTheFolderOfItsTenantAndInNoOther(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	sessions := carriers(t, dir, tenants)[effects.LaneSession]
	task := func(tenant string) core.Task {
		return core.Task{TaskSpec: core.TaskSpec{ID: uuid.New(), Namespace: "shop", Tenant: tenant}}
	}
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "shop", "acme", "repo"), 0o700))
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "shop", "bolt"), 0o700))
	require.NoError(t, os.Symlink("../acme/repo", filepath.Join(dir, "shop", "bolt", "link")))
	for _, workspace := range []string{"..", "../acme", "link", filepath.Join(dir, "shop", "acme"), dir, "/"} {
		_, err := carry(t, sessions, task("bolt"), effects.Spawn{N: 1, Session: "s", Workspace: workspace, Command: []string{"true"}})
		require.ErrorContains(t, err, "workspace: ", workspace)
	}
	for workspace, want := range map[string]string{"": "shop/bolt", "new": "shop/bolt/new"} {
		k, out := task("bolt"), filepath.Join(t.TempDir(), "pwd")
		name := "s" + filepath.Base(want)
		_, err := carry(t, sessions, k, effects.Spawn{N: 1, Session: name, Workspace: workspace, Command: []string{"sh", "-c", "pwd > " + out + ".part; mv " + out + ".part " + out}})
		require.NoError(t, err)
		require.Eventually(t, func() bool { _, err := os.Stat(out); return err == nil }, time.Minute, 10*time.Millisecond)
		got, err := os.ReadFile(out)
		require.NoError(t, err)
		assert.Equal(t, filepath.Join(dir, want)+"\n", string(got))
		_, err = carry(t, sessions, k, effects.Kill{N: 2, Session: name})
		require.NoError(t, err)
	}
}

func TestARootThatCannotBeMadeForWantOfADescriptorIsTriedAgain(t *testing.T) {
	for err, again := range map[error]bool{
		&os.PathError{Op: "open", Path: "x", Err: syscall.EMFILE}: true,
		&os.PathError{Op: "mkdir", Path: "x", Err: syscall.EROFS}: false,
		errNoScope: false,
	} {
		got := final(fmt.Errorf("workspace: %w", err))
		assert.Equal(t, again, shell.IsNotStarted(got), "%v", err)
		assert.Equal(t, !again, shell.IsPermanent(got), "%v", err)
	}
}

func TestRepositoriesThatNoTenantReachesAnyMoreAreNamedWithTheLineThatBringsThemBack(t *testing.T) {
	var logs bytes.Buffer
	d := &daemon{log: slog.New(slog.NewTextHandler(&logs, nil))}
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "app", ".git"), 0o700))
	roots, err := workspace.New(dir, false, nil)
	require.NoError(t, err)
	d.warnOfStrays(roots)
	assert.Contains(t, logs.String(), "set workspace_shared = true")
	assert.Contains(t, logs.String(), "first="+filepath.Join(dir, "app"))
}

func TestSessionsOfAUserOfTheirOwnWorkInTheFolderOfTheirTenantAndNothingWorksThereAsRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can start programs as another user")
	}
	above, err := os.MkdirTemp("/tmp", "orrery") //nolint:usetesting // that every user can enter
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(above) })
	require.NoError(t, os.Chmod(above, 0o711))
	dir := filepath.Join(above, "workspace")
	all := carriers(t, dir, tenants, "run_as = '4242:4343'")
	task := core.Task{TaskSpec: core.TaskSpec{ID: uuid.New(), Namespace: "shop", Tenant: "acme"}}
	_, err = carry(t, all[effects.LaneSession], task, effects.Spawn{N: 1, Session: "s", Workspace: "repo", Command: []string{"sh", "-c", "id -u > part; mv part told; sleep 1000"}})
	require.NoError(t, err)
	told := filepath.Join(dir, "shop", "acme", "repo", "told")
	require.Eventually(t, func() bool { _, err := os.Stat(told); return err == nil }, time.Minute, 10*time.Millisecond)
	got, err := os.ReadFile(told)
	require.NoError(t, err)
	assert.Equal(t, "4242\n", string(got))
	_, err = carry(t, all[effects.LaneSession], task, effects.Kill{N: 2, Session: "s"})
	require.NoError(t, err)
	_, err = carry(t, all[effects.LaneGit], pipelineOf("shop", "acme"), effects.Merge{N: 1})
	require.ErrorContains(t, err, "sessions.run_as is set: worktrees and merges would work as root on files that sessions may change")
}
