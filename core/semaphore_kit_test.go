package core_test

import (
	"math"
	"slices"

	"pgregory.net/rapid"

	"github.com/orrery-go/orrery/core"
)

func drawSlots(t *rapid.T, label string) uint32 {
	return rapid.SampledFrom([]uint32{0, 1, 1, 2, 3, 3, 5, core.MaxSemaphoreSlots, core.MaxSemaphoreSlots + 1, math.MaxUint32}).Draw(t, label)
}

func drawSemaphoreEvent(t *rapid.T, s core.State, _ core.Clock) core.Event {
	sem := s.(core.Semaphore)
	if !exists(sem) && rapid.IntRange(0, 3).Draw(t, "declare") > 0 {
		return core.SemaphoreConfigure{Name: "build", Slots: rapid.SampledFrom([]uint32{1, 2, 3}).Draw(t, "total")}
	}
	holder, owner := drawClaimant(t)
	token := drawToken(t, sem.Token)
	if len(sem.Holders) > 0 && rapid.IntRange(0, 2).Draw(t, "a holder") == 0 {
		h := rapid.SampledFrom(sem.Holders).Draw(t, "which")
		holder, owner, token = h.Holder, h.Owner, drawToken(t, h.Token, h.Token)
	}
	name := rapid.SampledFrom([]string{"build", "build", "build", "build", "build", "build", "build", "merge", "", "\xff"}).Draw(t, "name")
	kinds := []string{"acquire", "acquire", "acquire", "acquire", "acquire", "release", "release", "release", "renew", "due", "due", "break", "configure"}
	switch rapid.SampledFrom(kinds).Draw(t, "event") {
	case "release":
		return core.SemaphoreRelease{Holder: holder, Owner: owner, Token: token, By: drawBy(t), Force: rapid.IntRange(0, 3).Draw(t, "force") == 0}
	case "renew":
		return core.SemaphoreRenew{Holder: holder, Owner: owner, Token: token, TTLMS: drawTTL(t), By: drawBy(t)}
	case "due":
		return core.SemaphoreDue{}
	case "break":
		return core.SemaphoreBreak{Token: token, By: rapid.SampledFrom([]string{"", "ann", "\xff"}).Draw(t, "by"), Reason: drawText(t, "reason")}
	case "configure":
		return core.SemaphoreConfigure{Name: name, Slots: drawSlots(t, "total")}
	}
	return core.SemaphoreAcquire{Name: name, Holder: holder, Owner: owner, Slots: drawSlots(t, "slots"), Total: rapid.SampledFrom([]uint32{0, 0, 3, math.MaxUint32}).Draw(t, "total"), TTLMS: drawTTL(t), By: drawBy(t)}
}

func hostileSemaphore(t *rapid.T) core.State {
	c := core.Clock{Now: start}
	s := core.Semaphore{
		ID: drawID(t, "id"), Name: drawText(t, "name"), Total: drawSlots(t, "total"), Configured: rapid.Bool().Draw(t, "configured"),
		Token: drawToken(t), CreatedAt: drawTime(t, c), ForgetAt: drawTime(t, c),
	}
	if rapid.Bool().Draw(t, "known") {
		s.ID = core.SemaphoreRef("", "", "build").ID
	}
	for range rapid.IntRange(0, 3).Draw(t, "holders") {
		holder, owner := drawClaimant(t)
		s.Holders = append(s.Holders, core.SemaphoreHolder{Holder: holder, Owner: owner, Slots: drawSlots(t, "slots"), Token: drawToken(t), TTLMS: drawTTL(t), Until: drawTime(t, c)})
	}
	for range rapid.IntRange(0, 3).Draw(t, "waiters") {
		holder, owner := drawClaimant(t)
		s.Waiters = append(s.Waiters, core.SemaphoreWaiter{Holder: holder, Owner: owner, Slots: drawSlots(t, "slots"), TTLMS: drawTTL(t)})
	}
	return s
}

