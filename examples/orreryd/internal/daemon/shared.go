package daemon

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/orrery-go/orrery/examples/orreryd/internal/config"
	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
	"github.com/orrery-go/orrery/examples/orreryd/internal/version"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/fleet"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/postgres"
)

// front is an address that a daemon on a shared database answers at, be it that it works or stands by.
type front struct {
	gate   *gate
	tls    *tls.Config // nil: connections are not encrypted
	isPage bool        // it has the page alone
}

// term is the time in which a daemon works on a shared database: what it is given for it.
type term struct {
	fleet.Term
	roster    roster
	ready     func() error // nil with host, which has its own
	api, page *front       // page nil: it has no address of its own
	// host answers for it, of several partitions; nil: the daemon has the addresses itself.
	host *host
}

// member is a daemon on a shared database.
type member struct {
	c     config.Config
	t     Terminal
	log   *slog.Logger
	level *slog.LevelVar
	api   *front
	page  *front
	pair  *certificate // nil: none
	again bool         // it has worked before
	left  *left
}

// orchestrateShared works on a database while it is this daemon's, and stands by while it is another one's, until ctx ends.
func orchestrateShared(ctx context.Context, c config.Config, t Terminal, log *slog.Logger, level *slog.LevelVar) (err error) {
	m := &member{c: c, t: t, log: log, level: level}
	defer func() {
		if ctx.Err() != nil && err == nil { // engines tell of their end, but this daemon may have none
			log.Info("this daemon has ended, as it was told to", "database", c.StoreName())
		}
	}()
	defer func() { err = errors.Join(err, m.close()) }()
	url, err := m.listen(ctx)
	if err != nil {
		return err
	}
	name, err := c.Instance()
	if err != nil {
		return err
	}
	cluster, err := postgres.Connect(ctx, c.Database, postgres.Options{Lease: c.Lease(), Logger: log})
	if err != nil {
		return c.OfDatabase(err)
	}
	defer cluster.Close()
	layout, err := cluster.Layout(ctx)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return c.OfDatabase(err)
	}
	if err := refuseUnfilled(ctx, cluster); err != nil {
		return c.OfDatabase(err)
	}
	m.left = newLeft(ctx, c, name, log)
	defer m.left.close()
	if layout.Partitions > 1 {
		return orchestrateDivided(ctx, m, cluster, layout, name, url)
	}
	address := c.Cluster.Address
	if address == "" {
		address = url
	}
	stands := sync.OnceFunc(func() {
		text.Sayf(t.Out, "orreryd stands by at %s\n", url)
		m.notify(ctx, "READY=1")
	})
	s := newStandby(m, name)
	s.member, err = fleet.New(fleet.Options{
		Cluster: cluster, Name: name, Address: address, Version: version.String(), Lease: c.Lease(),
		Events: func(e fleet.Event) {
			logEvent(log, c.StoreName(), name, e)
			m.left.saw(ctx, e, c)
			if e.Kind == fleet.EventStandsBy {
				stands()
			}
		},
		StandBy: s.run,
	})
	if err != nil {
		return err
	}
	defer s.ending.Wait() // what was passed on comes to its end, for a while
	r := roster{name: name, database: c.StoreName(), partitions: 1, cluster: cluster, instances: s.member.Instances, log: log}
	var ended error
	err = s.member.Run(ctx, func(ctx context.Context, own fleet.Term) error {
		m.left.stop(own.Partition)
		ended = whileUnreachable(ctx, own.Store, log, func() error {
			err := runTerm(ctx, m.settings(), t, log, level, &term{Term: own, roster: r, ready: whileAnswered(s.member), api: m.api, page: m.page})
			m.again = true
			return err
		})
		return ended
	})
	if !errors.Is(err, ended) && (errors.Is(err, store.ErrUnusable) || errors.Is(err, store.ErrCorrupt)) {
		err = c.OfDatabase(hintLost("0 --database URL", hintUnfilled(err)))
	}
	return err
}

