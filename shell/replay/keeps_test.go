package replay_test

import (
	"bytes"
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
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/replay"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/memory"
)

// worked runs an engine on the store for as long as do takes.
func worked(t *testing.T, st store.Store, do func(e *shell.Engine)) {
	t.Helper()
	e, err := shell.New(shell.Options{
		Store: st, Logger: slog.New(slog.DiscardHandler), TickRate: time.Hour, ActionRetention: time.Hour, JournalRetention: -1,
		Tools: map[string]shell.Tool{"ok": shell.ToolFunc(func(context.Context, shell.Call) (json.RawMessage, error) { return nil, nil })},
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	do(e)
	cancel()
	require.NoError(t, <-done)
}

// The state that an epoch keeps is where a replay of what is left begins, once
// the epochs before it are dropped.
func TestAChangeBehindTheJournalsBackIsNamedThoughItsRecordIsGoneByNow(t *testing.T) {
	for name, harm := range map[string]bool{"changed": true, "as it was": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st, id := memory.New(), uuid.New()
				worked(t, st, func(e *shell.Engine) {
					_, err := e.Actions().Create(t.Context(), core.ActionSpec{
						ID: id, ToolName: "ok", Label: "before", Trigger: core.Scheduled(effects.TimeOf(time.Now().Add(100 * time.Hour))),
					})
					require.NoError(t, err)
				})
				require.NoError(t, st.Update(t.Context(), func(tx store.Tx) error {
					if harm {
						last, err := tx.Seq()
						require.NoError(t, err)
						_, w := anyRecord(t, tx, core.KindAction, true)
						w.State = bytes.Replace(w.State, []byte("before"), []byte("behind"), 1)
						require.NoError(t, tx.Put(last+1, []store.Write{w}))
						b := core.NewEntry(last+1, effects.TimeOf(time.Now()), "test")
						require.NoError(t, tx.AppendJournal(last+1, b.At, b.AppendJSON(nil)))
					}
					return tx.BeginEpoch(effects.TimeOf(time.Now()))
				}))
				worked(t, st, func(e *shell.Engine) {
					_, err := e.Actions().Cancel(t.Context(), id, "")
					require.NoError(t, err)
					<-time.After(5 * time.Hour)
					synctest.Wait()
					_, err = e.Actions().Get(t.Context(), id)
					require.ErrorIs(t, err, shell.ErrNotFound, "it is forgotten after its retention")
				})
				rep, err := replay.Verify(t.Context(), st, replay.Options{})
				require.NoError(t, err)
				if !harm {
					assert.Empty(t, rep.Divergences)
					return
				}
				require.Len(t, rep.Divergences, 2)
				assert.Equal(t, replay.Divergence{Seq: 2, What: "it has stored something else than the replay: this is the first batch that differs"}, rep.Divergences[0])
				d := rep.Divergences[1]
				assert.Equal(t, effects.Ref{Kind: core.KindAction, ID: id}, d.Ref)
				assert.Equal(t, "the state kept at the epoch's start differs", d.What)
				assert.Contains(t, string(d.Want), "before")
				assert.Contains(t, string(d.Found), "behind")
			})
		})
	}
}

func TestAnOutboxEntryThatAsksForSomethingElseIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := lived(t, 0)
		var id uuid.UUID
		require.NoError(t, st.Update(t.Context(), func(tx store.Tx) error {
			waiting, err := tx.Waiting("hang", 1)
			require.NoError(t, err)
			require.Len(t, waiting, 1)
			entry := waiting[0]
			id, entry.Effect = entry.Key.ID, effects.RunTool{Run: entry.Key.N, Tool: "ok"}.AppendJSON(nil)
			return tx.PutOutbox(entry)
		}))
		rep, err := replay.Verify(t.Context(), st, replay.Options{})
		require.NoError(t, err)
		require.Len(t, rep.Divergences, 1)
		d := rep.Divergences[0]
		assert.Equal(t, effects.Ref{Kind: core.KindAction, ID: id}, d.Ref)
		assert.Equal(t, "outbox entry 1 differs", d.What)
		assert.JSONEq(t, `{"type":"run_tool","run":1,"tool":"hang"}`, string(d.Want))
		assert.JSONEq(t, `{"type":"run_tool","run":1,"tool":"ok"}`, string(d.Found))
	})
}

func TestAnOutboxEntryInAnotherLaneIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := lived(t, 0)
		require.NoError(t, st.Update(t.Context(), func(tx store.Tx) error {
			waiting, err := tx.Waiting("hang", 1)
			require.NoError(t, err)
			require.Len(t, waiting, 1)
			waiting[0].Lane = "ok"
			return tx.PutOutbox(waiting[0])
		}))
		rep, err := replay.Verify(t.Context(), st, replay.Options{})
		require.NoError(t, err)
		require.Len(t, rep.Divergences, 1)
		assert.Equal(t, "outbox entry 1 stands in the wrong lane", rep.Divergences[0].What)
	})
}
