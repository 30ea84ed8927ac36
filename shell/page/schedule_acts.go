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

func scheduleActs() []act {
	const on = "/recurring/{id}"
	return []act{
		{
			on: "/schedules", name: "new", method: "POST", api: "/v1/recurring", label: "New recurring action", main: true, done: "The recurring action was created.",
			says: "Makes an action at each time of a cron expression.", load: (*visit).newRecurring, after: afterMade("/recurring/"), amend: amendRecurring,
		},
		{
			on: on, name: "edit", method: "PUT", api: "/v1/recurring/{id}", label: "Edit", done: "The recurring action was changed.",
			says: "What runs goes on. Times that wait for their turn are cancelled if the times change.", load: (*visit).editRecurring, amend: amendRecurring,
		},
		{
			on: on, name: "pause", method: "POST", api: "/v1/recurring/{id}/pause", label: "Pause", done: "The recurring action is paused.",
			says: "Its times are skipped until it is resumed. What runs goes on; times that wait for their turn are cancelled.", fields: pauseFields,
		},
		{
			on: on, name: "resume", method: "POST", api: "/v1/recurring/{id}/resume", label: "Resume", main: true, done: "The recurring action is resumed.",
			says: "It fires from now on. The times that have passed meanwhile stay skipped.",
		},
		{
			on: on, name: "trigger", method: "POST", api: "/v1/recurring/{id}/trigger", label: "Run now", main: true, done: "An action was made by hand.",
			says: "Makes an action now, beside its times, if its overlap policy allows one.", load: (*visit).triggerFields,
		},
		{
			on: on, name: "skip-next", method: "POST", api: "/v1/recurring/{id}/skip-next", label: "Skip the next time", done: "The next time is to be skipped.",
			says: "The next time that is not to be skipped already is skipped.",
		},
		{
			on: on, name: "waiting/{occurrence}/cancel", method: "POST", api: "/v1/recurring/{id}/waiting/{occurrence}/cancel", label: "Cancel this time", danger: true, done: "The time that waited was cancelled.",
			says: "The time that waits for its turn is cancelled: nothing is made for it.", fields: []field{reasonField},
		},
		{
			on: on, name: "backfill", method: "POST", api: "/v1/backfills", label: "Backfill", done: "The backfill was created.",
			says: "Dispatches times of the past that were not dispatched, a few at a time.", load: (*visit).backfillFields, after: afterMade("/backfills/"),
		},
		{
			on: on, name: "delete", method: "DELETE", api: "/v1/recurring/{id}", label: "Delete", danger: true, done: "The recurring action was deleted.",
			says:  "It fires no more, and cannot be brought back. What runs goes on; its history stays as long as others' do.",
			after: func(q *visit, _ *answer) string { return q.page("/schedules") },
		},
	}
}

var pauseFields = []field{
	{Name: "reason", Label: "Reason", Help: "Shown to whoever asks why it does not run."},
	{Name: "until", Label: "Until", Type: fieldTime, Help: "It goes on by itself then; left out: until somebody resumes it. Such as 2026-01-31T07:00, in the zone that is chosen above."},
}

// scheduleFields are the fields of a recurring action that may be edited.
func (q *visit) scheduleFields() []field {
	return []field{
		{Name: "cron_expr", Label: "Cron expression", Required: true, Help: "Such as 0 9 * * MON-FRI, @daily or @every 15m."},
		{Name: "timezone", Label: "Time zone", Help: "Such as Europe/Berlin; left out: UTC."},
		{Name: "description", Label: "Name", Help: "What people call it."},
		{Name: "provider", Label: "Tool", Required: true, List: q.tools()},
		{Name: "action_type", Label: "Type", Required: true, Help: "What the tool is to do."},
		{Name: "payload", Label: "Payload", Type: fieldJSON, Help: "A JSON object, as the tool wants it."},
		{Name: "overlap", Label: "Overlap", Type: fieldChoice, Options: choice("", "allow", "skip", "buffer_one", "buffer_all", "cancel_other", "terminate_other"), Help: "What a time does while what an earlier one has made still runs."},
		{Name: "missed", Label: "Missed times", Type: fieldChoice, Options: choice("", "skip", "latest", "all"), Help: "Which times are dispatched late after an outage."},
		{Name: "dst", Label: "Clock changes", Type: fieldChoice, Options: choice("", "once_shifted", "skip", "twice"), Help: "What fires of the times that the clocks skip or repeat."},
		{Name: "day_match", Label: "Days match", Type: fieldChoice, Options: choice("", "either", "both")},
		{Name: "starts_at", Label: "Starts", Type: fieldTime},
		{Name: "ends_at", Label: "Ends", Type: fieldTime},
		{Name: "jitter_seconds", Label: "Jitter in seconds", Type: fieldNumber},
		{Name: "max_executions", Label: "At most so many executions", Type: fieldNumber},
		{Name: "calendars", Label: "Calendars", Type: fieldLines, Help: "Names, one a line: their times are skipped."},
		{Name: "dedup_key", Label: "Dedup key"},
		{Name: "labels", Label: "Labels", Type: fieldPairs, Help: "name=value, one a line."},
		{Name: "metadata", Label: "Metadata", Type: fieldPairs, Help: "name=value, one a line: the tool is told."},
	}
}

