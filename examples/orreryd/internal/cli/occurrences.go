package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
)

func (a *app) occurrencesCommand() *cobra.Command {
	m := machine[core.Occurrence]{
		a: a, path: "/v1/occurrences", arg: "ID", args: oneID, view: occurrenceView,
		id: func(o core.Occurrence) string { return o.ID.String() }, ids: finder{path: "/v1/occurrences", field: "occurrences", what: "occurrence"},
	}
	return a.addClientFlags(m.ids.addFlags(group("occurrences", "List and show what was decided about the times of schedules",
		"Each time of a recurring action, a job or an action that recurs has one verdict, and its reason. Times that follow one another and have the same are one entry.",
		a.occurrencesList(), a.occurrencesUpcoming(), m.show("Show what was decided about a time"))))
}

func (a *app) occurrencesList() *cobra.Command {
	words := func(flag, usage string, list []string) filter {
		return filter{flag: flag, usage: usage + ": " + strings.Join(list, ", "), words: list}
	}
	return listing[core.Occurrence]{
		path: "/v1/occurrences", field: "occurrences", none: "nothing has been due yet, or nothing of what was due is asked for",
		short: "List what was decided about the times of all schedules, newest first; with --json one entry a line", lines: true,
		example: "  orreryd occurrences list --verdict missed --from 2026-11-21T00:00:00Z\n  orreryd occurrences list --name nightly --all --json",
		filters: []filter{
			words("schedule", "only those of that `kind` of schedule", wordsOf(core.OccurrenceSchedules()...)),
			{flag: "schedule-id", param: "schedule_id", usage: "only those of the recurring action or action with that `id`, or the job with that key", check: checkID},
			{flag: "name", usage: "only those of schedules of that `name`: a job's id, the name or else the description of a recurring action, the label of an action"},
			words("verdict", "only those with that `verdict`", wordsOf(core.Verdicts()...)),
			words("outcome", "only those that were dispatched and ended with that `outcome`", wordsOf(core.OccurrenceOutcomes("")...)),
			{flag: "manual", boolean: true, usage: "only those that were triggered by hand, or with --manual=false only the others; both without the flag"},
			{flag: "backfill", usage: "only those of the backfill with that `id`", check: checkID},
			{flag: "from", usage: "only entries whose first time is that `time` or later, in RFC 3339", check: isTime},
			{flag: "to", usage: "only entries whose first time is before that `time`, in RFC 3339", check: isTime},
			{flag: "spanning", boolean: true, usage: "with --from also entries of several times that begin before it and end then or later"},
		},
		name:   func(o core.Occurrence) string { return o.ID.String() },
		header: []string{"ID", "DUE (UTC)", "UNTIL", "TIMES", "SCHEDULE", "NAME:30", "VERDICT:14", "OUTCOME:12", "TOOK", "REASON:60"},
		row: func(o core.Occurrence) []string {
			made := occurrenceRow(o, "")
			return []string{
				o.ID.String(), shortTime(o.DueAt), until(o), made[2], text.OrDash(string(o.Schedule)), text.OrDash(o.Name), made[1], made[3], made[4], made[6],
			}
		},
	}.command(a)
}

// isTime looks at a time that the user typed.
func isTime(s string) error {
	if _, err := effects.ParseTime(s); err != nil {
		return &exitError{code: exitUsage, err: err}
	}
	return nil
}

// until shows the last time of an entry of several.
func until(o core.Occurrence) string {
	if o.LastDueAt == o.DueAt {
		return "-"
	}
	return shortTime(o.LastDueAt)
}

func occurrenceView(o core.Occurrence) view {
	when := func(t effects.Time) string { return orEmpty(t, effects.Time.String) }
	last, hand := "", ""
	if o.LastDueAt != o.DueAt {
		last = when(o.LastDueAt)
	}
	if o.Manual {
		hand = "yes"
	}
	return view{fields: [][2]string{
		{"id", o.ID.String()}, {"schedule", strings.TrimSpace(string(o.Schedule) + " " + o.RecurringID.String())}, {"name", o.Name}, {"scope", o.Namespace + "/" + o.Tenant},
		{"due", when(o.DueAt)}, {"until", last}, {"times", occurrenceRow(o, "")[2]}, {"by hand", hand}, {"backfill", idOr(o.Backfill)},
		{"verdict", string(o.Verdict)}, {"decided", when(o.DecidedAt)}, {"reason", o.Reason}, {"made", idOr(o.ActionID)},
		{"outcome", o.Outcome}, {"started", when(o.StartedAt)}, {"finished", when(o.FinishedAt)},
	}}
}

// printLines prints a list for programs, one element a line.
func (a *app) printLines(raws []json.RawMessage) error {
	var b bytes.Buffer
	for _, raw := range raws {
		if err := json.Compact(&b, raw); err != nil {
			return fmt.Errorf("print JSON: %w", err)
		}
		b.WriteByte('\n')
	}
	_, err := a.out.Write(b.Bytes())
	return err
}