func semaphoreStates() []core.State {
	c := core.Clock{Now: start, Step: 7 << 20}
	free, _ := core.Semaphore{}.Apply(core.SemaphoreConfigure{Name: "build", Namespace: "dev", Tenant: "tenant-1", Slots: 3}, c)
	acquire := core.SemaphoreAcquire{Name: "build", Namespace: "dev", Tenant: "tenant-1", Holder: "<ann>", Slots: 2, TTLMS: 60_000}
	held, _ := free.Apply(acquire, c)
	acquire.Owner, acquire.TTLMS, acquire.Holder = pipelineOwner(1, 3), 0, ""
	waited, _ := held.Apply(acquire, c)
	used, _ := core.Semaphore{}.Apply(core.SemaphoreAcquire{Name: "build", Holder: "ann", Total: 1}, c)
	left, _ := used.Apply(core.SemaphoreRelease{Holder: "ann"}, c)
	return []core.State{free, held, waited, used, left}
}

func semaphoreEvents() []core.Event {
	return []core.Event{
		core.SemaphoreConfigure{Name: "build", Namespace: "dev", Tenant: "tenant-1", Slots: 3},
		core.SemaphoreAcquire{Name: "build", Namespace: "dev", Tenant: "tenant-1", Holder: "ann", Slots: 2, Total: 3, TTLMS: 60_000},
		core.SemaphoreAcquire{Name: "build", Owner: pipelineOwner(1, 3)},
		core.SemaphoreRelease{Holder: "ann"}, core.SemaphoreRelease{Owner: pipelineOwner(1, 3), Token: math.MaxUint64},
		core.SemaphoreRenew{Holder: "ann", Token: 7, TTLMS: 1000}, core.SemaphoreDue{}, core.SemaphoreBreak{Token: 7, By: "bob", Reason: "<stuck>"}, core.SemaphoreBreak{},
	}
}

func semaphorePhase(s core.State) string {
	if s.(core.Semaphore).Total > 0 {
		return "declared"
	}
	return "undeclared"
}

// newHolders lists the holders that a step has added.
func newHolders(b, a core.Semaphore) (out []core.SemaphoreHolder) {
	for _, h := range a.Holders {
		if !slices.ContainsFunc(b.Holders, func(o core.SemaphoreHolder) bool { return o.Token == h.Token }) {
			out = append(out, h)
		}
	}
	return out
}

// goneHolders lists the holders that a step has taken away.
func goneHolders(b, a core.Semaphore) []core.SemaphoreHolder { return newHolders(a, b) }

