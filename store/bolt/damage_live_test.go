package bolt_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/bolt"
)

// TestAPageThatIsDamagedUnderARunningStoreLosesNothingThatIsAcknowledged: the checkpoint that meets the page
// says what to do, commits go on into the log, and a salvage brings all of it back.
func TestAPageThatIsDamagedUnderARunningStoreLosesNothingThatIsAcknowledged(t *testing.T) {
	for name, harm := range map[string]func(page []byte){
		"its head": func(page []byte) { page[8] ^= 0x40 },
		"all of it": func(page []byte) {
			clear(page)
		},
	} {
		t.Run(name, func(t *testing.T) {
			const before, after = 600, 880
			path := filepath.Join(t.TempDir(), "orrery.db")
			s, err := bolt.Open(path, bolt.Options{NoSync: true})
			require.NoError(t, err)
			require.NoError(t, commit(s, batchOf(0, before)))
			require.NoError(t, bolt.Checkpoint(s))
			require.NoError(t, s.LogStats().Err)
			backup := filepath.Join(t.TempDir(), "backup.db")
			_, err = s.BackupFile(ctx, backup)
			require.NoError(t, err)
			last := batchOf(before-1, 1)[0].ID
			damagePageOf(t, path, func(page []byte) bool { // of a list
				const name, time = "status:pending", 8
				at := bytes.Index(page, last[:])
				return at > 0 && bytes.HasPrefix(page[max(0, at-time-len(name)):], []byte(name))
			}, harm)

			for n := before; n < after; n += 20 { // no commit reads the list, each adds to that page
				require.NoError(t, commit(s, batchOf(n, 20)), "it is taken")
			}
			err = bolt.Checkpoint(s)
			require.ErrorIs(t, err, store.ErrCorrupt)
			require.ErrorContains(t, err, "salvage the file")
			stats := s.LogStats()
			require.ErrorIs(t, stats.Err, store.ErrCorrupt)
			require.Positive(t, stats.Failed)
			require.NoError(t, commit(s, batchOf(after, 5)), "it still is")
			require.ErrorIs(t, s.Close(), store.ErrCorrupt)
			require.DirExists(t, path+logSuffix, "which has what the file has not")

			to := filepath.Join(t.TempDir(), "new.db")
			found, err := bolt.Salvage(ctx, path, to, bolt.SalvageOptions{Index: index(1000), Backup: backup})
			require.NoError(t, err)
			require.Empty(t, found.Left)
			require.NotZero(t, found.Log)
			assert.Equal(t, after+5, salvaged(t, to))
		})
	}
}

// damagePageOf harms the leaves of a file that are meant.
func damagePageOf(t *testing.T, path string, is func(page []byte) bool, harm func(page []byte)) {
	t.Helper()
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	size, found := os.Getpagesize(), false
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	for at := 2 * size; at+size <= len(raw); at += size {
		page := raw[at : at+size]
		if is(page) && page[8] == 2 { // a leaf, in use or not
			harm(page)
			_, err := f.WriteAt(page, int64(at))
			require.NoError(t, err)
			found = true
		}
	}
	require.True(t, found)
	require.NoError(t, f.Close())
}
