//go:build unix

package crashtest

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects/seedtest"
	"github.com/orrery-go/orrery/shell/jobs"
	"github.com/orrery-go/orrery/store/bolt"
)

func TestRunsOfJobsOutliveTheEnginesThatAreKilled(t *testing.T) {
	t.Parallel()
	s, n := seedtest.Seed(t), kills(t, 8, 100, 1)
	const perRound = 25
	for round := 0; n > 0; round++ {
		dir, err := filepath.EvalSymlinks(workDir(t))
		require.NoError(t, err)
		t.Cleanup(func() {
			if t.Failed() {
				assert.NoError(t, endPods(context.Background(), dir))
			}
		})
		l, rng := newLedger(), rand.New(rand.NewPCG(s, uint64(round)))
		begin := time.Now()
		for life := range min(n, perRound) {
			v := variant{MaxBatch: 1 + rng.IntN(64)}
			liveAndDie(t, childConfig{Dir: dir, Seed: rng.Uint64(), Jobs: true, variant: v}, rng, l)
			if t.Failed() {
				t.Fatalf("in life %d of round %d", life, round)
			}
		}
		took := time.Since(begin)
		runs := finishJobs(t, dir, l)
		t.Logf("round %d: %d kills in %s, %d runs", round, min(n, perRound), took.Round(time.Second), runs)
		if t.Failed() {
			return
		}
		n -= perRound
	}
}

// finishJobs lets an engine go on that nobody kills until all runs have ended, and
// looks at what is left. It gives how many runs there were.
func finishJobs(t *testing.T, dir string, l *ledger) int {
	t.Helper()
	st, f, done := reopened(t, dir, bolt.Options{LockTimeout: time.Minute})
	defer done()
	h, err := startJobs(t.Context(), dir, engineOptions(st, f, variant{MaxBatch: 64}), nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, h.stop()) }()
	all, err := allRuns(t.Context(), h.e)
	require.NoError(t, err)
	for _, o := range all {
		if k, _ := kindOf(o.JobID); k.cancel && !o.State.Terminal() {
			require.NoError(t, cancelRun(t.Context(), h.e, o.ID))
		}
	}
	// A killed engine's leases and a slow machine's processes take their time.
	err = poll(5*time.Minute, func() error {
		if all, err = allRuns(t.Context(), h.e); err != nil {
			return err
		}
		for _, o := range all {
			if !o.State.Terminal() {
				return fmt.Errorf("%w: run %s is %s: %s", errLater, o.RunID, o.State, o.Error)
			}
		}
		return nil
	})
	require.NoError(t, err, "they do not end")
	await(t, 2*time.Minute, func() error { return carriedOut(t.Context(), st) })
	examineRuns(t, dir, h, all, l)
	examineToldOfRuns(t, dir, all)
	examinePods(t, dir)
	empty(t, st)
	sound(t, st)
	return len(all)
}

// examineRuns says what does not hold once all runs have ended.
func examineRuns(t *testing.T, dir string, h *jobHost, all []core.Orchestrator, l *ledger) {
	t.Helper()
	times, err := beginnings(dir)
	require.NoError(t, err)
	there := map[string]bool{}
	for _, o := range all {
		there[o.ID.String()] = true
		k, known := kindOf(o.JobID)
		require.True(t, known)
		assert.Equal(t, k.state, o.State, "%s: %s", o.RunID, o.Error)
		assert.False(t, o.InCluster, o.RunID)
		if k.cancel {
			assert.LessOrEqual(t, times[o.RunID+" 0"], 1, o.RunID)
			continue
		}
		assert.Equal(t, k.last, o.RetryAttempt, o.RunID)
		if assert.NotNil(t, o.Pod.ExitCode, "%s: %+v", o.RunID, o.Pod) {
			assert.Equal(t, k.exit, *o.Pod.ExitCode, o.RunID)
		}
		for n := range k.last + 1 {
			assert.Equal(t, 1, times[fmt.Sprintf("%s %d", o.RunID, n)], "how often attempt %d of %s began", n, o.RunID)
		}
		assert.Zero(t, times[fmt.Sprintf("%s %d", o.RunID, k.last+1)], "%s: an attempt too many", o.RunID)
		var log bytes.Buffer
		assert.NoError(t, h.s.Logs(t.Context(), o, k.last, jobs.LogOptions{}, &log), o.RunID)
		assert.Contains(t, log.String(), "began\n", o.RunID)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for id := range l.runs {
		assert.True(t, there[id.String()], "run %s was acknowledged, and is not there", id)
	}
	assert.NotEmpty(t, l.runs, "no run was acknowledged: the test has tested nothing")
}

// examinePods makes sure that no pod has left files or processes.
func examinePods(t *testing.T, dir string) {
	t.Helper()
	left, err := filepath.Glob(filepath.Join(dir, podsDir, "*orrery-*"))
	require.NoError(t, err)
	assert.Empty(t, left)
	environs, err := filepath.Glob("/proc/[0-9]*/environ")
	require.NoError(t, err)
	for _, file := range environs {
		b, err := os.ReadFile(file)
		if err == nil && bytes.Contains(b, []byte("ORRERY_POD_DIR="+filepath.Join(dir, podsDir))) {
			t.Errorf("a process is left: %s", file)
		}
	}
}
