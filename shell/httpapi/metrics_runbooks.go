package httpapi

import (
	"context"

	"github.com/orrery-go/orrery/shell"
)

var (
	descPipelines  = desc("orrery_pipelines", "Stored pipelines by status.", "status")
	descTasks      = desc("orrery_tasks", "Stored tasks by state.", "status")
	descStrategies = desc("orrery_strategies", "Stored strategies by status.", "status")
	descEvents     = desc("orrery_events_total", "Events announced on the bus; those of a runbook's own together as \"custom\".", "category", "action")
	descPhases     = desc("orrery_phase_duration_seconds", "How long phases of pipelines took, by what they do and how they ended.", "kind", "outcome")
)

// collectRunbooks reads what the engine counts of runbooks.
func (s *Server) collectRunbooks(ctx context.Context, ch samples) {
	st, err := s.engine.RunbookStats(ctx)
	if err != nil {
		return // orrery_up and the log tell it
	}
	gauges(ch, descPipelines, st.Pipelines)
	gauges(ch, descTasks, st.Tasks)
	gauges(ch, descStrategies, st.Strategies)
	for kind, n := range st.Events {
		ch.counter(descEvents, n, kind.Category, kind.Action)
	}
	for key, h := range st.Phases {
		ch.histogram(descPhases, shell.PhaseBuckets[:], h, key.Kind, string(key.Outcome))
	}
}
