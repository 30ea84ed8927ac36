package core

import "encoding/json"

// AppendJSON appends the stored form.
func (a Action) AppendJSON(b []byte) []byte {
	o := begin(b)
	a.ActionSpec.appendFields(&o)
	o.value("status", a.Status.appendJSON)
	o.time("created_at", a.CreatedAt)
	o.time("updated_at", a.UpdatedAt)
	o.num("run", uint64(a.Run))
	o.num("cycle", uint64(a.Cycle))
	o.num("attempt", uint64(a.Attempt))
	o.time("started_at", a.StartedAt)
	o.time("finished_at", a.FinishedAt)
	o.key("last_run")
	if a.LastRun == nil {
		o.b = append(o.b, "null"...)
	} else {
		o.b = a.LastRun.appendJSON(o.b)
	}
	o.time("resume_at", a.ResumeAt)
	if !a.RetryAt.IsZero() {
		o.time("retry_at", a.RetryAt)
	}
	if len(a.Attempts) > 0 {
		o.key("attempts")
		o.b = appendAttempts(o.b, a.Attempts)
	}
	if a.Cancelling != "" {
		o.str("cancelling", a.Cancelling)
	}
	if a.Ledger != nil {
		o.key("ledger")
		o.b = appendMarshaled(o.b, a.Ledger)
	}
	return o.end()
}

// MarshalJSON encodes the stored form.
func (a Action) MarshalJSON() ([]byte, error) { return a.AppendJSON(nil), nil }

func (s ActionSpec) appendFields(o *object) {
	o.id("id", s.ID)
	o.str("namespace", s.Namespace)
	o.str("tenant", s.Tenant)
	o.str("label", s.Label)
	o.str("tool_name", s.ToolName)
	o.str("action_type", s.ActionType)
	o.raw("tool_input", s.ToolInput)
	o.value("trigger", s.Trigger.appendJSON)
	o.value("recurrence", s.Recurrence.appendJSON)
	o.value("policy", s.Policy.appendJSON)
	o.str("dedup_key", s.DedupKey)
	o.strings("metadata", s.Metadata)
	o.strings("labels", s.Labels)
	o.id("occurrence", s.Occurrence)
	o.value("owner", s.Owner.appendJSON)
}

// AppendJSON appends the form that stands in the create event.
func (s ActionSpec) AppendJSON(b []byte) []byte {
	o := begin(b)
	s.appendFields(&o)
	return o.end()
}

func (p RunPolicy) appendJSON(b []byte) []byte {
	o := begin(b)
	o.str("on_interrupt", string(p.OnInterrupt))
	o.num("max_attempts", uint64(p.MaxAttempts))
	o.int("timeout_ms", p.TimeoutMS)
	if p.OnFailure != "" {
		o.str("on_failure", string(p.OnFailure))
	}
	if p.Backoff != nil {
		o.value("backoff", p.Backoff.appendJSON)
	}
	return o.end()
}

func (w Backoff) appendJSON(b []byte) []byte { return appendMarshaled(b, w) }

func appendAttempts(b []byte, attempts []Attempt) []byte { return appendMarshaled(b, attempts) }

func (s Status) appendJSON(b []byte) []byte {
	o := begin(b)
	o.str("type", string(s.Type))
	switch s.Type {
	case StatusCompleted:
		o.raw("result", s.Result)
	case StatusFailed, StatusCancelled:
		if len(s.Result) > 0 {
			o.raw("result", s.Result)
		}
		o.str("reason", s.Reason)
	case StatusPending, StatusRunning:
	}
	return o.end()
}

func (r LastRun) appendJSON(b []byte) []byte {
	o := begin(b)
	o.num("cycle", uint64(r.Cycle))
	o.value("status", r.Status.appendJSON)
	o.time("due_at", r.DueAt)
	o.time("started_at", r.StartedAt)
	o.time("finished_at", r.FinishedAt)
	if len(r.Attempts) > 0 {
		o.key("attempts")
		o.b = appendAttempts(o.b, r.Attempts)
	}
	return o.end()
}

func (t Trigger) appendJSON(b []byte) []byte {
	o := begin(b)
	o.str("type", string(t.Type))
	if t.Type == TriggerWebhook {
		o.bytes("raw_payload", t.RawPayload)
		o.time("received_at", t.ReceivedAt)
		o.str("route", t.Route)
		o.raw("header", t.Header)
	} else {
		o.time("next_tick_at", t.NextTickAt)
	}
	return o.end()
}

// MarshalJSON encodes the tagged union.
func (t Trigger) MarshalJSON() ([]byte, error) { return t.appendJSON(nil), nil }

// UnmarshalJSON decodes the tagged union.
func (t *Trigger) UnmarshalJSON(b []byte) error {
	type fields Trigger
	var v fields
	if err := json.Unmarshal(b, &v); err != nil {
		return err
	}
	if string(v.Header) == "null" {
		v.Header = nil
	}
	if len(v.RawPayload) == 0 {
		v.RawPayload = nil
	}
	*t = Trigger(v)
	return nil
}
