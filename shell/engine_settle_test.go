package shell_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/memory"
)

// shared is a store of which several processes may have parts: no session tells that one
// of them is gone.
type shared struct{ store.Store }

func (shared) Session() string { return "" }

// count counts how often that effect was carried out.
func (c *fakeCluster) count(e effects.Outer) (n int) {
	for _, did := range c.done() {
		if did == typeOf(e) {
			n++
		}
	}
	return n
}

// settling is a run whose process dies with one effect in hand.
type settling struct {
	c     *fakeCluster
	o     shell.Options
	st    *memory.Store
	run   uuid.UUID
	since time.Time // the last commit
}

const leaseTTL, recoverAfter = time.Minute, 5 * time.Minute

// dead kills a process that has an effect of a run in hand.
func dead(t *testing.T, held effects.Outer, state string) *settling {
	st, c := memory.NewSession("first"), newCluster()
	c.runFor = time.Minute
	c.report.Checks = []core.ConstraintCheck{{Name: "w", Actions: []core.ActionRequest{{Type: "log"}}}}
	d := &settling{c: c, st: st, o: c.options(st)}
	d.o.LeaseTTL, d.o.RecoverAfter = leaseTTL, recoverAfter
	var release func()
	crashed(t, d.o, func(e *shell.Engine) {
		c.use(e)
		release = c.hold(held)
		d.run = madeFor(t, e, nightly(), state)
		reach(t, e, d.run, state)
		d.since = time.Now()
	})
	release()
	return d
}

// What is safe to ask again waits no longer than it must to know that nobody works on it;
// for the rest it stays with 000's time.
func TestWhatADeadProcessHadInHandIsSettledOnceItIsKnownToBeSafe(t *testing.T) {
	for name, tc := range map[string]struct {
		held   effects.Outer
		state  string
		exempt bool // it may have had a side effect
	}{
		"checking":  {held: effects.CheckConstraints{}, state: "condition_running"},
		"creating":  {held: effects.CreateRun{}, state: "container_creating"},
		"logs":      {held: effects.FetchLogs{}, state: "terminating, logs"},
		"deleting":  {held: effects.DeleteRun{}, state: "terminating, deleting"},
		"an action": {held: effects.TakeAction{}, state: "action_running", exempt: true},
	} {
		for session, wait := range map[string]time.Duration{"another session": 0, "the same session": leaseTTL, "no session": leaseTTL} {
			t.Run(name+", "+session, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					d := dead(t, tc.held, tc.state)
					switch session {
					case "another session":
						d.o.Store = d.st.Reopen("second")
					case "no session":
						d.o.Store = shared{d.st}
					}
					if tc.exempt {
						wait = recoverAfter
					}
					d.c.use(running(t, d.o))
					synctest.Wait()
					before := d.c.count(tc.held)
					if wait == 0 {
						assert.Equal(t, 2, before, "at once")
					} else {
						elapse(wait - 10*time.Second - time.Since(d.since))
						assert.Equal(t, 1, d.c.count(tc.held), "its holder may live")
						elapse(21 * time.Second)
						assert.Equal(t, 2, d.c.count(tc.held))
					}
					elapse(20 * time.Minute)
					got := runOf(t, d.c.engine(), d.run)
					assert.Equal(t, core.OrchestratorCompleted, got.State, "%s", got.Error)
					assert.Zero(t, got.RetryAttempt, "no attempt was spent")
					assert.Zero(t, d.c.podCount())
				})
			})
		}
	}
}

// The claim is not fenced yet: what its holder comes to is refused by the machine.
func TestAHolderThatComesBackAfterItsLeaseHasNoSayInWhatWasAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, c := inMemory(t), newCluster()
		c.runFor = time.Minute
		f := &frozen{Store: st, gone: make(chan struct{}), thaw: make(chan struct{})}
		o := c.options(f)
		o.LeaseTTL, o.RecoverAfter = leaseTTL, recoverAfter
		stalled, stop := start(t, o)
		release := c.hold(effects.CreateRun{})
		applied(t, c.silent(stalled), nightly())
		run := triggered(t, stalled, "nightly")
		synctest.Wait()
		close(f.gone)

		o.Store = st
		other := c.use(running(t, o))
		elapse(leaseTTL + 11*time.Second)
		require.Equal(t, 2, c.count(effects.CreateRun{}), "it is asked again")
		require.Len(t, claims(t, st), 2, "and the claim of who stalls stands")
		pending := runOf(t, other, run).Pending
		require.Len(t, pending.Open, 1)
		release() // the stalled one has its answer too
		close(f.thaw)
		elapse(10 * time.Minute)
		got := runOf(t, other, run)
		assert.Equal(t, core.OrchestratorCompleted, got.State, "%s", got.Error)
		assert.Equal(t, pending.Last, pending.Open[0].Effect.Number())
		assert.Equal(t, 2, c.count(effects.CreateRun{}))
		assert.Zero(t, c.podCount())
		require.NoError(t, stop())
	})
}

