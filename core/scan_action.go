package core

import (
	"encoding/json"

	"github.com/orrery-go/orrery/effects"
)

// kind reads the kind of a machine. The frequent ones share their text; the table of kinds
// cannot be asked here, since it names the scans.
func (s *scan) kind() effects.Kind {
	name := s.quoted()
	for _, often := range [...]effects.Kind{KindAction, KindQueue, KindOccurrence, KindRecurring} {
		if string(name) == string(often) {
			return often
		}
	}
	return effects.Kind(name)
}

// plainDue is one for all, since there are many.
var plainDue Event = ActionDue{} // read-only

// scanActionEvent: see [kind].
func scanActionEvent(s *scan, name []byte) Event {
	switch string(name) {
	case "create":
		s.want(`,"spec":{`)
		e := ActionCreate{Spec: s.actionSpec()}
		e.Whole = s.next(`,"whole":true`)
		s.want("}")
		return e
	case "due":
		if s.next(`,"absences":`) {
			var e ActionDue
			s.decode(&e.Absences)
			return e
		}
		return plainDue
	case "trigger":
		return ActionTrigger{}
	case "cancel":
		e := ActionCancel{Reason: s.field(`,"reason":`)}
		if s.next(`,"mode":`) {
			e.Mode = CancelMode(s.str())
		}
		return e
	case "complete":
		run := s.run()
		s.want(`,"result":`)
		return ActionComplete{Run: run, Result: s.raw()}
	case "fail":
		e := ActionFail{Run: s.run(), Reason: s.field(`,"reason":`)}
		if s.next(`,"result":`) {
			e.Result = s.raw()
		}
		e.Permanent = s.next(`,"permanent":true`)
		e.TimedOut = s.next(`,"timed_out":true`)
		if s.next(`,"retry_after_ms":`) {
			e.RetryAfterMS = s.int64()
		}
		return e
	case "interrupt":
		return ActionInterrupt{Run: s.run(), Reason: s.field(`,"reason":`)}
	case "hand_back":
		return ActionHandBack{Run: s.run()}
	case "expire":
		return ActionExpire{}
	}
	s.fail()
	return nil
}

func (s *scan) run() uint32 {
	s.want(`,"run":`)
	return s.uint32()
}

// actionSpec reads the fields of a spec.
func (s *scan) actionSpec() (a ActionSpec) {
	s.want(`"id":`)
	a.ID = s.id()
	a.Namespace = s.field(`,"namespace":`)
	a.Tenant = s.field(`,"tenant":`)
	a.Label = s.field(`,"label":`)
	a.ToolName = s.field(`,"tool_name":`)
	a.ActionType = s.field(`,"action_type":`)
	s.want(`,"tool_input":`)
	a.ToolInput = s.raw()
	s.want(`,"trigger":{"type":"scheduled","next_tick_at":`)
	a.Trigger = Scheduled(s.time())
	s.want(`},"recurrence":`)
	if !s.next("null") { // what recurs is created once
		s.fail()
	}
	s.want(`,"policy":`)
	a.Policy = s.policy()
	a.DedupKey = s.field(`,"dedup_key":`)
	s.want(`,"metadata":`)
	a.Metadata = s.strings()
	s.want(`,"labels":`)
	a.Labels = s.strings()
	s.want(`,"occurrence":`)
	a.Occurrence = s.id()
	s.want(`,"owner":`)
	a.Owner = s.owner()
	return a
}

func (s *scan) policy() (p RunPolicy) {
	s.want(`{"on_interrupt":`)
	switch text := s.quoted(); string(text) {
	case string(InterruptFail):
		p.OnInterrupt = InterruptFail
	case string(InterruptRetry):
		p.OnInterrupt = InterruptRetry
	default:
		p.OnInterrupt = OnInterrupt(text)
	}
	s.want(`,"max_attempts":`)
	p.MaxAttempts = s.uint32()
	s.want(`,"timeout_ms":`)
	p.TimeoutMS = s.int64()
	if s.next(`,"on_failure":"retry"`) {
		p.OnFailure = FailureRetry
	}
	if s.next(`,"backoff":`) {
		s.decode(&p.Backoff)
	}
	s.want("}")
	return p
}

// decode has encoding/json read a value, of which there are few.
func (s *scan) decode(into any) {
	if v := s.value(); !s.off && json.Unmarshal(v, into) != nil {
		s.fail()
	}
}

func (s *scan) owner() (o Owner) {
	if s.next("null") {
		return o
	}
	s.want(`{"kind":`)
	o.Ref.Kind = s.kind()
	s.want(`,"id":`)
	o.Ref.ID = s.id()
	s.want(`,"n":`)
	o.N = s.uint32()
	s.want("}")
	return o
}

// action reads the stored form of an action.
func (s *scan) action() (a Action) {
	s.want("{")
	a.ActionSpec = s.actionSpec()
	s.want(`,"status":`)
	a.Status = s.status()
	s.want(`,"created_at":`)
	a.CreatedAt = s.time()
	s.want(`,"updated_at":`)
	a.UpdatedAt = s.time()
	s.want(`,"run":`)
	a.Run = s.uint32()
	s.want(`,"cycle":`)
	a.Cycle = s.uint32()
	s.want(`,"attempt":`)
	a.Attempt = s.uint32()
	s.want(`,"started_at":`)
	a.StartedAt = s.time()
	s.want(`,"finished_at":`)
	a.FinishedAt = s.time()
	s.want(`,"last_run":null,"resume_at":`) // that of what recurs has one
	a.ResumeAt = s.time()
	if s.next(`,"retry_at":`) {
		a.RetryAt = s.time()
	}
	if s.next(`,"attempts":`) {
		s.decode(&a.Attempts)
	}
	if s.next(`,"cancelling":`) {
		a.Cancelling = s.str()
	}
	s.want("}")
	return a
}

func (s *scan) status() (v Status) {
	s.want(`{"type":`)
	switch name := s.quoted(); string(name) {
	case string(StatusPending):
		v.Type = StatusPending
	case string(StatusRunning):
		v.Type = StatusRunning
	case string(StatusCompleted):
		v.Type = StatusCompleted
		s.want(`,"result":`)
		v.Result = s.raw()
	case string(StatusFailed), string(StatusCancelled):
		if v.Type = StatusCancelled; string(name) == string(StatusFailed) {
			v.Type = StatusFailed
		}
		if s.next(`,"result":`) {
			v.Result = s.raw()
		}
		v.Reason = s.field(`,"reason":`)
	default:
		s.fail()
	}
	s.want("}")
	return v
}
