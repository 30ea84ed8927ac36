package engine

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What was answered is not lost because the caller goes, or the engine stops, at the same moment.
func TestAnAnswerThatIsThereIsGivenWhateverElseHappensAtTheSameMoment(t *testing.T) {
	for name, lingers := range map[string]time.Duration{"at once": 0, "that lingers": time.Hour} {
		e := engineOf(t, SystemClock{})
		close(e.decided)
		for range 100 { // which of several channels a select takes is left to chance
			ctx, gone := context.WithCancel(t.Context())
			gone()
			r := newRequest(ctx, Request{Linger: lingers})
			r.answer(Reply{Before: uuid.Max})
			got, err := e.lateReply(r)
			require.NoError(t, err, name)
			assert.Equal(t, uuid.Max, got.Before)
		}
		ctx, gone := context.WithCancel(t.Context())
		gone()
		_, err := e.lateReply(newRequest(ctx, Request{Linger: lingers}))
		require.ErrorIs(t, err, context.Canceled, name)
	}
}
