//go:build unix

package crashtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/effects/seedtest"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/store/bolt"
)

// The times that are backfilled: those of each hour, long before their schedules were made.
const (
	filledTimes = 120
	hour        = core.Time(3600 * 1000)
)

var filledFrom = effects.TimeOf(time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)) // read-only

// filled are the schedules that are backfilled, waiting those whose times wait for one another: each
// time takes longer than it is to the next.
func filled() []core.RecurringSpec {
	return []core.RecurringSpec{
		crashed(1, "0 * * * *", work{BeforeMS: 5}, core.InterruptFail, ""),
		crashed(2, "0 * * * *", work{AfterMS: 5}, core.InterruptRetry, core.OverlapSkip),
	}
}

func waiting() []core.RecurringSpec {
	return []core.RecurringSpec{
		crashed(3, "* * * * * *", work{AfterMS: 1500}, core.InterruptRetry, core.OverlapBufferAll),
		crashed(4, "* * * * * *", work{AfterMS: 1500}, core.InterruptFail, core.OverlapCancelOther),
	}
}

func crashed(n byte, cron string, w work, interrupted core.OnInterrupt, overlap core.OverlapPolicy) core.RecurringSpec {
	payload, _ := json.Marshal(w) // it always encodes
	return core.RecurringSpec{
		ID: id(n), Namespace: scopeName, Tenant: scopeName, CronExpr: cron, Enabled: true, Overlap: overlap,
		ActionTemplate:  core.RecurringActionTemplate{Provider: toolName, ActionType: "each", Payload: payload},
		Policy:          core.RunPolicy{OnInterrupt: interrupted, MaxAttempts: 50},
		ScheduleOptions: core.ScheduleOptions{BufferLimit: 3},
	}
}

// backfillsChild makes the schedules that are not there, and asks for backfills of ranges that overlap
// until it is killed. Some it cancels.
func backfillsChild(ctx context.Context, e *shell.Engine, rng *rand.Rand) error {
	book := &pipeBook{w: os.Stdout}
	for _, spec := range append(filled(), waiting()...) {
		if _, err := e.Recurring().Create(ctx, spec); err != nil && !errors.Is((engineTarget{e}).fault(err), errExists) {
			return err
		}
	}
	for ctx.Err() == nil {
		first := rng.IntN(filledTimes)
		b, err := e.Backfills().Create(ctx, shell.BackfillRequest{
			Recurring: id(byte(1 + rng.IntN(2))), MaxActive: uint32(1 + rng.IntN(4)),
			From: filledFrom + core.Time(first)*hour, To: filledFrom + core.Time(min(first+1+rng.IntN(20), filledTimes))*hour,
		})
		if err == nil {
			book.write(note{Op: opBackfill, Phase: acked, ID: b.ID})
			if rng.IntN(5) == 0 {
				_, err = e.Backfills().Cancel(ctx, b.ID, "for a test")
			}
		}
		if err != nil && !errors.Is((engineTarget{e}).fault(err), errRefused) { // as many as may run do, or it has ended
			return err
		}
		idle(ctx, time.Duration(rng.IntN(20))*time.Millisecond)
	}
	return ctx.Err()
}

func TestBackfillsAndTimesThatWaitOutliveTheEnginesThatAreKilled(t *testing.T) {
	t.Parallel()
	s, n := seedtest.Seed(t), kills(t, 12, 200, 1)
	const perRound = 25
	for round := 0; n > 0; round++ {
		dir, l := workDir(t), newLedger()
		rng := rand.New(rand.NewPCG(s, uint64(round)))
		for life := range min(n, perRound) {
			v := variant{MaxBatch: 1 + rng.IntN(64)}
			liveAndDie(t, childConfig{Dir: dir, Seed: rng.Uint64(), Backfills: true, variant: v}, rng, l)
			if t.Failed() {
				t.Fatalf("in life %d of round %d", life, round)
			}
		}
		finishBackfills(t, dir, l)
		if t.Failed() {
			return
		}
		n -= perRound
	}
}

