package core

// WorkerEvent is an event of [Worker]. The set is closed.
//
//sumtype:decl
type WorkerEvent interface {
	Event
	workerEvent()
}

type (
	// WorkerConfigure declares a worker, or replaces what was declared under its
	// name.
	WorkerConfigure struct {
		Spec WorkerSpec `json:"spec"`
	}
	// WorkerWake lets a worker look for work (003 WakeWorker).
	WorkerWake struct{}
	// WorkerDue says that the worker's deadline has come.
	WorkerDue struct{}
	// WorkerPause lets a worker take no more items; those in hand go on.
	WorkerPause struct{}
	// WorkerResume ends a pause.
	WorkerResume struct{}
	// WorkerDelete ends a worker.
	WorkerDelete struct {
		Drain bool `json:"drain,omitempty"` // end what is in hand first, instead of being refused
	}
)

func (WorkerConfigure) workerEvent() {}
func (WorkerWake) workerEvent()      {}
func (WorkerDue) workerEvent()       {}
func (WorkerPause) workerEvent()     {}
func (WorkerResume) workerEvent()    {}
func (WorkerDelete) workerEvent()    {}
func (QueueTaken) workerEvent()      {}
func (ChildEnded) workerEvent()      {}

// wakes: see [Batch.send].
func (WorkerWake) wakes() {}

// EventType gives the discriminator in the journal.
func (WorkerConfigure) EventType() string { return "configure" }
func (WorkerWake) EventType() string      { return "wake" }
func (WorkerDue) EventType() string       { return "due" }
func (WorkerPause) EventType() string     { return "pause" }
func (WorkerResume) EventType() string    { return "resume" }
func (WorkerDelete) EventType() string    { return "delete" }

// workerEvents are the events of Worker, as the journal has them.
var workerEvents = []eventType{
	event[WorkerConfigure](), event[WorkerWake](), event[WorkerDue](), event[WorkerPause](), event[WorkerResume](),
	event[WorkerDelete](), event[QueueTaken](), event[ChildEnded](),
}
