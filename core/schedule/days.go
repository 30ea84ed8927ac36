package schedule

import (
	"fmt"
	"time"
)

// restrictsBoth reports whether both day fields are restricted, so that a
// [DayMatch] counts.
func (c *cronFields) restrictsBoth() bool { return !c[dayOfMonth].every && !c[dayOfWeek].every }

// dayWarning says where Vixie cron would take other days: there, a day field that
// begins with "*" turns "either" into "both". It is empty if somebody chose.
func (c *cronFields) dayWarning(m DayMatch) string {
	dom, dow := c[dayOfMonth].text, c[dayOfWeek].text
	if m != "" || !c.restrictsBoth() || dom[0] != '*' && dow[0] != '*' {
		return ""
	}
	return fmt.Sprintf("day-of-month field %s and day-of-week field %s stand for the days that match either; Vixie cron takes the days that match both",
		quote(dom), quote(dow))
}

// firstDay gives the first day from d on that the expression names, in days since
// 1970, or never if the expression names no further day.
func (c *cron) firstDay(d int64) int64 {
	f := c.fields
	for d = max(d, 0); ; {
		y, m, dom := time.Unix(d*day, 0).UTC().Date()
		if y > maxYear {
			return never
		}
		if !f[year].set.has(y - minYear) {
			d = time.Date(y+1, time.January, 1, 0, 0, 0, 0, time.UTC).Unix() / day
			continue
		}
		last := time.Date(y, m+1, 0, 0, 0, 0, 0, time.UTC).Day()
		if !f[month].set.has(int(m) - 1) {
			d += int64(last - dom + 1)
			continue
		}
		for ; dom <= last; dom++ {
			if c.namesDay(dom, int(d+4)%7, last) { // 1970 began on a Thursday
				return d
			}
			d++
		}
	}
}

// namesDay tells whether the day fields name the day dom of a month with the given
// last day, which falls on the day dow of the week.
func (c *cron) namesDay(dom, dow, last int) bool {
	ofMonth := c.fields[dayOfMonth].hasDayOfMonth(dom, dow, last)
	if ofMonth == c.eitherDay {
		return ofMonth
	}
	return c.fields[dayOfWeek].hasDayOfWeek(dom, dow, last)
}

// firstTime gives the first second from s on that the expression names, both counted
// from midnight, or false where the rest of the day has none.
func (c *cronFields) firstTime(s int) (int, bool) {
	hours, minutes, seconds := &c[hour].set, &c[minute].set, &c[second].set
	hh, mm, ss := s/3600, s/60%60, s%60
	if hours.has(hh) {
		if minutes.has(mm) {
			if sec := seconds.next(ss-1, 60); sec < 60 {
				return hh*3600 + mm*60 + sec, true
			}
		}
		if m := minutes.next(mm, 60); m < 60 {
			return hh*3600 + m*60 + seconds.next(-1, 60), true
		}
	}
	h := hours.next(hh, 24)
	return h*3600 + minutes.next(-1, 60)*60 + seconds.next(-1, 60), h < 24
}

// hasDayOfMonth tells it of the field of days of the month: dom is the day, dow its
// day of the week, last the last day of its month.
func (f *field) hasDayOfMonth(dom, dow, last int) bool {
	if f.set.has(dom-1) || f.last && dom == last {
		return true
	}
	near := func(v int) bool { return dom == nearestWeekday(v, (dow+v-dom+35)%7, last) }
	if f.lastWeekday && near(last) {
		return true
	}
	if f.nearest == (valueSet{}) {
		return false
	}
	for v := range f.nearest.values(last + 1) {
		if near(v) {
			return true
		}
	}
	return false
}

// hasDayOfWeek is hasDayOfMonth for the field of days of the week.
func (f *field) hasDayOfWeek(dom, dow, last int) bool {
	return f.set.has(dow) || f.lastOf.has(dow) && dom+7 > last || f.nth.has((dom-1)/7*7+dow)
}

// nearestWeekday gives the day from Monday to Friday nearest to the day v of a month,
// which falls on the day dow of the week, in the same month.
func nearestWeekday(v, dow, last int) int {
	switch {
	case dow == int(time.Saturday) && v > 1:
		return v - 1
	case dow == int(time.Saturday):
		return v + 2
	case dow == int(time.Sunday) && v < last:
		return v + 1
	case dow == int(time.Sunday):
		return v - 2
	}
	return v
}
