package rewind_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/rewind"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/bolt"
)

// file makes a closed database file in two epochs.
func file(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "orrery.db")
	open := func() *bolt.Store {
		st, err := bolt.Open(path, bolt.Options{NoSync: true})
		require.NoError(t, err)
		return st
	}
	st := open()
	k := newKitOf(t, st)
	for n := byte(1); n <= 40; n++ {
		k.batch(create(n))
		if n == 20 {
			k.update(func(tx store.Tx) error { return tx.BeginEpoch(at(20)) })
		}
		if n%10 == 0 { // what a checkpoint brings is a block of its own
			require.NoError(t, st.Close())
			st = open()
			k.st = st
		}
		if n > 10 {
			k.batch(to(n-10, core.ActionTrigger{}))
			k.batch(to(n-10, core.ActionComplete{Run: 1}, 1))
			k.batch(to(n-10, core.ActionExpire{}))
		}
	}
	require.NoError(t, st.Close())
	return path
}

// restored rewinds a file into a new one.
func restored(t *testing.T, from, to string, batch uint64) (bolt.Restored, error) {
	return bolt.Restore(t.Context(), from, to, bolt.RestoreOptions{Batch: batch, Undo: func(st *bolt.Store, batch uint64, at effects.Time) store.Exporter {
		return rewind.New(st, rewind.Options{Batch: batch, At: at})
	}})
}

// contentOf reads the records and the journal of a file.
func contentOf(t *testing.T, path string) (texts []string, records int) {
	st, err := bolt.Open(path, bolt.Options{ReadOnly: true})
	require.NoError(t, err)
	view(t, st, func(tx store.ReadTx) {
		require.NoError(t, tx.Records(func(r store.Record) error {
			texts = append(texts, string(r.State))
			return nil
		}))
		records = len(texts)
		require.NoError(t, tx.Journal(0, func(_ uint64, entry []byte) error {
			texts = append(texts, string(entry))
			return nil
		}))
	})
	require.NoError(t, st.Close())
	return texts, records
}

// TestADamagedJournalIsToldOrMakesNoDifference flips bits in all of the journal's file.
func TestADamagedJournalIsToldOrMakesNoDifference(t *testing.T) {
	path := file(t)
	want := map[uint64][]string{}
	for _, batch := range []uint64{15, 60} { // of both epochs
		to := fmt.Sprintf("%s.%d", path, batch)
		_, err := restored(t, path, to, batch)
		require.NoError(t, err)
		want[batch], _ = contentOf(t, to)
	}
	parts, err := filepath.Glob(path + ".journal/*")
	require.NoError(t, err)
	require.Len(t, parts, 2, "an epoch begins a file")
	refused, cut := 0, map[uint64]int{}
	for _, part := range parts {
		sound, err := os.ReadFile(part)
		require.NoError(t, err)
		for place := 0; place < len(sound); place += max(len(sound)/30, 1) {
			harmed := slices.Clone(sound)
			harmed[place] ^= 0x10
			require.NoError(t, os.WriteFile(part, harmed, 0o600))
			for batch, want := range want {
				to := filepath.Join(t.TempDir(), "new.db")
				r, err := restored(t, path, to, batch)
				if err != nil {
					refused++
					assert.True(t, errors.Is(err, store.ErrCorrupt) || errors.Is(err, rewind.ErrUnreachable), "%v", err)
					require.NoFileExists(t, to)
					require.NoDirExists(t, to+".journal")
					continue
				}
				got, records := contentOf(t, to)
				if r.Copied.Left > 0 {
					cut[batch]++
					got, want = got[:records], want[:records]
				}
				assert.Equal(t, want, got, "byte %d of %s", place, part)
			}
		}
		require.NoError(t, os.WriteFile(part, sound, 0o600))
	}
	assert.Positive(t, refused)
	assert.Len(t, cut, 2, "only the journal is less")
}
