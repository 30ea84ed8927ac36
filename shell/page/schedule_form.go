package page

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

// scheduleFields are the fields of a recurring action that most want.
func (q *visit) scheduleFields() []field {
	return []field{
		{Name: "cron_expr", Label: "Cron expression", Required: true, Help: "Such as 0 9 * * MON-FRI, @daily or @every 15m."},
		{Name: "timezone", Label: "Time zone", Help: "Such as Europe/Berlin; left out: UTC."},
		{Name: "name", Label: "Name", Help: "How files and the command line refer to it: letters, digits, \".\", \"_\" and \"-\"."},
		{Name: "description", Label: "Description", Help: "What it is for, in words."},
		{Name: "provider", Label: "Tool", Required: true, List: q.tools(), Help: "What carries it out: command runs a program, http sends a request."},
		{Name: "action_type", Label: "Type", Required: true, Help: "A word for what it does, such as backup: its name, if it has no other. The tools command and http do the same with any."},
		{Name: "payload", Label: "Payload", Type: fieldJSON, Help: payloadHelp},
	}
}

// payloadHelp shows what the two tools take that are always there, by an example of each.
const payloadHelp = `A JSON object, as the tool wants it. command: ` + exampleCommand + `; with a shell: ` + exampleShell + `. http: ` + exampleRequest + `.`

const (
	exampleCommand = `{"argv": ["date", "-u"]}`
	exampleShell   = `{"argv": ["sh", "-c", "date | wc -c"]}`
	exampleRequest = `{"url": "https://example.com/ping"}`
)

// moreScheduleFields are the others, in groups.
func moreScheduleFields() []field {
	in := func(group string, fields ...field) []field {
		for i := range fields {
			fields[i].Group = group
		}
		return fields
	}
	return slices.Concat(
		in("Begin, end and exceptions",
			field{Name: "starts_at", Label: "Starts", Type: fieldTime, Help: "No time before is due."},
			field{Name: "ends_at", Label: "Ends", Type: fieldTime, Help: "No time from then on is due."},
			field{Name: "max_executions", Label: "At most so many executions", Type: fieldNumber},
			field{Name: "jitter_seconds", Label: "Jitter in seconds", Type: fieldNumber, Help: "Each time is dispatched later by up to so much."},
			field{Name: "calendars", Label: "Calendars", Type: fieldLines, Help: "Names, one a line: their times are skipped."},
			field{Name: "dst", Label: "Clock changes", Type: fieldChoice, Options: choiceOr("once_shifted", "once_shifted", "skip", "twice"), Help: "What fires of the times that the clocks skip or repeat."},
			field{Name: "day_match", Label: "Days match", Type: fieldChoice, Options: choiceOr("either", "either", "both"), Help: "If the expression names days of the month and of the week: either of them, or both."}),
		in("If an earlier one still runs",
			field{Name: "overlap", Label: "Overlap", Type: fieldChoice, Options: choiceOr("allow", "allow", "skip", "buffer_one", "buffer_all", "cancel_other", "terminate_other"), Help: "What a time does while what an earlier one has made still runs."},
			field{Name: "buffer_limit", Label: "Times that wait at most", Type: fieldNumber, Help: "With buffer all; left out: 100."},
			field{Name: "max_wait_seconds", Label: "Each waits at most", Type: fieldSpan, Help: "Such as 90s, 5m or 2h; left out: any length."}),
		in("If nobody was there",
			field{Name: "start_deadline_seconds", Label: "Start deadline", Type: fieldSpan, Help: "How late a time may be dispatched, such as 90s, 5m or 2h; later, and it is missed. Left out: " + core.DefaultStartDeadline.String() + "."},
			field{Name: "missed", Label: "Missed times", Type: fieldChoice, Options: choiceOr("skip", "skip", "latest", "all"), Help: "Which times are dispatched late after an outage."},
			field{Name: "catch_up_seconds", Label: "Caught up within", Type: fieldSpan, Help: "How long ago a time may be that is caught up; left out: any length."},
			field{Name: "catch_up_limit", Label: "Caught up at most", Type: fieldNumber, Help: "So many times after one outage, with all; left out: 100."},
			field{Name: "catch_up_spacing_seconds", Label: "Between those caught up", Type: fieldSpan}),
		in("Time limit and attempts", policyFields()...),
		in("Alerts",
			field{Name: "alerts", Label: "Alerts", Type: fieldAlerts, Help: "One a line: late=10m, missed, stale=26h, failing=3, slow=2h or slow=3x, channel=NAME."}),
		in("Labels, metadata and dedup key",
			field{Name: "labels", Label: "Labels", Type: fieldPairs, Help: "name=value, one a line."},
			field{Name: "metadata", Label: "Metadata", Type: fieldPairs, Help: "name=value, one a line: the tool is told."},
			field{Name: "dedup_key", Label: "Dedup key", Help: "While an action with this key has not ended no other one is made."}),
	)
}

