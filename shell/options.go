package shell

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/engine"
	"github.com/orrery-go/orrery/shell/secrets"
	"github.com/orrery-go/orrery/store"
)

// Options configure an [Engine]. The zero value of each field but Store is a
// sound default.
type Options struct {
	// Store holds everything. Required; the caller closes it after Run returned.
	Store store.Store
	// Tools are the tools by name: an action's tool_name picks one.
	Tools map[string]Tool
	// Interpreters carry out the outer effects that are no tools' runs, by lane
	// ([effects.LaneSession] and its like): those of packages session, git and
	// notify, or others. An effect whose lane is not listed fails for good.
	Interpreters map[string]Interpreter
	// Sessions looks at terminal sessions every WatchEvery (default 2 s), so that the
	// tasks that have one get their heartbeats; nil: tasks get them from outside only.
	// Package session has one: its Observer(nil).ForEngine().
	Sessions   SessionObserver
	WatchEvery time.Duration
	// Concurrency bounds the runs of a tool at a time, by tool name, or the effects
	// of a lane; where it is not listed, DefaultConcurrency holds (default 64).
	Concurrency        map[string]int
	DefaultConcurrency int
	// Slots has these bounds hold for all engines of a process together that have it in common, such as those of several
	// partitions, and alike bounds (default: they are this engine's alone).
	Slots *Slots
	// Partition is the number of this one where the tenants are divided over several databases by
	// [core.Partition], each with an engine: ids that follow from the number of a batch have it, so
	// that no two partitions make the same (default 0). A database keeps the number with which it
	// began: Run refuses another one.
	Partition int
	// Partitions is how many of them there are. The engine then refuses what would be made for a tenant of another partition, with a [Refusal]
	// whose code is [effects.CodeElsewhere]: nobody would find it there (default 0: it is not known, and the engine takes whatever it is given).
	Partitions int
	// Handover lets the engine give its store to another process when it is told to stop, while the tools that run go on here: what comes of them is
	// reported to that process, and counts there. It waits, as without, until nothing but tools runs, and none that is [Stationary]. Nil: it waits for all.
	// [fleet.Term] gives one.
	Handover *Handover
	// Home names this process among those that share the database, as others know it ([fleet.Options] Name), and keeps its name when it is
	// started anew on the same computer. Tasks and pipelines note it with the sessions and worktrees that are made
	// here, and those that have some with another home are told, when the engine begins, that they are lost. Empty: nothing has a home.
	Home string
	// SharedWorkspace says that all these processes reach the disk on which worktrees stand: they have no home.
	SharedWorkspace bool
	// Limits share slots and bound what tenants may take (default: nothing is bound).
	Limits Limits
	// Webhooks are the routes of the webhook ingress.
	Webhooks map[string]WebhookRoute
	// Subscribers hear what machines announce, by name, within the transaction in which it is
	// announced, and what they make of it is carried out there ([core.Batch.Subscribers]).
	// Their methods must be pure: of the event alone follows what they give, or a replay parts
	// from what was. The loop calls them, so they must be quick. Which ones there are is
	// journaled with the first batch, and a replay needs the same ones ([replay.Options]). Those
	// of the database, which [Engine.Subscribers] has, hear an event first.
	Subscribers map[string]core.Subscriber
	// HeartbeatEvery is how often the engine announces system:heartbeat (003), beginning with
	// its start; 0: never. It is a whole number of milliseconds, at most a day.
	HeartbeatEvery time.Duration

	// TickRate is the longest gap between sweeps (default 60 s, 001).
	TickRate time.Duration
	// StrictTick fires actions at ticks only, as 001 has it literally (R2).
	// Otherwise the loop also wakes at the next due time (B3).
	StrictTick bool
	// StartPaused has the engine begin paused: it takes every request, and until [Engine.Resume] does nothing
	// by itself. No time comes for any machine, no tool and no other outer effect is begun, nobody takes an
	// item of a queue, what was in hand when the last process ended is not taken back, and nothing old is
	// forgotten. It is for who opens a database that was restored, or copied, and wants to look at it and
	// change it first. What came due meanwhile is decided then, as after an outage.
	StartPaused bool
	// DisableRecurring leaves recurring actions where they are (C9).
	DisableRecurring bool
	// RecurringCheckInterval is the longest gap between looks at recurring
	// actions (default 5 s, 002). It matters with StrictTick.
	RecurringCheckInterval time.Duration

	// LeaseTTL is how long another instance on the same store waits for a sign
	// of life before it takes over (default 60 s, C8).
	LeaseTTL time.Duration
	// RecoverAfter is how long the holder of a run must be gone before its machine
	// is told, and decides by its policy (default 2 × TickRate, A9).
	RecoverAfter time.Duration
	// DefaultTimeout is the time limit of a run whose policy gives none; 0: none.
	DefaultTimeout time.Duration
	// EffectTimeout is the time limit of an outer effect that is no tool's run (default
	// 10 min). A [Patient] interpreter may give some more.
	EffectTimeout time.Duration
	// AbandonAfter is how long a tool may take to return once its context has
	// ended; after that the engine goes on without it (default 15 s).
	AbandonAfter time.Duration
	// StopTimeout is how long Run waits for what runs when it is to stop, before
	// it cancels it (default 30 s).
	StopTimeout time.Duration

	// ActionRetention and HistoryRetention say how long machines that have ended and the
	// history of recurring actions are kept (default 7 days, C12); negative: for
	// ever.
	ActionRetention  time.Duration
	HistoryRetention time.Duration
	// OccurrencesPerTenant is how many entries of the ledger of occurrences are kept of one tenant
	// (default 100,000; negative: any number): of more, the oldest go before HistoryRetention ends,
	// but for the last [core.KeptOccurrences] of each schedule, and those that are not decided.
	OccurrencesPerTenant int64
	// JournalRetention says how far back the journal can be replayed, at least
	// (default 7 days); negative: for ever. Of a journal that has more than JournalBytes on
	// the disk (default 16 GiB; negative: no bound) the oldest part goes all the same.
	JournalRetention time.Duration
	JournalBytes     int64

	// Secrets gives what inputs of tools refer to as {{secret "name"}}: the value is filled
	// in just before a tool is called, and masked in what comes back. An input with a secret
	// that its tool may not have is refused. Nil: such a text has no meaning.
	Secrets secrets.Source

	// OutputBytes is how much is kept of what an attempt of an action has written ([Call.Output]):
	// half of it from the beginning, half from the end (default 64 KiB, at most [MaxOutput];
	// negative: nothing is kept).
	OutputBytes int

	// MaxBatch bounds the inputs of one transaction (default 1024).
	MaxBatch int

	// ScrubRate is how many records a second are read in the background, so that one that
	// cannot be read is set aside before it is met; 0: none. A walk through the store
	// goes on where the last process has left it. It needs a store whose transactions are
	// [store.Walker].
	ScrubRate int

	// Channels are the names of the channels of notifications. With them, a schedule whose alerts name another one
	// is refused: nobody would be told. nil: any name is taken.
	Channels []string
	// ChannelTells reports whether one of Channels tells what is of a tenant. A schedule whose alerts name one that does
	// not is refused, too; nil: each tells of all tenants.
	ChannelTells func(channel, namespace, tenant string) bool

	// ShowCommand gives the command that shows a machine, which lines of the log about what failed end with; "" and nil:
	// they name none. The loop calls it, so it must be quick.
	ShowCommand func(core.State) string

	// ApproveCommand gives the command that approves what a pipeline waits for, which the line of the log and the
	// followed event have that say so; "" and nil: they have none. The loop calls it, so it must be quick.
	ApproveCommand func(core.Pipeline) string

	// Instance names this engine among all that share the store, also in the journal (default: a random UUID).
	// No two may have the same name, nor one and its predecessor.
	Instance string
	// Scheduler is told what of the engine runs, for simulations that pick what happens next; nil: nobody is.
	Scheduler engine.Scheduler

	Clock  Clock        // default SystemClock
	Logger *slog.Logger // default slog.Default()
}

