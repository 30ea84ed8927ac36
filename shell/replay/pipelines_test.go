package replay_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/replay"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/memory"
)

// begunEngine gives a running engine over the store, and what stops it.
func begunEngine(t *testing.T, st store.Store) (*shell.Engine, func()) {
	t.Helper()
	e, err := shell.New(shell.Options{Store: st, Logger: slog.New(slog.DiscardHandler), ActionRetention: 24 * time.Hour})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	return e, func() {
		cancel()
		require.NoError(t, <-done)
	}
}

// partsIn lists the records that pipelines keep beside their own.
func partsIn(t *testing.T, st store.Store) map[effects.Kind][]effects.Ref {
	t.Helper()
	out := map[effects.Kind][]effects.Ref{}
	require.NoError(t, st.View(t.Context(), func(tx store.ReadTx) error {
		return tx.Records(func(r store.Record) error {
			switch r.Kind {
			case core.KindPipelineDefinition, core.KindPipelineRuns, core.KindPipelineHistory, core.KindPipelineContext:
				out[r.Kind] = append(out[r.Kind], effects.Ref{Kind: r.Kind, ID: r.ID})
			}
			return nil
		})
	}))
	return out
}

// TestALongPipelineIsTheSameAfterARestartInItsHistoryAndInAReplay: what stands in records of its
// own is shown with it, is told by its history, and goes with it.
func TestALongPipelineIsTheSameAfterARestartInItsHistoryAndInAReplay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memory.New()
		e, stop := begunEngine(t, st)
		def := core.PipelineDef{Name: "long"}
		for n := range 60 {
			def.Phases = append(def.Phases, core.PhaseDef{Name: fmt.Sprint("p", n), Output: fmt.Sprint("o", n%25), Manual: &core.ManualPhase{}})
		}
		p, err := e.Pipelines().Create(t.Context(), core.PipelineSpec{Definition: def})
		require.NoError(t, err)
		synctest.Wait()
		for n := range 50 {
			p, err = e.Pipelines().Send(t.Context(), p.ID, core.PhaseComplete{Phase: fmt.Sprint("p", n), Result: json.RawMessage(fmt.Sprintf(`{"n":%d}`, n))})
			require.NoError(t, err)
		}
		require.Len(t, p.History, 50)
		require.Len(t, p.Context, 25)
		stop()
		parts := partsIn(t, st)
		assert.Len(t, parts[core.KindPipelineHistory], 3)
		assert.NotEmpty(t, parts[core.KindPipelineContext])

		e, stop = begunEngine(t, st)
		again, err := e.Pipelines().Get(t.Context(), p.ID)
		require.NoError(t, err)
		assert.Equal(t, p, again)
		list, _, err := e.Pipelines().List(t.Context(), shell.MachineFilter{}, shell.Page{})
		require.NoError(t, err)
		assert.Equal(t, []core.Pipeline{p}, list)
		p, err = e.Pipelines().Send(t.Context(), p.ID, core.PhaseComplete{Phase: "p50", Result: json.RawMessage(`"last"`)})
		require.NoError(t, err)

		trail, err := replay.History(t.Context(), st, p.Ref(), replay.HistoryOptions{})
		require.NoError(t, err)
		require.Len(t, trail.Steps, 52)
		for i, s := range trail.Steps[:51] {
			var was, is core.Pipeline
			require.NoError(t, json.Unmarshal(s.After, &is))
			require.NoError(t, json.Unmarshal(s.Before, &was))
			n := 50 - i
			assert.Len(t, is.History, n+1, "after p%d", n)
			assert.Len(t, was.History, n, "before p%d", n)
			assert.JSONEq(t, fmt.Sprintf(`{"n":%d}`, max(n-1, 0)), string(was.Context[fmt.Sprint("o", max(n-1, 0)%25)]), "before p%d", n)
			assert.Len(t, is.Definition.Phases, 60)
			for _, f := range s.Fields {
				assert.NotContains(t, []string{"parts", "definition"}, f.Name)
			}
			if n == 1 {
				break // before the first one there is no value
			}
		}
		rep, err := replay.Verify(t.Context(), st, replay.Options{})
		require.NoError(t, err)
		assert.Empty(t, rep.Divergences)

		_, err = e.Pipelines().Send(t.Context(), p.ID, core.PipelineCancel{})
		require.NoError(t, err)
		<-time.After(25 * time.Hour)
		assert.Empty(t, partsIn(t, st), "the parts go with their pipeline")
		stop()
		rep, err = replay.Verify(t.Context(), st, replay.Options{})
		require.NoError(t, err)
		assert.Empty(t, rep.Divergences)
	})
}

