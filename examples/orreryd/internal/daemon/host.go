package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/orrery-go/orrery/examples/orreryd/internal/config"
	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
	"github.com/orrery-go/orrery/examples/orreryd/internal/version"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/audit"
	"github.com/orrery-go/orrery/shell/constraints"
	"github.com/orrery-go/orrery/shell/fleet"
	"github.com/orrery-go/orrery/shell/fleet/forward"
	"github.com/orrery-go/orrery/shell/httpapi"
	"github.com/orrery-go/orrery/shell/jobs"
	"github.com/orrery-go/orrery/shell/page"
	"github.com/orrery-go/orrery/shell/watchdog"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/postgres"
)

// host is a daemon on a database whose tenants are divided over several partitions: it has an engine and an API for each that is its own, and
// answers for all of them at one address.
type host struct {
	*member
	url      string // where it answers
	layout   store.Layout
	group    *fleet.Group
	roster   roster
	router   *httpapi.Router
	fronts   []*forward.Front // by partition
	shared   httpapi.Shared   // by the router and the APIs of the partitions
	slots    shell.Slots      // of the engines
	hooks    constraints.Slots
	rooms    jobs.Rooms   // of the partitions' runners
	pools    config.Pools // of the partitions' runners
	audit    *audit.Log   // nil: none
	watchdog *watchdog.Watchdog
	reloads  *reloads
	ending   sync.WaitGroup // servers whose requests come to their end

	began config.Config // the settings of the start

	mu      sync.Mutex // guards what follows, and c
	units   map[int]*daemon
	failing map[int]error        // why those of this daemon's partitions cannot be worked on
	opened  map[*daemon]struct{} // what works on a partition, or goes on with runs of tools there after it was given back
	passing *forwarding
	reread  int // how often the settings were read again
}

// orchestrateDivided works on the partitions of a database that are this daemon's, until ctx ends.
func orchestrateDivided(ctx context.Context, m *member, cluster *postgres.Cluster, layout store.Layout, name, url string) (err error) {
	if m.t.Demo {
		return fmt.Errorf("--demo: %s is divided into %d partitions: demonstrate on a database of its own", m.c.StoreName(), layout.Partitions)
	}
	h := &host{member: m, url: url, layout: layout, began: m.c, units: map[int]*daemon{}, failing: map[int]error{}, opened: map[*daemon]struct{}{}, reloads: newReloads(m.log)}
	if h.pools, err = m.c.MakePools(m.log); err != nil {
		return err
	}
	if h.audit, err = openAudit(m.c, m.log); err != nil {
		return err
	}
	if h.audit != nil {
		defer func() { err = errors.Join(err, h.audit.Close()) }()
	}
	if h.watchdog, err = m.c.Watchdog.Make(h.works, m.log); err != nil {
		return fmt.Errorf("watchdog: %w", err)
	}
	database := m.c.StoreName()
	h.group, err = fleet.NewGroup(fleet.Options{
		Cluster: cluster, Name: name, Address: cmp.Or(m.c.Cluster.Address, url), Version: version.String(), Lease: m.c.Lease(),
		Abilities: m.c.Abilities(), Bound: h.bound,
		Events: func(e fleet.Event) {
			logMove(m.log, database, name, e)
			if e.State.Partition >= 0 {
				m.left.saw(ctx, e, h.settings().Of(e.State.Partition))
			}
		},
	}, layout)
	if err != nil {
		return err
	}
	h.roster = roster{name: name, database: m.c.StoreName(), partitions: layout.Partitions, cluster: cluster, instances: h.group.Instances, log: m.log}
	if err := h.route(); err != nil {
		return err
	}
	return h.run(ctx)
}

