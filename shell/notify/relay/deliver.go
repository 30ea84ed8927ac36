package relay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/internal/pause"
	"github.com/orrery-go/orrery/shell/notify"
)

// item is what stands in the queue of a channel: a message, or an event as the bus pushes it.
type item struct {
	Message *notify.Message `json:"message,omitempty"`

	ID        uuid.UUID       `json:"id,omitzero"`
	Category  string          `json:"category,omitempty"`
	Action    string          `json:"action,omitempty"`
	Timestamp effects.Time    `json:"timestamp,omitzero"`
	Component string          `json:"component,omitempty"`
	SourceID  uuid.UUID       `json:"source_id,omitzero"`
	Data      json.RawMessage `json:"data,omitempty"`
}

// event gives the event that an item holds.
func (i item) event() effects.Event {
	ev := effects.Event{
		ID: i.ID, Kind: effects.EventKind{Category: i.Category, Action: i.Action}, Timestamp: i.Timestamp,
		Source: effects.EventSource{Component: i.Component, ID: i.SourceID}, Data: i.Data,
	}
	if string(ev.Data) == "null" {
		ev.Data = nil
	}
	return ev
}

// delivery tells the items of one channel.
type delivery struct {
	*Relay
	e       *shell.Engine
	name    string
	channel Channel
}

// Waits between two attempts to tell an item.
const (
	firstWait   = 5 * time.Second
	longestWait = 5 * time.Minute
	longestAsk  = time.Hour // that a server may ask to be left alone
)

// handle tells an item. As long as the channel cannot be reached it tries again, so that what
// comes behind it is not told before it; when its patience is over, the queue decides when the
// item comes again, and others go first.
func (d *delivery) handle(ctx context.Context, i core.QueueItem) (json.RawMessage, error) {
	m, err := d.message(ctx, i)
	if err != nil || m == nil {
		if shell.IsPermanent(err) || err == nil {
			d.outcomes[d.name].dropped.Add(1)
		}
		return nil, err
	}
	wait, until := firstWait, time.Now().Add(d.o.Patience)
	for {
		err := d.tell(ctx, *m)
		if err == nil {
			d.outcomes[d.name].told.Add(1)
			return json.Marshal(struct {
				ID string `json:"id"`
			}{m.ID})
		}
		d.outcomes[d.name].failed.Add(1)
		if shell.IsPermanent(err) {
			d.outcomes[d.name].dropped.Add(1)
			d.o.Logger.Error("a notification was given up: the channel will never take it", "channel", d.name, "title", m.Title, "id", m.ID, "error", err)
			return nil, err
		}
		if ctx.Err() != nil {
			return nil, err
		}
		d.o.Logger.Warn("a channel did not take a notification, which is tried again", "channel", d.name, "title", m.Title, "id", m.ID, "error", err)
		asked, _ := notify.RetryDelay(err)
		if now := time.Now(); !now.Before(until) {
			return nil, err
		}
		if err := pause.For(ctx, max(wait, min(asked, longestAsk))); err != nil { // the relay stops: the item is given back, to be told by the next one
			return nil, err
		}
		wait = min(2*wait, longestWait)
	}
}

// tell has the channel tell a message, for no longer than a notification may take.
func (d *delivery) tell(ctx context.Context, m notify.Message) error {
	ctx, cancel := context.WithTimeoutCause(ctx, notify.DefaultTimeLimit, fmt.Errorf("it reached the time limit of %v", notify.DefaultTimeLimit))
	defer cancel()
	return notify.Tell(ctx, d.channel.Channel, m)
}

// message gives what an item is to tell; nil: nothing. A temporary error says that the store
// could not be read.
func (d *delivery) message(ctx context.Context, i core.QueueItem) (*notify.Message, error) {
	var it item
	if err := json.Unmarshal(i.Data, &it); err != nil {
		return nil, shell.Permanent(fmt.Errorf("read the item: %w", err))
	}
	if it.Message != nil {
		return it.Message, nil
	}
	ev, s, err := d.e.Detail(ctx, it.event())
	if err != nil {
		return nil, err
	}
	if q, ok := s.(core.Queue); ok && q.Namespace == Namespace && q.Tenant == Tenant {
		return nil, nil //nolint:nilnil // what a channel has given up is told by the log: no channel tells it, for ever
	}
	if ofParent(s) {
		return nil, nil //nolint:nilnil // its pipeline or strategy tells how that has ended, with its error
	}
	ev, told := d.channel.heard(ev)
	if !told {
		return nil, nil //nolint:nilnil // it is of a tenant whose events this channel does not tell
	}
	m := d.word(d.name, ev, s)
	return &m, nil
}

// word words an event for a channel.
func (r *Relay) word(channel string, ev effects.Event, s core.State) notify.Message {
	var hints []notify.Hint
	if r.o.Hints != nil {
		hints = r.o.Hints(ev, s)
	}
	m, err := r.Word(channel, ev, notify.NoticeOf(ev, hints...))
	if err != nil {
		r.o.Logger.Error("a template failed, and the default one was used", "channel", channel, "event", ev.Kind.String(), "error", err)
	}
	return m
}

// Alerts words the message that a digest of alerts sends to the channel that their rules name, as the channel tells an
// event: with its templates, and without what is of tenants that it does not tell. The error says that nothing is left
// to be told.
func (r *Relay) Alerts(d core.Digest) (notify.Message, error) {
	ev, has := d.MessageEvent()
	if !has {
		return notify.Message{}, shell.Permanent(errors.New("the digest of alerts has no message"))
	}
	ev, told := r.o.Channels[d.Channel].heard(ev)
	if !told {
		return notify.Message{}, shell.Permanent(fmt.Errorf("the channel %q tells nothing of the tenants whose alerts these are", d.Channel))
	}
	return r.word(d.Channel, ev, d), nil
}

// heard gives an event as the channel tells it: of one about alerts of several tenants only what is of those that the
// channel tells. ok is false if nothing of it is.
func (c Channel) heard(ev effects.Event) (_ effects.Event, ok bool) {
	if len(c.Namespaces) == 0 && len(c.Tenants) == 0 {
		return ev, true
	}
	var said core.DigestSaid
	if ev.Source.Component == string(core.KindDigest) && json.Unmarshal(ev.Data, &said) == nil && (len(said.Tenants) > 0 || said.Count > 0) {
		if said, ok = said.OfTenants(c.Tells); !ok {
			return ev, false
		}
		var err error
		if ev.Data, err = json.Marshal(said); err != nil {
			return ev, false
		}
		return ev, true
	}
	n := notify.NoticeOf(ev)
	return ev, c.Tells(n.Namespace, n.Tenant)
}

// ofParent reports whether a machine is an action that another machine made for a part of its own
// work, and waits for: whether it matters that it failed, that one decides.
func ofParent(s core.State) bool {
	a, ok := s.(core.Action)
	return ok && slices.Contains([]effects.Kind{core.KindPipeline, core.KindStrategy, core.KindWorker}, a.Owner.Ref.Kind)
}

// Tells reports whether the channel tells what is of a tenant.
func (c Channel) Tells(namespace, tenant string) bool {
	return in(c.Namespaces, namespace) && in(c.Tenants, tenant)
}

// in reports whether a list allows a name. An event of which nobody knows whose it is, as its
// machine is gone, only channels without restrictions tell.
func in(list []string, name string) bool { return len(list) == 0 || slices.Contains(list, name) }
