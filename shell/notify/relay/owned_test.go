package relay_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/notify/relay"
)

// What a daemon subscribes was once exported with all else, and a set that declared it kept the daemon from its start.
func TestWhatASetHasDeclaredOfARelayBelongsToTheRelayAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := inMemory(t)
		p := &people{}
		d := begin(t, st, relay.Options{Channels: ops(p, "action:failed", "run:failed")})
		bus, err := d.Subscribers().Get(t.Context())
		require.NoError(t, err)
		require.Len(t, bus.Subscribers, 2)
		_, err = d.Sets().Apply(t.Context(), "ours", []shell.SetEntry{{Subscriber: &bus.Subscribers[0]}, {Subscriber: &bus.Subscribers[1]}}, shell.SetOptions{})
		require.NoError(t, err)
		d.stop()

		d = begin(t, st, relay.Options{Channels: ops(p, "action:failed")})
		bus, err = d.Subscribers().Get(t.Context())
		require.NoError(t, err)
		require.Len(t, bus.Subscribers, 1)
		assert.Equal(t, relay.Subscribers+"ops/action:failed", bus.Subscribers[0].Name)
		owned, _, err := d.Sets().Owned(t.Context(), "ours", shell.Page{})
		require.NoError(t, err)
		assert.Empty(t, owned, "the set could remove it with its next prune")
	})
}
