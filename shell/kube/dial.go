package kube

import (
	"net"
	"time"
)

// Limits of connections: a network that swallows what is sent, as a load balancer whose
// server is gone may do, looks like a server that takes its time. With those of client-go
// a connection is given up after 45 seconds, and a new one is waited for as long.
const (
	dialTimeout = 5 * time.Second
	ackTimeout  = 10 * time.Second // what was sent and nobody has confirmed
	probeAfter  = 5 * time.Second  // of silence, and between two probes
	probes      = 2
)

// dialer makes the connections to the API server.
func dialer() *net.Dialer {
	return &net.Dialer{
		Timeout: dialTimeout, Control: giveUpUnconfirmed,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: probeAfter, Interval: probeAfter, Count: probes},
	}
}
