package core

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
)

// Subscriber is what the bus routes events to (003 Event Bus). Both methods are
// pure.
type Subscriber interface {
	// Matches reports whether the subscriber wants the event.
	Matches(e effects.Event) bool
	// Handle gives what the event leads to.
	Handle(e effects.Event) []effects.Effect
}

// EventMatch chooses events. An empty field matches all; in each of them "*"
// stands for any text.
type EventMatch struct {
	Category  string    `json:"category,omitempty"`
	Action    string    `json:"action,omitempty"`
	Component string    `json:"component,omitempty"` // of the source
	SourceID  uuid.UUID `json:"source_id"`           // all zeros: any
	// Data are members that the event's data must have: {"phase": "merge"}. What is
	// no text there is compared in its JSON form: "3", "true".
	Data map[string]string `json:"data,omitempty"`
}

// MachineName names a machine that is known by its name within a tenant.
type MachineName struct {
	Namespace string `json:"namespace,omitempty"`
	Tenant    string `json:"tenant,omitempty"`
	Name      string `json:"name"`
}

// Subscription is a [Subscriber] that the bus keeps.
type Subscription struct {
	Name  string     `json:"name"` // unique within its tenant
	Match EventMatch `json:"match"`
	Do    Reaction   `json:"do"`
}

// Reaction is what an event leads to: exactly one of its fields is set.
type Reaction struct {
	WakeWorker    *MachineName      `json:"wake_worker,omitempty"`
	Push          *PushReaction     `json:"push,omitempty"`
	Signal        *SignalReaction   `json:"signal,omitempty"`
	StartPipeline *PipelineReaction `json:"start_pipeline,omitempty"`
}

// PushReaction pushes the event, as JSON, into a queue.
type PushReaction struct {
	MachineName
	Priority int32 `json:"priority,omitempty"`
}

// SignalReaction signals a pipeline. The payload is the event.
type SignalReaction struct {
	Pipeline uuid.UUID `json:"pipeline"`
	Name     string    `json:"name"` // of the signal
}

// PipelineReaction starts a pipeline. Its context has the event as "event", where
// Context has not.
type PipelineReaction struct {
	Namespace  string                     `json:"namespace,omitempty"`
	Tenant     string                     `json:"tenant,omitempty"`
	Definition PipelineDef                `json:"definition"`
	Context    map[string]json.RawMessage `json:"context,omitempty"`
}

// WorkerWakeSubscriber wakes a worker when specific events occur (003), such as a
// merge worker on pipeline:phase with the phase "merge".
type WorkerWakeSubscriber struct {
	Match  EventMatch
	Worker MachineName
}

// Matches reports whether the event is one that wakes.
func (s WorkerWakeSubscriber) Matches(e effects.Event) bool { return s.Match.Matches(e) }

// Handle wakes the worker.
func (s WorkerWakeSubscriber) Handle(effects.Event) []effects.Effect {
	return []effects.Effect{effects.WakeWorker{Worker: WorkerRef(s.Worker.Namespace, s.Worker.Tenant, s.Worker.Name)}}
}

// Subscription gives the form that the bus keeps, under that name.
func (s WorkerWakeSubscriber) Subscription(name string) Subscription {
	worker := s.Worker
	return Subscription{Name: name, Match: s.Match, Do: Reaction{WakeWorker: &worker}}
}

// Matches reports whether the subscriber wants the event.
func (s Subscription) Matches(e effects.Event) bool { return s.Match.Matches(e) }

// Handle gives what the event leads to.
func (s Subscription) Handle(e effects.Event) []effects.Effect { return s.handle(e, e.ID) }

// handle is Handle, where the id of a pipeline that it starts is derived from that one.
func (s *Subscription) handle(e effects.Event, cause uuid.UUID) []effects.Effect {
	switch {
	case s.Do.WakeWorker != nil:
		return WorkerWakeSubscriber{Match: s.Match, Worker: *s.Do.WakeWorker}.Handle(e)
	case s.Do.Push != nil:
		p := *s.Do.Push
		return sends(QueueRef(p.Namespace, p.Tenant, p.Name), QueuePush{
			Namespace: p.Namespace, Tenant: p.Tenant, Name: p.Name, Priority: p.Priority, Data: eventJSON(e),
		})
	case s.Do.Signal != nil:
		return sends(effects.Ref{Kind: KindPipeline, ID: s.Do.Signal.Pipeline}, PipelineSignal{Name: s.Do.Signal.Name, Payload: eventJSON(e)})
	case s.Do.StartPipeline != nil:
		return s.Do.StartPipeline.handle(s.Name, e, cause)
	}
	return nil
}

