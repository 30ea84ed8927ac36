package core

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core/schedule"
)

// Limits of what a creator may say. They keep one record from burdening all.
const (
	MaxNameBytes    = 255       // names: tool, namespace, tenant, action type, keys of maps
	MaxTextBytes    = 4 << 10   // label, description, values of maps, dedup key template
	MaxMapEntries   = 64        // metadata, labels
	MaxInputBytes   = 1 << 20   // tool input, payload
	MaxWebhookBytes = 16 << 20  // raw payload of a webhook
	MaxAttemptsEver = 1_000_000 // policy.max_attempts
	MaxScopeBytes   = 500       // namespace and tenant together: they share the name of a list index
	// MaxJSONDepth bounds the nesting of a payload or a result, whose levels add
	// to those of the state and the journal around it: encoding/json reads back
	// 10,000 levels at most.
	MaxJSONDepth = 200
)

// trimJSON cuts JSON's white space, and no other, which would make an invalid
// value valid.
func trimJSON(v json.RawMessage) json.RawMessage { return bytes.Trim(v, " \t\r\n") }

// storable reports whether v is JSON that can stand in a state and a journal.
func storable(v json.RawMessage) bool { return json.Valid(v) && !tooDeep(v) }

// tooDeep reports whether valid JSON is nested deeper than [MaxJSONDepth].
func tooDeep(v json.RawMessage) bool {
	if len(v) <= 2*MaxJSONDepth { // each level takes two bytes
		return false
	}
	depth, text := 0, false
	for i := 0; i < len(v); i++ {
		switch c := v[i]; {
		case text && c == '\\':
			i++
		case c == '"':
			text = !text
		case text:
		case c == '[' || c == '{':
			if depth++; depth > MaxJSONDepth {
				return true
			}
		case c == ']' || c == '}':
			depth--
		}
	}
	return false
}

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

func checkTime(field string, t Time) error {
	if t < 1 || t > 253_402_300_799_999 {
		if t == 0 {
			return fmt.Errorf("%s: missing: give a time in RFC 3339, such as \"2026-02-10T14:00:00Z\"", field)
		}
		return fmt.Errorf("%s: %d ms is out of range: it must be after 1970-01-01T00:00:00Z and before the year 10000", field, int64(t))
	}
	return nil
}

func checkName(field, v string, required bool) error {
	switch {
	case v == "" && required:
		return fmt.Errorf("%s: must not be empty", field)
	case len(v) > MaxNameBytes:
		return fmt.Errorf("%s: %d bytes is longer than %d", field, len(v), MaxNameBytes)
	case !utf8.ValidString(v):
		return fmt.Errorf("%s: %q is not valid UTF-8", field, clip(v))
	}
	if i := strings.IndexFunc(v, func(r rune) bool { return r < 0x20 || r == 0x7f }); i >= 0 {
		return fmt.Errorf("%s: %q has the control character %q", field, clip(v), v[i])
	}
	return nil
}

func checkScope(namespace, tenant string) error {
	if n := len(namespace) + len(tenant); n > MaxScopeBytes {
		return fmt.Errorf("namespace and tenant: together %d bytes are longer than %d", n, MaxScopeBytes)
	}
	return nil
}

func checkText(field, v string) error {
	switch {
	case len(v) > MaxTextBytes:
		return fmt.Errorf("%s: %d bytes is longer than %d", field, len(v), MaxTextBytes)
	case !utf8.ValidString(v):
		return fmt.Errorf("%s: %q is not valid UTF-8", field, clip(v))
	case strings.ContainsRune(v, 0):
		return fmt.Errorf("%s: %q has a NUL byte", field, clip(v))
	}
	return nil
}

func checkJSON(field string, v json.RawMessage, limit int) error {
	switch {
	case len(v) > limit:
		return fmt.Errorf("%s: %d bytes is more than %d", field, len(v), limit)
	case !json.Valid(v):
		return fmt.Errorf("%s: %q is not valid JSON", field, clip(string(v)))
	case !utf8.Valid(v):
		return fmt.Errorf("%s: not valid UTF-8", field)
	case tooDeep(v):
		return fmt.Errorf("%s: nested deeper than %d levels", field, MaxJSONDepth)
	}
	return nil
}

func checkMap(field string, m map[string]string) error {
	if len(m) > MaxMapEntries {
		return fmt.Errorf("%s: %d entries are more than %d", field, len(m), MaxMapEntries)
	}
	found, bad := false, ""
	for k, v := range m { // order-free: of the bad entries, the first in order is reported
		if (!found || k < bad) && (checkName("", k, true) != nil || checkText("", v) != nil) {
			found, bad = true, k
		}
	}
	if !found {
		return nil
	}
	if err := checkName(field+" key", bad, true); err != nil {
		return err
	}
	return checkText(field+"."+bad, m[bad])
}

