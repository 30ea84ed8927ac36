package core

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// withDefaults fills what the creator left out.
func (s ActionSpec) withDefaults() ActionSpec {
	s.setDefaults()
	return s
}

func (s *ActionSpec) setDefaults() {
	// White space around a value does not survive the journal.
	s.ToolInput = trimJSON(s.ToolInput)
	s.Trigger.Header = trimJSON(s.Trigger.Header)
	if len(s.ToolInput) == 0 {
		s.ToolInput = json.RawMessage("null")
	}
	s.Policy = s.Policy.withDefaults()
}

func (p RunPolicy) withDefaults() RunPolicy {
	if p.OnInterrupt == "" {
		p.OnInterrupt = InterruptFail
	}
	if p.MaxAttempts == 0 {
		p.MaxAttempts = DefaultMaxAttempts
	}
	if p.OnFailure == FailureFail {
		p.OnFailure = "" // as it is stored
	}
	return p
}

// Validate tells what is wrong with the spec: the field, its value, and what
// would be right.
func (s ActionSpec) Validate() error { return s.validate() }

func (s *ActionSpec) validate() error {
	if s.ID == uuid.Nil {
		return errors.New("id: must be a UUID that is not all zeros")
	}
	return errors.Join(
		checkTenant("", s.Namespace, s.Tenant),
		checkName("tool_name", s.ToolName, true),
		checkName("action_type", s.ActionType, false),
		checkText("label", s.Label),
		checkText("dedup_key", s.DedupKey),
		checkJSON("tool_input", s.ToolInput, MaxInputBytes),
		checkMap("metadata", s.Metadata),
		checkMap("labels", s.Labels),
		s.Trigger.validate(),
		s.Recurrence.validate(s.Trigger.KeyTime()),
		s.Policy.validate(),
	)
}

func (t Trigger) validate() error {
	switch t.Type {
	case TriggerScheduled:
		return checkTime("trigger.next_tick_at", t.NextTickAt)
	case TriggerWebhook:
		if len(t.RawPayload) > MaxWebhookBytes {
			return fmt.Errorf("trigger.raw_payload: %d bytes is more than %d", len(t.RawPayload), MaxWebhookBytes)
		}
		if len(t.Header) > 0 {
			if err := checkJSON("trigger.header", t.Header, MaxInputBytes); err != nil {
				return err
			}
		}
		if err := checkName("trigger.route", t.Route, false); err != nil {
			return err
		}
		return checkTime("trigger.received_at", t.ReceivedAt)
	default:
		return fmt.Errorf("trigger.type: %q is unknown: use %q or %q", clip(string(t.Type)), TriggerScheduled, TriggerWebhook)
	}
}

// Validate tells what is wrong with the policy, with its defaults in the place of what it
// leaves out, and with the bounds of [Given].
func (p RunPolicy) Validate() error {
	if err := p.withDefaults().validate(); err != nil {
		return err
	}
	return p.checkGiven()
}

func (p RunPolicy) validate() error {
	if p.OnInterrupt != InterruptFail && p.OnInterrupt != InterruptRetry {
		return fmt.Errorf("policy.on_interrupt: %q is unknown: use %q or %q", clip(string(p.OnInterrupt)), InterruptFail, InterruptRetry)
	}
	if p.MaxAttempts < 1 || p.MaxAttempts > MaxAttemptsEver {
		return fmt.Errorf("policy.max_attempts: %d is not between 1 and %d; 0 means the default, %d", p.MaxAttempts, MaxAttemptsEver, DefaultMaxAttempts)
	}
	if p.TimeoutMS < 0 || p.TimeoutMS > MaxTimeout.Milliseconds() {
		return fmt.Errorf("policy.timeout_ms: %d is not between 0 and %d", p.TimeoutMS, MaxTimeout.Milliseconds())
	}
	return p.validateFailure()
}

