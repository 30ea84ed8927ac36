// Package daemon runs the engine with all that stands around it: the HTTP API, the
// service of jobs, terminal sessions, systemd.
package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/examples/orreryd/internal/config"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/audit"
	"github.com/orrery-go/orrery/shell/constraints"
	"github.com/orrery-go/orrery/shell/httpapi"
	"github.com/orrery-go/orrery/shell/jobs"
	"github.com/orrery-go/orrery/shell/notify"
	"github.com/orrery-go/orrery/shell/notify/relay"
	"github.com/orrery-go/orrery/shell/secrets"
	"github.com/orrery-go/orrery/shell/session"
	"github.com/orrery-go/orrery/shell/watchdog"
	"github.com/orrery-go/orrery/store"
)

// daemon is what runs under orreryd orchestrate.
type daemon struct {
	c        config.Config
	hints    hints
	log      *slog.Logger
	store    store.Failing
	term     *term // nil: the database is this daemon's alone
	tools    map[string]shell.Tool
	sessions *session.Sessions // nil: none
	checker  *constraints.Checker
	runners  map[string]jobs.Runner
	jobs     *jobs.Service
	engine   *shell.Engine
	audit    *audit.Log // nil: none
	notify   *notify.Interpreter
	relay    *relay.Relay
	watchdog *watchdog.Watchdog // nil: none
	api      endpoint
	page     endpoint // of the page, if it has an address of its own
	reloads  *reloads
	inForce  atomic.Pointer[config.Config] // the settings, once they were read again; nil: they are c
	server   *httpapi.Server               // the API; its tokens, and
	secrets  *secrets.Replaceable          // of tools, are replaced then; nil: there were none at the start
	hangups  <-chan struct{}               // tells to read all of reloads again; nil: nothing does
	endJobs  func()                        // ends the service of jobs, and waits for that
	gaveBack atomic.Bool                   // the database, or the partition: what runs here yet is left of before
}

// newLogger writes to w as the configuration says; its level may be changed.
func newLogger(c config.Config, w io.Writer) (*slog.Logger, *slog.LevelVar, error) {
	is, err := config.ParseLogLevel(c.LogLevel)
	if err != nil {
		return nil, nil, err
	}
	level := new(slog.LevelVar)
	level.Set(is)
	o := &slog.HandlerOptions{Level: level}
	if c.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, o)), level, nil
	}
	return slog.New(slog.NewTextHandler(w, o)), level, nil
}

// openDaemon gets everything that a daemon needs: the file, the tools, the
// address. Nothing runs yet.
func openDaemon(ctx context.Context, c config.Config, program string, log *slog.Logger, in *term) (_ *daemon, err error) {
	d := &daemon{c: c, log: log, term: in, api: endpoint{what: "the HTTP API"}, page: endpoint{what: "the page"}, reloads: newReloads(log)}
	d.hints = hints{program: program, server: func() string { return d.api.url() }}
	if d.hosted() {
		d.hints.server = func() string { return in.host.url }
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.close())
		}
	}()
	var concurrency map[string]int
	if d.tools, concurrency, err = c.MakeTools(); err != nil {
		return nil, err
	}
	laneLimits(c.Engine.DefaultConcurrency, concurrency)
	routes, err := c.WebhookRoutes()
	if err != nil {
		return nil, err
	}
	if err := d.take(ctx); err != nil {
		return nil, err
	}
	interpreters, err := d.interpreters()
	if err != nil {
		return nil, err
	}
	o := shell.Options{
		Store: d.store, Tools: d.tools, Concurrency: concurrency, Webhooks: routes,
		Interpreters: interpreters, Sessions: d.observer(), WatchEvery: config.Seconds(c.Sessions.WatchSeconds),
		DefaultConcurrency:     c.Engine.DefaultConcurrency,
		Limits:                 c.EngineLimits(),
		TickRate:               config.Seconds(c.TickRateSeconds),
		StrictTick:             c.StrictTick,
		StartPaused:            c.Engine.StartPaused,
		DisableRecurring:       !c.Background.EnableRecurringActions,
		RecurringCheckInterval: config.Seconds(c.Background.RecurringCheckIntervalSeconds),
		LeaseTTL:               config.Seconds(c.Engine.LeaseTTLSeconds),
		RecoverAfter:           config.Seconds(c.Engine.RecoverAfterSeconds),
		DefaultTimeout:         config.Seconds(c.Engine.DefaultTimeoutSeconds),
		AbandonAfter:           c.AbandonAfter(),
		StopTimeout:            config.Seconds(c.Engine.StopTimeoutSeconds),
		ActionRetention:        config.Days(c.Retention.ActionsDays),
		HistoryRetention:       config.Days(c.Retention.HistoryDays),
		OccurrencesPerTenant:   c.Retention.Occurrences,
		JournalRetention:       config.Days(c.Retention.JournalDays),
		JournalBytes:           c.Retention.JournalSize,
		MaxBatch:               c.Engine.MaxBatch,
		ScrubRate:              c.Engine.ScrubRecordsPerSecond,
		HeartbeatEvery:         config.Seconds(c.Engine.HeartbeatSeconds).Truncate(time.Millisecond),
		Channels:               d.notify.Names(),
		ChannelTells:           d.relay.Tells,
		OutputBytes:            cmp.Or(c.Engine.OutputBytes, -1), // 0 is the default there
		ShowCommand:            d.hints.show,
		ApproveCommand:         d.hints.approve,
		Logger:                 log,
	}
	if in != nil {
		o.Clock, o.Partition, o.Partitions, o.Handover = in.Clock, in.Partition, in.Partitions, d.handover(in.Handover)
		o.Home, o.SharedWorkspace = in.roster.name, c.Cluster.SharedWorkspace
	}
	if d.hosted() {
		o.Slots = &in.host.slots
	}
	source, err := c.NamedSecrets()
	if err != nil {
		return nil, err
	}
	if source != nil {
		d.secrets = secrets.NewReplaceable(source)
		o.Secrets = d.secrets
	}
	if err := d.runJobs(&o); err != nil {
		return nil, err
	}
	if d.engine, err = shell.New(o); err != nil {
		return nil, err
	}
	if d.hosted() {
		d.audit = in.host.audit
		return d, d.addServers()
	}
	if d.watchdog, err = c.Watchdog.Make(d.works, log); err != nil {
		return nil, fmt.Errorf("watchdog: %w", err)
	}
	if d.audit, err = openAudit(d.c, d.log); err != nil {
		return nil, err
	}
	return d, d.addServers()
}

