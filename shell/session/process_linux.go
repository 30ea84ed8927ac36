package session

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orrery-go/orrery/shell/internal/pause"
)

// dieWithUs lets a command end when this process does, so that what it asks for
// does not happen long after. The kernel ties that to the thread which starts it.
func dieWithUs(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

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
func processes() ([]process, error) {
	ids, err := numbersIn("/proc")
	if err != nil {
		return nil, fmt.Errorf("list the processes: %w", err)
	}
	all := make([]process, 0, len(ids))
	for _, pid := range ids {
		p, ok, err := readProcess(pid)
		if err != nil {
			return nil, fmt.Errorf("list the processes: %w", err)
		}
		if ok {
			all = append(all, p)
		}
	}
	return all, nil
}

func numbersIn(dir string) ([]int, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	names, err := f.Readdirnames(-1)
	_ = f.Close()
	var ids []int
	for _, name := range names {
		if id, err := strconv.Atoi(name); err == nil {
			ids = append(ids, id)
		}
	}
	return ids, err
}

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
	dir := "/proc/" + strconv.Itoa(pid)
	b, err := os.ReadFile(dir + "/stat")
	if err != nil {
		return p, false, false, ignorable(err)
	}
	// The second field is the name in parentheses, which may hold anything, such
	// as ") Z 1".
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(fields) < 49 || ended(dir, fields[0]) {
		return p, false, false, nil
	}
	p.pid, p.started = pid, fields[19]
	p.parent, _ = strconv.Atoi(fields[1])
	p.session, _ = strconv.Atoi(fields[3])
	env, err := os.ReadFile(dir + "/environ")
	if ignorable(err) != nil {
		return process{}, false, false, err
	}
	p.name, p.instance = markIn(env)
	// Amid an exec the environment has no place yet, or that read is not of the
	// length that it had a moment ago. The kernel's own threads never have any.
	const kernelThread = 0x200000
	flags, _ := strconv.Atoi(fields[6])
	begin, _ := strconv.ParseUint(fields[47], 10, 64)
	end, _ := strconv.ParseUint(fields[48], 10, 64)
	execs = err == nil && flags&kernelThread == 0 && (end == 0 || uint64(len(env)) != end-begin)
	return p, execs, true, nil
}

// ended reports whether all threads have ended: what has ended stays listed
// until its parent looks after it.
func ended(dir, state string) bool {
	if state != "Z" && state != "X" {
		return false
	}
	threads, err := numbersIn(dir + "/task")
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

// ignorable drops the errors that only say that a process is gone, or not ours
// to look at. What remains, such as a lack of file descriptors, must not pass
// for "nothing is left".
func ignorable(err error) error {
	for _, known := range []error{fs.ErrNotExist, fs.ErrPermission, unix.ESRCH} {
		if errors.Is(err, known) {
			return nil
		}
	}
	return err
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
	return sortedKeys(names), nil
}
