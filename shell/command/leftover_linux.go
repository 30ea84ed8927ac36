package command

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/orrery-go/orrery/shell/internal/procs"
)

// find gives the processes of our user that carry the mark, and those of a
// group in which one does: a program may have written over its environment, as
// those do that show what they are at in their name.
//
// Left out are this process, its ancestors and their groups, whatever they
// carry: a daemon may itself be started by an action.
func find(m mark) ([]leftover, error) {
	kin, kinGroups := family()
	var found []leftover
	var others []int
	groups := map[int]bool{}
	seen := map[int]bool{}
	// One that starts another and ends while we read does not show us the other:
	// look at what is new, until nothing is. A system that is never without new
	// processes must not keep us for ever.
	for range 10 {
		all, err := processes()
		if err != nil {
			return nil, err
		}
		fresh := slices.DeleteFunc(all, func(pid int) bool { return seen[pid] })
		if len(fresh) == 0 {
			break
		}
		for _, pid := range fresh {
			seen[pid] = true
			if kin[pid] || !procs.Ours(pid) {
				continue
			}
			carries, started, err := m.onProcess(pid)
			switch {
			case err != nil:
				return nil, err
			case !carries:
				others = append(others, pid)
				continue
			}
			found = append(found, leftover{pid: pid, started: started})
			if g, err := unix.Getpgid(pid); err == nil && !kinGroups[g] {
				groups[g] = true
			}
		}
	}
	rest, err := members(others, groups)
	return append(found, rest...), err
}

// onProcess reports whether a process carries the mark, and when it was started.
func (m mark) onProcess(pid int) (carries bool, started string, err error) {
	env, err := environ(pid)
	if err != nil || !m.carried(env) {
		return false, "", err
	}
	st, _, err := procs.ReadStat(procs.Dir(pid))
	return true, st.Started, err
}

// members gives those of the processes that are in one of the groups and run.
func members(all []int, groups map[int]bool) ([]leftover, error) {
	if len(groups) == 0 {
		return nil, nil
	}
	var found []leftover
	for _, pid := range all {
		g, err := unix.Getpgid(pid)
		if err != nil || !groups[g] {
			continue
		}
		st, _, err := procs.ReadStat(procs.Dir(pid))
		if err != nil {
			return nil, err
		}
		if l := (leftover{pid: pid, started: st.Started, group: g}); l.running() {
			found = append(found, l)
		}
	}
	return found, nil
}

// isStill looks again, right before the kill.
func (l leftover) isStill(m mark) bool {
	if l.group != 0 {
		g, err := unix.Getpgid(l.pid)
		return err == nil && g == l.group
	}
	env, err := environ(l.pid)
	return err == nil && m.carried(env)
}

// processes lists the ids of all processes.
func processes() ([]int, error) {
	ids, err := procs.IDs("/proc")
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil, fmt.Errorf("%w: %w", errCannotLook, err)
	}
	if err != nil {
		return nil, err
	}
	if !slices.Contains(ids, os.Getpid()) {
		return nil, fmt.Errorf("%w: /proc does not show this process", errCannotLook)
	}
	return ids, nil
}

// environ reads the environment with which a process was started. It is empty
// for one that has ended or may not be read. An error says that we do not know.
func environ(pid int) (string, error) {
	env, err := readEnviron(procs.Dir(pid))
	if err != nil || env != "" {
		return env, err
	}
	// A process goes on when its first thread has ended; then the others show
	// what it has.
	tasks, err := procs.IDs(filepath.Join(procs.Dir(pid), "task"))
	if err != nil {
		return "", procs.Ignorable(err)
	}
	for _, tid := range tasks {
		if tid == pid {
			continue
		}
		env, err := readEnviron(filepath.Join(procs.Dir(pid), "task", strconv.Itoa(tid)))
		if err != nil || env != "" {
			return env, err
		}
	}
	return "", nil
}

func readEnviron(dir string) (string, error) {
	b, err := os.ReadFile(dir + "/environ")
	return string(b), procs.Ignorable(err)
}

// family gives this process and its ancestors, and the groups that they are in.
func family() (ids, groups map[int]bool) {
	ids = procs.Ancestors(os.Getpid(), func(pid int) int {
		st, _, _ := procs.ReadStat(procs.Dir(pid))
		return st.Parent
	})
	groups = map[int]bool{}
	for pid := range ids {
		if g, err := unix.Getpgid(pid); err == nil {
			groups[g] = true
		}
	}
	return ids, groups
}

// running reports whether a thread of the process has not ended. What has ended
// may stay listed until its parent looks after it. Where we cannot know, it runs.
func (l leftover) running() bool {
	st, ok, err := procs.ReadStat(procs.Dir(l.pid))
	if err != nil {
		return true
	}
	if !ok || st.Started != l.started {
		return false
	}
	dir := filepath.Join(procs.Dir(l.pid), "task")
	tasks, err := procs.IDs(dir)
	if procs.Ignorable(err) != nil {
		return true
	}
	return slices.ContainsFunc(tasks, func(tid int) bool {
		st, ok, err := procs.ReadStat(filepath.Join(dir, strconv.Itoa(tid)))
		return err != nil || ok && !st.Ended()
	})
}
