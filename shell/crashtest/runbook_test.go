//go:build unix

package crashtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/git"
	"github.com/orrery-go/orrery/store"
)

// Names in the runbook that is killed.
const (
	rootDir      = "ws" // the workspace root, with the repository repoName
	repoName     = "repo"
	sideTool     = "side"
	commitTool   = "commit"
	handlerQueue = "for-handlers"
	workerQueue  = "for-workers"
	workerName   = "worker"
	lockName     = "main"
	slotsName    = "slots"
	slotsTotal   = 3
	runbooks     = 16 // pipelines of a round
)

// runbookID is the id of a pipeline of the round: asking twice for it is harmless.
func runbookID(n int) uuid.UUID {
	return uuid.NewSHA1(uuid.NameSpaceOID, fmt.Appendf(nil, "runbook %d", n))
}

var runbookScope = shell.Scope{Namespace: scopeName, Tenant: scopeName}

// often is for what may be interrupted again and again.
var often = core.Retry{MaxAttempts: 1000, BackoffMS: 1}

// side is a run of the tool that leaves a line.
func side(what, who string, policy core.OnInterrupt) *core.ToolRun {
	input, _ := json.Marshal(sideEffect{What: what, Who: who}) // it always encodes
	return &core.ToolRun{Tool: sideTool, Input: input, OnInterrupt: policy}
}

// sideEffect is the input of that tool, and the beginning of its line.
type sideEffect struct {
	What string `json:"what"`
	Who  string `json:"who"`
}

// allPhases is a pipeline with each kind of phase, for runs in a folder.
func allPhases(dir string) core.PipelineDef {
	const me = "${pipeline.id}"
	tree := "wt-" + me
	merge := func(s effects.MergeStrategy) core.ApproachAction {
		return core.ApproachAction{Merge: &core.MergeRun{Repo: repoName, Branch: "b-" + me, Into: "main", Strategy: s}}
	}
	commit, _ := json.Marshal(sideEffect{What: "commit", Who: tree})
	item, _ := json.Marshal(me)
	child := core.PipelineDef{Name: "child", Phases: []core.PhaseDef{
		{Name: "run", Retry: often, Run: side("child", "${parent}", core.InterruptRetry)},
		{Name: "note", Checkpoint: &core.CheckpointPhase{Message: "child of ${parent}"}},
	}, Inputs: []core.InputDef{{Name: "parent", Required: true}}}
	return core.PipelineDef{Name: "all", Phases: []core.PhaseDef{
		{Name: "set", Set: &core.SetPhase{Values: map[string]json.RawMessage{"me": item}}},
		sessionPhase(dir, me),
		{Name: "slot", Semaphore: &core.SemaphorePhase{Name: slotsName}},
		{Name: "tree", Retry: often, Worktree: &core.WorktreePhase{Op: core.WorktreeAdd, Repo: repoName, Branch: "b-" + me, Path: tree, Base: "main"}},
		{Name: "commit", Retry: often, Run: &core.ToolRun{Tool: commitTool, Input: commit, OnInterrupt: core.InterruptRetry}},
		{Name: "lock", Lock: &core.LockPhase{Name: lockName}},
		{Name: "merge", Retry: often, Strategy: &core.StrategyPhase{Approaches: []core.Approach{
			{Name: "fast-forward", Action: merge(effects.MergeFastForward), FallbackOn: []core.FallbackCondition{{Error: "not a fast-forward"}}},
			{Name: "rebase", Action: merge(effects.MergeRebase)},
		}}},
		{Name: "unlock", Unlock: &core.UnlockPhase{Name: lockName}},
		{Name: "untree", Retry: often, Worktree: &core.WorktreePhase{Op: core.WorktreeRemove, Repo: repoName, Path: tree, Force: true}},
		{Name: "again", Retry: often, Run: side("again", me, core.InterruptRetry)},
		{Name: "once", IgnoreFailure: true, Run: side("once", me, core.InterruptFail)},
		// Once "first" was cut off, no retry of the phase may repeat it.
		{Name: "either", IgnoreFailure: true, Retry: often, Strategy: &core.StrategyPhase{Approaches: []core.Approach{
			{Name: "first", Action: core.ApproachAction{Command: side("first", me, core.InterruptFail)}, FallbackOn: []core.FallbackCondition{{AnyError: true}}},
			{Name: "second", Action: core.ApproachAction{Command: side("second", me, core.InterruptRetry)}},
		}}},
		{Name: "handled", Push: &core.PushPhase{Queue: handlerQueue, Data: item, Wait: true}},
		{Name: "worked", Push: &core.PushPhase{Queue: workerQueue, Data: item, Wait: true}},
		{Name: "rest", Wait: &core.WaitPhase{ForMS: 20}},
		{Name: "signalled", Signal: &core.SignalPhase{Name: "go"}},
		{Name: "approved", Approval: &core.ApprovalPhase{Message: "may it go on?"}},
		{Name: "children", Retry: often, Pipelines: &core.PipelinesPhase{Wait: true, Start: []core.PipelineStartDef{
			{Definition: child, Context: map[string]json.RawMessage{"parent": item}},
			{Definition: child, Context: map[string]json.RawMessage{"parent": item}},
		}}},
		{Name: "task", Retry: often, Task: &core.AgentPrompt{Prompt: "do it", Config: core.TaskConfig{CheckpointIntervalMS: 20}}},
		{Name: "manual", Manual: &core.ManualPhase{Instructions: "say so"}},
		{Name: "wake", Wake: &core.WakePhase{Worker: workerName}},
		{Name: "tell", Retry: often, Notify: &core.NotifyPhase{Title: me}},
		{Name: "note", Checkpoint: &core.CheckpointPhase{Message: "all done"}},
	}}
}

