package cli

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestCalendarsAreMadeChangedShownAndDeleted(t *testing.T) {
	t.Parallel()
	p := start(t, "--db", database(t))
	p.ok("calendars", "add", "office", "--tz", "Europe/Berlin", "--include-weekly", "mon-fri 08:00-18:00=open", "--exclude", "2090-12-25..2090-12-26=Christmas", "--exclude", "2090-01-01")
	assert.Equal(t, exitFailed, p.do("calendars", "add", "office").code, "it is there")
	shown := p.ok("calendars", "show", "office")
	for _, want := range []string{"Europe/Berlin", "mon,tue,wed,thu,fri 08:00-18:00 (open)", "2090-12-25 to 2090-12-26 (Christmas)", "last date"} {
		assert.Contains(t, shown, want)
	}

	p.ok("calendars", "update", "office", "--description", "of Berlin")
	assert.Contains(t, p.ok("calendars", "show", "office"), "Christmas", "what is not given stays")
	p.ok("calendars", "update", "office", "--exclude", "")
	shown = p.ok("calendars", "show", "office")
	assert.NotContains(t, shown, "Christmas", "an empty value clears")
	assert.Contains(t, shown, "08:00-18:00")

	assert.Contains(t, p.ok("calendars", "list"), "office")
	assert.Contains(t, p.ok("calendars", "delete", "office"), "deleted office")
	assert.Equal(t, exitNotFound, p.do("calendars", "show", "office").code)
}

func TestTheDatesOfAFileReplaceThoseOfACalendarAndNotItsWindows(t *testing.T) {
	t.Parallel()
	p := start(t, "--db", database(t))
	year := time.Now().UTC().AddDate(1, 0, 0).Format("2006")
	name := filepath.Join(t.TempDir(), "holidays.ics")
	write := func(day string) {
		require.NoError(t, os.WriteFile(name, []byte("BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:x\r\n"+
			"BEGIN:VEVENT\r\nUID:1\r\nDTSTAMP:20260101T000000Z\r\nDTSTART;VALUE=DATE:"+year+day+"\r\nSUMMARY:feast\r\nEND:VEVENT\r\n"+
			"BEGIN:VEVENT\r\nUID:2\r\nDTSTAMP:20260101T000000Z\r\nDTSTART:"+year+"0101T090000Z\r\nSUMMARY:breakfast\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"), 0o600))
	}
	write("0606")
	r := p.do("calendars", "import", "feasts", name, "--tz", "Europe/Berlin")
	require.Zero(t, r.code, r.err)
	assert.Contains(t, r.out, year+"-06-06 (feast)")
	assert.Contains(t, r.err, `left out: "breakfast" is no whole day`)

	p.ok("calendars", "update", "feasts", "--exclude", year+"-06-06", "--exclude-weekly", "sun")
	write("0707")
	shown := p.ok("calendars", "import", "feasts", name)
	assert.Contains(t, shown, year+"-07-07 (feast)")
	assert.NotContains(t, shown, year+"-06-06")
	assert.Contains(t, shown, "sun 00:00-24:00")
	assert.Contains(t, shown, "Europe/Berlin")

	assert.Contains(t, p.do("calendars", "import", "feasts", "--", "none.ics").err, "none.ics")
}
