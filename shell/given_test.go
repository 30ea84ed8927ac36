package shell_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/store/memory"
)

func TestAnInputThatTakesTooLongToDecideOnIsRefusedBeforeTheJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := running(t, shell.Options{Store: memory.New()})
		huge := core.Retry{MaxAttempts: 2, NoRetry: []string{"(" + strings.Repeat("a?", 300) + "){1000}b"}}
		_, queueErr := e.Queues().Configure(t.Context(), "n", "t", "q", core.QueueConfig{Retry: huge})
		_, pipelineErr := e.Pipelines().Create(t.Context(), core.PipelineSpec{Definition: core.PipelineDef{Name: "p", Phases: []core.PhaseDef{{Name: "x", Manual: &core.ManualPhase{}, Retry: huge}}}})
		for want, err := range map[string]error{"config.retry.no_retry[0]: ": queueErr, "definition.phases[0].retry.no_retry[0]: ": pipelineErr} {
			var refused *shell.Refusal
			require.ErrorAs(t, err, &refused)
			assert.Equal(t, effects.CodeInvalid, refused.Code)
			assert.True(t, strings.HasPrefix(refused.Reason, want), "%s", refused.Reason)
			assert.Contains(t, refused.Reason, "has the size 602002, which is more than 256")
		}
		list, _, err := e.Pipelines().List(t.Context(), shell.MachineFilter{}, shell.Page{})
		require.NoError(t, err)
		assert.Empty(t, list)
	})
}
