package constraints_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
)

func TestARunHasTheLocksOfItsConstraintsUnlessItIsStopped(t *testing.T) {
	const own = "run:"
	held := core.LockAcquire{Name: "b", Tenant: "acme", Holder: "somebody"}
	for _, row := range []struct {
		name, config string
		before       []core.LockAcquire
		met          bool
		locks        []string
		checks       int
		message      string
	}{
		{name: "free", config: `{lock: {config: {name: b}}}, {lock: {config: {name: a}}}`, met: true, locks: []string{"a", "b"}, checks: 2, message: "all 2 constraints are met"},
		{name: "twice the same", config: `{lock: {config: {name: a}}}, {lock: {config: {name: a}}}`, met: true, locks: []string{"a"}, checks: 2, message: "all 2 constraints are met"},
		{name: "held by another: none is kept", config: `{lock: {config: {name: b}}}, {lock: {config: {name: a}}}`, before: []core.LockAcquire{held}, checks: 1, message: `violated: lock: lock "b" is held by "somebody"`},
		{name: "advisory: the others are kept", config: `{lock: {advisory: true, config: {name: b}}}, {lock: {config: {name: c}}}`, before: []core.LockAcquire{held}, met: true, locks: []string{"c"}, checks: 2, message: `violated: lock: lock "b" is held by "somebody"`},
		{name: "another constraint stops it: none is taken", config: `{lock: {config: {name: a}}}, {says: {}}`, checks: 1, message: "violated: says"},
		{name: "an advisory one does not", config: `{lock: {config: {name: a}}}, {hints: {}}`, met: true, locks: []string{"a"}, checks: 2, message: "violated: hints"},
	} {
		t.Run(row.name, func(t *testing.T) {
			w, j := newWorld(), job(t, `constraints: [`+row.config+`]`, "")
			run := w.run(j, noon, nil)
			for _, ev := range row.before {
				_, err := w.SendLock(t.Context(), shell.Scope{}, ev.Name, ev)
				require.NoError(t, err)
			}
			c := checker(t, w, withSays)
			for range 2 { // it may be asked again
				r := pre(t, w, c, j)
				assert.Equal(t, row.met, r.ShouldProceed)
				assert.Equal(t, row.locks, r.Locks)
				assert.Equal(t, row.message, r.Message)
				assert.Len(t, r.Checks, row.checks)
				for _, name := range []string{"a", "c"} {
					want := ""
					if strings.Contains(strings.Join(row.locks, " "), name) {
						want = own + run.ID.String()
					}
					assert.Equal(t, want, w.holder(name), "lock %s", name)
				}
			}
		})
	}
}

func TestALockThatARunLeftBehindIsTaken(t *testing.T) {
	orphan := func(o *core.Orchestrator) { ended(core.OrchestratorOrphaned)(o); o.InCluster = true }
	for _, row := range []struct {
		name   string
		change func(*core.Orchestrator) // nil: there is no such run
		met    bool
	}{
		{"gone", nil, true},
		{"ended", ended(core.OrchestratorCancelled), true},
		{"under way", in(core.OrchestratorRunning), false},
		{"between two attempts", in(core.OrchestratorRetrying), false},
		{"orphaned, and its pod goes on", orphan, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			w, j := newWorld(), job(t, `constraints: [{lock: {config: {name: a, ttl: 1h}}}]`, "")
			id := core.RunRef(j.Namespace, j.Tenant, core.RunID(j.ID, day(1))).ID
			if row.change != nil {
				w.run(j, day(1), row.change)
			}
			run := w.run(j, noon, nil)
			_, err := w.SendLock(t.Context(), shell.Scope{}, "a", core.LockAcquire{Name: "a", Tenant: "acme", Holder: "run:" + id.String()})
			require.NoError(t, err)
			got := checkOf(t, pre(t, w, checker(t, w, nil), j))
			assert.Equal(t, row.met, got.Met)
			if row.met {
				assert.Equal(t, "run:"+run.ID.String(), w.holder("a"))
				assert.Equal(t, time.Hour.Milliseconds(), w.locks["a"].TTLMS)
			} else {
				assert.Equal(t, `lock "a" is held by run report:2026-03-09T12:00:00.000Z`, got.Message)
			}
		})
	}
}

func TestACheckThatIsCutOffKeepsNoLock(t *testing.T) {
	w, j := newWorld(), job(t, `constraints: [{lock: {config: {name: a}}}, {lock: {config: {name: b}}}]`, "")
	w.run(j, noon, nil)
	ctx, cancel := context.WithCancel(t.Context())
	w.onLock = func(ev core.LockEvent) {
		if acquire, ok := ev.(core.LockAcquire); ok && acquire.Name == "b" {
			cancel()
		}
	}
	_, err := checker(t, w, nil).CheckPreExecution(ctx, j, core.RunID(j.ID, noon))
	require.ErrorIs(t, err, context.Canceled)
	assert.Empty(t, w.holder("a"))
}

func TestALockThatCannotBeGivenBackIsTheRunsToGiveBack(t *testing.T) {
	w, j := newWorld(), job(t, `constraints: [{lock: {config: {name: a}}}, {lock: {config: {name: b}}}]`, "")
	w.run(j, noon, nil)
	_, err := w.SendLock(t.Context(), shell.Scope{}, "b", core.LockAcquire{Name: "b", Tenant: "acme", Holder: "somebody"})
	require.NoError(t, err)
	broken := false
	w.onLock = func(ev core.LockEvent) {
		if _, ok := ev.(core.LockRelease); ok {
			broken = true
		}
	}
	w.refuses = func(string) error {
		if broken {
			return errDown
		}
		return nil
	}
	r := pre(t, w, checker(t, w, nil), j)
	assert.False(t, r.ShouldProceed)
	assert.Equal(t, []string{"a", "b"}, r.Locks, "who knows whether b was taken")
}

func TestARunThatIsStoppedKeepsNoLockOfAnEarlierCheck(t *testing.T) {
	w, j := newWorld(), job(t, `constraints: [{lock: {config: {name: a}}}, {lock: {config: {name: b}}}, {says: {}}]`, "")
	run := w.run(j, noon, nil)
	for name, holder := range map[string]string{"a": "run:" + run.ID.String(), "b": "somebody"} {
		_, err := w.SendLock(t.Context(), shell.Scope{}, name, core.LockAcquire{Name: name, Tenant: "acme", Holder: holder})
		require.NoError(t, err)
	}
	assert.Empty(t, pre(t, w, checker(t, w, withSays), j).Locks)
	assert.Empty(t, w.holder("a"))
	assert.Equal(t, "somebody", w.holder("b"))
}
