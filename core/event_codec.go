package core

import (
	"encoding/json"
	"fmt"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
)

// Discriminators of the events, as they stand in the journal. They are unique
// within a kind, and never change once released.
const (
	typeCreate       = "create"
	typeDue          = "due"
	typeTrigger      = "trigger"
	typeCancel       = "cancel"
	typeComplete     = "complete"
	typeFail         = "fail"
	typeInterrupt    = "interrupt"
	typeHandBack     = "hand_back"
	typeExpire       = "expire"
	typeUpdate       = "update"
	typePause        = "pause"
	typeResume       = "resume"
	typeDelete       = "delete"
	typeDeduplicated = "deduplicated"
	typeDeduplicate  = "deduplicate"
	typeRecord       = "record"
	typeSettle       = "settle"
	typeClaim        = "claim"
	typeRelease      = "release"
)

// EventType gives the discriminator.
func (ActionCreate) EventType() string          { return typeCreate }
func (ActionDue) EventType() string             { return typeDue }
func (ActionTrigger) EventType() string         { return typeTrigger }
func (ActionCancel) EventType() string          { return typeCancel }
func (ActionComplete) EventType() string        { return typeComplete }
func (ActionFail) EventType() string            { return typeFail }
func (ActionInterrupt) EventType() string       { return typeInterrupt }
func (ActionHandBack) EventType() string        { return typeHandBack }
func (ActionExpire) EventType() string          { return typeExpire }
func (RecurringCreate) EventType() string       { return typeCreate }
func (RecurringDue) EventType() string          { return typeDue }
func (RecurringUpdate) EventType() string       { return typeUpdate }
func (RecurringPause) EventType() string        { return typePause }
func (RecurringResume) EventType() string       { return typeResume }
func (RecurringTrigger) EventType() string      { return typeTrigger }
func (RecurringDelete) EventType() string       { return typeDelete }
func (RecurringDeduplicated) EventType() string { return typeDeduplicated }
func (OccurrenceRecord) EventType() string      { return typeRecord }
func (OccurrenceSettle) EventType() string      { return typeSettle }
func (OccurrenceDeduplicate) EventType() string { return typeDeduplicate }
func (OccurrenceExpire) EventType() string      { return typeExpire }
func (DedupClaim) EventType() string            { return typeClaim }
func (DedupRelease) EventType() string          { return typeRelease }

func bare(b []byte, typ string) []byte {
	b = append(b, `{"type":"`...)
	b = append(b, typ...)
	return append(b, `"}`...)
}

func typed(b []byte, typ string) object {
	o := begin(b)
	o.str("type", typ)
	return o
}

// AppendJSON appends the journal form.
func (e ActionCreate) AppendJSON(b []byte) []byte {
	o := typed(b, typeCreate)
	o.key("spec")
	o.b = e.Spec.AppendJSON(o.b)
	return o.end()
}

// AppendJSON appends the journal form.
func (e ActionDue) AppendJSON(b []byte) []byte { return bare(b, typeDue) }

// AppendJSON appends the journal form.
func (e ActionTrigger) AppendJSON(b []byte) []byte { return bare(b, typeTrigger) }

// AppendJSON appends the journal form.
func (e ActionCancel) AppendJSON(b []byte) []byte {
	o := typed(b, typeCancel)
	o.str("reason", e.Reason)
	return o.end()
}

// AppendJSON appends the journal form.
func (e ActionComplete) AppendJSON(b []byte) []byte {
	o := typed(b, typeComplete)
	o.num("run", uint64(e.Run))
	if storable(e.Result) {
		o.raw("result", e.Result)
	} else {
		o.str("invalid_result", string(e.Result))
	}
	return o.end()
}

// AppendJSON appends the journal form.
func (e ActionFail) AppendJSON(b []byte) []byte {
	o := runReason(b, typeFail, e.Run, e.Reason)
	if result := e.result(); result != nil {
		o.raw("result", result)
	}
	return o.end()
}

// AppendJSON appends the journal form.
func (e ActionInterrupt) AppendJSON(b []byte) []byte {
	o := runReason(b, typeInterrupt, e.Run, e.Reason)
	return o.end()
}

func runReason(b []byte, typ string, run uint32, reason string) object {
	o := typed(b, typ)
	o.num("run", uint64(run))
	o.str("reason", reason)
	return o
}

// AppendJSON appends the journal form.
func (e ActionHandBack) AppendJSON(b []byte) []byte {
	o := typed(b, typeHandBack)
	o.num("run", uint64(e.Run))
	return o.end()
}

