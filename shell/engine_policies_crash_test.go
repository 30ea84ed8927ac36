package shell_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/memory"
)

// mortal is the store of a process that dies with its commit number last: that one and all
// behind it do not take place.
type mortal struct {
	store.Store
	left atomic.Int64
}

func (m *mortal) Update(ctx context.Context, fn func(store.Tx) error) error {
	if m.left.Add(-1) < 0 {
		return errors.New("the process is gone")
	}
	return m.Store.Update(ctx, fn)
}

// crossing counts the calls of a tool that are under way, each of which takes 25 seconds or ends
// with its context.
type crossing struct {
	mu        sync.Mutex
	now, most int
}

func (c *crossing) Run(ctx context.Context, _ shell.Call) (json.RawMessage, error) {
	c.mu.Lock()
	c.now++
	c.most = max(c.most, c.now)
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		c.now--
		c.mu.Unlock()
	}()
	select {
	case <-time.After(25 * time.Second):
		return nil, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Whichever commit a process dies at, and whatever a schedule says about overlap and missed times:
// after the restart each time that was due has one verdict, the counts are those of the
// ledger, no two dispatches overlap that must not, nothing waits for what is gone, and the journal
// replays.
func TestAScheduleLosesNoTimeWhereverItsProcessDies(t *testing.T) {
	step := 7
	if os.Getenv("ORRERY_SLOW") != "" {
		step = 1
	}
	for _, overlap := range []core.OverlapPolicy{
		core.OverlapAllow, core.OverlapSkip, core.OverlapBufferOne, core.OverlapBufferAll, core.OverlapCancelOther, core.OverlapTerminateOther,
	} {
		for _, missed := range []core.MissedPolicy{core.MissedSkip, core.MissedLatest, core.MissedAll} {
			t.Run(fmt.Sprintf("%s, %s", overlap, missed), func(t *testing.T) {
				for last := 2; diesAt(t, overlap, missed, last); last += step {
				}
			})
		}
	}
}

// diesAt has a process die at that commit, and another one go on. It reports whether the first
// one came as far.
func diesAt(t *testing.T, overlap core.OverlapPolicy, missed core.MissedPolicy, last int) (died bool) {
	synctest.Test(t, func(t *testing.T) {
		first := memory.NewSession("first")
		dying := &mortal{Store: first}
		dying.left.Store(int64(last))
		tool := &crossing{}
		o := shell.Options{
			Store: dying, Tools: tools(tool), TickRate: 5 * time.Second, RecoverAfter: 10 * time.Second, LeaseTTL: 10 * time.Second,
			StopTimeout: time.Nanosecond, AbandonAfter: time.Second,
		}
		e, stop := start(t, o)
		id, made := uuid.New(), effects.TimeOf(time.Now())
		spec := everyMinute()
		spec.ID, spec.CronExpr, spec.Overlap, spec.Missed = id, "*/10 * * * * *", overlap, missed
		spec.StartDeadlineSeconds, spec.CatchUpLimit, spec.BufferLimit = 5, 3, 4
		if _, err := e.Recurring().Create(bg(), spec); err != nil { // it died before
			_ = stop()
			died = true
			return
		}
		elapse(2 * time.Minute)
		died = dying.left.Load() < 0
		_ = stop()
		elapse(35 * time.Second)

		again := first.Reopen("second")
		o.Store, o.StopTimeout = again, time.Minute
		next := &crossing{}
		o.Tools = tools(next)
		e, stop = start(t, o)
		elapse(2 * time.Minute)
		_, err := e.Recurring().Pause(bg(), id, "enough")
		require.NoError(t, err)
		elapse(10 * time.Minute)
		r, err := e.Recurring().Get(bg(), id)
		require.NoError(t, err)
		assert.Empty(t, r.Running)
		assert.Empty(t, r.Waiting)
		if overlap != core.OverlapAllow && overlap != core.OverlapTerminateOther { // whose tools end a moment later
			assert.LessOrEqual(t, next.most, 1, "what must not overlap does not")
		}
		oneVerdictEach(t, e, r, made)
		require.NoError(t, stop())
		verify(t, again)
	})
	return died
}

// oneVerdictEach holds that each time of a schedule of every ten seconds has one verdict, from
// when it was made to the last that is decided, and that its counts are those of the ledger.
func oneVerdictEach(t *testing.T, e *shell.Engine, r core.RecurringAction, made core.Time) {
	t.Helper()
	const every = core.Time(10_000)
	history, more, err := e.Recurring().History(bg(), r.ID, shell.Page{Limit: shell.MaxPage})
	require.NoError(t, err)
	require.Empty(t, more)
	verdicts := map[core.Time]core.Verdict{}
	counts := map[core.Verdict]uint64{}
	for _, o := range history {
		assert.NotEqual(t, core.VerdictWaiting, o.Verdict)
		counts[o.Verdict] += o.Count
		assert.EqualValues(t, o.Count, (o.LastDueAt-o.DueAt)/every+1)
		for at := o.DueAt; at <= o.LastDueAt; at += every {
			assert.Empty(t, verdicts[at], "%s has two verdicts", at)
			verdicts[at] = o.Verdict
		}
	}
	for at := made - made%every + every; at <= r.LastDueAt; at += every {
		assert.NotEmpty(t, verdicts[at], "%s has no verdict", at)
	}
	assert.Equal(t, []uint64{r.ExecutionCount, r.MissedCount, r.SkippedCount, r.CancelledCount, r.ExpiredCount}, []uint64{
		counts[core.VerdictDispatched], counts[core.VerdictMissed], counts[core.VerdictSkipped], counts[core.VerdictCancelled], counts[core.VerdictExpired],
	})
}
