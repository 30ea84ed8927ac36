package core

import (
	"fmt"
	"slices"

	"github.com/orrery-go/orrery/effects"
)

// Allowance says how many more machines of a kind a tenant may have. The zero
// Allowance: any number.
type Allowance struct {
	Left int64 // how many more; below zero is as zero
	// Most is the limit, and What says in plain words what it counts, such as "actions
	// that have not ended": for the reason of a refusal. Without What there is no limit.
	Most int64
	What string
}

// Reason says why no more are made.
func (a Allowance) Reason() string {
	return firstText(fmt.Sprintf("the tenant has as many as its limit allows: %d %s", a.Most, a.What))
}

// Full says that a tenant has as many machines of a kind as its limit allows. It is
// journaled with the input that met it, so that a replay refuses the same.
type Full struct {
	Namespace string       `json:"namespace"`
	Tenant    string       `json:"tenant"`
	Kind      effects.Kind `json:"kind"`
	// Room is how many of them the input may make: the next one is refused.
	Room   int64  `json:"room,omitempty"`
	Reason string `json:"reason"`
	// Refused is how many more it would have made. It is not journaled.
	Refused uint64 `json:"-"`
}

func (f Full) appendJSON(b []byte) []byte {
	o := begin(b)
	o.str("namespace", f.Namespace)
	o.str("tenant", f.Tenant)
	o.str("kind", string(f.Kind))
	if f.Room != 0 {
		o.num("room", uint64(max(f.Room, 0)))
	}
	o.str("reason", f.Reason)
	return o.end()
}

// boundKey is what a limit counts.
type boundKey struct {
	of   Scope
	kind effects.Kind
}

// bounds keep what machines make within the limits of their tenants.
type bounds struct {
	ask  func(Scope, effects.Kind) Allowance // nil: nothing is bound but by full
	has  map[boundKey]Allowance              // what was answered, so that it holds for the batch
	made map[boundKey]int64                  // by the inputs of the batch that have changed something

	given  bool // the input has its own: it comes from the journal
	full   []Full
	making []boundCount // by the input under way, mostly of one tenant and kind
}

type boundCount struct {
	key boundKey
	n   int64
}

// emptied gives the memory of bounds, without what was in them.
func (b *bounds) emptied() bounds {
	clear(b.has)
	clear(b.made)
	return bounds{has: b.has, made: b.made, making: b.making[:0]}
}

// makes counts n more that the input under way makes, and gives how many these are in all.
func (b *bounds) makes(key boundKey, n int64) int64 {
	for i := range b.making {
		if b.making[i].key == key {
			b.making[i].n += n
			return b.making[i].n
		}
	}
	if n != 0 {
		b.making = append(b.making, boundCount{key, n})
	}
	return n
}

// Bound has the batch refuse what machines would make beyond the limits of their
// tenants, with [effects.CodeLimited]. What comes from outside is counted, and not
// refused. The batch asks once for each tenant and kind. An input that has
// [Input.Full] is bound by that alone.
func (t *Batch) Bound(allowed func(of Scope, kind effects.Kind) Allowance) { t.bounds.ask = allowed }

// Bounded reports whether tenants may have limits for machines of that kind.
func Bounded(kind effects.Kind) bool { return kinds[kind].bounded }

// begin prepares for an input.
func (b *bounds) begin(in Input) {
	b.given, b.full = len(in.Full) > 0, slices.Clone(in.Full)
}

// retry prepares for one attempt at the input.
func (b *bounds) retry() { b.making = b.making[:0] }

// done counts what an input that has changed something has made.
func (b *bounds) done() {
	for _, c := range b.making {
		if b.made == nil {
			b.made = make(map[boundKey]int64)
		}
		b.made[c.key] += c.n
	}
}

// refuses gives the reason for which a machine of that tenant and kind is not made;
// empty: it is. What a machine makes may be refused, what comes from outside is only
// counted.
func (b *bounds) refuses(key boundKey, byMachine bool) string {
	if b.ask == nil && !b.given {
		return ""
	}
	if byMachine {
		if i := b.limit(key); i >= 0 {
			b.full[i].Refused++
			return b.full[i].Reason
		}
	}
	b.makes(key, 1)
	return ""
}

// limit gives the index of the limit that the input meets with one more machine, or -1.
func (b *bounds) limit(key boundKey) int {
	for i, f := range b.full {
		if f.Kind == key.kind && f.Namespace == key.of.Namespace && f.Tenant == key.of.Tenant {
			if b.makes(key, 0) >= f.Room {
				return i
			}
			return -1
		}
	}
	if b.given {
		return -1
	}
	a, known := b.has[key]
	if !known {
		if b.has == nil {
			b.has = make(map[boundKey]Allowance)
		}
		a = b.ask(key.of, key.kind)
		b.has[key] = a
	}
	room := max(a.Left-b.made[key], 0)
	if a.What == "" || b.makes(key, 0) < room {
		return -1
	}
	b.full = append(b.full, Full{
		Namespace: key.of.Namespace, Tenant: key.of.Tenant, Kind: key.kind, Room: room,
		Reason: a.Reason(),
	})
	return len(b.full) - 1
}

// beyond refuses a machine that another one would make beyond a limit.
func (t *Batch) beyond(d delivery, s *slot, next State) *effects.Refused {
	if s.now != nil || !kinds[d.to.Kind].bounded || next.Ref().IsZero() {
		return nil
	}
	reason := t.bounds.refuses(boundKey{ScopeOf(next), d.to.Kind}, !d.outside())
	if reason == "" {
		return nil
	}
	return &effects.Refused{To: d.to, Event: d.event.EventType(), Code: effects.CodeLimited, Reason: reason}
}

// outside reports whether the event comes from outside: by itself, or passed on.
func (d delivery) outside() bool { return d.from.IsZero() || d.asked && kinds[d.from.Kind].passesOn }

// isAskedFor reports whether somebody outside has asked for just that machine, by a
// word to the one that makes it: then the word is refused as a whole.
func isAskedFor(d delivery) bool {
	by, ok := d.event.(interface{ askedFor() bool })
	return d.asked && ok && by.askedFor()
}

// tellRefused tells the machine that waits for what is refused, which would wait for ever
// otherwise. If no machine waits for what a limit refuses, it is announced on the bus.
func (t *Batch) tellRefused(d delivery, r *effects.Refused, res *Result) error {
	limited := r.Code == effects.CodeLimited
	if owner := ownerOf(d.event); !owner.IsZero() {
		t.send(d.to, owner.Ref, ChildEnded{Child: d.to, N: owner.N, Outcome: ChildRefused, Reason: r.Reason, Limited: limited})
	} else if limited {
		return t.announceRefused(d, r, res)
	}
	return nil
}
