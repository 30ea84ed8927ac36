package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/orrery-go/orrery/examples/orreryd/internal/config"
	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/postgres"
)

// standby is a daemon while another one works on the database: it passes requests on, and takes the database over when the other one
// has given it back, or is silent for a lease.
type standby struct {
	c       config.Config
	name    string
	address string // where this one answers
	log     *slog.Logger
	cluster *postgres.Cluster
	stands  func() // is told once it is known that another one works
	forward *forwarder
	ending  sync.WaitGroup // servers whose requests come to their end

	mu      sync.Mutex
	owner   owner
	changed chan struct{} // closed once owner is another one
}

func newStandby(c config.Config, name, address string, cluster *postgres.Cluster, log *slog.Logger) *standby {
	s := &standby{c: c, name: name, address: address, cluster: cluster, log: log, changed: make(chan struct{})}
	proxies, _ := c.Page.Proxies() // which was checked
	s.forward = (&forwarder{name: name, owner: s.current, open: len(c.Tokens) == 0, proxies: proxies, most: c.HTTP.MaxBodyBytes, log: log}).start()
	return s
}

func (s *standby) current() (owner, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.owner, s.changed
}

// know notes who works.
func (s *standby) know(o owner) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.owner == o {
		return
	}
	s.owner = o
	close(s.changed)
	s.changed = make(chan struct{})
}

// looks is how often the daemon that works is looked at within a lease.
const looks = 20

// await waits until the database is this daemon's, and opens it. Silence of the one that works counts as long as the database
// answers, by this machine's steady clock: what is between two looks that went well, and not long one after the other.
func (s *standby) await(ctx context.Context) (*postgres.Store, error) {
	lease := s.c.Lease()
	every := lease / looks
	var last postgres.Partition
	var looked time.Time // the last look that went well
	var silent time.Duration
	away := false
	for {
		row, err := s.look(ctx)
		now := time.Now()
		var claim bool
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case errors.Is(err, store.ErrNotFound):
			claim = true
		case err != nil:
			if !away {
				s.log.Warn("the database does not answer; standing by until it does", "database", s.c.StoreName(), "error", err)
			}
			away, looked, silent = true, time.Time{}, 0
		default:
			if away {
				s.log.Info("the database answers again", "database", s.c.StoreName())
			}
			away = false
			switch gap := now.Sub(looked); {
			case !row.Owned():
				claim = true
			case looked.IsZero() || row.Token != last.Token || row.Beat != last.Beat:
				silent = 0
			case gap < lease/2:
				silent += gap
			}
			claim = claim || silent >= lease
			looked, last = now, row
			s.tell(row)
		}
		if claim {
			st, err := s.claim(ctx, row)
			if st != nil || err != nil {
				return st, err
			}
			silent = 0
		}
		pause := time.NewTimer(every)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return nil, context.Cause(ctx)
		}
	}
}

// look reads who works. A connection over which nothing comes any more is given up within a lease.
func (s *standby) look(ctx context.Context) (postgres.Partition, error) {
	limit, cancel := context.WithTimeout(ctx, s.c.Lease()/4)
	defer cancel()
	return s.cluster.Look(limit, 0)
}

// tell notes who works, and says so if it is another one than before.
func (s *standby) tell(row postgres.Partition) {
	was, _ := s.current()
	o := owner{}
	if row.Owned() {
		o.name = row.Owner
		if strings.HasPrefix(row.Address, "http") { // else it is no daemon, such as a copy
			o.address = row.Address
		}
	}
	if o != was {
		s.know(o)
		if row.Owned() {
			s.log.Info("standing by: another daemon works on the database", "database", s.c.StoreName(), "works", row.Owner, "at", row.Address)
			s.stands()
		}
	}
}

// claim takes the database if it is still as it was seen; nil: somebody was faster.
func (s *standby) claim(ctx context.Context, seen postgres.Partition) (*postgres.Store, error) {
	if seen.Owned() { // several have seen the same silence: not all ask at the same moment
		if err := sleep(ctx, s.turn()); err != nil {
			return nil, err
		}
	}
	o := postgres.Options{Owner: s.name, Address: s.address, Lease: s.c.Lease(), Logger: s.log}
	if seen.Token > 0 {
		o.Seen = &seen
	}
	st, err := postgres.Open(ctx, s.c.Database, o)
	switch {
	case err == nil:
		s.know(owner{s.name, s.address})
		return st, nil
	case errors.Is(err, store.ErrClaimed):
		return nil, nil
	case errors.Is(err, postgres.ErrLost), errors.Is(err, postgres.ErrUnfilled), errors.Is(err, postgres.ErrNewer), errors.Is(err, store.ErrCorrupt), ctx.Err() != nil:
		return nil, fmt.Errorf("%s: %w", s.c.StoreName(), err)
	}
	s.log.Warn("the database cannot be taken over; trying again", "database", s.c.StoreName(), "error", err)
	return nil, nil
}

// turn is how long this daemon lets others be faster: another time for each name.
func (s *standby) turn() time.Duration {
	h := fnv.New32a()
	_, _ = h.Write([]byte(s.name)) // it never fails
	return time.Duration(h.Sum32()%looks) * s.c.Lease() / looks / looks
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// handler answers while another one works. An address of the page alone passes nothing on: that of the one that works is not known.
func (s *standby) handler(isPage bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/healthz" && isRead(r):
			answer(w, r, map[string]string{"status": "standby"})
		case r.URL.Path == "/readyz" && isRead(r):
			o, _ := s.current()
			if o.address == "" {
				unavailable(w, "not ready: standing by, and no daemon works on the database at the moment")
				return
			}
			answer(w, r, map[string]string{"status": "standby", "works": o.name, "at": o.address})
		case r.URL.Path == "/metrics" && isRead(r): // those of the one that works would count twice
			w.Header().Set("Content-Type", "text/plain; version=0.0.4")
			text.Sayf(w, "# HELP orrery_standby 1 if this daemon stands by, 0 if it works.\n# TYPE orrery_standby gauge\norrery_standby 1\n")
		case isPage:
			o, _ := s.current()
			unavailable(w, "this daemon stands by; the page is that of the one that works: "+o.name)
		default:
			s.forward.ServeHTTP(w, r)
		}
	})
}

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
				limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), forwardFor)
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
