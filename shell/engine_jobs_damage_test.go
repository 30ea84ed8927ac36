package shell_test

import (
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/memory"
)

// A run whose record is lost must not keep its place: with overlap forbid no other
// would ever follow.
func TestTheJobOfARunThatCannotBeReadGoesOnWithout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, c := memory.New(), newCluster()
		e, stop := start(t, c.options(st))
		c.use(e)
		spec := nightly()
		spec.Schedule, spec.Overlap = "@every 10m", core.OverlapForbid
		applied(t, e, spec)
		run := triggered(t, e, "nightly")
		elapse(time.Second)
		require.NoError(t, e.Runs().PutLog(bg(), run, 0, []byte("said")))
		o := runOf(t, e, run)
		require.Equal(t, core.OrchestratorContainerCreating, o.State)
		require.NoError(t, stop())
		spoil(t, st, o)

		e, stop = start(t, c.options(st))
		c.runFor = time.Second
		c.use(e)
		_, err := e.Runs().Send(bg(), run, core.PodRunning{})
		require.Error(t, err)
		elapse(time.Second)
		_, err = e.Runs().Get(bg(), run)
		require.ErrorIs(t, err, shell.ErrNotFound)
		_, err = e.Runs().Log(bg(), run, 0)
		require.ErrorIs(t, err, shell.ErrNotFound, "what it wrote went along")
		job, err := e.Jobs().Get(bg(), tenant, "nightly")
		require.NoError(t, err)
		assert.Equal(t, core.ReasonUnreadable, job.LastRun.Error)
		assert.EqualValues(t, 1, job.Counts.Failed)
		once := onlyOccurrence(t, e, core.JobRef("ns", "t", "nightly").ID)
		assert.EqualValues(t, core.StatusFailed, once.Outcome)
		s, err := e.Stats(bg())
		require.NoError(t, err)
		assert.EqualValues(t, 1, s.Quarantined)

		elapse(11 * time.Minute)
		job, err = e.Jobs().Get(bg(), tenant, "nightly")
		require.NoError(t, err)
		assert.EqualValues(t, 1, job.Counts.Completed, "the next one ran")
		require.NoError(t, stop())
	})
}

func TestRunsWhoseJobCannotBeReadComeToAnEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, c := memory.New(), newCluster()
		c.runFor = time.Minute
		e, stop := start(t, c.options(st))
		c.use(e)
		spec := nightly()
		spec.Schedule = "@every 10m"
		j := applied(t, e, spec)
		elapse(j.NextRunAt.Sub(effects.TimeOf(time.Now())) - 20*time.Second)
		waiting := core.RunRef("ns", "t", core.RunID("nightly", j.NextRunAt)).ID
		require.Equal(t, core.OrchestratorPreRun, runOf(t, e, waiting).State)
		placed := triggered(t, e, "nightly")
		elapse(5 * time.Second)
		job, err := e.Jobs().Get(bg(), tenant, "nightly")
		require.NoError(t, err)
		require.NoError(t, stop())
		spoil(t, st, job)

		e, stop = start(t, c.options(st))
		c.use(e)
		elapse(5 * time.Minute)
		assert.Equal(t, core.OrchestratorCompleted, runOf(t, e, placed).State, "it needed no more of its job")
		o := runOf(t, e, waiting)
		assert.Equal(t, core.OrchestratorCancelled, o.State)
		assert.Equal(t, "its job does not know it: job not found", o.Error)
		applied(t, e, spec)
		elapse(15 * time.Minute)
		job, err = e.Jobs().Get(bg(), tenant, "nightly")
		require.NoError(t, err)
		assert.EqualValues(t, 1, job.Counts.Completed, "made again, it runs")
		require.NoError(t, stop())
	})
}

// The heartbeats of a run whose scheduler is lost are missed all the same.
func TestARunIsFoundSilentThoughItsSchedulerCouldNotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, c := memory.New(), newCluster()
		e, stop := start(t, c.options(st))
		applied(t, e, nightly())
		c.silent(e)
		run := triggered(t, e, "nightly")
		elapse(time.Second)
		require.NoError(t, stop())
		var s core.State
		require.NoError(t, st.View(bg(), func(tx store.ReadTx) error {
			rec, err := tx.Get(core.KindScheduler, core.SchedulerRef(run).ID)
			require.NoError(t, err)
			s, err = core.DecodeState(core.KindScheduler, rec.State)
			return err
		}))
		spoil(t, st, s)
		e, stop = start(t, c.options(st))
		c.silent(e)
		for range 5 {
			elapse(10 * time.Second)
			require.NoError(t, e.Runs().ReportHeartbeats(bg(), shell.HeartbeatReport{Of: []effects.Ref{core.SchedulerRef(run)}}))
		}
		assert.Equal(t, core.OrchestratorOrphaned, runOf(t, e, run).State)
		require.NoError(t, stop())
	})
}

func TestADamagedLogStopsNobody(t *testing.T) {
	path := filepath.Join(t.TempDir(), "orrery.db")
	synctest.Test(t, func(t *testing.T) {
		st := openBolt(t, path)
		c := newCluster()
		c.runFor = time.Second
		e, stop := start(t, c.options(st))
		c.silent(e)
		applied(t, e, nightly())
		bad, good := triggered(t, e, "nightly"), triggered(t, e, "nightly")
		elapse(20 * time.Second)
		require.NoError(t, stop())
		require.NoError(t, st.Close())
		again := damaged(t, path, func(tx *bbolt.Tx) error {
			return tx.Bucket([]byte("run-logs")).Put(append(append([]byte{}, bad[:]...), 0, 0, 0, 0), []byte("\x00\x00\x00\x00spoilt"))
		})
		o := c.options(again)
		o.TickRate, o.LeaseTTL, o.ActionRetention = time.Hour, 12*time.Hour, 24*time.Hour
		e, stop = start(t, o)
		c.silent(e)
		_, err := e.Runs().Log(bg(), bad, 0)
		require.ErrorIs(t, err, store.ErrCorrupt)
		_, err = e.Runs().Log(bg(), good, 0)
		require.NoError(t, err)
		elapse(26 * time.Hour)
		for _, run := range []uuid.UUID{bad, good} {
			_, err = e.Runs().Log(bg(), run, 0)
			require.ErrorIs(t, err, shell.ErrNotFound, "it goes with its run")
		}
		require.NoError(t, stop())
		verify(t, again)
	})
}
