package page

import (
	"maps"
	"slices"
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
			says: "Makes an action at each time of a cron expression.", load: (*visit).newRecurring, after: afterMade("/recurring/"), amend: amendRecurring, try: (*visit).tryRecurring,
		},
		{
			on: on, name: "edit", method: "PUT", api: "/v1/recurring/{id}", label: "Edit", done: "The recurring action was changed.",
			says: "What runs goes on. Times that wait for their turn are cancelled if the times change.", load: (*visit).editRecurring, amend: amendRecurring, try: (*visit).tryRecurring,
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
	{Name: "until", Label: "Until", Type: fieldTime, Help: "It goes on by itself then; left out: until somebody resumes it. Such as 2026-01-31T07:00."},
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
