package replay_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/replay"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/memory"
)

// lived makes a store in which an engine has worked: actions of all endings, a
// recurring one, and some that still wait and run.
func lived(t *testing.T, journal time.Duration) store.Store {
	t.Helper()
	st := memory.New()
	hang := make(chan struct{})
	e, err := shell.New(shell.Options{
		Store: st, Logger: slog.New(slog.DiscardHandler), JournalRetention: journal, StopTimeout: time.Nanosecond, AbandonAfter: time.Nanosecond,
		Tools: map[string]shell.Tool{
			"ok": shell.ToolFunc(func(context.Context, shell.Call) (json.RawMessage, error) {
				return json.RawMessage(` {"a": [1, 2]} `), nil
			}),
			"fail": shell.ToolFunc(func(context.Context, shell.Call) (json.RawMessage, error) { return nil, errors.New("no \xff luck") }),
			"hang": shell.ToolFunc(func(context.Context, shell.Call) (json.RawMessage, error) { <-hang; return nil, nil }),
		},
		Concurrency: map[string]int{"hang": 1},
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	add := func(spec core.ActionSpec) uuid.UUID {
		a, err := e.Actions().Create(ctx, spec)
		require.NoError(t, err)
		return a.ID
	}
	later := func(d time.Duration) core.Trigger { return core.Scheduled(effects.TimeOf(time.Now().Add(d))) }
	add(core.ActionSpec{ToolName: "ok", ToolInput: json.RawMessage(" {\"x\" : \"<&>\\u2028\"} "), DedupKey: "k"})
	add(core.ActionSpec{ToolName: "fail", Recurrence: core.Every(time.Hour)})
	add(core.ActionSpec{ToolName: "ok", Recurrence: core.CronRecurrence("30 2 * * *", "Europe/Berlin")})
	add(core.ActionSpec{ToolName: "ok", Trigger: later(1000 * time.Hour)})
	_, err = e.Actions().Cancel(ctx, add(core.ActionSpec{ToolName: "ok", Trigger: later(time.Hour)}), "no more")
	require.NoError(t, err)
	_, err = e.Recurring().Create(ctx, core.RecurringSpec{
		CronExpr: "*/20 * * * *", Enabled: true, Namespace: "n", Tenant: "t",
		ActionTemplate: core.RecurringActionTemplate{Provider: "ok", ActionType: "x", Payload: json.RawMessage(" {\"b\" : 1} "), DedupKey: "{{execution_time}}"},
	})
	require.NoError(t, err)
	<-time.After(50 * time.Hour)
	add(core.ActionSpec{ToolName: "hang"})
	add(core.ActionSpec{ToolName: "hang"})
	synctest.Wait()
	cancel()
	require.NoError(t, <-done)
	close(hang)
	return st
}

func TestAStoreThatAnEngineLeftReplaysByteForByte(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rep, err := replay.Verify(t.Context(), lived(t, 0), replay.Options{})
		require.NoError(t, err)
		assert.Empty(t, rep.Divergences)
		assert.EqualValues(t, 1, rep.FirstBatch)
		assert.Greater(t, rep.Inputs, uint64(400))
		assert.Greater(t, rep.Entities, uint64(300))
		assert.Zero(t, rep.Untouched)
	})
}

func TestAJournalThatWasCutReplaysFromWhereItBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rep, err := replay.Verify(t.Context(), lived(t, 7*time.Hour), replay.Options{})
		require.NoError(t, err)
		assert.Empty(t, rep.Divergences)
		assert.Greater(t, rep.FirstBatch, uint64(1))
		assert.NotZero(t, rep.Untouched, "older records are still there")
	})
}

// anyRecord gives a record of the kind and how it stands in the indexes.
func anyRecord(t *testing.T, tx store.Tx, kind effects.Kind, waits bool) (store.Record, store.Write) {
	t.Helper()
	var rec store.Record
	var state core.State
	require.NoError(t, tx.Records(func(r store.Record) error {
		s, err := core.DecodeState(r.Kind, r.State)
		if r.Kind == kind && !s.Deadline().IsZero() == waits {
			rec, state = r, s
			rec.State = append([]byte(nil), r.State...)
		}
		return err
	}))
	require.NotNil(t, state)
	return rec, store.Write{
		Kind: kind, ID: rec.ID, State: rec.State, Due: state.Deadline(), Terms: state.Terms(),
		Prev: store.Prev{Version: rec.Version, Seq: rec.Seq, Due: state.Deadline(), Terms: state.Terms()},
	}
}

