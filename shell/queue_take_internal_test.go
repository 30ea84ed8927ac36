package shell

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/effects"
)

func TestTakersAreWokenInTurnAndAWakingThatIsNotUsedGoesToTheNext(t *testing.T) {
	var ts takers
	ts.init()
	queue, other := uuid.New(), uuid.New()
	say := func(action string) {
		ts.hear(effects.Event{Kind: effects.Custom("queue", action), Source: effects.EventSource{ID: queue}})
	}
	a, b, c, d := ts.add(queue), ts.add(queue), ts.add(queue), ts.add(queue)
	elsewhere := ts.add(other)
	woken := func() (n [4]int) {
		for i, w := range []chan struct{}{a, b, c, d} {
			n[i] = len(w)
		}
		return n
	}

	say("take")
	assert.Equal(t, [4]int{}, woken(), "that gives nobody anything")
	say("push")
	assert.Equal(t, [4]int{1, 0, 0, 0}, woken(), "one for one item, who came first")
	ts.remove(queue, a) // he has gone, or had his item before
	require.Equal(t, [4]int{0, 1, 0, 0}, woken())
	<-b // he looks
	ts.remove(queue, b)
	assert.Equal(t, [4]int{}, woken(), "his waking was used")
	say("ready")
	assert.Equal(t, [4]int{0, 0, 1, 1}, woken(), "there may be something for all")
	assert.Empty(t, elsewhere)

	ts.remove(queue, c)
	ts.remove(queue, d)
	ts.remove(queue, d) // once more is no harm
	ts.remove(other, elsewhere)
	assert.Empty(t, ts.m, "nothing is kept of queues for which nobody waits")
}
