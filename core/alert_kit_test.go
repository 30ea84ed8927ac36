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

var (
	watchedSchedule = effects.Ref{Kind: core.KindRecurring, ID: id(1)}
	allAlerts       = core.AlertRules{LateSeconds: 600, Missed: true, StaleSeconds: 26 * 3600, Failing: 3, SlowSeconds: 7200, SlowFactor: 3_000_000, Channel: "ops"}
)

// watch is how a schedule that is to begin at a time says so.
func watch(rules core.AlertRules, expected core.Time) core.AlertWatch {
	return core.AlertWatch{Schedule: watchedSchedule, Namespace: "dev", Tenant: "tenant-1", Name: "nightly", Rules: rules, View: core.AlertView{ExpectedAt: expected, MadeAt: start}}
}

// alertAfter gives what events make of an alert, each a second after the one before.
func alertAfter(events ...core.AlertEvent) core.Alert {
	a := core.Alert{}
	for i, e := range events {
		a, _ = a.Apply(e, core.Clock{Now: start.Add(time.Duration(i) * time.Second), Step: uint64(i)})
	}
	return a
}

func failedNews() core.AlertNews {
	return core.AlertNews{Outcome: core.ChildFailed, Child: id(7), Reason: "exit <1>", RanMS: 1500}
}

func alertStates() []core.State {
	failing, slow := watch(core.AlertRules{Failing: 1}, start.Add(time.Hour)), watch(allAlerts, 0)
	failing.News = failedNews()
	slow.View = core.AlertView{MadeAt: start, SuccessAt: start, UsualMS: 500, RunsSince: start, Runs: id(8)}
	slow.News = core.AlertNews{Missed: 2, MissedFrom: start, MissedUntil: start.Add(time.Hour), MissedReason: "the daemon was away", DecidedAt: start}
	resting := watch(allAlerts, 0)
	resting.View.Resting = "paused by ann"
	job := watch(allAlerts, start.Add(time.Hour))
	job.Schedule = core.JobRef("dev", "tenant-1", "backup")
	return []core.State{
		alertAfter(watch(allAlerts, start.Add(time.Hour))), alertAfter(failing, core.AlertSilence{Until: start.Add(time.Hour), By: "ann", Reason: "<known>"}),
		alertAfter(watch(allAlerts, start), slow), alertAfter(resting, watch(allAlerts, start.Add(time.Hour))), alertAfter(job),
	}
}

func alertEvents() []core.Event {
	news := watch(allAlerts, start)
	news.News = core.AlertNews{
		DecidedAt: start, Missed: 2, MissedFrom: start, MissedUntil: start.Add(time.Hour), MissedReason: "<away>", Dispatched: true,
		Outcome: core.ChildFailed, Child: id(7), Reason: "exit <1>", RanMS: 1500,
	}
	news.View = core.AlertView{Resting: "paused", ExpectedAt: start, RunsSince: start, Runs: id(8), SuccessAt: start, MadeAt: start, UsualMS: 9}
	return []core.Event{
		watch(core.AlertRules{Missed: true}, 0), news, core.AlertForget{}, core.AlertForget{Reason: "deleted"}, core.AlertDue{},
		core.AlertSilence{Until: start.Add(time.Hour)}, core.AlertSilence{Until: start.Add(time.Hour), By: "ann", Reason: "<known>"}, core.AlertUnsilence{},
	}
}

func drawAlertRules(t *rapid.T) core.AlertRules {
	seconds := func(label string) int64 {
		return rapid.SampledFrom([]int64{0, 0, 1, 60, 3600, 86_400}).Draw(t, label)
	}
	r := core.AlertRules{
		LateSeconds: seconds("late"), StaleSeconds: seconds("stale"), SlowSeconds: seconds("slow"), Missed: rapid.Bool().Draw(t, "missed"),
		Failing: rapid.SampledFrom([]uint32{0, 1, 2, 3}).Draw(t, "failing"), SlowFactor: rapid.SampledFrom([]core.Multiplier{0, 0, 1_500_000, 3_000_000}).Draw(t, "factor"),
	}
	if rapid.IntRange(0, 3).Draw(t, "channel?") == 0 {
		r.Channel = "ops"
	}
	if rapid.IntRange(0, 19).Draw(t, "odd rules") == 0 {
		r.LateSeconds, r.SlowFactor = -1, 1
	}
	return r
}