// What a run waits for before it has a pod stands where one reads of its pod.
func TestARunWithoutAPodSaysWhatItWaitsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		o := c.options(inMemory(t))
		o.Concurrency = map[string]int{effects.LaneRun: 1}
		e := c.use(running(t, o))
		release := c.hold(effects.CreateRun{})
		applied(t, e, nightly())
		var runs []uuid.UUID
		for range 2 {
			runs = append(runs, triggered(t, e, "nightly"))
			elapse(10 * time.Millisecond)
		}
		note := func(run uuid.UUID) core.Pod {
			o, err := e.Runs().Noted(bg(), runOf(t, e, run))
			require.NoError(t, err)
			return o.Pod
		}
		assert.Equal(t, core.Pod{Reason: core.PodAsked, Message: "its runner has not answered yet"}, note(runs[0]))
		assert.Equal(t, core.Pod{Reason: core.PodAsked, Message: "its runner was not asked yet: it waits for a slot of the lane @run, which has 1"}, note(runs[1]))
		release()
		synctest.Wait()
		assert.Equal(t, core.Pod{Reason: core.PodAccepted, Message: "its runner has taken it, and told nothing of it yet"}, note(runs[1]))
		c.tell(runs[1], core.PodRunning{Pod: core.Pod{Name: "p"}})
		assert.Equal(t, core.Pod{Name: "p"}, note(runs[1]))
	})
}

func TestARunSaysThatItsPodIsAskedForOnceMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := dead(t, effects.CreateRun{}, "container_creating")
		d.o.Store = d.st.Reopen("second")
		release := d.c.hold(effects.CreateRun{})
		e := d.c.use(running(t, d.o))
		synctest.Wait()
		assert.Equal(t, "who had that in hand is gone; its runner is asked again, and has not answered yet", runOf(t, e, d.run).Pod.Message)
		release()
	})
}

// On a store that several processes share nobody knows at once that one is dead. What it was
// asked for is asked for again when its lease has lapsed; meanwhile the run says so, and fails
// by no limit, however short its own is.
func TestARunWhoseCreatorDiedOnASharedStoreWaitsForItsLeaseAndSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, c := inMemory(t), newCluster()
		c.runFor = time.Minute
		o := c.options(shared{st})
		o.LeaseTTL, o.RecoverAfter = leaseTTL, recoverAfter
		job := nightly()
		job.PodStartTimeoutMS = 30_000
		var run uuid.UUID
		var release func()
		var heard time.Time
		crashed(t, o, func(e *shell.Engine) {
			c.use(e)
			release = c.hold(effects.CreateRun{})
			run = madeFor(t, e, job, "container_creating")
			reach(t, e, run, "container_creating")
			heard = time.Now()
		})
		release()
		e := c.use(running(t, o))
		noted := func() string {
			o, err := e.Runs().Noted(bg(), runOf(t, e, run))
			require.NoError(t, err)
			require.Equal(t, core.OrchestratorContainerCreating, o.State, o.Error)
			return o.Pod.Message
		}
		synctest.Wait()
		assert.Regexp(t, `^another process has that in hand, and has not answered yet; it was last heard of at \S+, and if it stays silent until \S+, its runner is asked again$`, noted())
		elapse(leaseTTL - 10*time.Second - time.Since(heard))
		require.Equal(t, 1, c.count(effects.CreateRun{}))
		assert.Contains(t, noted(), "another process has that in hand")
		elapse(21 * time.Second)
		assert.Equal(t, 2, c.count(effects.CreateRun{}), "it is taken over")
		elapse(10 * time.Minute)
		got := runOf(t, e, run)
		assert.Equal(t, core.OrchestratorCompleted, got.State, got.Error)
		assert.Zero(t, got.RetryAttempt)
	})
}
