package httpcall

import (
	"net/netip"
	"slices"
)

// scope is how far an address reaches: the greater, the narrower. A redirect
// never leads to a greater scope.
type scope uint8

const (
	public   scope = iota
	private        // of this site
	loopback       // of this machine
	special        // link-local, multicast, unspecified, reserved
)

var (
	nat64     = netip.MustParsePrefix("64:ff9b::/96") // an IPv4 address stands in its last four bytes
	sixToFour = netip.MustParsePrefix("2002::/16")    // and here in bytes 2 to 5

	// Where clouds serve credentials, beside the link-local addresses.
	metadata = []netip.Prefix{
		netip.MustParsePrefix("100.100.100.200/32"), // Alibaba
		netip.MustParsePrefix("168.63.129.16/32"),   // Azure's host
		netip.MustParsePrefix("192.0.0.192/32"),     // Oracle
		netip.MustParsePrefix("fd00:ec2::/32"),      // Amazon: fd00:ec2::254 and its like
		netip.MustParsePrefix("fd20:ce::254/128"),   // Google
	}

	// Ranges that package netip does not know by a predicate.
	ranges = []struct {
		prefix netip.Prefix
		scope  scope
		word   string
	}{
		{netip.MustParsePrefix("0.0.0.0/8"), special, "unspecified"}, // "this network": reaches the machine itself
		{netip.MustParsePrefix("100.64.0.0/10"), private, "private (shared, RFC 6598)"},
		{netip.MustParsePrefix("192.0.0.0/24"), special, "reserved"},
		{netip.MustParsePrefix("198.18.0.0/15"), private, "private (benchmarks, RFC 2544)"},
		{netip.MustParsePrefix("240.0.0.0/4"), special, "reserved"},
		{netip.MustParsePrefix("::/96"), special, "reserved"}, // IPv4-compatible, deprecated
		{netip.MustParsePrefix("64:ff9b:1::/48"), private, "private (local NAT64)"},
		{netip.MustParsePrefix("100::/64"), special, "reserved"},
		{netip.MustParsePrefix("2001::/32"), special, "reserved (Teredo)"},
		{netip.MustParsePrefix("fec0::/10"), private, "private (site-local)"},
	}
)

// classify gives an address's scope and the word for it. An IPv4 address that
// stands within an IPv6 address counts as what it is.
func classify(a netip.Addr) (scope, string) {
	a = a.Unmap().WithZone("")
	switch b := a.As16(); {
	case !a.IsValid():
		return special, "invalid"
	case nat64.Contains(a):
		return classify(netip.AddrFrom4([4]byte(b[12:16])))
	case sixToFour.Contains(a):
		return classify(netip.AddrFrom4([4]byte(b[2:6])))
	case slices.ContainsFunc(metadata, func(p netip.Prefix) bool { return p.Contains(a) }):
		return special, "a cloud's metadata service"
	case a.IsLoopback():
		return loopback, "loopback"
	case a.IsUnspecified():
		return special, "unspecified"
	case a.IsLinkLocalUnicast():
		return special, "link-local"
	case a.IsMulticast():
		return special, "multicast"
	case a.IsPrivate():
		return private, "private"
	}
	for _, r := range ranges {
		if r.prefix.Contains(a) {
			return r.scope, r.word
		}
	}
	return public, "public"
}
