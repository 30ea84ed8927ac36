package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/examples/orreryd/internal/config"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
	"github.com/orrery-go/orrery/shell/notify"
	"github.com/orrery-go/orrery/shell/notify/relay"
)

// notifications makes the channels, and what carries out the notifications of runbooks.
func (d *daemon) notifications() (*notify.Interpreter, error) {
	channels, telling := map[string]notify.Channel{}, map[string]relay.Channel{}
	for name, c := range d.c.Notify.Channels {
		ch, err := c.New(d.log)
		if err != nil {
			return nil, fmt.Errorf("notify.channels.%s: %w", name, err)
		}
		channels[name], telling[name] = ch.Channel, ch
	}
	byDefault := d.c.Notify.Default
	if len(channels) == 0 { // notifications go to the log
		channels[config.ChannelLog], byDefault = notify.NewLog(d.log), config.ChannelLog
	}
	var err error
	if d.relay, err = relay.New(relay.Options{Channels: telling, Hints: d.hints.ofEvent, Logger: d.log}); err != nil {
		return nil, fmt.Errorf("notify: %w", err)
	}
	if d.notify, err = notify.New(notify.Options{Channels: channels, Default: byDefault, Later: d.relay.Later}); err != nil {
		return nil, fmt.Errorf("notify: %w", err)
	}
	return d.notify, nil
}

// runRelay has the channels tell events until ctx ends; then the engine may stop, too.
func (d *daemon) runRelay(ctx context.Context) error {
	if err := d.relay.Run(ctx, d.engine); err != nil {
		return fmt.Errorf("notify: %w", err)
	}
	return nil
}

// notifier shows the channels to the API, and tests them.
type notifier struct{ d *daemon }

// Channels implements [httpapi.Notifier].
func (n notifier) Channels() []wire.Channel {
	stats, byDefault := n.d.relay.Stats(), n.d.notify.Default()
	names := n.d.notify.Names()
	out := make([]wire.Channel, 0, len(names))
	for _, name := range names {
		c := stats[name]
		out = append(out, wire.Channel{
			Name: name, Default: name == byDefault, Events: append([]string{}, n.d.c.Notify.Channels[name].Events...),
			Told: c.Told, Failed: c.Failed, Dropped: c.Dropped, Later: c.Later,
		})
	}
	return out
}

// Test implements [httpapi.Notifier]. The message is one about an action that has failed, as the
// channel would tell it, so that its templates are seen, too.
func (n notifier) Test(ctx context.Context, channel string) error {
	now := time.Now()
	ev := notify.SampleEvent(now)
	id := uuid.NewString()
	line := n.d.hints.line("actions show", []string{id})
	m, err := n.d.relay.Word(channel, ev, notify.NoticeOf(ev, notify.Hint{Does: "show it", Line: line}))
	if err != nil {
		return err
	}
	m.ID, m.Event = id, nil // each test is one of its own
	m.Title = "Test: " + m.Title
	m.Text = fmt.Sprintf("This is a test of the channel %q: nothing has happened. So it tells that an action has failed:\n\n%s", channel, m.Text)
	return n.d.notify.Test(ctx, channel, m)
}

// ofEvent gives the commands that show what an event is about, and act on it.
func (h hints) ofEvent(ev effects.Event, s core.State) []notify.Hint {
	var out []notify.Hint
	add := func(does, line string) {
		if line != "" {
			out = append(out, notify.Hint{Does: does, Line: line})
		}
	}
	if s == nil {
		return nil
	}
	add("show it", h.show(s))
	switch s := s.(type) {
	case core.Action:
		if s.Status.Type == core.StatusFailed {
			add("try it again", h.byID("actions retry", s))
		}
	case core.Pipeline:
		if s.AwaitsApproval() {
			add("approve", h.approve(s))
			add("reject", h.reject(s))
		}
		if s.Phase.Type == core.PhaseFailure && s.Phase.Recoverable {
			add("go on at the phase that failed", h.byID("pipeline retry", s))
		}
	case core.Digest:
		out = append(out, h.alerting(ev)...)
	case core.Task:
		add("see what its session shows", h.byID("task screen", s))
	case core.Queue:
		if ev.Kind == effects.KindQueueDead {
			add("try again what it has given up", h.scoped("queue redrive", s.Name, s.Namespace, s.Tenant))
		}
	}
	return out
}

// alerting gives the commands that show the schedule of which an alert tells, and act on it if the alert was raised; none
// if it tells of several.
func (h hints) alerting(ev effects.Event) (out []notify.Hint) {
	var said core.DigestSaid
	if json.Unmarshal(ev.Data, &said) != nil || said.Count != 1 || len(said.Alerts) != 1 || said.Cleared != nil {
		return nil
	}
	e := said.Alerts[0]
	verb, name, silence, flags := "recurring ", e.Schedule.ID.String(), []string{e.Schedule.ID.String()}, []string{"--for=2h"}
	if e.Schedule.Kind == core.KindJob {
		verb, name, silence, flags = "job ", e.Name, nil, []string{"--job=" + e.Name, "--for=2h"}
	}
	add := func(does, action string) {
		out = append(out, notify.Hint{Does: does, Line: h.scoped(verb+action, name, e.Namespace, e.Tenant)})
	}
	add("show the schedule", "show")
	if ev.Kind.Action != "raised" {
		return out
	}
	if e.Kind != core.AlertSlow { // of that one runs already
		add("run it now", "trigger")
	}
	add("pause it", "pause")
	return append(out, notify.Hint{Does: "silence it for two hours", Line: h.line("alerts silence", silence, h.inScope(e.Namespace, e.Tenant, flags...)...)})
}

// stopRelayFirst runs the engine for longer than the relay, which gives back what it has in
// hand: the engine is stopped once ctx has ended and the relay has returned.
func stopRelayFirst(ctx context.Context, relayed *sync.WaitGroup) (engineCtx context.Context, stop context.CancelFunc) {
	engineCtx, stop = context.WithCancel(context.WithoutCancel(ctx))
	context.AfterFunc(ctx, func() {
		relayed.Wait()
		stop()
	})
	return engineCtx, stop
}