func sends(to effects.Ref, e Event) []effects.Effect {
	return []effects.Effect{effects.Send{To: to, Event: e}}
}

// handle starts a pipeline whose id is derived from the event and the subscriber,
// so that it is the same one in a replay.
func (p PipelineReaction) handle(name string, e effects.Event, cause uuid.UUID) []effects.Effect {
	context := map[string]json.RawMessage{"event": eventJSON(e)}
	maps.Copy(context, p.Context)
	id := ChildID(cause, "subscriber/"+name, 0, 0)
	return sends(effects.Ref{Kind: KindPipeline, ID: id}, PipelineCreate{Spec: PipelineSpec{
		ID: id, Namespace: p.Namespace, Tenant: p.Tenant, Definition: p.Definition, Context: context,
	}})
}

// eventJSON is an event as a payload.
func eventJSON(e effects.Event) json.RawMessage {
	w := begin(nil)
	w.id("id", e.ID)
	w.str("category", e.Kind.Category)
	w.str("action", e.Kind.Action)
	w.time("timestamp", e.Timestamp)
	w.str("component", e.Source.Component)
	w.id("source_id", e.Source.ID)
	w.raw("data", storedResult(e.Data))
	return w.end()
}

// Matches reports whether the event is one of those that are chosen.
func (m EventMatch) Matches(e effects.Event) bool { return m.matches(&seen{Event: e}) }

// seen is an event whose data is read once for all who look at it.
type seen struct {
	effects.Event
	members map[string]json.RawMessage
	read    bool
}

// member gives a member of the data as text.
func (s *seen) member(name string) (string, bool) {
	if !s.read {
		s.read = true
		if json.Unmarshal(s.Data, &s.members) != nil {
			s.members = nil // no object
		}
	}
	v, ok := s.members[name]
	if !ok {
		return "", false
	}
	var text string
	if json.Unmarshal(v, &text) == nil && string(v) != "null" {
		return text, true
	}
	var out bytes.Buffer
	if json.Compact(&out, v) != nil {
		return "", false
	}
	return out.String(), true
}

func (m EventMatch) matches(e *seen) bool {
	if !glob(m.Category, e.Kind.Category) || !glob(m.Action, e.Kind.Action) || !glob(m.Component, e.Source.Component) {
		return false
	}
	if m.SourceID != uuid.Nil && m.SourceID != e.Source.ID {
		return false
	}
	for name, pattern := range m.Data { // order-free: all must match
		if v, ok := e.member(name); !ok || !glob(pattern, v) {
			return false
		}
	}
	return true
}

// glob reports whether a pattern matches a text, in time linear in both for each
// of its parts. An empty pattern matches all.
func glob(pattern, text string) bool {
	if pattern == "" || pattern == text || pattern == "*" {
		return true
	}
	if !strings.Contains(pattern, "*") {
		return false
	}
	parts := strings.Split(pattern, "*")
	if !strings.HasPrefix(text, parts[0]) {
		return false
	}
	text = text[len(parts[0]):]
	for _, part := range parts[1 : len(parts)-1] {
		i := strings.Index(text, part)
		if i < 0 {
			return false
		}
		text = text[i+len(part):]
	}
	return strings.HasSuffix(text, parts[len(parts)-1])
}

// normalised gives a subscription whose JSON form reads back to the same.
func (s Subscription) normalised() Subscription {
	if len(s.Match.Data) == 0 {
		s.Match.Data = nil
	}
	if p := s.Do.StartPipeline; p != nil {
		own := *p
		own.Context = maps.Clone(p.Context)
		for name, v := range p.Context { // order-free: each by itself
			own.Context[name] = compacted(v)
		}
		if len(own.Context) == 0 {
			own.Context = nil
		}
		s.Do.StartPipeline = &own
	}
	return s
}

// Within gives a subscription as the bus of a tenant keeps it: where what it does names no tenant, it is in that one.
func (s Subscription) Within(of Scope) Subscription {
	acts := s.acts()
	if !acts.bound || acts.Scope != (Scope{}) {
		return s
	}
	switch do := &s.Do; {
	case do.WakeWorker != nil:
		own := *do.WakeWorker
		own.Namespace, own.Tenant = of.Namespace, of.Tenant
		do.WakeWorker = &own
	case do.Push != nil:
		own := *do.Push
		own.Namespace, own.Tenant = of.Namespace, of.Tenant
		do.Push = &own
	case do.StartPipeline != nil:
		own := *do.StartPipeline
		own.Namespace, own.Tenant = of.Namespace, of.Tenant
		do.StartPipeline = &own
	}
	return s
}

