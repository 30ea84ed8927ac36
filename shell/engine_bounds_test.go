package shell_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/internal/raced"
	"github.com/orrery-go/orrery/store"
)

// inBatches tells how many inputs of that type are journaled, and how many one
// batch has at most.
func inBatches(t *testing.T, st store.Store, event string) (all, most int) {
	t.Helper()
	require.NoError(t, st.View(bg(), func(tx store.ReadTx) error {
		return tx.Journal(0, func(_ uint64, raw []byte) error {
			b, err := core.DecodeEntry(raw)
			n := 0
			for _, in := range b.Inputs {
				if in.Event.EventType() == event {
					n++
				}
			}
			all, most = all+n, max(most, n)
			return err
		})
	}))
	return all, most
}

func TestASweepReadsNoMoreAtATimeThanABatchMayHold(t *testing.T) {
	raced.Skip(t)
	synctest.Test(t, func(t *testing.T) {
		st := inMemory(t)
		o := shell.Options{Store: st, Tools: tools(&counting{}), TickRate: time.Hour}
		e, stop := start(t, o)
		input := json.RawMessage(`"` + strings.Repeat("x", core.MaxInputBytes-2) + `"`)
		for range 19 {
			_, err := e.Actions().Create(bg(), core.ActionSpec{ToolName: "count", Trigger: at(time.Minute), ToolInput: input})
			require.NoError(t, err)
		}
		require.NoError(t, stop())

		e = running(t, o) // which knows none of them yet
		elapse(2 * time.Minute)
		s, err := e.Stats(bg())
		require.NoError(t, err)
		assert.EqualValues(t, 19, s.ActionsByStatus[core.StatusCompleted], "all at their time nevertheless")
		all, most := inBatches(t, st, core.ActionDue{}.EventType())
		assert.Equal(t, 19, all)
		assert.LessOrEqual(t, most, 17, "16 MiB, of which each takes a little more than one")
	})
}

func TestATickReadsNoMoreWebhooksAtATimeThanABatchMayHold(t *testing.T) {
	raced.Skip(t)
	synctest.Test(t, func(t *testing.T) {
		st, c := inMemory(t), &counting{}
		e := running(t, shell.Options{Store: st, Tools: tools(c), TickRate: time.Minute, StrictTick: true, Webhooks: map[string]shell.WebhookRoute{"r": {Tool: "count"}}})
		synctest.Wait()
		body := make([]byte, 2<<20)
		for range 10 {
			_, err := e.Webhooks().Receive(bg(), "r", nil, body)
			require.NoError(t, err)
		}
		elapse(61 * time.Second)
		assert.EqualValues(t, 10, c.n.Load(), "all of them at the tick nevertheless")
		all, most := inBatches(t, st, core.ActionCreate{}.EventType())
		assert.Equal(t, 10, all)
		assert.LessOrEqual(t, most, 9, "16 MiB, of which each takes two")
	})
}

func TestWebhooksAreAllReadThoughTheyAreMoreThanAreReadAtATime(t *testing.T) {
	for _, strict := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			st, c := inMemory(t), &counting{}
			o := shell.Options{Store: st, Tools: tools(c), TickRate: time.Hour, StrictTick: true, Webhooks: map[string]shell.WebhookRoute{"r": {Tool: "count"}}}
			e, stop := start(t, o)
			synctest.Wait()
			for range 300 {
				_, err := e.Webhooks().Receive(bg(), "r", nil, []byte("x"))
				require.NoError(t, err)
			}
			require.NoError(t, stop())
			require.Zero(t, c.n.Load(), "they wait for the tick")

			o.StrictTick = strict
			running(t, o)
			elapse(time.Second)
			assert.EqualValues(t, 300, c.n.Load(), "strict_tick=%v", strict)
		})
	}
}

func TestARequestDuringTheBackOffBeginsNoTick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &full{Store: inMemory(t)}
		e := running(t, shell.Options{Store: f, Tools: tools(&counting{}), TickRate: 10 * time.Second})
		ticks := func() uint64 {
			synctest.Wait()
			s, err := e.Stats(bg())
			require.NoError(t, err)
			return s.Ticks
		}
		refused := func() {
			_, err := e.Actions().Create(bg(), core.ActionSpec{ToolName: "count"})
			require.Error(t, err)
		}
		elapse(9500 * time.Millisecond)
		f.is.Store(true)
		refused() // the next try of its own accord is later than 10.2 s
		elapse(700 * time.Millisecond)
		require.EqualValues(t, 1, ticks(), "the tick of 10 s is put off")
		refused()
		assert.EqualValues(t, 1, ticks(), "the request was tried, and nothing else")
		f.is.Store(false)
		elapse(5 * time.Second)
		assert.EqualValues(t, 2, ticks())
	})
}

func TestATickThatCannotBeStoredIsTriedAgainAfterAWhileOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := &full{Store: inMemory(t)}, &counting{}
		e := running(t, shell.Options{Store: f, Tools: tools(c), TickRate: 10 * time.Second})
		_, err := e.Actions().Create(bg(), core.ActionSpec{ToolName: "count", Trigger: at(5 * time.Second)})
		require.NoError(t, err)
		f.is.Store(true)
		elapse(30 * time.Second) // tried at 5, 6, 8, 12, 20 and 30 s
		assert.LessOrEqual(t, f.tries.Load(), int64(6))
		assert.GreaterOrEqual(t, f.tries.Load(), int64(5))
		assert.Zero(t, c.n.Load())
		f.is.Store(false)
		elapse(10 * time.Second)
		assert.EqualValues(t, 1, c.n.Load())
	})
}

func TestAPageOfPipelinesEndsWithWhatTheyKeepAsRecordsOfTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := running(t, shell.Options{Store: inMemory(t)})
		def := core.PipelineDef{Name: "long"}
		for n := range 100 {
			def.Phases = append(def.Phases, core.PhaseDef{Name: fmt.Sprint("p", n), Manual: &core.ManualPhase{Instructions: strings.Repeat("look ", 20)}})
		}
		for range 10 {
			_, err := e.Pipelines().Create(bg(), core.PipelineSpec{Definition: def, Hold: true})
			require.NoError(t, err)
		}
		list, next, err := e.Pipelines().List(bg(), shell.MachineFilter{}, shell.Page{MaxBytes: 40_000})
		require.NoError(t, err)
		assert.NotEmpty(t, next)
		assert.Len(t, list, 3, "a definition has more than 13,000 bytes")
	})
}
