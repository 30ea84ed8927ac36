package bolt_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/bolt"
)

// TestAViewThatKeepsTooMuchFailsWithWhatToDo reads by several methods, of which one stands under no
// guard of its own.
func TestAViewThatKeepsTooMuchFailsWithWhatToDo(t *testing.T) {
	ctx := context.Background()
	s, err := bolt.Open(filepath.Join(t.TempDir(), "orrery.db"), bolt.Options{NoSync: true, ViewBytes: 1 << 20})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	run := uuid.New()
	write := func(attempt uint32) {
		require.NoError(t, s.Update(ctx, func(tx store.Tx) error {
			return tx.PutRunLog(run, attempt, []byte(strings.Repeat("log ", 64<<10)))
		}))
	}
	write(0)
	for name, fn := range map[string]func(store.ReadTx) error{
		"a run log":                    func(tx store.ReadTx) error { _, err := tx.RunLog(run, 0); return err },
		"the epochs":                   func(tx store.ReadTx) error { _, err := tx.Epochs(); return err },
		"the number of the last batch": func(tx store.ReadTx) error { _, err := tx.Seq(); return err },
	} {
		t.Run(name, func(t *testing.T) {
			err := s.View(ctx, func(tx store.ReadTx) error {
				_, err := tx.RunLog(run, 0)
				require.NoError(t, err)
				for n := range uint32(40) {
					write(n + 1)
				}
				require.NoError(t, bolt.Checkpoint(s))
				return fn(tx)
			})
			require.ErrorIs(t, err, store.ErrViewTooOld)
			require.NotErrorIs(t, err, store.ErrCorrupt)
			require.ErrorContains(t, err, "read in shorter Views")
		})
	}
	require.NoError(t, s.View(ctx, func(tx store.ReadTx) error { _, err := tx.RunLog(run, 0); return err }))
	require.EqualValues(t, 3, s.LogStats().ViewsEnded)
}
