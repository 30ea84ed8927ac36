package effects_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/orrery-go/orrery/effects"
)

func TestTheKindsOf003AreWrittenAsItWritesThem(t *testing.T) {
	for want, kind := range map[string]effects.EventKind{
		"pipeline:started": effects.KindPipelineStarted, "pipeline:phase": effects.KindPipelinePhase,
		"pipeline:blocked": effects.KindPipelineBlocked, "pipeline:retry": effects.KindPipelineRetry, "pipeline:approval": effects.KindPipelineApproval,
		"pipeline:complete": effects.KindPipelineComplete, "pipeline:failed": effects.KindPipelineFailed,
		"task:started": effects.KindTaskStarted, "task:stuck": effects.KindTaskStuck, "task:recovered": effects.KindTaskRecovered, "task:complete": effects.KindTaskComplete,
		"task:restarting": effects.KindTaskRestarting, "task:failed": effects.KindTaskFailed,
		"strategy:fallback": effects.KindStrategyFallback, "strategy:exhausted": effects.KindStrategyExhausted,
		"queue:push": effects.KindQueuePush, "queue:take": effects.KindQueueTake, "queue:complete": effects.KindQueueComplete, "queue:dead": effects.KindQueueDead,
		"system:escalate": effects.KindEscalate, "system:heartbeat": effects.KindHeartbeat, "deploy:done": effects.Custom("deploy", "done"),
	} {
		assert.Equal(t, want, kind.String())
	}
}
