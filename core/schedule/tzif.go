package schedule

import (
	"errors"
	"math"
	"strings"
	"time"
)

const (
	beginning = math.MinInt64 / 4 // before all times; sums of it with offsets do not overflow
	day       = 24 * 60 * 60
	// firstKept is where the rules begin to matter: some time before 1970, so
	// that what the wall clocks had shown by then is known.
	firstKept = -30 * day
	// lastRuleYear is one year after the last in which a cron expression can
	// fire, for the zones that are behind UTC.
	lastRuleYear = maxYear + 1
)

var errTZif = errors.New("malformed TZif data")

// parseTZif reads a zone's segments from TZif data (RFC 9636) of version 2 or
// later. The standard library can read the data too, but keeps the transitions
// to itself, and working them out through its public methods takes more than
// ten times as long.
func parseTZif(data string) ([]segment, error) {
	const headerLen = 44
	if len(data) < headerLen || data[:4] != "TZif" || data[4] < '2' {
		return nil, errTZif
	}
	// The first block, with 32-bit times, is there for old readers.
	counts := tzifCounts(data)
	skip := headerLen + counts.times*5 + counts.types*6 + counts.chars + counts.leaps*8 + counts.isStd + counts.isUT
	if skip < 0 || len(data) < skip+headerLen || data[skip:skip+4] != "TZif" {
		return nil, errTZif
	}
	data = data[skip:]
	counts = tzifCounts(data)
	data = data[headerLen:]
	body := counts.times*9 + counts.types*6 + counts.chars + counts.leaps*12 + counts.isStd + counts.isUT
	if body < 0 || counts.types == 0 || len(data) < body {
		return nil, errTZif
	}
	times, kinds := data[:counts.times*8], data[counts.times*8:counts.times*9]
	types := data[counts.times*9:][:counts.types*6]
	footer := strings.Trim(data[body:], "\n")

	var b segments
	b.add(beginning, int64(int32(be32(types))))
	last := int64(firstKept)
	for i := range counts.times {
		kind := int(kinds[i])
		if kind >= counts.types {
			return nil, errTZif
		}
		at := int64(be64(times[i*8:]))
		b.add(at, int64(int32(be32(types[kind*6:]))))
		last = max(last, at)
	}
	if footer != "" {
		r, ok := parseRule(footer)
		if !ok {
			return nil, errTZif
		}
		r.extend(&b, last)
	}
	return b.list, nil
}

type tzifHeader struct{ isUT, isStd, leaps, times, types, chars int }

func tzifCounts(data string) tzifHeader {
	n := func(i int) int { return int(be32(data[20+4*i:])) }
	return tzifHeader{isUT: n(0), isStd: n(1), leaps: n(2), times: n(3), types: n(4), chars: n(5)}
}

func be32(s string) uint32 {
	return uint32(s[3]) | uint32(s[2])<<8 | uint32(s[1])<<16 | uint32(s[0])<<24
}
func be64(s string) uint64 { return uint64(be32(s))<<32 | uint64(be32(s[4:])) }

// segments builds a zone's list, transition by transition in order of time.
type segments struct{ list []segment }

func (b *segments) add(at, off int64) {
	if len(b.list) == 0 {
		b.list = append(make([]segment, 0, 280), segment{start: beginning, off: off, high: beginning})
		return
	}
	last := &b.list[len(b.list)-1]
	switch {
	case at <= firstKept: // only the last of these matters
		last.off = off
	case off != last.off:
		b.list = append(b.list, segment{start: at, off: off, high: max(last.high, at+last.off)})
	}
}

// A rule is the footer of TZif data: the rule for all times after the last
// transition, in the form of POSIX's TZ variable.
type rule struct {
	std, dst   int64 // seconds ahead of UTC; equal where there is no DST
	start, end ruleDay
}

// A ruleDay is the day and time of a yearly change.
type ruleDay struct {
	form             byte // 'M' month, week, weekday; 'J' day 1-365 without 29 February; 'n' day 0-365
	month, week, day int
	time             int64 // seconds of wall clock time after midnight; may be negative or more than a day
}