func TestWhateverIsChangedBehindTheJournalsBackIsNamed(t *testing.T) {
	for name, tc := range map[string]struct {
		harm func(t *testing.T, tx store.Tx, seq uint64) error
		want string
	}{
		"one byte of a state": {func(t *testing.T, tx store.Tx, seq uint64) error {
			_, w := anyRecord(t, tx, core.KindAction, false)
			w.State = []byte(strings.Replace(string(w.State), `"run":1`, `"run":2`, 1))
			return tx.Put(seq, []store.Write{w})
		}, "the stored state differs"},
		"a record that is gone": {func(t *testing.T, tx store.Tx, seq uint64) error {
			_, w := anyRecord(t, tx, core.KindOccurrence, false)
			w.State, w.Due, w.Terms = nil, 0, nil
			return tx.Put(seq, []store.Write{w})
		}, "the record is missing"},
		"a due time": {func(t *testing.T, tx store.Tx, seq uint64) error {
			_, w := anyRecord(t, tx, core.KindAction, true)
			w.Due = w.Due.Add(time.Second)
			return tx.Put(seq, []store.Write{w})
		}, "it stands in the due index at"},
		"a due entry that is gone": {func(t *testing.T, tx store.Tx, seq uint64) error {
			_, w := anyRecord(t, tx, core.KindRecurring, true)
			w.Due = 0
			return tx.Put(seq, []store.Write{w})
		}, "but does not stand in the due index"},
		"an outbox entry that is gone": {func(_ *testing.T, tx store.Tx, _ uint64) error {
			waiting, err := tx.Waiting("hang", 1)
			return errors.Join(err, tx.DeleteOutbox(waiting[0].Key))
		}, "is missing"},
		"an outbox entry with another effect": {func(_ *testing.T, tx store.Tx, _ uint64) error {
			waiting, err := tx.Waiting("hang", 1)
			waiting[0].Effect = []byte(`{"type":"run_tool","run":1,"tool":"other"}`)
			return errors.Join(err, tx.PutOutbox(waiting[0]))
		}, "differs"},
		"an outbox entry too many": {func(_ *testing.T, tx store.Tx, seq uint64) error {
			return tx.PutOutbox(store.OutboxEntry{Key: store.EffectKey{ID: uuid.New(), N: 1}, Seq: seq, Kind: core.KindAction, Lane: "ok", Effect: []byte(`{"type":"run_tool","run":1,"tool":"ok"}`)})
		}, "is not outstanding in the replay"},
		"an input that the machine would have refused": {func(_ *testing.T, tx store.Tx, seq uint64) error {
			b := core.NewEntry(seq, effects.TimeOf(time.Now()), "test")
			b.Inputs = []core.Input{{To: effects.Ref{Kind: core.KindAction, ID: uuid.New()}, Event: core.ActionCancel{}}}
			return tx.AppendJournal(seq, b.At, b.AppendJSON(nil))
		}, "changed nothing in the replay"},
		"a batch that cannot be read": {func(_ *testing.T, tx store.Tx, seq uint64) error {
			return tx.AppendJournal(seq, effects.TimeOf(time.Now()), []byte(`{"seq":`))
		}, "decode journal batch"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := lived(t, 0)
				require.NoError(t, st.Update(t.Context(), func(tx store.Tx) error {
					last, err := tx.Seq()
					require.NoError(t, err)
					seq := last + 1
					if err := tc.harm(t, tx, seq); err != nil {
						return err
					}
					if now, _ := tx.Seq(); now == last { // a batch that holds nothing
						b := core.NewEntry(seq, effects.TimeOf(time.Now()), "test")
						return tx.AppendJournal(seq, b.At, b.AppendJSON(nil))
					}
					return nil
				}))
				rep, err := replay.Verify(t.Context(), st, replay.Options{})
				require.NoError(t, err)
				require.NotEmpty(t, rep.Divergences)
				assert.True(t, slices.ContainsFunc(rep.Divergences, func(d replay.Divergence) bool {
					return strings.Contains(d.String(), tc.want)
				}), "%s: %s", tc.want, rep.Divergences)
				assert.False(t, rep.Clean())
			})
		})
	}
}