// AppendJSON appends the journal form.
func (e ActionExpire) AppendJSON(b []byte) []byte { return bare(b, typeExpire) }

// AppendJSON appends the journal form.
func (e RecurringCreate) AppendJSON(b []byte) []byte {
	if len(e.Spec.ActionTemplate.Payload) == 0 { // as null it would be refused by a replay
		e.Spec.ActionTemplate.Payload = json.RawMessage("{}")
	}
	return marshaled(b, typeCreate, "spec", e.Spec)
}

// AppendJSON appends the journal form.
func (e RecurringDue) AppendJSON(b []byte) []byte {
	if e.Refusal == "" {
		return bare(b, typeDue)
	}
	o := typed(b, typeDue)
	o.str("refusal", e.Refusal)
	return o.end()
}

// AppendJSON appends the journal form.
func (e RecurringUpdate) AppendJSON(b []byte) []byte {
	return marshaled(b, typeUpdate, "patch", e.Patch.withoutNilMaps())
}

// AppendJSON appends the journal form.
func (e RecurringPause) AppendJSON(b []byte) []byte {
	o := typed(b, typePause)
	o.str("by", e.By)
	o.str("reason", e.Reason)
	return o.end()
}

// AppendJSON appends the journal form.
func (e RecurringResume) AppendJSON(b []byte) []byte { return bare(b, typeResume) }

// AppendJSON appends the journal form.
func (e RecurringTrigger) AppendJSON(b []byte) []byte { return bare(b, typeTrigger) }

// AppendJSON appends the journal form.
func (e RecurringDelete) AppendJSON(b []byte) []byte { return bare(b, typeDelete) }

// AppendJSON appends the journal form.
func (e RecurringDeduplicated) AppendJSON(b []byte) []byte {
	o := typed(b, typeDeduplicated)
	o.time("last_executed_at", e.LastExecutedAt)
	return o.end()
}

// AppendJSON appends the journal form.
func (e OccurrenceRecord) AppendJSON(b []byte) []byte {
	return marshaled(b, typeRecord, "occurrence", e.Occurrence)
}

// AppendJSON appends the journal form.
func (e OccurrenceSettle) AppendJSON(b []byte) []byte {
	o := typed(b, typeSettle)
	o.str("outcome", string(e.Outcome))
	o.str("reason", e.Reason)
	o.time("started_at", e.StartedAt)
	o.time("finished_at", e.FinishedAt)
	return o.end()
}

// AppendJSON appends the journal form.
func (e OccurrenceDeduplicate) AppendJSON(b []byte) []byte {
	o := typed(b, typeDeduplicate)
	o.id("holder", e.Holder)
	return o.end()
}

// AppendJSON appends the journal form.
func (e OccurrenceExpire) AppendJSON(b []byte) []byte { return bare(b, typeExpire) }

// AppendJSON appends the journal form.
func (e DedupClaim) AppendJSON(b []byte) []byte {
	o := typed(b, typeClaim)
	o.key("create")
	o.b = e.Create.AppendJSON(o.b)
	o.time("last_executed_at", e.LastExecutedAt)
	return o.end()
}

// AppendJSON appends the journal form.
func (e DedupRelease) AppendJSON(b []byte) []byte {
	o := typed(b, typeRelease)
	o.id("holder", e.Holder)
	return o.end()
}

// marshaled appends an event with one member by encoding/json: the rare ones.
func marshaled(b []byte, typ, key string, v any) []byte {
	o := typed(b, typ)
	j, err := json.Marshal(v)
	if err != nil { // a payload that is not JSON: keep the event readable, it will be refused
		j, _ = json.Marshal(map[string]string{"error": err.Error()})
	}
	o.raw(key, j)
	return o.end()
}

// AppendJSON appends the stored form.
func (r RecurringAction) AppendJSON(b []byte) []byte { return appendMarshaled(b, plainRecurring(r)) }

// AppendJSON appends the stored form.
func (o Occurrence) AppendJSON(b []byte) []byte { return appendMarshaled(b, o) }

// AppendJSON appends the stored form.
func (d Dedup) AppendJSON(b []byte) []byte { return appendMarshaled(b, d) }

type plainRecurring RecurringAction

