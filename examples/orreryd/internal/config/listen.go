package config

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
	"github.com/orrery-go/orrery/shell/httpapi"
)

// checkAddress refuses what cannot be listened on.
func checkAddress(addr string) error {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("%q is not an address such as \"127.0.0.1:7460\": want host:port", text.Clip(addr, 80))
	}
	// The port may be the name of a service that this machine knows.
	if _, err := net.DefaultResolver.LookupPort(context.Background(), "tcp", port); err != nil {
		return fmt.Errorf("%q: the port %q is not a number from 0 to 65535", text.Clip(addr, 80), text.Clip(port, 40))
	}
	return nil
}

func (c *Config) checkListen() error {
	if c.Listen == "" {
		return errors.New("must not be empty: use an address such as \"127.0.0.1:7460\"")
	}
	return checkAddress(c.Listen)
}

// checkPageListen refuses the address of the API, too: an address belongs to one server.
func (c *Config) checkPageListen() error {
	if c.Page.Listen == "" {
		return nil
	}
	if err := checkAddress(c.Page.Listen); err != nil {
		return err
	}
	if _, port, _ := net.SplitHostPort(c.Listen); c.Page.Listen == c.Listen && port != "0" {
		return fmt.Errorf("%q is the address of the HTTP API: leave it out, and the page is served there", text.Clip(c.Page.Listen, 80))
	}
	return nil
}

// CheckListen refuses to serve others than this machine without a token.
func CheckListen(c Config) error {
	tokens, err := c.APITokens()
	if err == nil {
		err = httpapi.CheckListen(c.Listen, tokens)
	}
	if err == nil && c.Page.Apart() {
		err = keyed("page.listen", httpapi.CheckListen(c.Page.Listen, tokens))
	}
	if err != nil {
		return wrongf("%w", err)
	}
	return nil
}
