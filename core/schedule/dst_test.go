package schedule_test

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core/schedule"
	"github.com/orrery-go/orrery/effects"
)

func TestOccurrencesAroundChangesOfTheClocks(t *testing.T) {
	datadriven.RunTest(t, "testdata/dst.txt", func(t *testing.T, d *datadriven.TestData) string {
		var zoneName, from, to, anchor, rule string
		d.ScanArgs(t, "zone", &zoneName)
		d.ScanArgs(t, "from", &from)
		d.ScanArgs(t, "to", &to)
		d.MaybeScanArgs(t, "anchor", &anchor)
		d.MaybeScanArgs(t, "dst", &rule)
		zone, err := schedule.LoadZone(zoneName)
		require.NoError(t, err)
		var start effects.Time
		if anchor != "" {
			start = instant(t, anchor)
		}
		s, err := schedule.Spec{Expr: d.Input, Anchor: start, DST: schedule.DST(rule)}.CompileIn(zone)
		require.NoError(t, err)
		times, more := s.Between(instant(t, from), instant(t, to), 20)
		require.False(t, more)
		if len(times) == 0 {
			return "none\n"
		}
		var b strings.Builder
		for _, at := range times {
			b.WriteString(at.Std().In(zone.Location()).Format("2006-01-02T15:04:05-07:00") + "\n")
		}
		return b.String()
	})
}

// TestTheTableInTheDocumentationIsTrue reads the rows
//
//	| zone | local date | `expression` | rule | occurrences of that date |
//
// and those without a rule.
func TestTheTableInTheDocumentationIsTrue(t *testing.T) {
	doc, err := os.ReadFile("../../docs/cron.md")
	require.NoError(t, err)
	rows := 0
	for line := range strings.Lines(string(doc)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.Trim(strings.TrimSpace(cells[i]), "`")
		}
		if len(cells) == 4 {
			cells = slices.Insert(cells, 3, "")
		}
		if len(cells) != 5 {
			continue
		}
		date, err := time.Parse(time.DateOnly, cells[1])
		if err != nil {
			continue
		}
		rows++
		zone, err := schedule.LoadZone(cells[0])
		require.NoError(t, err)
		loc := zone.Location()
		s, err := schedule.Spec{Expr: cells[2], DST: schedule.DST(cells[3])}.CompileIn(zone)
		require.NoError(t, err)
		var fires []string
		times, _ := s.Between(effects.TimeOf(date.AddDate(0, 0, -2)), effects.TimeOf(date.AddDate(0, 0, 3)), 1000)
		for _, at := range times {
			if local := at.Std().In(loc); local.Format(time.DateOnly) == cells[1] {
				fires = append(fires, local.Format("15:04-07:00"))
			}
		}
		got := strings.Join(fires, ", ")
		if len(fires) > 6 {
			got = strings.Join(fires[:6], ", ") + ", ..."
		}
		if got == "" {
			got = "not at all"
		}
		assert.Equal(t, cells[4], got, "%s", line)
	}
	assert.Greater(t, rows, 22)
}

// TestTheExamplesInTheDocumentationAreDescribedAsItSays reads the rows
//
//	| `expression` | description |
func TestTheExamplesInTheDocumentationAreDescribedAsItSays(t *testing.T) {
	doc, err := os.ReadFile("../../docs/cron.md")
	require.NoError(t, err)
	_, section, found := strings.Cut(string(doc), "## Examples\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	rows := 0
	for line := range strings.Lines(section) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 2 || !strings.Contains(cells[0], "`") {
			continue
		}
		rows++
		s, err := schedule.Parse(strings.Trim(strings.TrimSpace(cells[0]), "`"), "UTC", 0)
		require.NoError(t, err, line)
		assert.Equal(t, strings.TrimSpace(cells[1]), s.Describe())
	}
	assert.Greater(t, rows, 12)
}

func instant(t testing.TB, s string) effects.Time {
	at, err := effects.ParseTime(s)
	require.NoError(t, err)
	return at
}
