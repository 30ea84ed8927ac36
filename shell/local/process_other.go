//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package local

import (
	"context"
	"syscall"

	"github.com/orrery-go/orrery/shell/internal/procgroup"
)

// attributes are those of a container's process.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// adoptOrphans has no counterpart here: what leaves its group is out of sight.
func adoptOrphans() {}

// nextEnded waits until a child has ended, and reaps it: the rest of its group is
// killed right after. Ids are given out in turn, so that another group with its id
// is many thousand processes away.
func nextEnded() (int, *syscall.WaitStatus, error) {
	var status syscall.WaitStatus
	pid, err := syscall.Wait4(-1, &status, 0, nil)
	return pid, &status, err
}

// killRest finds nothing: the groups of containers end with these.
func (s *supervisor) killRest() bool { return false }

// sweep kills the groups of a pod's containers, as far as they were written down: the
// environment of other processes is not shown here.
func sweep(_ context.Context, dir string) error {
	st, err := readState(dir)
	if err != nil {
		return nil // nothing is known
	}
	for _, c := range st.Containers {
		if c.PID > 1 && !c.Ended {
			_ = procgroup.Signal(c.PID, syscall.SIGKILL)
		}
	}
	return nil
}