// ActionSpec is what a creator says of an action.
type ActionSpec struct {
	ID         uuid.UUID         `json:"id"`
	Namespace  string            `json:"namespace"`
	Tenant     string            `json:"tenant"`
	Label      string            `json:"label"`
	ToolName   string            `json:"tool_name"`
	ActionType string            `json:"action_type"` // discriminator inside the input (R11)
	ToolInput  json.RawMessage   `json:"tool_input"`
	Trigger    Trigger           `json:"trigger"`
	Recurrence Recurrence        `json:"recurrence"`
	Policy     RunPolicy         `json:"policy"`
	DedupKey   string            `json:"dedup_key"`
	Metadata   map[string]string `json:"metadata"`
	Labels     map[string]string `json:"labels"`
	// Occurrence names the [Occurrence] that made this action; zero for one made
	// by hand or by a webhook.
	Occurrence uuid.UUID `json:"occurrence"`
	// Owner is the machine that made this action and waits for its end.
	Owner Owner `json:"owner"`
}

// Title is what people call it: its label, or else its tool and the type of the action.
func (s ActionSpec) Title() string {
	switch {
	case s.Label != "":
		return s.Label
	case s.ActionType != "":
		return s.ToolName + " " + s.ActionType
	}
	return s.ToolName
}

// TriggerType tells the triggers apart.
type TriggerType string

// Trigger types (A2).
const (
	TriggerScheduled TriggerType = "scheduled"
	TriggerWebhook   TriggerType = "webhook"
)

// Trigger says when an action fires (000 ActionTrigger): a tagged union of
// scheduled{next_tick_at} and webhook{raw_payload, received_at}.
type Trigger struct {
	Type       TriggerType     `json:"type"`
	NextTickAt Time            `json:"next_tick_at"` // scheduled
	ReceivedAt Time            `json:"received_at"`  // webhook
	RawPayload []byte          `json:"raw_payload"`  // the request's body as it came; base64 in JSON (webhook)
	Header     json.RawMessage `json:"header"`       // the request's kept headers, a JSON object (webhook)
	Route      string          `json:"route"`        // webhook
}

// Scheduled is the trigger of an action that fires at that time.
func Scheduled(at Time) Trigger { return Trigger{Type: TriggerScheduled, NextTickAt: at} }

// KeyTime is the time under which the action stands in the due index (A2).
func (t Trigger) KeyTime() Time {
	if t.Type == TriggerWebhook {
		return t.ReceivedAt
	}
	return t.NextTickAt
}

// OnInterrupt says what becomes of a run whose holder is gone (R3).
type OnInterrupt string

// Interrupt policies.
const (
	// InterruptFail ends the action: its tool runs at most once.
	InterruptFail OnInterrupt = "fail"
	// InterruptRetry runs the tool again, up to MaxAttempts: it must be safe to
	// repeat.
	InterruptRetry OnInterrupt = "retry"
)

// DefaultMaxAttempts bounds the attempts of one cycle where the policy says
// nothing.
const DefaultMaxAttempts = 3

// MaxTimeout is the longest time limit of a run.
const MaxTimeout = 30 * 24 * time.Hour

// RunPolicy says how an action is run (R3).
type RunPolicy struct {
	OnInterrupt OnInterrupt `json:"on_interrupt"` // default fail
	// MaxAttempts bounds the runs of one cycle, those that failed and those that were interrupted
	// together, the first included; default 3. By itself it lets nothing be tried again (R19).
	MaxAttempts uint32 `json:"max_attempts"`
	// TimeoutMS is the time limit of one run in milliseconds; 0: the tool's own.
	TimeoutMS int64 `json:"timeout_ms"`
	// OnFailure says whether a run that failed is tried again (R19); empty: [FailureFail].
	OnFailure OnFailure `json:"on_failure,omitempty"`
	// Backoff is the wait before that, with [FailureRetry] only; nil: the zero Backoff. It must
	// not be written to.
	Backoff *Backoff `json:"backoff,omitempty"`
}

// Timeout gives the time limit of one run; 0: the tool's own.
func (p RunPolicy) Timeout() time.Duration { return durationMS(p.TimeoutMS) }
