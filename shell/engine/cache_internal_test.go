package engine

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"

	"github.com/orrery-go/orrery/effects"
)

func TestWhatIsDroppedFromTheCacheIsInNeitherGeneration(t *testing.T) {
	var c cache
	c.init()
	ref := effects.Ref{Kind: "planet", ID: uuid.Max}
	c.put(ref, cached{version: 1, size: 10})
	c.put(effects.Ref{Kind: "planet", ID: uuid.UUID{1}}, cached{size: cacheBytes}) // the first one grows old
	assert.Contains(t, c.old, ref)

	c.drop(ref)

	_, ok := c.get(ref)
	assert.False(t, ok)
}

// TestWhatCachedStatesShareIsInTheCacheAsLongAsTheyAre: it is in memory with them, and must count.
func TestWhatCachedStatesShareIsInTheCacheAsLongAsTheyAre(t *testing.T) {
	var c cache
	c.init()
	planet := func(n int) effects.Ref { return effects.Ref{Kind: "planet", ID: uuid.UUID{byte(n)}} }
	star := func(n int) effects.Ref { return effects.Ref{Kind: "star", ID: uuid.UUID{byte(n)}} }
	has := func(ref effects.Ref) bool {
		_, young := c.young[ref]
		_, old := c.old[ref]
		return young || old
	}
	for n := range 100 {
		c.put(star(n), cached{size: cacheBytes / 10})
		c.put(planet(n), cached{size: 10, shares: star(n)})
		held := 0
		for m := range n + 1 { // each that is there changes again and again
			if was, ok := c.get(planet(m)); ok {
				c.put(planet(m), was)
			}
		}
		for m := range n + 1 {
			if has(planet(m)) {
				held++
				assert.True(t, has(star(m)), "round %d: that of %d", n, m)
			}
		}
		assert.NotZero(t, held)
		assert.LessOrEqual(t, held, 20, "10 in each generation")
	}
}
