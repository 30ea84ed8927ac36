package daemon

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAConnectionThatNobodyHasAcceptedWaitsForTheNextTurn(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	g := newGate(l)
	first := g.turn()
	require.NoError(t, first.Close())
	require.NoError(t, first.Close(), "a second time does nothing")
	c, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	_, err = first.Accept()
	require.ErrorIs(t, err, net.ErrClosed)
	second := g.turn()
	in, err := second.Accept()
	require.NoError(t, err)
	require.NoError(t, in.Close())
	require.NoError(t, c.Close())
	require.NoError(t, g.Close())
	_, err = second.Accept()
	require.ErrorIs(t, err, net.ErrClosed)
}
