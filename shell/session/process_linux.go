package session

import (
	"bytes"
	"context"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orrery-go/orrery/shell/internal/pause"
	"github.com/orrery-go/orrery/shell/internal/procs"
)

// waitable gives a terminal whose reads and writes have deadlines and end when it
// is closed; else a write that nobody reads would wait for ever.
func waitable(master *os.File) (*os.File, error) {
	defer func() { _ = master.Close() }()
	fd, err := unix.FcntlInt(master.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), master.Name()), nil
}

// processes lists all processes that have not ended, with the marks of those
// whose environment we may read.
func processes() ([]process, error) { return procs.All(readProcess) }

// readProcess reports false for a process that has ended. It waits for one that is
// amid an exec, for that moment: such a process shows no environment.
func readProcess(pid int) (process, bool, error) {
	for tries := 0; ; tries++ {
		p, execs, ok, err := readProcessOnce(pid)
		if !execs || tries == 100 {
			return p, ok, err
		}
		_ = pause.For(context.Background(), time.Millisecond) // it always ends
	}
}

func readProcessOnce(pid int) (p process, execs, ok bool, err error) {
	dir := procs.Dir(pid)
	st, ok, err := procs.ReadStat(dir)
	if err != nil || !ok || ended(dir, st) {
		return p, false, false, err
	}
	p.pid, p.parent, p.session, p.started = pid, st.Parent, st.Session, st.Started
	env, err := os.ReadFile(dir + "/environ")
	if procs.Ignorable(err) != nil {
		return process{}, false, false, err
	}
	p.name, p.instance = markIn(env)
	// Amid an exec the environment has no place yet, or that read is not of the
	// length that it had a moment ago. The kernel's own threads never have any.
	execs = err == nil && !st.Kernel && (st.EnvEnd == 0 || uint64(len(env)) != st.EnvEnd-st.EnvBegin)
	return p, execs, true, nil
}

// ended reports whether all threads have ended: what has ended stays listed
// until its parent looks after it.
func ended(dir string, st procs.Stat) bool {
	if !st.Ended() {
		return false
	}
	threads, err := procs.IDs(dir + "/task")
	return err != nil || len(threads) < 2
}

// markIn gives the mark that an environment carries.
func markIn(environ []byte) (name, instance string) {
	if !bytes.Contains(environ, []byte(instanceVar+"=")) {
		return "", ""
	}
	for entry := range bytes.SplitSeq(environ, []byte{0}) {
		switch key, value, _ := strings.Cut(string(entry), "="); key {
		case sessionVar:
			name = value
		case instanceVar:
			instance = value
		}
	}
	return name, instance
}

// isStill looks again, right before a signal.
func (p process) isStill() bool {
	now, ok, err := readProcess(p.pid)
	return err == nil && ok && now.started == p.started
}

// hasEnded reports whether a process has, be it waited for or not.
func hasEnded(pid int) bool {
	_, ok, err := readProcess(pid)
	return err == nil && !ok
}

// markedNames gives the sessions whose mark some process carries.
func markedNames(instance string) ([]string, error) {
	all, err := processes()
	if err != nil {
		return nil, err
	}
	kin := family(all, os.Getpid())
	names := map[string]bool{}
	for _, p := range all {
		if p.instance == instance && goodName.MatchString(p.name) && !kin[p.pid] {
			names[p.name] = true
		}
	}
	return slices.Sorted(maps.Keys(names)), nil
}
