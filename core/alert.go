package core

import (
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/effects/texts"
)

// Alert watches one schedule, a recurring action or a job, by the rules that this has: it raises
// alerts and clears them by itself. It has timers of its own, so that it also raises one if nothing
// runs at all.
//
//	            watch of a schedule that has rules
//	(absent) ──────────────────────────────────────▶ quiet ◀──┐
//	    ▲                                             │ ▲     │ watch, due, silence, unsilence
//	    │                             a rule applies: │ └─────┘
//	    │                             watch, due      │ ▲
//	    │                                             ▼ │ none does any more: watch, due
//	    └──────────── forget ──────────────────────── open ◀──┐
//	                                                  └───────┘ watch, due, silence, unsilence
//
// What is raised and cleared goes to the [Digest] of the rules' channel, which tells it together with
// what other alerts have to say. While the alert is silenced it goes on watching, and tells of nothing
// that it raises; at the end of the silence it tells what is open. What was told as raised before is told
// as cleared also then, and at once: whoever was told believes that it is open, and looks. While the schedule is paused, or has ended, nothing is
// expected of it: what is open is cleared.
//
// Invariants, held by property tests:
//   - Of each kind at most one alert is open, in the order of the kinds, and only of kinds that have a
//     rule.
//   - While the schedule rests nothing is open.
//   - No transition leaves a deadline that has come.
//   - Of each alert it is told once that it is raised, never while it is silenced, and once that it is
//     cleared, if it was told that it is raised.
//   - The schedule that it watches, and its tenant, never change.
//   - Only a forget ends it.
type Alert struct {
	ID        uuid.UUID   `json:"id"`
	Namespace string      `json:"namespace"`
	Tenant    string      `json:"tenant"`
	Schedule  effects.Ref `json:"schedule"`
	Name      string      `json:"name"` // what people call the schedule, see [RecurringSpec.Title]; of a job its id
	Rules     AlertRules  `json:"rules"`
	View      AlertView   `json:"view"`
	Open      []OpenAlert `json:"open,omitempty"` // those that are raised, in the order of [AlertKinds]
	// Failures counts how many have failed in a row, and LastFailure is the last of them.
	Failures    uint32       `json:"failures,omitempty"`
	LastFailure AlertFailure `json:"last_failure,omitzero"`
	// RestedAt is when the schedule has last ceased to rest; zero: it has never rested.
	RestedAt  Time        `json:"rested_at,omitzero"`
	Silenced  Silence     `json:"silenced,omitzero"`
	Raised    AlertCounts `json:"raised"` // how many it has raised
	CreatedAt Time        `json:"created_at"`
	UpdatedAt Time        `json:"updated_at"`
}

// OpenAlert is an alert that is raised.
type OpenAlert struct {
	Kind   AlertKind `json:"kind"`
	Since  Time      `json:"since"` // when it was raised
	Reason string    `json:"reason"`
	// Told says that the digest was told, with the transition of which this is the [Clock]'s step; what
	// became of the digest's message, it does not say.
	Told bool   `json:"told,omitempty"`
	Step uint64 `json:"step,omitempty"`
}

// AlertFailure is how something failed.
type AlertFailure struct {
	At     Time      `json:"at"`
	Child  uuid.UUID `json:"child"` // the action or the run
	Reason string    `json:"reason"`
}

