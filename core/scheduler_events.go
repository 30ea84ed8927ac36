package core

import "github.com/google/uuid"

// SchedulerEvent is an event of [Scheduler]. The set is closed.
//
//sumtype:decl
type SchedulerEvent interface {
	Event
	schedulerEvent()
}

type (
	// SchedulerTrack begins to track a run, which made itself known.
	SchedulerTrack struct {
		Run uuid.UUID `json:"run"`
	}
	// SchedulerHeartbeats are the heartbeats of several runs at one time (004
	// OrchestratorHeartbeatMsg), which is that of the clock. Runs that are not
	// tracked are skipped.
	SchedulerHeartbeats struct {
		Runs []uuid.UUID `json:"runs,omitempty"`
		// All: instead of Runs, those of all runs that are tracked but for the Except,
		// see [Scheduler.Shortened].
		All    bool        `json:"all,omitempty"`
		Except []uuid.UUID `json:"except,omitempty"`
		// IntervalMS and MaxMissed are as the daemon is configured; 0: as they were.
		IntervalMS int64  `json:"interval_ms,omitempty"`
		MaxMissed  uint32 `json:"max_missed,omitempty"`
	}
	// SchedulerForget says that a run has ended.
	SchedulerForget struct {
		Run uuid.UUID `json:"run"`
	}
	// SchedulerDue says that heartbeats are missing, or that their time has passed.
	SchedulerDue struct{}
)

func (SchedulerTrack) schedulerEvent()      {}
func (SchedulerHeartbeats) schedulerEvent() {}
func (SchedulerForget) schedulerEvent()     {}
func (SchedulerDue) schedulerEvent()        {}

// EventType gives the discriminator in the journal.
func (SchedulerTrack) EventType() string      { return "track" }
func (SchedulerHeartbeats) EventType() string { return "heartbeats" }
func (SchedulerForget) EventType() string     { return "forget" }
func (SchedulerDue) EventType() string        { return "due" }

// schedulerEvents are the events of Scheduler, as the journal has them.
var schedulerEvents = []eventType{
	event[SchedulerTrack](), event[SchedulerHeartbeats](), event[SchedulerForget](), event[SchedulerDue](),
}
