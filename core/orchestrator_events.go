package core

import "github.com/google/uuid"

// OrchestratorEvent is an event of [Orchestrator]. The set is closed.
//
//sumtype:decl
type OrchestratorEvent interface {
	Event
	orchestratorEvent()
}

type (
	// OrchestratorCreate makes a run, which waits for its time. The job makes it.
	OrchestratorCreate struct {
		Spec  RunSpec `json:"spec"`
		Owner Owner   `json:"owner"` // told where it is refused
	}
	// OrchestratorDue says that the run's deadline has come: its scheduled time, its
	// next attempt, or the end of what it waits for.
	OrchestratorDue struct {
		// Unseen: the run may have a pod at which no runner has looked since the process began, or
		// since its cluster could last be watched.
		// It may well have started or ended in time: the limits of pods are put off.
		Unseen bool `json:"unseen,omitempty"`
		// Seen: its runner has looked at it now, and the run was told what there is: a limit
		// of its pod that has come, and was put off until then, counts at once.
		Seen bool `json:"seen,omitempty"`
		// Absences are those in which the run's time came. The engine gives them to a run that
		// has missed its start, see [Informed].
		Absences []Absence `json:"absences,omitempty"`
	}
	// OrchestratorAdmit says that the job has a slot for the run, and has recorded
	// so. The job alone sends it.
	OrchestratorAdmit struct {
		Occurrence uuid.UUID `json:"occurrence"`
	}
	// OrchestratorConfigure brings the job's new configuration to a run that has not
	// begun (004 configUpdate).
	OrchestratorConfigure struct {
		Config JobSpec `json:"config"`
	}
	// OrchestratorCancel ends the run, and what it has in a cluster.
	OrchestratorCancel struct {
		Reason string `json:"reason"`
		// NoGrace: its pod is killed at once.
		NoGrace bool `json:"no_grace,omitempty"`
		// Missed: the run has missed its start, and so has failed. The job alone says that.
		Missed bool `json:"missed,omitempty"`
	}
	// OrchestratorAbandon ends the cleanup of a run whose deletions fail ([RunCleanup.Failing]),
	// and leaves what is in the cluster there; in every other state it is refused. The run
	// ends as it would if the deletion had succeeded, but makes no other attempt while its
	// pod may live, and its Cleanup keeps saying so. Is its runner there again, the pod is
	// deleted as one that belongs to no run.
	OrchestratorAbandon struct {
		Reason string `json:"reason"`
	}
	// OrchestratorRetry begins the next attempt of a run that waits for it at once.
	OrchestratorRetry struct{}
	// OrchestratorOrphan says that the run's heartbeats are missing. The scheduler
	// alone sends it.
	OrchestratorOrphan struct {
		LastHeartbeat Time   `json:"last_heartbeat"`
		Missed        uint32 `json:"missed"`
	}
	// OrchestratorHeartbeats says, after the end, how many heartbeats there were.
	OrchestratorHeartbeats struct {
		Sent uint64 `json:"sent"`
	}
	// PodCreated says that there is a pod, which does not run yet, or why it waits.
	PodCreated struct {
		Attempt uint32 `json:"attempt"`
		Pod     Pod    `json:"pod"`
	}
	// PodRunning says that the pod runs.
	PodRunning struct {
		Attempt uint32 `json:"attempt"`
		Pod     Pod    `json:"pod"`
	}
	// PodEnded says that the pod has ended: with an exit code, or for a reason.
	PodEnded struct {
		Attempt uint32 `json:"attempt"`
		Pod     Pod    `json:"pod"`
	}
	// PodLost says that the pod, or its Job, is gone, and nobody saw it end.
	PodLost struct {
		Attempt uint32 `json:"attempt"`
		Reason  string `json:"reason"`
		// Refused says that there was no pod that ran, and that there will be none: the
		// cluster does not make or start it. Final: nor will it one of another attempt.
		Refused bool `json:"refused,omitempty"`
		Final   bool `json:"final,omitempty"`
	}
	// OrchestratorExpire ends the retention of a run that has ended.
	OrchestratorExpire struct{}
)