// drawMoment gives an instant around now, or none.
func drawMoment(t *rapid.T, c core.Clock, label string) core.Time {
	ms := rapid.SampledFrom([]int64{0, 0, -1, 1, -1000, 1000, -60_000, 60_000, -3_600_000, 3_600_000, -90_000_000, 90_000_000}).Draw(t, label)
	if ms == 0 {
		return 0
	}
	return max(c.Now.Add(time.Duration(ms)*time.Millisecond), effects.MinTime)
}

func drawAlertWatch(t *rapid.T, a core.Alert, c core.Clock) core.AlertWatch {
	e := watch(drawAlertRules(t), drawMoment(t, c, "expected"))
	if exists(a) && rapid.IntRange(0, 3).Draw(t, "same rules") > 0 {
		e.Rules = a.Rules
	}
	if rapid.IntRange(0, 19).Draw(t, "other") == 0 {
		e.Schedule.ID, e.Tenant = drawID(t, "schedule"), drawName(t, "tenant")
	}
	e.Name = rapid.SampledFrom([]string{"nightly", "nightly", "weekly", ""}).Draw(t, "name")
	e.View.SuccessAt, e.View.RunsSince, e.View.Runs = drawMoment(t, c, "success"), drawMoment(t, c, "runs"), id(8)
	e.View.UsualMS = rapid.SampledFrom([]int64{0, 0, 1, 60_000, math.MaxInt64}).Draw(t, "usual")
	if rapid.IntRange(0, 4).Draw(t, "rests") == 0 {
		e.View.Resting = "paused"
	}
	if rapid.Bool().Draw(t, "news") {
		e.News = core.AlertNews{
			DecidedAt: drawMoment(t, c, "decided"), Dispatched: rapid.Bool().Draw(t, "dispatched"), Missed: rapid.SampledFrom([]uint64{0, 0, 1, 7}).Draw(t, "missed"),
			MissedFrom: drawMoment(t, c, "first"), MissedUntil: drawMoment(t, c, "last"), MissedReason: "away",
			Outcome: rapid.SampledFrom([]core.ChildOutcome{"", core.ChildSucceeded, core.ChildFailed, core.ChildFailed, core.ChildFailed, core.ChildCancelled}).Draw(t, "outcome"),
			Child:   id(7), Reason: "exit 1", RanMS: rapid.SampledFrom([]int64{0, 1, 60_000, math.MaxInt64}).Draw(t, "ran"),
		}
	}
	return e
}

func drawAlertEvent(t *rapid.T, s core.State, c core.Clock) core.Event {
	a := s.(core.Alert)
	if !exists(a) && rapid.IntRange(0, 9).Draw(t, "make") > 0 {
		return drawAlertWatch(t, a, c)
	}
	switch rapid.SampledFrom([]string{"watch", "watch", "watch", "watch", "due", "due", "due", "silence", "unsilence", "forget"}).Draw(t, "event") {
	case "due":
		return core.AlertDue{}
	case "silence":
		return core.AlertSilence{Until: drawMoment(t, c, "until"), By: drawText(t, "by"), Reason: drawText(t, "reason")}
	case "unsilence":
		return core.AlertUnsilence{}
	case "forget":
		if rapid.Bool().Draw(t, "really") {
			return core.AlertForget{Reason: "deleted"}
		}
	}
	return drawAlertWatch(t, a, c)
}

func hostileAlert(t *rapid.T) core.State {
	c := core.Clock{Now: start}
	a := core.Alert{
		ID: rapid.SampledFrom([]uuid.UUID{uuid.Nil, core.AlertRef(watchedSchedule).ID, id(3)}).Draw(t, "id"), Schedule: watchedSchedule, Tenant: drawText(t, "tenant"), Name: drawText(t, "name"),
		Rules: drawAlertRules(t), Failures: rapid.SampledFrom([]uint32{0, 2, math.MaxUint32}).Draw(t, "failures"), RestedAt: drawTime(t, c), CreatedAt: drawTime(t, c), UpdatedAt: drawTime(t, c),
		Silenced: core.Silence{Until: drawTime(t, c), Since: drawTime(t, c)}, Raised: core.AlertCounts{Late: rapid.SampledFrom([]uint64{0, math.MaxUint64}).Draw(t, "raised")},
		View: core.AlertView{ExpectedAt: drawTime(t, c), RunsSince: drawTime(t, c), SuccessAt: drawTime(t, c), MadeAt: drawTime(t, c), UsualMS: rapid.SampledFrom([]int64{-1, math.MaxInt64}).Draw(t, "usual")},
	}
	for range rapid.IntRange(0, 3).Draw(t, "open") {
		a.Open = append(slices.Clip(a.Open), core.OpenAlert{Kind: rapid.SampledFrom([]core.AlertKind{"", "odd", core.AlertLate, core.AlertSlow}).Draw(t, "kind"), Told: rapid.Bool().Draw(t, "told")})
	}
	return a
}