func (q *visit) newRecurring() ([]field, error) {
	return slices.Concat(q.scheduleFields(), q.homeFields(), moreScheduleFields()), nil
}

// policyPrefix begins the names of the fields of a policy, which the API takes whole.
const policyPrefix = "policy."

func policyFields() []field {
	return []field{
		{Name: "policy.timeout_ms", Label: "Time limit of a run", Type: fieldMillis, Help: "Such as 90s, 5m or 2h; left out: the tool's own."},
		{Name: "policy.on_failure", Label: "After a failure", Type: fieldChoice, Options: choiceOr("fail", "fail", "retry"), Help: "Whether a run that failed is tried again."},
		{Name: "policy.on_interrupt", Label: "After an interruption", Type: fieldChoice, Options: choiceOr("fail", "fail", "retry"), Help: "Whether a run that the end of the daemon interrupted is tried again: the tool must bear to be run twice."},
		{Name: "policy.max_attempts", Label: "Attempts at most", Type: fieldNumber, Help: "The first one included; left out: " + strconv.Itoa(core.DefaultMaxAttempts) + "."},
		{Name: "policy.backoff.initial_ms", Label: "Wait before another attempt", Type: fieldMillis, Help: "After the first failure; left out: " + (core.DefaultInitialMS * time.Millisecond).String() + "."},
		{Name: "policy.backoff.factor_percent", Label: "Each wait in percent of the one before", Type: fieldNumber, Help: "Left out: 200, it doubles."},
		{Name: "policy.backoff.max_ms", Label: "The longest wait", Type: fieldMillis, Help: "Left out: 1h."},
		{Name: "policy.backoff.jitter_percent", Label: "Waits shorter by up to so many percent", Type: fieldNumber},
		{Name: "policy.backoff.no_retry", Label: "No attempt after", Type: fieldLines, Help: "Patterns of reasons, one a line."},
	}
}

// policyValues are those of the fields of a policy. Its defaults are left out, as they are where somebody leaves them out.
func policyValues(p core.RunPolicy) map[string]string {
	b := core.Backoff{}
	if p.Backoff != nil {
		b = *p.Backoff
	}
	values := map[string]string{
		"policy.timeout_ms": lengthText(p.TimeoutMS, time.Millisecond), "policy.on_failure": string(p.OnFailure), "policy.on_interrupt": string(p.OnInterrupt),
		"policy.max_attempts": countText(p.MaxAttempts), "policy.backoff.initial_ms": lengthText(b.InitialMS, time.Millisecond), "policy.backoff.factor_percent": countText(b.FactorPercent),
		"policy.backoff.max_ms": lengthText(b.MaxMS, time.Millisecond), "policy.backoff.jitter_percent": countText(b.JitterPercent), "policy.backoff.no_retry": strings.Join(b.NoRetry, "\n"),
	}
	if p.OnInterrupt == core.InterruptFail {
		values["policy.on_interrupt"] = ""
	}
	if p.MaxAttempts == core.DefaultMaxAttempts {
		values["policy.max_attempts"] = ""
	}
	return values
}

