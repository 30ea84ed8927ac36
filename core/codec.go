package core

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
)

const maxTime = effects.MaxTime

// The stored forms are appended by hand, in a fixed order of fields: the bytes
// reach state and journal, encode several times per action, and are compared
// byte for byte. Tests hold that encoding/json reads them back to the same
// value.

func sortedKeys(m map[string]string) []string {
	// order-free: sorted below
	keys := slices.AppendSeq(make([]string, 0, len(m)), maps.Keys(m))
	slices.Sort(keys)
	return keys
}

// object appends fields to a JSON object.
type object struct {
	b     []byte
	comma bool
}

func begin(b []byte) object { return object{b: append(b, '{')} }

func (o *object) end() []byte { return append(o.b, '}') }

func (o *object) key(k string) {
	if o.comma {
		o.b = append(o.b, ',')
	}
	o.comma = true
	o.b = append(o.b, '"')
	o.b = append(o.b, k...)
	o.b = append(o.b, '"', ':')
}

func (o *object) str(k, v string) {
	o.key(k)
	o.b = effects.AppendString(o.b, validText(v))
}

func (o *object) id(k string, v uuid.UUID) {
	o.key(k)
	o.b = appendID(o.b, v)
}

func (o *object) time(k string, v Time) {
	o.key(k)
	o.b = v.AppendJSON(o.b)
}

func (o *object) num(k string, v uint64) {
	o.key(k)
	o.b = strconv.AppendUint(o.b, v, 10)
}

func (o *object) int(k string, v int64) {
	o.key(k)
	o.b = strconv.AppendInt(o.b, v, 10)
}

// raw appends JSON as it is, without white space around it, which would not
// survive reading; nothing becomes null.
func (o *object) raw(k string, v json.RawMessage) {
	o.key(k)
	v = trimJSON(v)
	if len(v) == 0 {
		o.b = append(o.b, "null"...)
		return
	}
	o.b = append(o.b, v...)
}

func (o *object) bytes(k string, v []byte) {
	o.key(k)
	o.b = append(o.b, '"')
	o.b = appendBase64(o.b, v)
	o.b = append(o.b, '"')
}

func (o *object) strings(k string, m map[string]string) {
	o.key(k)
	if m == nil {
		o.b = append(o.b, "null"...)
		return
	}
	in := begin(o.b)
	for _, key := range sortedKeys(m) {
		if in.comma {
			in.b = append(in.b, ',')
		}
		in.comma = true
		in.b = effects.AppendString(in.b, key)
		in.b = append(in.b, ':')
		in.b = effects.AppendString(in.b, m[key])
	}
	o.b = in.end()
}

func appendID(b []byte, id uuid.UUID) []byte {
	const digits = "0123456789abcdef"
	b = append(b, '"')
	for i, c := range id {
		if i == 4 || i == 6 || i == 8 || i == 10 {
			b = append(b, '-')
		}
		b = append(b, digits[c>>4], digits[c&15])
	}
	return append(b, '"')
}

// AppendJSON appends the stored form.
func (a Action) AppendJSON(b []byte) []byte {
	o := begin(b)
	a.ActionSpec.appendFields(&o)
	o.key("status")
	o.b = a.Status.appendJSON(o.b)
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
	o.key("trigger")
	o.b = s.Trigger.appendJSON(o.b)
	o.key("recurrence")
	o.b = s.Recurrence.appendJSON(o.b)
	o.key("policy")
	o.b = s.Policy.appendJSON(o.b)
	o.str("dedup_key", s.DedupKey)
	o.strings("metadata", s.Metadata)
	o.strings("labels", s.Labels)
	o.id("occurrence", s.Occurrence)
	o.key("owner")
	o.b = s.Owner.appendJSON(o.b)
}

// AppendJSON appends the form that stands in the create event.
func (s ActionSpec) AppendJSON(b []byte) []byte {
	o := begin(b)
	s.appendFields(&o)
	return o.end()
}

func (r Recurrence) appendJSON(b []byte) []byte {
	switch {
	case r.Period > 0:
		return strconv.AppendInt(b, int64(r.Period/time.Second), 10)
	case r.Cron != "":
		o := begin(b)
		o.str("cron", r.Cron)
		o.str("timezone", zoneOr(r.Timezone))
		return o.end()
	default:
		return append(b, "null"...)
	}
}

func (p RunPolicy) appendJSON(b []byte) []byte {
	o := begin(b)
	o.str("on_interrupt", string(p.OnInterrupt))
	o.num("max_attempts", uint64(p.MaxAttempts))
	o.int("timeout_ms", p.TimeoutMS)
	return o.end()
}

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
	o.key("status")
	o.b = r.Status.appendJSON(o.b)
	o.time("due_at", r.DueAt)
	o.time("started_at", r.StartedAt)
	o.time("finished_at", r.FinishedAt)
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
	var v struct {
		Type       TriggerType     `json:"type"`
		NextTickAt Time            `json:"next_tick_at"`
		RawPayload []byte          `json:"raw_payload"`
		ReceivedAt Time            `json:"received_at"`
		Route      string          `json:"route"`
		Header     json.RawMessage `json:"header"`
	}
	if err := json.Unmarshal(b, &v); err != nil {
		return err
	}
	if string(v.Header) == "null" {
		v.Header = nil
	}
	if len(v.RawPayload) == 0 {
		v.RawPayload = nil
	}
	*t = Trigger{Type: v.Type, NextTickAt: v.NextTickAt, RawPayload: v.RawPayload, ReceivedAt: v.ReceivedAt, Route: v.Route, Header: v.Header}
	return nil
}

func appendBase64(b, v []byte) []byte { return base64.StdEncoding.AppendEncode(b, v) }
