//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package local

import (
	"errors"
	"syscall"
	"time"

	"github.com/orrery-go/orrery/shell/internal/procgroup"
)

// reap waits for all children: containers, and what they left behind. It never
// returns.
func (s *supervisor) reap() {
	for {
		pid, status, err := nextEnded()
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil: // there is no child
			s.mu.Lock()
			for len(s.running) == 0 {
				s.born.Wait()
			}
			s.mu.Unlock()
		default:
			s.reapOne(pid, status)
		}
	}
}

// reapOne takes the end of a process, and kills what is left of its group: before
// its id is free for another, where a status of nil says that it is not yet reaped.
func (s *supervisor) reapOne(pid int, status *syscall.WaitStatus) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ours := s.running[pid]
	if ours {
		_ = procgroup.Signal(pid, syscall.SIGKILL)
	}
	if status == nil {
		status = new(syscall.WaitStatus)
		for {
			_, err := syscall.Wait4(pid, status, 0, nil)
			if !errors.Is(err, syscall.EINTR) {
				break
			}
		}
	}
	if !ours {
		return
	}
	delete(s.running, pid)
	c.status = *status
	go func() {
		// The last of its output is still under way.
		select {
		case <-c.copied:
		case <-time.After(outputDelay):
		}
		s.exits <- c
	}()
}

// endAll kills what the containers left behind, and waits until all output was
// taken.
func (s *supervisor) endAll() {
	for wait := time.Millisecond; s.killRest(); wait = min(2*wait, 100*time.Millisecond) {
		<-time.After(wait)
	}
	for _, c := range s.outputs {
		select {
		case <-c.copied:
		case <-time.After(outputDelay):
			_ = c.output.Close() // what holds it open we cannot end
			<-c.copied
		}
	}
}
