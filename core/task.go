package core

import (
	"encoding/json"
	"fmt"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
)

// Task is one unit of work, typically of an agent in a terminal session, that
// is watched by its heartbeats and recovered where it is stuck (003 Task, D5).
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
// nudge may be no more than the terminal's echo of it: where nothing follows, the
// next step is the restart. A task without a session
// cannot be helped so. Where no attempt is left, the task is escalated once, and
// fails. A session that ends by itself with exit code 0 has done its work.
//
// Invariants, held by property tests:
//   - A task that is done stays so, with the same result, but for expire.
//   - The end is told once to the bus and to the owner: with the entry into done.
//   - RecoveryAttempts never decreases, grows by at most one with an event, and is
//     at most the maximum; no restart happens at the maximum.
//   - A due event leaves no deadline that has come.
//   - A session is spawned only where the one before it was killed.
//   - Where it enters done, a session that may live is killed.
//   - The numbers of outer effects only grow, each is asked for with the event
//     that notes it, and what is noted is bounded.
//   - Without a command nothing is asked of a session.
//   - Once created, the spec never changes.
type Task struct {
	TaskSpec
	// SessionID names the session (003 session): derived from the task's id, with
	// another suffix after each restart; empty where there was none yet.
	SessionID        string         `json:"session_id"`
	State            TaskState      `json:"state"`
	LastHeartbeat    Time           `json:"last_heartbeat"`
	LastProgress     Time           `json:"last_progress"`
	Progress         string         `json:"progress"` // as the last heartbeat that had one said it
	Screen           string         `json:"screen"`   // the end of the session's screen, as last seen
	RecoveryAttempts uint32         `json:"recovery_attempts"`
	Restarts         uint32         `json:"restarts"`
	Nudged           bool           `json:"nudged"`        // and since then it has made no progress but its answer
	Spawned          bool           `json:"spawned"`       // the session may live, or be there dead
	RecoverAt        Time           `json:"recover_at"`    // the next step of the recovery, while stuck
	CheckpointAt     Time           `json:"checkpoint_at"` // the next checkpoint, while running
	Asked            PendingEffects `json:"asked"`
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
// session_dead{exit_code, detail}.
type StuckReason struct {
	Type       StuckType `json:"type"`
	LastSeen   Time      `json:"last_seen,omitzero"`
	DurationMS int64     `json:"duration_ms,omitempty"`
	ExitCode   *int32    `json:"exit_code,omitempty"` // nil: not known
	Detail     string    `json:"detail,omitempty"`    // why it could not be spawned
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

// Apply carries out one transition.
func (t Task) Apply(e TaskEvent, c Clock) (Task, []effects.Effect) {
	if create, ok := e.(TaskCreate); ok {
		return t.create(create, c)
	}
	if t.ID == uuid.Nil {
		return t, t.refuse(e, effects.CodeNotFound, "task not found")
	}
	switch e := e.(type) {
	case TaskStart:
		if t.State.Type == TaskPending && !t.waits(isKill) {
			return t.start(c)
		}
	case TaskDue:
		return t.due(e, c)
	case TaskHeartbeat:
		if t.works() {
			return t.heartbeat(e.bounded(), c)
		}
	case TaskRecover:
		if t.works() {
			return t.recover(e, c)
		}
	case TaskComplete:
		if t.works() {
			return t.complete(e, c)
		}
	case TaskFail:
		if t.works() {
			return t.fail(boundedReason(e.Error, "failed without a reason"), c)
		}
	case TaskCancel:
		if t.works() || t.State.Type == TaskPending {
			return t.finish(TaskResult{Type: TaskCancelled, Reason: boundedReason(e.Reason, "cancelled")}, c)
		}
	case TaskInput:
		if t.works() {
			return t.input(e, c)
		}
	case TaskExpire:
		if t.State.Type == TaskDone && len(t.Asked.Open) == 0 {
			return Task{}, nil
		}
	case EffectDone:
		return t.effectDone(e, c)
	case EffectFailed:
		return t.effectFailed(e, c)
	case EffectInterrupted:
		return t.effectInterrupted(e, c)
	case EffectHandedBack:
		return t.effectHandedBack(e, c)
	case TaskCreate:
	}
	doing := ""
	if t.waits(isKill) {
		doing = ", and its session is being ended"
	}
	return t, t.refuse(e, effects.CodeConflict, fmt.Sprintf("task %s is %s%s: it cannot take %q", t.ID, t.State.Type, doing, e.EventType()))
}

// works reports whether the work was begun and has not ended.
func (t Task) works() bool { return t.State.Type == TaskRunning || t.State.Type == TaskStuck }

// create: (absent) → pending, due at once.
func (t Task) create(e TaskCreate, c Clock) (Task, []effects.Effect) {
	if t.ID != uuid.Nil {
		return t, t.refuse(e, effects.CodeExists, fmt.Sprintf("id: task %s exists already", t.ID))
	}
	spec := e.Spec.withDefaults()
	if err := spec.Validate(); err != nil {
		return t, refused(effects.Ref{Kind: KindTask, ID: spec.ID}, e, effects.CodeInvalid, err.Error())
	}
	return Task{TaskSpec: spec, State: TaskState{Type: TaskPending}, CreatedAt: c.Now, UpdatedAt: c.Now}, nil
}

// start: pending → running, with a new session.
func (t Task) start(c Clock) (Task, []effects.Effect) {
	t.State = TaskState{Type: TaskRunning, StartedAt: c.Now}
	t.LastHeartbeat, t.LastProgress, t.UpdatedAt = c.Now, c.Now, c.Now
	t.Progress, t.Screen = "", ""
	if t.PipelineID != uuid.Nil && t.Config.CheckpointIntervalMS > 0 {
		t.CheckpointAt = laterMS(c.Now, t.Config.CheckpointIntervalMS)
	}
	effs := []effects.Effect{t.announce("started", nil)}
	if len(t.Command) == 0 {
		return t, effs
	}
	t.SessionID, t.Spawned = sessionName(t.ID, t.Restarts), true
	return t.ask(effects.Spawn{
		N: t.Asked.next(), Session: t.SessionID, Workspace: t.Workspace, Command: t.Command, Env: t.Env, Input: t.Prompt,
	}, effs)
}

// due does what the deadline is about.
func (t Task) due(e TaskDue, c Clock) (Task, []effects.Effect) {
	at := t.Deadline()
	if at.IsZero() {
		return t, t.refuse(e, effects.CodeConflict, fmt.Sprintf("task %s is %s: it waits for no time", t.ID, t.State.Type))
	}
	if at.After(c.Now) {
		return t, t.refuse(e, effects.CodeConflict, fmt.Sprintf("task %s is due at %s, after %s", t.ID, at, c.Now))
	}
	if end := t.timeoutAt(); !end.IsZero() && !end.After(c.Now) {
		return t.fail("timed out after "+lengthText(t.Config.TimeoutMS), c)
	}
	switch t.State.Type {
	case TaskPending:
		return t.start(c)
	case TaskStuck:
		return t.step(c)
	case TaskRunning, TaskDone:
	}
	return t.watch(c)
}

// watch: running → stuck where heartbeats or progress are missing; and it is
// time for a checkpoint now and then.
func (t Task) watch(c Clock) (Task, []effects.Effect) {
	t.UpdatedAt = c.Now
	var effs []effects.Effect
	if !t.CheckpointAt.IsZero() && !t.CheckpointAt.After(c.Now) {
		effs = append(effs, effects.Checkpoint{Pipeline: t.PipelineID, Message: t.report(c)})
		t.CheckpointAt = laterMS(c.Now, t.Config.CheckpointIntervalMS)
	}
	switch {
	case t.waits(isSpawn):
	case !t.heartbeatAt().After(c.Now):
		return t.stuck(StuckReason{Type: StuckNoHeartbeat, LastSeen: t.LastHeartbeat}, effs, c)
	case !t.progressAt().After(c.Now):
		return t.stuck(StuckReason{Type: StuckNoProgress, DurationMS: betweenMS(t.LastProgress, c.Now)}, effs, c)
	}
	return t, effs
}

// report is what a checkpoint says.
func (t Task) report(c Clock) string {
	text := fmt.Sprintf("%s: running for %s, last progress %s ago", t.title(), lengthText(betweenMS(t.State.StartedAt, c.Now)), lengthText(betweenMS(t.LastProgress, c.Now)))
	if t.Progress != "" {
		text += ": " + t.Progress
	}
	return firstText(text)
}

// stuck: running → stuck. The first step of the recovery follows after an
// interval, so that a task which only was slow can come back by itself.
func (t Task) stuck(reason StuckReason, effs []effects.Effect, c Clock) (Task, []effects.Effect) {
	t.State = TaskState{Type: TaskStuck, StartedAt: t.State.StartedAt, DetectedAt: c.Now, Reason: reason}
	t.RecoverAt = laterMS(c.Now, t.Config.RecoveryIntervalMS)
	t.UpdatedAt = c.Now
	data, _ := json.Marshal(struct {
		Reason StuckReason `json:"reason"`
	}{reason}) // strings and numbers always encode
	return t, append(effs, t.announce("stuck", data))
}

// complete: running, stuck → done(success).
func (t Task) complete(e TaskComplete, c Clock) (Task, []effects.Effect) {
	output, err := boundedJSON("output", e.Output)
	if err != nil {
		return t, t.refuse(e, effects.CodeInvalid, err.Error())
	}
	return t.finish(TaskResult{Type: TaskSuccess, Output: output}, c)
}

// fail: → done(failed).
func (t Task) fail(reason string, c Clock) (Task, []effects.Effect) {
	return t.finish(TaskResult{Type: TaskFailed, Error: reason}, c)
}

// finish: → done. What was asked of the session is taken back, and the session
// is killed; the answer to that is waited for beyond the end.
func (t Task) finish(result TaskResult, c Clock) (Task, []effects.Effect) {
	t, effs := t.endSession()
	t.State = TaskState{Type: TaskDone, Result: result}
	t.RecoverAt, t.CheckpointAt, t.Nudged = 0, 0, false
	t.UpdatedAt, t.FinishedAt = c.Now, c.Now
	switch result.Type {
	case TaskSuccess:
		effs = append(effs, t.announce("complete", nil))
		return t, append(effs, t.Owner.ended(ChildEnded{Child: t.Ref(), Outcome: ChildSucceeded, Result: result.Output})...)
	case TaskCancelled:
		effs = append(effs, t.announce("cancelled", announcementTexts("reason", result.Reason)))
		return t, append(effs, t.Owner.ended(ChildEnded{Child: t.Ref(), Outcome: ChildCancelled, Reason: result.Reason})...)
	case TaskFailed:
	}
	effs = append(effs, t.announce("failed", announcementTexts("error", result.Error)))
	return t, append(effs, t.Owner.ended(ChildEnded{Child: t.Ref(), Outcome: ChildFailed, Reason: result.Error})...)
}

// announce says something of the task on the bus.
func (t Task) announce(action string, data json.RawMessage) effects.Effect {
	return effects.Emit{Event: effects.Event{
		Kind:   effects.EventKind{Category: "task", Action: action},
		Source: effects.EventSource{Component: "task", ID: t.ID},
		Data:   data,
	}}
}

// title names the task to a reader.
func (t Task) title() string {
	if t.Label == "" {
		return "task " + t.ID.String()
	}
	return "task " + t.Label
}

// Ref names the task.
func (t Task) Ref() effects.Ref {
	if t.ID == uuid.Nil {
		return effects.Ref{}
	}
	return effects.Ref{Kind: KindTask, ID: t.ID}
}

// timeoutAt is when the whole task ends; zero: never.
func (t Task) timeoutAt() Time {
	if t.Config.TimeoutMS <= 0 {
		return 0
	}
	return laterMS(t.CreatedAt, t.Config.TimeoutMS)
}

func (t Task) heartbeatAt() Time { return laterMS(t.LastHeartbeat, t.Config.HeartbeatTimeoutMS) }
func (t Task) progressAt() Time  { return laterMS(t.LastProgress, t.Config.IdleTimeoutMS) }

// Deadline is when the task is to be started, recovered, found stuck, ended, or
// when its pipeline is to get a checkpoint; zero where it waits for the answer
// to an effect alone, and once it is done.
func (t Task) Deadline() Time {
	at := t.timeoutAt()
	sooner := func(other Time) {
		if other = max(other, effects.MinTime); at.IsZero() || other < at {
			at = other
		}
	}
	switch t.State.Type {
	case TaskPending:
		if !t.waits(isKill) {
			sooner(t.UpdatedAt)
		}
		return at
	case TaskRunning:
		if !t.waits(isSpawn) { // no session yet: nothing to hear of
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

// Terms lists the task under all, its state and its tenant.
func (t Task) Terms() []effects.Term {
	return []effects.Term{
		{Name: TermAll, At: t.CreatedAt, Counted: true},
		{Name: StatusTerm(StatusType(t.State.Type)), At: t.CreatedAt, Counted: true},
		{Name: ScopeTerm(t.Namespace, t.Tenant), At: t.CreatedAt},
	}
}

// AppendJSON appends the stored form.
func (t Task) AppendJSON(b []byte) []byte { return appendMarshaled(b, t) }

func (t Task) apply(e Event, c Clock) (State, []effects.Effect) {
	own, ok := e.(TaskEvent)
	if !ok {
		return t, t.refuse(e, effects.CodeInvalid, fmt.Sprintf("a task takes no event %q", e.EventType()))
	}
	return t.Apply(own, c)
}

func (t Task) refuse(e Event, code effects.Code, reason string) []effects.Effect {
	return refused(effects.Ref{Kind: KindTask, ID: t.ID}, e, code, reason)
}
