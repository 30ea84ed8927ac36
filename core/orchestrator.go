package core

import (
	"slices"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
)

// Orchestrator is one run of a job, from its creation to its end (004
// Orchestrator, E2). Its states and the edges between them are those of
// [OrchestratorTransitions]:
//
//	create ──▶ pre_run ──▶ pending ──▶ condition_pending ──▶ condition_running
//	                        ▲   │                               │   │
//	                        │   │ no constraints   all met      │   │ actions
//	                        │   ▼                               │   ▼
//	                        │ container_creating ◀──────────────┘ action_pending
//	                        │   │        ▲                          │
//	                        │   ▼        └──── action_running ◀─────┘
//	                        │ running              │ skip
//	                        │   │                  ▼
//	                        │   ▼         ┌──▶ completed
//	                     retrying ◀── terminating ──▶ failed
//
// A failure leads to retrying while an attempt remains, and else to failed, from
// each state between pending and terminating. Cancelled and orphaned are reached
// from all that are not terminal. expire leads out of existence.
//
// condition_pending and action_pending are passed within one transition: a run
// does not rest there. Which event takes which edge stands beside the map, in
// orchestrator_states.go. What a run has in a cluster is deleted before its next
// attempt and before it ends, but an orphaned run deletes it afterwards, or lets its
// pod go on and notes how that ends. A deletion that fails is tried again for as long as it
// takes: the run stays in its state, and says so in Cleanup. If its pod has an exit code
// the run goes on to its end meanwhile, and what is left is deleted afterwards.
//
// Invariants, held by property tests:
//   - Only edges of the map are taken, each is announced, and PreviousState is
//     where the last one began.
//   - A run that has ended stays so, but for expire.
//   - The end is told once to the bus, the job and the scheduler: with the entry into
//     it; and to the occurrence: then, or if the job gave the run a slot as it ended,
//     when the run hears of that.
//   - The metrics are announced once, after the end.
//   - RetryAttempt never exceeds the configured number of retries, and grows by one
//     with each step from retrying to pending.
//   - Nothing is in a cluster, nor asked for there, but from container_creating to
//     terminating, and if a run has left something: an orphaned one, or one whose pod
//     has ended and could not be deleted.
//   - A run is completed, failed or cancelled only if nothing of it is in a cluster, or its
//     pod has ended, or an operator has abandoned it; a further attempt begins only if
//     nothing is, and never while a pod that was abandoned may live.
//   - Cleanup says that a deletion has failed if and only if cleanup_failed was announced,
//     and neither cleaned_up nor cleanup_abandoned was since.
//   - At most one effect is waited for, and after the end only by a run that cleans up.
//   - Actions are taken one after the other, each is noted once, and those that are
//     left wait for the one that is asked for.
//   - A due event leaves no deadline that has come.
//   - The configuration changes only in pre_run.
//   - Each lock that was taken for the run is given back once, when nothing of it can run
//     any more: at its end, or once an orphaned run has cleaned up.
type Orchestrator struct {
	RunSpec
	State         OrchestratorStatus `json:"state"`
	PreviousState OrchestratorStatus `json:"previous_state"`
	RetryAttempt  uint32             `json:"retry_attempt"` // 0: the first attempt
	Admitted      bool               `json:"admitted"`      // the job has given it a slot
	Occurrence    uuid.UUID          `json:"occurrence"`    // the job's record of it; zero: it had no slot
	Step          RunStep            `json:"step"`          // what it does within its state
	Exit          RunExit            `json:"leaving"`       // where it goes once its cluster is cleaned up
	InCluster     bool               `json:"in_cluster"`    // a pod of this run may be in the cluster
	Pending       PendingEffects     `json:"asked"`
	Repeats       uint32             `json:"repeats"`          // of the effect that it waits for
	Cleanup       RunCleanup         `json:"cleanup,omitzero"` // what is in the cluster could not be deleted so far

	Checks   []ConstraintCheck `json:"checks"`  // the latest evaluations, without their actions
	Actions  []ActionRecord    `json:"actions"` // the latest actions that were taken
	ToTake   []ActionRequest   `json:"to_take"` // the actions that are still to be taken
	Decision Decision          `json:"decision"`
	// MaxAllowedRunTimeMS is how long the pod may run (R15); 0: no bound.
	MaxAllowedRunTimeMS int64 `json:"max_allowed_run_time_ms"`

	Pod  Pod     `json:"pod"`
	Logs RunLogs `json:"logs"`
	// Locks are the names of the locks that constraints have taken for it, see
	// [RunLockHolder]. A further attempt keeps them.
	Locks []string `json:"locks"`

	// The boundaries of phases: CreatedAt and CompletedAt of the run, the others of the
	// present attempt.
	CreatedAt              Time `json:"created_at"`
	ConstraintCheckStarted Time `json:"constraint_check_started"`
	CreationAskedAt        Time `json:"creation_asked_at"` // of the pod
	// CreateBy is until when the cluster must have been reached: it has answered the creation,
	// or something of the attempt was seen there; zero: it was, or nothing is to be created.
	CreateBy           Time `json:"create_by,omitempty"`
	ThereAt            Time `json:"there_at,omitempty"`   // when that was, in the present attempt
	RoomAt             Time `json:"room_at,omitempty"`    // when the runner had room for a pod that waited for it; zero: none waited
	ExecutionStartedAt Time `json:"execution_started_at"` // when Orrery heard that the pod runs; see Ran
	ExecutionEndedAt   Time `json:"execution_ended_at"`   // when it heard that it does not any more, or stopped it
	RetryAt            Time `json:"retry_at"`             // the next attempt begins then
	SparedAt           Time `json:"spared_at"`            // when the state's limit was put off last, since nobody had watched; zero: it was not
	CompletedAt        Time `json:"completed_at"`
	UpdatedAt          Time `json:"updated_at"`
	// SparedMS is for how long it was put off, from SparedAt; zero: 30 s, by rules before 6.
	SparedMS int64 `json:"spared_ms,omitempty"`
	// Ran is when the pod of the present attempt ran; see [Orchestrator.PodTimes].
	Ran PodTimes `json:"ran,omitzero"`

	Error       string `json:"error"`                  // why it failed, was cancelled or makes another attempt; empty: it was not
	LastFailure string `json:"last_failure,omitempty"` // why the attempt before this one failed
	// PastAttempts are the last attempts before this one, at most [MaxPastAttempts], oldest first.
	PastAttempts []PastAttempt       `json:"past_attempts,omitempty"`
	Metrics      OrchestratorMetrics `json:"metrics"`
	Reported     bool                `json:"reported"` // the metrics were announced

	// AskedAt is when a run asked for a slot that was late, or waits for a bounded time; zero: it
	// has not, or neither holds.
	AskedAt Time `json:"asked_at,omitzero"`
}

