package core

import (
	"cmp"
	"slices"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
)

// Backfill dispatches past times of a schedule that were not dispatched when they were due, at
// its own pace (G4). The schedule dispatches each of them beside its live times.
//
//	create ──▶ running ──┬── the last time has ended ──▶ completed
//	            │ ▲      └── cancel ───────────────────▶ cancelled
//	            └─┘ due: the next time
//	                a time has ended
//
// One that has no times is completed when it is made. What runs when it is cancelled goes on, and
// is counted when it ends. expire leads from completed and cancelled out of existence.
//
// Invariants, held by property tests:
//   - Only a due event of a running one dispatches, and one time at most: the next one.
//   - Each time is dispatched at most once, in order, unless a limit has refused it.
//   - Never more than MaxActive times are under way.
//   - Between two times that have started there are at least SpacingSeconds, unless the clock
//     was set back between them.
//   - Each time before Next is under way or counted by its outcome, once.
//   - It is completed when all of its times have been told, and not before.
//   - One that has ended stays so, but for expire and for what was under way.
//   - The end is announced once.
//   - Once created, the spec never changes.
type Backfill struct {
	BackfillSpec
	Status BackfillStatus `json:"status"`
	// Next is the index in Times of the time that is dispatched next.
	Next   uint32         `json:"next"`
	Active []BackfillRun  `json:"active,omitempty"` // times under way, in the order in which they started
	Counts BackfillCounts `json:"counts"`
	// Problems are those of the last times that did not succeed, at most
	// [MaxBackfillProblems].
	Problems []BackfillProblem `json:"problems,omitempty"`
	NextAt   Time              `json:"next_at"` // no time is dispatched before
	// Held is why the next time was put off: a limit of the tenant. Empty: it was not.
	Held         string `json:"held,omitempty"`
	CancelReason string `json:"cancel_reason,omitempty"`
	CreatedAt    Time   `json:"created_at"`
	UpdatedAt    Time   `json:"updated_at"`
	FinishedAt   Time   `json:"finished_at"` // zero: it has not ended
}

// BackfillStatus says how far a backfill is.
type BackfillStatus string

// Statuses of a backfill.
const (
	BackfillRunning   BackfillStatus = "running"
	BackfillCompleted BackfillStatus = "completed"
	BackfillCancelled BackfillStatus = "cancelled"
)

// Ended reports whether it dispatches nothing any more.
func (s BackfillStatus) Ended() bool { return s == BackfillCompleted || s == BackfillCancelled }

// BackfillRun is a time that was dispatched and has not ended.
type BackfillRun struct {
	N         uint32 `json:"n"` // its place in Times, from 1
	At        Time   `json:"at"`
	StartedAt Time   `json:"started_at"`
}

// BackfillCounts count the times of a backfill by what became of them.
type BackfillCounts struct {
	Succeeded uint64 `json:"succeeded"`
	Failed    uint64 `json:"failed"`
	Cancelled uint64 `json:"cancelled"`
	Refused   uint64 `json:"refused"` // the schedule dispatched nothing
}

func (n BackfillCounts) total() uint64 {
	return saturatingAdd(saturatingAdd(n.Succeeded, n.Failed), saturatingAdd(n.Cancelled, n.Refused))
}

// BackfillProblem says why a time did not succeed.
type BackfillProblem struct {
	At      Time         `json:"at"`
	Outcome ChildOutcome `json:"outcome"`
	Reason  string       `json:"reason"`
	Child   effects.Ref  `json:"child,omitzero"` // what ran; zero: nothing did
}

// Dispatched counts the times that have started.
func (b Backfill) Dispatched() uint64 {
	return uint64(len(b.Active)) + b.Counts.total() - b.Counts.Refused
}

// backfillTransition is the application of one event to a backfill under way.
type backfillTransition struct {
	transition
	Backfill
}

