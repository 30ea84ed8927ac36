package kube

import (
	"net"
	"net/http"
	"os"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// Limits of connections: a network that swallows what is sent, as a load balancer whose
// server is gone may do, looks like a server that takes its time. With those of client-go
// a connection is given up after 45 seconds, and a new one is waited for as long.
const (
	dialTimeout = 5 * time.Second
	ackTimeout  = 10 * time.Second // what was sent and nobody has confirmed
	probeAfter  = 5 * time.Second  // of silence, and between two probes
	probes      = 2

	pingAfter   = 10 * time.Second // of silence, a server is asked whether it lives
	pingTimeout = 10 * time.Second // until it has answered
)

// dialer makes the connections to the API server.
func dialer() *net.Dialer {
	return &net.Dialer{
		Timeout: dialTimeout, Control: giveUpUnconfirmed,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: probeAfter, Interval: probeAfter, Count: probes},
	}
}

// pinging has the transport give up connections whose server does not answer, though its
// system does: one that hangs. client-go's own would take 45 seconds, unless its variable of
// the environment says otherwise. The transport must not have been used.
func pinging(rt http.RoundTripper) {
	if _, set := os.LookupEnv("HTTP2_READ_IDLE_TIMEOUT_SECONDS"); set {
		return
	}
	for {
		switch t := rt.(type) {
		case *http.Transport:
			if t != http.DefaultTransport && t.HTTP2 == nil {
				t.HTTP2 = &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout}
			}
			return
		case utilnet.RoundTripperWrapper:
			rt = t.WrappedRoundTripper()
		default:
			return
		}
	}
}
