package httpapi

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"
)

// CheckListen refuses a listen address, "host:port", that would serve the API
// to others than this machine while no token is configured: every other
// interface, all interfaces ("", ":7460", "0.0.0.0:7460"), and names that
// resolve to any address but loopback. With a token, every well-formed address
// passes.
func CheckListen(addr string, tokens []Token) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("listen address %q: want host:port, such as 127.0.0.1:7460", clip(addr))
	}
	if len(tokens) > 0 {
		return nil
	}
	const advice = "without a token only loopback is served: use 127.0.0.1, or configure a token"
	if host == "" {
		return fmt.Errorf("listen address %q means all interfaces: %s", clip(addr), advice)
	}
	ips, err := lookup(host)
	if err != nil {
		return fmt.Errorf("listen address %q: the host does not resolve: %s", clip(addr), advice)
	}
	for _, ip := range ips {
		if !ip.Unmap().IsLoopback() {
			return fmt.Errorf("listen address %q is %s, not loopback: %s", clip(addr), ip, advice)
		}
	}
	return nil
}

func lookup(host string) ([]netip.Addr, error) {
	if ip, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{ip}, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err == nil && len(ips) == 0 {
		err = fmt.Errorf("%q has no address", host)
	}
	return ips, err
}

// checkLocal refuses what does not come from this machine and is not meant for
// it, while no token is configured. The Host header tells: a page of another
// site whose name was pointed at 127.0.0.1 (DNS rebinding) still sends its own
// name.
func (s *Server) checkLocal(r *http.Request) error {
	if s.NeedsSignIn() {
		return nil
	}
	// A peer without an IP address came by a unix socket.
	if ap, err := netip.ParseAddrPort(r.RemoteAddr); err == nil && !ap.Addr().Unmap().IsLoopback() {
		return failf(http.StatusForbidden, "without a token only this machine is served: configure a token")
	}
	if !loopbackHost(r.Host) {
		return failf(http.StatusForbidden, "host: %q is not loopback: without a token use 127.0.0.1 or localhost", clip(r.Host))
	}
	return nil
}

func loopbackHost(hostport string) bool {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	} else if strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]") {
		host = host[1 : len(host)-1]
	}
	if strings.EqualFold(strings.TrimSuffix(host, "."), "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}