// Recurrence says when an action runs again after it ended (A4): a fixed period
// or a cron expression. The zero Recurrence: never. In JSON a period is a
// number of seconds (000), a cron expression {"cron":"…","timezone":"…"}, and
// none is null.
type Recurrence struct {
	Period   time.Duration // whole seconds
	Cron     string
	Timezone string

	compiled *schedule.Schedule // of Cron: derived, never stored
}

// Every is the recurrence with a fixed period, which must be whole seconds.
func Every(period time.Duration) Recurrence { return Recurrence{Period: period} }

// CronRecurrence is the recurrence at the times of a cron expression.
func CronRecurrence(expr, timezone string) Recurrence {
	return Recurrence{Cron: expr, Timezone: timezone}
}

// IsZero reports whether the action does not recur.
func (r Recurrence) IsZero() bool { return r.Period == 0 && r.Cron == "" }

const maxPeriod = 100 * 365 * 24 * time.Hour

func (r Recurrence) validate(anchor Time) error {
	switch {
	case r.IsZero():
		return nil
	case r.Period != 0 && r.Cron != "":
		return fmt.Errorf("recurrence: has both a period of %s and the cron expression %q: give one", r.Period, clip(r.Cron))
	case r.Period != 0:
		if r.Period < time.Second || r.Period > maxPeriod || r.Period%time.Second != 0 {
			return fmt.Errorf("recurrence: a period of %s is not a whole number of seconds from 1 to %d", r.Period, int64(maxPeriod/time.Second))
		}
		return nil
	}
	s, err := r.compile(anchor)
	if err != nil {
		return recurrenceError(err)
	}
	if _, ok := s.Next(anchor); !ok {
		return fmt.Errorf("recurrence.cron: %q never fires after %s", clip(r.Cron), anchor)
	}
	return nil
}

// recurrenceError names the field of the recurrence that is wrong; the schedule
// calls it by the name that it has in a recurring action.
func recurrenceError(err error) error {
	var e *schedule.Error
	switch {
	case !errors.As(err, &e):
		return fmt.Errorf("recurrence: %w", err)
	case e.Field == "cron_expr":
		return errors.New("recurrence.cron: " + e.Problem)
	default:
		return fmt.Errorf("recurrence.%w", e)
	}
}

func (r Recurrence) compile(anchor Time) (*schedule.Schedule, error) {
	if r.compiled != nil {
		return r.compiled, nil
	}
	return schedule.Parse(r.Cron, zoneOr(r.Timezone), anchor)
}

// next gives the first time after the given one; a period counts from anchor.
func (r Recurrence) next(anchor, after Time) (Time, bool) {
	if p := r.Period.Milliseconds(); p > 0 {
		n := (int64(after)-int64(anchor))/p + 1 // after >= anchor
		t := int64(anchor) + n*p
		return Time(t), t <= int64(maxTime)
	}
	s, err := r.compile(anchor)
	if err != nil {
		return 0, false // validated at creation; a stored expression that a later build refuses ends here
	}
	return s.Next(after)
}

func zoneOr(zone string) string {
	if zone == "" {
		return "UTC"
	}
	return zone
}

func clip(s string) string {
	if len(s) > 64 {
		return strings.ToValidUTF8(s[:64], "\uFFFD") + "…"
	}
	return s
}

// MarshalJSON encodes the three forms.
func (r Recurrence) MarshalJSON() ([]byte, error) { return r.appendJSON(nil), nil }

// UnmarshalJSON decodes the three forms.
func (r *Recurrence) UnmarshalJSON(b []byte) error {
	b = bytes.TrimSpace(b)
	switch {
	case string(b) == "null":
		*r = Recurrence{}
		return nil
	case len(b) > 0 && b[0] == '{':
		var v struct {
			Cron     string `json:"cron"`
			Timezone string `json:"timezone"`
		}
		d := json.NewDecoder(bytes.NewReader(b))
		d.DisallowUnknownFields()
		if err := d.Decode(&v); err != nil {
			return fmt.Errorf("recurrence: %w", err)
		}
		if v.Cron == "" {
			return errors.New(`recurrence.cron: must not be empty: give one such as {"cron":"0 9 * * MON-FRI","timezone":"UTC"}`)
		}
		*r = Recurrence{Cron: v.Cron, Timezone: zoneOr(v.Timezone)}
		return nil
	}
	var seconds int64
	if err := json.Unmarshal(b, &seconds); err != nil || seconds < 1 || seconds > int64(maxPeriod/time.Second) {
		return fmt.Errorf("recurrence: %s is neither a whole number of seconds from 1 to %d nor {\"cron\":…}", clip(string(b)), int64(maxPeriod/time.Second))
	}
	*r = Recurrence{Period: time.Duration(seconds) * time.Second}
	return nil
}
