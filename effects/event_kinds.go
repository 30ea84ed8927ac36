package effects

// Kinds of bus events that 003 names, in its EventKind or in its tables. What it
// writes as PipelinePhase{phase}, PipelineFailed{error} and Escalate{message}
// stands in the event's data, as the member of that name.
var (
	KindPipelineBlocked  = EventKind{Category: "pipeline", Action: "blocked"} // data: reason
	KindPipelineStarted  = EventKind{Category: "pipeline", Action: "started"}
	KindPipelinePhase    = EventKind{Category: "pipeline", Action: "phase"} // data: phase
	KindPipelineRetry    = EventKind{Category: "pipeline", Action: "retry"} // data: phase
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
	KindHeartbeat = EventKind{Category: "system", Action: "heartbeat"} // no row of 003 announces it, and no machine does
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
		"worker", "lock", "semaphore", "bus", "system", "session", "git":
		return true
	}
	return false
}
