package core

import (
	"encoding/json"
	"fmt"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
)

// Task is one unit of work, typically of an agent in a terminal session, that
// is watched by its heartbeats and recovered if it is stuck (003 Task, D5).
//
//	create
//	  │
//	  ▼     start, due           complete, fail, cancel, exit code 0
//	pending ──────────▶ running ────────────────────────────────────▶ done
//	  ▲                  │   ▲                                         ▲
//	  │      no sign of  │   │ heartbeat: active                       │
//	  │   life, no step, │   │                                         │
//	  │     session dead ▼   │   complete, fail, cancel, exit code 0,  │
//	  └──── restart ──── stuck ── no attempts left ────────────────────┘
//
// The time-out of the whole task, and cancel, lead from any of them to done;
// restart leads from running too; expire leads from done out of existence.
//
// While it is stuck, each recovery interval takes a step: a nudge, then a
// restart; of a session that died, a restart at once. What moves first after a
// nudge may be no more than the terminal's echo of it: if nothing follows, the
// next step is the restart. A session whose home is lost counts as one that died. A task without a session
// cannot be helped so. If no attempt is left, the task is escalated once, and
// fails. A session that ends by itself with exit code 0 has done its work.
//
// Invariants, held by property tests:
//   - A task that is done stays so, with the same result, but for expire.
//   - The end is told once to the bus and to the owner: with the entry into done.
//   - RecoveryAttempts never decreases, grows by at most one with an event, and is
//     at most the maximum; no restart happens at the maximum.
//   - A due event leaves no deadline that has come.
//   - A session is spawned only if the one before it was killed.
//   - When it enters done, a session that may live is killed.
//   - A kill is asked for until it is carried out or fails, however often it is interrupted.
//   - The numbers of outer effects only grow, each is asked for with the event
//     that notes it, and what is noted is bounded.
//   - Without a command nothing is asked of a session.
//   - Once created, the spec never changes.
type Task struct {
	TaskSpec
	// SessionID names the session (003 session): derived from the task's id, with
	// another suffix after each restart; empty before the first start.
	SessionID        string         `json:"session_id"`
	Home             string         `json:"home,omitempty"` // the instance on whose computer the session was started; empty: there is one instance, or none is known
	State            TaskState      `json:"state"`
	LastHeartbeat    Time           `json:"last_heartbeat"`
	LastProgress     Time           `json:"last_progress"`
	Progress         string         `json:"progress"` // as the last heartbeat that had one said it
	Screen           string         `json:"screen"`   // the end of the session's screen, as last seen
	RecoveryAttempts uint32         `json:"recovery_attempts"`
	Restarts         uint32         `json:"restarts"`
	Nudged           bool           `json:"nudged"`        // since the nudge it has made no progress but its answer
	Spawned          bool           `json:"spawned"`       // the session may live, or be there dead
	RecoverAt        Time           `json:"recover_at"`    // the next step of the recovery, while stuck
	CheckpointAt     Time           `json:"checkpoint_at"` // the next checkpoint, while running
	Pending          PendingEffects `json:"asked"`
	Repeats          uint32         `json:"repeats"` // of interrupted effects, since the last answer
	CreatedAt        Time           `json:"created_at"`
	UpdatedAt        Time           `json:"updated_at"`
	FinishedAt       Time           `json:"finished_at"`
}

// TaskStateType tells the states of a task apart.
type TaskStateType string

// States of a task (003 TaskState).
const (
	TaskPending TaskStateType = "pending"
	TaskRunning TaskStateType = "running"
	TaskStuck   TaskStateType = "stuck"
	TaskDone    TaskStateType = "done"
)

// TaskState says how far a task is (003 TaskState): a tagged union of pending,
// running{started_at}, stuck{detected_at, reason} and done{result}.
type TaskState struct {
	Type       TaskStateType `json:"type"`
	StartedAt  Time          `json:"started_at,omitzero"` // running; stuck keeps it for when it runs again
	DetectedAt Time          `json:"detected_at,omitzero"`
	Reason     StuckReason   `json:"reason,omitzero"`
	Result     TaskResult    `json:"result,omitzero"`
}

// StuckType tells the reasons apart for which a task is stuck.
type StuckType string

