package shell

import (
	"log/slog"

	"github.com/orrery-go/orrery/core"
)

var lockObserver = observer{
	kind: core.KindLock, category: "lock",
	lines: leaseLines("lock"),
	attrs: func(s core.State) []slog.Attr {
		l, _ := s.(core.Lock)
		return scopeAttrs(l.Namespace, l.Tenant, "name", l.Name)
	},
}

var semaphoreObserver = observer{
	kind: core.KindSemaphore, category: "semaphore",
	lines: leaseLines("semaphore"),
	attrs: func(s core.State) []slog.Attr {
		m, _ := s.(core.Semaphore)
		return scopeAttrs(m.Namespace, m.Tenant, "name", m.Name)
	},
}

// leaseLines are the lines about what is held by a lease.
func leaseLines(of string) map[string]line {
	return map[string]line{
		"acquired": {of + ".acquire", slog.LevelDebug},
		"released": {of + ".release", slog.LevelDebug},
		"expired":  {of + ".expire", slog.LevelWarn},
		"broken":   {of + ".break", slog.LevelWarn},
	}
}

// systemObserver has no machine: any may escalate.
var systemObserver = observer{
	category: "system",
	lines:    map[string]line{"escalate": {"system.escalate", slog.LevelError}},
}
