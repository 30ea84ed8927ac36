package shell_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/core/schedule"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/store"
)

// slowStore takes its time to commit, as a tick with much to do.
type slowStore struct {
	store.Store
	mu   sync.Mutex
	take time.Duration
	at   []time.Duration // when each transaction began, since the bubble's start
	from time.Time
}

func (s *slowStore) Update(ctx context.Context, fn func(store.Tx) error) error {
	s.mu.Lock()
	s.at = append(s.at, time.Since(s.from))
	take := s.take
	s.mu.Unlock()
	<-time.After(take)
	return s.Store.Update(ctx, fn)
}

// B2.
func TestAfterATickTheLoopWaitsTheRestOfTheTickRateAndALateTickIsFollowedAtOnce(t *testing.T) {
	for _, tc := range []struct {
		take time.Duration
		want []int64 // the seconds when ticks begin
	}{
		{3 * time.Second, []int64{3, 13, 23, 33}},    // registration takes 3 s, then one tick each 10 s
		{25 * time.Second, []int64{25, 50, 75, 100}}, // longer than the tick rate: at once, and no more
	} {
		t.Run(fmt.Sprintf("a tick that takes %s", tc.take), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &slowStore{Store: inMemory(t), take: tc.take, from: time.Now()}
				_, stop := start(t, shell.Options{Store: s, TickRate: 10 * time.Second, LeaseTTL: 24 * time.Hour, StrictTick: true, DisableRecurring: true})
				elapse(time.Duration(tc.want[len(tc.want)-1]+1) * time.Second)
				s.mu.Lock()
				ticks := slices.Clone(s.at[1:])
				s.mu.Unlock()
				var want []time.Duration
				for _, w := range tc.want {
					want = append(want, time.Duration(w)*time.Second)
				}
				assert.Equal(t, want, ticks)
				require.NoError(t, stop())
			})
		})
	}
}

// A6, R1.
func TestOnlyWhatWaitsForItsTimeStandsInTheDueIndex(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := inMemory(t)
		g := newGate()
		e := running(t, shell.Options{Store: st, Tools: tools(g)})
		due := func() int {
			var n int
			require.NoError(t, st.View(bg(), func(tx store.ReadTx) error {
				entries, err := tx.Due(nil, nil, effects.MaxTime, 100)
				n = len(entries)
				return err
			}))
			return n
		}
		waits, err := e.Actions().Create(bg(), core.ActionSpec{ToolName: "count", Trigger: at(time.Hour)})
		require.NoError(t, err)
		r, err := e.Recurring().Create(bg(), everyMinute())
		require.NoError(t, err)
		assert.Equal(t, 2, due())
		_, err = e.Actions().Create(bg(), core.ActionSpec{ToolName: "count"})
		require.NoError(t, err)
		assert.Equal(t, 2, due(), "what runs does not wait")
		_, err = e.Recurring().Pause(bg(), r.ID, "")
		require.NoError(t, err)
		assert.Equal(t, 1, due())
		_, err = e.Actions().Trigger(bg(), waits.ID)
		require.NoError(t, err)
		assert.Equal(t, 0, due())
		g.open()
		synctest.Wait()
		assert.Equal(t, 0, due(), "what has ended does not wait")
	})
}

// 002 section 6: a definition that is gone leaves no index entry behind.
func TestADueEntryWithoutARecordIsCleanedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := inMemory(t)
		id := uuid.New()
		c := &counting{}
		now := effects.TimeOf(time.Now())
		require.NoError(t, st.Update(bg(), func(tx store.Tx) error {
			return errors.Join(
				tx.Put(1, []store.Write{{Kind: core.KindRecurring, ID: id, State: []byte(`not json`), Due: now.Add(time.Second)}}),
				tx.AppendJournal(1, now, core.NewEntry(1, now, "test").AppendJSON(nil)),
			)
		}))
		e, stop := start(t, shell.Options{Store: st, Tools: tools(c)})
		elapse(time.Minute)
		require.NoError(t, st.View(bg(), func(tx store.ReadTx) error {
			entries, err := tx.Due(nil, nil, effects.MaxTime, 10)
			assert.Empty(t, entries)
			return err
		}))
		a, err := e.Actions().Execute(bg(), core.ActionSpec{ToolName: "count"})
		require.NoError(t, err)
		assert.Equal(t, core.StatusCompleted, a.Status.Type)
		require.NoError(t, stop())
	})
}

