package retryafter_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/orrery-go/orrery/shell/internal/retryafter"
)

func TestTheWaitIsInSecondsOrUntilADate(t *testing.T) {
	now := time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"0": 0, "7": 7 * time.Second, " 7 ": 7 * time.Second, "2147483647": 2147483647 * time.Second,
		"Tue, 10 Mar 2026 12:01:00 GMT": time.Minute, "Tue, 10 Mar 2026 11:00:00 GMT": 0,
	} {
		got, ok := retryafter.Of(http.Header{"Retry-After": {value}}, now)
		assert.True(t, ok, value)
		assert.Equal(t, want, got, value)
	}
	for _, value := range []string{"", "soon", "-1", "1.5", "2147483648", "10 Mar 2026"} {
		_, ok := retryafter.Of(http.Header{"Retry-After": {value}}, now)
		assert.False(t, ok, value)
	}
	_, ok := retryafter.Of(nil, now)
	assert.False(t, ok)
}
