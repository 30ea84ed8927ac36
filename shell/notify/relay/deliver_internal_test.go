package relay

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

func TestOfWhatAMachineMakesForItsOwnWorkThatMachineTells(t *testing.T) {
	for kind, want := range map[effects.Kind]bool{
		core.KindPipeline: true, core.KindStrategy: true, core.KindWorker: true, core.KindRecurring: false, core.KindQueue: false, core.KindBackfill: false, "": false,
	} {
		var a core.Action
		a.Owner.Ref = effects.Ref{Kind: kind, ID: uuid.Max}
		assert.Equal(t, want, ofParent(a), "an action of %q", kind)
	}
	assert.False(t, ofParent(core.Pipeline{}))
	assert.False(t, ofParent(nil))
}
