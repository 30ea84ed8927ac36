package core

import "github.com/google/uuid"

// JobEvent is an event of [Job]. The set is closed.
//
//sumtype:decl
type JobEvent interface {
	Event
	jobEvent()
}

type (
	// JobApply makes a job, or gives it a new configuration.
	JobApply struct {
		Spec JobSpec `json:"spec"`
	}
	// JobDue says that the run of the next time is to be made.
	JobDue struct{}
	// JobTrigger makes a run now, beside those of the schedule. Answered by [JobTriggered].
	JobTrigger struct {
		By string `json:"by"`
		// DedupKey, where there is one, makes it safe to repeat the request: while it is among
		// the last MaxTriggerKeys of the job, no second run is made, and the answer
		// names the first.
		DedupKey string `json:"dedup_key,omitempty"`
		Owner    Owner  `json:"owner"` // told where it is refused
	}
	// JobPause makes no more runs until it is resumed.
	JobPause struct {
		Reason string `json:"reason"`
	}
	// JobResume lets a paused job make runs from now on.
	JobResume struct{}
	// JobDelete removes the job, and cancels its runs, which go on to clean up.
	JobDelete struct {
		Reason string `json:"reason"`
	}
	// JobSkipNext skips one more of the next times of the schedule, also where its
	// run waits already.
	JobSkipNext struct {
		Reason string `json:"reason"`
	}
	// JobKill cancels the run that got its slot last, or all whose time has come,
	// but for one.
	JobKill struct {
		Except uuid.UUID `json:"except"`
		All    bool      `json:"all"`
		Reason string    `json:"reason"`
	}
	// JobAdmit asks for a slot for a run, whose time has come. The run sends it, and
	// is told of a refusal.
	JobAdmit struct {
		Run uuid.UUID `json:"run"`
	}
	// JobRunEnded says that a run has ended.
	JobRunEnded struct {
		Run      uuid.UUID          `json:"run"`
		State    OrchestratorStatus `json:"state"`
		ExitCode *int32             `json:"exit_code"`
		Error    string             `json:"error"`
	}
)

func (JobApply) jobEvent()    {}
func (JobDue) jobEvent()      {}
func (JobTrigger) jobEvent()  {}
func (JobPause) jobEvent()    {}
func (JobResume) jobEvent()   {}
func (JobDelete) jobEvent()   {}
func (JobSkipNext) jobEvent() {}
func (JobKill) jobEvent()     {}
func (JobAdmit) jobEvent()    {}
func (JobRunEnded) jobEvent() {}
func (ChildEnded) jobEvent()  {}

func (e JobTrigger) owner() Owner { return e.Owner }
func (e JobAdmit) owner() Owner   { return Owner{Ref: runRef(e.Run)} }

// JobTriggered answers a [JobTrigger]: it names the run that was made, or that the
// dedup key had made before.
type JobTriggered struct {
	Run       uuid.UUID `json:"run"`
	RunID     string    `json:"run_id"`
	Duplicate bool      `json:"duplicate"`
}

// AppendJSON appends it as JSON.
func (t JobTriggered) AppendJSON(b []byte) []byte { return appendMarshaled(b, t) }

// EventType gives the discriminator.
func (JobApply) EventType() string { return "apply" }

// EventType gives the discriminator.
func (JobDue) EventType() string { return typeDue }

// EventType gives the discriminator.
func (JobTrigger) EventType() string { return "trigger" }

// EventType gives the discriminator.
func (JobPause) EventType() string { return "pause" }

// EventType gives the discriminator.
func (JobResume) EventType() string { return "resume" }

// EventType gives the discriminator.
func (JobDelete) EventType() string { return "delete" }

// EventType gives the discriminator.
func (JobSkipNext) EventType() string { return "skip_next" }

// EventType gives the discriminator.
func (JobKill) EventType() string { return "kill" }

// EventType gives the discriminator.
func (JobAdmit) EventType() string { return "admit" }

// EventType gives the discriminator.
func (JobRunEnded) EventType() string { return "run_ended" }

// AppendJSON appends the journal form.
func (e JobApply) AppendJSON(b []byte) []byte {
	e.Spec = e.Spec.withDefaults()
	return appendEvent(b, e.EventType(), e)
}

// AppendJSON appends the journal form.
func (e JobDue) AppendJSON(b []byte) []byte { return bare(b, e.EventType()) }

// AppendJSON appends the journal form.
func (e JobTrigger) AppendJSON(b []byte) []byte {
	e.By, e.DedupKey = validText(e.By), validText(e.DedupKey)
	return appendEvent(b, e.EventType(), e)
}

// AppendJSON appends the journal form.
func (e JobPause) AppendJSON(b []byte) []byte {
	e.Reason = validText(e.Reason)
	return appendEvent(b, e.EventType(), e)
}

// AppendJSON appends the journal form.
func (e JobResume) AppendJSON(b []byte) []byte { return bare(b, e.EventType()) }

// AppendJSON appends the journal form.
func (e JobDelete) AppendJSON(b []byte) []byte {
	e.Reason = validText(e.Reason)
	return appendEvent(b, e.EventType(), e)
}

// AppendJSON appends the journal form.
func (e JobSkipNext) AppendJSON(b []byte) []byte {
	e.Reason = validText(e.Reason)
	return appendEvent(b, e.EventType(), e)
}

// AppendJSON appends the journal form.
func (e JobKill) AppendJSON(b []byte) []byte {
	e.Reason = validText(e.Reason)
	return appendEvent(b, e.EventType(), e)
}

// AppendJSON appends the journal form.
func (e JobAdmit) AppendJSON(b []byte) []byte { return appendEvent(b, e.EventType(), e) }

// AppendJSON appends the journal form.
func (e JobRunEnded) AppendJSON(b []byte) []byte {
	e.Error = validText(e.Error)
	return appendEvent(b, e.EventType(), e)
}

func decodeJobEvent(typ string, b []byte) (Event, error) {
	switch typ {
	case JobApply{}.EventType():
		return decodeAs[JobApply](b)
	case JobDue{}.EventType():
		return JobDue{}, nil
	case JobTrigger{}.EventType():
		return decodeAs[JobTrigger](b)
	case JobPause{}.EventType():
		return decodeAs[JobPause](b)
	case JobResume{}.EventType():
		return JobResume{}, nil
	case JobDelete{}.EventType():
		return decodeAs[JobDelete](b)
	case JobSkipNext{}.EventType():
		return decodeAs[JobSkipNext](b)
	case JobKill{}.EventType():
		return decodeAs[JobKill](b)
	case JobAdmit{}.EventType():
		return decodeAs[JobAdmit](b)
	case JobRunEnded{}.EventType():
		return decodeAs[JobRunEnded](b)
	}
	return decodeShared[JobEvent](typ, b)
}
