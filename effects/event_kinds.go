package effects

// Kinds of bus events that 003 names, in its EventKind or in its tables. What it
// writes as PipelinePhase{phase}, PipelineFailed{error} and Escalate{message}
// stands in the event's data, as the member of that name.
var (
	KindPipelineBlocked  = EventKind{Category: "pipeline", Action: "blocked"} // data: reason
	KindPipelineStarted  = EventKind{Category: "pipeline", Action: "started"}
	KindPipelinePhase    = EventKind{Category: "pipeline", Action: "phase"}    // data: phase
	KindPipelineApproval = EventKind{Category: "pipeline", Action: "approval"} // a phase waits for one; data: phase, message
	KindPipelineRetry    = EventKind{Category: "pipeline", Action: "retry"}    // data: phase
	KindPipelineComplete = EventKind{Category: "pipeline", Action: "complete"}
	KindPipelineFailed   = EventKind{Category: "pipeline", Action: "failed"} // data: phase, error

	KindTaskStarted    = EventKind{Category: "task", Action: "started"}
	KindTaskStuck      = EventKind{Category: "task", Action: "stuck"} // data: reason
	KindTaskRecovered  = EventKind{Category: "task", Action: "recovered"}
	KindTaskRestarting = EventKind{Category: "task", Action: "restarting"}
	KindTaskComplete   = EventKind{Category: "task", Action: "complete"}
	KindTaskFailed     = EventKind{Category: "task", Action: "failed"} // data: error

	KindQueuePush     = EventKind{Category: "queue", Action: "push"}
	KindQueueTake     = EventKind{Category: "queue", Action: "take"}
	KindQueueComplete = EventKind{Category: "queue", Action: "complete"}
	KindQueueDead     = EventKind{Category: "queue", Action: "dead"}

	KindStrategyFallback  = EventKind{Category: "strategy", Action: "fallback"}  // data: from, to, error
	KindStrategyExhausted = EventKind{Category: "strategy", Action: "exhausted"} // data: approach, error

	KindEscalate  = EventKind{Category: "system", Action: "escalate"}  // data: message
	KindHeartbeat = EventKind{Category: "system", Action: "heartbeat"} // data: every_ms
)

// Custom is the kind of an event of a runbook's own (003 Custom). Only the
// machines announce events of a reserved category.
func Custom(category, action string) EventKind {
	return EventKind{Category: category, Action: action}
}

// ReservedCategory reports whether only the machines announce events of that
// category.
func ReservedCategory(category string) bool {
	switch category {
	case "action", "recurring", "occurrence", "dedup", "pipeline", "task", "queue", "strategy",
		"worker", "lock", "semaphore", "bus", "system", "session", "git", "job", "run", "orchestrator", "scheduler", "alert":
		return true
	}
	return false
}

// Announced lists the kinds of all events that machines announce, by category and
// action: what a subscriber can wait for beside the custom ones.
func Announced() []EventKind {
	var out []EventKind
	for _, c := range [...]struct {
		category string
		actions  []string
	}{
		{"action", []string{"cancelled", "completed", "failed", "retry"}},
		{"alert", []string{"cleared", "raised", "undelivered"}},
		{"job", []string{"cancelled", "created", "deleted", "expired", "missed", "paused", "resumed", "run_refused", "skip_next", "skipped", "triggered", "updated"}},
		{"lock", []string{"acquired", "broken", "expired", "released"}},
		{"pipeline", []string{"approval", "blocked", "cancelled", "checkpoint", "complete", "failed", "phase", "refused", "retry", "signal", "started"}},
		{"queue", []string{"complete", "dead", "fail", "push", "ready", "take"}},
		{"recurring", []string{
			"cancelled", "created", "deleted", "dispatched", "expired", "missed", "no_next", "paused", "resumed", "skip_next", "skipped", "updated", "wait_expired",
		}},
		{"run", []string{
			"action", "action_pending", "action_refused", "action_running", "cancelled", "cleaned_up", "cleanup_abandoned", "cleanup_failed", "completed", "condition_pending",
			"condition_running", "constraint_error", "constraint_violated", "container_creating", "failed", "metrics", "orphaned",
			"pending", "pre_run", "retrying", "running", "terminating", "update",
		}},
		{"scheduler", []string{"backfill_cancelled", "backfill_completed", "backfill_created", "calendar_created", "calendar_deleted", "calendar_updated"}},
		{"semaphore", []string{"acquired", "broken", "configured", "expired", "released"}},
		{"strategy", []string{"cancelled", "exhausted", "fallback", "started", "success"}},
		{"system", []string{"escalate", "heartbeat"}},
		{"task", []string{"cancelled", "complete", "failed", "input_lost", "recovered", "restarting", "started", "stuck"}},
		{"worker", []string{"idle", "wake"}},
	} {
		for _, action := range c.actions {
			out = append(out, EventKind{Category: c.category, Action: action})
		}
	}
	return out
}