// route makes what answers requests: it has them answered by the partition that they are about, here or where that is.
func (h *host) route() error {
	routes, err := h.c.WebhookRoutes()
	if err != nil {
		return err
	}
	scopes := map[string]shell.Scope{}
	for name, r := range routes { // order-free: it fills a map
		scopes[name] = shell.Scope{Namespace: r.Namespace, Tenant: r.Tenant}
	}
	by, err := newForwarding(h.c, h.roster.name, h.log)
	if err != nil {
		return err
	}
	if err := h.passOn(by); err != nil {
		return err
	}
	if h.pair != nil {
		h.reloads.add("certificate", h.pair.reload)
	}
	if h.t.Config != nil {
		h.reloads.add("configuration", h.reload)
	}
	o, err := apiOptions(h.c, h.log, h.audit)
	if err != nil {
		return err
	}
	o.Cluster, o.Drain, o.AcceptLoss, o.Rebalance, o.Placings, o.Metrics, o.Shared = h.roster.tell, h.roster.drain, h.roster.acceptLoss, h.rebalance, h.placings, h.metrics(), &h.shared
	o.Settings, o.PageKey = func() string { return h.settings().Shown() }, h.pageKey
	o.Ready = h.ready
	h.router, err = httpapi.NewRouter(httpapi.RouterOptions{
		API: o, Name: h.roster.name, Partitions: h.layout.Partitions, Webhooks: scopes, Local: h.local,
		Remote: func(p int) http.Handler { return h.fronts[p] }, Instances: h.instances,
	})
	return err
}

// pageKey gives the key that seals sessions of the page and page tokens, which partition 0 keeps for all daemons.
func (h *host) pageKey(ctx context.Context) (key []byte, err error) {
	if d, ok := h.mine()[0]; ok {
		return httpapi.StoredPageKey(ctx, d.store)
	}
	st, err := postgres.Open(ctx, h.settings().Database, postgres.Options{ReadOnly: true})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	return httpapi.StoredPageKey(ctx, st)
}

// settings are those in force.
func (h *host) settings() config.Config {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.c
}

// passOn has requests be passed on so from now on.
func (h *host) passOn(by *forwarding) error {
	for p := range h.layout.Partitions {
		f, err := by.to(h.group.Member(p))
		if err != nil {
			return err
		}
		if len(h.fronts) == p {
			h.fronts = append(h.fronts, forward.NewFront(f))
		} else {
			h.fronts[p].Pass(f)
		}
	}
	h.mu.Lock()
	was := h.passing
	h.passing = by
	h.mu.Unlock()
	was.end()
	return nil
}

func (h *host) metrics() []prometheus.Collector {
	list := []prometheus.Collector{h.reloads, standbyMetric(0), placeMetrics{h.group, h.runsLeft}}
	if h.watchdog != nil {
		list = append(list, watchdogMetrics{h.watchdog})
	}
	return list
}

// run answers requests, and works on the partitions that are this daemon's, until ctx ends.
func (h *host) run(ctx context.Context) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	serving, stop := context.WithCancel(context.WithoutCancel(ctx)) // others may take over what is asked for until the last partition is given back
	defer h.ending.Wait()
	defer stop()
	var beside sync.WaitGroup
	defer beside.Wait()
	defer end()
	answers, err := h.answers()
	if err != nil {
		return err
	}
	var served error
	beside.Go(func() {
		defer end() // an address that fails ends it
		served = serveFronts(serving, routed{h.router}, h.member.fronts(), answers, &h.ending)
	})
	beside.Go(func() { h.reloads.run(ctx, h.t.Reload) })
	if h.watchdog != nil {
		beside.Go(func() { h.watchdog.Run(ctx) })
	}
	h.log.Info("ready", "listen", h.url, "db", h.roster.database, "partitions", h.layout.Partitions, "version", version.String())
	text.Sayf(h.t.Out, "orreryd is ready at %s\n", h.url)
	if at := h.pageURL(); at != "" {
		text.Sayf(h.t.Out, "The page is at %s\n", at)
	}
	h.notify(ctx, "READY=1")
	context.AfterFunc(ctx, func() { h.notify(context.WithoutCancel(ctx), "STOPPING=1") })
	err = h.group.Run(ctx, h.work)
	stop()
	end()
	beside.Wait()
	if errors.Is(err, store.ErrUnusable) || errors.Is(err, store.ErrCorrupt) {
		err = h.began.OfDatabase(err)
	}
	return errors.Join(err, served)
}

