package shell_test

import (
	"errors"
	"path/filepath"
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
	"github.com/orrery-go/orrery/store/bolt"
	"github.com/orrery-go/orrery/store/memory"
)

func TestAllThatIsOlderThanTheJournalMustReachIsDropped(t *testing.T) {
	path := filepath.Join(t.TempDir(), "orrery.db")
	synctest.Test(t, func(t *testing.T) {
		st, err := bolt.Open(path, bolt.Options{NoSync: true})
		require.NoError(t, err)
		now := effects.TimeOf(time.Now())
		require.NoError(t, st.Update(bg(), func(tx store.Tx) error {
			for seq := range uint64(9000) { // more than one batch drops
				if err := tx.AppendJournal(seq+1, now, core.NewEntry(seq+1, now, "test").AppendJSON(nil)); err != nil {
					return err
				}
			}
			return nil
		}))
		_, stop := start(t, shell.Options{Store: st, Tools: tools(&counting{}), JournalRetention: 70 * time.Minute})
		elapse(100 * time.Minute)
		require.NoError(t, stop())
		require.NoError(t, st.Close())
	})
	st, err := bolt.Open(path, bolt.Options{ReadOnly: true})
	require.NoError(t, err)
	require.NoError(t, st.View(bg(), func(tx store.ReadTx) error {
		epochs, err := tx.Epochs()
		assert.Greater(t, epochs[0].First, uint64(9000))
		return errors.Join(err, tx.Journal(0, func(uint64, []byte) error { return errors.New("there is a batch") }))
	}))
	require.NoError(t, st.Close())
}

func TestTheJournalHasNoMoreBytesThanItMay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 20_000
		st := inMemory(t)
		e := running(t, shell.Options{Store: st, Tools: tools(&counting{}), TickRate: time.Minute, JournalBytes: most})
		greatest := int64(0)
		for range 240 {
			_, err := e.Actions().Execute(bg(), core.ActionSpec{ToolName: "count"})
			require.NoError(t, err)
			elapse(time.Minute)
			require.NoError(t, st.View(bg(), func(tx store.ReadTx) error {
				bytes, err := tx.JournalBytes(0, 0)
				greatest = max(greatest, bytes)
				return err
			}))
		}
		assert.LessOrEqual(t, greatest, int64(most*12/10), "what one minute adds goes with the next")
		assert.Greater(t, greatest, int64(most*5/7), "what it may have it has")
	})
}

func TestAnotherCoreBeginsAnEpochOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := inMemory(t)
		epochs := func() (found []store.Epoch) {
			require.NoError(t, st.View(bg(), func(tx store.ReadTx) (err error) {
				found, err = tx.Epochs()
				return err
			}))
			return found
		}
		for _, was := range []string{"", `"` + core.Version + `"`, `"0"`} {
			require.NoError(t, st.Update(bg(), func(tx store.Tx) error {
				if was == "" {
					return tx.SetMeta("journal-core", nil)
				}
				return tx.SetMeta("journal-core", []byte(was))
			}))
			e, stop := start(t, shell.Options{Store: st, Tools: tools(&counting{})})
			_, err := e.Actions().Execute(bg(), core.ActionSpec{ToolName: "count"})
			require.NoError(t, err)
			elapse(2 * time.Minute)
			require.NoError(t, stop())
		}
		list := epochs()
		require.Len(t, list, 3, "one that a new store begins, none since, and one for the other core")
		assert.Equal(t, uint64(1), list[1].First)
		assert.Equal(t, uint64(5), list[2].First, "two actions of two batches each")
	})
}

func TestEpochsGoOnAfterAClockThatWasAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock, st := &jumping{}, inMemory(t)
		_, stop := start(t, shell.Options{Store: st, Tools: tools(&counting{}), Clock: clock, TickRate: time.Hour})
		clock.jump(365 * 24 * time.Hour)
		elapse(2 * time.Hour)
		clock.jump(-365 * 24 * time.Hour)
		elapse(30 * 24 * time.Hour)
		require.NoError(t, st.View(bg(), func(tx store.ReadTx) error {
			epochs, err := tx.Epochs()
			assert.Greater(t, len(epochs), 5)
			assert.Less(t, len(epochs), 12)
			assert.InDelta(t, 8*24, time.Since(epochs[0].Started.Std()).Hours(), 26)
			return err
		}))
		require.NoError(t, stop())
	})
}

