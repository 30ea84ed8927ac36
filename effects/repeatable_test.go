package effects_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/orrery-go/orrery/effects"
)

// What reads, and what a name makes one of, may be carried out beside a first time that
// may still go on; nothing else may.
func TestOnlyWhatIsSafeBesideItselfIsRepeatable(t *testing.T) {
	for _, e := range []effects.Outer{effects.CheckConstraints{}, effects.CreateRun{}, effects.FetchLogs{}, effects.DeleteRun{}} {
		assert.True(t, e.Repeatable(), "%T", e)
	}
	for _, e := range []effects.Outer{
		effects.RunTool{}, effects.Spawn{}, effects.SendInput{}, effects.Kill{}, effects.Nudge{}, effects.WorktreeAdd{},
		effects.WorktreeRemove{}, effects.Merge{}, effects.Notify{}, effects.TakeAction{},
	} {
		assert.False(t, e.Repeatable(), "%T", e)
	}
}
