package core

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/uuid"
)

// withDefaults fills what the creator left out.
func (s ActionSpec) withDefaults() ActionSpec {
	// White space around a value does not survive the journal.
	s.ToolInput = trimJSON(s.ToolInput)
	s.Trigger.Header = trimJSON(s.Trigger.Header)
	if len(s.ToolInput) == 0 {
		s.ToolInput = json.RawMessage("null")
	}
	s.Policy = s.Policy.withDefaults()
	return s
}

func (p RunPolicy) withDefaults() RunPolicy {
	if p.OnInterrupt == "" {
		p.OnInterrupt = InterruptFail
	}
	if p.MaxAttempts == 0 {
		p.MaxAttempts = DefaultMaxAttempts
	}
	return p
}

// Validate tells what is wrong with the spec: the field, its value, and what
// would be right.
func (s ActionSpec) Validate() error {
	if s.ID == uuid.Nil {
		return errors.New("id: must be a UUID that is not all zeros")
	}
	return errors.Join(
		checkName("namespace", s.Namespace, false),
		checkName("tenant", s.Tenant, false),
		checkScope(s.Namespace, s.Tenant),
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
	return nil
}
