package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/examples/orreryd/internal/config"
	"github.com/orrery-go/orrery/examples/orreryd/internal/version"
	"github.com/orrery-go/orrery/shell/audit"
	"github.com/orrery-go/orrery/shell/constraints"
	"github.com/orrery-go/orrery/shell/httpapi"
	"github.com/orrery-go/orrery/shell/jobs"
	"github.com/orrery-go/orrery/shell/page"
	"github.com/orrery-go/orrery/shell/podspec"
)

// newAPI builds the API on the address that was taken.
func (d *daemon) newAPI() (*http.Server, error) {
	c := d.c
	tokens, err := c.APITokens()
	if err != nil {
		return nil, err
	}
	auth, err := c.WebhookAuth()
	if err != nil {
		return nil, err
	}
	api, err := httpapi.New(httpapi.Options{
		Audit: d.audit, AuditReads: c.Audit.Reads,
		Limits: c.APILimits(),
		Engine: d.engine, Tokens: tokens, Webhooks: auth, WebhookFilters: c.WebhookFilters(), Logger: d.log, Version: version.String(),
		Redact:       c.Redact.Redaction(),
		MaxBodyBytes: c.HTTP.MaxBodyBytes, MaxWebhookBytes: c.HTTP.MaxWebhookBytes,
		MaxWebhookBytesInFlight: c.HTTP.MaxWebhookBytesInFlight, MaxBodyBytesInFlight: c.HTTP.MaxBodyBytesInFlight,
		MaxRequestsPerToken: c.HTTP.MaxRequestsPerToken, MaxListsPerToken: c.HTTP.MaxListsPerToken,
		MaxStreamsPerToken: c.HTTP.MaxStreamsPerToken, MaxConnections: maxConnections(c.HTTP.MaxConnections, descriptors()),
		Settings: c.Shown,
		Jobs:     d.jobs, OpenRunners: c.OpenRunners(), JobUses: func(spec core.JobSpec) (jobs.Reach, error) { return constraints.Uses(&spec) },
		ParsePodSpec: func(text []byte) (json.RawMessage, error) {
			_, spec, err := podspec.Parse(text)
			return spec, err
		},
	})
	if err != nil {
		return nil, err
	}
	d.listener = api.Listener(d.listener)
	server := api.HTTPServer(c.Listen)
	if c.HTTP.TLS.Cert != "" {
		pair, err := loadCertificate(c.HTTP.TLS.Cert, c.HTTP.TLS.Key, d.log)
		if err != nil {
			return nil, err
		}
		server.TLSConfig = pair.config()
	}
	if c.Page.Enabled {
		server.Handler, err = d.withPage(api)
	}
	return server, err
}

// withPage serves the page beside the API, and leads browsers from the root to it.
func (d *daemon) withPage(api *httpapi.Server) (http.Handler, error) {
	proxies, err := d.c.Page.Proxies()
	if err != nil {
		return nil, err
	}
	ui, err := page.New(page.Options{API: api, BasePath: d.c.Page.BasePath, TrustedProxies: proxies, Version: version.String(), Logger: d.log})
	if err != nil {
		return nil, err
	}
	const mount = page.DefaultMount
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch path := r.URL.Path; {
		case path == mount, strings.HasPrefix(path, mount+"/"):
			ui.ServeHTTP(w, r)
		case path == "/" && (r.Method == http.MethodGet || r.Method == http.MethodHead) && strings.Contains(r.Header.Get("Accept"), "text/html"):
			http.Redirect(w, r, d.c.Page.BasePath+mount+"/", http.StatusSeeOther)
		default:
			api.Handler().ServeHTTP(w, r)
		}
	}), nil
}

// openAudit opens the log of requests; nil if there is to be none.
func openAudit(c config.Config, log *slog.Logger) (*audit.Log, error) {
	if !c.Audit.Enabled {
		return nil, nil
	}
	l, err := audit.Open(audit.Options{
		Dir: config.AuditDir(c.DB), MaxAge: config.Days(c.Audit.Days), MaxBytes: c.Audit.MaxBytes, Logger: log,
	})
	if err != nil {
		return nil, fmt.Errorf("%w: without a log of requests: enabled = false in [audit]", err)
	}
	return l, nil
}

// url is where the API is reached.
func (d *daemon) url() string {
	addr := d.listener.Addr().String()
	if host, port, err := net.SplitHostPort(addr); err == nil && (host == "::" || host == "0.0.0.0") {
		addr = net.JoinHostPort("127.0.0.1", port)
	}
	if d.c.HTTP.TLS.Cert != "" {
		return "https://" + strings.TrimSpace(addr)
	}
	return "http://" + strings.TrimSpace(addr)
}

// serve answers requests until shutdown.
func (d *daemon) serve() error {
	serve := d.api.Serve
	if d.c.HTTP.TLS.Cert != "" {
		serve = func(l net.Listener) error { return d.api.ServeTLS(l, "", "") }
	}
	if err := serve(d.listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve the HTTP API: %w", err)
	}
	return nil
}

// shutdown takes no more connections, and waits for the requests under way
// until ctx ends; then it cuts them off.
func (d *daemon) shutdown(ctx context.Context) error {
	if err := d.api.Shutdown(ctx); err != nil {
		return d.api.Close()
	}
	return nil
}
