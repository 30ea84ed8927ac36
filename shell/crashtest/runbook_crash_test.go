//go:build unix

package crashtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/effects/seedtest"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/session"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/bolt"
)

func trim(s string) string { return strings.TrimSpace(s) }

func TestRunbooksOfAllKindsOfPhasesGoOnWhereTheyWereKilled(t *testing.T) {
	t.Parallel()
	for backend, few := range map[string]int{session.Tmux: 15, session.PTY: 8} {
		t.Run(backend, func(t *testing.T) {
			t.Parallel()
			needs(t, backend)
			killRunbooks(t, backend, kills(t, few, 100, 1))
		})
	}
}

// killRunbooks kills runbooks n times, whose sessions are of a backend.
func killRunbooks(t *testing.T, backend string, n int) {
	t.Helper()
	s := seedtest.Seed(t)
	const perRound = 60 // more, and the pipelines have all ended
	for round := 0; n > 0; round++ {
		dir, l := runbookDir(t), newLedger()
		endSessions(t, dir, backend)
		rng := rand.New(rand.NewPCG(s, uint64(round)))
		ended := 0
		for ended < min(n, perRound) {
			v := variant{MaxBatch: 1 + rng.IntN(64), Backend: backend}
			liveAndDie(t, childConfig{Dir: dir, Seed: rng.Uint64(), Runbooks: true, variant: v}, rng, l)
			if t.Failed() {
				t.Fatalf("in life %d of round %d", ended, round)
			}
			ended++
		}
		finishRunbooks(t, dir, backend, rng)
		if t.Failed() {
			return
		}
		n -= perRound
	}
}

// runbookDir is the folder of a round, with a repository.
func runbookDir(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(workDir(t))
	require.NoError(t, err)
	repo := filepath.Join(dir, rootDir, repoName)
	require.NoError(t, os.MkdirAll(repo, 0o700))
	out, err := gitIn(t.Context(), repo, "init", "--quiet", "--initial-branch=main")
	require.NoError(t, err, out)
	require.NoError(t, commitFile(t.Context(), repo, "README"))
	return dir
}

// leaveLock leaves a lock as a git of ours does that is killed with its daemon,
// which a process alone cannot be made to do reliably.
func leaveLock(t *testing.T, dir string) {
	t.Helper()
	gitDir := filepath.Join(dir, rootDir, repoName, ".git")
	if _, err := os.Stat(filepath.Join(gitDir, "orrery-tmp", "work")); err != nil {
		return // none was at work
	}
	f, err := os.OpenFile(filepath.Join(gitDir, "refs", "heads", "main.lock"), os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return // one is still at work, and ends
	}
	t.Log("a git has left a lock")
	require.NoError(t, f.Close())
}

// finishRunbooks lets an engine go on that nobody kills, and looks at what is
// left.
func finishRunbooks(t *testing.T, dir, backend string, rng *rand.Rand) {
	t.Helper()
	leaveLock(t, dir)
	st, f, done := reopened(t, dir, bolt.Options{})
	defer done()
	o, err := runbookOptions(dir, st, f, variant{MaxBatch: 64, Backend: backend})
	require.NoError(t, err)
	sessions, ok := o.Interpreters[effects.LaneSession].(*session.Sessions)
	require.True(t, ok)
	defer func() { require.NoError(t, sessions.Close()) }()
	e, err := shell.New(o)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	limit, over := context.WithTimeout(ctx, 5*time.Minute) // a lock of git's that was left is waited for
	assert.NoError(t, playRunbooks(limit, e, dir, f, rng, func() {}), "they do not end")
	over()
	await(t, time.Minute, func() error { return carriedOut(ctx, st) }) // the last sessions are killed
	examineRunbooks(t, dir, e, st)
	did, keys := sideEffects(t, dir)
	examineSessions(t, sessions, did, keys)
	stop()
	require.NoError(t, <-ended)
	sound(t, st)
}