// WebhookRoute binds a route of the webhook ingress to a tool (B4).
type WebhookRoute struct {
	Tool       string
	ToolInput  []byte // JSON; empty: null
	Label      string
	ActionType string
	Namespace  string
	Tenant     string
	Policy     core.RunPolicy
}

type (
	// Handover is how an engine gives its store to another process while tools run on: see [Options.Handover].
	Handover = engine.Handover
	// Clock is where time enters the engine. [SystemClock] is the real one.
	Clock = engine.Clock
	// SystemClock is the machine's clock.
	SystemClock = engine.SystemClock
)

// New makes an engine. It touches the store only once Run is called.
func New(o Options) (*Engine, error) {
	o, generic, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	e := &Engine{o: o, log: o.Logger}
	e.store = watchedStore{o.Store, func(ctx context.Context, met ...effects.Ref) { e.loop.Suspect(ctx, met...) }}
	e.takes.init()
	e.counts.init()
	e.usages.init()
	e.outputs.init()
	generic.Hooks = engine.Hooks{
		Procedure: e.procedure, DueEvent: e.dueEvent, ReadWebhook: e.readWebhook, Mend: mend, MendAtEnd: mendAtEnd, Count: e.noteUsage,
		Published: e.published, Committed: e.observe, Missed: e.recount, ReadWrite: readOutput,
	}
	generic.Hooks.Beside = e.beside
	if o.Limits.bindsMachines() {
		generic.Hooks.Allowed, generic.Hooks.Limited = e.allowed, e.limited
	}
	generic.Own = o.ownInputs()
	generic.Hooks.Overtaken = e.skipClaimed
	e.loop, err = engine.New(generic)
	return e, err
}

