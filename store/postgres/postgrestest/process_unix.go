//go:build unix

package postgrestest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// account is a user other than this process's; nil: the same.
type account struct{ *syscall.Credential }

// runsAs is the user whom PostgreSQL's programs run as: they refuse root.
func runsAs() (account, error) {
	if os.Geteuid() != 0 {
		return account{}, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.ParseUint(u.Uid, 10, 32)
		if err != nil {
			return account{}, err
		}
		gid, err := strconv.ParseUint(u.Gid, 10, 32)
		if err != nil {
			return account{}, err
		}
		return account{&syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, nil
	}
	return account{}, errors.New("PostgreSQL does not run as root, and there is no user postgres or nobody")
}

// own gives a folder to the account.
func (a account) own(dir string) error {
	if a.Credential == nil {
		return nil
	}
	return os.Chown(dir, int(a.Uid), int(a.Gid))
}

// applyTo lets a command run as the account, and outside of this process's group.
func (a account) applyTo(cmd *exec.Cmd) {
	alone(cmd)
	cmd.SysProcAttr.Credential = a.Credential
}

// alone lets a command run in a session of its own.
func alone(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

// process is that of the postmaster, whose children are all other processes of a server.
// No goroutine waits for it: the tests of a package look for goroutines that are left over.
type process struct {
	pid    int // 0: none
	memory int // id of the shared memory that it has left behind; 0: none
}

// begin starts the postmaster.
func begin(cmd *exec.Cmd) (process, error) {
	if err := cmd.Start(); err != nil {
		return process{}, err
	}
	pid := cmd.Process.Pid
	return process{pid: pid}, cmd.Process.Release()
}

// ended reports whether the postmaster has ended.
func (p *process) ended() bool {
	if p.pid == 0 {
		return true
	}
	var status syscall.WaitStatus
	pid, err := syscall.Wait4(p.pid, &status, syscall.WNOHANG, nil)
	if pid == p.pid || errors.Is(err, syscall.ECHILD) {
		p.pid = 0
	}
	return p.pid == 0
}

// shutdown is a way in which a server ends, by the signal that asks for it.
type shutdown struct{ signal syscall.Signal }

var (
	fast      = shutdown{syscall.SIGINT}
	immediate = shutdown{syscall.SIGQUIT}
)

// stop ends the server in one of its own ways.
func (s *Server) stop(how shutdown) error {
	if !s.runs.Load() {
		return errors.New("it does not run")
	}
	if s.frozen != nil {
		return errors.New("it is frozen: Thaw it first, or Kill it")
	}
	if err := syscall.Kill(s.process.pid, how.signal); err != nil {
		return err
	}
	return s.awaitEnd()
}

// awaitEnd waits for the end of the postmaster.
func (s *Server) awaitEnd() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err := until(ctx, func(context.Context) (bool, error) { return s.process.ended(), nil }, "it does not end")
	if err == nil {
		s.runs.Store(false)
		s.frozen = nil
	}
	return err
}

// kill ends all processes of the server by SIGKILL.
func (s *Server) kill() error {
	if !s.runs.Load() {
		return errors.New("it does not run")
	}
	s.process.memory = sharedMemory(s.data())
	children, err := s.halt()
	if err != nil {
		return err
	}
	for _, pid := range append(children, s.process.pid) {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
	}
	if err := s.awaitEnd(); err != nil {
		return err
	}
	for _, pid := range children { // they are nobody's now, so no one can wait for them here
		if err := reaches(pid, "ZX"); err != nil {
			return err
		}
	}
	// Its id may soon be that of a process of somebody else.
	return os.Remove(filepath.Join(s.data(), "postmaster.pid"))
}

// halt stops the postmaster and returns its children, of which there will be no more.
func (s *Server) halt() ([]int, error) {
	if err := syscall.Kill(s.process.pid, syscall.SIGSTOP); err != nil {
		return nil, err
	}
	if err := reaches(s.process.pid, "TZX"); err != nil {
		return nil, err
	}
	return childrenOf(s.process.pid)
}

// reaches waits until a process is gone or in one of the states, each a letter.
func reaches(pid int, states string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return until(ctx, func(context.Context) (bool, error) {
		all, err := processes()
		for _, p := range all {
			if p.id == pid {
				return strings.ContainsRune(states, rune(p.state)), err
			}
		}
		return err == nil, err
	}, fmt.Sprintf("process %d does not come to one of the states %s", pid, states))
}

// freeze stops all processes of the server.
func (s *Server) freeze() error {
	if !s.runs.Load() || s.frozen != nil {
		return errors.New("it does not run")
	}
	children, err := s.halt()
	s.frozen = []int{s.process.pid}
	if err != nil {
		return err
	}
	for _, pid := range children {
		if err := syscall.Kill(pid, syscall.SIGSTOP); errors.Is(err, syscall.ESRCH) {
			continue
		} else if err != nil {
			return err
		}
		if err := reaches(pid, "TZX"); err != nil {
			return err
		}
		s.frozen = append(s.frozen, pid)
	}
	return nil
}

// thaw lets what freeze has stopped go on, the postmaster last.
func (s *Server) thaw() error {
	for len(s.frozen) > 0 {
		last := len(s.frozen) - 1
		if err := syscall.Kill(s.frozen[last], syscall.SIGCONT); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
		s.frozen = s.frozen[:last]
	}
	s.frozen = nil
	return nil
}

// childrenOf gives the ids of the children of a process, less those that have ended and
// that it has not waited for.
func childrenOf(parent int) ([]int, error) {
	all, err := processes()
	if err != nil {
		return nil, err
	}
	var children []int
	for _, p := range all {
		if p.parent == parent && p.state != 'Z' {
			children = append(children, p.id)
		}
	}
	return children, nil
}

// entry is a process of the machine.
type entry struct {
	id, parent int
	state      byte
}

// processes gives all processes of the machine, by /proc or, where that is missing, by ps.
func processes() ([]entry, error) {
	folders, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	var all []entry
	for _, file := range folders {
		b, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended meanwhile
		}
		// The second field is the program's name in parentheses, which may hold anything.
		before, after, ok := cutLast(string(b), ")")
		id, _, _ := strings.Cut(before, " ")
		if fields := strings.Fields(after); ok && len(fields) > 1 {
			all = append(all, parsed(id, fields[1], fields[0]))
		}
	}
	if len(folders) > 0 {
		return all, nil
	}
	out, err := exec.CommandContext(context.Background(), "ps", "-A", "-o", "pid=", "-o", "ppid=", "-o", "state=").Output()
	if err != nil {
		return nil, fmt.Errorf("ps: %w", err)
	}
	for line := range strings.Lines(string(out)) {
		if fields := strings.Fields(line); len(fields) == 3 {
			all = append(all, parsed(fields[0], fields[1], fields[2]))
		}
	}
	return all, nil
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// parsed is a process in the numbers that the kernel writes.
func parsed(id, parent, state string) entry {
	n, _ := strconv.Atoi(id)     // the kernel's own number
	p, _ := strconv.Atoi(parent) // as well
	return entry{id: n, parent: p, state: state[0]}
}

// sharedMemory is the id of the piece of System V shared memory by which PostgreSQL keeps
// two servers from the same data; 0 if that cannot be told. It stands in the seventh line
// of postmaster.pid, behind its key.
func sharedMemory(data string) int {
	b, err := os.ReadFile(filepath.Join(data, "postmaster.pid"))
	if err != nil {
		return 0
	}
	lines := strings.Split(string(b), "\n")
	if len(lines) < 7 {
		return 0
	}
	fields := strings.Fields(lines[6])
	if len(fields) != 2 {
		return 0
	}
	id, err := strconv.Atoi(fields[1])
	if err != nil {
		return 0
	}
	return id
}