// askAgain is how long a daemon that owns its database waits before it asks again one that has not answered when the work was to begin.
const askAgain = time.Second

// whileUnreachable calls work again as long as the database is not available, and is still this daemon's: one that refuses a connection for a moment, just
// when a daemon takes it over, must not cost that daemon.
func whileUnreachable(ctx context.Context, st store.Failing, log *slog.Logger, work func() error) error {
	for {
		err := work()
		if !errors.Is(err, store.ErrUnreachable) || ctx.Err() != nil || st.Failure() != nil {
			return err
		}
		log.Error("the database is not available, and is this daemon's; trying again", "after", askAgain, "error", err)
		select {
		case <-time.After(askAgain):
		case <-ctx.Done():
			return err
		}
	}
}

// listen opens the addresses, and gives that of the API.
func (m *member) listen(ctx context.Context) (url string, err error) {
	d := daemon{c: m.c, api: endpoint{what: "the HTTP API"}, page: endpoint{what: "the page"}, reloads: newReloads(m.log), log: m.log}
	if err := d.takeAddresses(ctx); err != nil {
		return "", errors.Join(err, d.api.close(), d.page.close())
	}
	var encrypted *tls.Config
	if files := m.c.HTTP.TLS; files.Cert != "" {
		pair, err := loadCertificate(files.Cert, files.Key, m.log)
		if err != nil {
			return "", errors.Join(err, d.api.close(), d.page.close())
		}
		m.pair, encrypted, d.api.tls = pair, pair.config(), true
	}
	m.api = &front{gate: newGate(d.api.listener), tls: encrypted}
	if d.page.listener != nil {
		m.page = &front{gate: newGate(d.page.listener), tls: encrypted, isPage: true}
	}
	return d.api.url(), nil
}

// handover is how the daemon gives its database to another one while tools run on: whatever else works on the database has ended before.
func (d *daemon) handover(h *shell.Handover) *shell.Handover {
	if h == nil {
		return nil
	}
	mine := *h
	mine.GiveBack = func() error {
		d.endJobs()
		defer d.gaveBack.Store(true)
		return h.GiveBack()
	}
	return &mine
}

func (m *member) fronts() (all []*front) {
	for _, f := range []*front{m.api, m.page} {
		if f != nil {
			all = append(all, f)
		}
	}
	return all
}

func (m *member) close() error {
	var errs []error
	for _, f := range m.fronts() {
		errs = append(errs, f.gate.Close())
	}
	return errors.Join(errs...)
}

func (m *member) notify(ctx context.Context, state string) {
	if err := sdNotify(context.WithoutCancel(ctx), m.t.NotifySocket, state); err != nil {
		m.log.Warn("could not notify systemd", "error", err)
	}
}

// settings gives those of what begins now, which are read anew if the daemon has worked before, as SIGHUP would: tokens that were removed meanwhile stay so.
func (m *member) settings() config.Config {
	if m.t.Config == nil || !m.again {
		return m.c
	}
	c, _, err := m.read()
	if err != nil {
		m.log.Error("the settings cannot be read again; those from before stay in force", "error", err)
		return m.c
	}
	m.c = c
	return c
}

// read reads the settings again. What they say of the database, of the addresses, and of what this daemon is to others counts from the next start on: need are
// the keys of that which have changed.
func (m *member) read() (c config.Config, need []string, err error) {
	is, err := m.t.Config()
	if err == nil {
		err = config.CheckListen(is)
	}
	if err != nil {
		return c, nil, err
	}
	c, was := is, m.c
	c.DB, c.Database, c.Listen, c.Page.Listen, c.HTTP.TLS = was.DB, was.Database, was.Listen, was.Page.Listen, was.HTTP.TLS
	c.Cluster = was.Cluster
	c.Cluster.CAFile = is.Cluster.CAFile
	return c, config.Changed(c, is), nil
}