// wire is the union of all members that an event can have.
type wire struct {
	Type          string          `json:"type"`
	Spec          json.RawMessage `json:"spec"`
	Patch         json.RawMessage `json:"patch"`
	Create        json.RawMessage `json:"create"`
	Occurrence    json.RawMessage `json:"occurrence"`
	Run           uint32          `json:"run"`
	Result        json.RawMessage `json:"result"`
	InvalidResult *string         `json:"invalid_result"`
	Reason        string          `json:"reason"`
	By            string          `json:"by"`
	Refusal       string          `json:"refusal"`
	Outcome       StatusType      `json:"outcome"`
	StartedAt     Time            `json:"started_at"`
	FinishedAt    Time            `json:"finished_at"`
	Holder        uuid.UUID       `json:"holder"`
	LastExecuted  Time            `json:"last_executed_at"`
}

// DecodeEvent reads the journal form of an event for a machine of that kind.
func DecodeEvent(kind effects.Kind, b []byte) (Event, error) {
	w, err := decodeWire(kind, b)
	if err != nil {
		return nil, fmt.Errorf("decode event of %s: %w", kind, err)
	}
	var e Event
	switch kind {
	case KindAction:
		e, err = w.action()
	case KindRecurring:
		e, err = w.recurring()
	case KindOccurrence:
		e, err = w.occurrence()
	case KindDedup:
		e, err = w.dedup()
	case KindPipeline:
		e, err = decodePipelineEvent(w.Type, b)
	case KindTask:
		e, err = decodeTaskEvent(w.Type, b)
	case KindStrategy:
		e, err = decodeStrategyEvent(w.Type, b)
	case KindJob:
		e, err = decodeJobEvent(w.Type, b)
	case KindOrchestrator:
		e, err = decodeOrchestratorEvent(w.Type, b)
	case KindScheduler:
		e, err = decodeSchedulerEvent(w.Type, b)
	case KindWorker:
		e, err = decodeWorkerEvent(w.Type, b)
	case KindLock:
		e, err = decodeLockEvent(w.Type, b)
	case KindSemaphore:
		e, err = decodeSemaphoreEvent(w.Type, b)
	case KindBus:
		e, err = decodeBusEvent(w.Type, b)
	case KindQueue:
		e, err = decodeQueueEvent(w.Type, b)
	default:
		return nil, fmt.Errorf("decode event: kind %q is unknown", clip(string(kind)))
	}
	if err != nil {
		return nil, fmt.Errorf("decode event %q of %s: %w", clip(w.Type), kind, err)
	}
	if e == nil {
		return nil, fmt.Errorf("decode event of %s: type %q is unknown", kind, clip(w.Type))
	}
	return e, nil
}

// decodeWire reads the members that the events of a kind share. Those of 003's
// machines read their own, which have the same names for other things.
func decodeWire(kind effects.Kind, b []byte) (w wire, err error) {
	switch kind {
	case KindAction, KindRecurring, KindOccurrence, KindDedup:
		err = json.Unmarshal(b, &w)
	default:
		var head struct {
			Type string `json:"type"`
		}
		err = json.Unmarshal(b, &head)
		w.Type = head.Type
	}
	return w, err
}

func (w wire) action() (Event, error) {
	switch w.Type {
	case typeCreate:
		var e ActionCreate
		err := json.Unmarshal(w.Spec, &e.Spec)
		return e, err
	case typeDue:
		return ActionDue{}, nil
	case typeTrigger:
		return ActionTrigger{}, nil
	case typeCancel:
		return ActionCancel{Reason: w.Reason}, nil
	case typeComplete:
		if w.InvalidResult != nil {
			w.Result = json.RawMessage(*w.InvalidResult)
		}
		return ActionComplete{Run: w.Run, Result: w.Result}, nil
	case typeFail:
		return ActionFail{Run: w.Run, Reason: w.Reason, Result: w.Result}, nil
	case typeInterrupt:
		return ActionInterrupt{Run: w.Run, Reason: w.Reason}, nil
	case typeHandBack:
		return ActionHandBack{Run: w.Run}, nil
	case typeExpire:
		return ActionExpire{}, nil
	}
	return nil, nil
}

func (w wire) recurring() (Event, error) {
	switch w.Type {
	case typeCreate:
		var e RecurringCreate
		err := json.Unmarshal(w.Spec, &e.Spec)
		return e, err
	case typeDue:
		return RecurringDue{Refusal: w.Refusal}, nil
	case typeUpdate:
		var e RecurringUpdate
		err := json.Unmarshal(w.Patch, &e.Patch)
		return e, err
	case typePause:
		return RecurringPause{By: w.By, Reason: w.Reason}, nil
	case typeResume:
		return RecurringResume{}, nil
	case typeTrigger:
		return RecurringTrigger{}, nil
	case typeDelete:
		return RecurringDelete{}, nil
	case typeDeduplicated:
		return RecurringDeduplicated{LastExecutedAt: w.LastExecuted}, nil
	}
	return nil, nil
}

