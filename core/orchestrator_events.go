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
	OrchestratorDue struct{}
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
	}
	// OrchestratorExpire ends the retention of a run that has ended.
	OrchestratorExpire struct{}
)

func (OrchestratorCreate) orchestratorEvent()     {}
func (OrchestratorDue) orchestratorEvent()        {}
func (OrchestratorAdmit) orchestratorEvent()      {}
func (OrchestratorConfigure) orchestratorEvent()  {}
func (OrchestratorCancel) orchestratorEvent()     {}
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

// EventType gives the discriminator.
func (OrchestratorCreate) EventType() string { return typeCreate }

// EventType gives the discriminator.
func (OrchestratorDue) EventType() string { return typeDue }

// EventType gives the discriminator.
func (OrchestratorAdmit) EventType() string { return "admit" }

// EventType gives the discriminator.
func (OrchestratorConfigure) EventType() string { return "configure" }

// EventType gives the discriminator.
func (OrchestratorCancel) EventType() string { return typeCancel }

// EventType gives the discriminator.
func (OrchestratorRetry) EventType() string { return "retry" }

// EventType gives the discriminator.
func (OrchestratorOrphan) EventType() string { return "orphan" }

// EventType gives the discriminator.
func (OrchestratorHeartbeats) EventType() string { return "heartbeats" }

// EventType gives the discriminator.
func (PodCreated) EventType() string { return "pod_created" }

// EventType gives the discriminator.
func (PodRunning) EventType() string { return "pod_running" }

// EventType gives the discriminator.
func (PodEnded) EventType() string { return "pod_ended" }

// EventType gives the discriminator.
func (PodLost) EventType() string { return "pod_lost" }

// EventType gives the discriminator.
func (OrchestratorExpire) EventType() string { return typeExpire }

// AppendJSON appends the journal form.
func (e OrchestratorCreate) AppendJSON(b []byte) []byte {
	e.Spec.Config = e.Spec.Config.withDefaults()
	return appendEvent(b, e.EventType(), e)
}

// AppendJSON appends the journal form.
func (e OrchestratorDue) AppendJSON(b []byte) []byte { return bare(b, e.EventType()) }

// AppendJSON appends the journal form.
func (e OrchestratorAdmit) AppendJSON(b []byte) []byte { return appendEvent(b, e.EventType(), e) }

// AppendJSON appends the journal form.
func (e OrchestratorConfigure) AppendJSON(b []byte) []byte {
	e.Config = e.Config.withDefaults()
	return appendEvent(b, e.EventType(), e)
}

// AppendJSON appends the journal form.
func (e OrchestratorCancel) AppendJSON(b []byte) []byte {
	e.Reason = validText(e.Reason)
	return appendEvent(b, e.EventType(), e)
}

// AppendJSON appends the journal form.
func (e OrchestratorRetry) AppendJSON(b []byte) []byte { return bare(b, e.EventType()) }

// AppendJSON appends the journal form.
func (e OrchestratorOrphan) AppendJSON(b []byte) []byte {
	e.LastHeartbeat = min(max(e.LastHeartbeat, 0), maxTime)
	return appendEvent(b, e.EventType(), e)
}

// AppendJSON appends the journal form.
func (e OrchestratorHeartbeats) AppendJSON(b []byte) []byte { return appendEvent(b, e.EventType(), e) }

// AppendJSON appends the journal form.
func (e PodCreated) AppendJSON(b []byte) []byte {
	e.Pod = e.Pod.bounded()
	return appendEvent(b, e.EventType(), e)
}

// AppendJSON appends the journal form.
func (e PodRunning) AppendJSON(b []byte) []byte {
	e.Pod = e.Pod.bounded()
	return appendEvent(b, e.EventType(), e)
}

// AppendJSON appends the journal form.
func (e PodEnded) AppendJSON(b []byte) []byte {
	e.Pod = e.Pod.bounded()
	return appendEvent(b, e.EventType(), e)
}

// AppendJSON appends the journal form.
func (e PodLost) AppendJSON(b []byte) []byte {
	e.Reason = validText(e.Reason)
	return appendEvent(b, e.EventType(), e)
}

// AppendJSON appends the journal form.
func (e OrchestratorExpire) AppendJSON(b []byte) []byte { return bare(b, e.EventType()) }

func decodeOrchestratorEvent(typ string, b []byte) (Event, error) {
	switch typ {
	case OrchestratorCreate{}.EventType():
		return decodeAs[OrchestratorCreate](b)
	case OrchestratorDue{}.EventType():
		return OrchestratorDue{}, nil
	case OrchestratorAdmit{}.EventType():
		return decodeAs[OrchestratorAdmit](b)
	case OrchestratorConfigure{}.EventType():
		return decodeAs[OrchestratorConfigure](b)
	case OrchestratorCancel{}.EventType():
		return decodeAs[OrchestratorCancel](b)
	case OrchestratorRetry{}.EventType():
		return OrchestratorRetry{}, nil
	case OrchestratorOrphan{}.EventType():
		return decodeAs[OrchestratorOrphan](b)
	case OrchestratorHeartbeats{}.EventType():
		return decodeAs[OrchestratorHeartbeats](b)
	case PodCreated{}.EventType():
		return decodeAs[PodCreated](b)
	case PodRunning{}.EventType():
		return decodeAs[PodRunning](b)
	case PodEnded{}.EventType():
		return decodeAs[PodEnded](b)
	case PodLost{}.EventType():
		return decodeAs[PodLost](b)
	case OrchestratorExpire{}.EventType():
		return OrchestratorExpire{}, nil
	}
	return decodeShared[OrchestratorEvent](typ, b)
}
