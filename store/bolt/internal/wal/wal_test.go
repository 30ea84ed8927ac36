package wal_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/orrery-go/orrery/store/bolt/internal/wal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var id = [16]byte{'t', 'h', 'e', ' ', 'l', 'o', 'g'}

// frames replays a log from a frame on.
func frames(t *testing.T, l *wal.Log, from uint64) []string {
	t.Helper()
	var got []string
	require.NoError(t, l.Replay(from, func(n uint64, payload []byte) error {
		require.Equal(t, from+uint64(len(got)), n)
		got = append(got, string(payload))
		return nil
	}))
	return got
}

func TestWhatWasAppendedIsReplayedInOrder(t *testing.T) {
	for name, o := range map[string]wal.Options{
		"one segment":   {},
		"many segments": {SegmentSize: 4 << 10},
		"without syncs": {SegmentSize: 4 << 10, NoSync: true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "log")
			l, err := wal.Create(dir, id, 7, o)
			require.NoError(t, err)
			require.Equal(t, uint64(6), l.Last())
			var want []string
			appendSome := func(k int) {
				for range k {
					n, err := l.Append([]byte("frame"), nil, fmt.Appendf(nil, " %d %0100d", len(want)+7, 0))
					require.NoError(t, err)
					require.Equal(t, uint64(len(want)+7), n)
					want = append(want, fmt.Sprintf("frame %d %0100d", n, 0))
					if n%3 == 0 {
						require.NoError(t, l.Sync())
					}
				}
			}
			appendSome(100)
			for range 5 {
				require.Equal(t, want, frames(t, l, 7))
				require.NoError(t, l.Close())
				l, err = wal.Open(dir, id, wal.Options{ReadOnly: true})
				require.NoError(t, err)
				require.Equal(t, want, frames(t, l, 7))
				require.NoError(t, l.Close())
				l, err = wal.Open(dir, id, o)
				require.NoError(t, err)
				appendSome(20)
			}
			require.Equal(t, want[20:], frames(t, l, 27))
			size := l.Size()
			require.NoError(t, l.Drop(l.Last()))
			assert.Less(t, l.Size(), size)
			require.ErrorIs(t, l.Replay(7, nil), wal.ErrMissing)
			appendSome(100)
			require.Equal(t, want[180:], frames(t, l, 187))
			require.NoError(t, l.Close())

			got, has, err := wal.Inspect(dir, wal.Options{})
			require.NoError(t, err)
			require.Equal(t, id, got)
			require.True(t, has)
			require.NoError(t, wal.Remove(dir, wal.Options{}))
			_, _, err = wal.Inspect(dir, wal.Options{})
			require.ErrorIs(t, err, wal.ErrMissing)
			require.NoDirExists(t, dir)
		})
	}
}
