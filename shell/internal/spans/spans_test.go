package spans_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/shell/internal/spans"
)

func TestADurationReadsBackAsItWasWritten(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0s": 0, "250ms": 250 * time.Millisecond, "5m": 5 * time.Minute, "1h": time.Hour, "1h30m": 90 * time.Minute,
		"1h0m5s": time.Hour + 5*time.Second, "1d": 24 * time.Hour, "366d": 366 * 24 * time.Hour, "25h": 25 * time.Hour,
	} {
		got, err := spans.Parse(text)
		require.NoError(t, err, text)
		assert.Equal(t, want, got, text)
		assert.Equal(t, text, spans.Text(want))
	}
}

func TestDaysStandBeforeOtherUnits(t *testing.T) {
	got, err := spans.Parse("1d1h")
	require.NoError(t, err)
	assert.Equal(t, 25*time.Hour, got)
	for _, text := range []string{"", "1", "d", "1h1d", "-1d", "123456d", "1dd"} {
		_, err := spans.Parse(text)
		assert.Error(t, err, text)
	}
}
