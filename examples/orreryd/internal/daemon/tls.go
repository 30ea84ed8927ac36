package daemon

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// certificate is a certificate with its key, in files that are read again when they change, so that
// a renewed one is served without a restart. It is safe for concurrent use.
type certificate struct {
	cert, key string
	log       *slog.Logger
	now       func() time.Time

	mu      sync.Mutex
	current *tls.Certificate
	read    [2]time.Time // when the files of current were changed
	looked  time.Time
}

// certLook is how long the files are not looked at again.
const certLook = time.Second

// loadCertificate reads the files. What is wrong with them it says at once.
func loadCertificate(cert, key string, log *slog.Logger) (*certificate, error) {
	c := &certificate{cert: cert, key: key, log: log, now: time.Now}
	changed, err := c.changed()
	if err == nil {
		err = c.load(changed)
	}
	if err != nil {
		return nil, fmt.Errorf("http.tls: %w", err)
	}
	return c, nil
}

// config is for a server.
func (c *certificate) config() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: c.get}
}

// get gives the certificate for a new connection. Files that cannot be read, or do not belong together, as while they
// are being replaced, are told in the log, and the one from before is served.
func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	if d := now.Sub(c.looked); d >= 0 && d < certLook {
		return c.current, nil
	}
	c.looked = now
	changed, err := c.changed()
	if err == nil && changed != c.read {
		if err = c.load(changed); err == nil {
			c.log.Info("certificate read again", "cert", c.cert)
		}
	}
	if err != nil {
		c.log.Error("the certificate cannot be read again; the one from before is served", "cert", c.cert, "error", err)
	}
	return c.current, nil
}

// reload reads the files again, whenever they were changed. On an error the certificate from before is served.
func (c *certificate) reload(context.Context) ([]slog.Attr, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	changed, err := c.changed()
	if err == nil {
		err = c.load(changed)
	}
	if err != nil {
		return nil, fmt.Errorf("http.tls: %w", err)
	}
	c.looked = c.now()
	return []slog.Attr{slog.String("cert", c.cert)}, nil
}

// changed gives when the files were changed.
func (c *certificate) changed() (at [2]time.Time, err error) {
	for i, name := range []string{c.cert, c.key} {
		info, err := os.Stat(name)
		if err != nil {
			return at, err
		}
		at[i] = info.ModTime()
	}
	return at, nil
}

func (c *certificate) load(changed [2]time.Time) error {
	pair, err := tls.LoadX509KeyPair(c.cert, c.key)
	if err != nil {
		return fmt.Errorf("%s and %s: %w", c.cert, c.key, err)
	}
	c.current, c.read = &pair, changed
	return nil
}