// runbookOptions are those of an engine that carries runbooks out.
func runbookOptions(dir string, st store.Store, f *os.File, v variant) (shell.Options, error) {
	o := engineOptions(st, f, v)
	g, err := git.New(git.Options{Root: filepath.Join(dir, rootDir)})
	if err != nil {
		return o, err
	}
	s, err := runbookSessions(dir, v.Backend)
	if err != nil {
		return o, err
	}
	o.Sessions, o.WatchEvery = s.Observer(nil).ForEngine(), 20*time.Millisecond
	leave := func(what, who, key string, attempt uint32) error {
		_, err := fmt.Fprintf(f, "%-*s\n", lineWidth, fmt.Sprint(what, " ", who, " ", key, " ", attempt))
		return err
	}
	o.Tools = map[string]shell.Tool{
		sideTool: shell.ToolFunc(func(ctx context.Context, c shell.Call) (json.RawMessage, error) {
			var s sideEffect
			if err := json.Unmarshal(c.Input, &s); err != nil {
				return nil, err
			}
			idle(ctx, time.Millisecond)
			err := leave(s.What, s.Who, c.IdempotencyKey, c.Attempt)
			idle(ctx, time.Millisecond)
			return json.RawMessage(`{"done":true}`), err
		}),
		commitTool: shell.ToolFunc(func(ctx context.Context, c shell.Call) (json.RawMessage, error) {
			var s sideEffect
			if err := json.Unmarshal(c.Input, &s); err != nil {
				return nil, err
			}
			return nil, commitFile(ctx, filepath.Join(dir, rootDir, s.Who), s.Who)
		}),
	}
	o.Interpreters = map[string]shell.Interpreter{
		effects.LaneGit:     g,
		effects.LaneSession: s,
		effects.LaneNotify: carrier(func(ref effects.Ref, e effects.Outer) error {
			n, ok := e.(effects.Notify)
			if !ok {
				return fmt.Errorf("%T is no notification", e)
			}
			return leave("tell", n.Title, ref.ID.String(), 0)
		}),
	}
	o.Webhooks = nil
	return o, nil
}

// carrier makes an interpreter of a function.
type carrier func(ref effects.Ref, e effects.Outer) error

func (c carrier) Carry(_ context.Context, ref effects.Ref, e effects.Outer) (json.RawMessage, error) {
	return nil, c(ref, e)
}

// commitFile leaves one commit with one new file; a lock that a killed git left
// behind is its own, since nobody else works there.
func commitFile(ctx context.Context, dir, name string) error {
	if out, err := gitIn(ctx, dir, "rev-parse", "--absolute-git-dir"); err == nil {
		_ = os.Remove(filepath.Join(trim(out), "index.lock"))
	}
	if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600); err != nil {
		return err
	}
	if out, err := gitIn(ctx, dir, "add", "--", name); err != nil {
		return fmt.Errorf("add: %w: %s", err, out)
	}
	if _, err := gitIn(ctx, dir, "diff", "--cached", "--quiet"); err == nil {
		return nil // it was made before
	}
	if out, err := gitIn(ctx, dir, "commit", "--quiet", "-m", name); err != nil {
		return fmt.Errorf("commit: %w: %s", err, out)
	}
	return nil
}

