package page

import (
	"fmt"
	"slices"
	"strconv"
	"time"
)

// A fieldGroup is fields that stand together. Those of a name are shown when they are asked for, so that a form is as short as what most want.
type fieldGroup struct {
	Name   string
	Open   bool // one of them has a value
	Fields []field
}

// grouped puts the fields of each group together, in the order in which the groups begin.
func grouped(fields []field) (out []fieldGroup) {
	for _, f := range fields {
		i := slices.IndexFunc(out, func(g fieldGroup) bool { return g.Name == f.Group })
		if i < 0 {
			out = append(out, fieldGroup{Name: f.Group})
			i = len(out) - 1
		}
		out[i].Open = out[i].Open || f.Value != "" && (f.Group != behindSet || f.Name == takeOverField)
		out[i].Fields = append(out[i].Fields, f)
	}
	return out
}

// fieldPicker is a [fieldTime] that the browser offers a calendar and a clock for.
const fieldPicker fieldType = "picker"

// pickedTime is a time as such an input of a browser has it.
const pickedTime = "2006-01-02T15:04"

// picked lets the browser offer a calendar and a clock for a time, unless it says more than those can: seconds, or its distance from UTC.
func picked(f field) field {
	if f.Type == fieldTime {
		if _, err := time.Parse(pickedTime, f.Value); err == nil || f.Value == "" {
			f.Type = fieldPicker
		}
	}
	return f
}

// readLength reads a length of time as so many whole units: a number is of seconds.
func readLength(s string, unit time.Duration) (n int64, given bool, err error) {
	d, err := time.ParseDuration(s)
	if seconds, e := strconv.ParseInt(s, 10, 64); e == nil && seconds < int64(1<<62)/int64(time.Second) && seconds > -int64(1<<62)/int64(time.Second) {
		d, err = time.Duration(seconds)*time.Second, nil
	}
	if err != nil || d%unit != 0 {
		return 0, false, fmt.Errorf("%q is not a length such as 90s, 5m or 2h", s)
	}
	return int64(d / unit), true, nil
}

// lengthText gives so many units as a form has them; nothing if there are none.
func lengthText(n int64, unit time.Duration) string {
	if n == 0 {
		return ""
	}
	if n > int64(1<<62)/int64(unit) {
		return strconv.FormatInt(n/int64(time.Second/unit), 10)
	}
	return (time.Duration(n) * unit).String()
}

// countText gives a number as a form has it; nothing for 0.
func countText[N uint32 | uint64 | int64](n N) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}