// extend adds the rule's changes after the last transition.
func (r rule) extend(b *segments, last int64) {
	if r.std == r.dst {
		b.add(last+1, r.std)
		return
	}
	year := time.Unix(last, 0).UTC().Year()
	for y := year; y <= lastRuleYear; y++ {
		toDST, toStd := r.start.in(y)-r.std, r.end.in(y)-r.dst
		if toDST < toStd {
			r.change(b, last, toDST, r.dst)
			r.change(b, last, toStd, r.std)
		} else {
			r.change(b, last, toStd, r.std)
			r.change(b, last, toDST, r.dst)
		}
	}
}

func (r rule) change(b *segments, last, at, off int64) {
	if at > last {
		b.add(at, off)
	}
}

// in gives the wall clock reading of the change in a year, in seconds as if it
// were UTC.
func (d ruleDay) in(year int) int64 {
	first := time.Date(year, time.January, 1, 0, 0, 0, 0, time.UTC)
	switch d.form {
	case 'J':
		n := d.day - 1
		if daysIn(year, 2) == 29 && d.day >= 60 {
			n++
		}
		return first.Unix() + int64(n)*day + d.time
	case 'n':
		return first.Unix() + int64(d.day)*day + d.time
	}
	month := time.Date(year, time.Month(d.month), 1, 0, 0, 0, 0, time.UTC)
	n := (d.day - int(month.Weekday()) + 7) % 7 // days to the first such weekday
	n += 7 * (d.week - 1)
	if n >= daysIn(year, d.month) { // week 5 means the last one
		n -= 7
	}
	return month.Unix() + int64(n)*day + d.time
}

// parseRule reads "EST5EDT,M3.2.0,M11.1.0" or "<-03>3".
func parseRule(s string) (r rule, ok bool) {
	p := ruleReader{rest: s}
	p.name()
	r.std = -p.clock()
	if p.rest == "" {
		r.dst = r.std
		return r, !p.bad
	}
	p.name()
	r.dst = r.std + 60*60
	if p.rest != "" && p.rest[0] != ',' {
		r.dst = -p.clock()
	}
	r.start = p.ruleDay()
	r.end = p.ruleDay()
	return r, !p.bad && p.rest == ""
}

// A ruleReader takes a rule apart. Once something is wrong it stays bad.
type ruleReader struct {
	rest string
	bad  bool
}

func (p *ruleReader) skip(c byte) bool {
	if p.rest != "" && p.rest[0] == c {
		p.rest = p.rest[1:]
		return true
	}
	return false
}

func (p *ruleReader) name() {
	n := strings.IndexAny(p.rest, "+-,0123456789")
	if p.skip('<') {
		n = strings.IndexByte(p.rest, '>') + 1
	}
	switch {
	case n > 0:
		p.rest = p.rest[n:]
	case n < 0:
		p.rest = "" // a name at the very end
	default:
		p.bad = true
	}
}

func (p *ruleReader) number() int {
	n, digits := 0, 0
	for p.rest != "" && p.rest[0] >= '0' && p.rest[0] <= '9' && digits < 4 {
		n = n*10 + int(p.rest[0]-'0')
		p.rest = p.rest[1:]
		digits++
	}
	p.bad = p.bad || digits == 0
	return n
}

// clock reads [+-]hh[:mm[:ss]] in seconds.
func (p *ruleReader) clock() int64 {
	sign := 1
	if p.skip('-') {
		sign = -1
	} else {
		p.skip('+')
	}
	n := p.number() * 60 * 60
	if p.skip(':') {
		n += p.number() * 60
		if p.skip(':') {
			n += p.number()
		}
	}
	return int64(sign * n)
}

func (p *ruleReader) ruleDay() ruleDay {
	if !p.skip(',') {
		p.bad = true
		return ruleDay{}
	}
	d := ruleDay{form: 'n', time: 2 * 60 * 60}
	switch {
	case p.skip('M'):
		d.form = 'M'
		d.month = p.number()
		p.bad = !p.skip('.') || p.bad
		d.week = p.number()
		p.bad = !p.skip('.') || p.bad
		d.day = p.number()
		p.bad = p.bad || d.month < 1 || d.month > 12 || d.week < 1 || d.week > 5 || d.day > 6
	case p.skip('J'):
		d.form = 'J'
		d.day = p.number()
	default:
		d.day = p.number()
	}
	if p.skip('/') {
		d.time = p.clock()
	}
	return d
}

// daysIn gives the number of days of a month, 1-12.
func daysIn(year, month int) int {
	return time.Date(year, time.Month(month)+1, 0, 0, 0, 0, 0, time.UTC).Day()
}
