package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/orrery-go/orrery/examples/orreryd/internal/config"
	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
	"github.com/orrery-go/orrery/shell/fleet"
	"github.com/orrery-go/orrery/shell/fleet/forward"
)

// standby is a daemon while another one works on the database: it passes requests on.
type standby struct {
	c       config.Config
	member  *fleet.Member
	forward *forward.Forwarder
	log     *slog.Logger
	ending  sync.WaitGroup // servers whose requests come to their end
}

// endFor is how long requests that are being passed on have to come to their end.
const endFor = 15 * time.Second

// as gives what passes requests on by these settings.
func (s *standby) as(c config.Config, name string) (err error) {
	proxies, err := c.Page.Proxies()
	if err != nil {
		return err
	}
	s.c = c
	s.forward, err = forward.New(forward.Options{
		Member: s.member, Name: name, Open: len(c.Tokens) == 0, TrustedProxies: proxies, MaxBody: c.HTTP.MaxBodyBytes, Logger: s.log,
	})
	return err
}

// handler answers while another one works. An address of the page alone passes nothing on: that of the one that works is not known.
func (s *standby) handler(isPage bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/healthz" && isRead(r):
			answer(w, r, map[string]string{"status": "standby"})
		case r.URL.Path == "/readyz" && isRead(r):
			o, ok := s.forward.Ready()
			if !ok {
				forward.Unavailable(w, "not ready: standing by, and no daemon works on the database at the moment")
				return
			}
			answer(w, r, map[string]string{"status": "standby", "works": o.Owner, "at": o.Address})
		case r.URL.Path == "/metrics" && isRead(r): // those of the one that works would count twice
			w.Header().Set("Content-Type", "text/plain; version=0.0.4")
			text.Sayf(w, "# HELP orrery_standby 1 if this daemon stands by, 0 if it works.\n# TYPE orrery_standby gauge\norrery_standby 1\n")
		case isPage:
			forward.Unavailable(w, "this daemon stands by; the page is that of the one that works: "+s.member.State().Owner)
		default:
			s.forward.ServeHTTP(w, r)
		}
	})
}

func isRead(r *http.Request) bool { return r.Method == http.MethodGet || r.Method == http.MethodHead }

func answer(w http.ResponseWriter, r *http.Request, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if r.Method == http.MethodHead {
		return
	}
	_ = json.NewEncoder(w).Encode(v) // the client may have gone
}

// serve answers on listeners until ctx ends, and lets what is under way come to its end for a while after that.
func (s *standby) serve(ctx context.Context, fronts []*front) error {
	var wg sync.WaitGroup
	errs := make([]error, len(fronts))
	for i, f := range fronts {
		server := &http.Server{
			Handler: s.handler(f.isPage), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 32 << 10,
			TLSConfig: f.tls, ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
		}
		l := f.gate.turn()
		wg.Go(func() {
			if f.tls != nil {
				errs[i] = server.ServeTLS(l, "", "")
			} else {
				errs[i] = server.Serve(l)
			}
			if errors.Is(errs[i], http.ErrServerClosed) || errors.Is(errs[i], net.ErrClosed) {
				errs[i] = nil
			}
		})
		s.ending.Add(1)
		context.AfterFunc(ctx, func() {
			_ = l.Close() // the next one answers from now on
			go func() {
				defer s.ending.Done()
				limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), endFor)
				defer cancel()
				if server.Shutdown(limit) != nil {
					_ = server.Close()
				}
			}()
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
