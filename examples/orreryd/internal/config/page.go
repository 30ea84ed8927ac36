package config

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
	"github.com/orrery-go/orrery/shell/page"
)

// pageConfig is the web page.
type pageConfig struct {
	Enabled        bool     `toml:"enabled"`
	Listen         string   `toml:"listen"` // empty: that of the API
	BasePath       string   `toml:"base_path"`
	TrustedProxies []string `toml:"trusted_proxies"`
}

// Apart reports whether the page has an address of its own.
func (p pageConfig) Apart() bool { return p.Enabled && p.Listen != "" }

// Proxies gives the addresses of the reverse proxies that are trusted.
func (p pageConfig) Proxies() (out []netip.Prefix, err error) {
	var errs []error
	for i, s := range p.TrustedProxies {
		prefix, err := netip.ParsePrefix(s)
		if ip, ipErr := netip.ParseAddr(s); ipErr == nil {
			prefix, err = netip.PrefixFrom(ip, ip.BitLen()), nil
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("page.trusted_proxies[%d]: %q is neither an address such as \"10.0.0.5\" nor a network such as \"10.0.0.0/24\"", i, text.Clip(s, 60)))
			continue
		}
		out = append(out, prefix)
	}
	return out, errors.Join(errs...)
}

func (p pageConfig) validate() error {
	_, err := p.Proxies()
	if b := p.BasePath; b == "/" || page.CheckPath(b) != nil {
		err = errors.Join(err, fmt.Errorf("page.base_path: %q is not a path such as \"/orrery\"", text.Clip(b, 60)))
	}
	return err
}
