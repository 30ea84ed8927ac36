package wire

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/effects/texts"
	"github.com/orrery-go/orrery/shell/internal/strictjson"
)

// ActionRequest is the body of POST /v1/actions: the fields of
// [core.ActionSpec] that may come from outside.
type ActionRequest struct {
	ID         *string           `json:"id,omitempty"`
	Namespace  *string           `json:"namespace,omitempty"`
	Tenant     *string           `json:"tenant,omitempty"`
	Label      *string           `json:"label,omitempty"`
	ToolName   string            `json:"tool_name"`
	ActionType *string           `json:"action_type,omitempty"`
	ToolInput  json.RawMessage   `json:"tool_input,omitempty"`
	Trigger    *TriggerRequest   `json:"trigger,omitempty"`
	Recurrence *Recurrence       `json:"recurrence,omitempty"`
	Policy     *RunPolicy        `json:"policy,omitempty"`
	DedupKey   *string           `json:"dedup_key,omitempty"`
	Metadata   map[string]string `json:"metadata,omitempty"`
	Labels     map[string]string `json:"labels,omitempty"`
}

// Modes of requests that make many: all of the entries or none, or each by itself.
const (
	ModeAll  = "all"
	ModeEach = "each"
)

// ActionBatchRequest is the body of POST /v1/actions/batch. Without a Mode it is [ModeAll].
type ActionBatchRequest struct {
	Mode    string          `json:"mode,omitempty"`
	Actions []ActionRequest `json:"actions" most:"1000"`
}

// ActionBatch is the answer to POST /v1/actions/batch, in the order of the request.
type ActionBatch struct {
	Results []ActionResult `json:"results"`
}

// ActionResult is what became of one action of a batch.
type ActionResult struct {
	Status int            `json:"status"` // that POST /v1/actions would have been answered with
	Action *ActionSummary `json:"action"` // null if there is an error
	Error  string         `json:"error"`
}

// TriggerRequest says when a new action fires: at a time. What comes by a webhook cannot
// be asked for.
type TriggerRequest struct {
	Type       string       `json:"type"`
	NextTickAt effects.Time `json:"next_tick_at"`
}

// Recurrence is a [core.Recurrence] that refuses unknown fields.
type Recurrence struct{ core.Recurrence }

// UnmarshalJSON takes a number of seconds, or an object with a cron expression.
func (r *Recurrence) UnmarshalJSON(b []byte) error {
	if len(b) == 0 || b[0] != '{' {
		return r.Recurrence.UnmarshalJSON(b)
	}
	var v struct {
		Cron     string  `json:"cron"`
		Timezone *string `json:"timezone"`
	}
	if err := strictjson.Decode(b, &v); err != nil {
		return err
	}
	switch {
	case v.Cron == "":
		return &strictjson.Error{Path: "cron", Problem: `must not be empty: give five to seven fields, such as "0 9 * * MON-FRI"`}
	case v.Timezone != nil && *v.Timezone == "":
		return &strictjson.Error{Path: "timezone", Problem: `must not be empty: leave it out for "UTC"`}
	}
	zone := "UTC"
	if v.Timezone != nil {
		zone = *v.Timezone
	}
	r.Recurrence = core.CronRecurrence(v.Cron, zone)
	return nil
}

// ActionList is a page of GET /v1/actions.
type ActionList struct {
	Actions       []ActionSummary `json:"actions"`
	NextPageToken string          `json:"next_page_token"`
}

// Reason is the optional body of cancel, pause and their like.
type Reason struct {
	Reason *string `json:"reason,omitempty"`
}

// CancelActionRequest is the optional body of POST /v1/actions/{id}/cancel.
type CancelActionRequest struct {
	Reason
	Mode *core.CancelMode `json:"mode,omitempty"`
}

// RetryActionRequest is the optional body of POST /v1/actions/{id}/retry and
// POST /v1/webhooks/{id}/redeliver.
type RetryActionRequest struct {
	ID *string `json:"id,omitempty"` // of the new action
	// Once makes one new action of the old one, however often it is asked for: the answer is the one that
	// was made before, if that is still stored. It takes no ID.
	Once *bool `json:"once,omitempty"`
}

// RunPolicy is a [core.RunPolicy] that refuses unknown fields, and whose errors tell the
// bounds of its numbers.
type RunPolicy struct{ core.RunPolicy }

// UnmarshalJSON refuses unknown fields and numbers out of bounds.
func (p *RunPolicy) UnmarshalJSON(b []byte) error {
	var v struct {
		OnInterrupt core.OnInterrupt `json:"on_interrupt"`
		MaxAttempts maxAttempts      `json:"max_attempts"`
		TimeoutMS   timeoutMS        `json:"timeout_ms"`
		OnFailure   core.OnFailure   `json:"on_failure"`
		Backoff     *core.Backoff    `json:"backoff"`
	}
	if err := strictjson.Decode(b, &v); err != nil {
		return err
	}
	p.RunPolicy = core.RunPolicy{
		OnInterrupt: v.OnInterrupt, MaxAttempts: uint32(v.MaxAttempts), TimeoutMS: int64(v.TimeoutMS), OnFailure: v.OnFailure, Backoff: v.Backoff,
	}
	return nil
}

type (
	maxAttempts uint32
	timeoutMS   int64
)

func (n *maxAttempts) UnmarshalJSON(b []byte) error {
	v, err := integer(b, core.MaxAttemptsEver, strconv.Itoa(core.DefaultMaxAttempts))
	*n = maxAttempts(v)
	return err
}

func (n *timeoutMS) UnmarshalJSON(b []byte) error {
	v, err := integer(b, core.MaxTimeout.Milliseconds(), "the tool's own limit")
	*n = timeoutMS(v)
	return err
}

func integer(b []byte, most int64, zero string) (int64, error) {
	n, err := strconv.ParseInt(string(b), 10, 64)
	if err != nil || n < 0 || n > most {
		return 0, fmt.Errorf("want an integer from 0 to %d (0 means %s), got %s", most, zero, texts.Clip(string(b), 64))
	}
	return n, nil
}
