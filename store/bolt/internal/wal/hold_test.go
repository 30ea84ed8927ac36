package wal_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/store/bolt/internal/disk/disktest"
	"github.com/orrery-go/orrery/store/bolt/internal/wal"
)

// TestADropStopsAtTheFirstSegmentThatIsHeld holds the same log in two places, as a reader and
// a copier do, and drops all of it after each step.
func TestADropStopsAtTheFirstSegmentThatIsHeld(t *testing.T) {
	d := disktest.New()
	l, err := wal.Create(dir, id, 1, wal.Options{FS: d, SegmentSize: 4096})
	require.NoError(t, err)
	for range 40 {
		_, err := l.Append([]byte(strings.Repeat("x", 1200)))
		require.NoError(t, err)
	}
	require.NoError(t, l.Sync())
	dropAll := func() { require.NoError(t, l.Drop(l.Last())) }
	_, held := l.Held()
	require.False(t, held)

	reader, copier := l.Hold(8), l.Hold(20)
	dropAll()
	require.Len(t, frames(t, l, 8), 33)
	require.ErrorIs(t, l.Replay(1, nil), wal.ErrMissing, "what nobody holds is dropped")

	copier.Move(30)
	dropAll()
	require.Len(t, frames(t, l, 8), 33, "the other one still holds them")

	reader.Release()
	reader.Release()
	first, held := l.Held()
	require.True(t, held)
	require.Equal(t, uint64(30), first)
	dropAll()
	require.Len(t, frames(t, l, 30), 11)
	require.ErrorIs(t, l.Replay(20, nil), wal.ErrMissing)

	copier.Move(10)
	first, _ = l.Held()
	require.Equal(t, uint64(30), first, "a hold moves on only")
	copier.Release()
	dropAll()
	require.ErrorIs(t, l.Replay(30, nil), wal.ErrMissing, "nothing is held any more")
	(*wal.Hold)(nil).Release()
	require.NoError(t, l.Close())
}
