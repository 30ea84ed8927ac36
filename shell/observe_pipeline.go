package shell

import (
	"log/slog"
	"slices"

	"github.com/orrery-go/orrery/core"
)

// pipelineObserver: here and below, what goes well and often is for debugging, what
// people may have to look at is a warning, and what calls for them an error.
var pipelineObserver = observer{
	kind: core.KindPipeline, category: "pipeline",
	lines: map[string]line{
		"started":    {"pipeline.start", slog.LevelInfo},
		"phase":      {"pipeline.phase", slog.LevelDebug},
		"complete":   {"pipeline.complete", slog.LevelInfo},
		"failed":     {"pipeline.fail", slog.LevelWarn},
		"blocked":    {"pipeline.block", slog.LevelInfo},
		"retry":      {"pipeline.retry", slog.LevelInfo},
		"cancelled":  {"pipeline.cancel", slog.LevelInfo},
		"signal":     {"pipeline.signal", slog.LevelDebug},
		"checkpoint": {"pipeline.checkpoint", slog.LevelDebug},
	},
	attrs: func(s core.State) []slog.Attr {
		p, _ := s.(core.Pipeline)
		return append(scopeAttrs(p.Namespace, p.Tenant, "label", p.Label), slog.String("pipeline", p.Definition.Name))
	},
	count: counting((*counts).countPhases),
}

// countPhases counts the phases that have ended.
func (s *counts) countPhases(before, after core.Pipeline) {
	for _, r := range newRecords(before.History, after.History) {
		k := PhaseKey{Kind: kindOfPhase(after.Definition, r.Name), Outcome: r.Outcome}
		s.runbooks.Phases[k] = observed(s.runbooks.Phases[k], r.EndedAt.Sub(r.StartedAt).Seconds())
	}
}

// newRecords gives what a history has got: what stands behind its last record of
// before. The oldest ones may have gone meanwhile.
func newRecords(before, after []core.PhaseRecord) []core.PhaseRecord {
	if len(before) == 0 {
		return after
	}
	last := before[len(before)-1]
	for i, r := range slices.Backward(after) {
		if r == last {
			return after[i+1:]
		}
	}
	return after
}

// kindOfPhase gives what a phase does.
func kindOfPhase(d core.PipelineDef, name string) string {
	i := slices.IndexFunc(d.Phases, func(p core.PhaseDef) bool { return p.Name == name })
	if i < 0 {
		return ""
	}
	return d.Phases[i].Kind()
}
