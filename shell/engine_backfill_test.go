package shell_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
)

// pausedOnce makes a recurring action of every minute, which dispatches three times, is paused for
// ten minutes, and dispatches twice more.
func pausedOnce(t *testing.T, e *shell.Engine) core.RecurringAction {
	t.Helper()
	r, err := e.Recurring().Create(bg(), everyMinute())
	require.NoError(t, err)
	elapse(3*time.Minute + 10*time.Second)
	_, err = e.Recurring().Pause(bg(), r.ID, "the disk is full")
	require.NoError(t, err)
	elapse(10 * time.Minute)
	_, err = e.Recurring().Resume(bg(), r.ID)
	require.NoError(t, err)
	elapse(2 * time.Minute)
	r, err = e.Recurring().Get(bg(), r.ID)
	require.NoError(t, err)
	return r
}

func TestABackfillDispatchesTheTimesOfItsRangeThatWereNotDispatchedWhenTheyWereDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := running(t, shell.Options{Store: inMemory(t), Tools: tools(&counting{})})
		r := pausedOnce(t, e)
		first := r.CreatedAt.Add(time.Minute) // midnight, and each minute after it

		plan, err := e.Backfills().Plan(bg(), shell.BackfillRequest{Recurring: r.ID, From: r.CreatedAt.Add(-2 * time.Minute)})
		require.NoError(t, err)
		want := []effects.Time{first.Add(-3 * time.Minute), first.Add(-2 * time.Minute), first.Add(-time.Minute)} // from before it was made
		for i := range 10 {
			want = append(want, first.Add(time.Duration(3+i)*time.Minute))
		}
		assert.Equal(t, want, plan.Times)
		assert.EqualValues(t, 5, plan.AlreadyDispatched)
		assert.Zero(t, plan.Forgotten)
		assert.Zero(t, plan.ID, "nothing was started")
		assert.Equal(t, core.BackfillSpec{
			Namespace: "notifications", Tenant: "tenant-1", Schedule: r.Ref(), Name: "send_digest", From: r.CreatedAt.Add(-2 * time.Minute),
			To: effects.TimeOf(time.Now()), Times: plan.Times, AlreadyDispatched: 5, MaxActive: 1, By: "embedder",
		}, plan)

		half, err := e.Backfills().Plan(bg(), shell.BackfillRequest{Recurring: r.ID, From: first.Add(3 * time.Minute), To: first.Add(5 * time.Minute)})
		require.NoError(t, err)
		assert.Equal(t, want[3:5], half.Times, "the time at From is in the range, that at To is not")
	})
}

func TestABackfillTellsWhatBecameOfEachOfItsTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := running(t, shell.Options{Store: inMemory(t), Tools: tools(&counting{})})
		r := pausedOnce(t, e)
		made, err := e.Backfills().Create(bg(), shell.BackfillRequest{Recurring: r.ID, From: r.CreatedAt, MaxActive: 3, Reason: "disk"})
		require.NoError(t, err)
		require.NotEmpty(t, made.Times)
		ended, err := e.Backfills().Wait(bg(), made.ID)
		require.NoError(t, err)
		assert.Equal(t, core.BackfillCompleted, ended.Status)
		n := ended.Counts
		assert.EqualValues(t, len(made.Times), n.Succeeded+n.Failed+n.Cancelled+n.Refused)
		assert.Empty(t, ended.Active)
	})
}

func TestTwoBackfillsOfOneRangeAtOnceDispatchEachTimeOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := running(t, shell.Options{Store: inMemory(t), Tools: tools(&counting{})})
		r := pausedOnce(t, e)
		request := shell.BackfillRequest{Recurring: r.ID, From: r.CreatedAt, MaxActive: 3}
		ids := make(chan uuid.UUID, 2)
		for range 2 {
			go func() {
				made, err := e.Backfills().Create(bg(), request)
				assert.NoError(t, err)
				ids <- made.ID
			}()
		}
		dispatched := uint64(0)
		for range 2 {
			ended, err := e.Backfills().Wait(bg(), <-ids)
			require.NoError(t, err)
			assert.Equal(t, core.BackfillCompleted, ended.Status)
			dispatched += ended.Dispatched()
		}
		history, _, err := e.Recurring().History(bg(), r.ID, shell.Page{Limit: shell.MaxPage})
		require.NoError(t, err)
		at, backfilled := map[effects.Time]int{}, uint64(0)
		for _, o := range history {
			if o.Verdict == core.VerdictDispatched {
				at[o.DueAt]++
				assert.Equal(t, 1, at[o.DueAt], "%s", o.DueAt)
			}
			if o.Verdict == core.VerdictDispatched && o.Backfill != uuid.Nil {
				backfilled++
			}
		}
		assert.Equal(t, dispatched, backfilled)
	})
}

func TestABackfillOfAScheduleThatIsGoneEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := running(t, shell.Options{Store: inMemory(t), Tools: tools(&counting{})})
		r := pausedOnce(t, e)
		made, err := e.Backfills().Create(bg(), shell.BackfillRequest{Recurring: r.ID, From: r.CreatedAt, Spacing: time.Hour})
		require.NoError(t, err)
		require.NoError(t, e.Recurring().Delete(bg(), r.ID))
		ended, err := e.Backfills().Wait(bg(), made.ID)
		require.NoError(t, err)
		assert.Equal(t, core.BackfillCompleted, ended.Status)
		assert.NotZero(t, ended.Counts.Refused)
	})
}

