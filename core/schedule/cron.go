package schedule

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// Limits of the dialect.
const (
	maxExpr = 1024 // bytes
	minYear = 1970
	maxYear = 2099
)

// A unit is what one field of a cron expression counts.
type unit struct {
	name     string
	min, max int
	size     int      // how many different values there are; 7 is another name of 0 in the day of week
	names    []string // from min on; the first three letters of each are its short name
}

// The fields in their canonical order.
const (
	second = iota
	minute
	hour
	dayOfMonth
	month
	dayOfWeek
	year
	fieldCount
)

// read-only: the parser only looks up what a field is called and may hold.
var units = [fieldCount]unit{
	second:     {name: "second", min: 0, max: 59, size: 60},
	minute:     {name: "minute", min: 0, max: 59, size: 60},
	hour:       {name: "hour", min: 0, max: 23, size: 24},
	dayOfMonth: {name: "day-of-month", min: 1, max: 31, size: 31},
	month: {name: "month", min: 1, max: 12, size: 12, names: []string{
		"January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December",
	}},
	dayOfWeek: {name: "day-of-week", min: 0, max: 7, size: 7, names: []string{
		"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday",
	}},
	year: {name: "year", min: minYear, max: maxYear, size: maxYear - minYear + 1},
}

// A span is one plain item of a field: a value, a range, or either with a step.
type span struct {
	lo, hi  int // as written; hi < lo wraps around
	step    int // 1 where none is written
	stepped bool
	star    bool
	ranged  bool // written with "-", "*" or "/"
}

// A field is what one field of an expression says.
type field struct {
	text  string
	spans []span
	set   valueSet // the values that the spans name
	every bool     // "*" or "?": nothing is restricted
	// elapsed tells that a "*" or a step is in the field: R4 for the hour.
	elapsed  bool
	warnings []string // one for each item whose step reaches no second value

	last        bool     // day of month: L
	lastWeekday bool     // day of month: LW
	nearest     valueSet // day of month: 15W
	lastOf      valueSet // day of week: 5L
	nth         valueSet // day of week: 1#2 as 7*(n-1)+day
}

// A cronFields is an expression as our own grammar understands it. Nothing of
// the text reaches the calendar search that has not been read here.
type cronFields [fieldCount]field

// aliases are what the "@" words stand for.
//
// read-only: a table
var aliases = map[string]string{
	"@yearly":   "0 0 1 1 *",
	"@annually": "0 0 1 1 *",
	"@monthly":  "0 0 1 * *",
	"@weekly":   "0 0 * * 0",
	"@daily":    "0 0 * * *",
	"@midnight": "0 0 * * *",
	"@hourly":   "0 * * * *",
}

// parseCron reads an expression of 5, 6 or 7 fields, or an alias.
func parseCron(expr string) (*cronFields, error) {
	if strings.HasPrefix(strings.TrimLeft(expr, " \t"), "@") {
		word := strings.Trim(expr, " \t")
		std, ok := aliases[strings.ToLower(word)]
		if !ok {
			return nil, exprError("%s is not known: write @yearly, @annually, @monthly, @weekly, @daily, @midnight, @hourly or @every with a duration such as %q", quote(word), "@every 90s")
		}
		expr = std
	}
	texts := strings.FieldsFunc(expr, func(r rune) bool { return r == ' ' || r == '\t' })
	switch len(texts) {
	case 5:
		texts = append([]string{"0"}, append(texts, "*")...)
	case 6:
		texts = append(texts, "*")
	case 7:
	default:
		return nil, exprError("%s has %s: write 5 (minute hour day-of-month month day-of-week), 6 (second first) or 7 (second first, year last)", quote(expr), plural(len(texts), "field"))
	}
	var c cronFields
	for i, text := range texts {
		if err := c[i].parse(i, text); err != nil {
			return nil, err
		}
	}
	return &c, nil
}

// parse reads field number i.
func (f *field) parse(i int, text string) error {
	u := &units[i]
	f.text = text
	if text == "?" {
		if i != dayOfMonth && i != dayOfWeek {
			return fieldError(u, text, `"?" is only for day-of-month and day-of-week: write "*"`)
		}
		text = "*"
	}
	for item := range strings.SplitSeq(text, ",") {
		if item == "" {
			return fieldError(u, text, "an item of the list is empty")
		}
		special, err := f.parseSpecial(i, item)
		if err != nil {
			return err
		}
		if special {
			continue
		}
		s, err := parseSpan(u, text, item)
		if err != nil {
			return err
		}
		f.elapsed = f.elapsed || s.star || strings.Contains(item, "/")
		if s.stepped && s.step > s.length(u) {
			s = span{lo: s.lo, hi: s.lo, step: 1}
			f.warnings = append(f.warnings, stepWarning(u, text, item, s.lo))
		}
		f.spans = append(f.spans, s)
		f.every = f.every || s.star && s.step == 1
		f.add(u, s)
	}
	return nil
}

// length is how far the span's end is from its first value.
func (s span) length(u *unit) int {
	if s.hi < s.lo {
		return s.hi - s.lo + u.size
	}
	return s.hi - s.lo
}

// stepWarning says what an item stands for whose step reaches no second value. Vixie
// cron takes such items, and real crontabs have them.
func stepWarning(u *unit, text, item string, v int) string {
	value := strconv.Itoa(v)
	if u.names != nil {
		value += " (" + u.names[v-u.min] + ")"
	}
	return fmt.Sprintf("%s field %s: the step of %s leads beyond its range at once, so that it stands for %s alone", u.name, quote(text), quote(item), value)
}

