package relay_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/notify/relay"
)

// ofChannels is the tenant of the channels' queues, and of what pushes into them.
var ofChannels = shell.Scope{Namespace: relay.Namespace, Tenant: relay.Tenant}

func declared(s core.Subscription) shell.SetEntry {
	return shell.SetEntry{Subscriber: &shell.SubscriberSpec{Namespace: ofChannels.Namespace, Tenant: ofChannels.Tenant, Subscription: s}}
}

// What a daemon subscribes was once exported with all else, and a set that declared it kept the daemon from its start.
func TestWhatASetHasDeclaredOfARelayBelongsToTheRelayAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := inMemory(t)
		p := &people{}
		d := begin(t, st, relay.Options{Channels: ops(p, "action:failed", "run:failed")})
		bus, err := d.Subscribers().Get(t.Context(), ofChannels)
		require.NoError(t, err)
		require.Len(t, bus.Subscribers, 2)
		_, err = d.Sets().Apply(t.Context(), "ours", []shell.SetEntry{declared(bus.Subscribers[0]), declared(bus.Subscribers[1])}, shell.SetOptions{})
		require.NoError(t, err)
		d.stop()

		d = begin(t, st, relay.Options{Channels: ops(p, "action:failed")})
		bus, err = d.Subscribers().Get(t.Context(), ofChannels)
		require.NoError(t, err)
		require.Len(t, bus.Subscribers, 1)
		assert.Equal(t, relay.Subscribers+"ops/action:failed", bus.Subscribers[0].Name)
		owned, _, err := d.Sets().Owned(t.Context(), "ours", shell.Page{})
		require.NoError(t, err)
		assert.Empty(t, owned, "the set could remove it with its next prune")
	})
}