// openKinds lists the kinds of the alerts that are open.
func openKinds(a core.Alert) (kinds []core.AlertKind) {
	for _, o := range a.Open {
		kinds = append(kinds, o.Kind)
	}
	return kinds
}

// hasRule reports whether there is a rule about alerts of that kind.
func hasRule(r core.AlertRules, kind core.AlertKind) bool {
	return map[core.AlertKind]bool{
		core.AlertLate: r.LateSeconds > 0, core.AlertMissed: r.Missed, core.AlertStale: r.StaleSeconds > 0, core.AlertFailing: r.Failing > 0, core.AlertSlow: r.SlowSeconds > 0 || r.SlowFactor > 0,
	}[kind]
}

var _ = register(core.KindAlert, kit{
	typ: "Alert", absent: core.Alert{}, apply: applying(core.Alert.Apply),
	made: func() core.State { return alertAfter(watch(allAlerts, start.Add(time.Hour))) }, hostile: hostileAlert, draw: drawAlertEvent, own: core.AlertUnsilence{},
	states: alertStates, events: alertEvents,
	phase: func(s core.State) string { return s.(core.Alert).Status() }, phases: []string{"absent", core.AlertQuiet, core.AlertOpen},
	invariants: []invariant{
		on("Of each kind at most one alert is open, in the order of the kinds, and only of kinds that have a rule.", func(_ step, _, a core.Alert) string {
			open, all := openKinds(a), core.AlertKinds()
			want := slices.DeleteFunc(slices.Clone(all), func(k core.AlertKind) bool { return !slices.Contains(open, k) || !hasRule(a.Rules, k) })
			return unless(slices.Equal(open, want), "%v by %+v", open, a.Rules)
		}),
		on("While the schedule rests nothing is open.", func(_ step, _, a core.Alert) string {
			return unless(a.View.Resting == "" || len(a.Open) == 0, "%s, and %v is open", a.View.Resting, openKinds(a))
		}),
		on("No transition leaves a deadline that has come.", func(s step, _, a core.Alert) string {
			at := a.Deadline()
			return unless(refusal(s.effs) != nil || at.IsZero() || at > s.clock.Now, "deadline %s at %s", at, s.clock.Now)
		}),
		on("Of each alert it is told once that it is raised, never while it is silenced, and once that it is cleared, if it was told that it is raised.", func(s step, b, a core.Alert) string {
			if refusal(s.effs) != nil {
				return ""
			}
			told := map[core.AlertKind]bool{}
			for _, o := range b.Open {
				told[o.Kind] = o.Told
			}
			for _, e := range sends[core.DigestTell](s) {
				if e.Cleared != told[e.Kind] {
					return fmt.Sprintf("told of %s (cleared: %t) once more", e.Kind, e.Cleared)
				}
				told[e.Kind] = !e.Cleared
			}
			for kind, told := range told { // order-free: what is wrong, whichever it is
				if told && !slices.Contains(openKinds(a), kind) {
					return fmt.Sprintf("%s is not told as cleared", kind)
				}
			}
			silenced := a.Silenced.Until > s.clock.Now
			if silenced && slices.ContainsFunc(sends[core.DigestTell](s), func(e core.DigestTell) bool { return !e.Cleared }) {
				return "told that it is raised while it is silenced"
			}
			for _, o := range a.Open {
				if o.Told != told[o.Kind] || !o.Told && !silenced {
					return fmt.Sprintf("%s is told: %t, want %t", o.Kind, o.Told, told[o.Kind])
				}
			}
			return ""
		}),
		on("The schedule that it watches, and its tenant, never change.", func(_ step, b, a core.Alert) string {
			same := a.ID == b.ID && a.Schedule == b.Schedule && a.Tenant == b.Tenant && a.Namespace == b.Namespace
			return unless(!exists(a) || !exists(b) || same, "%s → %s", b.Schedule, a.Schedule)
		}),
		on("Only a forget ends it.", func(s step, b, a core.Alert) string {
			_, forgets := s.event.(core.AlertForget)
			return unless(exists(a) || !exists(b) || forgets, "gone by %s", s.event.EventType())
		}),
	},
})
