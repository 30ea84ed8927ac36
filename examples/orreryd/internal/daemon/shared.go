package daemon

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/orrery-go/orrery/examples/orreryd/internal/config"
	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
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
	store     *postgres.Store
	roster    *roster
	api, page *front // page nil: it has no address of its own
}

// member is a daemon on a shared database.
type member struct {
	c     config.Config
	t     Terminal
	log   *slog.Logger
	level *slog.LevelVar
	api   *front
	page  *front
}

// orchestrateShared works on a database while it is this daemon's, and stands by while it is another one's, until ctx ends.
func orchestrateShared(ctx context.Context, c config.Config, t Terminal, log *slog.Logger, level *slog.LevelVar) (err error) {
	m := &member{c: c, t: t, log: log, level: level}
	defer func() { err = errors.Join(err, m.close()) }()
	url, err := m.listen(ctx)
	if err != nil {
		return err
	}
	name, err := c.Instance()
	if err != nil {
		return err
	}
	cluster, err := postgres.Connect(ctx, c.Database, postgres.Options{Lease: c.Lease()})
	if err != nil {
		return fmt.Errorf("%s: %w", c.StoreName(), err)
	}
	defer cluster.Close()
	address := c.Cluster.Address
	if address == "" {
		address = url
	}
	r := newRoster(cluster, name, address, c.StoreName(), c.Lease(), log)
	var beside sync.WaitGroup
	defer beside.Wait()
	listed, leave := context.WithCancel(ctx)
	defer leave()
	beside.Go(func() { r.run(listed) })
	s := newStandby(c, name, address, cluster, log)
	s.stands = sync.OnceFunc(func() {
		text.Sayf(t.Out, "orreryd stands by at %s\n", url)
		m.notify(ctx, "READY=1")
	})
	defer s.ending.Wait() // what was passed on comes to its end, for a while
	for first := true; ; first = false {
		st, err := m.standBy(ctx, s)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		if !first {
			c = m.settings(c)
		}
		if err := r.clock.follow(ctx, cluster.Ahead); err != nil {
			log.Warn("the database does not tell the time; this machine's counts until it does", "error", err)
		}
		log.Info("the database is this daemon's", "database", c.StoreName(), "name", name, "token", st.Token())
		err = runTerm(ctx, c, t, log, level, &term{store: st, roster: r, api: m.api, page: m.page})
		if ctx.Err() != nil || !errors.Is(err, store.ErrFenced) {
			return err
		}
		log.Warn("standing by, since another daemon has the database; what ran here was told to end, and nothing of it is stored", "error", err)
		s.know(owner{})
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
		encrypted, d.api.tls = pair.config(), true
	}
	m.api = &front{gate: newGate(d.api.listener), tls: encrypted}
	if d.page.listener != nil {
		m.page = &front{gate: newGate(d.page.listener), tls: encrypted, isPage: true}
	}
	return d.api.url(), nil
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

// standBy answers by passing requests on until the database is this daemon's.
func (m *member) standBy(ctx context.Context, s *standby) (st *postgres.Store, err error) {
	serving, stop := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() {
		served <- s.serve(serving, m.fronts())
		stop() // an address that fails ends it
	}()
	st, err = s.await(serving)
	stop()
	if wrong := <-served; wrong != nil {
		err = errors.Join(wrong, err)
	}
	if err != nil && st != nil {
		err = errors.Join(err, st.Close())
		st = nil
	}
	return st, err
}

func (m *member) notify(ctx context.Context, state string) {
	if err := sdNotify(context.WithoutCancel(ctx), m.t.NotifySocket, state); err != nil {
		m.log.Warn("could not notify systemd", "error", err)
	}
}

// settings reads those anew that a term may have begun with otherwise than the one before, as SIGHUP would: tokens that were removed meanwhile stay
// so. What they say of the database and of the addresses counts from the next start on.
func (m *member) settings(was config.Config) config.Config {
	if m.t.Config == nil {
		return was
	}
	is, err := m.t.Config()
	if err != nil {
		m.log.Error("the settings cannot be read again; those from before stay in force", "error", err)
		return was
	}
	is.DB, is.Database, is.Cluster, is.Listen, is.Page.Listen, is.HTTP.TLS = was.DB, was.Database, was.Cluster, was.Listen, was.Page.Listen, was.HTTP.TLS
	return is
}
