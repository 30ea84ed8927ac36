package page

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// The tests in a browser have the same rows for what page.js makes of a time as it grows old.
func TestATimeIsToldByItsDistanceInItsGreatestUnit(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "now", -30 * time.Second: "30 s ago", -119 * time.Second: "119 s ago", -2 * time.Minute: "2 min ago", -119 * time.Minute: "119 min ago",
		-2 * time.Hour: "2 h ago", -200 * time.Minute: "3 h 20 min ago", -680 * time.Minute: "11 h ago", -50 * time.Hour: "2 days ago", 5 * time.Minute: "in 5 min", 729 * 24 * time.Hour: "in 729 days", 3 * 366 * 24 * time.Hour: "in 3 years",
	} {
		assert.Equal(t, want, ago(d), d)
	}
	for d, want := range map[time.Duration]string{
		4 * time.Second: "4.0 s", 40 * time.Second: "40s", 80 * time.Second: "1m20s", 3599 * time.Second: "59m59s", time.Hour: "1h0m", 5000 * time.Second: "1h23m",
	} {
		assert.Equal(t, want, precisely(d), d)
	}
}