// finishBackfills lets an engine go on that nobody kills, has all that is left of the times
// dispatched, and looks at what came of them.
func finishBackfills(t *testing.T, dir string, l *ledger) {
	t.Helper()
	st, f, done := reopened(t, dir, bolt.Options{})
	defer done()
	e, err := shell.New(engineOptions(st, f, variant{MaxBatch: 64}))
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	for _, spec := range append(filled(), waiting()...) { // the first engines may have been killed before
		if _, err := e.Recurring().Create(ctx, spec); err != nil {
			require.ErrorIs(t, engineTarget{e}.fault(err), errExists)
		}
	}
	for _, spec := range filled() {
		all := shell.BackfillRequest{Recurring: spec.ID, From: filledFrom, To: filledFrom + filledTimes*hour, MaxActive: 4}
		await(t, 2*time.Minute, func() error { return backfilled(ctx, e, spec.ID) })
		_, err := e.Backfills().Create(ctx, all)
		require.NoError(t, err)
		await(t, 2*time.Minute, func() error { return backfilled(ctx, e, spec.ID) })
		plan, err := e.Backfills().Plan(ctx, all)
		require.NoError(t, err)
		assert.Empty(t, plan.Times, "nothing is left to be dispatched")
		assert.EqualValues(t, filledTimes, plan.AlreadyDispatched)
	}
	for _, spec := range append(filled(), waiting()...) {
		_, err := e.Recurring().Pause(ctx, spec.ID, "for a test")
		require.NoError(t, err)
	}
	assert.NoError(t, poll(2*time.Minute, func() error { return drained(ctx, e) })) // the checks say more
	stop()
	require.NoError(t, <-ended)
	snap, err := take(t.Context(), st)
	require.NoError(t, err)
	lines, err := readLines(filepath.Join(dir, effectsFile))
	require.NoError(t, err)
	refused := uint64(0)
	for _, b := range snap.backfills {
		refused += b.Counts.Refused
	}
	t.Logf("%d backfills, %d runs, %d times refused", len(snap.backfills), len(lines), refused)
	report(t, examineBackfills(snap, l, lines))
	sound(t, st)
	assert.NotEmpty(t, l.backfills, "no backfill was acknowledged: the test has tested nothing")
}

// backfilled waits for the end of the backfills of a schedule that run.
func backfilled(ctx context.Context, e *shell.Engine, schedule uuid.UUID) error {
	run, _, err := e.Backfills().List(ctx, shell.BackfillFilter{Status: core.BackfillRunning, Schedule: schedule}, shell.Page{})
	if err == nil && len(run) > 0 {
		err = fmt.Errorf("%w: %d backfills run, such as %s: %+v", errLater, len(run), run[0].ID, run[0])
	}
	return err
}

// examineBackfills: each time was dispatched once, and counted once; no backfill that was acknowledged
// is lost, nor does one wait for what has ended; each second has its verdict, and none waits any more.
func examineBackfills(s *snapshot, l *ledger, lines []line) []string {
	f := &findings{}
	checkEffects(f, s, lines)
	checkStuck(f, s)
	for id := range l.backfills {
		if _, there := s.backfills[id]; !there {
			f.add("backfill %s was acknowledged, and is lost", id)
		}
	}
	told := make(map[uuid.UUID]uint64)
	for id, b := range s.backfills {
		n := b.Counts.Succeeded + b.Counts.Failed + b.Counts.Cancelled
		told[b.Schedule.ID] += n
		if !b.Status.Ended() || len(b.Active) > 0 {
			f.add("backfill %s is %s, and waits for %+v", id, b.Status, b.Active)
		}
		if n += b.Counts.Refused; n != uint64(b.Next) || b.Status == core.BackfillCompleted && n != uint64(len(b.Times)) {
			f.add("backfill %s is %s after %d of its %d times, and counts %+v", id, b.Status, b.Next, len(b.Times), b.Counts)
		}
	}
	for _, spec := range filled() {
		times := make(map[core.Time]int)
		for _, o := range s.occurrences[spec.ID] {
			if o.Backfill != uuid.Nil && o.Verdict == core.VerdictDispatched {
				times[o.DueAt]++
			}
		}
		for n := range core.Time(filledTimes) {
			if at := filledFrom + n*hour; times[at] != 1 {
				f.add("recurring action %s was backfilled %d times at %s", spec.ID, times[at], at)
			}
		}
		if told[spec.ID] != filledTimes {
			f.add("the backfills of recurring action %s count %d times: there are %d", spec.ID, told[spec.ID], filledTimes)
		}
	}
	for _, spec := range waiting() {
		checkWaited(f, s, spec.ID)
	}
	return f.list
}

// checkWaited holds the history of a schedule whose times wait for one another against its counts.
func checkWaited(f *findings, s *snapshot, id uuid.UUID) {
	r, n := s.recurring[id], make(map[core.Verdict]uint64)
	for _, o := range s.occurrences[id] {
		n[o.Verdict] += o.Count
		if o.Verdict == core.VerdictDispatched && s.actions[o.ActionID].Occurrence != o.ID {
			f.add("occurrence %s was dispatched as action %s, which is of occurrence %s", o.ID, o.ActionID, s.actions[o.ActionID].Occurrence)
		}
	}
	checkTimes(f, id, s.occurrences[id], true)
	if len(r.Running)+len(r.Waiting) > 0 || n[core.VerdictWaiting] > 0 {
		f.add("recurring action %s waits for %+v, and %+v wait: %d entries say so", id, r.Running, r.Waiting, n[core.VerdictWaiting])
	}
	for verdict, counted := range map[core.Verdict]uint64{
		core.VerdictDispatched: r.ExecutionCount, core.VerdictMissed: r.MissedCount, core.VerdictSkipped: r.SkippedCount,
		core.VerdictCancelled: r.CancelledCount, core.VerdictExpired: r.ExpiredCount,
	} {
		if n[verdict] != counted {
			f.add("recurring action %s counts %d times that were %s: its history has %d", id, counted, verdict, n[verdict])
		}
	}
}
