package schedule_test

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core/schedule"
	"github.com/orrery-go/orrery/effects"
)

// archiveSum belongs to schedule.TZVersion: change both together.
const archiveSum = "8f55634d05f8bca1f7bc7c69c5933428c69357e0bdf565e5ba224e3f88ff12e8"

func TestTheEmbeddedTimeZoneDatabaseIsTheOneThatTZVersionNames(t *testing.T) {
	archive, err := os.ReadFile("zoneinfo.zip")
	require.NoError(t, err)
	sum := sha256.Sum256(archive)
	require.Equal(t, archiveSum, hex.EncodeToString(sum[:]), "zoneinfo.zip changed: set TZVersion and archiveSum to what was copied")

	// Where the Go distribution at hand ships the same archive, it says which
	// release that is.
	lib := filepath.Join(runtime.GOROOT(), "lib", "time") //nolint:staticcheck // a test may look
	shipped, err := os.ReadFile(filepath.Join(lib, "zoneinfo.zip"))
	if err != nil || sha256.Sum256(shipped) != sum {
		t.Skip("this Go distribution ships another time zone database")
	}
	script, err := os.ReadFile(filepath.Join(lib, "update.bash"))
	require.NoError(t, err)
	data := regexp.MustCompile(`(?m)^DATA=(\S+)$`).FindSubmatch(script)
	require.NotNil(t, data)
	taken := string(data[1])
	assert.Equal(t, schedule.TZVersion, taken)
}

func TestEveryZoneChangesItsClocksWhenTheStandardLibrarySays(t *testing.T) {
	names := schedule.ZoneNames()
	require.Greater(t, len(names), 590)
	require.True(t, slices.IsSorted(names))
	for _, name := range names {
		zone, err := schedule.LoadZone(name)
		require.NoError(t, err)
		require.Equal(t, name, zone.Name())
		loc := zone.Location()
		check := func(at time.Time) {
			_, want := at.In(loc).Zone()
			require.Equal(t, time.Duration(want)*time.Second, zone.Offset(effects.Time(at.UnixMilli())), "%s at %s", name, at.UTC())
		}
		at := time.Unix(0, 0).In(loc)
		for at.Year() <= 2100 {
			check(at)
			_, end := at.ZoneBounds()
			if end.IsZero() {
				break
			}
			check(end.Add(-time.Second))
			at = later(at, end)
		}
		// Also where the standard library sees no change.
		for at := time.Date(1970, 1, 2, 0, 0, 0, 0, time.UTC); at.Year() <= 2100; at = at.AddDate(0, 0, 41) {
			check(at)
		}
	}
}

func TestAZoneThatMeansSomethingElseElsewhereOrNothingAtAllIsRefusedWithASuggestion(t *testing.T) {
	for name, want := range map[string]string{
		"":                       `"Europe/Berlin"`,
		"Local":                  "depends on the machine",
		"local":                  "depends on the machine",
		"utc":                    `write "UTC"`,
		"europe/berlin":          `write "Europe/Berlin"`,
		"Berlin":                 `did you mean "Europe/Berlin"?`,
		"New York":               `did you mean "America/New_York"?`,
		"America/New York":       `write "America/New_York"`,
		"Europe/Berln":           `did you mean "Europe/Berlin"?`,
		"PST":                    `"America/Los_Angeles"`,
		"+02:00":                 `"Etc/GMT-2"`,
		"UTC+2":                  `"Etc/GMT-2"`,
		"Mars/Olympus":           "not an IANA time zone",
		"../zone":                "not an IANA time zone",
		"Europe/../UTC":          "not an IANA time zone",
		"/etc/localtime":         "not an IANA time zone",
		"Europe":                 "not an IANA time zone",
		"Europe/":                "not an IANA time zone",
		"Factory":                "not an IANA time zone",
		"Europe/Berlin\x00":      "not an IANA time zone",
		"Z\xff":                  `"Z\xff"`,
		strings.Repeat("x", 1e5): "...",
	} {
		_, err := schedule.LoadZone(name)
		var bad *schedule.Error
		require.ErrorAs(t, err, &bad, "%q", name)
		assert.Equal(t, "timezone", bad.Field)
		assert.ErrorContains(t, err, want)
		assert.Less(t, len(err.Error()), 300)
	}
}
