package core_test

import (
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

var _ = register(core.KindBackfill, kit{
	typ: "Backfill", absent: core.Backfill{}, apply: applying(core.Backfill.Apply),
	made: func() core.State { return madeBackfill(backfillOf(3)) }, hostile: hostileBackfill, draw: drawBackfillEvent, own: core.BackfillDue{},
	states: backfillStates, events: backfillEvents,
	phase:  func(s core.State) string { return string(s.(core.Backfill).Status) },
	phases: []string{"absent", "running", "completed", "cancelled"},
	invariants: []invariant{
		on("Only a due event of a running one dispatches, and one time at most: the next one.", func(s step, b, _ core.Backfill) string {
			sent := sends[core.BackfillTime](s)
			if len(sent) == 0 {
				return ""
			}
			_, due := s.event.(core.BackfillDue)
			next := core.BackfillTime{At: b.Times[b.Next], Owner: core.Owner{Ref: b.Ref(), N: b.Next + 1}}
			return unless(due && b.Status == core.BackfillRunning && len(sent) == 1 && sent[0] == next, "%s of a %s one dispatches %+v", s.event.EventType(), b.Status, sent)
		}),
		on("Each time is dispatched at most once, in order, unless a limit has refused it.", func(s step, b, a core.Backfill) string {
			if !exists(b) || !exists(a) {
				return ""
			}
			ended, _ := s.event.(core.ChildEnded)
			back := ended.Limited && ended.Outcome == core.ChildRefused && a.Next == b.Next-1 && b.Next == ended.N
			forth := a.Next == b.Next || a.Next == b.Next+1 && s.event.EventType() == "due"
			return unless(back || forth, "next %d → %d by %+v", b.Next, a.Next, s.event)
		}),
		on("Never more than MaxActive times are under way.", func(_ step, _, a core.Backfill) string {
			return unless(len(a.Active) <= int(a.MaxActive), "%d of %d", len(a.Active), a.MaxActive)
		}),
		on("Between two times that have started there are at least SpacingSeconds, unless the clock was set back between them.", func(s step, b, a core.Backfill) string {
			spaced := s.clock.Now.Add(time.Duration(b.SpacingSeconds) * time.Second)
			if len(sends[core.BackfillTime](s)) > 0 {
				return unless(s.clock.Now >= b.NextAt && a.NextAt == spaced, "at %s, next %s → %s", s.clock.Now, b.NextAt, a.NextAt)
			}
			e, ends := s.event.(core.ChildEnded) // which may be one of a time that has not started
			sooner := exists(a) && a.NextAt < b.NextAt && (!ends || e.Outcome != core.ChildRefused)
			return unless(!sooner || a.NextAt == spaced, "at %s, next %s → %s", s.clock.Now, b.NextAt, a.NextAt)
		}),
		on("Each time before Next is under way or counted by its outcome, once.", func(_ step, _, a core.Backfill) string {
			n := a.Counts
			told := uint64(len(a.Active)) + n.Succeeded + n.Failed + n.Cancelled + n.Refused
			distinct := map[uint32]bool{}
			for _, r := range a.Active {
				distinct[r.N] = true
				if r.N == 0 || r.N > a.Next || a.Times[r.N-1] != r.At {
					return fmt.Sprintf("time %d is under way at %s", r.N, r.At)
				}
			}
			return unless(told == uint64(a.Next) && len(distinct) == len(a.Active), "%+v and %v of %d", n, a.Active, a.Next)
		}),
		on("It is completed when all of its times have been told, and not before.", func(_ step, _, a core.Backfill) string {
			told := int(a.Next) == len(a.Times) && len(a.Active) == 0
			return unless(!exists(a) || a.Status == core.BackfillCancelled || told == (a.Status == core.BackfillCompleted), "%s with %d of %d and %v", a.Status, a.Next, len(a.Times), a.Active)
		}),
		on("One that has ended stays so, but for expire and for what was under way.", func(s step, b, a core.Backfill) string {
			if !b.Status.Ended() || s.event.EventType() == "expire" {
				return ""
			}
			same := a.Status == b.Status && a.Next == b.Next && a.FinishedAt == b.FinishedAt
			told := s.event.EventType() == "child_ended" && len(a.Active) == len(b.Active)-1
			return unless(same && (told || encoded(a) == encoded(b)), "%s → %s", encoded(b), encoded(a))
		}),
		on("The end is announced once.", func(s step, b, a core.Backfill) string {
			want := 0
			if a.Status.Ended() && !b.Status.Ended() {
				want = 1
			}
			got := s.announced("scheduler:backfill_completed") + s.announced("scheduler:backfill_cancelled")
			return unless(got == want, "%d, want %d", got, want)
		}),
		on("Once created, the spec never changes.", func(_ step, b, a core.Backfill) string {
			was, is := fieldsOf(b.BackfillSpec), fieldsOf(a.BackfillSpec)
			return unless(!exists(b) || !exists(a) || was == is, "%s → %s", was, is)
		}),
	},
})

// backfillOf is a backfill of that many minutes.
func backfillOf(times int) core.BackfillSpec {
	s := core.BackfillSpec{
		ID: id(7), Namespace: "dev", Tenant: "tenant-1", Schedule: effects.Ref{Kind: core.KindRecurring, ID: id(1)}, Name: "<nightly>",
		From: start.Add(-100 * time.Minute), To: start, MaxActive: 2, Reason: "lost <times>", By: "api:ann", AlreadyDispatched: 4,
	}
	for i := range times {
		s.Times = append(s.Times, s.From.Add(time.Duration(i)*time.Minute))
	}
	return s
}

func madeBackfill(spec core.BackfillSpec, events ...core.BackfillEvent) core.Backfill {
	b, _ := core.Backfill{}.Apply(core.BackfillCreate{Spec: spec}, core.Clock{Now: start})
	return afterEvents(core.Backfill.Apply, b, events...)
}

func backfillStates() []core.State {
	ran := effects.Ref{Kind: core.KindAction, ID: id(3)}
	begun := []core.BackfillEvent{core.BackfillDue{}, core.BackfillDue{}, core.ChildEnded{Child: ran, N: 1, Outcome: core.ChildFailed, Reason: "exit <1>"}}
	job := backfillOf(1)
	job.Schedule.Kind, job.SpacingSeconds = core.KindJob, 30
	return []core.State{
		madeBackfill(backfillOf(3)), madeBackfill(backfillOf(3), begun...), madeBackfill(backfillOf(0)),
		madeBackfill(backfillOf(3), append(begun[:3:3], core.BackfillCancel{Reason: "not needed"})...),
		madeBackfill(job, core.BackfillDue{}, core.ChildEnded{Child: ran, N: 1, Outcome: core.ChildSucceeded}),
		madeBackfill(job, core.BackfillDue{Refusal: "the tenant has as many", Limited: true}),
	}
}

func backfillEvents() []core.Event {
	return []core.Event{
		core.BackfillCreate{Spec: backfillOf(2)}, core.BackfillDue{}, core.BackfillDue{Refusal: "no <key>", Limited: true},
		core.BackfillCancel{Reason: "<late>"}, core.BackfillExpire{},
		core.ChildEnded{Child: effects.Ref{Kind: core.KindAction, ID: id(3)}, N: 1, Outcome: core.ChildRefused, Reason: "no", Limited: true},
	}
}

func drawBackfillSpec(t *rapid.T) core.BackfillSpec {
	s := backfillOf(rapid.SampledFrom([]int{0, 1, 2, 5, 5, 9}).Draw(t, "times"))
	s.MaxActive = rapid.SampledFrom([]uint32{0, 1, 2, 3}).Draw(t, "max_active")
	s.SpacingSeconds = rapid.SampledFrom([]int64{0, 0, 1, 30}).Draw(t, "spacing_seconds")
	if rapid.IntRange(0, 9).Draw(t, "odd") == 0 {
		rapid.SampledFrom([]func(){
			func() { s.ID = uuid.Nil },
			func() { s.Schedule.Kind = core.KindAction },
			func() { s.To = s.From },
			func() { s.MaxActive = core.MaxBackfillActive + 1 },
			func() { s.SpacingSeconds = -1 },
			func() { s.Times = append(s.Times, s.To) },
			func() { s.Times = append(s.Times, s.From) },
			func() { s.Times = make([]core.Time, core.MaxBackfillTimes+1) },
			func() { s.Name = "\xff" },
		}).Draw(t, "oddity")()
	}
	return s
}

func drawBackfillEvent(t *rapid.T, state core.State, _ core.Clock) core.Event {
	b := state.(core.Backfill)
	if !exists(b) && rapid.IntRange(0, 9).Draw(t, "make") > 0 {
		return core.BackfillCreate{Spec: drawBackfillSpec(t)}
	}
	switch rapid.SampledFrom([]string{"due", "due", "due", "due", "refused", "ended", "ended", "ended", "ended", "cancel", "expire", "create"}).Draw(t, "event") {
	case "due":
		return core.BackfillDue{}
	case "refused":
		return core.BackfillDue{Refusal: drawText(t, "refusal"), Limited: rapid.Bool().Draw(t, "limited")}
	case "ended":
		numbers := []uint32{0, b.Next, 1<<32 - 1}
		for _, r := range b.Active {
			numbers = append(numbers, r.N, r.N, r.N)
		}
		return core.ChildEnded{
			Child: effects.Ref{Kind: core.KindAction, ID: id(3)}, N: rapid.SampledFrom(numbers).Draw(t, "n"),
			Outcome: rapid.SampledFrom([]core.ChildOutcome{core.ChildSucceeded, core.ChildSucceeded, core.ChildFailed, core.ChildCancelled, core.ChildRefused, core.ChildRefused, "lost"}).Draw(t, "outcome"),
			Reason:  drawText(t, "reason"), Limited: rapid.Bool().Draw(t, "limited"),
		}
	case "cancel":
		if rapid.IntRange(0, 3).Draw(t, "cancelled") > 0 {
			return core.BackfillDue{}
		}
		return core.BackfillCancel{Reason: drawText(t, "reason")}
	case "expire":
		return core.BackfillExpire{}
	}
	return core.BackfillCreate{Spec: drawBackfillSpec(t)}
}

func hostileBackfill(t *rapid.T) core.State {
	c := core.Clock{Now: start}
	b := core.Backfill{
		BackfillSpec: drawBackfillSpec(t), Status: rapid.SampledFrom([]core.BackfillStatus{"", "odd", core.BackfillRunning, core.BackfillRunning, core.BackfillCompleted, core.BackfillCancelled}).Draw(t, "status"),
		Next: rapid.SampledFrom([]uint32{0, 1, 4, 1<<32 - 1}).Draw(t, "next"), NextAt: drawTime(t, c), CreatedAt: drawTime(t, c), FinishedAt: drawTime(t, c),
		Counts: core.BackfillCounts{Failed: rapid.SampledFrom([]uint64{0, 1<<64 - 1}).Draw(t, "failed"), Refused: rapid.SampledFrom([]uint64{0, 1<<64 - 1}).Draw(t, "refused")},
	}
	for range rapid.IntRange(0, 3).Draw(t, "active") {
		b.Active = append(slices.Clip(b.Active), core.BackfillRun{N: rapid.SampledFrom([]uint32{0, 1, b.Next}).Draw(t, "n"), At: drawTime(t, c), StartedAt: drawTime(t, c)})
	}
	return b
}
