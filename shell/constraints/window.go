package constraints

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/orrery-go/orrery/core/schedule"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/internal/clip"
)

// window is timeWindow: it is between two times of the day, on some days of the
// week. The clock on the wall counts: where it is set forward over a window, there
// is none that day, and where it is set back into one, there are both.
type window struct {
	Lists
	from, to  int // minutes of the day; to up to 24:00
	days      [7]bool
	zone      *schedule.Zone
	outside   bool
	scheduled bool
}

const dayMinutes = 24 * 60

func newWindow(s Spec) (Constraint, error) {
	c := struct {
		From     string   `json:"from"`
		To       string   `json:"to"`
		Weekdays []string `json:"weekdays"`
		Timezone string   `json:"timezone"`
		Outside  bool     `json:"outside"`
		At       string   `json:"at"`
	}{From: "00:00", To: "24:00", Timezone: s.Job.Timezone, At: "now"}
	if err := s.Decode(&c); err != nil {
		return nil, err
	}
	w := &window{Lists: s.Lists, outside: c.Outside, scheduled: c.At == "scheduled"}
	var err error
	if w.from, err = minutes(c.From); err != nil || w.from == dayMinutes {
		return nil, s.Errorf("from", "%q is no time of the day: want one from \"00:00\" to \"23:59\"", clip.Text(c.From, maxQuoted))
	}
	if w.to, err = minutes(c.To); err != nil {
		return nil, s.Errorf("to", "%q is no time of the day: want one from \"00:00\" to \"24:00\"", clip.Text(c.To, maxQuoted))
	}
	if w.from == w.to {
		return nil, s.Errorf("to", "%q is also where the window begins: leave both out for the whole day", clip.Text(c.To, maxQuoted))
	}
	if w.days, err = weekdays(s, c.Weekdays); err != nil {
		return nil, err
	}
	if w.zone, err = schedule.LoadZone(cmp.Or(c.Timezone, "UTC")); err != nil {
		return nil, s.Errorf("timezone", "%w", err)
	}
	if c.At != "now" && c.At != "scheduled" {
		return nil, s.Errorf("at", "%q is unknown: use \"now\" or \"scheduled\"", clip.Text(c.At, maxQuoted))
	}
	return w, nil
}

// minutes reads "HH:MM".
func minutes(s string) (int, error) {
	if s == "24:00" {
		return dayMinutes, nil
	}
	t, err := time.Parse("15:04", s)
	if err != nil || len(s) != len("15:04") {
		return 0, fmt.Errorf("%q is no time", s)
	}
	return t.Hour()*60 + t.Minute(), nil
}

var dayNames = []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}

// weekdays reads names such as "mon", and ranges such as "mon-fri". None: all days.
func weekdays(s Spec, list []string) (days [7]bool, err error) {
	if len(list) == 0 {
		return [7]bool{true, true, true, true, true, true, true}, nil
	}
	for i, name := range list {
		first, last, ranged := strings.Cut(name, "-")
		if !ranged {
			last = first
		}
		from, to := slices.Index(dayNames, first), slices.Index(dayNames, last)
		if from < 0 || to < 0 {
			return days, s.Errorf(fmt.Sprintf("weekdays[%d]", i), "%q is no day of the week: want one of %s, or a range such as \"mon-fri\"", clip.Text(name, maxQuoted), strings.Join(dayNames, ", "))
		}
		for days[from] = true; from != to; days[from] = true {
			from = (from + 1) % 7
		}
	}
	return days, nil
}

// Check implements [Constraint].
func (w *window) Check(_ context.Context, in *Input) (Outcome, error) {
	at := effects.TimeOf(in.Now)
	if w.scheduled {
		at = in.Run.ScheduledAt
	}
	wall := at.Std().Add(w.zone.Offset(at))
	inside := w.contains(wall)
	where := "within"
	if !inside {
		where = "outside of"
	}
	return Outcome{Met: inside != w.outside, Message: fmt.Sprintf("%s in %s is %s %s", wall.Format("Mon 15:04"), w.zone.Name(), where, w)}, nil
}

// contains reports whether a time on the wall, which is given as one in UTC, is in
// the window. One that goes over midnight belongs to the day on which it begins.
func (w *window) contains(wall time.Time) bool {
	now, day := wall.Hour()*60+wall.Minute(), int(wall.Weekday())
	if w.from < w.to {
		return w.days[day] && now >= w.from && now < w.to
	}
	return w.days[day] && now >= w.from || w.days[(day+6)%7] && now < w.to
}

// String shows the window.
func (w *window) String() string {
	var days []string
	for i := range 7 {
		if d := (i + 1) % 7; w.days[d] { // from Monday on
			days = append(days, dayNames[d])
		}
	}
	text := fmt.Sprintf("%02d:%02d-%02d:%02d", w.from/60, w.from%60, w.to/60, w.to%60)
	if len(days) == 7 {
		return text
	}
	return text + " on " + strings.Join(days, ", ")
}
