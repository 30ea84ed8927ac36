package fleet

import (
	"log/slog"
	"time"
)

// EventKind is what an [Event] tells.
type EventKind string

// What a [Member] and a [Group] tell of.
const (
	// EventStandsBy: another process owns the partition.
	EventStandsBy EventKind = "stands_by"
	// EventOwns: this process owns it now. Owner and Address are those of the one before, if there was one that has not given it back.
	EventOwns EventKind = "owns"
	// EventLost: this process owned it until now; Err says why it does no more. It stands by again.
	EventLost EventKind = "lost"
	// EventAway: the database does not answer this process, or gives it no connection. The process claims nothing meanwhile; what it owns it works on. Err says why.
	EventAway EventKind = "away"
	// EventBack: it does again.
	EventBack EventKind = "back"
	// EventUnclaimed: the partition could not be claimed, for the reason in Err, and it is tried again.
	EventUnclaimed EventKind = "unclaimed"
	// EventUnrenewed: the database does not take a sign of life of the owner, which is this process, for the reason in Err; it is tried again.
	EventUnrenewed EventKind = "unrenewed"
	// EventUnlisted: the database does not list this process, for the reason in Err; it is tried again.
	EventUnlisted EventKind = "unlisted"
	// EventNameTaken: another process was registered under the name of this one. It is told once, and anew if that happens after a lease without.
	EventNameTaken EventKind = "name_taken"
	// EventRemains: this process ends, and stays in the list of instances for the reason in Err.
	EventRemains EventKind = "remains"
	// EventClock: the clocks of this machine and of the database are apart by Ahead (negative: the database's is behind), and the database's counts from now on.
	EventClock EventKind = "clock"
	// EventUntimed: the database does not tell the time, for the reason in Err; what was last known of it counts.
	EventUntimed EventKind = "untimed"
	// EventMoved: this process has given the partition back, so that To takes it; Err says what went wrong with that, if anything did.
	EventMoved EventKind = "moved"
	// EventRanOn: what ran on in this process of a partition that it had given back for To has not ended without an error, which is Err.
	EventRanOn EventKind = "ran_on"
	// EventUnfit: this process has given the partition back since it could not work on it, for the reason in Err, and others go before for a while ([ErrUnfit]).
	EventUnfit EventKind = "unfit"
	// EventUnusable: nobody can open the partition, for the reason in Err; the process works on its others ([Group]).
	EventUnusable EventKind = "unusable"
	// EventDrains: this process is to give back what it owns, and claims nothing ([store.Cluster] Drain).
	EventDrains EventKind = "drains"
	// EventUndrained: it claims again.
	EventUndrained EventKind = "undrained"
	// EventRebalances: this process was told to give to others what they should have, without waiting ([Group.Rebalance]).
	EventRebalances EventKind = "rebalances"
	// EventRefuses: this process claims nothing, since its engines decide by other rules than those of half of the instances; Err says which.
	EventRefuses EventKind = "refuses"
	// EventAgrees: it claims again.
	EventAgrees EventKind = "agrees"
)

// Event is something that a [Member] tells of, once for each time that it begins.
type Event struct {
	Kind EventKind
	// State is what is known of the partition from then on; of [EventOwns] and [EventLost] its Token is that of this process. Of what a [Group] tells
	// that is of the process, its Partition is -1, and it has nothing else.
	State State
	// Before is who owned the partition before, of [EventOwns].
	Before string
	// To is who should have the partition, of [EventMoved] and [EventRanOn].
	To string
	// Ahead is how far the database's clock is ahead of this machine's, of [EventClock].
	Ahead time.Duration
	Err   error
}

// log writes an event to a logger.
func (e Event) log(l *slog.Logger) {
	s := e.State
	switch e.Kind {
	case EventStandsBy:
		l.Info("standing by: another process owns the partition", "owner", s.Owner, "address", s.Address, "token", s.Token)
	case EventOwns:
		l.Info("this process owns the partition", "token", s.Token, "before", e.Before)
	case EventLost:
		l.Warn("standing by: this process has lost the partition, and nothing is stored any more of what it did there", "token", s.Token, "error", e.Err)
	case EventAway:
		l.Warn("the database is not available; this process claims nothing until it is", "error", e.Err)
	case EventBack:
		l.Info("the database is available again")
	case EventUnclaimed:
		l.Warn("the partition cannot be claimed; trying again", "error", e.Err)
	case EventUnrenewed:
		l.Warn("the database takes no sign of life; others take over if it takes one of theirs", "error", e.Err)
	case EventUnlisted:
		l.Warn("the database does not list this process; trying again", "error", e.Err)
	case EventNameTaken:
		l.Warn("another process has the same name: give each its own")
	case EventRemains:
		l.Warn("this process stays in the list of instances, though it ends", "error", e.Err)
	case EventClock:
		l.Warn("this machine's clock and the database's differ; the database's counts", "database_ahead", e.Ahead.Round(time.Millisecond))
	case EventUntimed:
		l.Warn("the database does not tell the time; what was last known of it counts until it does", "error", e.Err)
	case EventMoved:
		if e.Err != nil {
			l.Warn("this process has ended its work on the partition, which another one should have, and not without an error", "to", e.To, "error", e.Err)
			return
		}
		l.Info("this process has given the partition back: another one should have it", "to", e.To)
	case EventRanOn:
		l.Warn("what ran on in this process of a partition that another one has did not end without an error", "to", e.To, "error", e.Err)
	case EventUnfit:
		l.Error("this process cannot work on the partition, and has given it back: another one may take it", "error", e.Err)
	case EventUnusable:
		l.Error("nobody can open the partition", "error", e.Err)
	case EventDrains:
		l.Info("this process gives back what it owns, and claims nothing")
	case EventUndrained:
		l.Info("this process claims partitions again")
	case EventRebalances:
		l.Info("this process was told to give to others what they should have")
	case EventRefuses:
		l.Warn("this process claims no partition", "error", e.Err)
	case EventAgrees:
		l.Info("this process claims partitions again: it has the core that counts")
	}
}

// tell passes on an event of the partition; no lock is held.
func (m *Member) tell(kind EventKind, err error) {
	m.pass(Event{Kind: kind, State: m.State(), Err: err})
}
