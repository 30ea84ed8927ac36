package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/examples/orreryd/internal/config"
	"github.com/orrery-go/orrery/examples/orreryd/internal/version"
	"github.com/orrery-go/orrery/shell/constraints"
	"github.com/orrery-go/orrery/shell/httpapi"
	"github.com/orrery-go/orrery/shell/jobs"
)

// apiServer answers HTTP requests on one address.
type apiServer struct {
	listener net.Listener
	server   *http.Server
}

// newAPI builds the API on an address that was taken.
func newAPI(l net.Listener, c config.Config, d *daemon, log *slog.Logger) (*apiServer, error) {
	tokens, err := c.APITokens()
	if err != nil {
		return nil, err
	}
	auth, err := c.WebhookAuth()
	if err != nil {
		return nil, err
	}
	api, err := httpapi.New(httpapi.Options{
		Engine: d.engine, Tokens: tokens, Webhooks: auth, Logger: log, Version: version.String(),
		MaxBodyBytes: c.HTTP.MaxBodyBytes, MaxWebhookBytes: c.HTTP.MaxWebhookBytes,
		Jobs: d.jobs, JobUses: jobUses,
	})
	if err != nil {
		return nil, err
	}
	return &apiServer{listener: l, server: api.HTTPServer(c.Listen)}, nil
}

// jobUses lists what a job's constraints and actions reach.
func jobUses(spec core.JobSpec) (jobs.Reach, error) {
	return constraints.Uses(&spec)
}

// url is where the server is reached.
func (s *apiServer) url() string {
	addr := s.listener.Addr().String()
	if host, port, err := net.SplitHostPort(addr); err == nil && (host == "::" || host == "0.0.0.0") {
		addr = net.JoinHostPort("127.0.0.1", port)
	}
	return "http://" + strings.TrimSpace(addr)
}

// serve answers until shutdown.
func (s *apiServer) serve() error {
	if err := s.server.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve the HTTP API: %w", err)
	}
	return nil
}

// shutdown takes no more connections, and waits for the requests under way
// until ctx ends; then it cuts them off.
func (s *apiServer) shutdown(ctx context.Context) error {
	if err := s.server.Shutdown(ctx); err != nil {
		return s.server.Close()
	}
	return nil
}
