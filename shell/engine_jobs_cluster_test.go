package shell_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/store"
)

// fakeCluster carries out what runs ask for. A pod runs 2 seconds after it was
// created, and ends after runFor with what exit says; where runFor is 0, the test
// says what becomes of it. It also beats for all runs.
type fakeCluster struct {
	report core.ConstraintReport
	runFor time.Duration
	exit   func(run uuid.UUID, attempt uint32) int32

	mu    sync.Mutex
	e     *shell.Engine
	given chan struct{} // closed once there is another engine
	did   []string
	pods  map[string]bool
	held  map[string]chan struct{} // by the effect's type: it waits until that is closed
}

func newCluster() *fakeCluster {
	return &fakeCluster{
		report: core.ConstraintReport{ShouldProceed: true}, pods: map[string]bool{}, held: map[string]chan struct{}{}, given: make(chan struct{}),
		exit: func(uuid.UUID, uint32) int32 { return 0 },
	}
}

func (c *fakeCluster) lanes() map[string]shell.Interpreter {
	return map[string]shell.Interpreter{
		effects.LaneConstraints: c, effects.LaneActions: c, effects.LaneRun: c, effects.LaneLogs: c,
	}
}

// options are of an engine whose runs have this cluster.
func (c *fakeCluster) options(st store.Store) shell.Options {
	return shell.Options{Store: st, TickRate: 10 * time.Second, Interpreters: c.lanes()}
}

func (c *fakeCluster) engine() *shell.Engine {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.e
}

// silent gives the cluster the engine of its runs, whose hearts do not beat.
func (c *fakeCluster) silent(e *shell.Engine) *shell.Engine {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.e = e
	close(c.given)
	c.given = make(chan struct{})
	return e
}

// working waits for an engine that has not stopped, as the service of a daemon does: the one
// that is started after a crash takes up what the one before had in hand at once, and that
// may be before the test has given it to the cluster.
func (c *fakeCluster) working(ctx context.Context) (*shell.Engine, error) {
	for {
		c.mu.Lock()
		e, given := c.e, c.given
		c.mu.Unlock()
		if e != nil {
			select {
			case <-e.Stopped():
			default:
				return e, nil
			}
		}
		select {
		case <-given:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// use gives the cluster the engine of its runs, and beats for them until the
// engine stops.
func (c *fakeCluster) use(e *shell.Engine) *shell.Engine {
	c.silent(e)
	go func() {
		tick := time.NewTicker(10 * time.Second)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				beat(e)
			case <-e.Stopped():
				return
			}
		}
	}()
	return e
}

// beat sends a heartbeat for each run that has not ended.
func beat(e *shell.Engine) {
	shards := map[effects.Ref][]uuid.UUID{}
	runs, _, err := e.Runs().List(bg(), shell.JobRunFilter{}, shell.Page{Limit: shell.MaxPage})
	if err != nil {
		return
	}
	for _, r := range runs {
		if !r.State.Terminal() {
			shards[core.SchedulerRef(r.ID)] = append(shards[core.SchedulerRef(r.ID)], r.ID)
		}
	}
	for ref, ids := range shards {
		_, _ = e.Send(bg(), ref, core.SchedulerHeartbeats{Runs: ids})
	}
}

// hold lets effects of that type wait until it is released.
func (c *fakeCluster) hold(effect effects.Outer) (release func()) {
	gate := make(chan struct{})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held[typeOf(effect)] = gate
	return sync.OnceFunc(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.held, typeOf(effect))
		close(gate)
	})
}

func typeOf(e effects.Outer) string { return strings.TrimPrefix(fmt.Sprintf("%T", e), "effects.") }

func (c *fakeCluster) done() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.did...)
}

func (c *fakeCluster) podCount() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.pods)
}

func (c *fakeCluster) Carry(ctx context.Context, ref effects.Ref, e effects.Outer) (json.RawMessage, error) {
	c.mu.Lock()
	c.did = append(c.did, typeOf(e))
	gate := c.held[typeOf(e)]
	c.mu.Unlock()
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return c.carry(ctx, ref, e)
}

func (c *fakeCluster) carry(ctx context.Context, ref effects.Ref, e effects.Outer) (json.RawMessage, error) {
	const called = `{"api_calls":1}`
	switch e := e.(type) {
	case effects.CheckConstraints:
		return json.Marshal(c.report)
	case effects.CreateRun:
		c.create(ref.ID, e.Attempt)
		return json.RawMessage(called), nil
	case effects.FetchLogs:
		to, err := c.working(ctx)
		if err != nil {
			return nil, err
		}
		text := fmt.Sprintf("attempt %d said so\n", e.Attempt)
		if err := to.Runs().PutLog(ctx, ref.ID, e.Attempt, []byte(text)); err != nil {
			return nil, err
		}
		return fmt.Appendf(nil, `{"api_calls":1,"logs":{"stored":true,"bytes":%d}}`, len(text)), nil
	case effects.DeleteRun:
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.pods, podName(ref.ID, e.Attempt))
		return json.RawMessage(called), nil
	}
	return nil, nil
}

func podName(run uuid.UUID, attempt uint32) string { return fmt.Sprintf("%s-%d", run, attempt) }

// create makes a pod, once.
func (c *fakeCluster) create(run uuid.UUID, attempt uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pods[podName(run, attempt)] {
		return
	}
	c.pods[podName(run, attempt)] = true
	if c.runFor == 0 {
		return
	}
	time.AfterFunc(2*time.Second, func() { c.tell(run, core.PodRunning{Attempt: attempt, Pod: core.Pod{Name: "p"}}) })
	time.AfterFunc(2*time.Second+c.runFor, func() {
		exit := c.exit(run, attempt)
		c.tell(run, core.PodEnded{Attempt: attempt, Pod: core.Pod{Name: "p", ExitCode: &exit}})
	})
}

func (c *fakeCluster) tell(run uuid.UUID, ev core.OrchestratorEvent) {
	_, _ = c.engine().Runs().Send(bg(), run, ev)
}