func (q *visit) newRecurring() ([]field, error) {
	return append(q.scheduleFields(), q.homeFields()...), nil
}

// homeFields ask for the namespace and the tenant of what the API wants both of.
func (q *visit) homeFields() []field {
	f := q.scopeFields()
	for i := range f {
		f[i].Required = true
		if f[i].Value == "" {
			f[i].Value = "default"
		}
		f[i].Help = ""
	}
	return f
}

func (q *visit) editRecurring() ([]field, error) {
	var a wire.RecurringAction
	if err := q.get(pathOf("recurring", q.PathValue("id")), nil, &a); err != nil {
		return nil, err
	}
	values := map[string]string{
		"cron_expr": a.CronExpr, "timezone": a.Timezone, "provider": a.ActionTemplate.Provider, "action_type": a.ActionTemplate.ActionType,
		"payload": editableJSON(a.ActionTemplate.Payload), "overlap": string(a.Overlap), "missed": string(a.Missed), "dst": string(a.DST), "day_match": string(a.DayMatch),
		"starts_at": q.local(a.StartsAt), "ends_at": q.local(a.EndsAt), "calendars": strings.Join(a.Calendars, "\n"),
		"labels": pairLines(a.Labels), "metadata": pairLines(a.ActionTemplate.Metadata),
	}
	if a.Description != nil {
		values["description"] = *a.Description
	}
	if a.ActionTemplate.DedupKey != nil {
		values["dedup_key"] = *a.ActionTemplate.DedupKey
	}
	if a.JitterSeconds > 0 {
		values["jitter_seconds"] = strconv.FormatInt(a.JitterSeconds, 10)
	}
	if a.MaxExecutions > 0 {
		values["max_executions"] = strconv.FormatUint(a.MaxExecutions, 10)
	}
	fields := q.scheduleFields()
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
		"timezone": "UTC", "description": nil, "payload": json.RawMessage("{}"), "overlap": "", "missed": "", "dst": "", "day_match": "", "starts_at": nil, "ends_at": nil,
		"jitter_seconds": 0, "max_executions": 0, "calendars": []string{}, "dedup_key": nil, "labels": map[string]string{}, "metadata": map[string]string{},
	}
	for name, none := range empty {
		if _, given := body[name]; !given && form.Has(name) {
			body[name] = none
		}
	}
	for _, f := range shown {
		if sameText(form.Get(f.Name), f.Value) {
			delete(body, f.Name)
		}
	}
	if len(body) == 0 {
		return &apiError{Status: http.StatusBadRequest, Text: "nothing was changed in the form"}
	}
	return nil
}

// sameText reports whether a field was sent with the text that it was shown with: browsers send line ends of their own.
func sameText(sent, shown string) bool {
	plain := func(s string) string {
		return strings.TrimSpace(strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\r", "\n"))
	}
	return plain(sent) == plain(shown)
}

// pairLines gives names with values as a form has them: a line for each, or JSON if one of them would not come back from
// its line.
func pairLines(m map[string]string) string {
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		lines = append(lines, name+"="+m[name])
	}
	text := strings.Join(lines, "\n")
	if back, err := readPairs(text); err != nil || !maps.Equal(back, m) || strings.Contains(text, "\r") {
		return indented(m)
	}
	return text
}

// local gives a time as a field of a form has it: whole, and with its distance from UTC, so that it is the same time whichever zone
// is chosen when the form is sent.
func (q *visit) local(t core.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Std().In(q.zone).Format(time.RFC3339Nano)
}

func (q *visit) triggerFields() ([]field, error) {
	var a wire.RecurringAction
	if err := q.get(pathOf("recurring", q.PathValue("id")), nil, &a); err != nil {
		return nil, err
	}
	return []field{{Name: "payload", Label: "Payload", Type: fieldJSON, Value: editableJSON(a.ActionTemplate.Payload), Help: "What the tool gets, this once."}}, nil
}

func (q *visit) backfillFields() ([]field, error) {
	return []field{
		{Name: "recurring_id", Type: fieldHidden, Value: q.PathValue("id")},
		{Name: "from", Label: "From", Type: fieldTime, Required: true},
		{Name: "to", Label: "To", Type: fieldTime, Help: "Left out: now."},
		{Name: "max_active", Label: "At a time", Type: fieldNumber, Help: "How many of its times may run at once."},
		{Name: "limit", Label: "At most", Type: fieldNumber},
		reasonField,
	}, nil
}
