package jobs_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/shell/jobs"
	"github.com/orrery-go/orrery/shell/jobs/runnertest"
	"github.com/orrery-go/orrery/store/memory"
)

func TestWhatIsLeftOfADatabaseIsEndedByWhoIsNotItsOwnerAnyMore(t *testing.T) {
	withRig(t, nil, func(t *testing.T, r *rig) {
		o := r.trigger(job("nightly"))
		r.fake.Start(r.created(o, 0))
		r.stop()
		defer r.start()

		ended, err := jobs.EndLeft(t.Context(), r.fake, r.store)
		require.NoError(t, err)
		assert.Equal(t, []jobs.Attempt{{Run: o.ID}}, ended)
		assert.Empty(t, r.fake.Attempts())
		ended, err = jobs.EndLeft(t.Context(), r.fake, r.store)
		require.NoError(t, err)
		assert.Empty(t, ended)
	})
}

func TestEndingWhatIsLeftGoesOnAfterAnErrorAndSaysIt(t *testing.T) {
	withRig(t, nil, func(t *testing.T, r *rig) {
		one, two := r.trigger(job("one")), r.trigger(job("two"))
		r.fake.Start(r.created(one, 0))
		r.fake.Start(r.created(two, 0))
		r.stop()
		defer r.start()
		r.fake.OnDelete = func(_ context.Context, a jobs.Attempt) error {
			if a.Run == one.ID {
				return errors.New("it does not end")
			}
			return nil
		}
		defer func() { r.fake.OnDelete = nil }()
		ended, err := jobs.EndLeft(t.Context(), r.fake, r.store)
		require.ErrorContains(t, err, "delete "+jobs.Attempt{Run: one.ID}.Name()+": it does not end")
		assert.Equal(t, []jobs.Attempt{{Run: two.ID}}, ended)
	})
}

func TestADatabaseWithoutAnIdentityHasLeftNothing(t *testing.T) {
	st, fake := memory.New(), &runnertest.Fake{}
	defer func() { require.NoError(t, st.Close()) }()
	fake.Plant(jobs.Attempt{Run: uuid.Max})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ended, err := jobs.EndLeft(ctx, fake, st)
	require.NoError(t, err)
	assert.Empty(t, ended)
	assert.Len(t, fake.Attempts(), 1)
}