// F3.
func TestEachBatchIsJournaledWithItsTimeItsActorsAndItsVersions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := inMemory(t)
		e := running(t, shell.Options{Store: st, Tools: tools(&counting{})})
		elapse(time.Hour)
		now := effects.TimeOf(time.Now())
		a, err := e.Actions().Create(shell.WithActor(bg(), "api:ann"), core.ActionSpec{ToolName: "count"})
		require.NoError(t, err)
		synctest.Wait()
		var actors, events []string
		require.NoError(t, st.View(bg(), func(tx store.ReadTx) error {
			return tx.Journal(1, func(seq uint64, raw []byte) error {
				b, err := core.DecodeEntry(raw)
				if err != nil {
					return err
				}
				assert.Equal(t, seq, b.Seq)
				assert.Equal(t, now, b.At)
				assert.Equal(t, core.Version, b.Core)
				assert.Equal(t, schedule.TZVersion, b.TZDB)
				assert.Equal(t, e.Instance(), b.Instance)
				for _, in := range b.Inputs {
					assert.Equal(t, a.ID, in.To.ID)
					actors = append(actors, in.Actor)
					events = append(events, in.Event.EventType())
				}
				return nil
			})
		}))
		assert.Equal(t, []string{"api:ann", "clock", "tool"}, actors)
		assert.Equal(t, []string{"create", "due", "complete"}, events)
	})
}

// F4.
func TestAnEffectIsInTheOutboxFromItsCommitToItsAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := inMemory(t)
		g := newGate()
		e := running(t, shell.Options{Store: st, Tools: tools(g)})
		outbox := func() (entries []string) {
			require.NoError(t, st.View(bg(), func(tx store.ReadTx) error {
				return tx.Outbox(func(o store.OutboxEntry) error {
					entries = append(entries, fmt.Sprintf("%d %s waiting=%v", o.Key.N, o.Effect, o.Waiting()))
					return nil
				})
			}))
			return entries
		}
		_, err := e.Actions().Create(bg(), core.ActionSpec{ToolName: "count"})
		require.NoError(t, err)
		assert.Equal(t, []string{`1  waiting=false`}, outbox())
		g.open()
		synctest.Wait()
		assert.Empty(t, outbox())
	})
}

// records is a log handler that keeps names and levels.
type records struct {
	slog.Handler
	mu   sync.Mutex
	seen map[string]slog.Level
}

func (r *records) Handle(_ context.Context, rec slog.Record) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen[rec.Message] = rec.Level
	return nil
}

func (r *records) Enabled(context.Context, slog.Level) bool { return true }
func (r *records) WithAttrs([]slog.Attr) slog.Handler       { return r }
func (r *records) WithGroup(string) slog.Handler            { return r }

