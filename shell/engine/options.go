package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

// Options configure an [Engine]. The zero value of each field but Store is a
// sound default. Package shell says more about those that embedders set.
type Options struct {
	Store store.Store // required; the caller closes it after Run returned

	// Concurrency bounds the outer effects of a lane that are carried out at a time;
	// for a lane that is not listed, DefaultConcurrency holds (default 64).
	Concurrency        map[string]int
	DefaultConcurrency int
	// Slots has these bounds hold for all engines together that have it in common, and alike bounds. Nil: they are this engine's alone. It is not for
	// engines with a [Scheduler].
	Slots *Slots
	// MaxLaneShare is the part of a lane's slots that one tenant may hold of those that
	// other tenants do not hold, but always one (default 1: all).
	MaxLaneShare float64
	// Weights say how many slots of a lane a tenant has for one of another's while both
	// wait, by [ShareOf]; where it is not listed, 1.
	Weights map[string]int

	TickRate     time.Duration // the longest gap between sweeps (default 60 s)
	StrictTick   bool          // wake machines at ticks only
	PacedEvery   time.Duration // between looks at the kinds that are [core.Paced], with StrictTick (default 5 s)
	DisablePaced bool          // leave machines of those kinds where they are
	StartPaused  bool          // nothing happens by itself before [Engine.Resume]

	LeaseTTL     time.Duration // of the instance's claim (default 60 s)
	RecoverAfter time.Duration // how long a holder must be gone (default 2 × TickRate); not for what is [effects.Outer] Repeatable
	AbandonAfter time.Duration // how long an execution may take to return once its context has ended (default 15 s)
	StopTimeout  time.Duration // how long Run waits for what runs when it is to stop (default 30 s)

	// Retention says how long machines are kept after their end, by class; negative:
	// for ever (default 7 days). JournalRetention is how far back the journal can be
	// replayed, at least, unless it has more than JournalBytes (default 16 GiB; negative: no
	// bound), by [store.ReadTx.JournalBytes].
	Retention        map[core.RetentionClass]time.Duration
	JournalRetention time.Duration
	JournalBytes     int64
	// MostOfTenant is how many records are kept of one tenant of each kind that
	// [core.Retention.Tenants] bounds: those that ended first go before their retention has
	// ended (default 100,000); negative: any number.
	MostOfTenant int64

	// ScrubRate is how many records a second are read in the background, so that damage is
	// found before it is met; 0: none. It needs a store whose transactions are
	// [store.Walker].
	ScrubRate int

	// Partition is the number of this one, see [core.Batch.Partition] (default 0).
	Partition int
	// Partitions is how many there are, see [core.Batch.Divided] (default 0: that is not known).
	Partitions int

	// Handover, if there is one, lets Run give the store to another process while outer effects go on here, and has it take what the former
	// owners of the store report. It is for a store that one process at a time owns.
	Handover *Handover

	MaxBatch int // bounds the inputs of one transaction (default 1024)

	Instance  string    // names this instance among all that share the store (default: a random UUID)
	Scheduler Scheduler // is told what of the engine runs, for simulations; nil: nobody is

	Clock  Clock        // default SystemClock
	Logger *slog.Logger // default slog.Default()

	// Own are inputs of the engine itself.
	Own []OwnInput

	// Subscribers are those that the program brings along: see [core.Batch.Subscribers].
	Subscribers map[string]core.Subscriber

	Hooks Hooks
}

// OwnInput is what the engine tells a machine by itself: before anything else is decided, and
// from then on every Every; 0: once. Where the machine refuses it, nothing is done.
type OwnInput struct {
	Every time.Duration
	// Input gives it, for the instance of that name. It is called by the loop.
	Input func(instance string) core.Input
}

