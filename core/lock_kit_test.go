package core_test

import (
	"math"
	"slices"

	"pgregory.net/rapid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

// pipelineOwner is a pipeline of the tests that waits under number n.
func pipelineOwner(i int, n uint32) core.Owner {
	return core.Owner{Ref: effects.Ref{Kind: core.KindPipeline, ID: id(i)}, N: n}
}

// drawClaimant gives who asks: one of few, so that they meet, or an odd one.
func drawClaimant(t *rapid.T) (holder string, owner core.Owner) {
	switch rapid.IntRange(0, 20).Draw(t, "claimant") {
	case 0:
		return drawText(t, "holder"), core.Owner{}
	case 1:
		return "", core.Owner{Ref: effects.Ref{Kind: "odd", ID: id(1)}, N: 1}
	case 2:
		return "", core.Owner{N: 1}
	case 3, 4, 5, 6, 7, 8:
		return rapid.SampledFrom([]string{"ann", "bob"}).Draw(t, "holder"), core.Owner{}
	}
	owner = pipelineOwner(rapid.IntRange(1, 4).Draw(t, "owner"), uint32(rapid.IntRange(0, 2).Draw(t, "n")))
	return rapid.SampledFrom([]string{"", "phase merge"}).Draw(t, "holder"), owner
}

func drawTTL(t *rapid.T) int64 {
	return rapid.SampledFrom([]int64{0, 1, 1000, 60_000, 3_600_000, core.MaxLeaseMS, core.MaxLeaseMS + 1, -1, math.MaxInt64}).Draw(t, "ttl_ms")
}

func drawLockName(t *rapid.T) string {
	return rapid.SampledFrom([]string{"merge", "merge", "merge", "merge", "merge", "merge", "merge", "build", "", "\xff"}).Draw(t, "name")
}

func drawToken(t *rapid.T, held ...uint64) uint64 {
	return rapid.SampledFrom(append(slices.Clone(held), 0, 0, 1, math.MaxUint64)).Draw(t, "token")
}

func drawLockEvent(t *rapid.T, s core.State, _ core.Clock) core.Event {
	l := s.(core.Lock)
	holder, owner := drawClaimant(t)
	if l.Holder != "" && rapid.IntRange(0, 2).Draw(t, "the holder") == 0 {
		holder, owner = l.Holder, l.Owner
	}
	kinds := []string{"acquire", "acquire", "acquire", "acquire", "release", "release", "renew", "due", "due", "break"}
	switch rapid.SampledFrom(kinds).Draw(t, "event") {
	case "release":
		return core.LockRelease{Holder: holder, Owner: owner, Token: drawToken(t, l.Token), By: drawBy(t), Force: rapid.IntRange(0, 3).Draw(t, "force") == 0}
	case "renew":
		return core.LockRenew{Holder: holder, Owner: owner, Token: drawToken(t, l.Token), TTLMS: drawTTL(t), By: drawBy(t)}
	case "due":
		return core.LockDue{}
	case "break":
		return core.LockBreak{By: rapid.SampledFrom([]string{"", "ann", "\xff"}).Draw(t, "by"), Reason: drawText(t, "reason")}
	}
	return core.LockAcquire{Name: drawLockName(t), Tenant: "", Holder: holder, Owner: owner, TTLMS: drawTTL(t), By: drawBy(t)}
}

// drawBy draws who asks for a holder from outside.
func drawBy(t *rapid.T) string {
	return rapid.SampledFrom([]string{"", "", "api:ann", "api:bob"}).Draw(t, "by")
}

// forOther reports whether an event in the name of a holder from outside comes from somebody else
// than the one who has acquired it, and without force.
func forOther(event core.Event, holder string, owner core.Owner, by string) bool {
	other := func(h string, o core.Owner, b string) bool {
		return h == holder && o.IsZero() && owner.IsZero() && b != "" && by != "" && b != by
	}
	switch e := event.(type) {
	case core.LockAcquire:
		return other(e.Holder, e.Owner, e.By)
	case core.LockRenew:
		return other(e.Holder, e.Owner, e.By)
	case core.LockRelease:
		return other(e.Holder, e.Owner, e.By) && !e.Force
	case core.SemaphoreAcquire:
		return other(e.Holder, e.Owner, e.By)
	case core.SemaphoreRenew:
		return other(e.Holder, e.Owner, e.By)
	case core.SemaphoreRelease:
		return other(e.Holder, e.Owner, e.By) && !e.Force
	}
	return false
}

func hostileLock(t *rapid.T) core.State {
	c := core.Clock{Now: start}
	holder, owner := drawClaimant(t)
	l := core.Lock{
		ID: drawID(t, "id"), Name: drawText(t, "name"), Holder: holder, Owner: owner, Token: drawToken(t), TTLMS: drawTTL(t),
		Since: drawTime(t, c), Until: drawTime(t, c), CreatedAt: drawTime(t, c), ForgetAt: drawTime(t, c),
	}
	if rapid.Bool().Draw(t, "known") {
		l.ID = core.LockRef("", "", "merge").ID
	}
	for range rapid.IntRange(0, 3).Draw(t, "waiters") {
		holder, owner := drawClaimant(t)
		l.Waiters = append(l.Waiters, core.LockWaiter{Holder: holder, Owner: owner, TTLMS: drawTTL(t), Since: drawTime(t, c)})
	}
	return l
}

func lockStates() []core.State {
	c := core.Clock{Now: start, Step: 7 << 20}
	acquire := core.LockAcquire{Name: "merge", Namespace: "dev", Tenant: "tenant-1", Holder: "<ann>", TTLMS: 60_000}
	held, _ := core.Lock{}.Apply(acquire, c)
	acquire.Owner, acquire.TTLMS, acquire.Holder = pipelineOwner(1, 3), 0, ""
	contended, _ := held.Apply(acquire, c)
	passed, _ := contended.Apply(core.LockRelease{Holder: "<ann>"}, c)
	free, _ := passed.Apply(core.LockRelease{Owner: pipelineOwner(1, 3)}, c)
	return []core.State{held, contended, passed, free}
}

func lockEvents() []core.Event {
	return []core.Event{
		core.LockAcquire{Name: "merge", Namespace: "dev", Tenant: "tenant-1", Holder: "ann", TTLMS: 60_000},
		core.LockAcquire{Name: "merge", Owner: pipelineOwner(1, 3)},
		core.LockRelease{Holder: "ann"}, core.LockRelease{Owner: pipelineOwner(1, 3), Token: math.MaxUint64},
		core.LockRenew{Holder: "ann", Token: 7, TTLMS: 1000}, core.LockDue{}, core.LockBreak{By: "bob", Reason: "<stuck>"}, core.LockBreak{},
	}
}

func lockPhase(s core.State) string {
	if s.(core.Lock).Holder != "" {
		return "held"
	}
	return "free"
}

// announced counts what a step announces of one kind.
func (s step) announced(kind string) int {
	n := 0
	for _, e := range s.effs {
		if emit, ok := e.(effects.Emit); ok && emit.Event.Kind.String() == kind {
			n++
		}
	}
	return n
}

// grantee is what one must know of a grant, whoever gives it.
type grantee struct {
	Owner core.Owner
	Token uint64
	Until core.Time
}

// grants lists what the step tells owners of grants.
func (s step) grants() (out []grantee) {
	for _, e := range s.effs {
		if send, ok := e.(effects.Send); ok {
			if g, ok := send.Event.(core.Granted); ok {
				out = append(out, grantee{core.Owner{Ref: send.To, N: g.N}, g.Token, g.Until})
			}
		}
	}
	return out
}

// losers lists the owners that the step tells of a loss.
func (s step) losers() (out []core.Owner) {
	for _, e := range s.effs {
		if send, ok := e.(effects.Send); ok {
			if l, ok := send.Event.(core.Lost); ok {
				out = append(out, core.Owner{Ref: send.To, N: l.N})
			}
		}
	}
	return out
}

// notDueAgain holds for each machine that waits for its deadline.
func notDueAgain(s step) string {
	_, lock := s.event.(core.LockDue)
	_, semaphore := s.event.(core.SemaphoreDue)
	if !lock && !semaphore || refusal(s.effs) != nil {
		return ""
	}
	at := s.after.Deadline()
	return unless(at.IsZero() || at.After(s.clock.Now), "due at %s, at %s", at, s.clock.Now)
}

var _ = register(core.KindLock, kit{
	typ: "Lock", absent: core.Lock{}, apply: applying(core.Lock.Apply),
	made: func() core.State { return lockStates()[1] }, hostile: hostileLock, draw: drawLockEvent, own: core.LockBreak{},
	states: lockStates, events: lockEvents, phase: lockPhase, phases: []string{"absent", "free", "held"},
	invariants: []invariant{
		on("A lock has at most one holder, who changes only with a grant, a release, a lapse or a break.", func(s step, b, a core.Lock) string {
			ends := s.announced("lock:released") + s.announced("lock:expired") + s.announced("lock:broken")
			same := b.Holder == a.Holder && b.Owner == a.Owner && b.Token == a.Token && b.Since == a.Since
			return unless(b.Holder == "" || same == (ends == 0) && ends <= 1, "%s by %s → %s by %s with %d endings", b.Holder, b.Owner.Ref, a.Holder, a.Owner.Ref, ends)
		}),
		on("Each grant has a greater token than all before it, and renewing keeps it.", func(s step, b, a core.Lock) string {
			if s.announced("lock:acquired") == 0 {
				return unless(!exists(a) || a.Token == b.Token, "%d → %d without a grant", b.Token, a.Token)
			}
			return unless(a.Token > b.Token && a.Token >= s.clock.Step && a.Holder != "", "%d → %d in step %d", b.Token, a.Token, s.clock.Step)
		}),
		on("What somebody has acquired for a holder from outside nobody else renews, nor releases without force.", func(s step, b, a core.Lock) string {
			same := a.Holder == b.Holder && a.By == b.By && a.Token == b.Token && a.Until == b.Until && refusal(s.effs) != nil
			return unless(b.Holder == "" || !forOther(s.event, b.Holder, b.Owner, b.By) || same, "%+v by another one: %+v", s.event, a)
		}),
		on("Waiters are granted in the order in which they came.", func(s step, b, a core.Lock) string {
			if s.announced("lock:acquired") == 1 && len(b.Waiters) > 0 {
				first := b.Waiters[0]
				return unless(a.Owner == first.Owner && a.Since == s.clock.Now && slices.Equal(a.Waiters, b.Waiters[1:]) && a.TTLMS == first.TTLMS, "%v got it, not %v", a.Owner, first.Owner)
			}
			kept := 0
			for _, w := range b.Waiters {
				if kept < len(a.Waiters) && a.Waiters[kept] == w {
					kept++
				}
			}
			return unless(kept >= len(b.Waiters)-1 && len(a.Waiters) <= kept+1, "%v → %v", b.Waiters, a.Waiters)
		}),
		on("Nobody waits for a lock that is free, and at most MaxWaiters wait.", func(_ step, _, a core.Lock) string {
			return unless((a.Holder != "" || len(a.Waiters) == 0) && len(a.Waiters) <= core.MaxWaiters, "%d wait for %q", len(a.Waiters), a.Holder)
		}),
		on("Each grant is told once to its owner, and so is each loss that the owner did not ask for.", func(s step, b, a core.Lock) string {
			var grants []grantee
			if s.announced("lock:acquired") == 1 && !a.Owner.IsZero() {
				grants = []grantee{{a.Owner, a.Token, a.Until}}
			}
			var losers []core.Owner
			if s.announced("lock:expired")+s.announced("lock:broken") == 1 && !b.Owner.IsZero() {
				losers = []core.Owner{b.Owner}
			}
			return unless(slices.Equal(s.grants(), grants) && slices.Equal(s.losers(), losers), "told %v and %v, want %v and %v", s.grants(), s.losers(), grants, losers)
		}),
		{"A lock that is due is not due at that instant after its due event.", notDueAgain},
		on("A lock that nobody holds is gone, or its last token is not behind the logical time.", func(s step, _, a core.Lock) string {
			changed := refusal(s.effs) == nil
			return unless(!changed || !exists(a) || a.Holder != "" || a.Token >= s.clock.Step, "token %d at step %d", a.Token, s.clock.Step)
		}),
	},
})