// hosted reports whether it works on one partition of several, and somebody else has what is one for all of them: addresses, log of requests, watchdog.
func (d *daemon) hosted() bool { return d.term != nil && d.term.host != nil }

// takeAddresses opens the addresses that are not open yet.
func (d *daemon) takeAddresses(ctx context.Context) error {
	if d.api.listener != nil {
		return nil
	}
	if err := d.api.take(ctx, d.c.Listen, "is another orreryd running? Choose another one with --listen"); err != nil || !d.c.Page.Apart() {
		return err
	}
	if err := d.page.take(ctx, d.c.Page.Listen, "choose another one for the page, or leave it out to have the page beside the API"); err != nil {
		return fmt.Errorf("page.listen: %w", err)
	}
	return nil
}

// run works until ctx ends, then stops cleanly. ready is called once requests
// are answered, stopping once the stop has begun.
func (d *daemon) run(ctx context.Context, ready, stopping func()) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg, relayed sync.WaitGroup
	var engineErr, jobsErr, storeErr, relayErr error
	served := make([]error, len(d.endpoints()))
	engineDone := make(chan struct{})
	// The service of jobs goes on until the engine has stopped, or hands the database over: runs under way need it.
	jobsCtx, endJobs := context.WithCancel(context.WithoutCancel(ctx))
	defer endJobs()
	jobsDone := make(chan struct{})
	d.endJobs = func() {
		endJobs()
		<-jobsDone
	}
	relayed.Add(1)
	engineCtx, stopEngine := stopRelayFirst(ctx, &relayed)
	defer stopEngine()
	wg.Go(func() {
		defer close(engineDone)
		defer cancel() // an engine that ends takes the rest with it
		engineErr = d.engine.Run(engineCtx)
	})
	wg.Go(func() {
		defer cancel()
		storeErr = d.watchStore(ctx)
	})
	wg.Go(func() {
		defer cancel()
		defer close(jobsDone)
		jobsErr = d.watchJobs(jobsCtx)
	})
	startErr := d.awaitEngine(ctx)
	if startErr == nil {
		wg.Go(func() {
			defer cancel()
			defer relayed.Done()
			if d.awaitResume(ctx) {
				relayErr = d.runRelay(ctx)
			}
		})
		if d.paused() {
			wg.Go(func() {
				if d.awaitResume(ctx) {
					d.endSessions(ctx)
				}
			})
		} else {
			d.endSessions(ctx)
		}
		d.warnOfJobs(ctx)
		if d.c.Apply.Dir != "" {
			d.reloads.first(ctx, "set", d.applySet)
		}
		for i, e := range d.endpoints() {
			wg.Go(func() {
				defer cancel()
				served[i] = e.serve()
			})
		}
		ready()
		wg.Go(func() { d.reloads.run(ctx, d.hangups) })
		if d.watchdog != nil {
			wg.Go(func() { d.watchdog.Run(ctx) })
		}
	} else {
		relayed.Done()
		cancel()
	}
	<-ctx.Done()
	stopping()
	// Requests under way, such as a backup, may take as long as actions may. Callers that
	// come meanwhile are answered that the daemon is stopping.
	limit, stop := context.WithTimeout(context.WithoutCancel(ctx), config.Seconds(d.c.Engine.StopTimeoutSeconds)+time.Second)
	defer stop()
	<-engineDone
	endJobs()
	err := d.shutdown(limit)
	wg.Wait()
	if engineErr == nil && !errors.Is(startErr, context.Canceled) && !errors.Is(startErr, shell.ErrStopped) {
		engineErr = startErr // the other errors mean a stop before the start
	}
	return errors.Join(storeErr, engineErr, jobsErr, relayErr, errors.Join(served...), err)
}

// awaitEngine waits until the loop answers: a request about an action that
// cannot exist is refused by the loop, so its answer shows that the loop runs.
func (d *daemon) awaitEngine(ctx context.Context) error {
	_, err := d.engine.Actions().Cancel(ctx, uuid.Nil, "")
	if errors.Is(err, shell.ErrNotFound) {
		return nil
	}
	return err
}

// close releases what openDaemon took.
func (d *daemon) close() error {
	errs := []error{d.api.close(), d.page.close()}
	for _, name := range slices.Sorted(maps.Keys(d.tools)) {
		errs = append(errs, config.CloseTool(d.tools[name]))
	}
	if d.sessions != nil {
		errs = append(errs, d.sessions.Close())
	}
	if d.audit != nil && !d.hosted() {
		errs = append(errs, d.audit.Close())
	}
	if d.store != nil && d.term == nil { // that of a term is closed at its end
		errs = append(errs, d.store.Close())
	}
	return errors.Join(errs...)
}