// Reasons for which a task is stuck (003 StuckReason).
const (
	StuckNoHeartbeat StuckType = "no_heartbeat"
	StuckNoProgress  StuckType = "no_progress"
	StuckSessionDead StuckType = "session_dead"
)

// StuckReason says why a task is stuck (003 StuckReason): a tagged union of
// no_heartbeat{last_seen}, no_progress{duration_ms} and
// session_dead{exit_code, detail, home}.
type StuckReason struct {
	Type       StuckType `json:"type"`
	LastSeen   Time      `json:"last_seen,omitzero"`
	DurationMS int64     `json:"duration_ms,omitempty"`
	ExitCode   *int32    `json:"exit_code,omitempty"` // nil: not known
	Detail     string    `json:"detail,omitempty"`    // why it could not be spawned
	Home       string    `json:"home,omitempty"`      // of a dead session: it was lost with this home
}

// String says it in words.
func (r StuckReason) String() string {
	switch r.Type {
	case StuckNoHeartbeat:
		return "no heartbeat since " + r.LastSeen.String()
	case StuckNoProgress:
		return "no progress for " + lengthText(r.DurationMS)
	case StuckSessionDead:
	}
	switch {
	case r.Home != "":
		return fmt.Sprintf("the session is out of reach: its home is the instance %q, and another one works on the task now", r.Home)
	case r.Detail != "":
		return "the session could not be started: " + r.Detail
	case r.ExitCode != nil:
		return fmt.Sprintf("the session ended with exit code %d", *r.ExitCode)
	}
	return "the session is dead"
}

// TaskResultType tells the results apart.
type TaskResultType string

// Results of a task (003 TaskResult).
const (
	TaskSuccess   TaskResultType = "success"
	TaskFailed    TaskResultType = "failed"
	TaskCancelled TaskResultType = "cancelled"
)

// TaskResult says how a task ended (003 TaskResult): a tagged union of
// success{output}, failed{error} and cancelled{reason}.
type TaskResult struct {
	Type   TaskResultType  `json:"type"`
	Output json.RawMessage `json:"output,omitempty"` // JSON; none: it gave nothing
	Error  string          `json:"error,omitempty"`
	Reason string          `json:"reason,omitempty"`
}

// taskTransition is the application of one event to a task.
type taskTransition struct {
	transition
	Task
}

// Apply carries out one transition.
func (t Task) Apply(e TaskEvent, c Clock) (Task, []effects.Effect) {
	next := &taskTransition{transition{clock: c, event: e}, t}
	create, creates := e.(TaskCreate)
	switch {
	case creates:
		next.create(create)
	case t.ID == uuid.Nil:
		next.refuse(effects.CodeNotFound, "task not found")
	default:
		next.apply(e)
	}
	return concluded(t, next.Task, next.transition)
}

// apply is the table of 003: an event, the states that take it, and the function that
// carries it out.
func (t *taskTransition) apply(e TaskEvent) {
	pending, works := t.State.Type == TaskPending, t.State.Type == TaskRunning || t.State.Type == TaskStuck
	switch e := e.(type) {
	case TaskStart:
		if t.takes(pending && !t.awaits(isKill)) {
			t.start()
		}
	case TaskDue:
		t.due()
	case TaskHeartbeat:
		if t.takes(works) {
			t.heartbeat(e.bounded())
		}
	case TaskRecover:
		if t.takes(works) {
			t.recover(e)
		}
	case TaskComplete:
		if t.takes(works) {
			t.complete(e)
		}
	case TaskFail:
		if t.takes(works) {
			t.fail(boundedReason(e.Error, "failed without a reason"))
		}
	case TaskCancel:
		if t.takes(pending || works) {
			t.endWith(TaskResult{Type: TaskCancelled, Reason: boundedReason(e.Reason, "cancelled")})
		}
	case TaskInput:
		if t.takes(works) {
			t.input(e)
		}
	case HomeLost:
		if t.takes(works) && t.losesHome(e) {
			t.homeLost()
		}
	case TaskExpire:
		if t.takes(t.State.Type == TaskDone && !t.mustBeKept()) {
			t.Task = Task{}
		}
	case EffectDone, EffectFailed, EffectInterrupted, EffectHandedBack:
		t.takePending(t, &t.Pending, e, fmt.Sprintf("task %s is %s and", t.ID, t.State.Type))
	case TaskCreate: // see Apply
	}
}

