// Package relay has the channels of package notify tell events of the bus, and sees to it that
// what has to be told is told, later if a channel cannot be reached now.
//
// Each channel has a queue in the engine's store. Into it the bus pushes, within the transaction
// in which it is announced, each event that the channel is to tell; and [Relay.Later] what a
// channel did not take. A worker takes the items in their order, words each event by the
// channel's templates, and tells it. While a channel cannot be reached, its first item is tried
// again, at first after seconds and then every few minutes, and the others wait behind it: so
// that what was raised and cleared meanwhile is told in this order. Nothing is lost by a restart,
// and what may be told twice has the same id.
//
// relay.go has what a relay is given and how it runs, patterns.go which events a channel tells,
// deliver.go the telling.
package relay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/notify"
)

// Namespace and Tenant are where the queues of channels are, each under the channel's name. What
// they hold is of all tenants, and subscribers that push there hear those of all: no token of a tenant should be of this one.
const (
	Namespace = core.NotifyNamespace
	Tenant    = core.NotifyTenant
)

// Channel is a channel and the events that it tells.
type Channel struct {
	notify.Channel
	// Events are patterns of the events that it tells, as Kind.String() has them:
	// "action:failed", "alert:*". No event matches two of them. Empty: it tells no event.
	Events []string
	// Namespaces and Tenants restrict it to events of machines of these that still exist, and to
	// alerts of these. Empty: all.
	Namespaces, Tenants []string
	// Templates word an event; nil: the default ones.
	Templates *notify.Templates
}

// Options are what a relay works with.
type Options struct {
	// Channels are all channels by their names, of at most [MaxName] bytes.
	Channels map[string]Channel
	// Hints gives the commands that show what an event is about, and act on it; nil: none are
	// told. The machine is that which has announced it, nil where it does not exist any more.
	Hints func(ev effects.Event, s core.State) []notify.Hint
	// Patience is how long an item is tried again before others go first (default an hour).
	Patience time.Duration
	Logger   *slog.Logger // default slog.Default()
}

// Relay delivers. Make one with [New], and have [Relay.Run] run beside the engine. Its other
// methods are safe for concurrent use.
type Relay struct {
	o        Options
	engine   atomic.Pointer[shell.Engine] // nil until Run, and after it
	outcomes map[string]*outcomes
}

// outcomes counts what became of the items of one channel.
type outcomes struct{ told, failed, dropped, later atomic.Uint64 }

// Stats say what became of what a channel was to tell, since the start.
type Stats struct {
	Told    uint64 // what the channel took
	Failed  uint64 // attempts that it did not take
	Dropped uint64 // what it was not to tell, or will never take
	Later   uint64 // what [Relay.Later] was given
}

// New makes a Relay. The error names the channel and what is wrong.
func New(o Options) (*Relay, error) {
	r := &Relay{o: o, outcomes: map[string]*outcomes{}}
	if o.Patience < 0 {
		return nil, fmt.Errorf("Patience: %v is negative", o.Patience)
	}
	if r.o.Patience == 0 {
		r.o.Patience = time.Hour
	}
	if r.o.Logger == nil {
		r.o.Logger = slog.Default()
	}
	var errs []error
	for _, name := range r.names() {
		c := o.Channels[name]
		switch {
		case name == "" || len(name) > MaxName:
			errs = append(errs, fmt.Errorf("Channels: the name %q has %d bytes: want 1 to %d", name, len(name), MaxName))
		case c.Channel == nil:
			errs = append(errs, fmt.Errorf("Channels: %q is nil", name))
		}
		if err := CheckEvents(c.Events); err != nil {
			errs = append(errs, fmt.Errorf("Channels: %q: Events%w", name, err))
		}
		r.outcomes[name] = &outcomes{}
	}
	return r, errors.Join(errs...)
}

func (r *Relay) names() []string { return slices.Sorted(maps.Keys(r.o.Channels)) }

// Stats gives the counts of all channels.
func (r *Relay) Stats() map[string]Stats {
	out := make(map[string]Stats, len(r.outcomes))
	for name, o := range r.outcomes { // order-free: it fills a map
		out[name] = Stats{Told: o.told.Load(), Failed: o.failed.Load(), Dropped: o.dropped.Load(), Later: o.later.Load()}
	}
	return out
}

// retry is how often an item is tried again once its patience is over: for about a week.
var retry = core.Retry{MaxAttempts: 200, BackoffMS: 10_000, MaxBackoffMS: 15 * 60 * 1000}

// visibility is how long an item stays out of sight after the process that had it has died.
const visibility = time.Minute

// stopTimeout is how long what is being told may take once the relay is to stop. An item that
// waits for its channel waits until then, too.
const stopTimeout = 2 * time.Second

// queueOf names the queue of a channel.
func queueOf(channel string) effects.Ref { return core.QueueRef(Namespace, Tenant, channel) }

// Run subscribes the queues of the channels to the events that they tell, takes back what the
// relay of an earlier configuration had subscribed, and delivers until ctx ends; what is being
// told then is given back, and told by the next Run. The engine must be running, and go on until
// Run has returned.
func (r *Relay) Run(ctx context.Context, e *shell.Engine) error {
	ctx = shell.WithActor(ctx, "notify")
	if err := r.subscribe(ctx, e); err != nil {
		if ctx.Err() != nil || errors.Is(err, shell.ErrStopped) {
			return nil
		}
		return err
	}
	r.engine.Store(e)
	defer r.engine.Store(nil)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var all sync.WaitGroup
	errs := make([]error, len(r.o.Channels))
	for i, name := range r.names() {
		all.Go(func() {
			if errs[i] = r.work(ctx, e, name); errs[i] != nil {
				cancel()
			}
		})
	}
	select { // also without channels
	case <-ctx.Done():
	case <-e.Stopped():
	}
	all.Wait()
	return errors.Join(errs...)
}

