package jobs_test

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/jobs"
	"github.com/orrery-go/orrery/shell/jobs/runnertest"
	"github.com/orrery-go/orrery/store"
)

// lateList is a runner whose list of what it holds comes late: it is of before.
type lateList struct {
	*runnertest.Fake
	on chan struct{} // closed: it comes
}

func (l *lateList) Held(ctx context.Context) ([]jobs.Attempt, error) {
	held, err := l.Fake.Held(ctx)
	select {
	case <-l.on:
		return held, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func TestWhatIsDeletedWhileItIsBeingListedWhatLivesHoldsNoRoom(t *testing.T) {
	withRig(t, roomFor(1, 0), func(t *testing.T, r *rig) {
		runs := r.jobsOf("a", 2, retries(0))
		r.stop()
		late := &lateList{r.fake, make(chan struct{})}
		r.o.Runners["fake"] = late
		r.start()
		synctest.Wait()
		_, err := r.e.Runs().Send(t.Context(), runs[0].ID, core.OrchestratorCancel{Reason: "not wanted"})
		require.NoError(t, err)
		assert.Equal(t, core.OrchestratorCancelled, r.ended(runs[0]).State)
		require.NoError(t, r.fake.Gone(t.Context(), jobs.Attempt{Run: runs[0].ID}))
		require.False(t, r.s.Known("fake"))
		close(late.on)
		assert.Equal(t, jobs.Pods{Max: 1, Living: 1}, r.pods())
		assert.Equal(t, 1, r.living(runs[1:]), "the other one has the place")
	})
}

// The daemon was killed after it had told the run that it waits, and before it had answered: the pod is asked for again, and there is room now. Its
// runner says nothing of a pod before it runs.
func TestWhatWasToldThatItWaitsAndFindsRoomAfterAKillWaitsNoMore(t *testing.T) {
	withRig(t, roomFor(1, 0), func(t *testing.T, r *rig) {
		first := r.jobsOf("a", 1)[0]
		r.kill()
		r.first = func() {
			if r.queued() > 0 {
				r.dead.gone.Store(true)
			}
		}
		r.start()
		_, err := r.e.Jobs().Apply(t.Context(), job("second", retries(0)))
		require.NoError(t, err)
		made, err := r.e.Jobs().Trigger(t.Context(), scope, "second", shell.TriggerOptions{By: "test"})
		require.NoError(t, err)
		synctest.Wait()
		require.True(t, r.dead.gone.Load())
		second := r.past(made.Run)
		require.True(t, second.Pod.Queued)
		require.NotEmpty(t, second.Pending.Open)
		r.stop()

		r.first = nil
		roomFor(2, 0)(r)
		r.o.Runners["fake"] = unstarted{r.fake}
		r.start()
		a := r.created(second, 0)
		assert.False(t, r.run(second.ID).Pod.Queued)
		assert.Equal(t, jobs.Pods{Max: 2, Living: 2}, r.pods())
		assert.Equal(t, "the pod did not start within 5m0s", r.ended(second).Error)
		require.NoError(t, r.fake.Gone(t.Context(), a))
		r.ended(first)
		assert.Equal(t, jobs.Pods{Max: 2}, r.pods())
	})
}

// queued counts the runs that were told that they wait for room.
func (r *rig) queued() (n int) {
	require.NoError(r.t, r.store.View(context.Background(), func(tx store.ReadTx) error {
		entries, err := tx.Scan(core.KindOrchestrator, core.TermAll, store.Cursor{}, false, 100)
		if err != nil {
			return err
		}
		for _, c := range entries {
			rec, err := tx.Get(core.KindOrchestrator, c.ID)
			if err != nil {
				return err
			}
			var o core.Orchestrator
			if err := json.Unmarshal(rec.State, &o); err != nil {
				return err
			}
			if o.Pod.Queued {
				n++
			}
		}
		return nil
	}))
	return n
}

// unstarted is a runner that says nothing of a pod before it runs.
type unstarted struct{ *runnertest.Fake }

func (u unstarted) Watch(ctx context.Context, sink jobs.Sink) error {
	return u.Fake.Watch(ctx, startedOnly{sink})
}

type startedOnly struct{ jobs.Sink }

func (s startedOnly) Observe(ctx context.Context, o jobs.Observation) {
	if o.Phase != jobs.PhaseCreated {
		s.Sink.Observe(ctx, o)
	}
}
