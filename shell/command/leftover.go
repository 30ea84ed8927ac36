package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/internal/procs"
)

// The variables by which a program's processes can be told from all others.
const (
	actionVar  = "ORRERY_ACTION_ID"
	attemptVar = "ORRERY_ATTEMPT"
	keyVar     = "ORRERY_IDEMPOTENCY_KEY"
)

// errCannotLook says that this system does not show its processes.
var errCannotLook = errors.New("the processes of this system cannot be listed")

// mark is what the processes of some attempts of an action carry.
type mark struct {
	action string
	key    string // of one cycle: what an earlier one meant to leave behind is not an attempt's remains
	below  uint64 // attempts before this one
}

// markOf gives the mark of the attempts of the call's cycle before a number. An
// action without an id, as in a test of an input, is no action to be told apart.
func markOf(call shell.Call, below uint64) (mark, bool) {
	return mark{action: call.ActionID.String(), key: call.IdempotencyKey, below: below}, call.ActionID != uuid.Nil
}

// carried reports whether an environment, as Linux shows it, has the mark. A
// program may have taken the other two variables out of it: such a process is
// none of the attempt that is about to start, which has no process yet.
func (m mark) carried(environ string) bool {
	if !strings.Contains(environ, m.action) {
		return false
	}
	action, key, attempt := "", m.key, ""
	for entry := range strings.SplitSeq(environ, "\x00") {
		switch name, value, _ := strings.Cut(entry, "="); name {
		case actionVar:
			action = value
		case keyVar:
			key = value
		case attemptVar:
			attempt = value
		}
	}
	n, _ := strconv.ParseUint(attempt, 10, 64) // 0, what we never set, is before all attempts
	return action == m.action && key == m.key && n < m.below
}

// clearWay ends what earlier attempts left, so that nothing works beside this
// one. The error says why the program cannot be started.
func (t *Tool) clearWay(ctx context.Context, argv0 string, call shell.Call) error {
	m, ok := markOf(call, uint64(call.Attempt))
	if !ok || call.Attempt < 2 {
		return nil
	}
	ended, left, err := t.endMarked(ctx, m)
	if ended > 0 {
		call.Logger().Warn("an earlier attempt's processes were still there, and were ended", "processes", ended)
	}
	switch {
	case errors.Is(err, errCannotLook):
		// Not to run at all where /proc is missing would be worse than what holds
		// on systems without one: retry says that the work may be done twice.
		call.Logger().Warn("cannot look for processes of an earlier attempt", "error", err)
		return nil
	case err != nil:
		return startError(argv0, "", err)
	case len(left) > 0 && ctx.Err() != nil:
		return startError(argv0, "", noTimeLeft(ctx))
	case len(left) > 0:
		err = fmt.Errorf("process %s of an earlier attempt is still there, %v after SIGKILL: it has to end first, or it would work beside this attempt",
			procs.JoinIDs(left), t.patience())
		return &StartError{Command: argv0, Problem: err.Error(), Err: err}
	}
	return nil
}

// endEscaped ends what a stopped program started outside its group.
func (t *Tool) endEscaped(call shell.Call) {
	m, ok := markOf(call, uint64(call.Attempt)+1)
	if !ok {
		return
	}
	ended, left, err := t.endMarked(context.Background(), m)
	switch {
	case err != nil:
		call.Logger().Warn("cannot look for processes that left the group of the stopped command", "error", err)
	case len(left) > 0:
		call.Logger().Warn("processes that left the group of the stopped command are still there", "pids", left)
	case ended > 0:
		call.Logger().Info("processes that left the group of the stopped command were ended", "processes", ended)
	}
}

// endMarked kills what carries the mark until nothing does any more. It gives
// the number of processes that it has killed, and those that are still there
// when its patience or the context has ended.
func (t *Tool) endMarked(ctx context.Context, m mark) (ended int, left []int, err error) {
	ctx, cancel := context.WithTimeout(ctx, t.patience())
	defer cancel()
	killed := map[int]leftover{}
	// What is killed may have had children since it was found: only a search that
	// finds nothing tells that all are gone.
	for wait := time.Millisecond; ; wait = min(2*wait, 100*time.Millisecond) {
		found, err := find(m)
		if err != nil {
			return len(killed), nil, err
		}
		left = remaining(found, killed)
		if len(left) == 0 || ctx.Err() != nil {
			return len(killed), left, nil
		}
		for _, l := range found {
			if l.kill(m, t.sigkill) {
				killed[l.pid] = l
			}
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
	}
}

// remaining gives the ids of what was found, and of what was killed and has not
// ended: a process has lost its environment before it lets go of its files, its
// locks and its ports, which the next attempt may want.
func remaining(found []leftover, killed map[int]leftover) []int {
	var ids []int
	for _, l := range found {
		ids = append(ids, l.pid)
	}
	for id, l := range killed {
		if !slices.Contains(ids, id) && l.running() {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// leftover is a process to be ended.
type leftover struct {
	pid     int
	started string // tells it from a later process with the same id
	group   int    // 0: it carries the mark itself; else it is in this group, with one that does
}

// kill ends the process if it still is what it was found to be.
func (l leftover) kill(m mark, sigkill func(*os.Process) error) bool {
	// The handle comes first: where the system has such (pidfd), a process that
	// takes over the id later cannot be hit by it.
	p, err := os.FindProcess(l.pid)
	if err != nil {
		return false
	}
	defer func() { _ = p.Release() }()
	return l.isStill(m) && sigkill(p) == nil
}

// patience is how long a killed process may take to be gone. None at all would
// mean not to look.
func (t *Tool) patience() time.Duration {
	return cmp.Or(t.o.KillGrace, defaultKillGrace)
}
