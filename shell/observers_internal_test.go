package shell

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

func TestWhatMachinesAnnounceAndBecomeHasItsObserver(t *testing.T) {
	for kind, category := range map[effects.Kind]string{
		core.KindAction: "action", core.KindPipeline: "pipeline", core.KindTask: "task", core.KindStrategy: "strategy", core.KindQueue: "queue",
		core.KindLock: "lock", core.KindSemaphore: "semaphore", core.KindJob: "job", core.KindOrchestrator: "run",
		core.KindScheduler: "scheduler",
	} {
		o, ok := observersByKind[kind]
		assert.True(t, ok, "%s", kind)
		assert.Equal(t, category, o.category, "%s", kind)
	}
	for _, category := range []string{
		"pipeline", "task", "strategy", "queue", "lock", "semaphore", "system", "job", "run", "recurring", "action", "scheduler",
	} {
		o, ok := observersByCategory[category]
		assert.True(t, ok, category)
		assert.True(t, o.event != nil || len(o.lines) > 0, "%s: nothing of it is logged", category)
	}
}

func TestWhatIsAnnouncedIsCountedOnceUnderItsOwnCounter(t *testing.T) {
	var s counts
	s.init()
	for _, tc := range []struct {
		category, action string
		counter          *uint64
	}{
		{"recurring", "dispatched", &s.actions.RecurringDispatched},
		{"action", "retry", &s.actions.ActionRetries},
		{"job", "triggered", &s.jobs.Triggered},
		{"run", "constraint_error", &s.jobs.ConstraintErrors},
		{"run", "cleanup_failed", &s.jobs.CleanupsFailed},
	} {
		tally := observersByCategory[tc.category].tally
		tally(&s, effects.Event{Kind: effects.EventKind{Category: tc.category, Action: "something else"}})
		assert.Zero(t, *tc.counter, tc.action)
		tally(&s, effects.Event{Kind: effects.EventKind{Category: tc.category, Action: tc.action}})
		assert.EqualValues(t, 1, *tc.counter, tc.action)
	}
}
