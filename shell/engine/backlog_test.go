package engine_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/engine"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/memory"
)

// Forty schedules are due in the same millisecond, in which each makes an action, and the first batch is too
// slow for all of its actions. Those that it leaves stand in the due index before the
// place to which the sweep has read, and do not wait for the next tick.
func TestWhatABatchMakesDueAndLeavesDoesNotWaitForTheNextTick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, now := memory.New(), effects.TimeOf(time.Now())
		var inputs []core.Input
		woken := 0
		for n := range 40 {
			spec := core.RecurringSpec{
				ID: uuid.UUID{0: 0xff, 15: byte(n)}, Namespace: "ns", Tenant: "b", CronExpr: "@every 24h", Enabled: true,
				ActionTemplate:  core.RecurringActionTemplate{Provider: "noop", ActionType: "x"},
				ScheduleOptions: core.ScheduleOptions{StartsAt: now.Add(time.Hour)},
			}
			inputs = append(inputs, core.Input{To: effects.Ref{Kind: core.KindRecurring, ID: spec.ID}, Actor: "test", Event: core.RecurringCreate{Spec: spec}})
		}
		write(t, st, func(tx store.Tx) error {
			require.NoError(t, tx.Put(1, decided(t, now, inputs...)))
			return tx.AppendJournal(1, now, core.NewEntry(1, now, "test").AppendJSON(nil))
		})
		e := idle(t, engine.Options{
			Store: st, MaxBatch: 16, TickRate: 24 * time.Hour, LeaseTTL: 24 * time.Hour,
			Hooks: engine.Hooks{DueEvent: func(s core.State) core.Event {
				if slow := 3; s.Ref().Kind == core.KindAction && woken < slow {
					woken++
					<-time.After(10 * time.Millisecond)
				}
				return core.DueEvent(s.Ref().Kind)
			}},
		})
		begin(t, e)
		<-time.After(2 * time.Hour)
		synctest.Wait()
		actions := 0
		require.NoError(t, st.View(t.Context(), func(tx store.ReadTx) error {
			return tx.Records(func(r store.Record) error {
				s, err := core.DecodeState(r.Kind, r.State)
				if a, ok := s.(core.Action); ok {
					actions++
					assert.True(t, a.Status.Type.Terminal(), "%s is %s", a.ID, a.Status.Type)
				}
				return err
			})
		}))
		assert.Equal(t, 40, actions)
	})
}

func TestTheShareOfATenantInTheDueIndexStaysAsItIsStored(t *testing.T) {
	assert.Equal(t, uint32(0x4fd0bfc1), engine.DueShare(core.Scope{}))
	assert.Equal(t, uint32(0x0277b974), engine.DueShare(core.Scope{Namespace: "ns", Tenant: "a"}))
	assert.NotEqual(t, engine.DueShare(core.Scope{Namespace: "ns", Tenant: "a"}), engine.DueShare(core.Scope{Namespace: "ns", Tenant: "b"}))
	assert.NotEqual(t, engine.DueShare(core.Scope{Namespace: "n", Tenant: "sa"}), engine.DueShare(core.Scope{Namespace: "ns", Tenant: "a"}))
}