func TestABackfillLeavesOutTimesOfWhichTheLedgerDoesNotKnowAnyMoreWhetherTheyWereDispatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := running(t, shell.Options{Store: inMemory(t), Tools: tools(&counting{}), HistoryRetention: time.Hour})
		spec := everyMinute()
		r, err := e.Recurring().Create(bg(), spec)
		require.NoError(t, err)
		elapse(5 * time.Hour)

		request := shell.BackfillRequest{Recurring: r.ID, From: r.CreatedAt.Add(-time.Minute)}
		plan, err := e.Backfills().Plan(bg(), request)
		require.NoError(t, err)
		assert.Len(t, plan.Times, 1, "the time before the schedule was made was certainly not dispatched")
		assert.Greater(t, plan.Forgotten, uint64(200))
		assert.EqualValues(t, 300, plan.Forgotten+plan.AlreadyDispatched)

		request.Forgotten = true
		plan, err = e.Backfills().Plan(bg(), request)
		require.NoError(t, err)
		assert.Zero(t, plan.Forgotten)
		assert.EqualValues(t, 301, uint64(len(plan.Times))+plan.AlreadyDispatched)
	})
}

func TestABackfillThatAsksForTooMuchIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := running(t, shell.Options{Store: inMemory(t), Tools: tools(&counting{})})
		r := pausedOnce(t, e)
		from := r.CreatedAt
		now := effects.TimeOf(time.Now())
		for _, tc := range []struct {
			request shell.BackfillRequest
			want    string
		}{
			{shell.BackfillRequest{From: from, Limit: 9}, "limit: 11 times of the range are to be dispatched, more than 9: make the range shorter"},
			{shell.BackfillRequest{From: from.Add(-24 * time.Hour)}, "limit: 1451 times of the range are to be dispatched, more than 1000: make the range shorter"},
			{shell.BackfillRequest{From: from.Add(-365 * 24 * time.Hour)}, "from, to: the schedule has more than 50000 times in the range: make it shorter"},
			{shell.BackfillRequest{}, `from: missing: give a time in RFC 3339, such as "2026-02-10T14:00:00Z"`},
			{shell.BackfillRequest{From: from, To: from}, "to: " + from.String() + " is not after from, " + from.String()},
			{shell.BackfillRequest{From: now.Add(time.Hour), To: now.Add(2 * time.Hour)}, "from: " + now.Add(time.Hour).String() + " is not past: the schedule has decided about the times before " + now.String()},
			{shell.BackfillRequest{From: now.Add(time.Hour)}, "from: " + now.Add(time.Hour).String() + " is not in the past; it is " + now.String()},
			{shell.BackfillRequest{From: from, MaxActive: 51}, "max_active: 51 is not between 1 and 50"},
			{shell.BackfillRequest{From: from, Spacing: time.Millisecond}, "spacing: 1ms is not a whole number of seconds"},
			{shell.BackfillRequest{From: from, Spacing: 25 * time.Hour}, "spacing_seconds: 90000 is not between 0 and 86400"},
		} {
			tc.request.Recurring = r.ID
			_, err := e.Backfills().Create(bg(), tc.request)
			var refused *shell.Refusal
			require.ErrorAs(t, err, &refused)
			assert.Equal(t, tc.want, refused.Reason)
		}
		_, err := e.Backfills().Create(bg(), shell.BackfillRequest{Recurring: uuid.New(), From: from})
		assert.ErrorIs(t, err, shell.ErrNotFound)
		_, err = e.Backfills().Create(bg(), shell.BackfillRequest{Job: "none", From: from})
		assert.ErrorIs(t, err, shell.ErrNotFound)
		list, _, err := e.Backfills().List(bg(), shell.BackfillFilter{}, shell.Page{})
		require.NoError(t, err)
		assert.Empty(t, list)
	})
}

// The entries of a backfill have late numbers and stand at early times: they are not missing in the
// history because they are further down than the range of the next backfill.
func TestABackfillTakesNoEntriesForForgottenThatStandAtEarlierTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := running(t, shell.Options{Store: inMemory(t), Tools: tools(&counting{})})
		spec := everyMinute()
		r, err := e.Recurring().Create(bg(), spec)
		require.NoError(t, err)
		elapse((shell.MaxPage + 100) * time.Minute)
		made, err := e.Backfills().Create(bg(), shell.BackfillRequest{Recurring: r.ID, From: r.CreatedAt.Add(-5 * time.Minute), To: r.CreatedAt, MaxActive: 5})
		require.NoError(t, err)
		require.Len(t, made.Times, 5)
		_, err = e.Backfills().Wait(bg(), made.ID)
		require.NoError(t, err)
		from := effects.TimeOf(time.Now())
		_, err = e.Recurring().Pause(bg(), r.ID, "the disk is full")
		require.NoError(t, err)
		elapse(3 * time.Minute)
		_, err = e.Recurring().Resume(bg(), r.ID)
		require.NoError(t, err)
		elapse(2 * time.Minute)
		plan, err := e.Backfills().Plan(bg(), shell.BackfillRequest{Recurring: r.ID, From: from})
		require.NoError(t, err)
		assert.Len(t, plan.Times, 3)
		assert.Zero(t, plan.Forgotten)
	})
}