// work delivers the items of one channel.
func (r *Relay) work(ctx context.Context, e *shell.Engine, name string) error {
	d := &delivery{Relay: r, e: e, name: name, channel: r.o.Channels[name]}
	err := e.Queues().Work(ctx, queueOf(name), d.handle, shell.WorkOptions{Holder: "notify", Visibility: visibility, StopTimeout: stopTimeout})
	if err != nil && !errors.Is(err, shell.ErrStopped) {
		return fmt.Errorf("notify channel %q: %w", name, err)
	}
	return nil
}

// Subscribers is how the names of the subscribers begin that a relay makes: none that a runbook makes does.
const Subscribers = "@notify/"

// channels is the tenant of the queues, whose subscribers hear the events of all.
var channels = shell.Scope{Namespace: Namespace, Tenant: Tenant}

// subscribe makes the queues, and what pushes into them, as the channels say. A set of files that has declared one of
// the subscribers, as it was exported with others, loses it: else the daemon could not begin.
func (r *Relay) subscribe(ctx context.Context, e *shell.Engine) error {
	ctx = shell.WithTakeOver(ctx)
	want := map[string]core.Subscription{}
	for _, name := range r.names() {
		if err := declare(ctx, e, name); err != nil {
			return fmt.Errorf("make the queue of the notify channel %q: %w", name, err)
		}
		for _, pattern := range r.o.Channels[name].Events {
			s := subscription(name, pattern)
			want[s.Name] = s
		}
	}
	// The engine does so as it begins, which may be yet to come.
	if _, err := e.Subscribers().Send(ctx, shell.Scope{}, core.BusDivide{}); err != nil && !isRefusal(err) {
		return fmt.Errorf("divide the event bus of an earlier version: %w", err)
	}
	bus, err := e.Subscribers().Get(ctx, channels)
	if err != nil && !errors.Is(err, shell.ErrNotFound) {
		return fmt.Errorf("read the subscribers: %w", err)
	}
	for _, has := range bus.Subscribers {
		wanted, ok := want[has.Name]
		switch {
		case ok && string(encoded(wanted)) == string(encoded(has)):
			_, err := e.Sets().Owner(ctx, core.BusOf(Namespace, Tenant), has.Name)
			if errors.Is(err, shell.ErrNotFound) { // else it is taken over
				delete(want, has.Name)
			} else if err != nil {
				return fmt.Errorf("read whose %q is: %w", has.Name, err)
			}
		case !ok && strings.HasPrefix(has.Name, Subscribers):
			if _, err := e.Subscribers().Send(ctx, channels, core.BusUnsubscribe{Name: has.Name}); err != nil {
				return fmt.Errorf("unsubscribe %q: %w", has.Name, err)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if _, err := e.Subscribers().Send(ctx, channels, core.BusSubscribe{Subscriber: want[name]}); err != nil {
			return fmt.Errorf("subscribe %q: %w", name, err)
		}
	}
	return nil
}

func isRefusal(err error) bool {
	_, is := errors.AsType[*shell.Refusal](err)
	return is
}

// declare makes the queue of a channel. One that there is keeps its configuration: somebody may
// have given it a rate, say.
func declare(ctx context.Context, e *shell.Engine, channel string) error {
	_, err := e.Queues().Get(ctx, Namespace, Tenant, channel)
	if errors.Is(err, shell.ErrNotFound) {
		config := core.QueueConfig{Retry: retry, Concurrency: 1, VisibilityTimeoutMS: visibility.Milliseconds()}
		_, err = e.Queues().Configure(ctx, Namespace, Tenant, channel, config)
	}
	return err
}

// subscription pushes the events of a pattern into the queue of a channel.
func subscription(channel, pattern string) core.Subscription {
	category, action, _ := strings.Cut(pattern, ":")
	return core.Subscription{
		Name:  Subscribers + channel + "/" + pattern,
		Match: core.EventMatch{Category: category, Action: action},
		Do:    core.Reaction{Push: &core.PushReaction{MachineName: core.MachineName{Namespace: Namespace, Tenant: Tenant, Name: channel}}},
	}
}

func encoded(s core.Subscription) []byte {
	b, _ := json.Marshal(s) // texts always encode
	return b
}

// Tells reports whether a channel tells what is of a tenant.
func (r *Relay) Tells(channel, namespace, tenant string) bool {
	return r.o.Channels[channel].Tells(namespace, tenant)
}

// Word gives the message by which a channel tells an event: its templates may fail, then the
// message is that of the default ones, and the error says why.
func (r *Relay) Word(channel string, ev effects.Event, n notify.Notice) (notify.Message, error) {
	return r.o.Channels[channel].Templates.Message(ev, n)
}

// Later has a channel tell a message as soon as it takes it: what it did not take now. It returns
// once the message is stored.
func (r *Relay) Later(ctx context.Context, channel string, m notify.Message) error {
	e, known := r.engine.Load(), r.outcomes[channel]
	switch {
	case known == nil:
		return fmt.Errorf("there is no channel %q", channel)
	case e == nil:
		return errors.New("nothing is delivered later now: the daemon is starting or stopping")
	}
	data, err := json.Marshal(item{Message: &m})
	if err != nil {
		return fmt.Errorf("encode the message: %w", err)
	}
	// The key keeps what is asked for again meanwhile from being told twice.
	if _, _, err = e.Queues().Push(shell.WithActor(ctx, "notify"), Namespace, Tenant, channel, shell.PushOptions{Data: data, DedupKey: m.ID}); err != nil {
		return err
	}
	known.later.Add(1)
	return nil
}