// RunStep says what a run does within its state.
type RunStep string

// Steps.
const (
	StepNone     RunStep = ""
	StepLogs     RunStep = "logs"     // fetching what the pod wrote
	StepChecking RunStep = "checking" // post-execution constraints
	StepActing   RunStep = "acting"   // their actions
	StepDeleting RunStep = "deleting" // what it has in the cluster
	StepAdopted  RunStep = "adopted"  // it is orphaned, and its pod goes on
)

// orchestratorTransition is the application of one event to a run.
type orchestratorTransition struct {
	transition
	Orchestrator
}

// Apply carries out one transition.
func (o Orchestrator) Apply(e OrchestratorEvent, c Clock) (Orchestrator, []effects.Effect) {
	t := &orchestratorTransition{transition{clock: c, event: e}, o}
	create, creates := e.(OrchestratorCreate)
	switch {
	case creates && o.ID == uuid.Nil:
		t.create(create)
	case o.ID == uuid.Nil:
		t.refuse(effects.CodeNotFound, "run not found")
	case !o.State.known():
		t.conflict("run %s is in the unknown state %q", clip(o.RunID), clip(string(o.State)))
	case creates:
		t.refuse(effects.CodeExists, "run_id: run %s exists already", clip(o.RunID))
	case t.takeAnswer(e): // in any state
	case !o.State.Terminal():
		t.apply(e)
	default:
		t.applyEnded(e)
	}
	return concluded(o, t.Orchestrator, t.transition)
}

