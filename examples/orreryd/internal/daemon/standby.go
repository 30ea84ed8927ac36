package daemon

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/orrery-go/orrery/examples/orreryd/internal/config"
	"github.com/orrery-go/orrery/shell/fleet"
	"github.com/orrery-go/orrery/shell/fleet/forward"
	"github.com/orrery-go/orrery/shell/httpapi"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

// standby is a daemon while another one works on the database: it passes requests on.
type standby struct {
	of      *member
	name    string
	log     *slog.Logger
	member  *fleet.Member
	reloads *reloads
	metrics http.Handler
	ending  sync.WaitGroup // servers whose requests come to their end

	passes     atomic.Pointer[forward.Forwarder] // by the settings in force
	forwarding *forwarding                       // of it
}

// endFor is how long requests that are being passed on have to come to their end.
const endFor = 15 * time.Second

func newStandby(m *member, name string) *standby {
	s := &standby{of: m, name: name, log: m.log, reloads: newReloads(m.log)}
	if m.pair != nil {
		s.reloads.add("certificate", m.pair.reload)
	}
	if m.t.Config != nil {
		s.reloads.add("configuration", s.reload)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(s.reloads, standbyMetric(1))
	s.metrics = promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
	return s
}

// standbyMetric is 1 in a daemon that stands by.
func standbyMetric(is float64) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "orrery_standby", Help: "1 if this daemon stands by, 0 if it works."}, func() float64 { return is })
}

// as has requests be passed on by these settings from now on.
func (s *standby) as(c config.Config) error {
	by, err := newForwarding(c, s.name, s.log)
	if err != nil {
		return err
	}
	f, err := by.to(s.member)
	if err != nil {
		return err
	}
	s.passes.Store(f)
	s.forwarding.end()
	s.forwarding = by
	return nil
}

// forwarding is how requests are passed on, by the settings of some moment.
type forwarding struct {
	o         forward.Options
	transport *http.Transport
}

func newForwarding(c config.Config, name string, log *slog.Logger) (*forwarding, error) {
	proxies, err := c.Page.Proxies()
	if err != nil {
		return nil, err
	}
	roots, err := c.Authorities()
	if err != nil {
		return nil, err
	}
	transport := forward.Transport(&tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12})
	return &forwarding{forward.Options{
		Name: name, Open: len(c.Tokens) == 0, TrustedProxies: proxies, MaxBody: c.HTTP.MaxBodyBytes, Wait: waitFor(c.Lease()), Transport: transport, Logger: log,
	}, transport}, nil
}

// Bounds of waitFor. The longest is within the time that an address gives an answer: two minutes.
const (
	shortestWait = 15 * time.Second
	longestWait  = 90 * time.Second
)

// waitFor gives how long a request waits for a daemon that works: a takeover takes the lease and two seconds, and what follows takes a moment.
func waitFor(lease time.Duration) time.Duration {
	return min(max(shortestWait, lease+5*time.Second), longestWait)
}

// to makes what passes them on to who works.
func (f *forwarding) to(m forward.Member) (*forward.Forwarder, error) {
	o := f.o
	o.Member = m
	return forward.New(o)
}

// end closes what is idle; what is under way goes on.
func (f *forwarding) end() {
	if f != nil {
		f.transport.CloseIdleConnections()
	}
}

// reload reads the settings again, and goes by them at once and from when this daemon works on. If anything of them is wrong, nothing changes.
func (s *standby) reload(context.Context) ([]slog.Attr, error) {
	c, need, err := s.of.read()
	if err != nil {
		return nil, err
	}
	level, err := config.ParseLogLevel(c.LogLevel)
	if err != nil {
		return nil, err
	}
	if err := s.as(c); err != nil {
		return nil, err
	}
	s.of.level.Set(level)
	s.of.c = c
	says := []slog.Attr{slog.String("log_level", c.LogLevel)}
	if len(need) > 0 {
		s.log.Warn("settings have changed that are read at the start alone: restart the daemon for them", "keys", need)
		says = append(says, slog.Int("need_restart", len(need)))
	}
	return says, nil
}

// run passes requests on until ctx ends.
func (s *standby) run(ctx context.Context) error {
	if err := s.as(s.of.settings()); err != nil {
		return err
	}
	ctx, end := context.WithCancel(ctx)
	var beside sync.WaitGroup
	defer beside.Wait()
	defer end() // an address that fails ends it
	bounds := httpapi.NewBounds(maxConnections(s.of.c.HTTP.MaxConnections, descriptors()), s.log)
	beside.Go(func() { s.reloads.run(ctx, s.of.t.Reload) })
	return serveFronts(ctx, bounds, s.of.fronts(), func(f *front) http.Handler { return s.handler(f.isPage) }, &s.ending)
}

// standing is what a daemon that stands by answers to GET /readyz.
type standing struct {
	Status string     `json:"status"`
	Works  string     `json:"works"` // the daemon that does
	At     string     `json:"at"`
	Store  wire.Store `json:"store"`
}

// handler answers while another one works. An address of the page alone passes nothing on: that of the one that works is not known.
func (s *standby) handler(isPage bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/healthz" && isRead(r):
			answer(w, r, map[string]string{"status": "standby"})
		case r.URL.Path == "/readyz" && isRead(r):
			o, ok := s.passes.Load().Ready()
			if !ok {
				forward.Unavailable(w, "not ready: standing by, and no daemon works on the database at the moment")
				return
			}
			answer(w, r, standing{Status: "standby", Works: o.Owner, At: o.Address, Store: wire.Store{Kind: storePostgres, Partitions: 1}})
		case r.URL.Path == "/metrics" && isRead(r): // those of the one that works would count twice
			s.metrics.ServeHTTP(w, r)
		case isPage:
			forward.Unavailable(w, "this daemon stands by; the page is that of the one that works: "+s.member.State().Owner)
		default:
			s.passes.Load().ServeHTTP(w, r)
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

// bounds are those on connections, and on slow and large requests.
type bounds interface {
	Listener(l net.Listener) net.Listener
	HTTPServer(addr string, h http.Handler) *http.Server
}

// serveFronts answers at addresses until ctx ends, and lets what is under way come to its end for a while after that, of which ending tells.
func serveFronts(ctx context.Context, bounds bounds, fronts []*front, handler func(*front) http.Handler, ending *sync.WaitGroup) error {
	var wg sync.WaitGroup
	errs := make([]error, len(fronts))
	for i, f := range fronts {
		server := bounds.HTTPServer(f.gate.Addr().String(), handler(f))
		server.TLSConfig = f.tls
		l := bounds.Listener(f.gate.turn())
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
		ending.Add(1)
		context.AfterFunc(ctx, func() {
			_ = l.Close() // the next one answers from now on
			go func() {
				defer ending.Done()
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
