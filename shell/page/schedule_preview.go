package page

import (
	"cmp"
	"net/url"
	"strconv"
	"strings"

	"github.com/orrery-go/orrery/core/schedule"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

// previewForm shows what the fields of a form mean, while they are typed.
func (q *visit) previewForm() (view, error) {
	return view{Title: "Preview", Static: true, Body: q.whenOfForm(q.URL.Query())}, nil
}

// tryRecurring shows when the recurring action of a form would fire.
func (q *visit) tryRecurring(map[string]any) ([]block, error) {
	return append(q.whenOfForm(q.PostForm), block{Notice: &notice{Text: "Nothing was changed so far."}}), nil
}

// previewFields are the fields of a form that the API's preview refuses by their names.
var previewFields = []field{{Name: "cron_expr", Label: "Cron expression"}, {Name: "timezone", Label: "Time zone"}, {Name: "max_executions", Label: "At most so many executions"}} // read-only: a table

// whenOfForm says in words what the fields of a form mean, and gives the next five times.
func (q *visit) whenOfForm(given url.Values) []block {
	says := func(text string, tone tone) block { return block{Notice: &notice{Text: text, Tone: tone}} }
	expr := strings.TrimSpace(cmp.Or(given.Get("cron_expr"), given.Get("schedule")))
	if expr == "" {
		return nil
	}
	params := url.Values{"cron_expr": {expr}, "n": {"5"}, "calendar": nonEmpty(strings.Split(given.Get("calendars"), "\n"))}
	for _, name := range []string{"timezone", "dst", "day_match", "max_executions", "namespace", "tenant"} {
		if v := strings.TrimSpace(given.Get(name)); v != "" {
			params.Set(name, v)
		}
	}
	for name, label := range map[string]string{"starts_at": "Starts", "ends_at": "Ends"} {
		if v := strings.TrimSpace(given.Get(name)); v != "" {
			at, err := q.readTime(v)
			if err != nil {
				return []block{says(label+": "+err.Error(), toneBad)}
			}
			params.Set(name, at.String())
		}
	}
	var p wire.Preview
	if err := q.get("/recurring/preview", params, &p); err != nil {
		_, text := q.p.statusOf(err)
		return []block{says(labelled(previewFields, text), toneBad)}
	}
	text := p.Description
	if !strings.Contains(text, p.Timezone) { // it names each zone but UTC
		text += " (" + p.Timezone + ")"
	}
	out := []block{says(text, toneNone)}
	warnings := append(p.Warnings, q.clockChanges(p.Times, p.Timezone)...)
	if len(p.Times) == 0 {
		warnings = append(warnings, "No time is to come.")
	}
	if jitter := strings.TrimSpace(given.Get("jitter_seconds")); jitter != "" && jitter != "0" {
		warnings = append(warnings, "Each is dispatched later by up to "+clip(jitter, 20)+" s.")
	}
	if given.Get("cron_expr") == "" {
		warnings = append(warnings, "What stands among the further settings is not looked at here, but by \u201cShow what it would do\u201d.")
	}
	for _, w := range warnings {
		out = append(out, says(w, toneWait))
	}
	zone, _ := schedule.LoadZone(p.Timezone)
	var f []fact
	for i, at := range p.Times {
		local := at.Std().In(zone.Location())
		f = append(f, fact{strconv.Itoa(i + 1), textOf(local.Format("Mon 2006-01-02 15:04:05 ") + zoneName(local) + ", " + ago(at.Std().Sub(q.now)))})
	}
	return append(out, block{Facts: f})
}
