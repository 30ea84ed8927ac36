package jobs_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/internal/locked"
	"github.com/orrery-go/orrery/shell/jobs"
	"github.com/orrery-go/orrery/shell/jobs/runnertest"
	"github.com/orrery-go/orrery/shell/replay"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	quiet = slog.New(slog.DiscardHandler)
	scope = shell.Scope{Namespace: "default", Tenant: "default"}
)

// rig is a store and a cluster, with an engine and a service that may be stopped and
// begun again.
type rig struct {
	lanes map[string]int // how many effects are carried out at a time
	t     testing.TB
	store store.Store
	fake  *runnertest.Fake
	logs  *memLogs // nil: the engine keeps them
	o     jobs.Options
	tools map[string]shell.Tool
	hears int           // announcements at a time; 0: as many as there are
	page  int           // of what is listed; 0: as large as can be
	log   locked.Buffer // of the service
	room  int           // for observations; 0: as much as there is
	dead  *mortal       // the store as the present process sees it
	lease time.Duration // of an engine; 0: 5 seconds
	stops time.Duration // how long the engine waits when it stops; 0: a second
	first func()        // comes before each commit of the engine; nil: nothing does
	holds func() bool   // whether the database is surely this process's; nil: it is

	e    *shell.Engine
	s    *jobs.Service
	stop func()
	end  func() // has the engine begin to stop
}

// withRig runs a test under a clock of its own.
func withRig(t *testing.T, change func(*rig), test func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t, store: memory.New(), fake: &runnertest.Fake{}, logs: &memLogs{m: make(map[jobs.Attempt][]byte)}}
		r.o.Runners = map[string]jobs.Runner{"fake": r.fake}
		if change != nil {
			change(r)
		}
		r.start()
		defer func() { r.stop() }() // also where the test has failed
		test(t, r)
		r.stop()
		rep, err := replay.Verify(context.Background(), r.store, replay.Options{})
		require.NoError(t, err)
		require.Empty(t, rep.Divergences)
		require.NoError(t, r.store.Close())
	})
}

