package bolt_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/bolt"
)

// With pages left half full they would take twice as much.
func TestRecordsWhoseIdsAreTimeOrderedFillTheirPages(t *testing.T) {
	const batches, each, size = 160, 250, 760
	path := filepath.Join(t.TempDir(), "orrery.db")
	st, err := bolt.Open(path, bolt.Options{NoSync: true})
	require.NoError(t, err)
	state := append(append([]byte{'"'}, bytes.Repeat([]byte{'x'}, size-2)...), '"')
	for seq := uint64(1); seq <= batches; seq++ {
		writes := make([]store.Write, each)
		for i := range writes {
			id, err := uuid.NewV7()
			require.NoError(t, err)
			writes[i] = store.Write{Kind: "action", ID: id, State: state}
		}
		require.NoError(t, st.Update(t.Context(), func(tx store.Tx) error {
			if err := tx.Put(seq, writes); err != nil {
				return err
			}
			return tx.AppendJournal(seq, 1, []byte(`{}`))
		}))
	}
	require.NoError(t, st.Close())
	info, err := os.Stat(path)
	require.NoError(t, err)
	assert.Less(t, info.Size(), int64(batches*each*size*2))
}
