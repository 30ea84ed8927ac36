package shell

import (
	"log/slog"

	"github.com/orrery-go/orrery/core"
)

var taskObserver = observer{
	kind: core.KindTask, category: "task",
	lines: map[string]line{
		"started":    {"task.start", slog.LevelDebug},
		"stuck":      {"task.stuck", slog.LevelWarn},
		"recovered":  {"task.recovered", slog.LevelInfo},
		"complete":   {"task.complete", slog.LevelDebug},
		"restarting": {"task.restart", slog.LevelWarn},
		"failed":     {"task.fail", slog.LevelWarn},
		"cancelled":  {"task.cancel", slog.LevelInfo},
		"input_lost": {"task.input_lost", slog.LevelWarn},
	},
	attrs: func(s core.State) []slog.Attr {
		t, _ := s.(core.Task)
		return pipelineAttrs(t.Namespace, t.Tenant, t.Label, t.PipelineID)
	},
}
