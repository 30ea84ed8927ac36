//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package local

import (
	"runtime"

	"github.com/orrery-go/orrery/shell/jobs"
)

// Runner runs pods as processes: not on this system, where nobody can make one.
type Runner struct{ jobs.Runner }

// New says that there is no such runner on this system.
func New(Options) (*Runner, error) {
	return nil, permanent("running pods as processes is not supported on %s", runtime.GOOS)
}