func (w wire) occurrence() (Event, error) {
	switch w.Type {
	case typeRecord:
		var e OccurrenceRecord
		err := json.Unmarshal(w.Occurrence, &e.Occurrence)
		return e, err
	case typeSettle:
		return OccurrenceSettle{Outcome: w.Outcome, Reason: w.Reason, StartedAt: w.StartedAt, FinishedAt: w.FinishedAt}, nil
	case typeDeduplicate:
		return OccurrenceDeduplicate{Holder: w.Holder}, nil
	case typeExpire:
		return OccurrenceExpire{}, nil
	}
	return nil, nil
}

func (w wire) dedup() (Event, error) {
	switch w.Type {
	case typeClaim:
		e := DedupClaim{LastExecutedAt: w.LastExecuted}
		err := json.Unmarshal(w.Create, &e.Create)
		return e, err
	case typeRelease:
		return DedupRelease{Holder: w.Holder}, nil
	}
	return nil, nil
}

// DecodeState reads the stored form of a machine of that kind. What it returns
// keeps no part of b.
func DecodeState(kind effects.Kind, b []byte) (State, error) {
	var s State
	var err error
	switch kind {
	case KindAction:
		var a Action
		err = json.Unmarshal(b, &a)
		s = a
	case KindRecurring:
		var r plainRecurring
		if err = json.Unmarshal(b, &r); err == nil {
			s = RecurringAction(r).withCompiled()
		}
	case KindOccurrence:
		var o Occurrence
		err = json.Unmarshal(b, &o)
		s = o
	case KindDedup:
		var d Dedup
		err = json.Unmarshal(b, &d)
		s = d
	case KindPipeline:
		s, err = decodeStateAs[Pipeline](b)
	case KindTask:
		s, err = decodeStateAs[Task](b)
	case KindStrategy:
		s, err = decodeStateAs[Strategy](b)
	case KindJob:
		s, err = decodeStateAs[Job](b)
	case KindOrchestrator:
		s, err = decodeStateAs[Orchestrator](b)
	case KindScheduler:
		s, err = decodeStateAs[Scheduler](b)
	case KindWorker:
		s, err = decodeStateAs[Worker](b)
	case KindLock:
		s, err = decodeStateAs[Lock](b)
	case KindSemaphore:
		s, err = decodeStateAs[Semaphore](b)
	case KindBus:
		s, err = decodeStateAs[Bus](b)
	case KindQueue:
		s, err = decodeStateAs[Queue](b)
	case KindQueueItem:
		s, err = decodeStateAs[QueueItem](b)
	case KindQueueKey:
		s, err = decodeStateAs[QueueKey](b)
	case KindQueueDedup:
		s, err = decodeStateAs[QueueDedup](b)
	default:
		return nil, fmt.Errorf("decode state: kind %q is unknown", clip(string(kind)))
	}
	if err != nil {
		return nil, fmt.Errorf("decode state of %s: %w", kind, err)
	}
	if s.Ref().IsZero() {
		return nil, fmt.Errorf("decode state of %s: it has no id", kind)
	}
	return s, nil
}

// zero gives the state of a machine that does not exist.
func zero(kind effects.Kind) State {
	switch kind {
	case KindAction:
		return Action{}
	case KindRecurring:
		return RecurringAction{}
	case KindOccurrence:
		return Occurrence{}
	case KindDedup:
		return Dedup{}
	case KindPipeline:
		return Pipeline{}
	case KindTask:
		return Task{}
	case KindStrategy:
		return Strategy{}
	case KindJob:
		return Job{}
	case KindOrchestrator:
		return Orchestrator{}
	case KindScheduler:
		return Scheduler{}
	case KindWorker:
		return Worker{}
	case KindLock:
		return Lock{}
	case KindSemaphore:
		return Semaphore{}
	case KindBus:
		return Bus{}
	case KindQueue:
		return Queue{}
	case KindQueueItem:
		return QueueItem{}
	case KindQueueKey:
		return QueueKey{}
	case KindQueueDedup:
		return QueueDedup{}
	}
	return nil
}

// decodeStateAs reads a state whose stored form is that of encoding/json.
func decodeStateAs[S State](b []byte) (State, error) {
	var s S
	err := json.Unmarshal(b, &s)
	return s, err
}
