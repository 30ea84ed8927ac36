package kubetest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/jobs"
	"github.com/orrery-go/orrery/shell/kube"
	"github.com/orrery-go/orrery/store/bolt"
)

// scope is where the jobs of the tests are.
var scope = shell.Scope{Namespace: "tests", Tenant: "team"}

// settings are those of an Orrery of the tests: engine, service of jobs and runner
// on a store of its own.
type settings struct {
	Kubeconfig string        `json:"kubeconfig"`
	DB         string        `json:"db"`
	Gates      string        `json:"gates"` // folder: see gates
	Heartbeat  time.Duration `json:"heartbeat"`
	MaxMissed  int           `json:"max_missed"`
	QPS        float32       `json:"qps"`
}

// orrery is what the tests ask of one, in this process or another.
type orrery interface {
	Apply(spec core.JobSpec) error
	Trigger(job string) (uuid.UUID, error)
	Runs(job string) ([]core.Orchestrator, error)
	Run(id uuid.UUID) (core.Orchestrator, error)
	Cancel(id uuid.UUID) error
	Log(id uuid.UUID, attempt uint32) (string, error)
}

// serve runs an Orrery until ctx ends; ready gets it once it works.
func serve(ctx context.Context, s settings, log *slog.Logger, ready func(orrery)) (err error) {
	db, err := bolt.Open(s.DB, bolt.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	runner, err := kube.New(kube.Options{Kubeconfig: s.Kubeconfig, QPS: s.QPS, Burst: int(2 * s.QPS), Logger: log})
	if err != nil {
		return err
	}
	hooks := gates{folder: s.Gates}
	o := shell.Options{
		Store: db, Logger: log,
		// Another process's claim is waited for after it was killed.
		LeaseTTL: 2 * time.Second, RecoverAfter: 3 * time.Second, TickRate: time.Second, StopTimeout: time.Second,
	}
	service, err := jobs.Wire(&o, jobs.Options{
		Runners: map[string]jobs.Runner{"kubernetes": hanging{runner, hooks}}, Checker: hooks, Actions: hooks,
		HeartbeatInterval: s.Heartbeat, MaxMissed: s.MaxMissed, Logger: log,
	})
	if err != nil {
		return err
	}
	engine, err := shell.New(o)
	if err != nil {
		return err
	}
	// The service ends by itself once the engine has stopped: what the engine waits for needs it.
	lasting := context.WithoutCancel(ctx)
	ended, served := make(chan error, 1), make(chan error, 1)
	go func() { ended <- engine.Run(ctx) }()
	go func() { served <- service.Run(lasting, engine) }()
	ready(here{ctx: lasting, engine: engine, service: service})
	return errors.Join(<-ended, <-served)
}

// here is an Orrery in this process.
type here struct {
	ctx     context.Context
	engine  *shell.Engine
	service *jobs.Service
}

// Apply makes a job, or changes it.
func (h here) Apply(spec core.JobSpec) error {
	if err := h.service.Check(spec); err != nil {
		return err
	}
	_, err := h.engine.Jobs().Apply(h.ctx, spec)
	return err
}

// Trigger makes a run now.
func (h here) Trigger(job string) (uuid.UUID, error) {
	made, err := h.engine.Jobs().Trigger(h.ctx, scope, job, shell.TriggerOptions{By: "a test"})
	return made.Run, err
}

// Runs are the runs of a job, newest first.
func (h here) Runs(job string) ([]core.Orchestrator, error) {
	runs, _, err := h.engine.Runs().List(h.ctx, shell.JobRunFilter{Scope: &scope, Job: job}, shell.Page{Limit: 100})
	return runs, err
}

// Run reads a run.
func (h here) Run(id uuid.UUID) (core.Orchestrator, error) { return h.engine.Runs().Get(h.ctx, id) }

// Cancel cancels a run.
func (h here) Cancel(id uuid.UUID) error {
	_, err := h.engine.Runs().Send(h.ctx, id, core.OrchestratorCancel{Reason: "a test"})
	return err
}

// Log reads what is stored of an attempt's logs.
func (h here) Log(id uuid.UUID, attempt uint32) (string, error) {
	text, err := h.engine.Runs().Log(h.ctx, id, attempt)
	return string(text), err
}

// gates check constraints and take actions of tests, which wait until a test lets
// them go on. A job's constraint_config is {"check":"NAME"}, {"action":"NAME"} or
// both: the check, or an action of it, waits until there is a file of that name in the
// folder. So it holds for whatever process asks.
type gates struct{ folder string }

type gateConfig struct {
	Check  string `json:"check"`
	Action string `json:"action"`
}

// CheckPreExecution implements [jobs.ConstraintChecker].
func (g gates) CheckPreExecution(ctx context.Context, job *jobs.Job, _ string) (jobs.ConstraintCheckResult, error) {
	var c gateConfig
	if err := json.Unmarshal(job.ConstraintConfig, &c); err != nil {
		return jobs.ConstraintCheckResult{}, err
	}
	if err := g.pass(ctx, c.Check); err != nil {
		return jobs.ConstraintCheckResult{}, err
	}
	check := core.ConstraintCheck{Name: "gate", Phase: effects.CheckPre, Met: true}
	if c.Action != "" {
		name, err := json.Marshal(c)
		if err != nil {
			return jobs.ConstraintCheckResult{}, err
		}
		check.Actions = []core.ActionRequest{{Constraint: "gate", Type: "pass", Config: name}}
	}
	return jobs.ConstraintCheckResult{ShouldProceed: true, Checks: []core.ConstraintCheck{check}}, nil
}

// CheckPostExecution implements [jobs.ConstraintChecker].
func (gates) CheckPostExecution(context.Context, *jobs.Job, string, time.Time, time.Time, int) (jobs.ConstraintCheckResult, error) {
	return jobs.ConstraintCheckResult{ShouldProceed: true}, nil
}

// Take implements [jobs.ActionExecutor].
func (g gates) Take(ctx context.Context, _ *jobs.Job, _ string, a jobs.Action) error {
	var c gateConfig
	if err := json.Unmarshal(a.Config, &c); err != nil {
		return err
	}
	return g.pass(ctx, c.Action)
}

// pass waits until a gate is open; empty: it is.
func (g gates) pass(ctx context.Context, name string) error {
	return poll(ctx, name, func() bool {
		_, err := os.Stat(filepath.Join(g.folder, name))
		return name == "" || err == nil
	})
}

func poll(ctx context.Context, name string, open func() bool) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !open() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("gate %s: %w", name, ctx.Err())
		}
	}
	return nil
}

// hangs is the gate that is closed while there is a file of its name.
const hangs = "hangs"

// hanging is a runner that does nothing while the gate is closed.
type hanging struct {
	*kube.Runner
	gates gates
}

// Beat implements [jobs.Runner].
func (h hanging) Beat(ctx context.Context) error {
	if err := h.wait(ctx); err != nil {
		return err
	}
	return h.Runner.Beat(ctx)
}

// Delete implements [jobs.Runner].
func (h hanging) Delete(ctx context.Context, a jobs.Attempt) (int, error) {
	if err := h.wait(ctx); err != nil {
		return 0, err
	}
	return h.Runner.Delete(ctx, a)
}

func (h hanging) wait(ctx context.Context) error {
	return poll(ctx, hangs, func() bool {
		_, err := os.Stat(filepath.Join(h.gates.folder, hangs))
		return err != nil
	})
}

// open opens a gate.
func (g gates) open(name string) error {
	return os.WriteFile(filepath.Join(g.folder, name), nil, 0o600)
}
