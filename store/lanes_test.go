package store_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/store"
)

func TestALaneAndItsShareAreToldApart(t *testing.T) {
	for _, c := range []struct{ lane, share, name string }{
		{"http", "", "http"},
		{"http", "ns\x1ftenant", "http\x1fns\x1ftenant"},
		{"@run", "\x1ftenant", "@run\x1f\x1ftenant"},
		{"@run", "ns\x1f", "@run\x1fns\x1f"},
	} {
		name := store.ShareLane(c.lane, c.share)
		assert.Equal(t, c.name, name)
		lane, share := store.SplitLane(name)
		assert.Equal(t, c.lane, lane)
		assert.Equal(t, c.share, share)
	}
}

func TestTheLongestToolOfTheLongestTenantHasALane(t *testing.T) {
	const longestName, longestScope = 255, 500 // as core has them
	e := store.OutboxEntry{
		Key: store.EffectKey{ID: uuid.UUID{1}, N: 1}, Seq: 1, Kind: "action", Effect: []byte(`{}`),
		Lane: store.ShareLane(strings.Repeat("t", longestName), strings.Repeat("s", longestScope)+"\x1f"),
	}
	require.NoError(t, e.Validate())
}
