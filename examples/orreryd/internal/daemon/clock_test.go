package daemon

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestADaemonGoesByTheClockOfItsDatabase(t *testing.T) {
	var logs bytes.Buffer
	c := &sharedClock{log: slog.New(slog.NewTextHandler(&logs, nil))}
	measured := func(by, within time.Duration) {
		t.Helper()
		require.NoError(t, c.follow(t.Context(), func(context.Context) (time.Duration, time.Duration, error) { return by, within, nil }))
	}
	apart := func() time.Duration { return time.Until(c.Now()).Round(100 * time.Millisecond) }
	measured(90*time.Millisecond, time.Millisecond)
	assert.Zero(t, apart(), "so little may be noise")
	measured(4*time.Minute, time.Millisecond)
	assert.Equal(t, 4*time.Minute, apart())
	assert.Contains(t, logs.String(), "the database's counts")
	measured(4*time.Minute+300*time.Millisecond, 200*time.Millisecond)
	assert.Equal(t, 4*time.Minute, apart(), "the question took longer than that")
	measured(-time.Hour, time.Millisecond)
	assert.Equal(t, -time.Hour, apart())
	require.ErrorContains(t, c.follow(t.Context(), func(context.Context) (time.Duration, time.Duration, error) { return 0, 0, errors.New("away") }), "away")
	assert.Equal(t, -time.Hour, apart(), "while the database is away the clock goes on")
	assert.InDelta(t, 0, time.Since(c.Steady()).Seconds(), 60, "what is waited for is this machine's")
}
