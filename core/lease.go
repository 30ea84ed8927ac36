package core

import (
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
)

// Limits of locks and semaphores.
const (
	MaxLeaseMS        = 30 * 24 * 60 * 60 * 1000 // the longest lease, in milliseconds
	MaxWaiters        = 1024                     // of one lock or semaphore
	MaxHolders        = 1024                     // of one semaphore
	MaxSemaphoreSlots = 1_000_000                // the largest total of a semaphore
)

// forgetAfterMS is how long a free lock or semaphore is kept where its last token
// is ahead of the logical time.
const forgetAfterMS = 60_000

// HeldTerm is the list term of locks, or semaphores, that somebody holds, or
// nobody.
func HeldTerm(held bool) string { return "held:" + strconv.FormatBool(held) }

// claimant is who asks for a lock: a machine by its number, or else a name.
type claimant struct {
	holder string
	owner  Owner
	by     string // who asks for a holder from outside; empty: nobody is compared with
	force  bool   // whoever has acquired it, by whichever token
}

// is reports whether both are the same. A machine is known by its owner alone.
func (c claimant) is(o claimant) bool {
	if c.owner.IsZero() && o.owner.IsZero() {
		return c.holder == o.holder
	}
	return c.owner == o.owner
}

// named gives the holder's name for the reader: its own, or its machine's.
func (c claimant) named() string {
	if c.holder == "" && !c.owner.IsZero() {
		return fmt.Sprintf("%s#%d", c.owner.Ref, c.owner.N)
	}
	return c.holder
}

func (c claimant) validate() error {
	if !c.owner.IsZero() && (zero(c.owner.Ref.Kind) == nil || c.owner.Ref.ID == uuid.Nil) {
		return fmt.Errorf("owner: %q is no machine: give a known kind and an id, or no owner", clip(c.owner.Ref.String()))
	}
	return checkName("holder", c.holder, c.owner.IsZero())
}

// String names the claimant in a refusal.
func (c claimant) String() string { return fmt.Sprintf("%q", clip(c.named())) }

func checkLockName(name, namespace, tenant string) error {
	return errors.Join(checkName("name", name, true), checkTenant("", namespace, tenant))
}

func checkTTL(ms int64) error {
	if ms < 0 || ms > MaxLeaseMS {
		return fmt.Errorf("ttl_ms: %d is not between 0 and %d; 0 means until it is released", ms, int64(MaxLeaseMS))
	}
	return nil
}

// leaseEnd is when a lease that begins now lapses; 0: never. At the end of time
// there is none, so that nothing is due for ever.
func leaseEnd(now Time, ms int64) Time {
	if ms <= 0 {
		return 0
	}
	if end := laterMS(now, min(ms, MaxLeaseMS)); end.After(now) {
		return end
	}
	return 0
}

// lapsed reports whether a lease has ended.
func lapsed(until Time, now Time) bool { return !until.IsZero() && !until.After(now) }

// leaseDeadline is the end of a lease as a deadline.
func leaseDeadline(until Time) Time {
	if until.IsZero() {
		return 0
	}
	return max(until, effects.MinTime)
}

// untilText ends the sentence "is held by X…".
func untilText(until Time) string {
	if until.IsZero() {
		return " until it is released"
	}
	return " until " + until.String()
}

// nextToken gives a fencing token that is greater than all before it: the logical
// time, or the successor of the last one where several are granted in one step.
func nextToken(last uint64, c Clock) uint64 {
	if last >= c.Step && last < math.MaxUint64 {
		return last + 1
	}
	return max(last, c.Step)
}

// forgettable reports whether every later grant will have a greater token even
// where nobody remembers the last one.
func forgettable(last uint64, c Clock) bool { return last < c.Step }

// granted tells a machine that it holds something; nobody where there is none.
func (o Owner) granted(name string, token uint64, until Time) []effects.Effect {
	if o.IsZero() {
		return nil
	}
	return []effects.Effect{effects.Send{To: o.Ref, Event: Granted{N: o.N, Name: name, Token: token, Until: until}}}
}

// lost tells a machine that it holds, or waits, no longer.
func (o Owner) lost(name, reason string) []effects.Effect {
	if o.IsZero() {
		return nil
	}
	return []effects.Effect{effects.Send{To: o.Ref, Event: Lost{N: o.N, Name: name, Reason: reason}}}
}

// brokenReason says who took something away, and why.
func brokenReason(by, reason string) string {
	s := "broken"
	if by != "" {
		s += " by " + by
	}
	if reason != "" {
		s += ": " + reason
	}
	return s
}
