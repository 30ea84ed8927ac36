package core_test

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

// digestAfter gives what events make of a digest, each applied as soon as it is due, or a second after
// the one before.
func digestAfter(events ...core.DigestEvent) core.Digest {
	d, now := core.Digest{}, start
	for i, e := range events {
		now = now.Add(time.Second)
		if _, due := e.(core.DigestDue); due {
			now = max(now, d.Deadline())
		}
		d, _ = d.Apply(e, core.Clock{Now: now, Step: uint64(i)})
	}
	return d
}

func tellLate(name string) core.DigestTell {
	return core.DigestTell{Kind: core.AlertLate, Schedule: watchedSchedule, Tenant: "tenant-1", Name: name, Since: start, Reason: "its time <…> has not begun"}
}

func digestStates() []core.State {
	cleared, ops := tellLate("nightly"), tellLate("weekly")
	cleared.Cleared = true
	ops.Channel = "ops"
	before := cleared
	before.Kind, before.Channel = core.AlertFailing, "ops"
	return []core.State{
		digestAfter(tellLate("nightly"), cleared, tellLate("weekly")), digestAfter(ops, core.DigestDue{}),
		digestAfter(before, core.DigestDue{}, core.EffectFailed{N: 1, Reason: "HTTP <503>"}), digestAfter(ops, core.DigestDue{}, core.EffectDone{N: 1}), digestAfter(tellLate("nightly"), core.DigestDue{}),
		digestAfter(ops, core.DigestDue{}, core.EffectFailed{N: 1, Reason: "no such channel", Permanent: true}),
	}
}

func digestEvents() []core.Event {
	full := tellLate("nightly")
	full.Channel, full.Cleared, full.Namespace, full.Step = "ops", true, "dev", 7
	return []core.Event{
		tellLate("weekly"), full, core.DigestDue{}, core.EffectDone{N: 1, Result: []byte(`{"channel":"ops"}`)}, core.EffectFailed{N: 1, Reason: "HTTP 503"},
		core.EffectInterrupted{N: 1, Reason: core.ReasonRecovered}, core.EffectHandedBack{N: 1},
	}
}

func drawDigestEvent(t *rapid.T, s core.State, _ core.Clock) core.Event {
	d := s.(core.Digest)
	n := rapid.SampledFrom([]uint32{d.Pending.Last, d.Pending.Last, d.Pending.Last, 0, 1}).Draw(t, "n")
	switch rapid.SampledFrom([]string{"tell", "tell", "tell", "due", "due", "due", "done", "failed", "failed", "interrupted", "handed_back"}).Draw(t, "event") {
	case "due":
		return core.DigestDue{}
	case "done":
		return core.EffectDone{N: n}
	case "failed":
		return core.EffectFailed{N: n, Reason: drawText(t, "reason"), Permanent: rapid.IntRange(0, 5).Draw(t, "permanent") == 0}
	case "interrupted":
		return core.EffectInterrupted{N: n, Reason: drawText(t, "reason")}
	case "handed_back":
		return core.EffectHandedBack{N: n}
	}
	e := tellLate(rapid.SampledFrom([]string{"nightly", "weekly"}).Draw(t, "name"))
	e.Kind = rapid.SampledFrom(append(core.AlertKinds(), core.AlertLate, core.AlertLate, "odd")).Draw(t, "kind")
	e.Cleared, e.Step = rapid.Bool().Draw(t, "cleared"), rapid.Uint64Range(0, 3).Draw(t, "step")
	if rapid.IntRange(0, 4).Draw(t, "other tenant") == 0 {
		e.Tenant = fmt.Sprint("tenant-", rapid.IntRange(1, 3).Draw(t, "tenant"))
	}
	e.Channel = d.Channel
	if !exists(d) && rapid.IntRange(0, 3).Draw(t, "channel") > 0 || rapid.IntRange(0, 19).Draw(t, "other channel") == 0 {
		e.Channel = "ops"
	}
	return e
}