func (r *rig) start() {
	r.t.Helper()
	o := r.o
	if o.Logger == nil {
		o.Logger = slog.New(slog.NewTextHandler(&r.log, nil))
	}
	s, err := jobs.New(o)
	require.NoError(r.t, err)
	if r.logs != nil {
		s.KeepLogsIn(r.logs)
	}
	if r.hears > 0 {
		s.HearLittle(r.hears)
	}
	if r.page > 0 {
		s.SmallPages(r.page)
	}
	if r.room > 0 {
		s.LittleRoom(r.room)
	}
	tools := map[string]shell.Tool{jobs.ToolName: s.Tool()}
	maps.Copy(tools, r.tools)
	r.dead = &mortal{Store: r.store, first: r.first}
	var over *shell.Handover
	if r.holds != nil {
		over = &shell.Handover{Through: memory.NewCluster().Process(), Holds: r.holds, GiveBack: func() error { return nil }}
	}
	e, err := shell.New(shell.Options{
		Handover: over, Clock: r.o.Clock, Store: r.dead, Tools: tools, Interpreters: s.Interpreters(), Logger: quiet, StopTimeout: cmp.Or(r.stops, time.Second),
		RecoverAfter: time.Second, LeaseTTL: cmp.Or(r.lease, 5*time.Second), Concurrency: r.lanes,
	})
	require.NoError(r.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	var engineErr, serviceErr error
	wg.Go(func() { engineErr = e.Run(ctx) })
	done := make(chan struct{})
	go func() {
		defer close(done)
		serviceErr = s.Run(context.Background(), e)
	}()
	r.e, r.s, r.end = e, s, cancel
	r.stop = sync.OnceFunc(func() {
		cancel()
		wg.Wait()
		<-done // by itself: the engine has stopped
		if r.dead.gone.Load() {
			return
		}
		require.NoError(r.t, engineErr)
		require.NoError(r.t, serviceErr)
	})
}

// mortal is a store for a process that may be killed: then nothing more is stored.
type mortal struct {
	store.Store
	gone  atomic.Bool
	first func()
}

func (m *mortal) Update(ctx context.Context, fn func(store.Tx) error) error {
	if m.first != nil {
		m.first()
	}
	if m.gone.Load() {
		return errors.New("the process was killed")
	}
	return m.Store.Update(ctx, fn)
}

// kill ends the process where it stands.
func (r *rig) kill() {
	r.t.Helper()
	r.dead.gone.Store(true)
	r.stop()
}

func (r *rig) restart() {
	r.t.Helper()
	r.stop()
	r.start()
}

// everyMinute compares cluster and store at each minute.
func everyMinute(r *rig) { r.o.ReconcileEvery = time.Minute }

// lock takes a lock.
func (r *rig) lock(name, holder string) {
	r.t.Helper()
	_, err := r.e.Locks().Send(r.t.Context(), scope, name, core.LockAcquire{
		Namespace: scope.Namespace, Tenant: scope.Tenant, Name: name, Holder: holder,
	})
	require.NoError(r.t, err)
}

// locked names the locks that are held.
func (r *rig) locked() (names []string) {
	r.t.Helper()
	locks, _, err := r.e.Locks().List(r.t.Context(), shell.MachineFilter{}, shell.Page{})
	require.NoError(r.t, err)
	for _, l := range locks {
		if l.Holder != "" {
			names = append(names, l.Name)
		}
	}
	return names
}

// job is a job without a schedule.
func job(id string, change ...func(*core.JobSpec)) core.JobSpec {
	spec := core.JobSpec{
		ID: id, Namespace: scope.Namespace, Tenant: scope.Tenant,
		PodSpec: json.RawMessage(`{"containers":[{"name":"main","image":"busybox"}]}`),
	}
	for _, c := range change {
		c(&spec)
	}
	return spec
}

func retries(n uint32) func(*core.JobSpec) {
	return func(s *core.JobSpec) { s.RetryConfig = core.RetryConfig{MaxRetries: n, InitialDelayMS: 1000} }
}

func on(runner string) func(*core.JobSpec) {
	return func(s *core.JobSpec) { s.Runner = runner }
}

func constrained(s *core.JobSpec) {
	s.ConstraintConfig = json.RawMessage(`{"constraints":[{"made-up":{}}]}`)
}

// trigger applies the job and makes a run of it.
func (r *rig) trigger(spec core.JobSpec) core.Orchestrator {
	r.t.Helper()
	require.NoError(r.t, r.s.Check(spec))
	_, err := r.e.Jobs().Apply(r.t.Context(), spec)
	require.NoError(r.t, err)
	made, err := r.e.Jobs().Trigger(r.t.Context(), scope, spec.ID, shell.TriggerOptions{By: "test"})
	require.NoError(r.t, err)
	return r.run(made.Run)
}

func (r *rig) run(id uuid.UUID) core.Orchestrator {
	r.t.Helper()
	o, err := r.e.Runs().Get(r.t.Context(), id)
	require.NoError(r.t, err)
	return o
}

// past is run, read past the engine, which may be amid a commit.
func (r *rig) past(id uuid.UUID) (o core.Orchestrator) {
	require.NoError(r.t, r.store.View(context.Background(), func(tx store.ReadTx) error {
		rec, err := tx.Get(core.KindOrchestrator, id)
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		return json.Unmarshal(rec.State, &o)
	}))
	return o
}

// started triggers a run of a job whose pod runs.
func (r *rig) started(spec core.JobSpec) (core.Orchestrator, jobs.Attempt) {
	r.t.Helper()
	o := r.trigger(spec)
	a := r.created(o, 0)
	r.fake.Start(a)
	synctest.Wait()
	return o, a
}

// created waits until the attempt is in the cluster.
func (r *rig) created(o core.Orchestrator, n uint32) jobs.Attempt {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Hour) // of the test's own clock
	defer cancel()
	made, err := r.fake.Created(ctx, o.RunID, n)
	require.NoError(r.t, err)
	synctest.Wait()
	return made.Attempt
}

// ended waits for the end of a run.
func (r *rig) ended(o core.Orchestrator) core.Orchestrator {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 6*time.Hour) // of the test's own clock
	defer cancel()
	o, err := r.e.Runs().Wait(ctx, o.ID)
	require.NoError(r.t, err, "the run is %s: %s", o.State, o.Error)
	return o
}

// memLogs keeps logs in place of an engine.
type memLogs struct {
	mu   sync.Mutex
	m    map[jobs.Attempt][]byte
	fail error
	lost error // what reading gives, if not nil
}

func (l *memLogs) PutLog(_ context.Context, run uuid.UUID, attempt uint32, text []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fail != nil {
		return l.fail
	}
	l.m[jobs.Attempt{Run: run, N: attempt}] = text
	return nil
}

func (l *memLogs) Log(_ context.Context, run uuid.UUID, attempt uint32) ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost != nil {
		return nil, l.lost
	}
	text, ok := l.m[jobs.Attempt{Run: run, N: attempt}]
	if !ok {
		return nil, shell.ErrNotFound
	}
	return text, nil
}

// permanent is an error after which trying again is pointless.
type permanent struct{ error }

func (permanent) Permanent() bool { return true }

var errCluster = errors.New("the cluster says no")

// latest is the latest run of a job.
func (r *rig) latest(id string) core.Orchestrator {
	r.t.Helper()
	runs, _, err := r.e.Runs().List(r.t.Context(), shell.JobRunFilter{Scope: &scope, Job: id}, shell.Page{Limit: 1})
	require.NoError(r.t, err)
	require.Len(r.t, runs, 1)
	return runs[0]
}

func decoded[T any](t testing.TB, b []byte) (v T) {
	t.Helper()
	require.NoError(t, json.Unmarshal(b, &v), "%s", b)
	return v
}

// pass lets time pass on the test's own clock.
func pass(d time.Duration) { <-time.After(d) }