func (q *visit) editRecurring() ([]field, error) {
	var a wire.RecurringAction
	if err := q.get(pathOf("recurring", q.PathValue("id")), nil, &a); err != nil {
		return nil, err
	}
	values := map[string]string{
		"name": a.Name, "cron_expr": a.CronExpr, "timezone": a.Timezone, "description": or(a.Description), "provider": a.ActionTemplate.Provider, "action_type": a.ActionTemplate.ActionType,
		"payload": editableJSON(a.ActionTemplate.Payload), "overlap": string(a.Overlap), "missed": string(a.Missed), "dst": string(a.DST), "day_match": string(a.DayMatch),
		"starts_at": q.local(a.StartsAt), "ends_at": q.local(a.EndsAt), "calendars": strings.Join(a.Calendars, "\n"), "alerts": strings.Join(a.Alerts.Words(), "\n"),
		"labels": pairLines(a.Labels), "metadata": pairLines(a.ActionTemplate.Metadata), "dedup_key": or(a.ActionTemplate.DedupKey),
		"jitter_seconds": countText(a.JitterSeconds), "max_executions": countText(a.MaxExecutions),
		"buffer_limit": countText(a.BufferLimit), "max_wait_seconds": lengthText(a.MaxWaitSeconds, time.Second), "start_deadline_seconds": lengthText(a.StartDeadlineSeconds, time.Second),
		"catch_up_seconds": lengthText(a.CatchUpSeconds, time.Second), "catch_up_limit": countText(a.CatchUpLimit), "catch_up_spacing_seconds": lengthText(a.CatchUpSpacingSeconds, time.Second),
	}
	maps.Copy(values, policyValues(a.Policy))
	values["namespace"], values["tenant"] = a.Namespace, a.Tenant // for the preview: they are never changed
	fields := slices.Concat([]field{{Name: "namespace", Type: fieldHidden}, {Name: "tenant", Type: fieldHidden}}, q.scheduleFields(), moreScheduleFields())
	for i, f := range fields {
		fields[i].Value = values[f.Name]
		if f.Type == fieldText && strings.ContainsAny(fields[i].Value, "\r\n") {
			fields[i].Type = fieldArea // a field of one line would lose them
		}
	}
	return fields, nil
}

// amendRecurring sends of an edit what was changed alone, so that what a form cannot show as it is stays as it is. What was
// emptied is cleared: what is left out of the API's body would stay.
func amendRecurring(q *visit, body map[string]any, form url.Values) error {
	if q.PathValue("id") == "" {
		return nil
	}
	shown, err := q.editRecurring()
	if err != nil {
		return err
	}
	empty := map[string]any{
		"timezone": "UTC", "name": nil, "description": nil, "payload": json.RawMessage("{}"), "overlap": "", "missed": "", "dst": "", "day_match": "", "starts_at": nil, "ends_at": nil, "alerts": nil,
		"jitter_seconds": 0, "max_executions": 0, "calendars": []string{}, "dedup_key": nil, "labels": map[string]string{}, "metadata": map[string]string{},
		"buffer_limit": 0, "max_wait_seconds": 0, "start_deadline_seconds": 0, "catch_up_seconds": 0, "catch_up_limit": 0, "catch_up_spacing_seconds": 0,
	}
	for name, none := range empty {
		if _, given := body[name]; !given && form.Has(name) {
			body[name] = none
		}
	}
	policy := false // one of its fields was changed: it is sent whole
	for _, f := range shown {
		same := sameText(form.Get(f.Name), f.Value)
		if strings.HasPrefix(f.Name, policyPrefix) {
			policy = policy || !same && form.Has(f.Name)
		} else if same {
			delete(body, f.Name)
		}
	}
	if _, given := body["policy"]; !policy {
		delete(body, "policy")
	} else if !given {
		body["policy"] = map[string]any{}
	}
	if len(body) == 0 {
		return &apiError{Status: http.StatusBadRequest, Text: "nothing was changed in the form"}
	}
	return nil
}