// takeAnswer takes the answer to the effect that the run waits for, or to what it asked
// of another machine. It reports whether the event is one of these.
func (t *orchestratorTransition) takeAnswer(e Event) bool {
	switch e := e.(type) {
	case ChildEnded:
		t.childEnded(e)
	case EffectDone, EffectFailed, EffectInterrupted, EffectHandedBack:
		t.takePending(t, &t.Pending, e, "run "+clip(t.RunID))
	default:
		return false
	}
	return true
}

// apply is the table of a run that has not ended: an event, the states that take it,
// the function that carries it out. Which edges that takes is in orchestrator_states.go.
func (t *orchestratorTransition) apply(e OrchestratorEvent) {
	switch e := e.(type) {
	case OrchestratorConfigure:
		if t.in(OrchestratorPreRun) {
			t.configure(e)
		}
	case OrchestratorAdmit:
		if t.in(OrchestratorPending) {
			t.admit(e)
		}
	case PodCreated:
		if t.in(OrchestratorContainerCreating, OrchestratorRunning) {
			t.podCreated(e)
		}
	case PodRunning:
		if t.in(OrchestratorContainerCreating, OrchestratorRunning) {
			t.podRunning(e)
		}
	case PodEnded:
		if t.in(OrchestratorContainerCreating, OrchestratorRunning, OrchestratorTerminating) {
			t.podEnded(e)
		}
	case PodLost:
		if t.in(OrchestratorContainerCreating, OrchestratorRunning) {
			t.podLost(e)
		}
	case OrchestratorRetry:
		if t.in(OrchestratorRetrying) {
			t.retry()
		}
	case OrchestratorDue:
		t.due(e)
	case OrchestratorCancel:
		t.cancel(e)
	case OrchestratorAbandon:
		t.abandon(e)
	case OrchestratorOrphan:
		t.orphan(e)
	case OrchestratorHeartbeats, OrchestratorExpire:
		t.refuseNow()
	case OrchestratorCreate, ChildEnded, EffectDone, EffectFailed, EffectInterrupted, EffectHandedBack: // see Apply
	}
}

// due is the table of a deadline that has come: the state, and what follows.
func (t *orchestratorTransition) due(e OrchestratorDue) {
	at := t.Deadline()
	if e.Seen && t.CreateBy.IsZero() { // else it is not there, and may be asked for just now
		at = t.limit()
	}
	switch {
	case !t.isDue("run "+clip(t.RunID), at):
		return
	case !t.cleanupDue().IsZero():
		t.retryCleanup()
		return
	case t.spare(at, e.Unseen):
		return
	}
	switch t.State {
	case OrchestratorPreRun:
		t.awaitSlot(e)
	case OrchestratorPending:
		t.expire()
	case OrchestratorContainerCreating:
		t.failPodStart()
	case OrchestratorRunning:
		t.stopOverrun()
	case OrchestratorRetrying:
		t.retry()
	default: // none of the others has a deadline
		t.refuseNow()
	}
}