// takes refuses the event if the task cannot take it in its state.
func (t *taskTransition) takes(can bool) bool {
	if !can {
		doing := ""
		if t.awaits(isKill) {
			doing = ", and its session is being ended"
		}
		t.refuse(effects.CodeConflict, "task %s is %s%s: it cannot take %q", t.ID, t.State.Type, doing, t.event.EventType())
	}
	return can
}

// create: (absent) → pending, due at once.
func (t *taskTransition) create(e TaskCreate) {
	if t.ID != uuid.Nil {
		t.refuse(effects.CodeExists, "id: task %s exists already", t.ID)
		return
	}
	spec, now := e.Spec.withDefaults(), t.clock.Now
	t.Task = Task{TaskSpec: spec, State: TaskState{Type: TaskPending}, CreatedAt: now, UpdatedAt: now}
	t.invalid(spec.Validate())
}

// start: pending → running, with a new session.
func (t *taskTransition) start() {
	now := t.clock.Now
	t.State = TaskState{Type: TaskRunning, StartedAt: now}
	t.LastHeartbeat, t.LastProgress, t.UpdatedAt = now, now, now
	t.Progress, t.Screen = "", ""
	if t.PipelineID != uuid.Nil && t.Config.CheckpointIntervalMS > 0 {
		t.CheckpointAt = laterMS(now, t.Config.CheckpointIntervalMS)
	}
	t.announce("started", nil)
	if len(t.Command) > 0 {
		t.spawn()
	}
}

// due is the table of a deadline that has come: the state, and what follows.
func (t *taskTransition) due() {
	now, at := t.clock.Now, t.Deadline()
	if at.IsZero() {
		t.conflict("task %s is %s: it waits for no time", t.ID, t.State.Type)
		return
	}
	if !t.isDue("task "+t.ID.String(), at) {
		return
	}
	if end := t.timeoutAt(); !end.IsZero() && !end.After(now) {
		t.fail("timed out after " + lengthText(t.Config.TimeoutMS))
		return
	}
	switch t.State.Type {
	case TaskPending:
		t.start()
	case TaskStuck:
		t.recoverStuck()
	case TaskRunning, TaskDone:
		t.watch()
	}
}

// watch: running → stuck if heartbeats or progress are missing; and it is
// time for a checkpoint now and then.
func (t *taskTransition) watch() {
	now := t.clock.Now
	t.UpdatedAt = now
	if !t.CheckpointAt.IsZero() && !t.CheckpointAt.After(now) {
		t.add(effects.Checkpoint{Pipeline: t.PipelineID, Message: t.report(now)})
		t.CheckpointAt = laterMS(now, t.Config.CheckpointIntervalMS)
	}
	switch {
	case t.awaits(isSpawn):
	case !t.heartbeatAt().After(now):
		t.becomeStuck(StuckReason{Type: StuckNoHeartbeat, LastSeen: t.LastHeartbeat})
	case !t.progressAt().After(now):
		t.becomeStuck(StuckReason{Type: StuckNoProgress, DurationMS: betweenMS(t.LastProgress, now)})
	}
}

// report is what a checkpoint says.
func (t Task) report(now Time) string {
	text := fmt.Sprintf("%s: running for %s, last progress %s ago", t.title(), lengthText(betweenMS(t.State.StartedAt, now)), lengthText(betweenMS(t.LastProgress, now)))
	if t.Progress != "" {
		text += ": " + t.Progress
	}
	return firstText(text)
}

// becomeStuck: running → stuck. The first step of the recovery follows after an
// interval, so that a task which only was slow can come back by itself.
func (t *taskTransition) becomeStuck(reason StuckReason) {
	t.State = TaskState{Type: TaskStuck, StartedAt: t.State.StartedAt, DetectedAt: t.clock.Now, Reason: reason}
	t.RecoverAt = laterMS(t.clock.Now, t.Config.RecoveryIntervalMS)
	t.UpdatedAt = t.clock.Now
	t.announce("stuck", announcementData(struct {
		Reason StuckReason `json:"reason"`
	}{reason}))
}

