package replay

import (
	"encoding/binary"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/orrery-go/orrery/effects"
)

// Hashes that agree in all that the index keeps of them are the hard case.
func TestTheIndexFindsWhatWasPutIntoItAndNothingElse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x, want := index{}, map[uint64]int64{} // hash with its number to place
		hash := func(n uint64) uint64 { return n % 3 << 56 * (n % 2) }
		find := func(n uint64) *slot {
			s, err := x.find(hash(n), func(s *slot) (bool, error) { return s.place() == want[n] && want[n] != 0, nil })
			require.NoError(t, err)
			return s
		}
		for i := range rapid.IntRange(0, 300).Draw(t, "steps") {
			n := rapid.Uint64Range(0, 100).Draw(t, "key")
			s := find(n)
			require.Equal(t, want[n] != 0, s != nil)
			if s == nil {
				s = x.add(hash(n))
			}
			want[n] = int64(i+1) * align
			s.set(want[n], flagGone)
			s.sum = n
		}
		met := 0
		require.NoError(t, x.each(func(s *slot) error {
			require.Equal(t, want[s.sum], s.place())
			require.True(t, s.has(flagGone))
			require.False(t, s.has(flagSeen|flagQuiet))
			met++
			return nil
		}))
		require.Equal(t, len(want), met)
	})
}

func TestTheIndexTakesFewBytesForEachMachine(t *testing.T) {
	var x index
	states := newStates(1, "")
	for n := range uint64(200_000) {
		ref := effects.Ref{Kind: "k"}
		binary.BigEndian.PutUint64(ref.ID[:], n)
		x.add(states.hash(ref)).set(int64(n)*align, 0)
	}
	require.Less(t, x.bytes(), int64(200_000*16*2))
	require.Equal(t, 200_000, x.n)
}

func TestWhatWasPutAsideIsReadAgain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := &spill{most: rapid.IntRange(0, 5000).Draw(t, "tail")}
		defer func() { require.NoError(t, f.close()) }()
		type record struct {
			ref    effects.Ref
			stored string
		}
		put := map[int64]record{}
		for range rapid.IntRange(0, 30).Draw(t, "records") {
			r := record{effects.Ref{Kind: effects.Kind(rapid.StringN(0, 9, 9).Draw(t, "kind")), ID: uuid.UUID{rapid.Byte().Draw(t, "id")}}, ""}
			r.stored = string(make([]byte, rapid.IntRange(0, 5000).Draw(t, "length"))) + "."
			at, err := f.append(r.ref, []byte(r.stored))
			require.NoError(t, err)
			put[at] = r
			for at, want := range put {
				ref, stored, err := f.read(at)
				require.NoError(t, err)
				require.Equal(t, want, record{ref, string(stored)})
			}
		}
	})
}
