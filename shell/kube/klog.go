package kube

import (
	"context"
	"log/slog"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
)

// LogTo has log take what client-go says on its own, such as of tokens that it cannot read,
// instead of standard error: for the whole process, once, before a [Runner] is made. What
// concerns one Runner goes to its [Options.Logger] in any case.
func LogTo(log *slog.Logger) {
	klog.SetSlogLogger(slog.New(bounded{log.Handler(), slog.LevelWarn}))
}

// logged has what client-go says of a watch logged with our own lines, for those who
// look for a defect: what matters of it the watcher says itself, once.
func logged(ctx context.Context, log *slog.Logger) context.Context {
	return klog.NewContext(ctx, logr.FromSlogHandler(bounded{log.Handler(), slog.LevelDebug}))
}

// bounded caps the level of records, and drops those for client-go's developers.
type bounded struct {
	slog.Handler
	most slog.Level
}

// Enabled implements [slog.Handler].
func (b bounded) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= slog.LevelInfo && b.Handler.Enabled(ctx, min(l, b.most))
}

// Handle implements [slog.Handler].
func (b bounded) Handle(ctx context.Context, r slog.Record) error {
	if !b.Enabled(ctx, r.Level) { // errors come without having been asked
		return nil
	}
	r.Level = min(r.Level, b.most)
	return b.Handler.Handle(ctx, r)
}

// WithAttrs implements [slog.Handler].
func (b bounded) WithAttrs(attrs []slog.Attr) slog.Handler {
	return bounded{b.Handler.WithAttrs(attrs), b.most}
}

// WithGroup implements [slog.Handler].
func (b bounded) WithGroup(name string) slog.Handler {
	return bounded{b.Handler.WithGroup(name), b.most}
}

// warnings logs what the API server warns of: deprecated fields, coming policies.
type warnings struct{ log *slog.Logger }

var _ rest.WarningHandlerWithContext = warnings{}

// HandleWarningHeaderWithContext implements [rest.WarningHandlerWithContext].
func (w warnings) HandleWarningHeaderWithContext(ctx context.Context, code int, _, text string) {
	if code == 299 && text != "" { // the only code that Kubernetes uses
		w.log.InfoContext(ctx, "the API server warns", "warning", text)
	}
}
