package shell_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/git"
)

// runGit runs git as a person would.
func runGit(t *testing.T, dir string, args ...string) {
	t.Helper()
	out, err := tryGit(t, dir, args...)
	require.NoErrorf(t, err, "git %v: %s", args, out)
}

func tryGit(t *testing.T, dir string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", append([]string{"-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "commit.gpgSign=false"}, args...)...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// commitText writes a file and commits it on what is checked out.
func commitText(t *testing.T, dir, file, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600))
	runGit(t, dir, "add", "--", file)
	runGit(t, dir, "commit", "--quiet", "-m", file)
}

// pipelineIn waits until the pipeline is as it should be.
func pipelineIn(t *testing.T, e *shell.Engine, id uuid.UUID, what string, ok func(core.Pipeline) bool) core.Pipeline {
	t.Helper()
	var p core.Pipeline
	require.Eventually(t, func() bool {
		var err error
		p, err = e.Pipelines().Get(bg(), id)
		return err == nil && (ok(p) || p.Phase.Type.Ended())
	}, time.Minute, 5*time.Millisecond, what)
	require.True(t, ok(p), "%s, but it is %+v", what, p.Phase)
	return p
}

func endedAs(t core.PhaseType) func(core.Pipeline) bool {
	return func(p core.Pipeline) bool { return p.Phase.Type == t }
}

func atPhase(name string) func(core.Pipeline) bool {
	return func(p core.Pipeline) bool { return p.Phase.Type == core.PhaseRunning && p.Phase.Name == name }
}

// 003's example of a strategy: fast-forward, else rebase, else an agent.
func TestABranchIsMergedByFastForwardThenRebaseThenAnAgent(t *testing.T) {
	for name, c := range map[string]struct {
		ours, theirs string // what main and the branch write into the file after it was branched off
		other        string // the file of main's commit, where it is another one
		approach     string
	}{
		"a branch ahead of main":             {theirs: "theirs\n", approach: "fast-forward"},
		"a branch that has gone its own way": {ours: "ours\n", other: "other", theirs: "theirs\n", approach: "rebase"},
		"a branch that contradicts main":     {ours: "ours\n", other: "file", theirs: "theirs\n", approach: "agent"},
	} {
		t.Run(name, func(t *testing.T) {
			root, err := filepath.EvalSymlinks(t.TempDir())
			require.NoError(t, err)
			repo, tree := filepath.Join(root, "repo"), filepath.Join(root, "tree")
			require.NoError(t, os.Mkdir(repo, 0o700))
			runGit(t, repo, "init", "--quiet", "--initial-branch=main")
			commitText(t, repo, "file", "one\n")
			g, err := git.New(git.Options{Root: root})
			require.NoError(t, err)
			sessions := carrying(func(context.Context) (json.RawMessage, error) { return nil, nil }) // the test is the agent
			st := inBolt(t)
			o := shell.Options{Store: st, Interpreters: map[string]shell.Interpreter{effects.LaneGit: g, effects.LaneSession: sessions}}
			e, stop := start(t, o)
			p, err := e.Pipelines().Create(bg(), core.PipelineSpec{Definition: core.PipelineDef{Name: "merge", Phases: []core.PhaseDef{
				{Name: "tree", Worktree: &core.WorktreePhase{Op: core.WorktreeAdd, Repo: "repo", Branch: "topic", Path: "tree", Base: "main"}},
				{Name: "work", Manual: &core.ManualPhase{}},
				{Name: "merge", Strategy: &core.StrategyPhase{Approaches: core.MergeChain("repo", "topic", "main", core.AgentPrompt{Prompt: "resolve the conflicts", Command: []string{"agent"}, Workspace: "tree"})}},
				{Name: "untree", Worktree: &core.WorktreePhase{Op: core.WorktreeRemove, Repo: "repo", Path: "tree"}},
			}}})
			require.NoError(t, err)
			pipelineIn(t, e, p.ID, "the worktree is made", atPhase("work"))
			commitText(t, tree, "file", c.theirs)
			if c.ours != "" {
				commitText(t, repo, c.other, c.ours)
			}
			_, err = e.Pipelines().Send(bg(), p.ID, core.PhaseComplete{Phase: "work"})
			require.NoError(t, err)

			if c.approach == "agent" {
				var tasks []core.Task
				require.Eventually(t, func() bool {
					tasks, _, err = e.Tasks().List(bg(), shell.MachineFilter{Status: string(core.TaskRunning)}, shell.Page{})
					return err == nil && len(tasks) == 1
				}, time.Minute, 5*time.Millisecond, "an agent is asked")
				assert.Equal(t, "tree", tasks[0].Workspace)
				require.NoError(t, stop()) // the engine need not be there while the agent works
				out, err := tryGit(t, tree, "merge", "main")
				require.Error(t, err, "it does conflict: %s", out)
				commitText(t, tree, "file", "ours and theirs\n")
				e, stop = start(t, o)
				_, err = e.Tasks().Send(bg(), tasks[0].ID, core.TaskComplete{Output: json.RawMessage(`{"resolved":["file"]}`)})
				require.NoError(t, err)
			}
			pipelineIn(t, e, p.ID, "it is done", endedAs(core.PhaseDone))
			strategies, _, err := e.Strategies().List(bg(), shell.MachineFilter{}, shell.Page{})
			require.NoError(t, err)
			require.Len(t, strategies, 1)
			assert.Equal(t, c.approach, strategies[0].Approaches[strategies[0].Current].Name)
			want := map[string]string{"fast-forward": "theirs\n", "rebase": "theirs\n", "agent": "ours and theirs\n"}[c.approach]
			got, err := os.ReadFile(filepath.Join(repo, "file"))
			require.NoError(t, err)
			assert.Equal(t, want, string(got), "main's checkout has followed")
			assert.NoDirExists(t, tree)
			out, err := tryGit(t, repo, "status", "--porcelain")
			require.NoError(t, err)
			assert.Empty(t, out)
			require.NoError(t, stop())
			verify(t, st)
		})
	}
}