func (OrchestratorCreate) orchestratorEvent()     {}
func (OrchestratorDue) orchestratorEvent()        {}
func (OrchestratorAdmit) orchestratorEvent()      {}
func (OrchestratorConfigure) orchestratorEvent()  {}
func (OrchestratorCancel) orchestratorEvent()     {}
func (OrchestratorAbandon) orchestratorEvent()    {}
func (OrchestratorRetry) orchestratorEvent()      {}
func (OrchestratorOrphan) orchestratorEvent()     {}
func (OrchestratorHeartbeats) orchestratorEvent() {}
func (PodCreated) orchestratorEvent()             {}
func (PodRunning) orchestratorEvent()             {}
func (PodEnded) orchestratorEvent()               {}
func (PodLost) orchestratorEvent()                {}
func (OrchestratorExpire) orchestratorEvent()     {}
func (ChildEnded) orchestratorEvent()             {}
func (EffectDone) orchestratorEvent()             {}
func (EffectFailed) orchestratorEvent()           {}
func (EffectInterrupted) orchestratorEvent()      {}
func (EffectHandedBack) orchestratorEvent()       {}

func (e OrchestratorCreate) owner() Owner { return e.Owner }

func (e OrchestratorDue) informed(absences []Absence) Event {
	return OrchestratorDue{e.Unseen, e.Seen, absences}
}

// askedFor: a run by hand.
func (e OrchestratorCreate) askedFor() bool { return e.Spec.Manual }

// EventType gives the discriminator in the journal.
func (OrchestratorCreate) EventType() string     { return "create" }
func (OrchestratorDue) EventType() string        { return "due" }
func (OrchestratorAdmit) EventType() string      { return "admit" }
func (OrchestratorConfigure) EventType() string  { return "configure" }
func (OrchestratorCancel) EventType() string     { return "cancel" }
func (OrchestratorAbandon) EventType() string    { return "abandon" }
func (OrchestratorRetry) EventType() string      { return "retry" }
func (OrchestratorOrphan) EventType() string     { return "orphan" }
func (OrchestratorHeartbeats) EventType() string { return "heartbeats" }
func (PodCreated) EventType() string             { return "pod_created" }
func (PodRunning) EventType() string             { return "pod_running" }
func (PodEnded) EventType() string               { return "pod_ended" }
func (PodLost) EventType() string                { return "pod_lost" }
func (OrchestratorExpire) EventType() string     { return "expire" }

func (e OrchestratorCreate) stored() Event {
	e.Spec.Config = e.Spec.Config.withDefaults()
	return e
}

func (e OrchestratorConfigure) stored() Event { return OrchestratorConfigure{e.Config.withDefaults()} }
func (e OrchestratorCancel) stored() Event {
	return OrchestratorCancel{validText(e.Reason), e.NoGrace, e.Missed}
}
func (e OrchestratorAbandon) stored() Event { return OrchestratorAbandon{validText(e.Reason)} }
func (e OrchestratorOrphan) stored() Event {
	return OrchestratorOrphan{min(max(e.LastHeartbeat, 0), maxTime), e.Missed}
}
func (e PodCreated) stored() Event { return PodCreated{e.Attempt, e.Pod.bounded()} }
func (e PodRunning) stored() Event { return PodRunning{e.Attempt, e.Pod.bounded()} }
func (e PodEnded) stored() Event   { return PodEnded{e.Attempt, e.Pod.bounded()} }
func (e PodLost) stored() Event    { return PodLost{e.Attempt, validText(e.Reason), e.Refused, e.Final} }

// orchestratorEvents are the events of Orchestrator, as the journal has them.
var orchestratorEvents = []eventType{
	event[OrchestratorCreate](), event[OrchestratorDue](), event[OrchestratorAdmit](), event[OrchestratorConfigure](),
	event[OrchestratorCancel](), event[OrchestratorAbandon](), event[OrchestratorRetry](), event[OrchestratorOrphan](), event[OrchestratorHeartbeats](),
	event[PodCreated](), event[PodRunning](), event[PodEnded](), event[PodLost](), event[OrchestratorExpire](),
	event[ChildEnded](), event[EffectDone](), event[EffectFailed](), event[EffectInterrupted](), event[EffectHandedBack](),
}
