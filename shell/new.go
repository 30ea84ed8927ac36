package shell

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/engine"
)

// New makes an engine. It touches the store only once Run is called.
func New(o Options) (*Engine, error) {
	o, generic, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	e := &Engine{o: o, log: o.Logger, store: o.Store}
	e.takes.init()
	e.counts.init()
	generic.Hooks = engine.Hooks{
		Procedure: e.procedure, ReadWebhook: e.readWebhook, Mend: mend, MendAtEnd: mendAtEnd, Committed: e.observe,
	}
	if o.Sessions != nil {
		generic.Hooks.Beside = e.watchSessions
	}
	e.loop, err = engine.New(generic)
	return e, err
}

// generic gives the options that are the loop's own.
func (o Options) generic() engine.Options {
	return engine.Options{
		Store: o.Store, Concurrency: o.Concurrency, DefaultConcurrency: o.DefaultConcurrency,
		TickRate: o.TickRate, StrictTick: o.StrictTick,
		PacedEvery: o.RecurringCheckInterval, DisablePaced: o.DisableRecurring,
		LeaseTTL: o.LeaseTTL, RecoverAfter: o.RecoverAfter, AbandonAfter: o.AbandonAfter, StopTimeout: o.StopTimeout,
		Retention: map[core.RetentionClass]time.Duration{
			core.RetainMachines: o.ActionRetention, core.RetainHistory: o.HistoryRetention,
		},
		JournalRetention: o.JournalRetention, MaxBatch: o.MaxBatch, Clock: o.Clock, Logger: o.Logger,
	}
}

// withDefaults fills what is zero, and gives the loop's own options apart.
func (o Options) withDefaults() (Options, engine.Options, error) {
	generic := o.generic()
	errs := generic.Fill()
	if o.Store == nil {
		return o, generic, errors.Join(errs...)
	}
	o.StopTimeout, o.Clock, o.Logger = generic.StopTimeout, generic.Clock, generic.Logger
	fill := func(name string, d *time.Duration, def time.Duration) {
		errs = append(errs, engine.FillDuration(name, d, def)...)
	}
	fill("DefaultTimeout", &o.DefaultTimeout, 0)
	fill("WatchEvery", &o.WatchEvery, 2*time.Second)
	fill("EffectTimeout", &o.EffectTimeout, 10*time.Minute)
	for name := range o.Tools {
		if strings.HasPrefix(name, "@") {
			errs = append(errs, fmt.Errorf("shell: Options.Tools[%q]: a name that begins with \"@\" is a lane's", name))
		}
	}
	for route, w := range o.Webhooks {
		if _, ok := o.Tools[w.Tool]; !ok {
			errs = append(errs, fmt.Errorf("shell: Options.Webhooks[%q] names the tool %q, which is not in Tools", route, w.Tool))
		} else if err := w.validate(route); err != nil {
			errs = append(errs, fmt.Errorf("shell: Options.Webhooks[%q]: %w", route, err))
		}
	}
	return o, generic, errors.Join(errs...)
}
