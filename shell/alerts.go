package shell

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/internal/clip"
)

// Alerts are the calls for the alerts of schedules: of recurring actions and of jobs whose options have
// rules for them ([core.AlertRules]).
type Alerts struct{ e *Engine }

// Alerts gives the calls for alerts.
func (e *Engine) Alerts() Alerts { return Alerts{e} }

// checkChannel refuses rules of a tenant that name a channel which there is not, or which tells nothing of the tenant:
// what they raise nobody would be told.
func (e *Engine) checkChannel(to effects.Ref, of Scope, event string, r core.AlertRules) error {
	tells := func(channel string) bool {
		return e.o.ChannelTells == nil || e.o.ChannelTells(channel, of.Namespace, of.Tenant)
	}
	is := slices.Contains(e.o.Channels, r.Channel)
	if r.Channel == "" || e.o.Channels == nil || is && tells(r.Channel) {
		return nil
	}
	right := slices.Sorted(slices.Values(slices.DeleteFunc(slices.Clone(e.o.Channels), func(c string) bool { return !tells(c) })))
	instead := "use one of " + strings.Join(right, ", ") + ", or leave it out"
	switch {
	case len(e.o.Channels) == 0:
		instead = "none is configured"
	case len(right) == 0:
		instead = "no channel does: leave it out"
	}
	channel := clip.Text(r.Channel, maxLogText)
	if is {
		return invalid(to, event, "alerts.channel: the channel %q tells nothing of the tenant %s/%s: %s", channel, of.Namespace, of.Tenant, instead)
	}
	return invalid(to, event, "alerts.channel: there is no channel %q: %s", channel, instead)
}

// Get reads the alert of a schedule, which [core.RecurringAction.Ref] or [core.JobRef] names;
// [ErrNotFound] if the schedule has no rules.
func (a Alerts) Get(ctx context.Context, schedule effects.Ref) (core.Alert, error) {
	return readAs[core.Alert](ctx, a.e, core.AlertRef(schedule))
}

// SilenceOptions are those of a silence.
type SilenceOptions struct {
	Until  time.Time // it ends by itself then
	By     string    // who asks, in words
	Reason string
}

// Silence lets nobody be told of the alerts of a schedule until then. They go on watching: what is open
// at the end is told then, and what was told as raised before is told as cleared at once. The error is a [*Refusal] if Until is not in the future, or the schedule has
// no rules.
func (a Alerts) Silence(ctx context.Context, schedule effects.Ref, o SilenceOptions) (core.Alert, error) {
	e := core.AlertSilence{By: o.By, Reason: o.Reason}
	if !o.Until.IsZero() {
		e.Until = effects.TimeOf(o.Until)
	}
	return sendTo[core.Alert](ctx, a.e, core.AlertRef(schedule), e)
}

// Unsilence ends the silence of a schedule's alerts: what is open is told. The error is a [*Refusal] if
// they are not silenced.
func (a Alerts) Unsilence(ctx context.Context, schedule effects.Ref) (core.Alert, error) {
	return sendTo[core.Alert](ctx, a.e, core.AlertRef(schedule), core.AlertUnsilence{})
}

// List lists the alerts of schedules that have rules, newest first. The filter's status is
// [core.AlertOpen] or [core.AlertQuiet].
func (a Alerts) List(ctx context.Context, f MachineFilter, p Page) ([]core.Alert, string, error) {
	return listOf[core.Alert](ctx, a.e, core.KindAlert, f, p)
}

// Digest reads what the alerts of a channel of notifications have to tell, and how their messages fare.
// The channel "" is that of rules that name none. [ErrNotFound]: no alert has ever told it anything.
func (a Alerts) Digest(ctx context.Context, channel string) (core.Digest, error) {
	return readAs[core.Digest](ctx, a.e, core.DigestRef(channel))
}