// complete: running, stuck → done(success).
func (t *taskTransition) complete(e TaskComplete) {
	output, err := boundedJSON("output", e.Output)
	if !t.invalid(err) {
		t.endWith(TaskResult{Type: TaskSuccess, Output: output})
	}
}

// fail: → done(failed).
func (t *taskTransition) fail(reason string) {
	t.endWith(TaskResult{Type: TaskFailed, Error: reason})
}

// endWith: → done. What was asked of the session is taken back, and the session
// is killed; the answer to that is waited for beyond the end. Bus and owner are told.
func (t *taskTransition) endWith(result TaskResult) {
	t.endSession()
	t.State = TaskState{Type: TaskDone, Result: result}
	t.RecoverAt, t.CheckpointAt, t.Nudged = 0, 0, false
	t.UpdatedAt, t.FinishedAt = t.clock.Now, t.clock.Now
	ended := ChildEnded{Child: t.Ref()}
	switch result.Type {
	case TaskSuccess:
		ended.Outcome, ended.Result = ChildSucceeded, result.Output
		t.announce("complete", nil)
	case TaskCancelled:
		ended.Outcome, ended.Reason = ChildCancelled, result.Reason
		t.announce("cancelled", announcementTexts("reason", result.Reason))
	case TaskFailed:
		ended.Outcome, ended.Reason = ChildFailed, result.Error
		t.announce("failed", announcementTexts("error", result.Error))
	}
	t.add(t.Owner.ended(ended)...)
}

// announce says something of the task on the bus.
func (t *taskTransition) announce(action string, data json.RawMessage) {
	t.transition.announce("task", "task", action, t.ID, data)
}

// title names the task to a reader.
func (t Task) title() string {
	if t.Label == "" {
		return "task " + t.ID.String()
	}
	return "task " + t.Label
}

// Ref names the task.
func (t Task) Ref() effects.Ref { return refOf(KindTask, t.ID) }

// timeoutAt is when the whole task ends; zero: never.
func (t Task) timeoutAt() Time { return limitAt(t.CreatedAt, t.Config.TimeoutMS) }

func (t Task) heartbeatAt() Time { return laterMS(t.LastHeartbeat, t.Config.HeartbeatTimeoutMS) }
func (t Task) progressAt() Time  { return laterMS(t.LastProgress, t.Config.IdleTimeoutMS) }

// Deadline is when the task is to be started, recovered, found stuck, ended, or
// when its pipeline is to get a checkpoint; zero where it waits for the answer
// to an effect alone, and once it is done.
func (t Task) Deadline() Time {
	at := t.timeoutAt()
	sooner := func(other Time) { at = earliest(at, max(other, effects.MinTime)) }
	switch t.State.Type {
	case TaskPending:
		if !t.awaits(isKill) {
			sooner(t.UpdatedAt)
		}
		return at
	case TaskRunning:
		if !t.awaits(isSpawn) { // no session yet: nothing to hear of
			sooner(t.heartbeatAt())
			sooner(t.progressAt())
		}
		if !t.CheckpointAt.IsZero() {
			sooner(t.CheckpointAt)
		}
		return at
	case TaskStuck:
		sooner(t.RecoverAt)
		return at
	case TaskDone:
	}
	return 0
}

// endedAt: see [EndedAt].
func (t Task) endedAt() (Time, bool) { return t.FinishedAt, t.State.Type == TaskDone }

// mustBeKept: see [MustBeKept]. Its session is still being ended, say.
func (t Task) mustBeKept() bool { return len(t.Pending.Open) > 0 }

// Terms lists the task under all, under its state within its tenant, and under what may be
// forgotten.
func (t Task) Terms() []effects.Term {
	at, ended := t.endedAt()
	failed, has := t.failedAt()
	terms := withFailure(listed(t.CreatedAt, StatusTerm(t.State.Type), t.scope()), failed, has, t.scope())
	return withEnd(terms, at, ended && !t.mustBeKept())
}

// AppendJSON appends the stored form.
func (t Task) AppendJSON(b []byte) []byte { return appendMarshaled(b, t) }
