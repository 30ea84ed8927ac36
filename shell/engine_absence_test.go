package shell_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
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

// drowsy is a clock whose process or machine can be suspended, and whose wall clock can be set.
type drowsy struct {
	jumping
	frozen    atomic.Int64 // how long the process is stopped at the end of its next sleep
	suspended atomic.Int64 // how long the machine has slept in all
	cannot    bool         // tell that
}

func (d *drowsy) Suspended() time.Duration {
	if d.cannot {
		return -1
	}
	return time.Duration(d.suspended.Load())
}

// sleep suspends the machine: the steady clock stands still, and the wall clock goes on.
func (d *drowsy) sleep(length time.Duration) {
	d.jump(length)
	d.suspended.Add(int64(length))
}

func (d *drowsy) Timer(length time.Duration) (<-chan time.Time, func()) {
	return d.jumping.Timer(length + time.Duration(d.frozen.Swap(0)))
}

// logLines is a log that can be read while it is written.
type logLines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logLines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logLines) with(what string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []string
	for line := range strings.Lines(l.buf.String()) {
		if strings.Contains(line, what) {
			out = append(out, line)
		}
	}
	return out
}

func everySecond() core.RecurringSpec {
	spec := everyMinute()
	spec.CronExpr = "* * * * * *"
	return spec
}

// missedOf gives the entries of times that were missed, oldest first.
func missedOf(t *testing.T, e *shell.Engine, of uuid.UUID) []core.Occurrence {
	t.Helper()
	history, _, err := e.Recurring().History(bg(), of, shell.Page{Limit: 1000})
	require.NoError(t, err)
	history = slices.DeleteFunc(history, func(o core.Occurrence) bool { return o.Verdict != core.VerdictMissed })
	slices.SortFunc(history, func(a, b core.Occurrence) int { return int(a.DueAt - b.DueAt) })
	return history
}

// cause is the part of a reason that names what kept the daemon.
func cause(reason string) string {
	before, _, _ := strings.Cut(reason, ";")
	return before
}

const policyOfMisses = "; of the times that passed only the latest is dispatched, and only within the start deadline of 2m0s"

// R20: for each kind of outage, the times that it took have its cause as their reason, and their
// number and span; each is logged. Whoever reads the journal later comes to the same.
func TestEachOutageIsToldWithItsOwnCause(t *testing.T) {
	for name, row := range map[string]struct {
		outage func(t *testing.T, x *outage) // of ten seconds, from half a second after a time
		want   string                        // FROM and TO stand for its ends
	}{
		"a clean stop": {func(t *testing.T, x *outage) {
			require.NoError(t, x.stop())
			elapse(10 * time.Second)
			x.start(t, x.st.Reopen("second"))
		}, "the daemon was stopped from FROM to TO"},
		"a kill": {func(t *testing.T, x *outage) {
			close(x.store.gone)
			require.Error(t, x.stop())
			elapse(10 * time.Second)
			x.start(t, x.st.Reopen("second"))
		}, "the daemon was away from FROM to TO (killed, or its machine failed)"},
		"a process that is stopped": {func(t *testing.T, x *outage) {
			x.freezeAsleep(t)
			elapse(10 * time.Second)
		}, "the daemon did not run from FROM to TO (suspended, or without a processor)"},
		"a machine that is suspended": {func(_ *testing.T, x *outage) {
			x.clock.sleep(9 * time.Second)
			elapse(500 * time.Millisecond)
		}, "the daemon did not run from FROM to TO (suspended, or without a processor)"},
		"a clock that is set forward": {func(_ *testing.T, x *outage) {
			x.clock.jump(9 * time.Second)
			elapse(500 * time.Millisecond)
		}, "the clock was set forward from FROM to TO"},
		"a clock that goes forward on a system that cannot tell why": {func(_ *testing.T, x *outage) {
			x.clock.cannot = true
			x.clock.jump(9 * time.Second)
			elapse(500 * time.Millisecond)
		}, "the clock went from FROM to TO (set forward, or the machine was suspended)"},
		"a process that is stopped while the disk takes a batch": {func(_ *testing.T, x *outage) {
			x.clock.frozen.Store(int64(9 * time.Second)) // of the pulse beside the batch
			x.store.thaw = make(chan struct{})
			close(x.store.gone)
			elapse(10 * time.Second)
			close(x.store.thaw)
			synctest.Wait()
		}, "the daemon did not run from FROM to TO (suspended, or without a processor)"},
		"a store that does not answer": {func(_ *testing.T, x *outage) {
			x.store.thaw = make(chan struct{})
			close(x.store.gone)
			elapse(10 * time.Second)
			close(x.store.thaw)
			synctest.Wait()
		}, "the daemon was behind by 9.5s"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x := &outage{st: memory.NewSession("first"), log: &logLines{}}
				x.start(t, x.st)
				r, err := x.e.Recurring().Create(bg(), everySecond())
				require.NoError(t, err)
				elapse(3*time.Second + 500*time.Millisecond)
				require.Empty(t, missedOf(t, x.e, r.ID))
				from := effects.TimeOf(x.clock.Now())
				row.outage(t, x)
				elapse(2 * time.Second)

				missed := missedOf(t, x.e, r.ID)
				require.Len(t, missed, 1)
				o := missed[0]
				assert.EqualValues(t, 9, o.Count, "of ten times the last one is dispatched")
				assert.Equal(t, from.Add(500*time.Millisecond), o.DueAt)
				assert.Equal(t, o.DueAt.Add(8*time.Second), o.LastDueAt)
				begin, end := spanOf(t, o.Reason)
				if !begin.IsZero() {
					assert.Equal(t, strings.NewReplacer("FROM", begin.String(), "TO", end.String()).Replace(row.want)+policyOfMisses, o.Reason)
					assert.LessOrEqual(t, from.Add(-time.Second), begin, "the last sign of life is at most one time of the schedule before")
					assert.LessOrEqual(t, begin, o.DueAt)
					assert.Greater(t, end, o.LastDueAt)
					assert.LessOrEqual(t, end, o.DecidedAt)
				} else {
					assert.Equal(t, row.want+policyOfMisses, o.Reason)
				}
				logged := x.log.with("recurring.missed")
				require.Len(t, logged, 1)
				assert.Contains(t, logged[0], "count=9")
				assert.Contains(t, logged[0], o.Reason)
				require.NoError(t, x.stop())
				verify(t, x.o.Store)
			})
		})
	}
}

