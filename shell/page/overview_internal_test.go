package page

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

func TestALagAboveItsLimitIsShownAsBad(t *testing.T) {
	assert.Equal(t, cell{Text: "1.0 s", Tone: toneGood, Hint: "it keeps up to 1.0 s"}, lagOf(wire.System{LoopLagSeconds: 1, LoopLagLimitSeconds: 1}))
	assert.Equal(t, cell{Text: "1.1 s", Tone: toneBad, Hint: "it keeps up to 1.0 s"}, lagOf(wire.System{LoopLagSeconds: 1.1, LoopLagLimitSeconds: 1}))
}
