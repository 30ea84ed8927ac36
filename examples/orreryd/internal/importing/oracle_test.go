package importing_test

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core/schedule"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/examples/orreryd/internal/importing"
)

// The oracle is cron as its manuals say it, minute by minute: crontab(5) of Vixie cron for the fields, cron(8) of
// Debian for the change of the clocks. It shares no code with what it is compared with.

// All lines are compared for two years: each change of the clocks comes twice.
var oracleFrom, oracleTo = now, now.AddDate(2, 0, 0)

// A vixieLine is a line as Vixie cron keeps it.
type vixieLine struct {
	bits [5][60]bool
	star [5]bool
}

func parseVixie(t *testing.T, line string) vixieLine {
	t.Helper()
	words := map[string]string{
		"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0", "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
	}
	fields := strings.Fields(strings.TrimPrefix(line, "-"))
	if times, ok := words[fields[0]]; ok {
		fields = strings.Fields(times)
	}
	var v vixieLine
	for i, bounds := range [][2]int{{0, 59}, {0, 23}, {1, 31}, {1, 12}, {0, 7}} {
		v.star[i] = fields[i][0] == '*'
		number := func(s string) int {
			names := map[int]string{3: "jan feb mar apr may jun jul aug sep oct nov dec", 4: "sun mon tue wed thu fri sat"}[i]
			if at := slices.Index(strings.Fields(names), strings.ToLower(s)); at >= 0 {
				return at + bounds[0]
			}
			n, err := strconv.Atoi(s)
			require.NoError(t, err, line)
			return n
		}
		for item := range strings.SplitSeq(fields[i], ",") {
			body, stepText, stepped := strings.Cut(item, "/")
			first, last, step := bounds[0], bounds[1], 1
			if body != "*" {
				from, to, ranged := strings.Cut(body, "-")
				first = number(from)
				if last = first; ranged {
					last = number(to)
				}
			}
			if stepped {
				step = number(stepText)
			}
			for n := first; n <= last; n += step {
				v.bits[i][n] = true
			}
		}
	}
	if v.bits[4][0] || v.bits[4][7] {
		v.bits[4][0], v.bits[4][7] = true, true
	}
	return v
}

// fires is the test of cron.c for a reading of the clock.
func (v vixieLine) fires(r reading) bool {
	if !v.bits[0][r.minute] || !v.bits[1][r.hour] || !v.bits[3][r.month] {
		return false
	}
	day, weekday := v.bits[2][r.day], v.bits[4][r.weekday]
	if v.star[2] || v.star[4] {
		return day && weekday
	}
	return day || weekday
}

// wildcard tells what cron runs whenever the clock shows it.
func (v vixieLine) wildcard() bool { return v.star[0] || v.star[1] }

type reading struct{ minute, hour, day, month, weekday int8 }

func readingOf(w time.Time) reading {
	return reading{int8(w.Minute()), int8(w.Hour()), int8(w.Day()), int8(w.Month()), int8(w.Weekday())}
}

// A look is one look of cron at its lines: at an instant, for a reading, at the lines of one kind or both.
type look struct {
	at              effects.Time
	of              reading
	wildcard, fixed bool
}

// looksOf are all looks of two years in a zone. cron goes through every minute of the clock; if the clock goes forward
// by less than three hours, it runs the fixed lines of the minutes that are missing at once, and if it goes back, only the wildcard
// lines until it has caught up.
func looksOf(t *testing.T, zone string) []look {
	t.Helper()
	loc, err := time.LoadLocation(zone)
	require.NoError(t, err)
	const most = 3 * 60
	wall := func(at time.Time) int {
		_, offset := at.In(loc).Zone()
		return int((at.Unix() + int64(offset)) / 60)
	}
	of := func(minute int) reading {
		return readingOf(time.Unix(int64(minute)*60, 0).UTC())
	}
	var looks []look
	virtual := wall(oracleFrom)
	for at := oracleFrom.Add(time.Minute); !at.After(oracleTo); at = at.Add(time.Minute) {
		running := wall(at)
		instant := effects.TimeOf(at)
		switch diff := running - virtual; {
		case diff == 1, diff >= most, diff <= -most:
			looks = append(looks, look{instant, of(running), true, true})
			virtual = running
		case diff > 1:
			looks = append(looks, look{instant, of(running), true, false})
			for virtual < running {
				virtual++
				looks = append(looks, look{instant, of(virtual), false, true})
			}
		default:
			looks = append(looks, look{instant, of(running), true, false})
		}
	}
	return looks
}

