package shell_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
)

// historyOf gives all entries of a schedule, newest first.
func historyOf(t testing.TB, e *shell.Engine, schedule uuid.UUID) (all []core.Occurrence) {
	t.Helper()
	for token := ""; ; {
		list, next, err := e.Occurrences().List(bg(), shell.OccurrenceFilter{ScheduleID: schedule}, shell.Page{Limit: shell.MaxPage, Token: token})
		require.NoError(t, err)
		if all = append(all, list...); next == "" {
			return all
		}
		token = next
	}
}

func periodic(every time.Duration) core.ActionSpec {
	return core.ActionSpec{ToolName: "count", Namespace: "ns", Tenant: "t", Label: "nightly", Trigger: at(every), Recurrence: core.Every(every)}
}

func TestAMonthlyScheduleHasAHistoryAfterAYearAndNoneAWeekAfterItsEnd(t *testing.T) {
	const month = 30 * 24 * time.Hour
	synctest.Test(t, func(t *testing.T) {
		e := running(t, shell.Options{Store: inMemory(t), Tools: tools(&counting{}), TickRate: 24 * time.Hour, LeaseTTL: 72 * time.Hour})
		a, err := e.Actions().Create(bg(), periodic(month))
		require.NoError(t, err)
		elapse(12*month + time.Hour)
		got := historyOf(t, e, a.ID)
		require.Len(t, got, 12)
		for _, o := range got {
			assert.Equal(t, []any{core.VerdictDispatched, "completed", core.KindAction, "ns", "t", "nightly"}, []any{o.Verdict, o.Outcome, o.Schedule, o.Namespace, o.Tenant, o.Name})
		}
		_, err = e.Actions().Cancel(bg(), a.ID, "enough")
		require.NoError(t, err)
		elapse(6 * 24 * time.Hour)
		list := historyOf(t, e, a.ID)
		require.NotEmpty(t, list)
		assert.Equal(t, []any{core.VerdictCancelled, "the action was cancelled: enough"}, []any{list[0].Verdict, list[0].Reason}, "its next time")
		elapse(3 * 24 * time.Hour)
		assert.Empty(t, historyOf(t, e, a.ID))
	})
}

func TestTheTimesThatAPeriodicActionMissesHaveTheOutageAsTheirReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := inMemory(t)
		o := shell.Options{Store: st, Tools: tools(&counting{})}
		e, stop := start(t, o)
		a, err := e.Actions().Create(bg(), periodic(time.Minute))
		require.NoError(t, err)
		elapse(90 * time.Second)
		require.NoError(t, stop())
		elapse(10 * time.Minute)
		e = running(t, o)
		elapse(time.Second)
		got := historyOf(t, e, a.ID)
		require.Len(t, got, 3)
		late, missed := got[1], got[0]
		if missed.Verdict == core.VerdictDispatched {
			late, missed = missed, late
		}
		assert.Equal(t, core.VerdictDispatched, late.Verdict, "the first of the times that passed")
		assert.Equal(t, core.VerdictMissed, missed.Verdict)
		assert.EqualValues(t, 9, missed.Count)
		assert.Equal(t, late.DueAt.Add(time.Minute), missed.DueAt)
		assert.Contains(t, missed.Reason, "the daemon was stopped from ")
		assert.Contains(t, missed.Reason, "; of the times that passed before it could begin, an action runs for the first")
		counts := e.OccurrenceStats()
		assert.EqualValues(t, 9, counts.Total[shell.OccurrenceKey{Schedule: core.KindAction, Verdict: core.VerdictMissed}], "each time counts")
		assert.EqualValues(t, 9, counts.ByTenant[shell.Scope{Namespace: "ns", Tenant: "t"}][core.VerdictMissed])
	})
}

func TestTheTimesThatALongCyclePassesAreSkippedForOverlap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := shell.ToolFunc(func(context.Context, shell.Call) (json.RawMessage, error) {
			<-time.After(150 * time.Second)
			return nil, nil
		})
		e := running(t, shell.Options{Store: inMemory(t), Tools: tools(slow)})
		a, err := e.Actions().Create(bg(), periodic(time.Minute))
		require.NoError(t, err)
		elapse(time.Minute + 151*time.Second)
		got := historyOf(t, e, a.ID)
		require.Len(t, got, 2)
		assert.Equal(t, []any{core.VerdictSkipped, uint64(2), "overlap: the cycle before had not ended"}, []any{got[0].Verdict, got[0].Count, got[0].Reason})
		assert.Equal(t, []any{core.VerdictDispatched, "completed"}, []any{got[1].Verdict, got[1].Outcome})
		a = actionOf(t, e, a.ID)
		assert.Equal(t, got[0].LastDueAt.Add(time.Minute), a.Trigger.NextTickAt, "it goes on with the next time")
		elapse(100 * time.Hour)
	})
}

func TestOfATenantWithTooManyEntriesTheOldestGoBeforeTheirTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logLines
		e := running(t, shell.Options{
			Store: inMemory(t), Tools: tools(&counting{}), OccurrencesPerTenant: 80, MaxBatch: 16, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		})
		a, err := e.Actions().Create(bg(), periodic(time.Minute))
		require.NoError(t, err)
		other := periodic(time.Minute)
		other.Tenant = "other"
		b, err := e.Actions().Create(bg(), other)
		require.NoError(t, err)
		elapse(70 * time.Minute)
		assert.Len(t, historyOf(t, e, a.ID), 70, "each tenant has its own bound")
		assert.Len(t, historyOf(t, e, b.ID), 70)
		stats, err := e.Stats(bg())
		require.NoError(t, err)
		assert.Zero(t, stats.ExpiredEarly)
		_, err = e.Actions().Cancel(bg(), b.ID, "enough")
		require.NoError(t, err)
		elapse(200 * time.Minute)
		left := historyOf(t, e, a.ID)
		assert.InDelta(t, 80, len(left), 2)
		for i := range left[1:] {
			require.Equal(t, time.Minute, left[i].DueAt.Sub(left[i+1].DueAt), "the oldest have gone, and none between others")
		}
		assert.Len(t, historyOf(t, e, b.ID), 71, "those of the other tenant have their time")
		stats, err = e.Stats(bg())
		require.NoError(t, err)
		assert.InDelta(t, 190, stats.ExpiredEarly, 3)
		require.NotEmpty(t, log.with("retention.tenant_full"))
		assert.Contains(t, log.with("retention.tenant_full")[0], "tenant=t ")
	})
}
