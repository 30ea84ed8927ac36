package shell

import (
	"log/slog"

	"github.com/orrery-go/orrery/core"
)

var strategyObserver = observer{
	kind: core.KindStrategy, category: "strategy",
	lines: map[string]line{
		"started":   {"strategy.start", slog.LevelDebug},
		"fallback":  {"strategy.fallback", slog.LevelInfo},
		"success":   {"strategy.complete", slog.LevelDebug},
		"exhausted": {"strategy.exhausted", slog.LevelWarn},
		"cancelled": {"strategy.cancel", slog.LevelInfo},
	},
	attrs: func(s core.State) []slog.Attr {
		t, _ := s.(core.Strategy)
		return pipelineAttrs(t.Namespace, t.Tenant, t.Label, t.PipelineID)
	},
}
