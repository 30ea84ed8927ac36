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
