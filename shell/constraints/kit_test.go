package constraints_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"sigs.k8s.io/yaml"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/constraints"
	"github.com/orrery-go/orrery/shell/jobs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var noon = at("2026-03-10T12:00:00Z") // a Tuesday

func at(s string) core.Time {
	t, err := effects.ParseTime(s)
	if err != nil {
		panic(err)
	}
	return t
}

// world is a [constraints.Source]: jobs, runs, and locks that are real machines.
type world struct {
	mu      sync.Mutex
	jobs    map[string]core.Job
	runs    []core.Orchestrator
	locks   map[string]core.Lock
	step    uint64
	broken  error                   // what each call answers, where it is not nil
	onLock  func(ev core.LockEvent) // before an event is applied
	onList  func()                  // after the runs were listed
	refuses func(string) error      // by the name of the lock
	reads   map[string]int          // calls by method
	now     func() core.Time
}

func newWorld() *world {
	return &world{jobs: map[string]core.Job{}, locks: map[string]core.Lock{}, reads: map[string]int{}, now: func() core.Time { return noon }}
}

func (w *world) count(method string) error {
	w.reads[method]++
	return w.broken
}

func (w *world) Job(_ context.Context, s shell.Scope, id string) (core.Job, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.count("Job"); err != nil {
		return core.Job{}, err
	}
	job, ok := w.jobs[id]
	if !ok || job.Tenant != s.Tenant {
		return core.Job{}, shell.ErrNotFound
	}
	return job, nil
}

func (w *world) JobRun(_ context.Context, id uuid.UUID) (core.Orchestrator, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reads["JobRun"]++
	for _, run := range w.runs {
		if run.ID == id {
			return run, nil
		}
	}
	return core.Orchestrator{}, shell.ErrNotFound
}

func (w *world) JobRuns(_ context.Context, f shell.JobRunFilter, p shell.Page) ([]core.Orchestrator, string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.count("JobRuns"); err != nil {
		return nil, "", err
	}
	if w.onList != nil {
		defer w.onList()
	}
	var found []core.Orchestrator
	for _, run := range w.runs {
		if (f.Status == "" || run.State == f.Status) && (f.Job == "" || run.JobID == f.Job) && (f.Scope == nil || f.Scope.Tenant == run.Tenant) {
			found = append(found, run)
		}
	}
	slices.SortFunc(found, func(a, b core.Orchestrator) int { return cmp.Compare(b.CreatedAt, a.CreatedAt) })
	from := 0
	if p.Token != "" {
		from = slices.IndexFunc(found, func(o core.Orchestrator) bool { return o.RunID == p.Token })
	}
	found = found[from:]
	const page = 3 // small, so that there are several
	if len(found) > page {
		return found[:page], found[page].RunID, nil
	}
	return found, "", nil
}

func (w *world) Lock(_ context.Context, _ shell.Scope, name string) (core.Lock, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	lock, ok := w.locks[name]
	if !ok || lock.Holder == "" {
		return core.Lock{}, shell.ErrNotFound
	}
	return lock, nil
}

func (w *world) SendLock(ctx context.Context, _ shell.Scope, name string, ev core.LockEvent) (core.Lock, error) {
	if w.onLock != nil {
		w.onLock(ev)
	}
	if err := ctx.Err(); err != nil {
		return core.Lock{}, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.refuses != nil {
		if err := w.refuses(name); err != nil {
			return core.Lock{}, err
		}
	}
	w.step++
	lock, effs := w.locks[name].Apply(ev, core.Clock{Now: w.now(), Step: w.step})
	for _, e := range effs {
		if r, ok := e.(effects.Refused); ok {
			return core.Lock{}, &r
		}
	}
	w.locks[name] = lock
	return lock, nil
}

func (w *world) holder(name string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.locks[name].Holder
}

// job makes a job of the YAML of its two configurations.
func job(t testing.TB, constraintYAML, actionYAML string) *jobs.Job {
	t.Helper()
	j := &jobs.Job{ID: "report", Name: "Daily report", Tenant: "acme", Schedule: "0 12 * * *", Timezone: "UTC", Labels: map[string]string{"team": "data"}, ConstraintErrors: core.FailClosed}
	j.ConstraintConfig, j.ActionConfig = toJSON(t, constraintYAML), toJSON(t, actionYAML)
	return j
}

func toJSON(t testing.TB, text string) json.RawMessage {
	t.Helper()
	if strings.TrimSpace(text) == "" {
		return nil
	}
	b, err := yaml.YAMLToJSON([]byte(strings.ReplaceAll(text, "\t", "  ")))
	require.NoError(t, err, text)
	return b
}

// run adds a run of a job to the world.
func (w *world) run(j *jobs.Job, scheduled core.Time, change func(*core.Orchestrator)) core.Orchestrator {
	id := core.RunID(j.ID, scheduled)
	run := core.Orchestrator{RunSpec: core.RunSpec{
		ID: core.RunRef(j.Namespace, j.Tenant, id).ID, RunID: id, JobID: j.ID, Namespace: j.Namespace, Tenant: j.Tenant,
		ScheduledAt: scheduled, Config: *j,
	}, State: core.OrchestratorConditionRunning, Admitted: true, ConstraintCheckStarted: scheduled, CreatedAt: scheduled.Add(-30 * time.Second)}
	if change != nil {
		change(&run)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.runs = slices.DeleteFunc(w.runs, func(o core.Orchestrator) bool { return o.ID == run.ID })
	w.runs = append(w.runs, run)
	if !run.State.Terminal() {
		known := w.jobs[j.ID]
		known.JobSpec = *j
		known.Active = append(known.Active, core.ActiveRun{Run: run.ID, RunID: run.RunID, ScheduledAt: scheduled, Stage: core.StageAdmitted})
		w.jobs[j.ID] = known
	}
	return run
}

// ended makes a run one that has ended in a state, an hour after its time.
func ended(state core.OrchestratorStatus) func(*core.Orchestrator) {
	return func(o *core.Orchestrator) {
		o.State = state
		o.ExecutionStartedAt, o.ExecutionEndedAt, o.CompletedAt = o.ScheduledAt.Add(time.Minute), o.ScheduledAt.Add(time.Hour), o.ScheduledAt.Add(time.Hour)
	}
}

func in(state core.OrchestratorStatus) func(*core.Orchestrator) {
	return func(o *core.Orchestrator) { o.State = state }
}

func checker(t testing.TB, w *world, change func(*constraints.Options)) *constraints.Checker {
	t.Helper()
	o := constraints.Options{Now: func() time.Time { return noon.Std() }, Logger: slog.New(slog.DiscardHandler)}
	if change != nil {
		change(&o)
	}
	c, err := constraints.New(o)
	require.NoError(t, err)
	if w != nil {
		c.Use(w)
	}
	return c
}

// pre checks the constraints of a job for its run at noon.
func pre(t testing.TB, w *world, c *constraints.Checker, j *jobs.Job) jobs.ConstraintCheckResult {
	t.Helper()
	require.NoError(t, c.Validate(j))
	r, err := c.CheckPreExecution(t.Context(), j, core.RunID(j.ID, noon))
	require.NoError(t, err)
	return r
}

// checkOf gives the one check of a result.
func checkOf(t testing.TB, r jobs.ConstraintCheckResult) core.ConstraintCheck {
	t.Helper()
	require.Len(t, r.Checks, 1)
	return r.Checks[0]
}

var errDown = errors.New("the store is down")