// applyEnded is the table of a run that has ended.
func (t *orchestratorTransition) applyEnded(e OrchestratorEvent) {
	switch e := e.(type) {
	case OrchestratorHeartbeats:
		t.reportMetrics(e)
	case OrchestratorAdmit:
		t.admitEnded(e)
	case PodEnded:
		switch {
		case t.Step != StepAdopted && !t.leftToAdopt() && !t.clock.Rules.before(6):
			t.noteExit(e.Attempt, e.Pod.started())
		case t.adopts(e.Attempt):
			t.adoptedEnded(e)
		}
	case PodLost:
		if t.adopts(e.Attempt) {
			t.adoptedLost(e.Reason)
		}
	case OrchestratorCancel:
		if !t.cleanupDue().IsZero() || t.adopts(t.RetryAttempt) {
			t.retryCleanup()
		}
	case OrchestratorAbandon:
		t.abandon(e)
	case OrchestratorExpire:
		if t.ended() {
			t.Orchestrator = Orchestrator{}
			return
		}
		t.refuseNow()
	case OrchestratorDue:
		t.dueEnded()
	case OrchestratorConfigure, OrchestratorRetry, OrchestratorOrphan, PodCreated, PodRunning:
		t.refuseNow()
	case OrchestratorCreate, ChildEnded, EffectDone, EffectFailed, EffectInterrupted, EffectHandedBack: // see Apply
	}
}

// dueEnded: what a run has left in the cluster is to be deleted once more.
func (t *orchestratorTransition) dueEnded() {
	switch at := t.Deadline(); {
	case at.IsZero():
		t.refuseNow()
	case t.isDue("run "+clip(t.RunID), at):
		t.retryCleanup()
	}
}

// in reports whether the run is in one of the states that take the event, and refuses
// the event otherwise.
func (t *orchestratorTransition) in(states ...OrchestratorStatus) bool {
	if slices.Contains(states, t.State) {
		return true
	}
	t.refuseNow()
	return false
}

// create: (absent) → pre_run.
func (t *orchestratorTransition) create(e OrchestratorCreate) {
	spec, now := e.Spec, t.clock.Now
	spec.Config = spec.Config.withDefaults()
	t.Orchestrator = Orchestrator{RunSpec: spec, State: OrchestratorPreRun, CreatedAt: now, UpdatedAt: now, Metrics: OrchestratorMetrics{
		RunID: spec.RunID, JobID: spec.JobID, Namespace: spec.Namespace, Tenant: spec.Tenant,
		ScheduledAt: spec.ScheduledAt, MaxRetries: spec.Config.RetryConfig.MaxRetries,
	}}
	if t.invalid(spec.Validate()) {
		return
	}
	t.announceState()
	t.send(t.scheduler(), SchedulerTrack{Run: t.ID})
}

// configure: pre_run takes a new configuration (E10).
func (t *orchestratorTransition) configure(e OrchestratorConfigure) {
	spec := t.RunSpec
	spec.Config = e.Config.withDefaults()
	if t.invalid(spec.Validate()) {
		return
	}
	t.RunSpec, t.UpdatedAt = spec, t.clock.Now
	t.Metrics.MaxRetries = spec.Config.RetryConfig.MaxRetries
}

// beginAttempt: pending → condition_pending → condition_running; without constraints
// → container_creating.
func (t *orchestratorTransition) beginAttempt() {
	t.ConstraintCheckStarted = t.clock.Now
	if len(t.Config.ConstraintConfig) == 0 {
		t.createPod()
		return
	}
	t.to(OrchestratorConditionPending)
	t.to(OrchestratorConditionRunning)
	t.ask(effects.CheckConstraints{N: t.Pending.next(), Phase: effects.CheckPre})
}

// retry: retrying → pending. Each attempt is a whole life (004 Retry Logic), but the
// run keeps its slot.
func (t *orchestratorTransition) retry() {
	failure := t.Error
	t.notePast()
	t.RetryAttempt++
	t.Metrics.RetryAttempt = t.RetryAttempt
	t.forgetAttempt()
	t.LastFailure = failure
	t.to(OrchestratorPending)
	t.announce("update", t.update(updateRetry, failure))
	t.beginAttempt()
}

