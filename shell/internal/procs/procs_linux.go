package procs

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Dir is the directory of a process.
func Dir(pid int) string { return "/proc/" + strconv.Itoa(pid) }

// IDs lists the ids in a directory: /proc has those of all processes, the directory
// "task" of a process those of its threads. With an error it is what was read before.
func IDs(dir string) ([]int, error) {
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

// All lists what read gives of each process of this machine; read reports false for
// a process that is to be left out, such as one that has ended meanwhile.
func All[T any](read func(pid int) (T, bool, error)) ([]T, error) {
	ids, err := IDs("/proc")
	all := make([]T, 0, len(ids))
	for _, pid := range ids {
		if err != nil {
			break
		}
		var p T
		var ok bool
		if p, ok, err = read(pid); ok && err == nil {
			all = append(all, p)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("list the processes: %w", err)
	}
	return all, nil
}

// Ours reports whether a process belongs to our user. One whose memory is closed to
// its own user counts as root's: we could not read it anyway.
func Ours(pid int) bool {
	var st unix.Stat_t
	return unix.Stat(Dir(pid), &st) == nil && int(st.Uid) == os.Geteuid()
}

// Stat is what there is to know of a process or thread.
type Stat struct {
	Name                   string // of the program, or what it calls itself; up to 15 bytes
	State                  string // one letter, see [Stat.Ended]
	Parent, Group, Session int
	Started                string // in ticks since the system's start: tells it from a later one with the same id
	Kernel                 bool   // it is one of the kernel's own threads, which never have an environment
	// EnvBegin and EnvEnd are where the environment is. They are 0 amid an exec, and of
	// a process that we may not look into.
	EnvBegin, EnvEnd uint64
}

// Ended reports whether it has: it stays listed until its parent looks after it. Of
// a process it is the first thread that has; the others may go on.
func (s Stat) Ended() bool { return s.State == "Z" || s.State == "X" }

// ReadStat reads the status of the process or thread of a directory; false where it
// is gone, or not ours to look at.
func ReadStat(dir string) (Stat, bool, error) {
	b, err := os.ReadFile(dir + "/stat")
	if err != nil {
		return Stat{}, false, Ignorable(err)
	}
	s, ok := parseStat(b)
	return s, ok, nil
}

func parseStat(b []byte) (Stat, bool) {
	// The second field is the name in parentheses, which may hold anything, such as
	// ") Z 1". What follows is counted from the third.
	open, end := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	fields := strings.Fields(string(b[end+1:]))
	if open < 0 || end < open || len(fields) < 20 {
		return Stat{}, false
	}
	s := Stat{Name: string(b[open+1 : end]), State: fields[0], Started: fields[19]}
	s.Parent, _ = strconv.Atoi(fields[1])
	s.Group, _ = strconv.Atoi(fields[2])
	s.Session, _ = strconv.Atoi(fields[3])
	flags, _ := strconv.ParseUint(fields[6], 10, 64)
	s.Kernel = flags&0x200000 != 0 // PF_KTHREAD
	if len(fields) >= 49 {
		s.EnvBegin, _ = strconv.ParseUint(fields[47], 10, 64)
		s.EnvEnd, _ = strconv.ParseUint(fields[48], 10, 64)
	}
	return s, true
}

// Ignorable drops the errors that only say that a process is gone, or not ours to
// look at. What remains, such as a lack of file descriptors, must not pass for
// "there is none".
func Ignorable(err error) error {
	for _, known := range []error{fs.ErrNotExist, fs.ErrPermission, unix.ESRCH} {
		if errors.Is(err, known) {
			return nil
		}
	}
	return err
}
