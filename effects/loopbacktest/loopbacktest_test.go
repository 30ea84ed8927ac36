package loopbacktest

import (
	"net"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAnAddressFollowsFromTheProcessIDAndTheUse(t *testing.T) {
	const most = 1<<22 - 1 // no process ID of Linux is above it
	for _, tt := range []struct {
		id                      int
		daemon, database, guide string
	}{
		{1, "127.1.1.2", "127.129.1.2", "127.255.1.2"},
		{127, "127.1.1.128", "127.129.1.128", "127.255.1.128"},
		{128, "127.1.2.1", "127.129.2.1", "127.255.2.1"},
		{1 << 14, "127.2.1.1", "127.130.1.1", "127.255.1.1"},
		{125 << 14, "127.126.1.1", "127.254.1.1", "127.255.1.1"},
		{126 << 14, "127.127.1.1", "127.129.1.1", "127.255.1.1"},
		{most, "127.128.128.128", "127.132.128.128", "127.255.128.128"},
	} {
		assert.Equal(t, tt.daemon, of("linux", tt.id, daemon), "daemon of %d", tt.id)
		assert.Equal(t, tt.database, of("linux", tt.id, database), "database of %d", tt.id)
		assert.Equal(t, tt.guide, of("linux", tt.id, guide), "guide of %d", tt.id)
	}
}

func TestSystemsOtherThanLinuxHaveOneLoopbackAddress(t *testing.T) {
	for _, use := range []func(int) int{daemon, database, guide} {
		assert.Equal(t, "127.0.0.1", of("darwin", 4711, use))
		assert.Equal(t, "127.0.0.1", of("windows", 4711, use))
	}
}

func TestAServerListensOnEachAddress(t *testing.T) {
	all := map[string]bool{}
	for _, host := range []string{Daemon(), Database(), Guide()} {
		all[host] = true
		l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", host+":0")
		require.NoError(t, err)
		require.NoError(t, l.Close())
	}
	if runtime.GOOS == "linux" {
		assert.Len(t, all, 3, "each use has another address")
	}
}
