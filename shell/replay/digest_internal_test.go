package replay

import (
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/orrery-go/orrery/effects"
)

func drawChanges(t *rapid.T) []change {
	return rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) change {
		c := change{ref: effects.Ref{Kind: effects.Kind(rapid.SampledFrom([]string{"a", "ab", "b"}).Draw(t, "kind")), ID: uuid.UUID{rapid.Byte().Draw(t, "id")}}}
		if rapid.Bool().Draw(t, "there") {
			c.stored = []byte(rapid.StringN(0, 4, 16).Draw(t, "stored"))
		}
		return c
	}), 0, 5, func(c change) effects.Ref { return c.ref }).Draw(t, "changes")
}

func TestADigestTellsWhatABatchHasStoredAndNotInWhichOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		changes := drawChanges(t)
		digest := digestOf(slices.Clone(changes))
		other := rapid.Permutation(changes).Draw(t, "order")
		require.Equal(t, digest, digestOf(slices.Clone(other)))
		if len(other) == 0 {
			return
		}
		switch c := &other[0]; rapid.IntRange(0, 3).Draw(t, "change") {
		case 0:
			c.ref.ID[15]++
		case 1:
			c.ref.Kind += "c"
		case 2:
			if c.stored == nil {
				c.stored = []byte{}
			} else {
				c.stored = nil
			}
		case 3:
			c.stored = append(slices.Clone(c.stored), 0)
		}
		require.NotEqual(t, digest, digestOf(other))
	})
}

// It is stored: it must not become another.
func TestTheDigestIsTheOneThatWasAgreedOn(t *testing.T) {
	assert.Zero(t, digestOf(nil))
	assert.Equal(t, uint32(0xc8649fcf), digestOf([]change{
		{effects.Ref{Kind: "queue", ID: uuid.UUID{2}}, nil},
		{effects.Ref{Kind: "action", ID: uuid.UUID{1}}, []byte(`{"id":1}`)},
	}))
}