// C10.
func TestLogEventsAndCountersHaveTheNamesAndLevelsOfTheSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logged := &records{seen: map[string]slog.Level{}}
		boom := shell.ToolFunc(func(context.Context, shell.Call) (json.RawMessage, error) { return nil, errBoom })
		e := running(t, shell.Options{Store: inMemory(t), Tools: tools(boom), TickRate: 6 * time.Hour, Logger: slog.New(logged)})
		spec := everyMinute()
		spec.EndsAt = effects.TimeOf(time.Now().Add(10 * time.Minute))
		r, err := e.Recurring().Create(bg(), spec)
		require.NoError(t, err)
		once := everyMinute()
		once.CronExpr = "0 0 0 " + time.Now().AddDate(0, 0, 2).Format("2 1 * 2006")
		_, err = e.Recurring().Create(bg(), once)
		require.NoError(t, err)
		_, err = e.Recurring().Pause(bg(), r.ID, "")
		require.NoError(t, err)
		_, err = e.Recurring().Resume(bg(), r.ID)
		require.NoError(t, err)
		text := "new"
		_, err = e.Recurring().Update(bg(), r.ID, core.RecurringPatch{Description: &text})
		require.NoError(t, err)
		s, err := e.Stats(bg())
		require.NoError(t, err)
		assert.EqualValues(t, 2, s.RecurringActive)
		elapse(11 * time.Minute)
		require.NoError(t, e.Recurring().Delete(bg(), r.ID))
		elapse(72 * time.Hour)
		for name, level := range map[string]slog.Level{
			"recurring.create": slog.LevelInfo, "recurring.update": slog.LevelInfo, "recurring.delete": slog.LevelInfo,
			"recurring.pause": slog.LevelInfo, "recurring.resume": slog.LevelInfo, "recurring.dispatch": slog.LevelInfo,
			"recurring.expired": slog.LevelWarn, "recurring.no_next": slog.LevelWarn, "recurring.dispatch_error": slog.LevelError,
		} {
			got, ok := logged.seen[name]
			assert.True(t, ok, name)
			assert.Equal(t, level, got, name)
		}
		s, err = e.Stats(bg())
		require.NoError(t, err)
		assert.Zero(t, s.RecurringActive)
		assert.EqualValues(t, 10, s.RecurringDispatched, "nine before the end, and the one of its day")
		assert.EqualValues(t, 10, s.RecurringErrors, "each failed; that one has no next time is its regular end")
	})
}

func TestOptionsThatCannotWorkAreRefusedByName(t *testing.T) {
	ok := inMemory(t)
	for name, tc := range map[string]struct {
		o    shell.Options
		want string
	}{
		"no store":                         {shell.Options{}, "Options.Store is nil"},
		"negative tick":                    {shell.Options{Store: ok, TickRate: -1}, "Options.TickRate is -1ns"},
		"no place for a tool":              {shell.Options{Store: ok, Concurrency: map[string]int{"x": 0}}, `Options.Concurrency["x"] is 0`},
		"webhook that no action can carry": {shell.Options{Store: ok, Tools: tools(&counting{}), Webhooks: map[string]shell.WebhookRoute{"r": {Tool: "count", Policy: core.RunPolicy{MaxAttempts: 99_999_999}}}}, `Options.Webhooks["r"]: policy.max_attempts: 99999999`},
		"webhook of no tool":               {shell.Options{Store: ok, Webhooks: map[string]shell.WebhookRoute{"r": {Tool: "none"}}}, `Options.Webhooks["r"] names the tool "none"`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := shell.New(tc.o)
			require.ErrorContains(t, err, tc.want)
		})
	}
}

func TestAnEngineRunsOnce(t *testing.T) {
	e, stop := start(t, shell.Options{Store: inMemory(t)})
	require.NoError(t, stop())
	require.ErrorContains(t, e.Run(bg()), "called before")
}

// R16.
func TestMoreDueThanABatchAndThanThereArePlacesIsAllDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counting{}
		e := running(t, shell.Options{Store: inMemory(t), Tools: tools(c), MaxBatch: 16, DefaultConcurrency: 3})
		for range 500 {
			_, err := e.Actions().Create(bg(), core.ActionSpec{ToolName: "count", Trigger: at(time.Minute)})
			require.NoError(t, err)
		}
		elapse(2 * time.Minute)
		assert.EqualValues(t, 500, c.n.Load())
		s, err := e.Stats(bg())
		require.NoError(t, err)
		assert.EqualValues(t, 500, s.ActionsByStatus[core.StatusCompleted])
	})
}

func TestAThousandCallersOnOneActionCancelItOnce(t *testing.T) {
	e := running(t, shell.Options{Store: inMemory(t), Tools: tools(&counting{})})
	a, err := e.Actions().Create(bg(), core.ActionSpec{ToolName: "count", Trigger: at(time.Hour)})
	require.NoError(t, err)
	var wg sync.WaitGroup
	var mu sync.Mutex
	won := 0
	for range 1000 {
		wg.Go(func() {
			if _, err := e.Actions().Cancel(bg(), a.ID, ""); err == nil {
				mu.Lock()
				won++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	assert.Equal(t, 1, won)
}
