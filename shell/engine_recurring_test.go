package shell_test

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
)

func everyMinute() core.RecurringSpec {
	return core.RecurringSpec{
		Namespace: "notifications", Tenant: "tenant-1",
		CronExpr: "* * * * *", Timezone: "UTC", Enabled: true,
		ActionTemplate: core.RecurringActionTemplate{
			Provider: "count", ActionType: "send_digest", Payload: json.RawMessage(`{"to":"team@example.com"}`),
			Metadata: map[string]string{"team": "a"},
		},
	}
}

// C3.
func TestARecurringActionDispatchesAConcreteActionAtEachOfItsTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counting{}
		e := running(t, shell.Options{Store: inMemory(t), Tools: tools(c)})
		r, err := e.Recurring().Create(bg(), everyMinute())
		require.NoError(t, err)
		elapse(3*time.Minute + time.Second)

		got, err := e.Recurring().Get(bg(), r.ID)
		require.NoError(t, err)
		assert.EqualValues(t, 3, got.ExecutionCount)
		assert.Zero(t, got.MissedCount)
		assert.Equal(t, r.NextExecutionAt.Add(3*time.Minute), got.NextExecutionAt)
		assert.Equal(t, r.NextExecutionAt.Add(2*time.Minute), got.LastExecutedAt)
		for i, at := range c.times() {
			assert.Equal(t, r.NextExecutionAt.Add(time.Duration(i)*time.Minute), effects.TimeOf(at))
		}

		actions, _, err := e.Actions().List(bg(), shell.ActionFilter{Scope: &shell.Scope{Namespace: "notifications", Tenant: "tenant-1"}}, shell.Page{})
		require.NoError(t, err)
		require.Len(t, actions, 3)
		a := actions[0]
		assert.Equal(t, core.StatusCompleted, a.Status.Type)
		assert.Equal(t, "send_digest", a.ActionType)
		assert.JSONEq(t, `{"to":"team@example.com"}`, string(a.ToolInput))
		assert.Equal(t, map[string]string{"team": "a", "_recurring_dispatch": "true", "_recurring_id": r.ID.String()}, a.Metadata)

		history, _, err := e.Recurring().History(bg(), r.ID, shell.Page{})
		require.NoError(t, err)
		require.Len(t, history, 3)
		assert.Equal(t, actions[0].ID, history[0].ActionID, "newest first")
		for _, o := range history {
			assert.Equal(t, core.VerdictDispatched, o.Verdict)
			assert.Equal(t, "completed", o.Outcome)
			assert.False(t, o.FinishedAt.IsZero())
		}
	})
}

// C5.
func TestAfterAnOutageOnlyTheNextFutureOccurrenceIsScheduledAndWhatWasMissedIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counting{}
		o := shell.Options{Store: inMemory(t), Tools: tools(c)}
		e, stop := start(t, o)
		spec := everyMinute()
		spec.CronExpr = "0 * * * *" // hourly
		r, err := e.Recurring().Create(bg(), spec)
		require.NoError(t, err)
		require.NoError(t, stop())

		elapse(10*time.Hour + 30*time.Minute)
		e = running(t, o)
		synctest.Wait()

		got, err := e.Recurring().Get(bg(), r.ID)
		require.NoError(t, err)
		assert.Zero(t, c.n.Load(), "nothing is caught up")
		assert.EqualValues(t, 10, got.MissedCount)
		assert.True(t, got.NextExecutionAt.After(effects.TimeOf(time.Now())))
		once := onlyOccurrence(t, e, r.ID)
		assert.Equal(t, core.VerdictMissed, once.Verdict)
		assert.EqualValues(t, 10, once.Count)

		elapse(time.Hour)
		assert.EqualValues(t, 1, c.n.Load(), "and it goes on")
	})
}