// Acts gives the tenant in which a subscriber acts, as far as it says so: one that signals a pipeline does not.
func (s Subscription) Acts() (of Scope, says bool) {
	acts := s.acts()
	return acts.Scope, acts.bound
}

// Limits of the bus of a tenant.
const (
	MaxSubscribers     = 1000
	MaxSubscriberBytes = 64 << 10 // one subscriber as JSON
	MaxBusBytes        = 2 << 20  // all of them
	// MaxReactions bounds what subscribers make of an event that is of no tenant, which those of all tenants hear.
	// Those who come later do not hear it, and an escalation says so.
	MaxReactions        = MaxDeliveries / 2
	MaxPublishDataBytes = 64 << 10 // the data of a custom event
)

// Validate tells what is wrong with the subscription: the field, its value, and
// what would be right.
func (s Subscription) Validate() error {
	return errors.Join(
		checkName("name", s.Name, true),
		s.Match.validate(),
		s.Do.validate(),
		s.checkLoop(),
	)
}

func (m EventMatch) validate() error {
	return errors.Join(
		checkName("match.category", m.Category, false),
		checkName("match.action", m.Action, false),
		checkName("match.component", m.Component, false),
		checkMap("match.data", m.Data),
	)
}

func (r Reaction) validate() error {
	switch n := howMany(r.WakeWorker != nil, r.Push != nil, r.Signal != nil, r.StartPipeline != nil); {
	case n != 1:
		return fmt.Errorf("do: has %d of wake_worker, push, signal and start_pipeline: give exactly one", n)
	case r.WakeWorker != nil:
		return r.WakeWorker.validate("do.wake_worker")
	case r.Push != nil:
		return r.Push.validate("do.push")
	case r.Signal != nil:
		if r.Signal.Pipeline == uuid.Nil {
			return errors.New("do.signal.pipeline: must be a UUID that is not all zeros")
		}
		return checkName("do.signal.name", r.Signal.Name, true)
	}
	p := r.StartPipeline
	if len(p.Context) > MaxMapEntries {
		return fmt.Errorf("do.start_pipeline.context: %d entries are more than %d", len(p.Context), MaxMapEntries)
	}
	errs := []error{checkTenant("do.start_pipeline.", p.Namespace, p.Tenant)}
	if err := p.Definition.ValidateWith(append(sortedKeys(p.Context), "event")...); err != nil {
		errs = append(errs, fmt.Errorf("do.start_pipeline.definition.%w", err))
	}
	for _, name := range sortedKeys(p.Context) {
		errs = append(errs, checkName("do.start_pipeline.context key", name, true), checkJSON("do.start_pipeline.context."+clip(name), p.Context[name], MaxSubscriberBytes))
	}
	return errors.Join(errs...)
}

func (m MachineName) validate(field string) error {
	return errors.Join(checkTenant(field+".", m.Namespace, m.Tenant), checkName(field+".name", m.Name, true))
}

// checkLoop refuses a subscriber that its own doing would call again, for ever:
// one that pushes into a queue whenever something is pushed into it, and one that
// starts a pipeline whenever any is. Longer ways round end at [MaxRoutings].
func (s Subscription) checkLoop() error {
	switch {
	case s.Do.Push != nil:
		p := s.Do.Push
		own := effects.Event{Kind: effects.KindQueuePush, Source: effects.EventSource{Component: "queue", ID: QueueRef(p.Namespace, p.Tenant, p.Name).ID}}
		if s.Match.withoutData().Matches(own) {
			return fmt.Errorf("do.push: queue %q would be pushed to for each push to it: match another action than %q, or another source_id", clip(p.Name), effects.KindQueuePush)
		}
	case s.Do.StartPipeline != nil:
		if s.Match.SourceID != uuid.Nil || len(s.Match.Data) > 0 {
			return nil
		}
		for _, kind := range []effects.EventKind{effects.KindPipelineStarted, effects.KindPipelinePhase, effects.KindPipelineComplete, effects.KindPipelineFailed} {
			if s.Match.Matches(effects.Event{Kind: kind, Source: effects.EventSource{Component: "pipeline"}}) {
				return fmt.Errorf("do.start_pipeline: each pipeline that it starts would start another one by its %s: match a source_id, data or another category", kind)
			}
		}
	}
	return nil
}

func (m EventMatch) withoutData() EventMatch {
	m.Data = nil
	return m
}