// Silence is a span in which an alert tells nothing; zero: it tells.
type Silence struct {
	Until  Time   `json:"until"`
	Since  Time   `json:"since"`
	By     string `json:"by,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// AlertRef names the alert of a schedule.
func AlertRef(schedule effects.Ref) effects.Ref {
	return effects.Ref{Kind: KindAlert, ID: namedID("alert", string(schedule.Kind), schedule.ID.String())}
}

// Statuses of an [Alert].
const (
	AlertOpen  = "open"  // one of its alerts at least is raised
	AlertQuiet = "quiet" // none is
)

// alertTransition is the application of one event to an alert.
type alertTransition struct {
	transition
	Alert
}

// Apply carries out one transition.
func (a Alert) Apply(e AlertEvent, c Clock) (Alert, []effects.Effect) {
	t := &alertTransition{transition{clock: c, event: e}, a}
	if a.ID == uuid.Nil {
		t.applyAbsent(e)
	} else {
		t.apply(e)
	}
	return concluded(a, t.Alert, t.transition)
}

// applyAbsent: what may happen to an alert that does not exist.
func (t *alertTransition) applyAbsent(e AlertEvent) {
	switch e := e.(type) {
	case AlertWatch:
		t.watch(e)
	case AlertForget: // there is nothing to forget
	case AlertDue, AlertSilence, AlertUnsilence:
		t.refuse(effects.CodeNotFound, "the schedule has no alerts: give it some first")
	}
}

func (t *alertTransition) apply(e AlertEvent) {
	switch e := e.(type) {
	case AlertWatch:
		t.watch(e)
	case AlertForget:
		t.forget(e)
	case AlertDue:
		t.due()
	case AlertSilence:
		t.silence(e)
	case AlertUnsilence:
		t.unsilence()
	}
}

// watch: → quiet or open, by what the schedule says of itself.
func (t *alertTransition) watch(e AlertWatch) {
	ref := AlertRef(e.Schedule)
	switch {
	case e.Schedule.ID == uuid.Nil || e.Rules.None():
		t.refuse(effects.CodeInvalid, "schedule: must be one that has alerts")
		return
	case t.ID == uuid.Nil:
		t.Alert = Alert{ID: ref.ID, Namespace: e.Namespace, Tenant: e.Tenant, Schedule: e.Schedule, CreatedAt: t.clock.Now}
	case t.ID != ref.ID || t.scope() != (Scope{e.Namespace, e.Tenant}):
		t.refuse(effects.CodeInvalid, "schedule: the alert watches %s", t.Schedule)
		return
	}
	usual := t.View.UsualMS // before what has ended just now
	if t.View.Resting != "" && e.View.Resting == "" {
		t.RestedAt = t.clock.Now
	}
	t.Name, t.Rules, t.View = texts.Bound(e.Name, MaxNameBytes), e.Rules, e.View
	t.hear(e.News, usual)
	t.settle()
}

// due: a time of the rules has come, or the end of the silence.
func (t *alertTransition) due() {
	if t.isDue("the alert of "+t.Schedule.String(), t.Deadline()) {
		t.settle()
	}
}

// silence: nobody is told until then.
func (t *alertTransition) silence(e AlertSilence) {
	switch {
	case t.invalid(checkTime("until", e.Until)):
		return
	case !e.Until.After(t.clock.Now):
		t.refuse(effects.CodeInvalid, "until: %s is not in the future; it is %s", e.Until, t.clock.Now)
		return
	}
	t.Silenced = Silence{Until: e.Until, Since: t.clock.Now, By: firstText(e.By), Reason: firstText(e.Reason)}
	t.settle()
}

// unsilence: from now on what is raised is told again, what is open included.
func (t *alertTransition) unsilence() {
	if !t.silenced() {
		t.conflict("the alerts of %s are not silenced", clip(t.Name))
		return
	}
	t.Silenced = Silence{}
	t.settle()
}

// silenced reports whether nobody is to be told.
func (t *alertTransition) silenced() bool { return t.Silenced.Until.After(t.clock.Now) }

// forget: → (absent). What is open is cleared.
func (t *alertTransition) forget(e AlertForget) {
	t.clearAll(boundedReason(e.Reason, "the schedule has no alerts any more"))
	t.Alert = Alert{}
}

// hear takes what has happened to the schedule. What was over before anybody could look is raised
// nevertheless, and cleared by settle.
func (t *alertTransition) hear(n AlertNews, usualMS int64) {
	now := t.clock.Now
	if t.View.Resting != "" {
		t.Failures, t.LastFailure = 0, AlertFailure{}
		return
	}
	switch {
	case n.Missed > 0:
		t.raise(AlertMissed, missedText(n))
	case n.Dispatched:
		t.clear(AlertMissed, "a time of the schedule was dispatched")
	}
	if late := t.Rules.LateSeconds * 1000; !n.DecidedAt.IsZero() && betweenMS(n.DecidedAt, now) >= late {
		t.raise(AlertLate, fmt.Sprintf("its time %s came to its turn only %s later", n.DecidedAt, shortLength(betweenMS(n.DecidedAt, now))))
	}
	if most := t.Rules.slowMS(usualMS); most > 0 && n.RanMS >= most {
		t.raise(AlertSlow, fmt.Sprintf("%s %s took %s, longer than %s", t.childName(), n.Child, shortLength(n.RanMS), t.slowText(most, usualMS)))
	}
	switch n.Outcome {
	case ChildSucceeded:
		t.Failures, t.LastFailure = 0, AlertFailure{}
	case ChildFailed:
		t.Failures = uint32(min(uint64(t.Failures)+1, MaxAlertFailing))
		t.LastFailure = AlertFailure{At: now, Child: n.Child, Reason: clipReason(n.Reason)}
	case ChildCancelled, ChildRefused, "":
	}
}

func missedText(n AlertNews) string {
	if n.Missed == 1 {
		return fmt.Sprintf("its time %s was missed: %s", n.MissedFrom, n.MissedReason)
	}
	return fmt.Sprintf("%d times from %s to %s were missed: %s", n.Missed, n.MissedFrom, n.MissedUntil, n.MissedReason)
}

// settle raises and clears what follows from the present state, and tells of it.
func (t *alertTransition) settle() {
	t.UpdatedAt = t.clock.Now
	if !t.silenced() {
		t.Silenced = Silence{}
	}
	if t.View.Resting != "" {
		t.clearAll(t.View.Resting)
	}
	for _, kind := range AlertKinds() {
		at, why, over := t.condition(kind)
		switch {
		case !t.Rules.has(kind):
			t.clear(kind, "the schedule has no alert of that kind any more")
		case kind == AlertMissed: // as it hears of it
		case !at.IsZero() && !at.After(t.clock.Now):
			t.raise(kind, why)
		default:
			t.clear(kind, over)
		}
	}
	t.tellOpen()
}

// condition gives the instant from which on an alert of that kind is to be open as things are, zero if
// there is none, the reason for which it is then, and the one for which it is not any more.
func (a Alert) condition(kind AlertKind) (at Time, why, over string) {
	v, r := a.View, a.Rules
	if v.Resting != "" || !r.has(kind) {
		return 0, "", v.Resting
	}
	switch kind {
	case AlertLate:
		if v.ExpectedAt.IsZero() {
			return 0, "", "nothing is to begin any more"
		}
		return laterMS(v.ExpectedAt, r.LateSeconds*1000),
			fmt.Sprintf("its time %s has not begun %s after it", v.ExpectedAt, shortLength(r.LateSeconds*1000)), "what was late has begun, or was decided about"
	case AlertStale:
		return laterMS(a.successBase(), r.StaleSeconds*1000),
			fmt.Sprintf("nothing has succeeded for %s: %s", shortLength(r.StaleSeconds*1000), a.lastSuccessText()), a.succeededText()
	case AlertFailing:
		if a.Failures > 0 && a.Failures < r.Failing {
			return 0, "", fmt.Sprintf("fewer than %d have failed in a row", r.Failing)
		}
		if a.Failures == 0 {
			return 0, "", "it has succeeded"
		}
		return a.LastFailure.At, a.failuresText(), "it has succeeded"
	case AlertSlow:
		most := r.slowMS(v.UsualMS)
		if v.RunsSince.IsZero() || most == 0 {
			return 0, "", "what was slow has ended"
		}
		longer := a.slowText(most, v.UsualMS)
		return laterMS(v.RunsSince, most), fmt.Sprintf("%s %s has run since %s, longer than %s", a.childName(), v.Runs, v.RunsSince, longer), "what runs has not run for " + longer
	case AlertMissed:
	}
	return 0, "", ""
}

// failuresText says what has failed.
func (a Alert) failuresText() string {
	f := a.LastFailure
	s := fmt.Sprintf("%s %s failed at %s: %s", a.childName(), f.Child, f.At, f.Reason)
	if a.Failures > 1 {
		return fmt.Sprintf("%d have failed in a row: %s", a.Failures, s)
	}
	return s
}

// successBase is the instant from which on something should have succeeded.
func (a Alert) successBase() Time { return max(a.View.SuccessAt, a.View.MadeAt, a.RestedAt) }

func (a Alert) lastSuccessText() string {
	switch base := a.successBase(); base {
	case a.View.SuccessAt:
		return "the last success was at " + base.String()
	case a.View.MadeAt:
		return "it was made at " + base.String()
	default:
		return "it was resumed at " + base.String()
	}
}

// succeededText says why nothing is stale: a success, or else that less than the rule allows has passed.
func (a Alert) succeededText() string {
	if a.View.SuccessAt.IsZero() {
		return "it is not so long ago by the rule: " + a.lastSuccessText()
	}
	return fmt.Sprintf("it succeeded at %s", a.View.SuccessAt)
}

// slowText says what was too long.
func (a Alert) slowText(mostMS, usualMS int64) string {
	if mostMS == a.Rules.SlowSeconds*1000 {
		return shortLength(mostMS)
	}
	return fmt.Sprintf("%s times its usual %s", a.Rules.SlowFactor, shortLength(usualMS))
}

// childName is what the schedule makes.
func (a Alert) childName() string {
	if a.Schedule.Kind == KindJob {
		return "run"
	}
	return "action"
}

func (a Alert) open(kind AlertKind) int {
	return slices.IndexFunc(a.Open, func(o OpenAlert) bool { return o.Kind == kind })
}

// raise opens an alert, unless one of its kind is open or has no rule.
func (t *alertTransition) raise(kind AlertKind, reason string) {
	if t.open(kind) >= 0 || !t.Rules.has(kind) {
		return
	}
	kinds := AlertKinds()
	i, _ := slices.BinarySearchFunc(t.Open, kind, func(o OpenAlert, k AlertKind) int { return slices.Index(kinds, o.Kind) - slices.Index(kinds, k) })
	t.Open = slices.Insert(slices.Clone(t.Open), i, OpenAlert{Kind: kind, Since: t.clock.Now, Reason: clipReason(reason)})
	t.Raised.Add(kind, 1)
}

// clear closes an alert, if one of that kind is open.
func (t *alertTransition) clear(kind AlertKind, reason string) {
	i := t.open(kind)
	if i < 0 {
		return
	}
	t.tellOpen() // what is raised and cleared at once is told, too
	o := t.Open[i]
	t.Open = without(t.Open, i)
	if o.Told {
		t.tell(DigestTell{Kind: kind, Cleared: true, Since: o.Since, Step: o.Step, Reason: clipReason(reason)})
	}
}

func (t *alertTransition) clearAll(reason string) {
	for _, kind := range AlertKinds() {
		t.clear(kind, reason)
	}
}

// tellOpen tells of what is open and was not told.
func (t *alertTransition) tellOpen() {
	if t.silenced() || !slices.ContainsFunc(t.Open, func(o OpenAlert) bool { return !o.Told }) {
		return
	}
	t.Open = slices.Clone(t.Open)
	for i := range t.Open {
		if o := &t.Open[i]; !o.Told {
			o.Told, o.Step = true, t.clock.Step
			t.tell(DigestTell{Kind: o.Kind, Since: o.Since, Step: o.Step, Reason: o.Reason})
		}
	}
}

// tell sends the digest of the channel what people are to be told.
func (t *alertTransition) tell(e DigestTell) {
	e.Channel, e.Schedule, e.Namespace, e.Tenant, e.Name = t.Rules.Channel, t.Schedule, t.Namespace, t.Tenant, t.Name
	t.send(DigestRef(e.Channel), e)
}

// clipReason bounds a reason that stands among others in a message.
func clipReason(s string) string { return texts.Head(s, maxAlertReason) }

// maxAlertReason bounds the reason of an alert, of which a message has several.
const maxAlertReason = 512

// Ref names the alert.
func (a Alert) Ref() effects.Ref { return refOf(KindAlert, a.ID) }

// Deadline is when a rule applies if nothing happens before, or the silence ends; zero: neither.
func (a Alert) Deadline() (at Time) {
	at = a.Silenced.Until
	for _, kind := range AlertKinds() {
		if a.open(kind) < 0 {
			when, _, _ := a.condition(kind)
			at = earliest(at, when)
		}
	}
	return at
}

func (a Alert) scope() Scope { return Scope{a.Namespace, a.Tenant} }

// Status is [AlertOpen] or [AlertQuiet].
func (a Alert) Status() string {
	if len(a.Open) > 0 {
		return AlertOpen
	}
	return AlertQuiet
}

// Terms lists the alert under all, and within its tenant under its status.
func (a Alert) Terms() []effects.Term {
	return listed(a.CreatedAt, StatusTerm(a.Status()), a.scope())
}

// AppendJSON appends the stored form.
func (a Alert) AppendJSON(b []byte) []byte { return appendMarshaled(b, a) }