// settleFor is how long requests under way have to come to their end before the engine is stopped that answers them.
const settleFor = time.Second

// pageURL is where the page is reached; "" if it is not enabled.
func (h *host) pageURL() string {
	switch {
	case !h.began.Page.Enabled:
		return ""
	case h.member.page != nil:
		e := endpoint{listener: h.member.page.gate, tls: h.member.page.tls != nil}
		return e.url() + page.DefaultMount + "/"
	}
	return h.url + page.DefaultMount + "/"
}

// tryAgain is how long a partition is left alone that cannot be worked on, and tries are how often that is tried before it is left to another daemon.
const (
	tryAgain = 2 * time.Second
	tries    = 3
)

// work works on one partition while it is this daemon's. What is wrong with one keeps no other one from being worked on: it is tried again, and then given back,
// since what this daemon lacks, such as a connection to the database, another one may have.
func (h *host) work(ctx context.Context, own fleet.Term) error {
	h.left.stop(own.Partition)
	for n := 1; ; n++ {
		err := h.workOnce(ctx, own)
		if err == nil || ctx.Err() != nil || own.Store.Failure() != nil {
			return err
		}
		if n == tries {
			return fmt.Errorf("%w: %w", fleet.ErrUnfit, err)
		}
		h.log.Error("the partition cannot be worked on; trying again", "partition", own.Partition, "after", tryAgain, "error", err)
		h.fails(own.Partition, err)
		select {
		case <-time.After(tryAgain):
		case <-ctx.Done():
		}
		h.fails(own.Partition, nil)
	}
}

// fails notes why a partition cannot be worked on; nil: it is tried again, or is another daemon's.
func (h *host) fails(partition int, why error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if delete(h.failing, partition); why != nil {
		h.failing[partition] = why
	}
}

func (h *host) workOnce(ctx context.Context, own fleet.Term) (err error) {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	h.mu.Lock()
	c, reread := h.c, h.reread
	h.mu.Unlock()
	d, err := openDaemon(ctx, c.Of(own.Partition), h.t.Command, h.log.With("partition", own.Partition), &term{Term: own, roster: h.roster, host: h})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	defer h.opens(d)()
	working, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stop(nil)
	var mu sync.Mutex // guards leave
	leave := func() {}
	left := func() {
		mu.Lock()
		defer mu.Unlock()
		leave() // requests that come from now on wait for the next owner of the partition
	}
	defer context.AfterFunc(ctx, func() {
		left()
		limit, cancel := context.WithTimeout(working, settleFor)
		defer cancel()
		if own.Store.Failure() == nil {
			d.server.Settled(limit)
		}
		stop(context.Cause(ctx))
	})()
	return d.run(working, func() {
		mu.Lock()
		defer mu.Unlock()
		if ctx.Err() != nil {
			return
		}
		if is, again := h.enter(own.Partition, d); again != reread { // they were read again while this was made
			if err := d.adopt(is); err != nil {
				h.log.Warn("the settings that were read again cannot be used for the partition", "partition", own.Partition, "error", err)
			}
		}
		if own.Partition == 0 {
			if _, err := h.pageKey(ctx); err != nil {
				h.log.Warn("partition 0 does not keep the key of the page's sessions: they are good with one daemon each", "error", err)
			}
		}
		answers := h.fronts[own.Partition].Own(d.server.Handler())
		leave = sync.OnceFunc(func() {
			h.enter(own.Partition, nil)
			answers()
		})
		h.log.Info("works", "partition", own.Partition)
	}, left)
}

// enter notes what works on a partition; nil: nothing does. It gives the settings in force, and how often they were read again.
func (h *host) enter(partition int, d *daemon) (c config.Config, reread int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if d == nil {
		delete(h.units, partition)
	} else {
		h.units[partition] = d
	}
	return h.c, h.reread
}

// local gives the API of a partition that is this daemon's at the moment.
func (h *host) local(partition int) (*httpapi.Server, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	d, ok := h.units[partition]
	if !ok {
		return nil, false
	}
	return d.server, true
}