// spanOf gives the two times in a reason; zero if it has none.
func spanOf(t *testing.T, reason string) (from, to effects.Time) {
	t.Helper()
	_, rest, ok := strings.Cut(cause(reason), " from ")
	if !ok {
		return 0, 0
	}
	a, b, ok := strings.Cut(rest, " to ")
	require.True(t, ok)
	b, _, _ = strings.Cut(b, " ")
	require.NoError(t, from.UnmarshalJSON([]byte(`"`+a+`"`)))
	require.NoError(t, to.UnmarshalJSON([]byte(`"`+b+`"`)))
	return from, to
}

// outage is an engine to which one happens.
type outage struct {
	st    *memory.Store
	store *frozen
	clock *drowsy
	log   *logLines
	o     shell.Options
	e     *shell.Engine
	stop  func() error

	paused bool // the next one starts so
}

func (x *outage) start(t *testing.T, st *memory.Store) {
	t.Helper()
	x.store = &frozen{Store: st, gone: make(chan struct{})}
	if x.clock == nil {
		x.clock = &drowsy{}
	}
	x.o = shell.Options{Store: x.store, Tools: tools(&counting{}), Clock: x.clock, StartPaused: x.paused, Logger: slog.New(slog.NewTextHandler(x.log, nil)), StopTimeout: time.Nanosecond, AbandonAfter: time.Nanosecond}
	x.e, x.stop = start(t, x.o)
	synctest.Wait()
}

// freezeAsleep has the process stopped for nine seconds at the end of the loop's next sleep.
func (x *outage) freezeAsleep(t *testing.T) {
	t.Helper()
	require.NoError(t, x.e.Health(bg())) // the loop wakes, so that the pulse beats, and goes to sleep again
	synctest.Wait()                      // the pulse sleeps until its beat: the next sleep to begin is the loop's
	x.clock.frozen.Store(int64(9 * time.Second))
	require.NoError(t, x.e.Health(bg()))
}

// What passes while recurring actions are switched off says so, and what passed without a daemon
// as well.
func TestWhatPassesWhileRecurringActionsAreSwitchedOffSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := &outage{st: memory.NewSession("first"), log: &logLines{}}
		x.start(t, x.st)
		r, err := x.e.Recurring().Create(bg(), everySecond())
		require.NoError(t, err)
		elapse(3*time.Second + 500*time.Millisecond)
		require.NoError(t, x.stop())
		o := x.o
		o.DisableRecurring = true
		_, stop := start(t, o)
		elapse(10 * time.Second)
		require.NoError(t, stop())
		elapse(5 * time.Second)
		x.start(t, x.st.Reopen("third"))
		elapse(time.Second)

		missed := missedOf(t, x.e, r.ID)
		require.Len(t, missed, 2)
		assert.Contains(t, missed[0].Reason, "recurring actions were switched off from ")
		assert.EqualValues(t, 10, missed[0].Count)
		assert.Contains(t, missed[1].Reason, "the daemon was stopped from ")
		assert.EqualValues(t, 4, missed[1].Count)
		require.NoError(t, x.stop())
		verify(t, x.o.Store)
	})
}

