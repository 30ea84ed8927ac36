// Package local runs the pods of jobs as processes of this machine (RunnerLocal): a
// [Runner] for package jobs, so that jobs run on a laptop without a cluster.
package local

import (
	"errors"
	"log/slog"
)

// Options configure a [Runner].
type Options struct {
	// Dir is where the runs keep their files: logs, exit codes. Required; it is made
	// where it is missing. Two runners must not share it.
	Dir    string
	Logger *slog.Logger // default slog.Default()
}

// Runner runs pods as processes. It is safe for concurrent use.
type Runner struct{}

// New makes a Runner. The error names the option that cannot be right.
func New(o Options) (*Runner, error) { return nil, errors.New("not written yet") }
