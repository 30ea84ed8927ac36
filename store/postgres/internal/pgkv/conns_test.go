package pgkv

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAUserOfManyConnectionsLeavesTheOthersTheirOwn(t *testing.T) {
	p := &Pools{writesShare: make(chan struct{}, sharedWrites), viewsShare: make(chan struct{}, 16)}
	greedy, _ := p.lanes()
	other, _ := p.lanes()
	ended, end := context.WithCancel(context.Background())
	end()
	var taken []chan struct{}
	for range ownWrites + sharedWrites {
		place, err := greedy.enter(context.Background())
		require.NoError(t, err)
		taken = append(taken, place)
	}
	_, err := greedy.enter(ended)
	require.ErrorIs(t, err, context.Canceled, "it waits for its own")
	for range ownWrites {
		_, err := other.enter(context.Background())
		require.NoError(t, err)
	}
	_, err = other.enter(ended)
	require.ErrorIs(t, err, context.Canceled)
	for _, place := range taken {
		leave(place)
	}
	assert.Empty(t, p.writesShare, "what is given back is what was taken")
	_, err = other.enter(context.Background())
	require.NoError(t, err)
}
