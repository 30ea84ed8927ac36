package core

import (
	"encoding/hex"
	"encoding/json"
	"hash/fnv"

	"github.com/orrery-go/orrery/effects"
)

// NoRevision is the revision of a machine that does not exist.
const NoRevision = "none"

// AnyRevision stands for each revision but [NoRevision], where one is asked for.
const AnyRevision = "any"

// Revision names what somebody reads of a machine who edits it: its definition without what
// happens to it, such as counts and next times. It is 32 hexadecimal digits, a hash, so that a
// definition that is changed and changed back has its first revision again; another build may give another one.
// Machines that cannot be edited have none, which is "".
//
// An edit that names the revision that was read is refused if the machine has another one: two people who
// edit at once do not undo each other's change unseen.
func Revision(s State) string {
	if s == nil || s.Ref().IsZero() {
		return NoRevision
	}
	d, ok := s.(interface{ definition() any })
	if !ok {
		return ""
	}
	return revisionOf(d.definition())
}

// Revision is [Revision] of a subscriber.
func (s Subscription) Revision() string { return revisionOf(s) }

// RevisionBefore gives the revision of what an event would change in a machine: of a [Bus] that is one
// subscriber.
func RevisionBefore(s State, e Event) string {
	bus, ok := s.(Bus)
	if !ok {
		return Revision(s)
	}
	if i := bus.find(partOf(e)); i >= 0 {
		return bus.Subscribers[i].Revision()
	}
	return NoRevision
}

// Definition gives what [RevisionBefore] is about, as JSON: the definition of a machine, or of the subscriber of a
// [Bus] that an event is about. nil: there is none.
func Definition(s State, e Event) json.RawMessage {
	if bus, ok := s.(Bus); ok {
		if i := bus.find(partOf(e)); i >= 0 {
			return appendMarshaled(nil, bus.Subscribers[i])
		}
		return nil
	}
	if d, ok := s.(interface{ definition() any }); ok && !s.Ref().IsZero() {
		return appendMarshaled(nil, d.definition())
	}
	return nil
}

// CheckRevision refuses an event for a machine that has not the revision for which the event was made. shown gives revisions as
// the sender of the event knows them; nil: as they are.
func CheckRevision(s State, to effects.Ref, e Event, want string, shown func(revision string) string) error {
	have := RevisionBefore(s, e)
	if shown != nil && have != "" && have != NoRevision {
		have = shown(have)
	}
	if have == want || want == AnyRevision && have != NoRevision {
		return nil
	}
	reason := "it was changed since revision " + clip(want) + " was read, and has " + have + " now: read it again"
	switch {
	case have == NoRevision && want == AnyRevision:
		reason = "it does not exist"
	case have == NoRevision:
		reason = "it does not exist any more, revision " + clip(want) + " was asked for"
	case have == "":
		reason = "it has no revision, " + clip(want) + " was asked for"
	case want == NoRevision:
		reason = "it exists already"
	}
	return &effects.Refused{To: to, Event: e.EventType(), Code: effects.CodeStale, Reason: reason}
}

func revisionOf(definition any) string {
	h := fnv.New128a()
	h.Write(appendMarshaled(nil, definition))
	return hex.EncodeToString(h.Sum(nil))
}

// definition is the same for a map that is empty and one that is not there: an edit may leave either.
func (r RecurringAction) definition() any {
	s := r.RecurringSpec
	s.Labels, s.ActionTemplate.Metadata = orNone(s.Labels), orNone(s.ActionTemplate.Metadata)
	return s
}

func orNone(m map[string]string) map[string]string {
	if len(m) == 0 {
		return nil
	}
	return m
}

func (j Job) definition() any      { return j.JobSpec }
func (q Queue) definition() any    { return q.Config }
func (w Worker) definition() any   { return w.WorkerSpec }
func (c Calendar) definition() any { return c.CalendarSpec }

func (s Semaphore) definition() any {
	return struct {
		Slots    uint32 `json:"slots"`
		Declared bool   `json:"declared"`
	}{s.Total, s.Configured}
}
