package daemon

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/orrery-go/orrery/examples/orreryd/internal/config"
	"github.com/orrery-go/orrery/shell/httpapi"
	"github.com/orrery-go/orrery/shell/secrets"
)

// reloader is something that the daemon reads again while it runs.
type reloader struct {
	what string // as the log and the metrics name it
	// reload reads it again, and puts it in the place of what was there: as a whole, or, with an error, not at all. It
	// gives what the line of the log says of it, or of what can be done about the error.
	reload func(ctx context.Context) ([]slog.Attr, error)
}

// reloads are all that the daemon reads again, in the order in which it does.
type reloads struct {
	log *slog.Logger
	now func() time.Time

	mu   sync.Mutex // guards what follows
	list []reloader
	past map[string]pastReloads
}

// pastReloads are those of one reloader.
type pastReloads struct {
	done, failed uint64
	fails        bool      // the last one did
	succeeded    time.Time // when the last one did that succeeded; the reading at the start is one; zero: none has
}

func newReloads(log *slog.Logger) *reloads {
	return &reloads{log: log, now: time.Now, past: map[string]pastReloads{}}
}

// add adds something that was read just now, and is to be read again.
func (r *reloads) add(what string, reload func(context.Context) ([]slog.Attr, error)) {
	r.enlist(reloader{what, reload}, r.now())
}

// enlist adds something that was read at that time; zero: not yet.
func (r *reloads) enlist(l reloader, succeeded time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, l)
	r.past[l.what] = pastReloads{succeeded: succeeded}
}

// run reads all again whenever it is told to, until ctx ends.
func (r *reloads) run(ctx context.Context, told <-chan struct{}) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-told:
			r.all(ctx)
		}
	}
}

// all reads all again. What one of them refuses, it keeps as it was; the others are read all the same.
func (r *reloads) all(ctx context.Context) {
	r.mu.Lock()
	list := slices.Clone(r.list)
	r.mu.Unlock()
	r.log.Info("reloading", "count", len(list))
	for _, l := range list {
		r.read(ctx, l, true)
	}
}

// first reads something for the first time, and again with all.
func (r *reloads) first(ctx context.Context, what string, reload func(context.Context) ([]slog.Attr, error)) {
	l := reloader{what, reload}
	r.enlist(l, time.Time{})
	r.read(ctx, l, false)
}

// read reads something, counts it, and then says what became of it. again: it was read before.
func (r *reloads) read(ctx context.Context, l reloader, again bool) {
	says, err := l.reload(ctx)
	r.note(l.what, err == nil)
	attrs := []slog.Attr{slog.String("what", l.what)}
	if err != nil {
		attrs = append(attrs, slog.Any("error", err))
	}
	attrs = append(attrs, says...)
	switch {
	case err != nil && again:
		r.log.LogAttrs(ctx, slog.LevelError, "could not be reloaded: what was read before stays in force", attrs...)
	case err != nil:
		r.log.LogAttrs(ctx, slog.LevelError, "could not be read: what the database has goes on", attrs...)
	case again:
		r.log.LogAttrs(ctx, slog.LevelInfo, "reloaded", attrs...)
	default:
		r.log.LogAttrs(ctx, slog.LevelInfo, "read", attrs...)
	}
}

func (r *reloads) note(what string, succeeded bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.past[what]
	if p.fails = !succeeded; succeeded {
		p.done, p.succeeded = p.done+1, r.now()
	} else {
		p.failed++
	}
	r.past[what] = p
}

// The metrics of reloads.
var (
	descReloads         = prometheus.NewDesc("orrery_reload_total", "How often something was read, at the start or again on SIGHUP: done, or failed.", []string{"what", "outcome"}, nil)
	descReloadSucceeded = prometheus.NewDesc("orrery_reload_successful", "1 if the last reload succeeded, or there was none yet; 0: what was read before is still in force.", []string{"what"}, nil)
	descReloadTime      = prometheus.NewDesc("orrery_reload_success_timestamp_seconds", "When what is in force was read; absent until something was read.", []string{"what"}, nil)
)

