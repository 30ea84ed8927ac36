// Package watchdog tells somebody outside again and again that an engine works, so that they notice
// when it does not: what is dead cannot say so itself. It makes a request to an address such as that
// of a check of healthchecks.io, which raises an alert if none comes for some time.
package watchdog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/orrery-go/orrery/shell/internal/webhook"
)

// Bounds of [Options.Every], and its default.
const (
	DefaultEvery = time.Minute
	MinEvery     = time.Second
	MaxEvery     = 24 * time.Hour
)

// timeLimit bounds one question of health, and one request. Both together end before the next are due.
const timeLimit = 10 * time.Second

// Options say who is told, and how often.
type Options struct {
	// URL is http or https. It may hold a secret: errors and the log name its host alone.
	URL   string
	Every time.Duration // between two requests; 0: [DefaultEvery]
	// Healthy reports what keeps the engine from working, such as [shell.Engine.Health]; while it gives
	// an error no request is made.
	Healthy   func(context.Context) error
	Transport http.RoundTripper // nil: a clone of [http.DefaultTransport]
	Logger    *slog.Logger      // nil: [slog.Default]
}

// Watchdog makes the requests. Make one with [New].
type Watchdog struct {
	url     string
	host    string
	every   time.Duration
	healthy func(context.Context) error
	client  *http.Client
	log     *slog.Logger

	mu    sync.Mutex // guards stats
	stats Stats
}

// Stats count the requests since the start.
type Stats struct {
	Taken   uint64    // that were answered with a success
	Failed  uint64    // that were not
	Held    uint64    // that were not made, since the engine was not healthy
	TakenAt time.Time // when the last one was taken; zero: none was
}

// New makes a Watchdog. The error names the option that cannot be right, and does not show the URL.
func New(o Options) (*Watchdog, error) {
	u, err := webhook.ParseURL(o.URL)
	if err != nil {
		return nil, fmt.Errorf("URL: %w", err)
	}
	if o.Every == 0 {
		o.Every = DefaultEvery
	}
	if o.Every < MinEvery || o.Every > MaxEvery {
		return nil, fmt.Errorf("Every: %s is not between %s and %s", o.Every, MinEvery, MaxEvery)
	}
	if o.Healthy == nil {
		return nil, errors.New("Healthy: is nil: say what the engine's health is")
	}
	w := &Watchdog{url: o.URL, host: u.Host, every: o.Every, healthy: o.Healthy, log: o.Logger}
	if w.log == nil {
		w.log = slog.Default()
	}
	transport := o.Transport
	if transport == nil {
		transport = http.DefaultTransport
		if own, ok := transport.(*http.Transport); ok {
			transport = own.Clone()
		}
	}
	w.client = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return w, nil
}

// Run makes a request at once, and then each time that the interval has passed, until ctx ends.
func (w *Watchdog) Run(ctx context.Context) {
	ticker := time.NewTicker(w.every)
	defer ticker.Stop()
	defer w.client.CloseIdleConnections()
	problem := "" // that was logged last
	for {
		if now := w.ping(ctx); ctx.Err() == nil && now != problem {
			if problem = now; now == "" {
				w.log.Info("the watchdog is told again that the daemon works", "host", w.host)
			} else {
				w.log.Warn("the watchdog is not told that the daemon works", "host", w.host, "why", now)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// ping makes one request, if the engine is healthy, and gives what was wrong.
func (w *Watchdog) ping(ctx context.Context) (problem string) {
	ctx, cancel := context.WithTimeout(ctx, min(timeLimit, w.every/2))
	defer cancel()
	if err := w.healthy(ctx); err != nil {
		w.count(func(s *Stats) { s.Held++ })
		return "the daemon is not healthy: " + err.Error()
	}
	if err := w.request(ctx); err != nil {
		w.count(func(s *Stats) { s.Failed++ })
		return err.Error()
	}
	w.count(func(s *Stats) { s.Taken, s.TakenAt = s.Taken+1, time.Now() })
	return ""
}

// request makes the request. Its error has no URL.
func (w *Watchdog) request(ctx context.Context) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, w.url, nil)
	if err != nil {
		return errors.New("the request cannot be made")
	}
	r.Header.Set("User-Agent", "orrery")
	answer, err := w.client.Do(r)
	if err != nil {
		if of, ok := errors.AsType[*url.Error](err); ok {
			err = of.Err
		}
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, 64<<10))
	if answer.StatusCode < 200 || answer.StatusCode > 299 {
		return fmt.Errorf("it answers %d", answer.StatusCode)
	}
	return nil
}

func (w *Watchdog) count(change func(*Stats)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(&w.stats)
}

// Stats gives the counts. It is safe for concurrent use.
func (w *Watchdog) Stats() Stats {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stats
}
