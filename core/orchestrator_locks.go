package core

import (
	"slices"
	"strings"

	"github.com/google/uuid"
)

// RunLockHolder is who holds the locks that constraints take for a run.
func RunLockHolder(run uuid.UUID) string { return runHolder + run.String() }

const runHolder = "run:"

// RunOfLockHolder gives the run that a lock's holder is; ok is false if the holder is
// no run.
func RunOfLockHolder(holder string) (run uuid.UUID, ok bool) {
	text, ok := strings.CutPrefix(holder, runHolder)
	if !ok {
		return uuid.Nil, false
	}
	run, err := uuid.Parse(text)
	return run, err == nil
}

// noteLocks notes the locks that were taken for the run; tooMany says that there are
// more than it can note. What cannot be the name of a lock nobody has taken.
func (t *orchestratorTransition) noteLocks(names []string) (tooMany bool) {
	locks := slices.Clip(t.Locks)
	for _, name := range names {
		switch {
		case checkName("name", name, true) != nil || slices.Contains(locks, name):
		case len(locks) >= MaxRunLocks:
			tooMany = true
		default:
			locks = append(locks, name)
		}
	}
	t.Locks = locks
	return tooMany
}

// releaseLocks gives the run's locks back. One that has lapsed refuses, which changes
// nothing.
func (t *orchestratorTransition) releaseLocks() {
	for _, name := range t.Locks[:min(len(t.Locks), MaxRunLocks)] {
		t.send(LockRef(t.Namespace, t.Tenant, name), LockRelease{Holder: RunLockHolder(t.ID)})
	}
	t.Locks = nil
}
