package shell

import (
	"log/slog"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

var queueObserver = observer{
	kind: core.KindQueue, category: "queue",
	lines: map[string]line{
		"push":     {"queue.push", slog.LevelDebug},
		"take":     {"queue.take", slog.LevelDebug},
		"complete": {"queue.complete", slog.LevelDebug},
		"fail":     {"queue.fail", slog.LevelInfo},
		"dead":     {"queue.dead", slog.LevelWarn},
	},
	attrs: func(s core.State) []slog.Attr {
		q, _ := s.(core.Queue)
		return scopeAttrs(q.Namespace, q.Tenant, "name", q.Name)
	},
	event: func(e *Engine, _ *commit, ev effects.Event) { e.takes.hear(ev) },
}