// Apply carries out one transition.
func (b Backfill) Apply(e BackfillEvent, c Clock) (Backfill, []effects.Effect) {
	t := &backfillTransition{transition{clock: c, event: e}, b}
	create, creates := e.(BackfillCreate)
	switch {
	case creates:
		t.create(create)
	case b.ID == uuid.Nil:
		t.refuse(effects.CodeNotFound, "backfill not found")
	default:
		t.applyPresent(e)
	}
	return concluded(b, t.Backfill, t.transition)
}

// applyPresent: what may happen to a backfill that exists.
func (t *backfillTransition) applyPresent(e BackfillEvent) {
	t.UpdatedAt = t.clock.Now
	switch e := e.(type) {
	case BackfillDue:
		t.due(e)
	case ChildEnded:
		t.timeEnded(e)
	case BackfillCancel:
		t.cancel(e)
	case BackfillExpire:
		t.expire()
	case BackfillCreate: // taken in no state but absent
	}
}

// create: (absent) → running, or completed if there is nothing to dispatch.
func (t *backfillTransition) create(e BackfillCreate) {
	if t.ID != uuid.Nil {
		t.refuse(effects.CodeExists, "id: backfill %s exists already", t.ID)
		return
	}
	spec := e.Spec.withDefaults()
	if t.invalid(spec.Validate()) {
		return
	}
	now := t.clock.Now
	t.Backfill = Backfill{BackfillSpec: spec, Status: BackfillRunning, NextAt: now, CreatedAt: now, UpdatedAt: now}
	t.tell("created")
	t.completeIfDone()
}

// due: the next time is dispatched. It is dispatched by an input of its own, so that one whose
// action cannot be made is undone alone, see [Batch.Apply].
func (t *backfillTransition) due(e BackfillDue) {
	if !t.isDue("backfill "+t.ID.String(), t.Deadline()) {
		return
	}
	n, at := t.Next+1, t.Times[t.Next]
	switch {
	case e.Refusal != "" && e.Limited && t.hold(e.Refusal):
		return
	case e.Refusal != "":
		t.Next, t.Held = n, ""
		t.count(at, ChildEnded{Outcome: ChildRefused, Reason: e.Refusal})
		t.completeIfDone()
		return
	}
	t.Next, t.Held, t.NextAt = n, "", laterMS(t.clock.Now, t.SpacingSeconds*1000)
	t.Active = append(slices.Clip(t.Active), BackfillRun{N: n, At: at, StartedAt: t.clock.Now})
	t.send(t.Schedule, BackfillTime{At: at, Owner: Owner{Ref: t.Ref(), N: n}})
}

// hold puts the next time off, since a limit of the tenant lets none start. It reports false at
// the end of all times, when no later one comes.
func (t *backfillTransition) hold(reason string) bool {
	at := laterMS(t.clock.Now, limitedPollMS)
	if !at.After(t.clock.Now) {
		return false
	}
	t.NextAt, t.Held = max(at, t.NextAt), boundedReason(reason, "a limit of the tenant")
	return true
}

// timeEnded: what a time has made has ended, or was refused. A refused one has not started, so
// the next one need not be SpacingSeconds later.
func (t *backfillTransition) timeEnded(e ChildEnded) {
	i := slices.IndexFunc(t.Active, func(r BackfillRun) bool { return r.N == e.N })
	switch {
	case i < 0:
		t.conflict("n: backfill %s has no time under way with the number %d", t.ID, e.N)
		return
	case !e.Outcome.known():
		t.refuse(effects.CodeInvalid, "outcome: %q is unknown", clip(string(e.Outcome)))
		return
	}
	run := t.Active[i]
	t.Active = without(t.Active, i)
	if e.Outcome == ChildRefused && run.StartedAt == t.clock.Now {
		t.NextAt = t.clock.Now
	}
	if e.Outcome == ChildRefused && e.Limited && t.Status == BackfillRunning && run.N == t.Next && t.hold(e.Reason) {
		t.Next--
		return
	}
	t.NextAt = min(t.NextAt, laterMS(t.clock.Now, t.SpacingSeconds*1000)) // if the clock went back
	t.count(run.At, e)
	t.completeIfDone()
}

