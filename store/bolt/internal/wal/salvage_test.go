package wal_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/store/bolt/internal/wal"
)

func TestAllFramesButTheDamagedOneAreSalvaged(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "log")
	log, err := wal.Create(dir, id, 1, wal.Options{NoSync: true, SegmentSize: 4 << 10})
	require.NoError(t, err)
	const frames = 30
	for n := range frames {
		_, err := log.Append(fmt.Appendf(make([]byte, 500), "frame %d", n+1))
		require.NoError(t, err)
	}
	require.NoError(t, log.Sync())
	require.NoError(t, log.Close())
	segments, err := filepath.Glob(filepath.Join(dir, "*.log"))
	require.NoError(t, err)
	require.Greater(t, len(segments), 3)
	salvage := func() (found []uint64, lost []error) {
		lost, err := wal.Salvage(dir, id, wal.Options{}, func(n uint64, payload []byte) error {
			assert.Contains(t, string(payload), fmt.Sprintf("frame %d", n))
			found = append(found, n)
			return nil
		})
		require.NoError(t, err)
		return found, lost
	}
	found, lost := salvage()
	require.Len(t, found, frames)
	require.Empty(t, lost)

	raw, err := os.ReadFile(segments[1])
	require.NoError(t, err)
	raw[512+100] ^= 4
	require.NoError(t, os.WriteFile(segments[1], raw, 0o600))
	found, lost = salvage()
	require.Len(t, found, frames-1)
	require.Len(t, lost, 1)
	require.ErrorIs(t, lost[0], wal.ErrDamaged)

	require.NoError(t, os.Remove(segments[1]))
	found, lost = salvage()
	require.Less(t, len(found), frames-1)
	require.Len(t, lost, 1)
	require.ErrorContains(t, lost[0], "are not there or cannot be read")

	_, err = wal.Salvage(dir, [16]byte{9}, wal.Options{}, nil)
	require.ErrorIs(t, err, wal.ErrForeign)
}
