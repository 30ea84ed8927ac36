package engine_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/engine"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/memory"
)

// lots asks for so many locks at once, each of a name of its own.
func lots(actor string, n int) engine.Request {
	r := engine.Request{Many: &engine.Many{}}
	for i := range n {
		name := fmt.Sprintf("%s-%d", actor, i)
		r.Inputs = append(r.Inputs, core.Input{
			To: core.LockRef("", "", name), Actor: actor, Event: core.LockAcquire{Name: name, Holder: "h"},
		})
	}
	return r
}

// While one transaction is decided an actor sends three requests of ten inputs, and another
// one sends a single input: it waits for the first ten, and not for all thirty.
func TestWhoSendsManyInputsAtATimeLeavesOthersTheirTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memory.New()
		e := idle(t, engine.Options{Store: st, MaxBatch: 8})
		begin(t, e)
		synctest.Wait()
		var wg sync.WaitGroup
		send := func(r engine.Request) {
			wg.Go(func() {
				_, err := e.Ask(t.Context(), r)
				assert.NoError(t, err)
			})
			synctest.Wait()
		}
		slow := acquire("first")
		slow.If = func(core.State) error { <-time.After(time.Second); return nil }
		send(slow)
		for i := range 3 {
			r := lots(fmt.Sprintf("many-%d", i), 10)
			for j := range r.Inputs {
				r.Inputs[j].Actor = "many"
			}
			send(r)
		}
		send(lots("one", 1))
		wg.Wait()

		var batches [][]string
		require.NoError(t, st.View(t.Context(), func(tx store.ReadTx) error {
			return tx.Journal(0, func(_ uint64, raw []byte) error {
				entry, err := core.DecodeEntry(raw)
				var actors []string
				for _, in := range entry.Inputs {
					if len(actors) == 0 || actors[len(actors)-1] != in.Actor {
						actors = append(actors, in.Actor)
					}
				}
				batches = append(batches, actors)
				return err
			})
		}))
		assert.Equal(t, [][]string{{""}, {"many"}, {"one", "many"}, {"many"}}, batches)
	})
}

func TestManyInputsAreAnsweredEachWithTheStateThatIsWanted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := idle(t, engine.Options{Store: memory.New()})
		begin(t, e)
		r := lots("ann", 3)
		r.Inputs[1] = r.Inputs[0]
		r.Inputs[1].Event = core.LockRelease{Token: 7}
		for _, in := range r.Inputs {
			r.Many.Want = append(r.Many.Want, in.To)
		}
		rep, err := e.Ask(t.Context(), r)
		require.NoError(t, err)
		require.NoError(t, rep.Err)
		require.Len(t, rep.Each, 3)
		require.NoError(t, rep.Each[0].Err)
		require.Error(t, rep.Each[1].Err, "its refusal")
		require.NoError(t, rep.Each[2].Err)
		for _, a := range rep.Each {
			lock, ok := a.State.(core.Lock)
			require.True(t, ok)
			assert.Equal(t, "h", lock.Holder)
		}

		r.Many.All = true
		for i := range r.Inputs {
			r.Inputs[i].To.ID[15]++ // others
		}
		rep, err = e.Ask(t.Context(), r)
		require.NoError(t, err)
		var of *engine.EntryError
		require.ErrorAs(t, rep.Err, &of)
	})
}
