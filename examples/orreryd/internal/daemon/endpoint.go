package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"

	"github.com/orrery-go/orrery/shell/httpapi"
)

// endpoint is an address that the daemon answers at.
type endpoint struct {
	what     string       // it answers with
	listener net.Listener // nil: there is no such endpoint
	server   *http.Server
	tls      bool // server.TLSConfig does not tell: net/http sets it also for connections that are not encrypted
}

// take opens the address; hint says what to do if the address is in use.
func (e *endpoint) take(ctx context.Context, addr, hint string) error {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", addr)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("listen on %s: the address is in use: %s", addr, hint)
	case err != nil:
		return fmt.Errorf("listen on %s: %w", addr, err)
	}
	e.listener = l
	return nil
}

// listen makes the server, within the bounds of the API: all endpoints together have the connections that
// one may have.
func (e *endpoint) listen(api *httpapi.Server, h http.Handler) {
	e.server = api.HTTPServer(e.listener.Addr().String())
	e.server.Handler = h
	e.listener = api.Listener(e.listener)
}

// url is where the endpoint is reached.
func (e *endpoint) url() string {
	addr := e.listener.Addr().String()
	if host, port, err := net.SplitHostPort(addr); err == nil && (host == "::" || host == "0.0.0.0") {
		addr = net.JoinHostPort("127.0.0.1", port)
	}
	scheme := "http://"
	if e.tls {
		scheme = "https://"
	}
	return scheme + strings.TrimSpace(addr)
}

// serve answers requests until shutdown.
func (e *endpoint) serve() error {
	serve := e.server.Serve
	if e.tls {
		serve = func(l net.Listener) error { return e.server.ServeTLS(l, "", "") }
	}
	if err := serve(e.listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve %s: %w", e.what, err)
	}
	return nil
}

// shutdown takes no more connections, and waits for the requests under way
// until ctx ends; then it cuts them off.
func (e *endpoint) shutdown(ctx context.Context) error {
	if err := e.server.Shutdown(ctx); err != nil {
		return e.server.Close()
	}
	return nil
}

// close releases the address, if it was taken.
func (e *endpoint) close() error {
	if e.listener == nil {
		return nil
	}
	if err := e.listener.Close(); !errors.Is(err, net.ErrClosed) { // the server may have closed it
		return err
	}
	return nil
}

// endpoints are those that the daemon has.
func (d *daemon) endpoints() (all []*endpoint) {
	for _, e := range []*endpoint{&d.api, &d.page} {
		if e.listener != nil {
			all = append(all, e)
		}
	}
	return all
}

// shutdown is [endpoint.shutdown] of all endpoints, at once.
func (d *daemon) shutdown(ctx context.Context) error {
	all := d.endpoints()
	errs := make([]error, len(all))
	var wg sync.WaitGroup
	for i, e := range all {
		wg.Go(func() { errs[i] = e.shutdown(ctx) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// addTLS has the endpoints encrypt if a certificate is configured.
func (d *daemon) addTLS() error {
	files := d.c.HTTP.TLS
	if files.Cert == "" {
		return nil
	}
	pair, err := loadCertificate(files.Cert, files.Key, d.log)
	if err != nil {
		return err
	}
	d.reloads.add("certificate", pair.reload)
	for _, e := range d.endpoints() {
		e.server.TLSConfig, e.tls = pair.config(), true
	}
	return nil
}
