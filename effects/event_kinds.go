package effects

// Kinds of bus events that 003 names. What it writes as PipelinePhase{phase},
// PipelineFailed{error} and Escalate{message} stands in the event's data, as the
// member of that name.
var (
	KindPipelineStarted  = EventKind{Category: "pipeline", Action: "started"}
	KindPipelinePhase    = EventKind{Category: "pipeline", Action: "phase"} // data: phase
	KindPipelineComplete = EventKind{Category: "pipeline", Action: "complete"}
	KindPipelineFailed   = EventKind{Category: "pipeline", Action: "failed"} // data: error

	KindTaskStarted   = EventKind{Category: "task", Action: "started"}
	KindTaskStuck     = EventKind{Category: "task", Action: "stuck"}
	KindTaskRecovered = EventKind{Category: "task", Action: "recovered"}
	KindTaskComplete  = EventKind{Category: "task", Action: "complete"}

	KindQueuePush     = EventKind{Category: "queue", Action: "push"}
	KindQueueTake     = EventKind{Category: "queue", Action: "take"}
	KindQueueComplete = EventKind{Category: "queue", Action: "complete"}
	KindQueueDead     = EventKind{Category: "queue", Action: "dead"}

	KindEscalate  = EventKind{Category: "system", Action: "escalate"} // data: message
	KindHeartbeat = EventKind{Category: "system", Action: "heartbeat"}
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
		"worker", "lock", "semaphore", "bus", "system", "session", "git", "job", "run", "orchestrator", "scheduler":
		return true
	}
	return false
}
