//go:build unix

package crashtest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/jobs"
	"github.com/orrery-go/orrery/shell/local"
)

const (
	podsDir    = "pods"
	runsFile   = "runs.txt" // a line for each attempt that began
	jobsPerDay = 12         // runs that a life triggers at most
)

// jobKind is a job of the suite, with how all its runs must end.
type jobKind struct {
	id      string
	script  string // after the line that says that it began
	retries uint32
	state   core.OrchestratorStatus
	exit    int32
	last    uint32 // the attempt that decides
	cancel  bool
}

// Some pods end at once, some after the one who started them.
var jobKinds = []jobKind{
	{id: "works", script: "exit 0", state: core.OrchestratorCompleted},
	{id: "lasts", script: "sleep 0.4; echo done", state: core.OrchestratorCompleted},
	{id: "recovers", script: `[ "$ORRERY_ATTEMPT" = 1 ] || exit 3`, retries: 2, state: core.OrchestratorCompleted, last: 1},
	{id: "fails", script: "sleep 0.1; exit 5", retries: 1, state: core.OrchestratorFailed, exit: 5, last: 1},
	{id: "hangs", script: "setsid sleep 900 & exec sleep 900", state: core.OrchestratorCancelled, cancel: true},
}

func kindOf(job string) (jobKind, bool) {
	for _, k := range jobKinds {
		if k.id == job {
			return k, true
		}
	}
	return jobKind{}, false
}

// spec is the job. The script leaves its line with one write.
func (k jobKind) spec(dir string) core.JobSpec {
	text := fmt.Sprintf(`echo "$ORRERY_RUN_ID $ORRERY_ATTEMPT" >> %s; echo began; %s`, filepath.Join(dir, runsFile), k.script)
	return core.JobSpec{
		ID: k.id, Namespace: scopeName, Tenant: scopeName, Runner: "local",
		PodSpec:     fmt.Appendf(nil, `{"containers":[{"name":"main","image":"none","command":["sh","-c",%q]}],"terminationGracePeriodSeconds":1}`, text),
		RetryConfig: core.RetryConfig{MaxRetries: k.retries, InitialDelayMS: 50},
	}
}

// jobHost is an engine that runs jobs.
type jobHost struct {
	e    *shell.Engine
	s    *jobs.Service
	stop func() error // waits for both
}

// startJobs starts it; refuses says of each batch of updates or metrics of runs that nobody
// takes it.
func startJobs(ctx context.Context, dir string, o shell.Options, refuses func() bool) (*jobHost, error) {
	r, err := local.New(local.Options{Dir: filepath.Join(dir, podsDir), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	db, err := openRunsDatabase(dir, refuses)
	if err != nil {
		return nil, err
	}
	s, err := jobs.Wire(&o, jobs.Options{Runners: map[string]jobs.Runner{"local": r}, Syncer: db, Stats: db, Logger: o.Logger})
	if err != nil {
		return nil, err
	}
	e, err := shell.New(o)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	var runErr, serviceErr error
	wg.Go(func() { runErr = e.Run(ctx) })
	lasting := context.WithoutCancel(ctx) // the service ends with the engine
	wg.Go(func() { serviceErr = s.Run(lasting, e) })
	return &jobHost{e: e, s: s, stop: func() error {
		cancel()
		wg.Wait()
		return errors.Join(runErr, serviceErr, db.f.Close())
	}}, nil
}

// jobsChild applies the jobs and triggers runs until it is killed.
func jobsChild(ctx context.Context, c childConfig, o shell.Options) error {
	draw := rand.New(rand.NewPCG(c.Seed, 1))
	h, err := startJobs(ctx, c.Dir, o, func() bool { return draw.IntN(2) == 0 })
	if err != nil {
		return err
	}
	book := &pipeBook{w: os.Stdout}
	for _, k := range jobKinds {
		if err := h.s.Check(k.spec(c.Dir)); err != nil {
			return err
		}
		if _, err := h.e.Jobs().Apply(ctx, k.spec(c.Dir)); err != nil {
			return err
		}
	}
	book.write(note{Op: opJobs, Phase: acked})
	rng := rand.New(rand.NewPCG(c.Seed, 0))
	scope := shell.Scope{Namespace: scopeName, Tenant: scopeName}
	for range jobsPerDay {
		k := jobKinds[rng.IntN(len(jobKinds))]
		made, err := h.e.Jobs().Trigger(ctx, scope, k.id, shell.TriggerOptions{By: "crash"})
		if err != nil {
			return err
		}
		book.write(note{Op: opRun, Phase: acked, ID: made.Run})
		if k.cancel {
			idle(ctx, time.Duration(rng.Int64N(int64(200*time.Millisecond))))
			if err := cancelRun(ctx, h.e, made.Run); err != nil {
				return err
			}
		}
		idle(ctx, time.Duration(rng.Int64N(int64(30*time.Millisecond))))
	}
	<-ctx.Done()
	return errors.Join(errors.New("nobody killed it"), h.stop())
}

func cancelRun(ctx context.Context, e *shell.Engine, run uuid.UUID) error {
	_, err := e.Runs().Send(ctx, run, core.OrchestratorCancel{Reason: "crash"})
	if _, over := errors.AsType[*shell.Refusal](err); over {
		return nil // it is being cancelled already, or has ended
	}
	return err
}

// endPods deletes what a test has left that failed.
func endPods(ctx context.Context, dir string) error {
	r, err := local.New(local.Options{Dir: filepath.Join(dir, podsDir)})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() { _ = r.Watch(ctx, deaf{}) }) // it ends with ctx
	held, err := r.Held(ctx)
	for _, a := range held {
		_, deleteErr := r.Delete(ctx, a)
		err = errors.Join(err, deleteErr)
	}
	return err
}

// deaf is a sink that nobody listens to.
type deaf struct{}

func (deaf) Observe(context.Context, jobs.Observation) {}

// allRuns lists the runs of all jobs.
func allRuns(ctx context.Context, e *shell.Engine) ([]core.Orchestrator, error) {
	var all []core.Orchestrator
	for p := (shell.Page{Limit: shell.MaxPage}); ; {
		list, next, err := e.Runs().List(ctx, shell.JobRunFilter{}, p)
		if err != nil {
			return nil, err
		}
		all = append(all, list...)
		if next == "" {
			return all, nil
		}
		p.Token = next
	}
}

// beginnings counts the attempts that began, by "runID attempt".
func beginnings(dir string) (map[string]int, error) {
	b, err := os.ReadFile(filepath.Join(dir, runsFile))
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	times := make(map[string]int)
	for s := range strings.Lines(string(b)) {
		times[strings.TrimSpace(s)]++
	}
	return times, nil
}