// TestADamagedPageOfAPipelineIsSetAsideWithoutIt: a read meets it, the pipeline is shown without,
// and goes on.
func TestADamagedPageOfAPipelineIsSetAsideWithoutIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memory.New()
		e, stop := begunEngine(t, st)
		def := core.PipelineDef{Name: "long"}
		for n := range 40 {
			def.Phases = append(def.Phases, core.PhaseDef{Name: fmt.Sprint("p", n), Manual: &core.ManualPhase{}})
		}
		p, err := e.Pipelines().Create(t.Context(), core.PipelineSpec{Definition: def})
		require.NoError(t, err)
		synctest.Wait()
		complete := func(n int) {
			p, err = e.Pipelines().Send(t.Context(), p.ID, core.PhaseComplete{Phase: fmt.Sprint("p", n)})
			require.NoError(t, err)
		}
		for n := range 36 {
			complete(n)
		}
		stop()
		lost := partsIn(t, st)[core.KindPipelineHistory][0]
		require.NoError(t, st.Update(t.Context(), func(tx store.Tx) error {
			rec, err := tx.Get(lost.Kind, lost.ID)
			if err != nil {
				return err
			}
			now := effects.TimeOf(time.Now())
			seq, err := tx.Seq()
			if err != nil {
				return err
			}
			if err := tx.AppendJournal(seq+1, now, core.NewEntry(seq+1, now, "test").AppendJSON(nil)); err != nil {
				return err
			}
			return tx.Put(seq+1, []store.Write{{Kind: lost.Kind, ID: lost.ID, State: []byte(`{"id":7}`), Prev: store.Prev{Version: rec.Version, Seq: rec.Seq}}})
		}))
		e, stop = begunEngine(t, st)
		shown, err := e.Pipelines().Get(t.Context(), p.ID)
		require.NoError(t, err)
		assert.Len(t, shown.History, 20)
		assert.Equal(t, p.Context, shown.Context)
		for n := 36; n < 40; n++ {
			complete(n)
		}
		assert.Equal(t, core.PhaseDone, p.Phase.Type)
		assert.Len(t, p.History, 24)
		assert.NotContains(t, partsIn(t, st)[core.KindPipelineHistory], lost, "it was set aside")
		stop()
	})
}

// countedBatches counts the batches that are read.
type countedBatches struct {
	store.Store
	n int
}

type countedTx struct {
	store.ReadTx
	n *int
}

func (c *countedBatches) View(ctx context.Context, fn func(store.ReadTx) error) error {
	return c.Store.View(ctx, func(tx store.ReadTx) error { return fn(countedTx{tx, &c.n}) })
}

func (c countedTx) Batch(seq uint64) (store.Batch, error) {
	*c.n++
	return c.ReadTx.Batch(seq)
}

// TestTheHistoryOfAPipelineReadsItsPagesNoFartherBackThanItGoes: a page that each phase writes again has
// as many states as the pipeline.
func TestTheHistoryOfAPipelineReadsItsPagesNoFartherBackThanItGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memory.New()
		e, stop := begunEngine(t, st)
		def := core.PipelineDef{Name: "again"}
		for n := range 60 {
			def.Phases = append(def.Phases, core.PhaseDef{Name: fmt.Sprint("p", n), Output: "o", Manual: &core.ManualPhase{}})
		}
		p, err := e.Pipelines().Create(t.Context(), core.PipelineSpec{Definition: def})
		require.NoError(t, err)
		synctest.Wait()
		for n := range 50 {
			long := strings.Repeat("x", 2000)
			_, err = e.Pipelines().Send(t.Context(), p.ID, core.PhaseComplete{Phase: fmt.Sprint("p", n), Result: json.RawMessage(fmt.Sprintf(`"%d %s"`, n, long))})
			require.NoError(t, err)
		}
		stop()
		counted := &countedBatches{Store: st}
		trail, err := replay.History(t.Context(), counted, p.Ref(), replay.HistoryOptions{Limit: 3})
		require.NoError(t, err)
		require.Len(t, trail.Steps, 3)
		for i, s := range trail.Steps {
			var was, is core.Pipeline
			require.NoError(t, json.Unmarshal(s.Before, &was))
			require.NoError(t, json.Unmarshal(s.After, &is))
			assert.True(t, strings.HasPrefix(string(is.Context["o"]), fmt.Sprintf(`"%d x`, 49-i)))
			assert.True(t, strings.HasPrefix(string(was.Context["o"]), fmt.Sprintf(`"%d x`, 48-i)))
			assert.Len(t, is.Definition.Phases, 60)
		}
		assert.LessOrEqual(t, counted.n, 12, "three of the pipeline, and those of its parts")
	})
}
