package cli

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestTheZoneOfThisMachineIsKnownByItsVariableOrItsLink(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ tz, link, zone string }{
		{"", "/usr/share/zoneinfo/Europe/Berlin", "Europe/Berlin"},
		{"", "../usr/share/zoneinfo/America/Argentina/Ushuaia", "America/Argentina/Ushuaia"},
		{"", "/usr/share/zoneinfo/Etc/UTC", "UTC"},
		{":Asia/Tokyo", "/usr/share/zoneinfo/Europe/Berlin", "Asia/Tokyo"},
		{"Asia/Tokyo", "", "Asia/Tokyo"},
		{"PST8PDT,M3.2.0,M11.1.0", "/usr/share/zoneinfo/Europe/Berlin", "UTC"},
		{"", "", "UTC"},
		{"", "/somewhere/else", "UTC"},
	} {
		zone, from := localZone(func(string) string { return tt.tz }, func(string) (string, error) {
			if tt.link == "" {
				return "", errors.New("no link")
			}
			return tt.link, nil
		})
		assert.Equal(t, tt.zone, zone, "%+v", tt)
		assert.Contains(t, from, "--tz gives another one")
	}
}

func TestCronsOwnCrontabsAreKnownByTheirPlace(t *testing.T) {
	t.Parallel()
	for name, is := range map[string]bool{
		"/etc/crontab": true, "/etc/cron.d/php": true, "/etc/cron.d/../crontab": true, "crontab": false, "/srv/crontab": false, "/etc/cron.daily/x": false, "stdin": false,
	} {
		assert.Equal(t, is, isSystemCrontab(name), name)
	}
}
