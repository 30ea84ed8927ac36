package shell_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/store"
)

// C12.
func TestTheRetentionOfAnActionCountsFromItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := running(t, shell.Options{Store: inMemory(t), Tools: tools(&counting{}), TickRate: time.Hour, ActionRetention: 24 * time.Hour})
		a, err := e.Actions().Create(bg(), core.ActionSpec{ToolName: "count", Trigger: at(40 * time.Hour)})
		require.NoError(t, err)
		elapse(62 * time.Hour)
		a, err = e.Actions().Get(bg(), a.ID)
		require.NoError(t, err, "it was created 62 hours ago, but ended 22 hours ago")
		assert.Equal(t, core.StatusCompleted, a.Status.Type)
		elapse(4 * time.Hour)
		_, err = e.Actions().Get(bg(), a.ID)
		require.ErrorIs(t, err, shell.ErrNotFound)
	})
}

// F3.
func TestTheJournalReachesBackAsFarAsItMustAndNotMuchFarther(t *testing.T) {
	const keep = 70 * time.Hour
	synctest.Test(t, func(t *testing.T) {
		st := inMemory(t)
		e := running(t, shell.Options{Store: st, Tools: tools(&counting{}), TickRate: time.Hour, JournalRetention: keep})
		begin := time.Now()
		var last []uint64 // the last batch of each hour
		for hour := range 240 {
			_, err := e.Actions().Execute(bg(), core.ActionSpec{ToolName: "count"})
			require.NoError(t, err)
			synctest.Wait()
			enough := errors.New("the first one is enough")
			var first uint64
			require.NoError(t, st.View(bg(), func(tx store.ReadTx) error {
				seq, err := tx.Seq()
				last = append(last, seq)
				if err := tx.Journal(0, func(seq uint64, _ []byte) error { first = seq; return enough }); !errors.Is(err, enough) {
					return err
				}
				return err
			}))
			for then, seq := range last {
				switch age := time.Since(begin) - time.Duration(then)*time.Hour; {
				case age <= keep:
					require.LessOrEqual(t, first, seq, "hour %d: what happened %s ago", hour, age)
				case age > keep*9/7:
					require.Greater(t, first, seq, "hour %d: what happened %s ago", hour, age)
				}
			}
			elapse(time.Hour)
		}
	})
}
