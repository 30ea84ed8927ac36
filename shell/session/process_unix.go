//go:build unix

package session

import (
	"context"
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/orrery-go/orrery/shell/internal/pause"
	"github.com/orrery-go/orrery/shell/internal/procs"
)

// end ends all of the tree: SIGHUP and SIGTERM, SIGKILL after a grace. It
// returns when nothing of it is left.
func (t tree) end(ctx context.Context, grace time.Duration) error {
	known, signalled := map[identity]bool{}, map[identity]bool{}
	polite := time.Now().Add(max(0, grace))
	var deadline time.Time // once SIGKILL was sent: it may come late on a busy machine
	nothing := 0
	for wait := time.Millisecond; ; wait = min(2*wait, 100*time.Millisecond) {
		left, err := t.members(known)
		if err != nil {
			return err
		}
		now := time.Now()
		switch {
		case len(left) == 0:
			// A process that is amid an exec shows no environment for a moment: only
			// two looks in a row tell that nothing is left.
			if nothing++; nothing == 2 {
				return nil
			}
		case !deadline.IsZero() && now.After(deadline):
			return fmt.Errorf("process %s of the session is still there, %v after SIGKILL", procs.JoinIDs(pids(left)), patience)
		case now.Before(polite):
			for _, p := range left {
				if !signalled[p.identity()] {
					signalled[p.identity()] = true
					// SIGCONT, since one that is stopped does not hear the others.
					p.signal(syscall.SIGHUP, syscall.SIGTERM, syscall.SIGCONT)
				}
			}
		default:
			if deadline.IsZero() {
				deadline = now.Add(patience)
			}
			for _, p := range left {
				p.signal(syscall.SIGKILL)
			}
		}
		if len(left) > 0 {
			nothing = 0
		}
		if err := pause.For(ctx, wait); err != nil {
			return err
		}
	}
}

// members gives what is left of the tree, and adds it to what is known: a
// process keeps belonging to it when its parent has ended.
func (t tree) members(known map[identity]bool) ([]process, error) {
	all, err := processes()
	if err != nil {
		return nil, err
	}
	kin := family(all, os.Getpid())
	delete(kin, 0)
	if t.spare != 0 {
		kin[t.spare] = true
	}
	session := t.terminalSession(all, known)
	belongs := map[int]bool{}
	for _, p := range all {
		marked := p.name != "" && p.name == t.name && p.instance == t.instance
		if marked || known[p.identity()] || session != 0 && p.session == session {
			belongs[p.pid] = true
		}
	}
	for grown := true; grown; {
		grown = false
		for _, p := range all {
			if !belongs[p.pid] && belongs[p.parent] && !kin[p.parent] {
				belongs[p.pid], grown = true, true
			}
		}
	}
	var left []process
	for _, p := range all {
		if belongs[p.pid] && !kin[p.pid] && p.pid > 1 {
			known[p.identity()] = true
			left = append(left, p)
		}
	}
	return left, nil
}

// terminalSession gives the id of the terminal's session, which is its leader's,
// or 0 where it may be another's by now. The id is not given out again while a
// process is in the session: so one that has it, and is not the leader that we
// have seen alive, shows that no other of the session is left.
func (t tree) terminalSession(all []process, known map[identity]bool) int {
	if t.leader <= 1 {
		return 0
	}
	i := slices.IndexFunc(all, func(p process) bool { return p.pid == t.leader })
	switch {
	case i < 0:
		return t.leader
	case t.alive && (len(known) == 0 || known[all[i].identity()]):
		return t.leader
	default:
		return 0
	}
}

// family gives a process and its ancestors.
func family(all []process, pid int) map[int]bool {
	parents := map[int]int{}
	for _, p := range all {
		parents[p.pid] = p.parent
	}
	return procs.Ancestors(pid, func(pid int) int { return parents[pid] })
}

// signal sends signals to the process, if it still is what it was.
func (p process) signal(signals ...os.Signal) {
	_ = procs.Signal(p.pid, p.isStill, signals...)
}

func pids(all []process) []int {
	ids := make([]int, len(all))
	for i, p := range all {
		ids[i] = p.pid
	}
	slices.Sort(ids)
	return ids
}
