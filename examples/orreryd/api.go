package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/orrery-go/orrery/shell"
)

const defaultServer = "http://127.0.0.1:7460"

// apiServer answers HTTP requests on one address.
type apiServer struct {
	listener net.Listener
	server   *http.Server
	once     sync.Once
}

func checkListen(config) error { return nil }

func listenAPI(ctx context.Context, c config, _ *shell.Engine, _ *slog.Logger) (*apiServer, error) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	l, err := listen(ctx, c.Listen)
	if err != nil {
		return nil, err
	}
	return &apiServer{listener: l, server: &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}}, nil
}

// url is where the server is reached.
func (s *apiServer) url() string { return "http://" + s.listener.Addr().String() }

// serve answers until shutdown or close.
func (s *apiServer) serve() error {
	if err := s.server.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
		return err
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

// close releases the address where serve was never called.
func (s *apiServer) close() error {
	err := s.listener.Close()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