// Describe implements [prometheus.Collector].
func (r *reloads) Describe(ch chan<- *prometheus.Desc) {
	ch <- descReloads
	ch <- descReloadSucceeded
	ch <- descReloadTime
}

// Collect implements [prometheus.Collector].
func (r *reloads) Collect(ch chan<- prometheus.Metric) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, what := range slices.Sorted(maps.Keys(r.past)) {
		p, succeeded := r.past[what], 1.0
		if p.fails {
			succeeded = 0
		}
		ch <- prometheus.MustNewConstMetric(descReloads, prometheus.CounterValue, float64(p.done), what, "done")
		ch <- prometheus.MustNewConstMetric(descReloads, prometheus.CounterValue, float64(p.failed), what, "failed")
		ch <- prometheus.MustNewConstMetric(descReloadSucceeded, prometheus.GaugeValue, succeeded, what)
		if p.succeeded.IsZero() {
			continue
		}
		ch <- prometheus.MustNewConstMetric(descReloadTime, prometheus.GaugeValue, float64(p.succeeded.UnixMilli())/1000, what)
	}
}

// reloadConfig reads the settings again. The level of the log, the tokens and the secrets of tools hold at once; which
// other settings have changed, the log says: they need a restart. If anything of the new ones is wrong, nothing changes.
func (d *daemon) reloadConfig(load func() (config.Config, error), level *slog.LevelVar) func(context.Context) ([]slog.Attr, error) {
	return func(context.Context) ([]slog.Attr, error) {
		c, err := load()
		if err == nil {
			err = config.CheckListen(c)
		}
		if err != nil {
			return nil, err
		}
		l, err := config.ParseLogLevel(c.LogLevel)
		if err != nil {
			return nil, err
		}
		r := config.Reload(d.c, *d.settings(), c)
		source, err := r.InForce.NamedSecrets()
		if err != nil {
			return nil, err
		}
		tokens, err := replaceTokens(d.server, r)
		if err != nil {
			return nil, err
		}
		level.Set(l)
		d.replaceSecrets(source)
		d.inForce.Store(&r.InForce)
		return append(append([]slog.Attr{slog.String("log_level", c.LogLevel)}, tokens...), leftOut(d.log, r, config.Changed(r.InForce, c))...), nil
	}
}

// leftOut warns of what holds from the next start on, and gives what the line of the log says of it.
func leftOut(log *slog.Logger, r config.Reloaded, changed []string) []slog.Attr {
	if len(r.Withheld) > 0 {
		log.Warn("tokens are new that may change something where no token of the start may: restart the daemon for them", "tokens", r.Withheld)
	}
	if len(changed) == 0 {
		return nil
	}
	log.Warn("settings have changed that are read at the start alone: restart the daemon for them", "keys", changed)
	return []slog.Attr{slog.Int("need_restart", len(changed))}
}

// settings are those in force.
func (d *daemon) settings() *config.Config {
	if c := d.inForce.Load(); c != nil {
		return c
	}
	return &d.c
}

// replaceTokens has the API take the tokens that were read again, if they can be replaced, and gives what the log says of it.
func replaceTokens(server *httpapi.Server, r config.Reloaded) (says []slog.Attr, err error) {
	if !r.Tokens || server == nil {
		return nil, nil
	}
	tokens, err := r.InForce.APITokens()
	if err != nil {
		return nil, err
	}
	changes, err := server.SetTokens(tokens)
	if err != nil {
		return nil, err
	}
	for _, of := range []struct {
		what  string
		names []string
	}{{"tokens_added", changes.Added}, {"tokens_removed", changes.Removed}, {"tokens_changed", changes.Changed}} {
		if len(of.names) > 0 {
			says = append(says, slog.Any(of.what, of.names))
		}
	}
	return says, nil
}

// replaceSecrets has tools get these secrets from now on; nil: none of them.
func (d *daemon) replaceSecrets(s secrets.Source) {
	if d.secrets == nil {
		return
	}
	if s == nil {
		s = secrets.Set{}
	}
	d.secrets.Replace(s)
}
