//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package local

import (
	"context"
	"fmt"
	"io"
	"runtime"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/jobs"
)

// Runner runs pods as processes: not on this system.
type Runner struct{}

var _ jobs.Runner = (*Runner)(nil)

// New says that there is no such runner on this system.
func New(Options) (*Runner, error) { return nil, shell.Permanent(errUnsupported) }

// Check implements [jobs.Runner].
func (r *Runner) Check(core.JobSpec) error { return shell.Permanent(errUnsupported) }

// Create implements [jobs.Runner].
func (r *Runner) Create(context.Context, jobs.Run) (int, error) {
	return 0, shell.Permanent(errUnsupported)
}

// Logs implements [jobs.Runner].
func (r *Runner) Logs(context.Context, jobs.Attempt, jobs.LogOptions, io.Writer) (int, error) {
	return 0, shell.Permanent(errUnsupported)
}

// Delete implements [jobs.Runner].
func (r *Runner) Delete(context.Context, jobs.Attempt) (int, error) {
	return 0, shell.Permanent(errUnsupported)
}

// Watch implements [jobs.Runner].
func (r *Runner) Watch(context.Context, jobs.Sink) error { return shell.Permanent(errUnsupported) }

// Held implements [jobs.Runner].
func (r *Runner) Held(context.Context) ([]jobs.Attempt, error) {
	return nil, shell.Permanent(errUnsupported)
}

// Beat implements [jobs.Runner].
func (r *Runner) Beat(context.Context) error { return shell.Permanent(errUnsupported) }

// errUnsupported says that this system has no such runner.
var errUnsupported = fmt.Errorf("running pods as processes is not supported on %s", runtime.GOOS)