// skipClaimed logs that another instance has dispatched an occurrence (002, section 8).
func (e *Engine) skipClaimed(ref effects.Ref) {
	if ref.Kind == core.KindRecurring {
		e.log.Debug("recurring.skip_claimed", "recurring_id", ref.ID.String())
	}
}

// beside is what goes on beside the loop, until ctx ends.
func (e *Engine) beside(ctx context.Context) {
	var all sync.WaitGroup
	if e.o.Limits.Count {
		all.Go(func() { e.countUsage(ctx) })
	}
	if e.o.Sessions != nil {
		all.Go(func() { e.watchSessions(ctx) })
	}
	if e.o.Home != "" {
		all.Go(func() { e.tellLostHomes(ctx) })
	}
	all.Go(func() { e.storeOutputs(ctx) })
	all.Wait()
}

// generic gives the options that are the loop's own.
func (o Options) generic() engine.Options {
	return engine.Options{
		Store: o.Store, Concurrency: o.Concurrency, DefaultConcurrency: o.DefaultConcurrency, Slots: o.Slots,
		MaxLaneShare: o.Limits.MaxLaneShare, Weights: o.Limits.weights(),
		TickRate: o.TickRate, StrictTick: o.StrictTick, StartPaused: o.StartPaused,
		PacedEvery: o.RecurringCheckInterval, DisablePaced: o.DisableRecurring,
		LeaseTTL: o.LeaseTTL, RecoverAfter: o.RecoverAfter, AbandonAfter: o.AbandonAfter, StopTimeout: o.StopTimeout,
		Retention: map[core.RetentionClass]time.Duration{
			core.RetainMachines: o.ActionRetention, core.RetainHistory: o.HistoryRetention,
		},
		MostOfTenant:     o.OccurrencesPerTenant,
		JournalRetention: o.JournalRetention, JournalBytes: o.JournalBytes, MaxBatch: o.MaxBatch, ScrubRate: o.ScrubRate, Clock: o.Clock, Logger: o.Logger,
		Instance: o.Instance, Scheduler: o.Scheduler,
		Subscribers: o.Subscribers, Partition: o.Partition, Partitions: o.Partitions, Handover: o.Handover,
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
	errs = append(errs, o.Limits.check()...)
	o.Limits.Count = o.Limits.Count || o.Limits.bindsMachines()
	fill("DefaultTimeout", &o.DefaultTimeout, 0)
	fill("WatchEvery", &o.WatchEvery, 2*time.Second)
	fill("EffectTimeout", &o.EffectTimeout, 10*time.Minute)
	o.OutputBytes = cmp.Or(o.OutputBytes, defaultOutput)
	if o.OutputBytes > MaxOutput {
		errs = append(errs, fmt.Errorf("shell: Options.OutputBytes is %d: use at most %d", o.OutputBytes, MaxOutput))
	}
	errs = append(errs, o.checkBus()...)
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
