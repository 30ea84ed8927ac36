package kube

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// giveUpUnconfirmed has the system give up a connection once what was sent is not confirmed
// for ackTimeout; else it sends it again after ever longer waits, for a quarter of an hour.
func giveUpUnconfirmed(network, _ string, c syscall.RawConn) error {
	if network != "tcp" && network != "tcp4" && network != "tcp6" {
		return nil
	}
	var set error
	err := c.Control(func(fd uintptr) {
		set = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(ackTimeout.Milliseconds()))
	})
	if err != nil {
		return err
	}
	return set
}
