//go:build unix && !linux

package session

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"

	"golang.org/x/sys/unix"
)

// waitable gives the terminal as it is: that it can be polled is known of Linux only.
func waitable(master *os.File) (*os.File, error) { return master, nil }

// processes lists all processes that have not ended, as ps shows them: without
// marks and times of start.
func processes() ([]process, error) {
	out, err := exec.Command("ps", "-A", "-o", "pid=", "-o", "ppid=", "-o", "stat=").Output() //nolint:noctx // ps ends by itself
	if err != nil {
		return nil, fmt.Errorf("list the processes: %w", err)
	}
	var all []process
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		var p process
		var state string
		if n, _ := fmt.Sscan(lines.Text(), &p.pid, &p.parent, &state); n < 3 || state[0] == 'Z' {
			continue
		}
		p.session, _ = unix.Getsid(p.pid) // 0 for one that is not ours to ask
		all = append(all, p)
	}
	return all, nil
}

// isStill cannot tell: ids are given out in turn, so that another process with
// this one is many thousand processes away.
func (process) isStill() bool { return true }

// hasEnded reports whether a process has, and has been waited for.
func hasEnded(pid int) bool { return errors.Is(unix.Kill(pid, 0), unix.ESRCH) }

// markedNames gives nothing: the environment of other processes is not shown.
func markedNames(string) ([]string, error) { return nil, nil }
