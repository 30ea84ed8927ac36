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

// firstDay gives the first day from d on that matches both day fields, the month
// and the year, in days since 1970; it gives never where no day matches.
func (c *cronFields) firstDay(d int64) int64 {
	for d = max(d, 0); ; {
		y, m, dom := time.Unix(d*day, 0).UTC().Date()
		if y > maxYear {
			return never
		}
		last := time.Date(y, m+1, 0, 0, 0, 0, 0, time.UTC).Day()
		if !c[month].set.has(int(m)-1) || !c[year].set.has(y-minYear) {
			d += int64(last - dom + 1)
			continue
		}
		for ; dom <= last; dom++ {
			dow := int(d+4) % 7 // 1970 began on a Thursday
			if c[dayOfMonth].hasDayOfMonth(dom, dow, last) && c[dayOfWeek].hasDayOfWeek(dom, dow, last) {
				return d
			}
			d++
		}
	}
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
