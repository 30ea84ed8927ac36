package core

import (
	"fmt"

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
// does not rest there. What a run has in a cluster is deleted before it is tried
// again or comes to an end, but for an orphaned one, which deletes it afterwards,
// or lets it go on and notes how it ends.
//
// Invariants, held by property tests:
//   - Only edges of the map are taken, each is announced, and PreviousState is
//     where the last one began.
//   - A run that has ended stays so, but for expire.
//   - The end is told once to the bus, the job and the scheduler: with the entry into
//     it; and to the occurrence: then, or where a place was given to the run as it
//     ended, when it hears of that.
//   - The metrics are announced once, after the end.
//   - RetryAttempt never exceeds the configured number of retries, and grows by one
//     with each step from retrying to pending.
//   - Nothing is in a cluster, nor asked for there, but from container_creating to
//     terminating, and where an orphaned run has left something.
//   - At most one effect is waited for, and after the end only by an orphaned run
//     that cleans up.
//   - Actions are taken one after the other, each is noted once, and those that are
//     left wait for the one that is asked for.
//   - A due event leaves no deadline that has come.
//   - The configuration changes only in pre_run.
//   - Each lock that was taken for the run is given back once, when nothing of it is
//     left: at its end, or once an orphaned run has cleaned up.
type Orchestrator struct {
	RunSpec
	State         OrchestratorStatus `json:"state"`
	PreviousState OrchestratorStatus `json:"previous_state"`
	RetryAttempt  uint32             `json:"retry_attempt"` // 0: the first attempt
	Admitted      bool               `json:"admitted"`      // the job has given it a place
	Occurrence    uuid.UUID          `json:"occurrence"`    // the job's record of it; zero: it had no place
	Step          RunStep            `json:"step"`          // what it does within its state
	Leaving       Leaving            `json:"leaving"`       // where it goes once its cluster is cleaned up
	InCluster     bool               `json:"in_cluster"`    // something may be there
	Asked         PendingEffects     `json:"asked"`
	Repeats       uint32             `json:"repeats"` // of the effect that it waits for

	Checks   []ConstraintCheck `json:"checks"`  // the latest evaluations, without their actions
	Actions  []ActionRecord    `json:"actions"` // the latest that were taken
	ToTake   []ActionRequest   `json:"to_take"` // those that are still to be taken
	Decision Decision          `json:"decision"`
	// MaxAllowedRunTimeMS is how long the pod may run (R15); 0: no bound.
	MaxAllowedRunTimeMS int64 `json:"max_allowed_run_time_ms"`

	Pod  Pod     `json:"pod"`
	Logs RunLogs `json:"logs"`
	// Locks are the names of those that constraints have taken for it, see
	// [RunLockHolder]. A further attempt keeps them.
	Locks []string `json:"locks"`

	// The boundaries of phases; but for the first and the last those of the present
	// attempt.
	CreatedAt              Time `json:"created_at"`
	ConstraintCheckStarted Time `json:"constraint_check_started"`
	CreationAskedAt        Time `json:"creation_asked_at"` // of the pod
	ExecutionStartedAt     Time `json:"execution_started_at"`
	ExecutionEndedAt       Time `json:"execution_ended_at"`
	RetryAt                Time `json:"retry_at"`  // the next attempt begins then
	SparedAt               Time `json:"spared_at"` // a late due event has put off the state's limit; zero: none has
	CompletedAt            Time `json:"completed_at"`
	UpdatedAt              Time `json:"updated_at"`

	Error       string              `json:"error"`                  // why it failed, was cancelled or is tried again; empty: it was not
	LastFailure string              `json:"last_failure,omitempty"` // why the attempt before this one failed
	Metrics     OrchestratorMetrics `json:"metrics"`
	Reported    bool                `json:"reported"` // the metrics were announced
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

// Leaving says where a run goes once its cluster is cleaned up.
type Leaving struct {
	To     OrchestratorStatus `json:"to"` // empty: nowhere yet
	Reason string             `json:"reason"`
	// Final: no other attempt follows a failure.
	Final bool `json:"final"`
}

// Apply carries out one transition.
func (o Orchestrator) Apply(e OrchestratorEvent, c Clock) (Orchestrator, []effects.Effect) {
	switch {
	case o.ID == uuid.Nil:
		if create, ok := e.(OrchestratorCreate); ok {
			return o.create(create, c)
		}
		return o, o.refuse(e, effects.CodeNotFound, "run not found")
	case !o.State.known():
		return o, o.refuse(e, effects.CodeConflict, fmt.Sprintf("run %s is in the unknown state %q", clip(o.RunID), clip(string(o.State))))
	case o.State.Terminal():
		return o.afterEnd(e, c)
	}
	switch e := e.(type) {
	case OrchestratorDue:
		return o.due(e, c)
	case OrchestratorAdmit:
		return o.admit(e, c)
	case OrchestratorConfigure:
		return o.configure(e, c)
	case OrchestratorCancel:
		return o.cancel(e, c)
	case OrchestratorRetry:
		if o.State == OrchestratorRetrying {
			return o.retry(c)
		}
	case OrchestratorOrphan:
		return o.orphan(e, c)
	case PodCreated:
		return o.podCreated(e, c)
	case PodRunning:
		return o.podRunning(e, c)
	case PodEnded:
		return o.podEnded(e, c)
	case PodLost:
		return o.podLost(e, c)
	case ChildEnded:
		return o.childEnded(e, c)
	case EffectDone:
		return o.effectDone(e, c)
	case EffectFailed:
		return o.effectFailed(e, c)
	case EffectInterrupted:
		return o.effectInterrupted(e, c)
	case EffectHandedBack:
		return o.effectHandedBack(e, c)
	case OrchestratorCreate:
		return o, o.refuse(e, effects.CodeExists, fmt.Sprintf("run_id: run %s exists already", clip(o.RunID)))
	case OrchestratorHeartbeats, OrchestratorExpire:
	}
	return o, o.refuseNow(e)
}

// create: (absent) → pre_run.
func (o Orchestrator) create(e OrchestratorCreate, c Clock) (Orchestrator, []effects.Effect) {
	spec := e.Spec
	spec.Config = spec.Config.withDefaults()
	if err := spec.Validate(); err != nil {
		return o, refused(effects.Ref{Kind: KindOrchestrator, ID: spec.ID}, e, effects.CodeInvalid, err.Error())
	}
	n := Orchestrator{RunSpec: spec, State: OrchestratorPreRun, CreatedAt: c.Now, UpdatedAt: c.Now}
	n.Metrics = OrchestratorMetrics{
		RunID: n.RunID, JobID: n.JobID, Namespace: n.Namespace, Tenant: n.Tenant, ScheduledAt: n.ScheduledAt, MaxRetries: n.Config.RetryConfig.MaxRetries,
	}
	return n, []effects.Effect{n.entered(), effects.Send{To: n.scheduler(), Event: SchedulerTrack{Run: n.ID}}}
}

// to takes an edge of the map and announces it. An edge that the map has not is a
// defect; the run then stays where it is.
func (o Orchestrator) to(state OrchestratorStatus, effs []effects.Effect, c Clock) (Orchestrator, []effects.Effect) {
	n, err := o.transitionTo(state)
	if err != nil {
		return o, append(effs, o.announce("invalid_transition", announcementData(struct {
			Error string `json:"error"`
		}{err.Error()})))
	}
	n.UpdatedAt, n.Repeats, n.SparedAt = c.Now, 0, 0
	return n, append(effs, n.entered())
}

// entered announces the state, with what a log line of it has (004 Structured
// Logging Fields).
func (o Orchestrator) entered() effects.Effect {
	return o.announce(string(o.State), announcementData(struct {
		RunID       string             `json:"run_id"`
		JobID       string             `json:"job_id"`
		ScheduledAt Time               `json:"scheduled_at"`
		From        OrchestratorStatus `json:"from,omitempty"`
		Attempt     uint32             `json:"attempt"`
		Error       string             `json:"error,omitempty"`
	}{o.RunID, o.JobID, o.ScheduledAt, o.PreviousState, o.RetryAttempt, o.Error}))
}

// A due event that comes later than lateDueMS says that nobody watched the pod
// meanwhile: it may well have started or ended in time. The run waits spareMS to
// hear of it, once.
const (
	lateDueMS = 10_000
	spareMS   = 30_000
)

// due: the time has come for what the state waits for.
func (o Orchestrator) due(e OrchestratorDue, c Clock) (Orchestrator, []effects.Effect) {
	at := o.Deadline()
	switch {
	case at.IsZero():
		return o, o.refuse(e, effects.CodeConflict, fmt.Sprintf("run %s waits for no time", clip(o.RunID)))
	case at.After(c.Now):
		return o, o.refuse(e, effects.CodeConflict, fmt.Sprintf("run %s is due at %s, after %s", clip(o.RunID), at, c.Now))
	}
	watched := o.State == OrchestratorContainerCreating || o.State == OrchestratorRunning
	if watched && o.SparedAt.IsZero() && betweenMS(at, c.Now) > lateDueMS {
		o.SparedAt, o.UpdatedAt = max(c.Now, effects.MinTime), c.Now
		return o, nil
	}
	switch o.State {
	case OrchestratorPreRun:
		return o.pend(c)
	case OrchestratorPending:
		return o.fail(o.tooLate(c), true, nil, c)
	case OrchestratorContainerCreating:
		reason := "the pod did not start within " + lengthText(o.Config.PodStartTimeoutMS)
		if why := o.Pod.why(); why != "" {
			reason += ": " + why
		}
		return o.fail(reason, false, nil, c)
	case OrchestratorRunning:
		return o.overrun(c)
	case OrchestratorRetrying:
		return o.retry(c)
	default: // none of the others has a deadline
		return o, o.refuseNow(e)
	}
}

func (o Orchestrator) tooLate(c Clock) string {
	return fmt.Sprintf("missed: it has no place %s after its time, and its start deadline is %s",
		lengthText(betweenMS(o.ScheduledAt, c.Now)), lengthText(o.Config.startDeadline()))
}

// why says why a pod waits, or ended.
func (p Pod) why() string {
	switch {
	case p.Reason == "":
		return p.Message
	case p.Message == "":
		return p.Reason
	}
	return firstText(p.Reason + ": " + p.Message)
}

// retry: retrying → pending. Each attempt is a whole life (004 Retry Logic), but
// it keeps its place.
func (o Orchestrator) retry(c Clock) (Orchestrator, []effects.Effect) {
	failure := o.Error
	o.RetryAttempt++
	o.Metrics.RetryAttempt = o.RetryAttempt
	o = o.forgetAttempt()
	o.LastFailure = failure
	o, effs := o.to(OrchestratorPending, nil, c)
	return o.begin(append(effs, o.update(updateRetry, failure)), c)
}

func (o Orchestrator) forgetAttempt() Orchestrator {
	o.Decision, o.ToTake, o.Step, o.Leaving = Decision{}, nil, StepNone, Leaving{}
	o.Pod, o.Logs, o.MaxAllowedRunTimeMS, o.RetryAt, o.Error = Pod{}, RunLogs{}, 0, 0, ""
	o.ConstraintCheckStarted, o.CreationAskedAt, o.ExecutionStartedAt, o.ExecutionEndedAt = 0, 0, 0, 0
	return o
}

// pend: pre_run → pending, where it asks its job for a place; or where it is too
// late for that → failed.
func (o Orchestrator) pend(c Clock) (Orchestrator, []effects.Effect) {
	o, effs := o.to(OrchestratorPending, nil, c)
	if !o.Manual && betweenMS(o.ScheduledAt, c.Now) >= o.Config.startDeadline() {
		return o.fail(o.tooLate(c), true, effs, c)
	}
	return o, append(effs, effects.Send{To: o.job(), Event: JobAdmit{Run: o.ID}})
}

// admit: the job has a place.
func (o Orchestrator) admit(e OrchestratorAdmit, c Clock) (Orchestrator, []effects.Effect) {
	if o.State != OrchestratorPending || o.Admitted {
		return o, o.refuseNow(e)
	}
	o.Admitted, o.Occurrence = true, e.Occurrence
	return o.begin(nil, c)
}

// begin: pending → condition_running, or without constraints container_creating.
func (o Orchestrator) begin(effs []effects.Effect, c Clock) (Orchestrator, []effects.Effect) {
	o.ConstraintCheckStarted = c.Now
	if len(o.Config.ConstraintConfig) == 0 {
		return o.createPod(effs, c)
	}
	o, effs = o.to(OrchestratorConditionPending, effs, c)
	o, effs = o.to(OrchestratorConditionRunning, effs, c)
	return o.ask(effects.CheckConstraints{N: o.Asked.next(), Phase: effects.CheckPre}, effs)
}

// createPod: → container_creating. Nothing is asked for in a cluster on a way that
// the map does not know.
func (o Orchestrator) createPod(effs []effects.Effect, c Clock) (Orchestrator, []effects.Effect) {
	if _, err := o.transitionTo(OrchestratorContainerCreating); err != nil {
		return o.fail(err.Error(), true, effs, c)
	}
	o, effs = o.to(OrchestratorContainerCreating, effs, c)
	o.CreationAskedAt, o.InCluster = c.Now, true
	return o.ask(effects.CreateRun{N: o.Asked.next(), Attempt: o.RetryAttempt}, effs)
}

func (o Orchestrator) ask(e effects.Outer, effs []effects.Effect) (Orchestrator, []effects.Effect) {
	o.Asked, o.Repeats = o.Asked.ask(e), 0
	return o, append(effs, e)
}

// configure takes a new configuration while the run waits for its time (E10).
func (o Orchestrator) configure(e OrchestratorConfigure, c Clock) (Orchestrator, []effects.Effect) {
	if o.State != OrchestratorPreRun {
		return o, o.refuseNow(e)
	}
	spec := o.RunSpec
	spec.Config = e.Config.withDefaults()
	if err := spec.Validate(); err != nil {
		return o, o.refuse(e, effects.CodeInvalid, err.Error())
	}
	o.RunSpec, o.UpdatedAt = spec, c.Now
	o.Metrics.MaxRetries = spec.Config.RetryConfig.MaxRetries
	return o, nil
}

// cancel: any that is not terminal → cancelled, once its cluster is cleaned up.
func (o Orchestrator) cancel(e OrchestratorCancel, c Clock) (Orchestrator, []effects.Effect) {
	if o.Leaving.To == OrchestratorCancelled {
		return o, o.refuse(e, effects.CodeConflict, fmt.Sprintf("run %s is being cancelled already", clip(o.RunID)))
	}
	return o.leave(Leaving{To: OrchestratorCancelled, Reason: boundedReason(e.Reason, "cancelled")}, nil, c)
}

// orphan: any that is not terminal → orphaned. A pod that runs goes on where the
// job adopts it; all else is deleted: of a pod that is only asked for nobody may
// ever hear.
func (o Orchestrator) orphan(e OrchestratorOrphan, c Clock) (Orchestrator, []effects.Effect) {
	runs := o.State == OrchestratorRunning && o.Leaving.To == ""
	asked, effs := o.Asked.withdrawn()
	o.Asked = asked
	o.Error = fmt.Sprintf("no heartbeat since %s: %d were missed", min(max(e.LastHeartbeat, 0), maxTime), e.Missed)
	o, effs = o.end(OrchestratorOrphaned, effs, c)
	switch {
	case !o.InCluster:
		return o, effs
	case runs && o.Config.OrphanPolicy == OrphanAdopt:
		o.Step = StepAdopted
		return o, effs
	}
	return o.fetchLogs(effs)
}

// Ref names the run.
func (o Orchestrator) Ref() effects.Ref {
	if o.ID == uuid.Nil {
		return effects.Ref{}
	}
	return effects.Ref{Kind: KindOrchestrator, ID: o.ID}
}

// Deadline is the scheduled time, the start deadline of a run that waits for a
// place, the end of the pod's time to start or to run, or the time of the next
// attempt; zero where the run waits for none. A run by hand waits for a place as
// long as it takes, and so does one that replaces others: they are about to end.
func (o Orchestrator) Deadline() Time {
	if o.Leaving.To != "" {
		return 0
	}
	switch o.State {
	case OrchestratorPreRun:
		return max(o.ScheduledAt, effects.MinTime)
	case OrchestratorPending:
		if o.Manual || o.Config.Overlap == OverlapReplace {
			return 0
		}
		return laterMS(o.ScheduledAt, o.Config.startDeadline())
	case OrchestratorContainerCreating:
		return o.spared(laterMS(o.CreationAskedAt, o.Config.PodStartTimeoutMS))
	case OrchestratorRunning:
		if o.MaxAllowedRunTimeMS > 0 {
			return o.spared(laterMS(o.ExecutionStartedAt, o.MaxAllowedRunTimeMS))
		}
	case OrchestratorRetrying:
		return max(o.RetryAt, effects.MinTime)
	default: // what the others wait for is an answer
	}
	return 0
}

func (o Orchestrator) spared(at Time) Time {
	if o.SparedAt.IsZero() {
		return at
	}
	return max(at, laterMS(o.SparedAt, spareMS))
}

// over reports whether nothing can follow but expiry: an orphaned run that has
// something in a cluster is not.
func (o Orchestrator) over() bool {
	return o.State.Terminal() && !o.InCluster && len(o.Asked.Open) == 0
}

// endedAt: see [EndedAt].
func (o Orchestrator) endedAt() (Time, bool) { return o.CompletedAt, o.over() }

// Terms lists the run under all, its state, its tenant and its job, and under
// [TermInCluster].
func (o Orchestrator) Terms() []effects.Term {
	terms := []effects.Term{
		{Name: TermAll, At: o.CreatedAt, Counted: true},
		{Name: StatusTerm(StatusType(o.State)), At: o.CreatedAt, Counted: true},
		{Name: ScopeTerm(o.Namespace, o.Tenant), At: o.CreatedAt},
		{Name: JobTerm(o.job().ID), At: o.CreatedAt},
	}
	if o.InCluster {
		terms = append(terms, effects.Term{Name: TermInCluster, At: o.CreatedAt, Counted: true})
	}
	return terms
}

// TermInCluster is the list term of the runs that may have something in a cluster:
// what is there of any other run, nobody needs.
const TermInCluster = "in_cluster"

// JobTerm is the list term of the runs of one job.
func JobTerm(job uuid.UUID) string { return "job:" + job.String() }

// AppendJSON appends the stored form.
func (o Orchestrator) AppendJSON(b []byte) []byte { return appendMarshaled(b, o) }

func (o Orchestrator) apply(e Event, c Clock) (State, []effects.Effect) {
	return applyOwn[Orchestrator, OrchestratorEvent](o, "a run", e, c)
}

func (o Orchestrator) outstanding() []effects.Outer { return o.Asked.outstanding() }

func (o Orchestrator) job() effects.Ref       { return JobRef(o.Namespace, o.Tenant, o.JobID) }
func (o Orchestrator) scheduler() effects.Ref { return SchedulerRef(o.ID) }

func (o Orchestrator) refuse(e Event, code effects.Code, reason string) []effects.Effect {
	return refused(effects.Ref{Kind: KindOrchestrator, ID: o.ID}, e, code, reason)
}

func (o Orchestrator) refuseNow(e Event) []effects.Effect {
	return o.refuse(e, effects.CodeConflict, fmt.Sprintf("run %s is %s: it cannot take %q", clip(o.RunID), o.State, e.EventType()))
}
