package schedule

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestEveryFormOfAYearlyRuleNamesItsDay(t *testing.T) {
	for _, row := range []struct {
		rule     string
		year     int
		from, to string // wall clock times of the change to DST and back
	}{
		{"EST5EDT,M3.2.0,M11.1.0", 2026, "03-08T02:00", "11-01T02:00"},
		{"CET-1CEST,M3.5.0,M10.5.0/3", 2026, "03-29T02:00", "10-25T03:00"},
		{"<-02>2<-01>,M3.5.0/-1,M10.5.0/0", 2026, "03-28T23:00", "10-25T00:00"},
		{"EET-2EEST,M3.4.4/50,M10.4.4/50", 2026, "03-28T02:00", "10-24T02:00"},
		{"A0B,J60/0,J365/23:59:30", 2024, "03-01T00:00", "12-31T23:59"}, // J60 is 1 March, leap year or not
		{"A0B,J60/0,J365", 2023, "03-01T00:00", "12-31T02:00"},
		{"A0B,59/0,0/0", 2024, "02-29T00:00", "01-01T00:00"},
		{"A0B,59/0,0/0", 2023, "03-01T00:00", "01-01T00:00"},
		{"A0B,M2.5.4,M2.5.5", 2024, "02-29T02:00", "02-23T02:00"},
	} {
		r, ok := parseRule(row.rule)
		require.True(t, ok, row.rule)
		show := func(d ruleDay) string { return time.Unix(d.in(row.year), 0).UTC().Format("01-02T15:04") }
		assert.Equal(t, row.from, show(r.start), row.rule)
		assert.Equal(t, row.to, show(r.end), row.rule)
	}
	r, ok := parseRule("IST-1GMT0,M10.5.0,M3.5.0/1") // Dublin has its summer time as standard
	require.True(t, ok)
	assert.Equal(t, rule{std: 3600, dst: 0, start: r.start, end: r.end}, r)
}

func TestMalformedZoneDataIsAnErrorAndNoPanic(t *testing.T) {
	for _, e := range index {
		if e.name != "America/New_York" {
			continue
		}
		data := archive[e.start:e.end]
		for n := range len(data) - 1 { // the last byte is the footer's newline
			if segs, err := parseTZif(data[:n]); err == nil {
				require.NotEmpty(t, segs)
				require.Greater(t, n, strings.LastIndex(data, "TZif"), "cut at %d", n)
			}
		}
	}
	for _, bad := range []string{"", "5", "EST", "EST5EDT,M3.2.0", "EST5EDT,M13.2.0,M11.1.0", "EST5EDT,M3.2.0,M11.1.0,", "<EST5", "EST5EDT;M3", "E5D,Jx,J2"} {
		_, ok := parseRule(bad)
		assert.False(t, ok, bad)
	}
}

func TestAFixedTimeFiresOnceAlsoWhereClocksAreSetBackTwiceInAShortTime(t *testing.T) {
	// No zone has done this since 1970: back by three hours, an hour later on by
	// one, and back by one again before the old reading was reached.
	const hour = 60 * 60
	z := &Zone{name: "test"}
	var b segments
	b.add(beginning, 6*hour)
	for i, off := range []int64{3, 4, 3} {
		b.add(10*day+int64(i)*hour, off*hour)
	}
	z.segs = b.list
	f, err := parseCron("30 0-23 * * *")
	require.NoError(t, err)
	c := newCron(f, z, Spec{})
	// 05:30 is shown before the change; from 06:00 on nothing is new until the
	// clocks, three hours behind by then, show 06:30.
	for at := int64(10*day - hour/2); at < 10*day+3*hour+hour/2; at += 60 {
		next, ok := c.next(at)
		require.True(t, ok)
		require.Equal(t, int64(10*day+3*hour+hour/2), next, "after %d", at)
	}
}
