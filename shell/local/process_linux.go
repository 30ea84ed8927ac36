package local

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strconv"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/orrery-go/orrery/shell/internal/pause"
	"github.com/orrery-go/orrery/shell/internal/procs"
)

// attributes are those of a container's process.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}

// adoptOrphans makes this process the parent of what its descendants leave behind,
// so that nothing of a pod is ever out of its sight.
func adoptOrphans() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// siginfo is what waitid tells: the id follows three numbers, aligned as a pointer.
type siginfo struct {
	signo, errno, code int32
	_                  [unsafe.Sizeof(uintptr(0)) - 4]byte
	pid                int32
}

// nextEnded waits until a child has ended, and leaves it unreaped.
func nextEnded() (int, *syscall.WaitStatus, error) {
	info, err := awaitChild(0)
	return int(info.pid), nil, err
}

func awaitChild(options int) (siginfo, error) {
	var info unix.Siginfo
	err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOWAIT|options, nil)
	return *(*siginfo)(unsafe.Pointer(&info)), err //nolint:gosec // the part of the kernel's structure that x/sys does not name
}

// killRest kills all descendants of this process, and reports whether there were
// any: no children means no descendants, since orphans become children.
func (s *supervisor) killRest() bool {
	if _, err := awaitChild(unix.WNOHANG); errors.Is(err, unix.ECHILD) {
		return false
	}
	all, err := processes()
	if err != nil {
		return true
	}
	for _, p := range descendants(all, map[int]bool{os.Getpid(): true}) {
		p.kill()
	}
	return true
}

// process is what there is to know of a process.
type process struct {
	procs.Stat
	pid int
}

func processes() ([]process, error) {
	return procs.All(func(pid int) (process, bool, error) {
		st, ok, err := procs.ReadStat(procs.Dir(pid))
		return process{st, pid}, ok, err
	})
}

// descendants gives those whose ancestors are among the given ones.
func descendants(all []process, of map[int]bool) []process {
	belongs := map[int]bool{}
	var found []process
	for grown := true; grown; {
		grown = false
		for _, p := range all {
			if !belongs[p.pid] && !of[p.pid] && (of[p.Parent] || belongs[p.Parent]) {
				belongs[p.pid], grown = true, true
				found = append(found, p)
			}
		}
	}
	return found
}

// kill kills the process, if it still is what it was.
func (p process) kill() {
	_ = procs.Signal(p.pid, func() bool {
		now, ok, err := procs.ReadStat(procs.Dir(p.pid))
		return err == nil && ok && now.Started == p.Started
	}, unix.SIGKILL)
}

// sweep kills what carries the mark of a pod, its groups and its descendants, until
// nothing of it is left.
func sweep(ctx context.Context, dir string) error {
	known := map[string]process{}
	nothing := 0
	for wait := time.Millisecond; ; wait = min(2*wait, 100*time.Millisecond) {
		all, err := processes()
		if err != nil {
			return err
		}
		left := marked(all, podDirVar+"="+dir, known)
		for _, p := range left {
			p.kill()
		}
		if nothing++; len(left) > 0 {
			nothing = 0
		}
		// One that is amid an exec shows no environment for a moment: only two looks
		// in a row tell that nothing is left.
		if nothing == 2 {
			return nil
		}
		if err := pause.For(ctx, wait); err != nil {
			return err
		}
	}
}

// marked gives those processes that run and carry the mark, or have been known to
// belong to one that does. This process and its ancestors never do.
func marked(all []process, mark string, known map[string]process) []process {
	parents := map[int]int{}
	for _, p := range all {
		parents[p.pid] = p.Parent
	}
	kin := procs.Ancestors(os.Getpid(), func(pid int) int { return parents[pid] })
	roots, groups := map[int]bool{}, map[int]bool{}
	for _, p := range all {
		if _, was := known[p.identity()]; (was || carries(p.pid, mark)) && !kin[p.pid] {
			roots[p.pid], groups[p.Group] = true, true
		}
	}
	for _, p := range all {
		if kin[p.pid] {
			delete(groups, p.Group)
		}
	}
	for _, p := range all {
		if groups[p.Group] && !kin[p.pid] {
			roots[p.pid] = true
		}
	}
	for _, p := range descendants(all, roots) {
		roots[p.pid] = true
	}
	var found []process
	for _, p := range all {
		if roots[p.pid] && !kin[p.pid] && !p.Ended() {
			known[p.identity()] = p
			found = append(found, p)
		}
	}
	return found
}

func (p process) identity() string { return strconv.Itoa(p.pid) + " " + p.Started }

// carries reports whether a process was started with the mark in its environment.
func carries(pid int, mark string) bool {
	b, err := os.ReadFile(procs.Dir(pid) + "/environ")
	return err == nil && bytes.Contains(append([]byte{0}, append(b, 0)...), append(append([]byte{0}, mark...), 0))
}