// add puts the span's values into the set; a reversed range wraps around.
func (f *field) add(u *unit, s span) {
	hi := s.hi
	if hi < s.lo {
		hi += u.size
	}
	for v := s.lo; v <= hi; v += s.step {
		f.set.add((v - u.min) % u.size)
	}
}

// parseSpan reads "*", "5", "1-5", and each of them with a step.
func parseSpan(u *unit, text, item string) (span, error) {
	base, stepText, stepped := strings.Cut(item, "/")
	s := span{lo: u.min, hi: u.min + u.size - 1, step: 1, star: base == "*", ranged: true}
	first, last, ranged := strings.Cut(base, "-")
	var err error
	switch {
	case s.star:
	case ranged && (first == "" || last == ""):
		return s, fieldError(u, text, "%s is half a range: write both ends", quote(base))
	case ranged:
		if s.lo, err = u.value(text, first); err != nil {
			return s, err
		}
		if s.hi, err = u.value(text, last); err != nil {
			return s, err
		}
		if u == &units[year] && s.hi < s.lo {
			return s, fieldError(u, text, "%s runs backwards: write %s-%s", quote(base), last, first)
		}
		if u == &units[dayOfWeek] && s.lo == 7 {
			s.lo, s.hi = 0, s.hi%7
		}
	default:
		if s.lo, err = u.value(text, base); err != nil {
			return s, err
		}
		s.lo = u.min + (s.lo-u.min)%u.size
		if !stepped {
			s.hi, s.ranged = s.lo, false
		}
	}
	if !stepped {
		return s, nil
	}
	step, ok := parseStep(stepText)
	switch {
	case !ok:
		return s, fieldError(u, text, "step %s is not a whole number", quote(stepText))
	case step == 0:
		return s, fieldError(u, text, "step 0 never advances: write a step of 1 or more")
	}
	s.step, s.stepped = step, true
	return s, nil
}

// parseStep reads what follows the slash. What has more digits than a [number] is
// longer than all ranges, and is cut to a value that is so too.
func parseStep(s string) (step int, ok bool) {
	const longest = 9999
	if s == "" || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	if step, ok = number(cmp.Or(strings.TrimLeft(s, "0"), "0")); !ok {
		step = longest
	}
	return step, true
}

// parseSpecial reads the items that count from the end of the month or by its
// weeks; it reports false for all others.
func (f *field) parseSpecial(i int, item string) (bool, error) {
	u := &units[i]
	upper := strings.ToUpper(item)
	switch i {
	case dayOfMonth:
		day, nearest := strings.CutSuffix(upper, "W")
		switch {
		case upper == "L":
			f.last = true
		case upper == "LW":
			f.lastWeekday = true
		case strings.HasPrefix(upper, "L"), strings.HasPrefix(upper, "W"):
			return false, fieldError(u, f.text, "%s is not supported: L (last day), LW (last weekday) and 15W (weekday nearest the 15th) are", quote(item))
		case nearest:
			v, err := u.value(f.text, day)
			if err != nil {
				return false, err
			}
			f.nearest.add(v)
		default:
			return false, nil
		}
		return true, nil
	case dayOfWeek:
		day, nth, numbered := strings.Cut(upper, "#")
		last := false
		if !numbered {
			day, last = strings.CutSuffix(upper, "L")
		}
		if !numbered && !last {
			return false, nil
		}
		if day == "" {
			return false, fieldError(u, f.text, "%s names no day: write one before it, such as 5L (last Friday) or MON#2 (second Monday)", quote(item))
		}
		v, err := u.value(f.text, day)
		if err != nil {
			return false, err
		}
		if last || nth == "L" {
			f.lastOf.add(v % 7)
			return true, nil
		}
		n, ok := number(nth)
		if !ok || n < 1 || n > 5 {
			return false, fieldError(u, f.text, "%s is not a week of the month: write # and 1-5, or #L for the last", quote("#"+nth))
		}
		f.nth.add(7*(n-1) + v%7)
		return true, nil
	}
	return false, nil
}

// value reads a number or a name.
func (u *unit) value(text, s string) (int, error) {
	if v, ok := number(s); ok {
		if v < u.min || v > u.max {
			return 0, fieldError(u, text, "%s is out of range %d-%d", s, u.min, u.max)
		}
		return v, nil
	}
	for i, name := range u.names {
		if strings.EqualFold(s, name) || strings.EqualFold(s, name[:3]) {
			return u.min + i, nil
		}
	}
	if n := len(u.names); n > 0 {
		return 0, fieldError(u, text, "%s is neither a number from %d to %d nor a name from %s to %s, whole or its first three letters", quote(s), u.min, u.max, u.names[0], u.names[n-1])
	}
	return 0, fieldError(u, text, "%s is not a number from %d to %d", quote(s), u.min, u.max)
}

// number reads one to four digits and nothing else.
func number(s string) (int, bool) {
	if len(s) == 0 || len(s) > 4 {
		return 0, false
	}
	n := 0
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = 10*n + int(c-'0')
	}
	return n, true
}

// checkText refuses what no expression can contain, before anything reads it.
func checkText(expr string) error {
	if len(expr) > maxExpr {
		return exprError("the expression is %d bytes long: at most %d are accepted", len(expr), maxExpr)
	}
	for i, c := range []byte(expr) {
		if (c < ' ' && c != '\t') || c > '~' {
			return exprError("%s has the byte %#02x at position %d: write plain ASCII on one line", quote(expr), c, i)
		}
	}
	if strings.Trim(expr, " \t") == "" {
		return exprError(`the expression is empty: write one such as "0 9 * * MON-FRI"`)
	}
	return nil
}
