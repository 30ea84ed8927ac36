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
		Spec     JobSpec   `json:"spec"`
		Absences []Absence `json:"absences,omitempty"` // as of [JobDue]
	}
	// JobDue says that the run of the next time is to be made.
	JobDue struct {
		// Absences are those in which times came that are decided now. The engine gives
		// them, see [Informed].
		Absences []Absence `json:"absences,omitempty"`
	}
	// JobTrigger makes a run now, beside those of the schedule. Answered by [JobTriggered].
	JobTrigger struct {
		By string `json:"by"`
		// DedupKey, where there is one, makes it safe to repeat the request: while it is among
		// the last MaxTriggerKeys of the job, no second run is made, and the answer
		// names the first.
		DedupKey string `json:"dedup_key,omitempty"`
		Owner    Owner  `json:"owner"` // told where it is refused
		// Env are variables that the containers of this run's pods get, beside those of the pod
		// spec or instead of them. Names that begin with ORRERY_ are the runner's.
		Env map[string]string `json:"env,omitempty"`
	}
	// JobPause makes no more runs until it is resumed, and cancels those of the schedule that
	// wait for a slot.
	JobPause struct {
		Reason   string    `json:"reason"`
		Absences []Absence `json:"absences,omitempty"` // as of [JobDue]
		By       string    `json:"by,omitempty"`
		Until    Time      `json:"until,omitzero"` // the job resumes by itself then; null: it does not
	}
	// JobResume lets a paused job make runs from now on.
	JobResume struct{}
	// JobDelete removes the job, and cancels its runs, which go on to clean up.
	JobDelete struct {
		Reason   string    `json:"reason"`
		Absences []Absence `json:"absences,omitempty"` // as of [JobDue]
		Drain    bool      `json:"drain,omitempty"`    // runs that have begun end by themselves
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
		// Late: its start deadline has passed. Absences are those in which its time came.
		Late     bool      `json:"late,omitempty"`
		Absences []Absence `json:"absences,omitempty"`
	}
	// JobRunEnded says that a run has ended.
	JobRunEnded struct {
		Run      uuid.UUID          `json:"run"`
		State    OrchestratorStatus `json:"state"`
		ExitCode *int32             `json:"exit_code"`
		Error    string             `json:"error"`
		RanMS    int64              `json:"ran_ms,omitempty"` // how long its pods ran; 0: none did
	}
	// JobRunBegan says that the pod of a run runs. Runs of jobs that have alerts send it.
	JobRunBegan struct {
		Run uuid.UUID `json:"run"`
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
func (JobRunBegan) jobEvent() {}
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

// JobApplied answers a [JobApply]: the next times at which the job runs, at most
// [NextTimesShown], as they were before and as they are now. Those of a paused job are those after its pause, if that has
// an end.
type JobApplied struct {
	NextTimesBefore []Time `json:"next_times_before"`
	NextTimes       []Time `json:"next_times"`
}

// AppendJSON appends it as JSON.
func (a JobApplied) AppendJSON(b []byte) []byte { return appendMarshaled(b, a) }

// EventType gives the discriminator in the journal.
func (JobApply) EventType() string    { return "apply" }
func (JobDue) EventType() string      { return "due" }
func (JobTrigger) EventType() string  { return "trigger" }
func (JobPause) EventType() string    { return "pause" }
func (JobResume) EventType() string   { return "resume" }
func (JobDelete) EventType() string   { return "delete" }
func (JobSkipNext) EventType() string { return "skip_next" }
func (JobKill) EventType() string     { return "kill" }
func (JobAdmit) EventType() string    { return "admit" }
func (JobRunEnded) EventType() string { return "run_ended" }
func (JobRunBegan) EventType() string { return "run_began" }

func (e JobApply) informed(absences []Absence) Event { return JobApply{e.Spec, absences} }
func (JobDue) informed(absences []Absence) Event     { return JobDue{absences} }
func (e JobPause) informed(absences []Absence) Event {
	return JobPause{e.Reason, absences, e.By, e.Until}
}
func (e JobDelete) informed(absences []Absence) Event {
	return JobDelete{e.Reason, absences, e.Drain}
}

func (e JobApply) stored() Event { return JobApply{e.Spec.withDefaults(), e.Absences} }
func (e JobTrigger) stored() Event {
	return JobTrigger{validText(e.By), validText(e.DedupKey), e.Owner, e.Env}
}
func (e JobPause) stored() Event {
	return JobPause{validText(e.Reason), e.Absences, validText(e.By), e.Until}
}
func (e JobDelete) stored() Event   { return JobDelete{validText(e.Reason), e.Absences, e.Drain} }
func (e JobSkipNext) stored() Event { return JobSkipNext{validText(e.Reason)} }
func (e JobKill) stored() Event     { return JobKill{e.Except, e.All, validText(e.Reason)} }
func (e JobRunEnded) stored() Event {
	return JobRunEnded{e.Run, e.State, e.ExitCode, validText(e.Error), e.RanMS}
}

// jobEvents are the events of Job, as the journal has them.
var jobEvents = []eventType{
	event[JobApply](), event[JobDue](), event[JobTrigger](), event[JobPause](), event[JobResume](), event[JobDelete](),
	event[JobSkipNext](), event[JobKill](), event[JobAdmit](), event[JobRunEnded](), event[ChildEnded](), event[BackfillTime](),
	event[JobRunBegan](),
}
