// Package procs lists and signals the processes of this machine. It reads what Linux
// tells of them in /proc; which of them are to be left alone is the callers' to know.
//
//   - procs.go: what needs no /proc: ancestors, signals, ids in an error;
//   - procs_linux.go: the processes and their status, as /proc shows them.
package procs

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Ancestors gives a process and its ancestors. parent gives the id of a process's
// parent, or 0 if it is not known.
func Ancestors(pid int, parent func(pid int) int) map[int]bool {
	ids := map[int]bool{}
	for ; pid > 0 && !ids[pid]; pid = parent(pid) {
		ids[pid] = true
	}
	return ids
}

// Signal sends signals to a process, if still says that it is the one that is meant.
// A process that has ended is no error.
func Signal(pid int, still func() bool, signals ...os.Signal) error {
	// The handle comes first: where the system has such (pidfd), a process that
	// takes over the id later cannot be hit by it.
	handle, err := os.FindProcess(pid)
	if err != nil {
		return fmt.Errorf("signal process %d: %w", pid, err)
	}
	defer func() { _ = handle.Release() }()
	if !still() {
		return nil
	}
	for _, sig := range signals {
		if err := handle.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return fmt.Errorf("signal process %d: %w", pid, err)
		}
	}
	return nil
}

// JoinIDs names processes in an error: "7, 8 and 3 more".
func JoinIDs(ids []int) string {
	const most = 8
	var b strings.Builder
	for i, id := range ids {
		if i == most {
			fmt.Fprintf(&b, " and %d more", len(ids)-i)
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(strconv.Itoa(id))
	}
	return b.String()
}
