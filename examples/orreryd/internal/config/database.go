package config

import (
	"cmp"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
)

// clusterConfig is what daemons on one PostgreSQL database know each other by.
type clusterConfig struct {
	Name         string  `toml:"name"`    // empty: the host's name
	Address      string  `toml:"address"` // at which other daemons reach this one; empty: where it listens
	LeaseSeconds float64 `toml:"lease_seconds"`
	CAFile       string  `toml:"ca_file"` // authorities of the other daemons' certificates; empty: the system's
	// SharedWorkspace says that the workspace is on a disk that all daemons reach.
	SharedWorkspace bool `toml:"shared_workspace"`
}

// IsDatabaseURL reports whether a text is a URL as libpq takes one.
func IsDatabaseURL(s string) bool {
	return strings.HasPrefix(s, "postgres://") || strings.HasPrefix(s, "postgresql://")
}

// DatabaseName gives a URL without what nobody should read: its password, and its parameters.
func DatabaseName(s string) string {
	u, err := url.Parse(s)
	if err != nil || !IsDatabaseURL(s) {
		return "postgres://" + hidden
	}
	u.RawQuery, u.Fragment = "", ""
	if u.User != nil {
		u.User = url.User(u.User.Username())
	}
	return u.String()
}

func (c *Config) checkDatabase() error {
	if c.Database == "" {
		return nil
	}
	if !IsDatabaseURL(c.Database) { // it is not quoted: it may have a password in another form
		return errors.New("is no URL of PostgreSQL: want one such as postgres://orrery@db.example/orrery; a file is named by db")
	}
	if _, err := url.Parse(c.Database); err != nil {
		return errors.New("is no URL: want one such as postgres://orrery@db.example/orrery, with %XX for other characters in a name or a password")
	}
	return nil
}

// Abilities is a hash of what a daemon with these settings can do: the names of its tools, routes of webhooks, runners and channels. Daemons of one
// cluster that differ in it do not carry out the same.
func (c *Config) Abilities() string {
	h := sha256.New()
	for _, of := range []struct {
		what  string
		names []string
	}{
		{"tool", slices.Sorted(maps.Keys(c.Tools))}, {"webhook", slices.Sorted(maps.Keys(c.Webhooks))}, {"runner", c.RunnerNames()},
		{"channel", slices.Sorted(maps.Keys(c.Notify.Channels))},
	} {
		for _, name := range of.names {
			_, _ = fmt.Fprintf(h, "%s %q\n", of.what, name) // a hash takes everything
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// Of gives the settings of one partition of several in one daemon: what stands on this machine's disk, it has for itself.
func (c Config) Of(partition int) Config { //nolint:gocritic // a copy is what it gives
	part := fmt.Sprintf(".%d", partition)
	c.DB += part
	c.Runners = maps.Clone(c.Runners)
	for name, r := range c.Runners { // order-free: each is changed by itself
		if r.Type == runnerLocal && r.Dir != nil {
			dir := *r.Dir + part
			r.Dir = &dir
			c.Runners[name] = r
		}
	}
	return c
}

// instanceName is what a daemon may be called, so that its name reads the same in logs, paths and parameters.
var instanceName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,200}$`)

// checkName refuses a name that is not given as one word.
func (c clusterConfig) checkName() error {
	if c.Name == "" || instanceName.MatchString(c.Name) {
		return nil
	}
	return fmt.Errorf("%q is no name of a daemon: want 1 to 200 letters, digits, \"-\", \"_\" and \".\"", text.Clip(c.Name, 200))
}

// checkAddress refuses what other daemons could not send a request to.
func (c clusterConfig) checkAddress() error {
	if c.Address == "" {
		return nil
	}
	u, err := url.Parse(c.Address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || strings.Trim(u.Path, "/") != "" || u.User != nil {
		return fmt.Errorf("%q is no URL of a daemon: want one such as http://10.0.0.7:7460", text.Clip(c.Address, 200))
	}
	return nil
}

func (c *Config) validateCluster() error {
	return errors.Join(
		keyed("cluster.name", c.Cluster.checkName()),
		keyed("cluster.address", c.Cluster.checkAddress()),
		keyed("database", c.checkDatabase()),
		keyed("cluster.lease_seconds", inSeconds(c.Cluster.LeaseSeconds, 1)),
		c.checkAuthorities(),
	)
}

func (c *Config) checkAuthorities() error {
	_, err := c.Authorities()
	return err
}

// Authorities are those whose certificates daemons of a cluster show one another; nil: the system's.
func (c *Config) Authorities() (*x509.CertPool, error) {
	if c.Cluster.CAFile == "" {
		return nil, nil
	}
	pool, err := authorities(c.Cluster.CAFile)
	return pool, keyed("cluster.ca_file", err)
}

// authorities reads certificates in the form PEM.
func authorities(file string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s has no certificate in the form PEM", file)
	}
	return pool, nil
}

// OfDatabase says which setting names the database that an error is about, and which one that is, without a password.
func (c Config) OfDatabase(err error) error {
	return fmt.Errorf("%s: %s: %w", cmp.Or(c.databaseFrom, "database"), c.StoreName(), err)
}

// StoreName says which database it is, for people.
func (c Config) StoreName() string {
	if c.Database != "" {
		return DatabaseName(c.Database)
	}
	return c.DB
}

// Instance is what this daemon is called in its cluster.
func (c Config) Instance() (string, error) {
	if c.Cluster.Name != "" {
		return c.Cluster.Name, nil
	}
	name, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("cluster.name: is needed, since the host's name is not known: %w", err)
	}
	return text.Clip(name, 200), nil
}

// Home is what this daemon is called as the home of what stands on its computer's disk; empty: nobody else has the database.
func (c *Config) Home() (string, error) {
	if c.Database == "" {
		return "", nil
	}
	return c.Instance()
}

// Lease is how long a daemon may give no sign of life before another one takes its database over.
func (c Config) Lease() time.Duration { return Seconds(c.Cluster.LeaseSeconds) }
