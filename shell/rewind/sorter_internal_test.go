package rewind

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	_ "github.com/orrery-go/orrery/effects/seedtest"
)

func TestWhateverIsSortedComesInOrderWithAndWithoutMemory(t *testing.T) {
	folder := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		type pair struct{ key, value []byte }
		s := newSorter(folder, rapid.Int64Range(0, 20_000).Draw(t, "memory"))
		var want []pair
		for i := range rapid.IntRange(0, 300).Draw(t, "n") {
			key := append(rapid.SliceOfN(rapid.Byte(), 0, 5).Draw(t, "key"), byte(i>>8), byte(i))
			value := bytes.Repeat([]byte{byte(i)}, rapid.SampledFrom([]int{0, 1, 100, 10_000}).Draw(t, "size"))
			want = append(want, pair{key, value})
			require.NoError(t, s.add(key, value))
		}
		slices.SortFunc(want, func(a, b pair) int { return bytes.Compare(a.key, b.key) })
		require.NoError(t, s.begin())
		for _, p := range want {
			key, value, ok := s.peek()
			require.True(t, ok)
			require.Equal(t, p.key, key)
			require.Equal(t, p.value, append([]byte{}, value...))
			require.NoError(t, s.next())
		}
		_, _, ok := s.peek()
		require.False(t, ok)
		require.NoError(t, s.close())
		left, err := os.ReadDir(folder)
		require.NoError(t, err)
		require.Empty(t, left)
	})
}

func TestAFolderThatIsNotThereIsNamed(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "missing")
	s := newSorter(folder, 0)
	require.NoError(t, s.add([]byte("a"), make([]byte, leastMost)))
	err := s.add([]byte("b"), nil)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, folder)
	require.NoError(t, s.close())
}