// count notes what became of a time.
func (t *backfillTransition) count(at Time, e ChildEnded) {
	var n *uint64
	switch e.Outcome {
	case ChildSucceeded:
		t.Counts.Succeeded = saturatingAdd(t.Counts.Succeeded, 1)
		return
	case ChildFailed:
		n = &t.Counts.Failed
	case ChildCancelled:
		n = &t.Counts.Cancelled
	case ChildRefused:
		n = &t.Counts.Refused
		e.Child = effects.Ref{}
	}
	*n = saturatingAdd(*n, 1)
	t.Problems = appendLast(t.Problems, MaxBackfillProblems, BackfillProblem{
		At: at, Outcome: e.Outcome, Reason: headText(cmp.Or(e.Reason, "no reason was given")), Child: e.Child,
	})
}

// completeIfDone: running → completed.
func (t *backfillTransition) completeIfDone() {
	if t.Status != BackfillRunning || len(t.Active) > 0 || int(t.Next) < len(t.Times) {
		return
	}
	t.Status, t.FinishedAt, t.Held = BackfillCompleted, t.clock.Now, ""
	t.tell("completed")
}

// cancel: running → cancelled. What is under way goes on.
func (t *backfillTransition) cancel(e BackfillCancel) {
	if t.Status != BackfillRunning {
		t.conflict("backfill %s is %s: only a running one can be cancelled", t.ID, t.Status)
		return
	}
	t.Status, t.FinishedAt, t.Held = BackfillCancelled, t.clock.Now, ""
	t.CancelReason = boundedReason(e.Reason, "cancelled")
	t.tell("cancelled")
}

// expire: completed, cancelled → (absent).
func (t *backfillTransition) expire() {
	if !t.Status.Ended() {
		t.conflict("backfill %s is %s: it has not ended", t.ID, t.Status)
		return
	}
	t.Backfill = Backfill{}
}

// tell announces what became of the backfill, in the category of the scheduler: in older journals
// others may announce events of a category "backfill".
func (t *backfillTransition) tell(what string) {
	t.announce("scheduler", "backfill", "backfill_"+what, t.ID, announcementData(struct {
		Schedule uuid.UUID      `json:"schedule"`
		Name     string         `json:"name"`
		Times    int            `json:"times"`
		Counts   BackfillCounts `json:"counts"`
		Reason   string         `json:"reason,omitempty"`
	}{t.Schedule.ID, t.Name, len(t.Times), t.Counts, t.CancelReason}))
}

// Ref names the backfill.
func (b Backfill) Ref() effects.Ref { return refOf(KindBackfill, b.ID) }

// Deadline is when the next time is dispatched; zero if none may be.
func (b Backfill) Deadline() Time {
	if b.Status != BackfillRunning || uint64(b.Next) >= uint64(len(b.Times)) || uint64(len(b.Active)) >= uint64(b.MaxActive) {
		return 0
	}
	return max(b.NextAt, effects.MinTime)
}

// endedAt: see [EndedAt].
func (b Backfill) endedAt() (Time, bool) { return b.FinishedAt, b.Status.Ended() }

// BackfillScheduleTerm is the list term of the backfills of one schedule.
func BackfillScheduleTerm(schedule uuid.UUID) string { return "schedule:" + schedule.String() }

// Terms lists the backfill under all, under its status within its tenant, under its schedule, and
// under what may be forgotten.
func (b Backfill) Terms() []effects.Term {
	terms := append(listed(b.CreatedAt, StatusTerm(b.Status), b.scope()), effects.Term{Name: BackfillScheduleTerm(b.Schedule.ID), At: b.CreatedAt})
	at, ended := b.endedAt()
	return withEnd(terms, at, ended)
}

// AppendJSON appends the stored form.
func (b Backfill) AppendJSON(to []byte) []byte { return appendMarshaled(to, b) }
