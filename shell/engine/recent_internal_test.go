package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestWhatIsRecentIsThatOfTheLastMinute(t *testing.T) {
	begun := time.Unix(1_000_000, 0)
	at := func(d time.Duration) time.Time { return begun.Add(d) }
	r := recent{begun: begun}
	assert.Equal(t, Recent{Span: 0}, r.snapshot(begun), "nothing was committed yet")

	r.note(at(500*time.Millisecond), 3, 2*time.Second)
	r.note(at(900*time.Millisecond), 1, time.Second)
	assert.Equal(t, Recent{Span: 2 * time.Second, Batches: 2, Inputs: 4, Lag: 2 * time.Second}, r.snapshot(at(2*time.Second)), "the engine is younger than a minute")

	r.note(at(30*time.Second), 10, time.Millisecond)
	assert.Equal(t, Recent{Span: 59500 * time.Millisecond, Batches: 3, Inputs: 14, Lag: 2 * time.Second}, r.snapshot(at(59500*time.Millisecond)))
	assert.Equal(t, Recent{Span: 59500 * time.Millisecond, Batches: 1, Inputs: 10, Lag: time.Millisecond}, r.snapshot(at(60500*time.Millisecond)), "the first second is over a minute ago")

	r.note(at(90*time.Second), 1, 0)
	assert.Equal(t, uint64(1), r.snapshot(at(91*time.Second)).Batches, "a second takes the place of the one a minute before")
	assert.Zero(t, r.snapshot(at(time.Hour)).Batches)
	assert.Equal(t, 59*time.Second, r.snapshot(at(time.Hour)).Span)
}