var _ = register(core.KindSemaphore, kit{
	typ: "Semaphore", absent: core.Semaphore{}, apply: applying(core.Semaphore.Apply),
	made: func() core.State { return semaphoreStates()[2] }, hostile: hostileSemaphore, draw: drawSemaphoreEvent, own: core.SemaphoreBreak{},
	states: semaphoreStates, events: semaphoreEvents, phase: semaphorePhase, phases: []string{"absent", "undeclared", "declared"},
	invariants: []invariant{
		on("With each grant, the slots that are held are at most the total.", func(s step, b, a core.Semaphore) string {
			return unless(len(newHolders(b, a)) == 0 || a.Held() <= uint64(a.Total), "%d of %d", a.Held(), a.Total)
		}),
		on("Slots are taken from a holder only by a release, a lapse or a break.", func(s step, b, a core.Semaphore) string {
			ends := s.announced("semaphore:released") + s.announced("semaphore:expired") + s.announced("semaphore:broken")
			for _, h := range a.Holders {
				for _, o := range b.Holders {
					if o.Token == h.Token && (o.Slots != h.Slots || o.Owner != h.Owner || o.Holder != h.Holder || o.Since != h.Since) {
						return "a holder's slots changed"
					}
				}
			}
			return unless(len(goneHolders(b, a)) == ends, "%d gone, %d announced", len(goneHolders(b, a)), ends)
		}),
		on("Each grant has a greater token than all before it, and renewing keeps it.", func(s step, b, a core.Semaphore) string {
			last := b.Token
			for _, h := range newHolders(b, a) {
				if h.Token <= last || h.Token < s.clock.Step {
					return unless(false, "%d → %d in step %d", last, h.Token, s.clock.Step)
				}
				last = h.Token
			}
			return unless(!exists(a) || a.Token == last, "%d, and the last grant has %d", a.Token, last)
		}),
		on("What somebody has acquired for a holder from outside nobody else renews, nor releases without force.", func(s step, b, a core.Semaphore) string {
			for _, h := range b.Holders {
				if forOther(s.event, h.Holder, h.Owner, h.By) && (refusal(s.effs) == nil || !slices.Contains(a.Holders, h)) {
					return unless(false, "%+v by another one: %+v", s.event, a)
				}
			}
			return ""
		}),
		on("Waiters are granted in the order in which they came, and nobody passes them.", func(s step, b, a core.Semaphore) string {
			waited := slices.DeleteFunc(slices.Clone(b.Waiters), func(w core.SemaphoreWaiter) bool {
				if r, ok := s.event.(core.SemaphoreRelease); ok && r.Owner == w.Owner {
					return true
				}
				return slices.Contains(s.losers(), w.Owner) && w.Slots > a.Total
			})
			granted := newHolders(b, a)
			if _, ok := s.event.(core.SemaphoreAcquire); ok && len(granted) == 1 {
				return unless(len(b.Waiters) == 0, "%v passed %d", granted[0].Owner, len(b.Waiters))
			}
			for i, h := range granted {
				if i >= len(waited) || waited[i].Owner != h.Owner || waited[i].Slots != h.Slots {
					return unless(false, "%v was granted out of turn", h.Owner)
				}
			}
			rest := waited[len(granted):]
			return unless(len(a.Waiters) >= len(rest) && slices.Equal(a.Waiters[:len(rest)], rest) && len(a.Waiters) <= len(rest)+1, "%v → %v", b.Waiters, a.Waiters)
		}),
		on("The head of the line waits only for slots that are not free.", func(_ step, _, a core.Semaphore) string {
			return unless(len(a.Waiters) == 0 || len(a.Holders) >= core.MaxHolders || a.Held()+uint64(a.Waiters[0].Slots) > uint64(a.Total) && a.Waiters[0].Slots <= a.Total,
				"%d of %d are held, and one waits for %v", a.Held(), a.Total, a.Waiters)
		}),
		on("Each grant is told once to its owner, and so is each loss that the owner did not ask for.", func(s step, b, a core.Semaphore) string {
			var grants []grantee
			for _, h := range newHolders(b, a) {
				if !h.Owner.IsZero() {
					grants = append(grants, grantee{h.Owner, h.Token, h.Until})
				}
			}
			losers := []core.Owner(nil)
			if _, released := s.event.(core.SemaphoreRelease); !released {
				for _, h := range goneHolders(b, a) {
					if !h.Owner.IsZero() {
						losers = append(losers, h.Owner)
					}
				}
			}
			if _, ok := s.event.(core.SemaphoreConfigure); ok {
				for _, w := range b.Waiters {
					if w.Slots > a.Total && refusal(s.effs) == nil {
						losers = append(losers, w.Owner)
					}
				}
			}
			return unless(slices.Equal(s.grants(), grants) && slices.Equal(s.losers(), losers), "told %v and %v, want %v and %v", s.grants(), s.losers(), grants, losers)
		}),
		on("Nobody holds and waits, or either of them twice.", func(_ step, _, a core.Semaphore) string {
			type who struct {
				owner  core.Owner
				holder string
			}
			seen := map[who]bool{}
			one := func(w who) bool {
				if !w.owner.IsZero() {
					w.holder = ""
				}
				again := seen[w]
				seen[w] = true
				return again
			}
			for _, h := range a.Holders {
				if one(who{h.Owner, h.Holder}) {
					return "twice: " + h.Holder
				}
			}
			for _, w := range a.Waiters {
				if one(who{w.Owner, w.Holder}) {
					return "twice: " + w.Holder
				}
			}
			return unless(len(a.Holders) <= core.MaxHolders && len(a.Waiters) <= core.MaxWaiters, "%d and %d", len(a.Holders), len(a.Waiters))
		}),
		{"A semaphore that is due is not due at that instant after its due event.", notDueAgain},
		on("A semaphore that nobody uses is configured, gone, or its last token is not behind the logical time.", func(s step, _, a core.Semaphore) string {
			used := a.Configured || len(a.Holders)+len(a.Waiters) > 0
			return unless(refusal(s.effs) != nil || !exists(a) || used || a.Token >= s.clock.Step && a.Total == 0, "token %d at step %d", a.Token, s.clock.Step)
		}),
	},
})
