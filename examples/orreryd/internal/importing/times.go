package importing

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// A cronField is one of the five fields of a crontab's line.
type cronField struct {
	name     string
	min, max int
	names    []string // from min on
}

// read-only: what the fields are called and may hold, as crontab(5) says.
var cronFieldsOf = [5]cronField{
	{name: "minute", min: 0, max: 59},
	{name: "hour", min: 0, max: 23},
	{name: "day of month", min: 1, max: 31},
	{name: "month", min: 1, max: 12, names: []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}},
	{name: "day of week", min: 0, max: 7, names: []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat", "sun"}},
}

const (
	cronMinute = iota
	cronHour
	cronDay
	cronMonth
	cronWeekday
)

// read-only: what stands for five fields, in small letters alone.
var cronWords = map[string]string{
	"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
	"@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
}

// times are the fields of a line as they are written here.
type times struct {
	fields [5]string
	star   [5]bool // the field begins with a star, by which cron tells things apart
}

// readTimes reads the fields of a line: what cron takes, and not more. field is the one that is wrong.
func readTimes(fields [5]string) (t times, field int, err error) {
	for i, text := range fields {
		u := &cronFieldsOf[i]
		t.star[i] = strings.HasPrefix(text, "*")
		items := strings.Split(text, ",")
		for n, item := range items {
			if items[n], err = u.item(item, t.star[i]); err != nil {
				return t, i, err
			}
		}
		t.fields[i] = strings.Join(items, ",")
	}
	return t, 0, nil
}

// item checks an item of a list. A star within a list that does not begin with one restricts to all values in
// cron, and restricts nothing here: it is written as the range that it is.
func (u *cronField) item(item string, begins bool) (string, error) {
	body, step, stepped := strings.Cut(item, "/")
	all := fmt.Sprintf("%d-%d", u.min, u.max)
	if stepped {
		if n, err := strconv.Atoi(step); err != nil || n < 1 || step[0] == '+' {
			return "", fmt.Errorf("the step %q is no number from 1: write it such as %s/2", clip(step), cmp.Or(body, "*"))
		}
	}
	if body == "*" {
		if begins {
			return item, nil
		}
		return strings.Replace(item, "*", all, 1), nil
	}
	from, to, ranged := strings.Cut(body, "-")
	first, err := u.value(from)
	if err != nil {
		return "", err
	}
	if !ranged {
		if stepped {
			return "", fmt.Errorf("%q has a step after a single value, which cron refuses: write the range, such as %s-%d/%s", clip(item), from, u.top(), step)
		}
		return item, nil
	}
	last, err := u.value(to)
	if err != nil {
		return "", err
	}
	if first > last {
		if u.names != nil && strings.EqualFold(to, "sun") {
			return "", fmt.Errorf("%q runs backwards, since sun is 0 to cron: write %d-7", clip(body), first)
		}
		return "", fmt.Errorf("%q runs backwards, which cron refuses: write %d-%d,%d-%d", clip(body), first, u.top(), u.min, last)
	}
	return item, nil
}

// top is the last value of a field that has no other name.
func (u *cronField) top() int {
	if u.max == 7 {
		return 6
	}
	return u.max
}

// value reads a number or a name.
func (u *cronField) value(s string) (int, error) {
	if strings.Contains(s, "~") {
		return 0, fmt.Errorf("%q is a random time: write a time, and give the schedule a jitter once it is imported", clip(s))
	}
	if s != "" && strings.Trim(s, "0123456789") == "" {
		if n, err := strconv.Atoi(s); err == nil && n >= u.min && n <= u.max {
			return n, nil
		}
		return 0, fmt.Errorf("%s is not between %d and %d", clip(s), u.min, u.max)
	}
	for i, name := range u.names {
		if strings.EqualFold(s, name) {
			return u.min + i, nil
		}
	}
	if u.names != nil {
		return 0, fmt.Errorf("%q is neither a number from %d to %d nor the first three letters of a name, such as %s", clip(s), u.min, u.max, u.names[1])
	}
	return 0, fmt.Errorf("%q is no number from %d to %d", clip(s), u.min, u.max)
}

// values are those that a field names, which readTimes has taken.
func (u *cronField) values(text string) []int {
	has := map[int]bool{}
	for item := range strings.SplitSeq(text, ",") {
		body, stepText, stepped := strings.Cut(item, "/")
		first, last, step := u.min, u.max, 1
		if body != "*" {
			from, to, ranged := strings.Cut(body, "-")
			first, _ = u.value(from)
			if last = first; ranged {
				last, _ = u.value(to)
			}
		}
		if stepped {
			step, _ = strconv.Atoi(stepText)
		}
		for v := first; v <= last; v += step {
			has[v] = true
		}
	}
	var out []int
	for v := u.min; v <= u.max; v++ {
		if has[v] {
			out = append(out, v)
		}
	}
	return out
}

// expr is the expression with these fields.
func (t times) expr() string { return strings.Join(t.fields[:], " ") }

// both reports whether a day must match both day fields, and says so here: cron's rule if one begins with a star. Where
// one of them restricts nothing, that needs no word.
func (t times) both() bool {
	return (t.star[cronDay] || t.star[cronWeekday]) && restricts(t.fields[cronDay]) && restricts(t.fields[cronWeekday])
}

// restricts reports whether a field leaves out any value, as package schedule sees it.
func restricts(text string) bool {
	for item := range strings.SplitSeq(text, ",") {
		if item == "*" || item == "*/1" {
			return false
		}
	}
	return true
}