func hostileDigest(t *rapid.T) core.State {
	c := core.Clock{Now: start}
	count := rapid.SampledFrom([]uint64{0, 1, math.MaxUint64})
	d := core.Digest{
		ID: rapid.SampledFrom([]uuid.UUID{uuid.Nil, core.DigestRef("").ID, id(3)}).Draw(t, "id"), Channel: rapid.SampledFrom([]string{"", "ops"}).Draw(t, "channel"), Since: drawTime(t, c), ToldAt: drawTime(t, c), Over: count.Draw(t, "over"),
		Raised: core.DigestList{Counts: core.AlertCounts{Late: count.Draw(t, "late"), Slow: count.Draw(t, "slow")}}, Cleared: core.DigestList{Counts: core.AlertCounts{Stale: count.Draw(t, "stale")}},
		Sent: count.Draw(t, "sent"), Lost: count.Draw(t, "lost"), CreatedAt: drawTime(t, c), UpdatedAt: drawTime(t, c),
		Message: maybe(t, "message", func() core.DigestMessage {
			return core.DigestMessage{Title: drawText(t, "title"), BegunAt: drawTime(t, c), Tries: rapid.SampledFrom([]uint32{0, math.MaxUint32}).Draw(t, "tries"), RetryAt: drawTime(t, c)}
		}),
	}
	if rapid.Bool().Draw(t, "pending") {
		d.Pending = core.PendingEffects{Last: 1, Open: []core.PendingEffect{{Effect: effects.Notify{N: 1, Title: "t"}}}}
	}
	return d
}

var _ = register(core.KindDigest, kit{
	typ: "Digest", absent: core.Digest{}, apply: applying(core.Digest.Apply),
	made: func() core.State { return digestAfter(tellLate("nightly")) }, hostile: hostileDigest, draw: drawDigestEvent, own: core.DigestDue{},
	states: digestStates, events: digestEvents,
	phase: func(s core.State) string {
		switch d := s.(core.Digest); {
		case len(d.Pending.Open) > 0:
			return "sending"
		case d.Message != nil:
			return "waiting"
		case d.Since.IsZero():
			return "idle"
		}
		return "gathering"
	},
	phases: []string{"absent", "gathering", "sending", "waiting", "idle"},
	invariants: []invariant{
		on("Something is to be told if and only if Since says since when.", func(_ step, _, a core.Digest) string {
			n := a.Raised.Counts.Total() + a.Cleared.Counts.Total()
			return unless((n > 0) == !a.Since.IsZero() && a.Over <= a.Raised.Counts.Total(), "%d since %s, %d over", n, a.Since, a.Over)
		}),
		on("Only the first ones have names, and of each tenant that is told apart one; all are counted.", func(s step, b, a core.Digest) string {
			for _, l := range []core.DigestList{a.Raised, a.Cleared} {
				if n := uint64(len(l.First)); n < min(l.Counts.Total(), core.MaxDigestNames) || n > core.MaxDigestNames+uint64(len(l.Tenants)) {
					return fmt.Sprintf("%d names of %s", len(l.First), l.Counts)
				}
				sum := uint64(0)
				for _, of := range l.Tenants {
					sum += of.Counts.Total()
					if of.Over > of.Counts.Total() || !slices.ContainsFunc(l.First, func(e core.DigestEntry) bool { return e.Namespace == of.Namespace && e.Tenant == of.Tenant }) {
						return fmt.Sprintf("%+v has no name, or more are over than there are", of)
					}
				}
				if len(l.Tenants) > core.MaxDigestTenants || sum > l.Counts.Total() || sum < l.Counts.Total() && len(l.Tenants) < core.MaxDigestTenants {
					return fmt.Sprintf("%d of %d tenants are counted of %s", sum, len(l.Tenants), l.Counts)
				}
			}
			all := func(d core.Digest) uint64 { return d.Raised.Counts.Total() + d.Cleared.Counts.Total() + d.Over }
			_, tells := s.event.(core.DigestTell)
			return unless(!tells || refusal(s.effs) != nil || all(a) == all(b)+1, "%d → %d", all(b), all(a))
		}),
		on("Only a due event announces what has gathered, not sooner than DigestWaitMS after the first of it, and with it asks for one message if it has a channel.", func(s step, b, a core.Digest) string {
			said := s.announced("alert:raised") + s.announced("alert:cleared")
			_, due := s.event.(core.DigestDue)
			notices := 0
			for _, e := range s.effs {
				if _, ok := e.(effects.Notify); ok {
					notices++
				}
			}
			want := 0
			if b.Channel != "" {
				want = 1
			}
			ok := said == 0 || due && notices == want && a.Since.IsZero() && s.clock.Now >= b.Since.Add(core.DigestWaitMS*time.Millisecond)
			return unless(ok, "%d announced by %s of what has gathered since %s", said, s.event.EventType(), b.Since)
		}),
		on("At most one message is under way or waits to be sent again, and nothing is asked for meanwhile.", func(_ step, _, a core.Digest) string {
			under := len(a.Pending.Open)
			ok := under == 0 && (a.Message == nil || !a.Message.RetryAt.IsZero()) || under == 1 && a.Message != nil && a.Message.RetryAt.IsZero() && a.Deadline().IsZero()
			return unless(ok, "%d under way, message %+v", under, a.Message)
		}),
	},
})