// examineRunbooks says what does not hold once all pipelines have ended.
func examineRunbooks(t *testing.T, dir string, e *shell.Engine, st store.Store) {
	t.Helper()
	bg := t.Context()
	did, keys := sideEffects(t, dir)
	for n := range runbooks {
		p, err := e.Pipelines().Get(bg, runbookID(n))
		require.NoError(t, err)
		if !assert.Equal(t, core.PhaseDone, p.Phase.Type, "pipeline %s: %+v", p.ID, p.Phase) {
			continue
		}
		for _, what := range []string{"again", "handled", "worked", "child", "tell"} {
			assert.NotZero(t, did[what+" "+p.ID.String()], "%s of pipeline %s: at least once", what, p.ID)
		}
		assert.GreaterOrEqual(t, did["child "+p.ID.String()], 2, "both children of %s", p.ID)
		failed := func(r core.PhaseRecord) bool { return r.Name == "either" && r.Outcome == core.HistoryFailed }
		if !slices.ContainsFunc(p.History, failed) { // both may have been cut off, the second one each time
			assert.NotZero(t, did["first "+p.ID.String()]+did["second "+p.ID.String()], "one approach or the other of %s", p.ID)
		}
		assert.FileExists(t, filepath.Join(dir, rootDir, repoName, fmt.Sprintf("wt-%s", p.ID)), "what it committed is merged and checked out")
		assert.Len(t, p.History, len(p.Definition.Phases)+attempts(p), "each phase went by once, but for its attempts")
	}
	for key, times := range keys {
		if what, _, _ := strings.Cut(key, " "); what == "once" || what == "first" {
			assert.Equal(t, 1, times, "at most once: %s", key)
		}
	}
	for _, name := range []string{handlerQueue, workerQueue} {
		q, err := e.Queues().Get(bg, scopeName, scopeName, name)
		require.NoError(t, err)
		assert.EqualValues(t, runbooks, q.Pushed, "each pipeline pushed once into %s", name)
		assert.Equal(t, q.Pushed, q.Completed, "all of %s was completed, and once", name)
		assert.Zero(t, q.Ready+q.Waiting+q.Delayed+q.InFlight+q.Retrying+q.Dead, "%s is empty", name)
	}
	locks, _, err := e.Locks().List(bg, shell.MachineFilter{}, shell.Page{})
	require.NoError(t, err)
	for _, l := range locks {
		assert.Empty(t, l.Holder, "lock %s is free", l.Name)
		assert.Empty(t, l.Waiters, "nobody waits for lock %s", l.Name)
	}
	s, err := e.Semaphores().Get(bg, runbookScope, slotsName)
	require.NoError(t, err)
	assert.Empty(t, s.Holders)
	assert.Empty(t, s.Waiters)
	for _, status := range []core.TaskStateType{core.TaskPending, core.TaskRunning, core.TaskStuck} {
		tasks, _, err := e.Tasks().List(bg, shell.MachineFilter{Status: string(status)}, shell.Page{})
		require.NoError(t, err)
		assert.Empty(t, tasks, "tasks that nobody waits for")
	}
	out, err := gitIn(bg, filepath.Join(dir, rootDir, repoName), "worktree", "list", "--porcelain")
	require.NoError(t, err)
	assert.Equal(t, 1, strings.Count(out, "worktree "), "worktrees are left over: %s", out)
	out, err = gitIn(bg, filepath.Join(dir, rootDir, repoName), "status", "--porcelain")
	require.NoError(t, err)
	assert.Empty(t, out, "the checkout is as its branch")
	empty(t, st)
}

// attempts is how many phases of the pipeline's history were tried again.
func attempts(p core.Pipeline) int {
	seen := make(map[string]bool)
	n := 0
	for _, h := range p.History {
		if seen[h.Name] {
			n++
		}
		seen[h.Name] = true
	}
	return n
}

// empty makes sure that no effect waits to be carried out, nothing was set aside,
// and no child is left that runs.
func empty(t *testing.T, st store.Store) {
	t.Helper()
	var left []string
	require.NoError(t, st.View(t.Context(), func(tx store.ReadTx) error {
		if err := tx.Outbox(func(e store.OutboxEntry) error {
			left = append(left, fmt.Sprintf("effect %d of %s in lane %s", e.Key.N, e.Key.ID, e.Lane))
			return nil
		}); err != nil {
			return err
		}
		aside, err := tx.Quarantine(100)
		for _, q := range aside {
			left = append(left, fmt.Sprintf("set aside: %s/%s: %s", q.Kind, q.ID, q.Reason))
		}
		if err != nil {
			return err
		}
		return tx.Records(func(r store.Record) error {
			s, err := core.DecodeState(r.Kind, r.State)
			if err != nil {
				return err
			}
			ended := true
			switch s := s.(type) {
			case core.Action:
				ended = s.Status.Type.Terminal()
			case core.Pipeline:
				ended = s.Phase.Type.Ended()
			case core.Strategy:
				ended = s.Status.Ended()
			}
			if !ended {
				left = append(left, fmt.Sprintf("%s/%s has not ended", r.Kind, r.ID))
			}
			return nil
		})
	}))
	report(t, left)
}

// sideEffects counts the lines that were left, by what was done for whom, and by
// what was done under which key.
func sideEffects(t *testing.T, dir string) (did, keys map[string]int) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, effectsFile))
	require.NoError(t, err)
	did, keys = make(map[string]int), make(map[string]int)
	for s := range strings.Lines(string(b)) {
		fields := strings.Fields(s)
		require.Len(t, fields, 4, "line %q", s)
		did[fields[0]+" "+fields[1]]++
		keys[fields[0]+" "+fields[2]]++
	}
	return did, keys
}