// R18.
func TestAnEditAPauseAndAResumeNeverMakeAPastInstantDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counting{}
		e := running(t, shell.Options{Store: inMemory(t), Tools: tools(c)})
		spec := everyMinute()
		spec.CronExpr = "0 0 1 1 *"
		r, err := e.Recurring().Create(bg(), spec)
		require.NoError(t, err)
		elapse(90 * time.Minute)

		hourly := "0 * * * *"
		r, err = e.Recurring().Update(bg(), r.ID, core.RecurringPatch{CronExpr: &hourly})
		require.NoError(t, err)
		assert.True(t, r.NextExecutionAt.After(effects.TimeOf(time.Now())))

		r, err = e.Recurring().Pause(shell.WithActor(bg(), "ann"), r.ID, "holiday")
		require.NoError(t, err)
		assert.False(t, r.Enabled)
		assert.Zero(t, r.NextExecutionAt)
		assert.Equal(t, "paused by ann: holiday", r.DisabledReason)
		elapse(5 * time.Hour)
		r, err = e.Recurring().Resume(bg(), r.ID)
		require.NoError(t, err)
		assert.True(t, r.NextExecutionAt.After(effects.TimeOf(time.Now())))
		synctest.Wait()
		assert.Zero(t, c.n.Load())
	})
}

// C6.
func TestARecurringActionIsDisabledWhenItsEndIsReached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counting{}
		e := running(t, shell.Options{Store: inMemory(t), Tools: tools(c)})
		spec := everyMinute()
		spec.EndsAt = effects.TimeOf(time.Now().Add(150 * time.Second))
		r, err := e.Recurring().Create(bg(), spec)
		require.NoError(t, err)
		elapse(time.Hour)
		got, err := e.Recurring().Get(bg(), r.ID)
		require.NoError(t, err)
		assert.EqualValues(t, 2, c.n.Load())
		assert.False(t, got.Enabled)
		assert.Contains(t, got.DisabledReason, "ends_at")
		assert.Equal(t, spec.EndsAt, got.UpdatedAt, "at its end, not at the time after it")
		s, err := e.Stats(bg())
		require.NoError(t, err)
		assert.Zero(t, s.RecurringActive)
	})
}

// C4.
func TestAnOccurrenceWhoseDedupKeyIsLiveIsNotDispatchedTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := newGate()
		e := running(t, shell.Options{Store: inMemory(t), Tools: tools(gate)})
		spec := everyMinute()
		spec.ActionTemplate.DedupKey = "digest-{{recurring_id}}"
		r, err := e.Recurring().Create(bg(), spec)
		require.NoError(t, err)
		elapse(3*time.Minute + time.Second)
		got, err := e.Recurring().Get(bg(), r.ID)
		require.NoError(t, err)
		assert.EqualValues(t, 1, got.ExecutionCount)
		assert.EqualValues(t, 2, got.DeduplicatedCount)
		history, _, err := e.Recurring().History(bg(), r.ID, shell.Page{})
		require.NoError(t, err)
		require.Len(t, history, 3)
		assert.Equal(t, core.VerdictDeduplicated, history[0].Verdict)
		assert.Equal(t, core.VerdictDispatched, history[2].Verdict)
		gate.open()
		elapse(time.Minute)
		got, err = e.Recurring().Get(bg(), r.ID)
		require.NoError(t, err)
		assert.EqualValues(t, 2, got.ExecutionCount, "the key is free again")
	})
}

func TestDisabledRecurringActionsStayWhereTheyAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counting{}
		e := running(t, shell.Options{Store: inMemory(t), Tools: tools(c), DisableRecurring: true})
		_, err := e.Recurring().Create(bg(), everyMinute())
		require.NoError(t, err)
		a, err := e.Actions().Create(bg(), core.ActionSpec{ToolName: "count", Trigger: at(90 * time.Second)})
		require.NoError(t, err)
		_, err = e.Actions().Wait(bg(), a.ID)
		require.NoError(t, err)
		assert.EqualValues(t, 1, c.n.Load(), "only the action")
	})
}

func TestWithAStrictTickRecurringActionsAreCheckedAtTheirOwnInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counting{}
		e := running(t, shell.Options{Store: inMemory(t), Tools: tools(c), StrictTick: true, TickRate: time.Hour, RecurringCheckInterval: 5 * time.Second})
		spec := everyMinute()
		spec.CronExpr = "2 * * * * *"
		_, err := e.Recurring().Create(bg(), spec)
		require.NoError(t, err)
		elapse(59 * time.Second)
		require.Len(t, c.times(), 1)
		assert.Equal(t, 5, c.times()[0].Second())
	})
}

func TestDeletingARecurringActionLeavesItsHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counting{}
		e := running(t, shell.Options{Store: inMemory(t), Tools: tools(c)})
		r, err := e.Recurring().Create(bg(), everyMinute())
		require.NoError(t, err)
		_, err = e.Recurring().Trigger(bg(), r.ID)
		require.NoError(t, err)
		require.NoError(t, e.Recurring().Delete(bg(), r.ID))
		elapse(time.Hour)
		assert.EqualValues(t, 1, c.n.Load())
		_, err = e.Recurring().Get(bg(), r.ID)
		require.ErrorIs(t, err, shell.ErrNotFound)
		require.ErrorIs(t, e.Recurring().Delete(bg(), r.ID), shell.ErrNotFound)
		once := onlyOccurrence(t, e, r.ID)
		assert.True(t, once.Manual)
	})
}

// C12.
func TestTheRetentionOfHistoryCountsFromTheEndOfItsAction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := shell.ToolFunc(func(context.Context, shell.Call) (json.RawMessage, error) {
			elapse(30 * time.Hour)
			return nil, nil
		})
		e := running(t, shell.Options{Store: inMemory(t), Tools: tools(slow), TickRate: time.Hour, HistoryRetention: 24 * time.Hour})
		spec := everyMinute()
		spec.Enabled = false
		r, err := e.Recurring().Create(bg(), spec)
		require.NoError(t, err)
		_, err = e.Recurring().Trigger(bg(), r.ID)
		require.NoError(t, err)
		history := func() []core.Occurrence {
			h, _, err := e.Recurring().History(bg(), r.ID, shell.Page{})
			require.NoError(t, err)
			return h
		}
		elapse(40 * time.Hour)
		require.Len(t, history(), 1)
		assert.Equal(t, "completed", history()[0].Outcome)
		elapse(16 * time.Hour)
		assert.Len(t, history(), 1, "of a schedule that is there the latest are kept")
		require.NoError(t, e.Recurring().Delete(bg(), r.ID))
		elapse(2 * time.Hour)
		require.Len(t, history(), 1, "the times that passed while it was disabled are decided by its deletion")
		assert.Equal(t, core.VerdictSkipped, history()[0].Verdict)
		elapse(24 * time.Hour)
		assert.Empty(t, history())
	})
}

func TestHistoryAndFinishedActionsAreForgottenAfterTheirRetention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counting{}
		o := shell.Options{Store: inMemory(t), Tools: tools(c), TickRate: time.Hour, HistoryRetention: 48 * time.Hour, ActionRetention: 24 * time.Hour}
		e := running(t, o)
		r, err := e.Recurring().Create(bg(), everyMinute())
		require.NoError(t, err)
		_, err = e.Recurring().Trigger(bg(), r.ID)
		require.NoError(t, err)
		_, err = e.Recurring().Pause(bg(), r.ID, "")
		require.NoError(t, err)
		counts := func() (actions, history int) {
			synctest.Wait()
			a, _, err := e.Actions().List(bg(), shell.ActionFilter{}, shell.Page{})
			require.NoError(t, err)
			h, _, err := e.Recurring().History(bg(), r.ID, shell.Page{})
			require.NoError(t, err)
			return len(a), len(h)
		}
		elapse(22 * time.Hour)
		a, h := counts()
		assert.Equal(t, [2]int{1, 1}, [2]int{a, h})
		elapse(4 * time.Hour)
		a, h = counts()
		assert.Equal(t, [2]int{0, 1}, [2]int{a, h})
		elapse(24 * time.Hour)
		a, h = counts()
		assert.Equal(t, [2]int{0, 1}, [2]int{a, h}, "of a schedule that is there the latest are kept")
		require.NoError(t, e.Recurring().Delete(bg(), r.ID))
		elapse(50 * time.Hour)
		_, h = counts()
		assert.Zero(t, h)
	})
}
