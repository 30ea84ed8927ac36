package daemon

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/examples/orreryd/internal/config"
)

// A request that waits for a daemon that works waits for longer than a takeover takes: the lease and two seconds.
func TestARequestThatIsPassedOnWaitsForATakeover(t *testing.T) {
	for lease, want := range map[float64]time.Duration{1: 15 * time.Second, 10: 15 * time.Second, 13: 18 * time.Second, 60: 65 * time.Second, 85: 90 * time.Second, 3600: 90 * time.Second} { // order-free: each is a case by itself
		var c config.Config
		c.Cluster.LeaseSeconds = lease
		by, err := newForwarding(c, "a", slog.New(slog.DiscardHandler))
		require.NoError(t, err)
		assert.Equal(t, want, by.o.Wait, "a lease of %v seconds", lease)
	}
}