var fromComment = regexp.MustCompile(`(?m)^# \S+:(\d+): .*\n\[recurring\.("?)(.+?)"?\]$`)

func TestEachLineFiresAsTheManualOfCronSays(t *testing.T) {
	looks := map[string][]look{}
	lines, exact := 0, 0
	for _, c := range crontabCases(t) {
		r, err := importing.Crontab([]importing.Source{c.source}, c.options)
		if err != nil {
			continue // the broken ones
		}
		text := strings.Split(strings.ReplaceAll(string(c.source.Text), "\r\n", "\n"), "\n")
		for _, f := range r.Files {
			actions := readRecurring(t, f.Text)
			for _, m := range fromComment.FindAllStringSubmatch(string(f.Text), -1) {
				n, err := strconv.Atoi(m[1])
				require.NoError(t, err)
				a := actions[m[3]]
				zone := zoneAbove(text[:n], c.options.Zone)
				if looks[zone] == nil {
					looks[zone] = looksOf(t, zone)
				}
				lines++
				line := strings.TrimSpace(text[n-1])
				v := parseVixie(t, line)
				var want []effects.Time
				for _, l := range looks[zone] {
					if (v.wildcard() && l.wildcard || !v.wildcard() && l.fixed) && v.fires(l.of) {
						want = append(want, l.at)
					}
				}
				require.NotEmpty(t, want, line)
				s, err := schedule.Spec{Expr: a.Cron, Zone: orUTC(a.TZ), DayMatch: schedule.DayMatch(a.DayMatch)}.Compile()
				require.NoError(t, err, line)
				got, more := s.Between(effects.TimeOf(oracleFrom), effects.TimeOf(oracleTo), 2_000_000)
				require.False(t, more)
				named := slices.ContainsFunc(r.Notes, func(note importing.Note) bool {
					return note.Line == n && strings.Contains(note.Text, "where the clocks")
				})
				where := fmt.Sprintf("%s:%d: %s\nin %s as %+v", c.source.Name, n, line, zone, a)
				if !named {
					exact++
					if !slices.Equal(want, got) {
						require.Fail(t, "another time", "%s\n%v", where, first(different(want, got)))
					}
					continue
				}
				differ := different(want, got)
				require.NotEmpty(t, differ, "%s: a difference is told of, and there is none", where)
				require.LessOrEqual(t, len(differ), 4*15, where) // of four changes
				for _, at := range differ {
					assert.True(t, nearChange(t, zone, at), "%s: %s is no time at which the clocks change", where, at)
				}
			}
		}
	}
	assert.Greater(t, lines, 70)
	assert.Greater(t, exact, lines-6)
}

func orUTC(zone string) string {
	if zone == "" {
		return "UTC"
	}
	return zone
}

// zoneAbove is the zone of a line, by the last line CRON_TZ= above it.
func zoneAbove(lines []string, zone string) string {
	for _, line := range lines {
		if z, ok := strings.CutPrefix(line, "CRON_TZ="); ok {
			zone = strings.Trim(z, `"`)
		}
	}
	return orUTC(zone)
}

// first are the first of a list.
func first(list []effects.Time) []effects.Time { return list[:min(5, len(list))] }

// different lists the instants at which two say something else.
func different(a, b []effects.Time) []effects.Time {
	more := map[effects.Time]int{}
	for _, at := range a {
		more[at]++
	}
	for _, at := range b {
		more[at]--
	}
	var list []effects.Time
	for at, n := range more {
		if n != 0 {
			list = append(list, at)
		}
	}
	slices.Sort(list)
	return list
}

// nearChange reports whether the clocks of a zone change within two hours of an instant.
func nearChange(t *testing.T, zone string, at effects.Time) bool {
	t.Helper()
	loc, err := time.LoadLocation(zone)
	require.NoError(t, err)
	_, before := at.Std().Add(-2 * time.Hour).In(loc).Zone()
	_, after := at.Std().Add(2 * time.Hour).In(loc).Zone()
	return before != after
}
