package page

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

func TestALagAboveItsLimitIsShownAsBad(t *testing.T) {
	assert.Equal(t, cell{Text: "1.0 s", Tone: toneGood, Hint: "it keeps up to 1.0 s"}, lagOf(wire.System{LoopLagSeconds: 1, LoopLagLimitSeconds: 1}))
	assert.Equal(t, cell{Text: "1.1 s", Tone: toneBad, Hint: "it keeps up to 1.0 s"}, lagOf(wire.System{LoopLagSeconds: 1.1, LoopLagLimitSeconds: 1}))
}

func TestTimesAreCountedAndNotEntries(t *testing.T) {
	n, more, before := timesOf([]core.Occurrence{{DueAt: 2000, Count: 3}, {DueAt: 3000, Count: 4}}, core.Time(2000).String())
	assert.Equal(t, 7, n)
	assert.False(t, more || before)
	_, more, _ = timesOf([]core.Occurrence{{Count: 3, CountCapped: true}}, "")
	assert.True(t, more)
	_, _, before = timesOf([]core.Occurrence{{DueAt: 1999, Count: 3}}, core.Time(2000).String())
	assert.True(t, before)
}