// Hooks are what the engine cannot know without knowing a machine. Each may be nil.
type Hooks struct {
	// Procedure says how an outer effect is carried out. It is called by the loop and
	// must be quick; nil: each effect fails.
	Procedure func(OuterEffect) Procedure
	// DueEvent tells a machine whose deadline has come, instead of [core.DueEvent]. It is
	// called by the loop, in each batch until the machine has another deadline, and must be
	// quick; nil: it is [core.DueEvent].
	DueEvent func(core.State) core.Event
	// ReadWebhook turns a raw webhook into an input. The error says why it is set
	// aside.
	ReadWebhook func(store.Webhook) (core.Input, error)
	// ReadWrite makes anew what a former owner of the store would have stored with an answer, from [Write.Sent]. It is called by the
	// loop, and must be quick; nil: nothing is stored.
	ReadWrite func(of effects.Ref, sent []byte) (*Write, error)
	// Mend lists what is to be told if a record was set aside as unreadable: to who
	// counts on the machine.
	Mend func(Damaged, Mending) ([]core.Input, error)
	// MendAtEnd lists what of that is to be told at the end of the batch: other
	// machines may have decided anew by then.
	MendAtEnd func(effects.Ref, Mending) ([]core.Input, error)
	// Allowed says how many more machines of a kind a tenant may have: see
	// [core.Batch.Bound]. It is called by the loop, once in a batch for each tenant and
	// kind of which machines make some, and must be quick; nil: any number.
	Allowed func(core.Scope, effects.Kind) core.Allowance
	// Limited is told of what machines did not make because of it. It is called by the
	// loop, again if a transaction is repeated, and must be quick; nil: nobody asks.
	Limited func(core.Input, []core.Full)
	// Overtaken is told of a machine that was due when the loop looked, and is not any more when
	// its turn comes, while another instance on the same store is at work. It is called by the
	// loop, again if a transaction is repeated, and must be quick; nil: nobody asks.
	Overtaken func(effects.Ref)
	// Count is told what a batch has made true, once it is durable and before its inputs
	// are answered, so that what follows an answer finds it counted. It is called by the
	// loop, and must be quick; nil: nobody counts.
	Count func(Committed)
	// Published gives an event as subscribers in this process are told of it. It is called by the
	// loop, for each event while there is a subscriber, and must be quick; nil: as it was announced.
	Published func(Committed, effects.Event) effects.Event
	// Committed is told the same once they are answered. It is called by the loop, and
	// must be quick.
	Committed func(Committed)
	// Missed is told that records have changed of which Committed was not told: a batch
	// is stored that was not confirmed. It is called by the loop, and must be quick; nil:
	// nobody asks.
	Missed func()
	// Beside runs in a goroutine of its own from the engine's start on, until ctx ends.
	Beside func(ctx context.Context)
}

const week = 7 * 24 * time.Hour

// Fill replaces zero fields by their defaults, and lists what is wrong.
func (o *Options) Fill() (errs []error) {
	if o.Store == nil {
		return []error{errors.New("shell: Options.Store is nil: open one with store/bolt")}
	}
	fill := func(name string, d *time.Duration, def time.Duration) {
		errs = append(errs, FillDuration(name, d, def)...)
	}
	fill("TickRate", &o.TickRate, time.Minute)
	fill("RecurringCheckInterval", &o.PacedEvery, 5*time.Second)
	fill("LeaseTTL", &o.LeaseTTL, time.Minute)
	fill("RecoverAfter", &o.RecoverAfter, 2*o.TickRate)
	fill("AbandonAfter", &o.AbandonAfter, 15*time.Second)
	fill("StopTimeout", &o.StopTimeout, 30*time.Second)
	o.JournalRetention = cmp.Or(o.JournalRetention, week)
	o.JournalBytes = cmp.Or(o.JournalBytes, 16<<30)
	o.MostOfTenant = cmp.Or(o.MostOfTenant, 100_000)
	if err := core.CheckPartition(o.Partition); err != nil {
		errs = append(errs, fmt.Errorf("shell: Options.Partition: %w", err))
	}
	if err := core.CheckPartitions(o.Partitions, o.Partition); err != nil {
		errs = append(errs, fmt.Errorf("shell: Options.Partitions: %w", err))
	}
	if o.Slots != nil && o.Scheduler != nil {
		errs = append(errs, errors.New("shell: Options.Slots is set, and Scheduler too: leave one of them out, since no scheduler is told what engines have in common"))
	}
	for _, n := range []*int{&o.DefaultConcurrency, &o.MaxBatch} {
		if *n < 0 {
			errs = append(errs, fmt.Errorf("shell: Options.DefaultConcurrency and MaxBatch must not be negative: %d", *n))
		}
	}
	o.DefaultConcurrency = cmp.Or(o.DefaultConcurrency, 64)
	o.MaxBatch = cmp.Or(o.MaxBatch, 1024)
	for name, n := range o.Concurrency {
		if n < 1 {
			errs = append(errs, fmt.Errorf("shell: Options.Concurrency[%q] is %d: it must be at least 1", name, n))
		}
	}
	o.MaxLaneShare = cmp.Or(o.MaxLaneShare, 1)
	if !(o.MaxLaneShare > 0 && o.MaxLaneShare <= 1) {
		errs = append(errs, fmt.Errorf("shell: Options.Limits.MaxLaneShare is %g: it must be above 0 and at most 1", o.MaxLaneShare))
	}
	for of, n := range o.Weights {
		if n < 1 {
			errs = append(errs, fmt.Errorf("shell: Options.Limits: the weight of %q is %d: it must be at least 1", of, n))
		}
	}
	if o.Handover != nil {
		h := *o.Handover
		errs = append(errs, h.fill(o.Store)...)
		o.Handover = &h
	}
	o.Clock = cmp.Or[Clock](o.Clock, SystemClock{})
	o.Logger = cmp.Or(o.Logger, slog.Default())
	return errs
}

// FillDuration replaces a duration of zero by its default; one that is negative is
// an error, which names the option of package shell.
func FillDuration(name string, d *time.Duration, def time.Duration) []error {
	*d = cmp.Or(*d, def)
	if *d < 0 {
		return []error{fmt.Errorf("shell: Options.%s is %s: it must not be negative", name, *d)}
	}
	return nil
}

// retention is how long machines of that class are kept after their end.
func (o *Options) retention(c core.RetentionClass) time.Duration {
	return cmp.Or(o.Retention[c], week)
}
