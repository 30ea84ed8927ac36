package core

import (
	"encoding/json"
	"slices"

	"github.com/orrery-go/orrery/effects"
)

// RetentionClass says by which of the engine's settings a machine that has ended is
// forgotten.
type RetentionClass int

// The classes of retention.
const (
	RetainMachines RetentionClass = iota // actions, runbooks, runs
	RetainHistory                        // occurrences
)

// Retention is a kind whose machines are forgotten some time after their end, by
// their [ExpireEvent].
type Retention struct {
	Kind  effects.Kind
	Class RetentionClass
	// Tenants is what the list terms begin with of all machines of one tenant, whose totals are
	// those of the tenants, if no tenant may have any number of them: those that have ended stand,
	// within their tenant, under [TermEnded], too. See [TenantOfTerm].
	Tenants string
}

// Retentions lists the kinds that are forgotten, in the order in which the engine
// walks through them.
func Retentions() []Retention {
	var out []Retention
	for _, k := range kindTable {
		if k.expire != nil {
			out = append(out, Retention{k.name, k.retention, k.tenants})
		}
	}
	return out
}

// zero gives the state of a machine that does not exist.
func zero(kind effects.Kind) State { return kinds[kind].zero }

// DueEvent is the event that tells a machine of that kind that its deadline has
// come; nil for a kind that waits for nothing.
func DueEvent(kind effects.Kind) Event { return kinds[kind].due }

// ExpireEvent is the event that ends the retention of a machine of that kind;
// nil for a kind that is kept until it is deleted.
func ExpireEvent(kind effects.Kind) Event { return kinds[kind].expire }

// InterruptEvent is the event that tells a machine that the holder of its outer
// effect is gone; nil for a kind that has no outer effects.
func InterruptEvent(kind effects.Kind, n uint32, reason string) Event {
	if o := kinds[kind].outer; o != nil {
		return o.interrupted(n, reason)
	}
	return nil
}

// HandBackEvent is the event that gives back an outer effect that was not
// begun; nil for a kind that has no outer effects.
func HandBackEvent(kind effects.Kind, n uint32) Event {
	if o := kinds[kind].outer; o != nil {
		return o.handedBack(n)
	}
	return nil
}

// Failure says how an outer effect failed. The zero Failure: it did not.
type Failure struct {
	Reason    string // empty: it did not fail
	Permanent bool   // trying again is pointless
	TimedOut  bool   // it reached its time limit
	// RetryAfterMS is how long the other side asks to be left alone, in milliseconds.
	RetryAfterMS int64
}

// AnswerEvent is the event that answers an outer effect of a machine of that
// kind. A result beside a failure is what there is in spite of it. It is nil for a kind that
// has no outer effects.
func AnswerEvent(kind effects.Kind, n uint32, result json.RawMessage, f Failure) Event {
	switch o := kinds[kind].outer; {
	case o == nil:
		return nil
	case f.Reason == "":
		return o.done(n, result)
	default:
		return o.failed(n, result, f)
	}
}

// OuterEffectKinds lists the kinds whose machines ask for outer effects. The most
// frequent one stands last: who looks for the machine of an id asks for the others
// first.
func OuterEffectKinds() []effects.Kind {
	var out []effects.Kind
	for _, k := range slices.Backward(kindTable) {
		if k.outer != nil {
			out = append(out, k.name)
		}
	}
	return out
}

// KeepsLogs reports whether the store keeps logs for machines of that kind, by their ids and the numbers of their attempts, which go
// with the machine's record.
func KeepsLogs(kind effects.Kind) bool { return kinds[kind].keepsLogs }

// Scanned reports whether a batch reads the list indexes of that kind: it does so for
// what a queue keeps as records of their own, and for buses.
func Scanned(kind effects.Kind) bool { return kinds[kind].scanned }

// ScansAll reports whether a batch that reads a list index of that kind needs each record that stands there.
func ScansAll(kind effects.Kind) bool { return kinds[kind].scansAll }

// Shared reports whether many machines refer to a record of that kind, which never changes:
// each that is read needs it.
func Shared(kind effects.Kind) bool { return kinds[kind].shared }

// Whole gives a state with what its machine keeps as records of their own, which [DecodeState]
// does not have. load gives the state of such a record, nil if it does not exist: what stood in
// it is then missing. States from a [Batch] are whole.
func Whole(s State, load func(ref effects.Ref) (State, error)) (State, error) {
	if apart, ok := s.(interface {
		whole(load func(effects.Ref) (State, error)) (State, error)
	}); ok {
		return apart.whole(load)
	}
	return s, nil
}

// WholeJSON gives the form in which a machine is shown, of its stored form: with what it keeps
// as records of their own, see [Whole].
func WholeJSON(kind effects.Kind, stored []byte, load func(ref effects.Ref) (State, error)) ([]byte, error) {
	s, err := DecodeState(kind, stored)
	if err != nil {
		return nil, err
	}
	apart, ok := s.(interface{ apart() bool })
	if !ok || !apart.apart() {
		return stored, nil
	}
	if s, err = Whole(s, load); err != nil {
		return nil, err
	}
	return json.Marshal(s)
}

// Held says what a state from a [Batch] has in memory beyond its stored form: about so many bytes,
// and the state of another record, which it shares with others ([Shared]); zero: of none.
func Held(s State) (bytes int, shares effects.Ref) {
	if h, ok := s.(interface{ held() (int, effects.Ref) }); ok {
		return h.held()
	}
	return 0, effects.Ref{}
}

// Paced reports whether machines of that kind are woken at a pace of their own: that
// of the recurring check (002), between the ticks.
func Paced(kind effects.Kind) bool { return kinds[kind].paced }

// PacedWith reports whether a machine that is due is woken along with those that are
// [Paced]: they have dispatched it.
func PacedWith(s State) bool {
	d, ok := s.(interface{ pacedWith() bool })
	return ok && d.pacedWith()
}

// Cacheable reports whether a machine is likely to be read again soon: not after its
// end, and not what is read at most once more.
func Cacheable(s State) bool {
	if _, ended := EndedAt(s); ended {
		return false
	}
	passing := kinds[s.Ref().Kind].passing
	return passing == nil || !passing(s)
}

// shortenable is an event that comes often, and can be said in fewer words to a
// machine that takes them for the same.
type shortenable interface{ shortenedFor(s State) Event }

// Shortened is the event as the journal has it: one that comes often is said in
// fewer words if the machine, which is in the state s, takes them for the same.
func Shortened(s State, e Event) Event {
	if long, ok := e.(shortenable); ok {
		return long.shortenedFor(s)
	}
	return e
}

// Shortens reports whether [Shortened] may say the event in fewer words.
func Shortens(e Event) bool {
	_, ok := e.(shortenable)
	return ok
}

// EndedAt tells whether a machine has come to its end, and when: from then on it
// only waits for its retention to end. The shell forgets it by [ExpireEvent].
func EndedAt(s State) (Time, bool) {
	if e, ok := s.(interface{ endedAt() (Time, bool) }); ok {
		return e.endedAt()
	}
	return 0, false
}

// MustBeKept reports whether a machine that has ended refuses [ExpireEvent] still: what it
// asked for outside is not answered, or what it has there could not be deleted.
func MustBeKept(s State) bool {
	e, ok := s.(interface{ mustBeKept() bool })
	return ok && e.mustBeKept()
}
