package page

import (
	"fmt"
	"strconv"
	"time"

	"github.com/orrery-go/orrery/effects"
)

// moment shows a time in the zone that the browser has chosen.
func (q *visit) moment(t effects.Time) *moment {
	at := t.Std()
	return &moment{
		RFC3339: at.UTC().Format(time.RFC3339),
		Text:    at.In(q.zone).Format("2006-01-02 15:04:05 ") + zoneName(at.In(q.zone)),
		Ago:     ago(at.Sub(q.now)),
	}
}

// zoneName names the zone of a time as people know it: UTC, CET, or UTC+05 if it has no letters.
func zoneName(t time.Time) string {
	name, _ := t.Zone()
	if name == "" || name[0] == '+' || name[0] == '-' {
		return "UTC" + name
	}
	return name
}

// ago says how far from now something is: below zero it has been.
func ago(d time.Duration) string {
	if d > -time.Second && d < time.Second {
		return "now"
	}
	if d < 0 {
		return roughly(-d) + " ago"
	}
	return "in " + roughly(d)
}

// roughly gives a duration in its greatest unit, and the one below if that says much.
func roughly(d time.Duration) string {
	switch {
	case d < time.Second:
		return strconv.FormatInt(d.Milliseconds(), 10) + " ms"
	case d < 2*time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		h, m := int(d.Hours()), int(d.Minutes())%60
		if m == 0 || h >= 10 {
			return fmt.Sprintf("%d h", h)
		}
		return fmt.Sprintf("%d h %d min", h, m)
	case d < 2*365*24*time.Hour:
		return fmt.Sprintf("%d days", int(d.Hours()/24))
	default:
		return fmt.Sprintf("%d years", int(d.Hours()/24/365.25))
	}
}

// took gives how long something took from one time to another; nothing if it has not begun, and until now
// if it has not ended.
func (q *visit) took(from, to effects.Time) string {
	if from.IsZero() {
		return ""
	}
	end := q.now
	if !to.IsZero() {
		end = to.Std()
	}
	return precisely(max(end.Sub(from.Std()), 0))
}

// lasted is a cell of [visit.took], which counts on while it has not ended.
func (q *visit) lasted(from, to effects.Time) cell {
	c := textOf(q.took(from, to))
	if !from.IsZero() && to.IsZero() {
		c.Since = from.Std().UTC().Format(time.RFC3339)
	}
	return c
}

// precisely gives a duration as people read it: to the millisecond below a second, to the tenth below ten, to the second below an hour, and else to
// the minute.
func precisely(d time.Duration) string {
	switch {
	case d < time.Second:
		return strconv.FormatInt(d.Milliseconds(), 10) + " ms"
	case d < 10*time.Second:
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + " s"
	case d < time.Hour:
		return d.Round(time.Second).String()
	default:
		return d.Round(time.Minute).String()[:len(d.Round(time.Minute).String())-2] // without its seconds, which are 0
	}
}
