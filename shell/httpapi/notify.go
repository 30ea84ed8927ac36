package httpapi

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

// Notifier is how people are told: see Options.Notify. It must be safe for concurrent use.
type Notifier interface {
	// Channels are all channels by name, with their counts.
	Channels() []wire.Channel
	// Test has a channel tell a test message, now and once. The error says why it was not told.
	Test(ctx context.Context, channel string) error
}

var (
	descTold    = desc("orrery_notifications_told_total", "Notifications of events, and those that waited for their channel, that the channel took.", "channel")
	descUntold  = desc("orrery_notifications_failed_total", "Attempts to tell such a notification that its channel did not take; most are made again.", "channel")
	descDropped = desc("orrery_notifications_dropped_total", "Notifications that the channel was not to tell, or will never take.", "channel")
	descLater   = desc("orrery_notifications_later_total", "Notifications of runbooks and constraints that wait, or waited, as their channel could not be reached.", "channel")
)

// collectNotify reads what channels count: from 0 on, since a rate needs something to rise from.
func (s *Server) collectNotify(_ context.Context, ch samples) {
	if s.o.Notify == nil {
		return
	}
	for _, c := range s.o.Notify.Channels() {
		ch.counter(descTold, c.Told, c.Name)
		ch.counter(descUntold, c.Failed, c.Name)
		ch.counter(descDropped, c.Dropped, c.Name)
		ch.counter(descLater, c.Later, c.Name)
	}
}

// channels gives the channels, or the answer of a server that has none.
func (s *Server) channels() ([]wire.Channel, error) {
	if s.o.Notify == nil {
		return nil, failf(http.StatusNotImplemented, "notify: this server has no channels")
	}
	return s.o.Notify.Channels(), nil
}

// listChannels shows how people are told.
func (s *Server) listChannels(w http.ResponseWriter, r *http.Request, _ *call) error {
	all, err := s.channels()
	if err != nil {
		return err
	}
	all = append([]wire.Channel{}, all...)
	for i := range all {
		d, err := s.engine.Alerts().Digest(r.Context(), all[i].Name)
		switch {
		case errors.Is(err, shell.ErrNotFound):
		case err != nil:
			return err
		case d.ID != uuid.Nil:
			all[i].Alerts = channelAlerts(d)
		}
	}
	return writeJSON(w, http.StatusOK, wire.ChannelList{Channels: all})
}

// channelAlerts is what alerts have to tell by a channel.
func channelAlerts(d core.Digest) *wire.ChannelAlerts {
	out := &wire.ChannelAlerts{
		Since: d.Since, Raised: d.Raised.Counts, Cleared: d.Cleared.Counts, Names: make([]string, 0, len(d.Raised.First)), Sent: d.Sent, Lost: d.Lost, Error: d.LastError,
	}
	for _, e := range d.Raised.First {
		out.Names = append(out.Names, e.Name)
	}
	if m := d.Message; m != nil {
		out.Message, out.Tries, out.RetryAt = m.Title, m.Tries, m.RetryAt
	}
	return out
}

// testNotify has channels tell a test message, all at once, and says of each whether it has.
func (s *Server) testNotify(w http.ResponseWriter, r *http.Request, _ *call) error {
	var body wire.NotifyTestRequest
	if err := s.decode(w, r, &body, true); err != nil {
		return err
	}
	all, err := s.channels()
	if err != nil {
		return err
	}
	names := make([]string, 0, len(all))
	for _, c := range all {
		names = append(names, c.Name)
	}
	if body.Channel != "" {
		if !slices.Contains(names, body.Channel) {
			return failf(http.StatusNotFound, "channel: %q is none of the channels: %s", body.Channel, strings.Join(names, ", "))
		}
		names = []string{body.Channel}
	}
	out := wire.NotifyTested{Results: make([]wire.NotifyResult, len(names))}
	var tests sync.WaitGroup
	for i, name := range names {
		tests.Go(func() {
			out.Results[i] = wire.NotifyResult{Channel: name, Told: true}
			if err := s.o.Notify.Test(r.Context(), name); err != nil {
				out.Results[i] = wire.NotifyResult{Channel: name, Error: err.Error()}
			}
		})
	}
	tests.Wait()
	return writeJSON(w, http.StatusOK, out)
}