// An outage is not lost where the daemon is killed right after its start, before it has decided
// anything about the times of the outage: they have their own causes, each its own entry.
func TestTheOutageBeforeAKillRightAfterAStartIsNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := &outage{st: memory.NewSession("first"), log: &logLines{}}
		x.start(t, x.st)
		r, err := x.e.Recurring().Create(bg(), everySecond())
		require.NoError(t, err)
		elapse(3*time.Second + 500*time.Millisecond)
		require.NoError(t, x.stop())
		elapse(10 * time.Second)

		second := x.st.Reopen("second")
		o := x.o
		o.Store = &once{frozen: frozen{Store: second, gone: make(chan struct{})}}
		_, stop := start(t, o)
		elapse(20 * time.Second) // it has its claim, and reaches the store no more
		require.Error(t, stop())
		x.start(t, second.Reopen("third"))
		elapse(time.Second)

		missed := missedOf(t, x.e, r.ID)
		require.Len(t, missed, 2)
		assert.Contains(t, missed[0].Reason, "the daemon was stopped from ")
		assert.EqualValues(t, 10, missed[0].Count)
		assert.Contains(t, missed[1].Reason, "(killed, or its machine failed)")
		assert.Equal(t, missed[0].LastDueAt.Add(time.Second), missed[1].DueAt)
		require.NoError(t, x.stop())
		verify(t, x.o.Store)
	})
}

// once is a store that is reached for one transaction.
type once struct {
	frozen
	n atomic.Int32
}

func (o *once) Update(ctx context.Context, fn func(store.Tx) error) error {
	if o.n.Add(1) > 1 {
		return errors.New("the process is gone")
	}
	return o.Store.Update(ctx, fn)
}

// A pause, an edit and a deletion after an outage say what kept the daemon, too; and so does the
// start that a run of a job has missed.
func TestWhatEndsTheWaitAfterAnOutageNamesItAsWell(t *testing.T) {
	for name, end := range map[string]func(e *shell.Engine, id uuid.UUID) error{
		"a pause": func(e *shell.Engine, id uuid.UUID) error { _, err := e.Recurring().Pause(bg(), id, ""); return err },
		"an edit": func(e *shell.Engine, id uuid.UUID) error {
			cron := "0 0 1 1 *"
			_, err := e.Recurring().Update(bg(), id, core.RecurringPatch{CronExpr: &cron})
			return err
		},
		"a deletion": func(e *shell.Engine, id uuid.UUID) error { return e.Recurring().Delete(bg(), id) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x := &outage{st: memory.NewSession("first"), log: &logLines{}}
				x.start(t, x.st)
				r, err := x.e.Recurring().Create(bg(), everySecond())
				require.NoError(t, err)
				elapse(3*time.Second + 500*time.Millisecond)
				x.clock.sleep(time.Hour) // and before the loop wakes, somebody asks:
				require.NoError(t, end(x.e, r.ID))
				synctest.Wait() // it is logged after the answer
				missed := missedOf(t, x.e, r.ID)
				require.Len(t, missed, 1)
				assert.EqualValues(t, 3600, missed[0].Count)
				assert.Regexp(t, `^the daemon did not run from .*; (paused|deleted|the schedule was changed) before it was dispatched$`, missed[0].Reason)
				assert.Len(t, x.log.with("recurring.missed"), 1)
				require.NoError(t, x.stop())
				verify(t, x.o.Store)
			})
		})
	}
}

// A machine that is suspended often has its clock corrected when it goes on. The engine goes on, too:
// what lies ahead of the clock now is no absence.
func TestAProcessIsStoppedWhileTheClockIsSetBack(t *testing.T) {
	for name, back := range map[string]time.Duration{"by less than it was stopped": 5 * time.Second, "by more": 20 * time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x := &outage{st: memory.NewSession("first"), log: &logLines{}}
				x.start(t, x.st)
				r, err := x.e.Recurring().Create(bg(), everyMinute())
				require.NoError(t, err)
				elapse(90 * time.Second)
				x.freezeAsleep(t)
				elapse(time.Second)
				x.clock.jump(-back)
				elapse(3 * time.Minute)
				require.NoError(t, x.e.Health(bg()))
				r, err = x.e.Recurring().Get(bg(), r.ID)
				require.NoError(t, err)
				assert.EqualValues(t, 4, r.ExecutionCount)
				require.NoError(t, x.stop())
				verify(t, x.o.Store)
			})
		})
	}
}
