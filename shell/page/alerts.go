package page

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

func alertViews() []viewRoute {
	return []viewRoute{{"/alerts", "/alerts", (*visit).alerts}}
}

// alerts lists the schedules that have alerts.
func (q *visit) alerts() (view, error) {
	var got wire.AlertList
	t, err := q.read(list{
		api: "/alerts", path: "/alerts", caption: "Schedules that have alerts, newest first", filters: []field{statusFilter(core.KindAlert)}, ordered: true,
		head:  []string{"Schedule", "Status", "Open", "Rules", "Silenced until", "Tenant"},
		empty: "No schedule has alerts. The form of a recurring action or a job gives it some, such as failing=3.",
	}, &got)
	if err != nil {
		return view{}, err
	}
	for _, a := range got.Alerts {
		var open []string
		for _, o := range a.Open {
			open = append(open, string(o.Kind))
		}
		t.Rows = append(t.Rows, []cell{
			q.alertLink(a).wide(), alertBadge(a), textOf(strings.Join(open, ", ")), textOf(strings.Join(a.Rules.Words(), ", ")).wide(), q.at(a.Silenced.Until), whose(a.Namespace, a.Tenant),
		})
	}
	q.next(t, got.NextPageToken)
	return view{Title: "Alerts", Body: []block{{Table: t}}}, nil
}

// alertLink leads to the schedule that an alert watches.
func (q *visit) alertLink(a wire.Alert) cell {
	if a.Schedule.Kind == core.KindJob {
		return textOf(clip(a.Name, 120)).to(q.scoped(pathOf("jobs", a.Name), a.Namespace, a.Tenant))
	}
	return textOf(clip(a.Name, 120)).to(q.page(pathOf("recurring", a.Schedule.ID.String())))
}

func alertBadge(a wire.Alert) cell {
	c := cell{Text: a.Status, State: true, Tone: toneGood}
	if a.Status == core.AlertOpen {
		c.Tone = toneBad
	}
	return c
}

// openAlerts shows the alerts that are open, for the overview. It has no tile if no schedule has alerts.
func (q *visit) openAlerts() ([]tile, []block, error) {
	var got wire.AlertList
	may, err := q.getPart("/alerts", url.Values{"status": {core.AlertOpen}, "limit": {overviewCounted}}, &got)
	if err != nil || !may || len(got.Alerts) == 0 {
		return nil, nil, err
	}
	t := &table{Caption: "Open alerts", Head: []string{"Schedule", "Alert", "Since", "Why", "Tenant"}}
	n := 0
	for _, a := range got.Alerts {
		for _, o := range a.Open {
			if n++; n <= overviewRows {
				t.Rows = append(t.Rows, []cell{q.alertLink(a).wide(), badgeOfAlert(a, o), q.at(o.Since), textOf(clip(o.Reason, 200)).wide(), whose(a.Namespace, a.Tenant)})
			}
		}
	}
	more := got.NextPageToken != ""
	b := block{Title: "Open alerts", ID: "alerts", Table: t}
	if n > overviewRows || more {
		b.Note = "The first " + strconv.Itoa(overviewRows) + "; the number above leads to all."
	}
	return []tile{{Name: "alerts open", Value: counted(n, more), Href: q.page("/alerts", "status", core.AlertOpen), Tone: toneBad}}, []block{b}, nil
}

// badgeOfAlert shows an alert that is open, and whether anybody is told.
func badgeOfAlert(a wire.Alert, o core.OpenAlert) cell {
	c := cell{Text: string(o.Kind), State: true, Tone: toneBad}
	if !a.Silenced.Until.IsZero() {
		c.Hint = "silenced"
	}
	return c
}

// alertsOf shows the alerts of a schedule at that path of the API, and gives the acts that silence them; nothing if its rules are none.
func (q *visit) alertsOf(path string, rules core.AlertRules, scope url.Values) (blocks []block, acts []string, err error) {
	if rules.None() {
		return nil, nil, nil
	}
	var a wire.Alert
	if err := q.get(path+"/alerts", scope, &a); err != nil {
		if notFound(err) { // they were taken out meanwhile
			err = nil
		}
		return nil, nil, err
	}
	t := &table{Caption: "Alerts", Head: []string{"Alert", "Since", "Why"}, Empty: "No alert is open."}
	for _, o := range a.Open {
		t.Rows = append(t.Rows, []cell{badgeOfAlert(a, o), q.at(o.Since), textOf(o.Reason).wide()})
	}
	b := block{Title: "Alerts", ID: "alerts", Table: t}
	for _, rule := range rules.Words() {
		word, value, _ := strings.Cut(rule, "=")
		b.Facts = append(b.Facts, fact{"Rule: " + word, textOf(value)})
	}
	if a.View.Resting != "" {
		b.Note = "They rest: " + a.View.Resting + "."
	}
	if a.Silenced.Until.IsZero() {
		return []block{b}, []string{"silence"}, nil
	}
	return []block{{Notice: &notice{Text: q.silencedText(a.Silenced), Tone: toneOff}}, b}, []string{"unsilence"}, nil
}

func (q *visit) silencedText(s core.Silence) string {
	text := "Its alerts are silenced until " + q.moment(s.Until).Text
	if s.By != "" {
		text += " by " + s.By
	}
	if s.Reason != "" {
		text += ": " + s.Reason
	}
	return text
}

// silenceActs are those of what stands at a path.
func silenceActs(on, api string) []act {
	return []act{
		{
			on: on, name: "silence", method: "POST", api: api + "/silence", label: "Silence alerts", done: "Its alerts are silenced.",
			says: "Nobody is told of its alerts until then. They go on watching: what is open at the end is told then.",
			fields: []field{
				{Name: "until", Label: "Until", Type: fieldTime, Required: true, Help: "Such as 2026-01-31T07:00."},
				{Name: "reason", Label: "Reason", Help: "Shown to whoever asks why nobody is told."},
			},
		},
		{
			on: on, name: "unsilence", method: "POST", api: api + "/unsilence", label: "End the silence", done: "Its alerts are told again.",
			says: "What is open is told within a few minutes.",
		},
	}
}

// readAlerts reads rules for alerts as people write them, one a line.
func readAlerts(s string) (core.AlertRules, error) {
	var r core.AlertRules
	var errs []error
	for _, line := range nonEmpty(strings.Split(s, "\n")) {
		word, value, _ := strings.Cut(line, "=")
		if err := r.Set(strings.TrimSpace(word), strings.TrimSpace(value)); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", strings.TrimSpace(word), err))
		}
	}
	return r, errors.Join(errs...)
}

// withSilence puts the acts about alerts before the last one, which deletes.
func withSilence(names, acts []string) []string {
	return slices.Insert(slices.Clone(names), len(names)-1, acts...)
}
