package config

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/jobs"
)

// drained is a runner that begins nothing: the attempts that it holds are watched, read
// and ended. It stands where the configuration has no runner.
type drained struct{ jobs.Runner }

// ErrNoRunner says what to write for jobs to run.
const ErrNoRunner = `runner: no runner is enabled here, and processes of this machine run as the daemon's user: to have them, write the lines "[runners.local]" and "enabled = true" into the configuration, or configure a cluster`

// runnersText lists the runners that there are; without any it says what to write for one.
func (c *Config) runnersText() string {
	return cmp.Or(strings.Join(c.RunnerNames(), ", "), `there is none: to have "local", write the lines "[runners.local]" and "enabled = true"`)
}

// Check implements [jobs.Runner].
func (drained) Check(core.JobSpec) error { return errors.New(ErrNoRunner) }

// Create implements [jobs.Runner]: an attempt that was created before is no error.
func (d drained) Create(ctx context.Context, run jobs.Run) (int, error) {
	held, err := d.Held(ctx)
	if err != nil {
		return 0, err
	}
	if slices.Contains(held, run.Attempt) {
		return d.Runner.Create(ctx, run)
	}
	return 0, shell.Permanent(errors.New(ErrNoRunner))
}

// makeDrained makes the runner of a daemon that has none: of the processes that an earlier
// configuration left, if there are any.
func (c *Config) makeDrained(home string, log *slog.Logger) (jobs.Runner, error) {
	r := c.Runners[runnerLocal]
	r.Type, r.Executables, r.RunAs = runnerLocal, nil, nil
	r.MemoryMaxBytes, r.PidsMax, r.CPUMax = nil, nil, nil
	if _, err := os.Stat(r.dir(c.DB)); err != nil {
		return drained{noRunner{}}, nil
	}
	made, err := r.make(c.DB, "", home, log)
	return drained{made}, err
}

// noRunner holds nothing.
type noRunner struct{}

// Check implements [jobs.Runner].
func (noRunner) Check(core.JobSpec) error { return nil }

// Create implements [jobs.Runner].
func (noRunner) Create(context.Context, jobs.Run) (int, error) {
	return 0, shell.Permanent(errors.New(ErrNoRunner))
}

// Logs implements [jobs.Runner].
func (noRunner) Logs(context.Context, jobs.Attempt, jobs.LogOptions, io.Writer) (int, error) {
	return 0, jobs.ErrNoPod
}

// Delete implements [jobs.Runner].
func (noRunner) Delete(context.Context, jobs.Attempt) (int, error) { return 0, nil }

// Watch implements [jobs.Runner].
func (noRunner) Watch(ctx context.Context, _ jobs.Sink) error {
	<-ctx.Done()
	return nil
}

// Held implements [jobs.Runner].
func (noRunner) Held(context.Context) ([]jobs.Attempt, error) { return nil, nil }

// Beat implements [jobs.Runner].
func (noRunner) Beat(context.Context) error { return nil }
