package core_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

func TestABatchInTheMemoryOfAnotherOneDecidesAsAFreshOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		clock := core.Clock{Now: start}
		w, other := world{}, world{}
		used := core.NewBatch(other, clock, 1)
		for seq := uint64(1); seq <= uint64(rapid.IntRange(2, 6).Draw(t, "batches")); seq++ {
			clock = drawClock(t, clock)
			for _, in := range drawTogether(t, other, clock) { // of which nothing may be left
				_, _ = used.Apply(in)
			}
			other.store(used)
			fresh := core.NewBatch(w, clock, seq)
			used.Reset(w, clock, seq)
			if left := rapid.Int64Range(-1, 3).Draw(t, "left"); left >= 0 {
				allowed := func(core.Scope, effects.Kind) core.Allowance {
					return core.Allowance{Left: left, Most: left, What: "machines"}
				}
				fresh.Bound(allowed)
				used.Bound(allowed)
			}
			inputs := drawTogether(t, w, clock)
			if rapid.Bool().Draw(t, "together") {
				results, refused, err := fresh.ApplyAll(inputs, nil)
				others, refusedToo, errToo := used.ApplyAll(inputs, nil)
				require.Equal(t, err == nil, errToo == nil)
				require.Equal(t, refused, refusedToo)
				require.Equal(t, results, others)
			}
			for _, in := range inputs {
				a, errA := fresh.Apply(in)
				b, errB := used.Apply(in)
				require.Equal(t, errA == nil, errB == nil)
				require.Equal(t, a, b)
			}
			require.Equal(t, observe(fresh), observe(used))
			require.Equal(t, fresh.Due(), used.Due())
			w.store(fresh)
			used.Reset(other, clock, seq)
		}
	})
}