func TestALostRunIsSettledThoughTheClockWasSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, clock := memory.NewSession("first"), &jumping{}
		var id uuid.UUID
		o := shell.Options{Store: st, Tools: tools(newGate()), TickRate: 10 * time.Second, Clock: clock}
		crashed(t, o, func(e *shell.Engine) {
			a, err := e.Actions().Create(bg(), core.ActionSpec{ToolName: "count"})
			require.NoError(t, err)
			id = a.ID
		})
		clock.jump(-24 * time.Hour)
		o.Store, o.Tools = st.Reopen("second"), tools(&counting{})
		e, stop := start(t, o)
		elapse(19 * time.Second)
		a := actionOf(t, e, id)
		assert.Equal(t, core.StatusRunning, a.Status.Type, "recover_after is 20 s")
		elapse(2 * time.Second)
		a = actionOf(t, e, id)
		assert.Equal(t, core.StatusFailed, a.Status.Type)
		require.NoError(t, stop())
	})
}

func TestAStrictTickReadsAllWebhooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counting{}
		e := running(t, shell.Options{Store: inMemory(t), Tools: tools(c), StrictTick: true, Webhooks: map[string]shell.WebhookRoute{"r": {Tool: "count"}}})
		synctest.Wait()
		for range 500 {
			_, err := e.Webhooks().Receive(bg(), "r", nil, []byte("x"))
			require.NoError(t, err)
		}
		assert.Zero(t, c.n.Load())
		elapse(61 * time.Second)
		assert.EqualValues(t, 500, c.n.Load())
	})
}

func TestTheCallerMayUseItsMapsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := running(t, shell.Options{Store: inMemory(t), Tools: tools(&counting{})})
		m, input := map[string]string{"n": "0"}, []byte(`{"n":0}`)
		a, err := e.Actions().Create(bg(), core.ActionSpec{ToolName: "count", Trigger: at(time.Second), Labels: m, Metadata: m, ToolInput: input})
		require.NoError(t, err)
		spec := everyMinute()
		spec.Labels, spec.ActionTemplate.Metadata, spec.ActionTemplate.Payload = m, m, input
		r, err := e.Recurring().Create(bg(), spec)
		require.NoError(t, err)
		m["n"], input[5] = "1", '1'
		a, err = e.Actions().Wait(bg(), a.ID)
		require.NoError(t, err)
		r, err = e.Recurring().Pause(bg(), r.ID, "")
		require.NoError(t, err)
		for _, got := range []map[string]string{a.Labels, a.Metadata, r.Labels, r.ActionTemplate.Metadata} {
			assert.Equal(t, "0", got["n"])
		}
		assert.JSONEq(t, `{"n":0}`, string(a.ToolInput))
		assert.JSONEq(t, `{"n":0}`, string(r.ActionTemplate.Payload))

		r, err = e.Recurring().Update(bg(), r.ID, core.RecurringPatch{Labels: &m, Metadata: &m, Payload: input})
		require.NoError(t, err)
		m["n"], input[5] = "2", '2'
		r, err = e.Recurring().Pause(bg(), r.ID, "again")
		require.NoError(t, err)
		assert.Equal(t, "1", r.Labels["n"]+r.ActionTemplate.Metadata["n"][1:])
		assert.JSONEq(t, `{"n":1}`, string(r.ActionTemplate.Payload))
	})
}

func TestASubscriberMayCloseItsSubscriptionWhileItIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := running(t, shell.Options{Store: inMemory(t), Tools: tools(&counting{})})
		var s *shell.Subscription
		made := make(chan struct{})
		s = e.Subscribe(func(effects.Event) bool { <-made; s.Close(); return true }, 1)
		close(made)
		_, err := e.Actions().Execute(bg(), core.ActionSpec{ToolName: "count"})
		require.NoError(t, err)
		_, open := <-s.C
		assert.False(t, open)
		assert.Zero(t, s.Dropped())
	})
}

func TestAWaiterSeesWhatAnotherInstanceHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := inMemory(t)
		a := running(t, shell.Options{Store: st, TickRate: time.Hour})
		b := running(t, shell.Options{Store: st, Tools: tools(&counting{}), TickRate: time.Hour})
		x, err := b.Actions().Create(bg(), core.ActionSpec{ToolName: "count", Trigger: at(time.Second)})
		require.NoError(t, err)
		begin := time.Now()
		x, err = a.Actions().Wait(bg(), x.ID)
		require.NoError(t, err)
		assert.True(t, x.Status.Type.Terminal())
		assert.LessOrEqual(t, time.Since(begin), time.Minute)
	})
}
