package fleet

import (
	"context"
	"log/slog"
	"time"
)

// EventKind is what an [Event] tells.
type EventKind string

// What a [Member] tells of.
const (
	// EventStandsBy: another process owns the partition.
	EventStandsBy EventKind = "stands_by"
	// EventOwns: this process owns it now. Owner and Address are those of the one before, if there was one that has not given it back.
	EventOwns EventKind = "owns"
	// EventLost: this process owned it until now; Err says why it does no more. It stands by again.
	EventLost EventKind = "lost"
	// EventAway: the database does not answer this process, which stands by. Err says why.
	EventAway EventKind = "away"
	// EventBack: it answers again.
	EventBack EventKind = "back"
	// EventUnclaimed: the partition could not be claimed, for the reason in Err, and it is tried again.
	EventUnclaimed EventKind = "unclaimed"
	// EventUnrenewed: the database does not take a sign of life of the owner, which is this process, for the reason in Err; it is tried again.
	EventUnrenewed EventKind = "unrenewed"
	// EventUnlisted: the database does not list this process, for the reason in Err; it is tried again.
	EventUnlisted EventKind = "unlisted"
	// EventNameTaken: another process was registered under the name of this one.
	EventNameTaken EventKind = "name_taken"
	// EventRemains: this process ends, and stays in the list of instances for the reason in Err.
	EventRemains EventKind = "remains"
	// EventClock: the clocks of this machine and of the database are apart by Ahead (negative: the database's is behind), and the database's counts from now on.
	EventClock EventKind = "clock"
	// EventUntimed: the database does not tell the time, for the reason in Err; what was last known of it counts.
	EventUntimed EventKind = "untimed"
)

// Event is something that a [Member] tells of, once for each time that it begins.
type Event struct {
	Kind EventKind
	// State is what is known of the partition from then on; of [EventOwns] and [EventLost] its Token is that of this process.
	State State
	// Before is who owned the partition before, of [EventOwns].
	Before string
	// Ahead is how far the database's clock is ahead of this machine's, of [EventClock].
	Ahead time.Duration
	Err   error
}

// texts are what a log says, and how bad it is.
var texts = map[EventKind]struct {
	level slog.Level
	text  string
}{
	EventStandsBy:  {slog.LevelInfo, "standing by: another process owns the partition"},
	EventOwns:      {slog.LevelInfo, "this process owns the partition"},
	EventLost:      {slog.LevelWarn, "standing by: this process has lost the partition, and nothing is stored any more of what it did there"},
	EventAway:      {slog.LevelWarn, "the database does not answer; standing by until it does"},
	EventBack:      {slog.LevelInfo, "the database answers again"},
	EventUnclaimed: {slog.LevelWarn, "the partition cannot be claimed; trying again"},
	EventUnrenewed: {slog.LevelWarn, "the database takes no sign of life; others take over if it takes one of theirs"},
	EventUnlisted:  {slog.LevelWarn, "the database does not list this process; trying again"},
	EventNameTaken: {slog.LevelWarn, "another process has the same name: give each its own"},
	EventRemains:   {slog.LevelWarn, "this process stays in the list of instances, though it ends"},
	EventClock:     {slog.LevelWarn, "this machine's clock and the database's differ; the database's counts"},
	EventUntimed:   {slog.LevelWarn, "the database does not tell the time; what was last known of it counts until it does"},
}

// log writes an event to a logger.
func (e Event) log(l *slog.Logger) {
	t := texts[e.Kind]
	var attrs []slog.Attr
	switch e.Kind {
	case EventStandsBy:
		attrs = append(attrs, slog.String("owner", e.State.Owner), slog.String("address", e.State.Address), slog.Uint64("token", e.State.Token))
	case EventOwns:
		attrs = append(attrs, slog.Uint64("token", e.State.Token), slog.String("before", e.Before))
	case EventLost:
		attrs = append(attrs, slog.Uint64("token", e.State.Token))
	case EventClock:
		attrs = append(attrs, slog.Duration("database_ahead", e.Ahead.Round(time.Millisecond)))
	}
	if e.Err != nil {
		attrs = append(attrs, slog.Any("error", e.Err))
	}
	l.LogAttrs(context.Background(), t.level, t.text, attrs...)
}

// tell passes an event on; no lock is held.
func (m *Member) tell(kind EventKind, err error) { m.pass(Event{Kind: kind, State: m.State(), Err: err}) }

func (m *Member) pass(e Event) {
	if m.o.Events != nil {
		m.o.Events(e)
		return
	}
	e.log(m.o.Logger)
}
