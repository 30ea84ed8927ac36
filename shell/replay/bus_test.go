package replay_test

import (
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

// subscribed gives a subscription to all that actions announce: what the queue
// gets tells whether the replay has routed it too.
func subscribed(name string) core.BusSubscribe {
	return core.BusSubscribe{Subscriber: core.Subscription{
		Name: name, Match: core.EventMatch{Category: "action"},
		Do: core.Reaction{Push: &core.PushReaction{MachineName: core.MachineName{Name: "heard"}}},
	}}
}

func complete(t *testing.T, e *shell.Engine) {
	t.Helper()
	_, err := e.Actions().Create(t.Context(), core.ActionSpec{ToolName: "ok"})
	require.NoError(t, err)
	<-time.After(time.Second)
	synctest.Wait()
}

// The bus is read by every announcement, though no batch writes it: a replay must
// find it also where the batch that wrote it is dropped.
func TestTheBusIsFoundThoughTheJournalBeginsAfterItsSubscription(t *testing.T) {
	for name, later := range map[string]func(t *testing.T, st store.Store){
		"never changed again": func(*testing.T, store.Store) {},
		"changed in a later epoch": func(t *testing.T, st store.Store) {
			require.NoError(t, st.Update(t.Context(), func(tx store.Tx) error { return tx.BeginEpoch(effects.TimeOf(time.Now())) }))
			worked(t, st, func(e *shell.Engine) {
				complete(t, e)
				_, err := e.Send(t.Context(), core.BusRef(), subscribed("second"))
				require.NoError(t, err)
				complete(t, e)
			})
		},
		"removed in a later epoch": func(t *testing.T, st store.Store) {
			require.NoError(t, st.Update(t.Context(), func(tx store.Tx) error { return tx.BeginEpoch(effects.TimeOf(time.Now())) }))
			worked(t, st, func(e *shell.Engine) {
				_, err := e.Send(t.Context(), core.BusRef(), core.BusUnsubscribe{Name: "first"})
				require.NoError(t, err)
				complete(t, e)
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := memory.New()
				worked(t, st, func(e *shell.Engine) {
					_, err := e.Send(t.Context(), core.BusRef(), subscribed("first"))
					require.NoError(t, err)
				})
				require.NoError(t, st.Update(t.Context(), func(tx store.Tx) error {
					if err := tx.BeginEpoch(effects.TimeOf(time.Now())); err != nil {
						return err
					}
					_, err := tx.DropEpochs(2, 1000)
					return err
				}))
				worked(t, st, func(e *shell.Engine) { complete(t, e) })
				later(t, st)

				rep, err := replay.Verify(t.Context(), st, replay.Options{})
				require.NoError(t, err)
				assert.Empty(t, rep.Divergences)
				assert.Greater(t, rep.FirstBatch, uint64(1))
			})
		})
	}
}

// What was announced before anybody listened must be routed to nobody.
func TestABusThatIsMadeWithinTheJournalIsNotThereBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memory.New()
		worked(t, st, func(e *shell.Engine) {
			complete(t, e)
			_, err := e.Send(t.Context(), core.BusRef(), subscribed("first"))
			require.NoError(t, err)
			complete(t, e)
		})
		rep, err := replay.Verify(t.Context(), st, replay.Options{})
		require.NoError(t, err)
		assert.Empty(t, rep.Divergences)
		assert.Zero(t, rep.Untouched)
	})
}