// ready gives which of this daemon's partitions cannot be worked on. Anyone may ask, so why that is stands in the log.
func (h *host) ready() error {
	if err := errors.Join(whileAnswered(h.group)(), h.unfilled()); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.failing) == 0 {
		return nil
	}
	var of []string
	for _, p := range slices.Sorted(maps.Keys(h.failing)) {
		of = append(of, strconv.Itoa(p))
	}
	return fmt.Errorf("the work on partition %s cannot begin, and is tried again: the daemon's log says why", strings.Join(of, ", "))
}

func (h *host) mine() map[int]*daemon {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.units)
}

// works gives what keeps a partition of this daemon's from being worked on; nil: nothing.
func (h *host) works(ctx context.Context) error {
	mine := h.mine()
	h.mu.Lock()
	failing := maps.Clone(h.failing)
	h.mu.Unlock()
	var errs []error
	for _, p := range slices.Sorted(maps.Keys(failing)) {
		errs = append(errs, fmt.Errorf("partition %d: %w", p, failing[p]))
	}
	for _, p := range slices.Sorted(maps.Keys(mine)) {
		if err := mine[p].works(ctx); err != nil {
			errs = append(errs, fmt.Errorf("partition %d: %w", p, err))
		}
	}
	return errors.Join(errs...)
}

// reload reads the settings again, for all partitions. What of them holds at once is as with one partition, and where the authorities of the other daemons'
// certificates are. If anything of them is wrong, nothing changes.
func (h *host) reload(ctx context.Context) ([]slog.Attr, error) {
	c, need, err := h.read()
	if err != nil {
		return nil, err
	}
	level, err := config.ParseLogLevel(c.LogLevel)
	if err != nil {
		return nil, err
	}
	r := config.Reload(h.began, h.settings(), c)
	r.InForce.Cluster.CAFile = c.Cluster.CAFile
	if _, err := r.InForce.NamedSecrets(); err != nil {
		return nil, err
	}
	by, err := newForwarding(r.InForce, h.roster.name, h.log)
	if err != nil {
		return nil, err
	}
	tokens, err := replaceTokens(h.router.API(), r)
	if err != nil {
		return nil, err
	}
	h.level.Set(level)
	h.mu.Lock()
	h.c = r.InForce
	h.reread++
	units := slices.Collect(maps.Values(h.units))
	h.mu.Unlock()
	if err := h.passOn(by); err != nil {
		return nil, err
	}
	for _, d := range units { // order-free: each for itself
		if err := d.adopt(r.InForce); err != nil {
			return nil, err
		}
		if h.began.Apply.Dir != "" {
			d.reloads.all(ctx)
		}
	}
	return append(append([]slog.Attr{slog.String("log_level", c.LogLevel)}, tokens...), leftOut(h.log, r, slices.Concat(need, config.Changed(r.InForce, c)))...), nil
}

// adopt has the work on a partition go by settings that were read again: by what of them holds at once.
func (d *daemon) adopt(c config.Config) error {
	source, err := c.NamedSecrets()
	if err != nil {
		return err
	}
	d.replaceSecrets(source)
	c = c.Of(d.term.Partition)
	d.inForce.Store(&c)
	return nil
}

// answers gives what answers at each address.
func (h *host) answers() (func(*front) http.Handler, error) {
	both, apart := http.Handler(h.router), http.Handler(nil)
	if h.c.Page.Enabled {
		ui, err := newPage(h.c, h.router.API(), h.log)
		if err != nil {
			return nil, err
		}
		if apart = withPage(h.c, ui, probes(h.router)); !h.c.Page.Apart() {
			both = withPage(h.c, ui, h.router)
		}
	}
	return func(f *front) http.Handler {
		if f.isPage {
			return apart
		}
		return both
	}, nil
}

// routed has the bounds that the router shares with the APIs behind it.
type routed struct{ *httpapi.Router }

// Listener implements [bounds].
func (r routed) Listener(l net.Listener) net.Listener { return r.API().Listener(l) }

// HTTPServer implements [bounds].
func (r routed) HTTPServer(addr string, h http.Handler) *http.Server {
	s := r.Router.HTTPServer(addr)
	s.Handler = h
	return s
}