func (t *orchestratorTransition) forgetAttempt() {
	t.Decision, t.ToTake, t.Step, t.Exit = Decision{}, nil, StepNone, RunExit{}
	t.Pod, t.Logs, t.MaxAllowedRunTimeMS, t.RetryAt, t.Error = Pod{}, RunLogs{}, 0, 0, ""
	t.ConstraintCheckStarted, t.CreationAskedAt, t.CreateBy, t.ThereAt, t.RoomAt = 0, 0, 0, 0, 0
	t.ExecutionStartedAt, t.ExecutionEndedAt, t.Ran, t.Cleanup = 0, 0, PodTimes{}, RunCleanup{}
}

// reportMetrics announces the metrics once the heartbeats are counted.
func (t *orchestratorTransition) reportMetrics(e OrchestratorHeartbeats) {
	if t.Reported {
		t.refuseNow()
		return
	}
	t.Metrics.HeartbeatsSent, t.Reported = e.Sent, true
	t.announce("metrics", t.Metrics)
}

// ask issues an outer effect, and waits for its answer.
func (t *orchestratorTransition) ask(e effects.Outer) {
	t.Repeats = 0
	t.request(&t.Pending, e)
}

// refuseNow refuses an event that the run cannot take in its present state.
func (t *orchestratorTransition) refuseNow() {
	t.conflict("run %s is %s: it cannot take %q", clip(t.RunID), t.State, t.event.EventType())
}

// Ref names the run.
func (o Orchestrator) Ref() effects.Ref { return refOf(KindOrchestrator, o.ID) }

// Deadline is the scheduled time, the start deadline of a run that waits for a slot,
// the end of the cluster's time to be reached, of the pod's time to start or to run, or
// the time of the next attempt; zero if the run waits for none of these, or for room for
// its pod. A run by hand or of a backfill waits for a slot as long as it takes, and so does one of
// a buffer or that replaces others, unless its job says how long. What could not be deleted from the cluster is
// tried again at its own time, also after the end.
func (o Orchestrator) Deadline() Time {
	if at := o.cleanupDue(); !at.IsZero() {
		return at
	}
	if o.Exit.To != "" {
		return 0
	}
	switch o.State {
	case OrchestratorPreRun:
		return max(o.begins(), effects.MinTime)
	case OrchestratorPending:
		return o.slotDeadline()
	case OrchestratorContainerCreating:
		switch {
		case o.Pod.Queued:
		case !o.CreateBy.IsZero():
			return o.spared(o.CreateBy)
		default:
			return o.spared(laterMS(max(o.podDue(), o.ThereAt), o.Config.PodStartTimeoutMS))
		}
	case OrchestratorRunning:
		if o.MaxAllowedRunTimeMS > 0 {
			return o.spared(laterMS(o.ExecutionStartedAt, o.MaxAllowedRunTimeMS))
		}
	case OrchestratorRetrying:
		return max(o.RetryAt, effects.MinTime)
	default: // the others wait for an answer
	}
	return 0
}

// ended reports whether nothing can follow but expiry: a run that still has something in a
// cluster is kept.
func (o Orchestrator) ended() bool {
	return o.State.Terminal() && !o.InCluster && len(o.Pending.Open) == 0
}

// endedAt: see [EndedAt]. Callers and machines that wait for the end do not wait for a deletion
// that fails: the outcome stands, and the record stays until the deletion has succeeded.
func (o Orchestrator) endedAt() (Time, bool) {
	return o.CompletedAt, o.ended() || o.State.Terminal() && o.Cleanup.Failing()
}

// mustBeKept: see [MustBeKept].
func (o Orchestrator) mustBeKept() bool { return !o.ended() }

// AppendJSON appends the stored form.
func (o Orchestrator) AppendJSON(b []byte) []byte { return appendMarshaled(b, o) }

func (o Orchestrator) outstanding() []effects.Outer { return o.Pending.outstanding() }

func (o Orchestrator) job() effects.Ref       { return JobRef(o.Namespace, o.Tenant, o.JobID) }
func (o Orchestrator) scheduler() effects.Ref { return SchedulerRef(o.ID) }
