package memory

import (
	"cmp"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	_ "github.com/orrery-go/orrery/effects/seedtest"
)

func TestATreeIsASortedMapAndOldOnesNeverChange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tr := tree[int, int]{cmp: cmp.Compare[int]}
		owned := rapid.Bool().Draw(t, "owned")
		if owned {
			tr.own()
		}
		want := map[int]int{}
		old, oldWant := tr, maps.Clone(want)
		for range rapid.IntRange(0, 80).Draw(t, "steps") {
			k, v := rapid.IntRange(0, 40).Draw(t, "key"), rapid.Int().Draw(t, "value")
			if rapid.IntRange(0, 9).Draw(t, "snapshot") == 0 {
				old, oldWant = tr, maps.Clone(want)
				if old.disown(); owned {
					tr.own()
				}
			}
			if rapid.IntRange(0, 9).Draw(t, "walk") == 0 { // on which the tree may be changed
				before, k := maps.Clone(want), rapid.IntRange(0, 40).Draw(t, "walked")
				for got, v := range tr.from(k) {
					require.Equal(t, before[got], v)
					delete(before, got)
					tr.put(got, -v)
					want[got] = -v
					tr.del(got + 1)
					delete(want, got+1)
				}
				for got := range before {
					require.Less(t, got, k)
				}
			}
			if rapid.Bool().Draw(t, "put") {
				tr.put(k, v)
				want[k] = v
			} else {
				tr.del(k)
				delete(want, k)
			}
			got, ok := tr.get(k)
			wantV, wantOK := want[k]
			require.Equal(t, wantOK, ok)
			require.Equal(t, wantV, got)
			require.LessOrEqual(t, balance(t, tr.root), 8)
		}
		require.Equal(t, want, maps.Collect(tr.all()))
		require.Equal(t, oldWant, maps.Collect(old.all()))
		k := rapid.IntRange(-1, 41).Draw(t, "from")
		var up, down []int
		for got := range tr.from(k) {
			up = append(up, got)
		}
		for got := range tr.downFrom(k) {
			down = append(down, got)
		}
		sorted := slices.Sorted(maps.Keys(want))
		i, found := slices.BinarySearch(sorted, k)
		require.Equal(t, append([]int{}, sorted[i:]...), append([]int{}, up...))
		if found {
			i++
		}
		below := append([]int{}, sorted[:i]...)
		slices.Reverse(below)
		require.Equal(t, below, append([]int{}, down...))
	})
}

// balance gives the height, which two siblings' may differ in by 1.
func balance(t *rapid.T, n *node[int, int]) int {
	if n == nil {
		return 0
	}
	l, r := balance(t, n.left), balance(t, n.right)
	require.LessOrEqual(t, max(l, r)-min(l, r), 1)
	require.Equal(t, n.height, 1+max(l, r))
	return n.height
}
