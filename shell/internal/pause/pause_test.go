package pause_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/shell/internal/pause"
)

var errStop = errors.New("stopped by hand")

func TestAPauseLastsAsLongAsItIsSaid(t *testing.T) {
	for _, d := range []time.Duration{time.Hour, time.Nanosecond, 0, -time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			begin := time.Now()
			require.NoError(t, pause.For(t.Context(), d))
			assert.Equal(t, max(0, d), time.Since(begin))
		})
	}
}

func TestAPauseEndsWithItsContextAndTellsTheCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Minute, func() { cancel(errStop) })
		begin := time.Now()
		require.ErrorIs(t, pause.For(ctx, time.Hour), errStop)
		assert.Equal(t, time.Minute, time.Since(begin))
		for _, d := range []time.Duration{time.Hour, 0, -time.Hour} {
			require.ErrorIs(t, pause.For(ctx, d), errStop, "the context had ended before")
		}
		assert.Equal(t, time.Minute, time.Since(begin))
	})
}

// silent is a context that ends at a time without its channel telling: the timer of
// that moment was seen first.
type silent struct {
	context.Context
	end time.Time
}

func (silent) Done() <-chan struct{} { return nil }

func (c silent) Err() error {
	if time.Now().Before(c.end) {
		return nil
	}
	return errStop
}

func TestAPauseThatIsOverWithItsContextTellsTheCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		require.ErrorIs(t, pause.For(silent{context.Background(), time.Now().Add(time.Minute)}, time.Minute), errStop)
	})
}
