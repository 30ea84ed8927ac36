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
	// tracked are skipped. It is a report of all runs, of which one comes in each
	// interval: those that it does not name have missed a heartbeat.
	SchedulerHeartbeats struct {
		Runs []uuid.UUID `json:"runs,omitempty"`
		// All: instead of Runs, those of all runs that are tracked but for the Except,
		// see [Scheduler.Shortened].
		All    bool        `json:"all,omitempty"`
		Except []uuid.UUID `json:"except,omitempty"`
		// IntervalMS and MaxMissed are as the daemon is configured; 0: as they were.
		IntervalMS int64  `json:"interval_ms,omitempty"`
		MaxMissed  uint32 `json:"max_missed,omitempty"`
		// Some: it is no report, and says nothing of runs that it does not name.
		Some bool `json:"some,omitempty"`
		// Begins: it is the first report of a process, or the first one after the process
		// was stopped for a while: all runs are as the Unseen are.
		Begins bool `json:"begins,omitempty"`
		// Unseen are the runs that have pods at which no runner has looked since the process
		// began: nobody can say whether they beat. Their counts begin with the next report but one.
		Unseen []uuid.UUID `json:"unseen,omitempty"`
	}
	// SchedulerForget says that a run has ended.
	SchedulerForget struct {
		Run uuid.UUID `json:"run"`
	}
	// SchedulerDue says that heartbeats are missing.
	SchedulerDue struct {
		// Unwatched: in this process nobody has reported yet. What was missed in the one
		// before orphans nobody.
		Unwatched bool `json:"unwatched,omitempty"`
	}
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