func gitIn(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", append([]string{"-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "commit.gpgSign=false"}, args...)...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// setUpRunbooks declares what the pipelines use. It can be done again and again.
func setUpRunbooks(ctx context.Context, e *shell.Engine, dir string) error {
	_, err := e.Semaphores().Send(ctx, runbookScope, slotsName, core.SemaphoreConfigure{Name: slotsName, Namespace: scopeName, Tenant: scopeName, Slots: slotsTotal})
	if err != nil {
		return fmt.Errorf("semaphore: %w", err)
	}
	for _, name := range []string{handlerQueue, workerQueue} {
		c := core.QueueConfig{VisibilityTimeoutMS: 300, Retry: core.Retry{MaxAttempts: 1000}}
		if _, err := e.Queues().Configure(ctx, scopeName, scopeName, name, c); err != nil {
			return fmt.Errorf("queue %s: %w", name, err)
		}
	}
	_, err = e.Workers().Send(ctx, runbookScope, workerName, core.WorkerConfigure{Spec: core.WorkerSpec{
		Namespace: scopeName, Tenant: scopeName, Name: workerName, Queue: workerQueue, Concurrency: 2, PollMS: 100,
		Do: core.WorkerDo{Run: side("worked", "${item.data}", core.InterruptRetry)},
	}})
	if err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	for n := range runbooks {
		_, err := e.Pipelines().Create(ctx, core.PipelineSpec{ID: runbookID(n), Namespace: scopeName, Tenant: scopeName, Label: "all", Definition: allPhases(dir)})
		var r *shell.Refusal
		if err != nil && (!errors.As(err, &r) || r.Code != effects.CodeExists) {
			return fmt.Errorf("pipeline %d: %w", n, err)
		}
	}
	return nil
}

// handleItems is a Go worker of the queue for handlers.
func handleItems(ctx context.Context, e *shell.Engine, f *os.File) error {
	return e.Queues().Work(ctx, core.QueueRef(scopeName, scopeName, handlerQueue), func(ctx context.Context, i core.QueueItem) (json.RawMessage, error) {
		var who string
		if err := json.Unmarshal(i.Data, &who); err != nil {
			return nil, err
		}
		_, err := fmt.Fprintf(f, "%-*s\n", lineWidth, fmt.Sprint("handled ", who, " ", i.ID, " ", i.Attempts))
		idle(ctx, time.Millisecond)
		return json.RawMessage(`"handled"`), err
	}, shell.WorkOptions{Concurrency: 3})
}

// answerOnce gives every pipeline that waits for somebody what it waits for, and
// tells how many have not ended.
func answerOnce(ctx context.Context, e *shell.Engine, rng *rand.Rand) (left int, err error) {
	for _, status := range []core.PhaseType{core.PhaseInit, core.PhaseBlocked, core.PhaseRunning} {
		list, _, err := e.Pipelines().List(ctx, shell.MachineFilter{Status: string(status)}, shell.Page{Limit: shell.MaxPage})
		if err != nil {
			return 0, err
		}
		left += len(list)
		for _, p := range list {
			switch p.Phase.Name { // what is refused came too late, or twice
			case "signalled":
				_, _ = e.Pipelines().Send(ctx, p.ID, core.PipelineSignal{Name: "go", Payload: json.RawMessage(`{"by":"test"}`)})
			case "approved":
				_, _ = e.Pipelines().Send(ctx, p.ID, core.PipelineApprove{Phase: "approved", By: "test", Approved: true})
			case "manual":
				_, _ = e.Pipelines().Send(ctx, p.ID, core.PhaseComplete{Phase: "manual", Result: json.RawMessage(`1`)})
			}
		}
	}
	tasks, _, err := e.Tasks().List(ctx, shell.MachineFilter{Status: string(core.TaskRunning)}, shell.Page{Limit: shell.MaxPage})
	if err != nil {
		return left, err
	}
	for _, t := range tasks {
		if len(t.Command) > 0 {
			talk(ctx, e, t, rng)
			continue
		}
		if rng.IntN(3) > 0 {
			_, _ = e.Tasks().Send(ctx, t.ID, core.TaskHeartbeat{Status: core.LivenessActive, Progress: fmt.Sprint(rng.Uint64())})
			continue
		}
		_, _ = e.Tasks().Send(ctx, t.ID, core.TaskComplete{Output: json.RawMessage(`{"ok":true}`)})
	}
	return left, nil
}

// playRunbooks lets the pipelines go on, until ctx ends or all have ended.
func playRunbooks(ctx context.Context, e *shell.Engine, dir string, f *os.File, rng *rand.Rand, began func()) error {
	if err := setUpRunbooks(ctx, e, dir); err != nil {
		return err
	}
	began()
	ctx, stop := context.WithCancel(ctx)
	worked := make(chan error, 1)
	go func() { worked <- handleItems(ctx, e, f) }()
	var err error
	for left := 1; left > 0 && err == nil; idle(ctx, 3*time.Millisecond) {
		left, err = answerOnce(ctx, e, rng)
		err = errors.Join(err, ctx.Err())
	}
	stop()
	return errors.Join(err, <-worked)
}
