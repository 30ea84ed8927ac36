package kube

import (
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestAConnectionThatNobodyConfirmsIsGivenUp(t *testing.T) {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	c, err := dialer().DialContext(t.Context(), "tcp", l.Addr().String())
	require.NoError(t, err)
	defer c.Close()
	raw, err := c.(*net.TCPConn).SyscallConn()
	require.NoError(t, err)
	require.NoError(t, raw.Control(func(fd uintptr) {
		for option, want := range map[int]int{
			unix.TCP_USER_TIMEOUT: int(ackTimeout.Milliseconds()), unix.TCP_KEEPIDLE: int(probeAfter.Seconds()),
			unix.TCP_KEEPINTVL: int(probeAfter.Seconds()), unix.TCP_KEEPCNT: probes,
		} {
			got, err := unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, option)
			assert.NoError(t, err)
			assert.Equal(t, want, got, "option %d", option)
		}
	}))
}
