package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/internal/keymutex"
)

// Options configure a [Service]. The zero value of each field but Runners is a
// sound default.
type Options struct {
	// Runners are the runners by name: a job's runner picks one.
	Runners map[string]Runner
	// DefaultRunner names the runner of jobs that name none; empty: the only one,
	// where there is one. Runs that are under way are looked for with the one that is
	// named now.
	DefaultRunner string
	// MaxPods bounds the pods of a runner that live at a time, by the runner's name; 0, or no
	// entry: no bound. What is beyond waits, without a limit of time: its run is
	// container_creating, and its pod is Queued. What lives already goes on, also where it
	// is more. Deletions and logs do not wait.
	MaxPods map[string]int
	// PodShare is the part of MaxPods that one tenant may hold of what other tenants do not
	// hold, but always one; 0: 1, all. A free place goes to the tenant that holds the fewest
	// for its weight in PodWeights (default 1), and among equals they take turns.
	PodShare   float64
	PodWeights map[shell.Scope]int
	// Rooms, if several services of one process share them, have MaxPods count the pods of all together; nil: of this one alone.
	Rooms *Rooms
	// Tenants are those whose jobs may use a runner, by the runner's name: a Namespace or a
	// Tenant of [AllTenants] stands for all. No entry, or an empty one: all. A job of others is refused
	// when it is applied and triggered, and a run of theirs fails before it has a pod; what
	// runs already goes on, and is deleted as ever.
	Tenants map[string][]shell.Scope
	// Home is what this process is called among those that share the database: a run whose pod tells of another home has lost it. Empty: there
	// is one process.
	Home string
	// Checker evaluates constraints; nil: a job that has some is refused. If it has a
	// method UseEngine(e *shell.Engine), Run gives it the engine. Where it
	// has a method Validate(job *Job) error, that is asked before a job is applied;
	// and where it has ValidateUnscoped(job *Job) error, that is asked instead while
	// the job's namespace and tenant are not known: before an action is stored that
	// brings a pod of its own. Where it has ValidateStored(job *Job) error, that is asked
	// instead when such an action runs.
	Checker ConstraintChecker
	// Actions takes the actions of constraints; nil: each fails.
	Actions ActionExecutor
	// HeartbeatInterval is the time between the heartbeats of a run (004
	// OrchestratorHeartbeatInterval; default 10 s), MaxMissed how many may be missing
	// before it is orphaned (004 MaxMissedOrchestratorHeartbeats; default 3).
	HeartbeatInterval time.Duration
	MaxMissed         int
	// ReconcileEvery is how often what the runners hold is compared with the store
	// (default 5 min), besides at the start.
	ReconcileEvery time.Duration
	// LogHeadBytes and LogTailBytes are what is kept of an attempt's logs where a job
	// says nothing else (default 256 KiB each); the middle is dropped. Both together
	// are at most 4 MiB less 4 KiB; of a job that asks for more the head is kept first.
	LogHeadBytes int64
	LogTailBytes int64
	// Place says which of a cluster's databases the engine's is; nil: it is no part of a cluster.
	Place *Place
	// Syncer and Stats, where there are any, are told of runs in batches.
	Syncer JobStateSyncer
	Stats  StatsCollector

	Clock  shell.Clock  // default shell.SystemClock
	Logger *slog.Logger // default slog.Default()
}

// maxStoredLog is the most that is kept of an attempt's logs: [shell.Runs.PutLog]
// takes 4 MiB, marker included.
const maxStoredLog = 4<<20 - 4<<10

// Bounds of heartbeats, which are the machine's own (core.Scheduler).
const (
	minHeartbeat = time.Millisecond
	maxHeartbeat = 24 * time.Hour
	maxMissed    = 1000
)

func (o Options) withDefaults() (Options, error) {
	if len(o.Runners) == 0 {
		return o, errors.New("jobs: Options.Runners is empty: give at least one, such as one of package kube")
	}
	for _, name := range slices.Sorted(maps.Keys(o.Runners)) {
		if name == "" || o.Runners[name] == nil {
			return o, fmt.Errorf("jobs: Options.Runners[%q]: a runner needs a name and must not be nil", name)
		}
	}
	if o.DefaultRunner == "" && len(o.Runners) == 1 {
		for name := range o.Runners {
			o.DefaultRunner = name
		}
	}
	if o.DefaultRunner != "" && o.Runners[o.DefaultRunner] == nil {
		return o, fmt.Errorf("jobs: Options.DefaultRunner is %q, which is not in Runners: use one of %s", o.DefaultRunner, namesOf(o.Runners))
	}
	for _, name := range slices.Sorted(maps.Keys(o.MaxPods)) {
		if n := o.MaxPods[name]; o.Runners[name] == nil || n < 0 {
			return o, fmt.Errorf("jobs: Options.MaxPods[%q] is %d: it must not be negative, and name one of the runners %s", name, n, namesOf(o.Runners))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(o.Tenants)) {
		if o.Runners[name] == nil {
			return o, fmt.Errorf("jobs: Options.Tenants[%q]: it must name one of the runners %s", name, namesOf(o.Runners))
		}
	}
	if err := o.Place.validate(); err != nil {
		return o, err
	}
	o.PodShare = cmp.Or(o.PodShare, 1)
	if !(o.PodShare > 0 && o.PodShare <= 1) { // catches NaN too
		return o, fmt.Errorf("jobs: Options.PodShare is %g: it must be above 0 and at most 1", o.PodShare)
	}
	o.HeartbeatInterval = cmp.Or(o.HeartbeatInterval, core.DefaultHeartbeatIntervalMS*time.Millisecond)
	o.ReconcileEvery = cmp.Or(o.ReconcileEvery, 5*time.Minute)
	o.MaxMissed = cmp.Or(o.MaxMissed, core.DefaultMaxMissedHeartbeats)
	o.LogHeadBytes = cmp.Or(o.LogHeadBytes, 256<<10)
	o.LogTailBytes = cmp.Or(o.LogTailBytes, 256<<10)
	switch {
	case o.HeartbeatInterval < minHeartbeat || o.HeartbeatInterval > maxHeartbeat:
		return o, fmt.Errorf("jobs: Options.HeartbeatInterval is %s: it must be between %s and %s", o.HeartbeatInterval, minHeartbeat, maxHeartbeat)
	case o.MaxMissed < 1 || o.MaxMissed > maxMissed:
		return o, fmt.Errorf("jobs: Options.MaxMissed is %d: it must be between 1 and %d", o.MaxMissed, maxMissed)
	case o.ReconcileEvery < 0:
		return o, fmt.Errorf("jobs: Options.ReconcileEvery is %s: it must not be negative", o.ReconcileEvery)
	case o.LogHeadBytes < 0 || o.LogTailBytes < 0 || o.LogHeadBytes > maxStoredLog || o.LogTailBytes > maxStoredLog-o.LogHeadBytes:
		return o, fmt.Errorf("jobs: Options.LogHeadBytes (%d) and LogTailBytes (%d) must not be negative, and together at most %d",
			o.LogHeadBytes, o.LogTailBytes, maxStoredLog)
	}
	o.Clock = cmp.Or[shell.Clock](o.Clock, shell.SystemClock{})
	o.Logger = cmp.Or(o.Logger, slog.Default())
	return o, nil
}

func namesOf(runners map[string]Runner) string {
	return strings.Join(slices.Sorted(maps.Keys(runners)), ", ")
}

// Service carries out what all runs ask for. Make it with [Wire], then call Run beside
// [shell.Engine.Run]. It is safe for concurrent use.
//
// It has no goroutine for a run: some for each runner, and those of the effects
// that are being carried out.
type Service struct {
	o     Options
	log   *slog.Logger
	began atomic.Bool
	ready chan struct{} // closed once engine and logs are set
	e     *shell.Engine
	logs  logStore
	// runLocks let one call at a time change what a run has in a cluster: a deletion
	// waits for a creation that goes on, though nobody wants that any more.
	runLocks keymutex.Map[uuid.UUID]
	places   map[string]*places       // by runner
	sinks    map[string]*sink         // by runner
	missed   map[string]chan struct{} // by runner: holds a token while a pod is missing that should be there
	strayed  map[string]chan struct{} // by runner: holds a token while a pod is there that no run wants
	reads    map[string]*readings     // by runner: of deletions that read what was written before
	follows  map[string]*readings     // by runner: of deletions that follow the last words
	looks    looks
	reported atomic.Bool // heartbeats, in this process
	watches  watches
	// database is the identity of the database, which Run sets before ready is closed; empty: it
	// is damaged.
	database  string
	strangers strangers

	feedBuffer int
	pageSize   int // of what is listed
	sinkRoom   int // for observations
}

// logStore keeps what runs have written: the engine.
type logStore interface {
	PutLog(ctx context.Context, run uuid.UUID, attempt uint32, text []byte) error
	Log(ctx context.Context, run uuid.UUID, attempt uint32) ([]byte, error)
}

// Wire makes a [Service] and enters it into the options of the engine that is to be
// made: its interpreters, and, if the options name the tool [ToolName], the tool. Then
// call Run beside [shell.Engine.Run].
func Wire(engine *shell.Options, o Options) (*Service, error) {
	s, err := New(o)
	if err != nil {
		return nil, err
	}
	interpreters := maps.Clone(engine.Interpreters)
	if interpreters == nil {
		interpreters = make(map[string]shell.Interpreter)
	}
	maps.Copy(interpreters, s.Interpreters())
	engine.Interpreters = interpreters
	if _, ok := engine.Tools[ToolName]; ok {
		engine.Tools = maps.Clone(engine.Tools)
		engine.Tools[ToolName] = s.Tool()
	}
	return s, nil
}

// New makes a Service; [Wire] also enters it into an engine's options. The error names
// the option that cannot be right.
func New(o Options) (*Service, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Service{
		o: o, log: o.Logger, ready: make(chan struct{}), places: make(map[string]*places),
		sinks: make(map[string]*sink), missed: make(map[string]chan struct{}), strayed: make(map[string]chan struct{}), reads: make(map[string]*readings), follows: make(map[string]*readings),
		feedBuffer: feedBuffer, pageSize: shell.MaxPage, sinkRoom: maxObservations,
	}
	s.looks.wake = make(map[string]chan struct{})
	for name := range o.Runners {
		s.looks.wake[name] = make(chan struct{}, 1)
		s.places[name] = newPlaces(o.Rooms.of(name), o.MaxPods[name], o.PodShare, o.PodWeights)
		s.missed[name], s.strayed[name] = make(chan struct{}, 1), make(chan struct{}, 1)
		s.reads[name], s.follows[name] = newReadings(maxReadsBefore), newReadings(maxReadings)
	}
	return s, nil
}

// engine waits until Run knows the engine.
func (s *Service) engine(ctx context.Context) (*shell.Engine, error) {
	select {
	case <-s.ready:
		return s.e, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("the service of job runs does not run: %w", context.Cause(ctx))
	}
}

// runner picks a job's runner, and says what it is called.
func (s *Service) runner(spec core.JobSpec) (string, Runner, error) {
	name := s.RunnerOf(spec)
	if name == "" {
		return "", nil, fmt.Errorf("runner: missing, and there is no default one: use one of %s", namesOf(s.o.Runners))
	}
	r, ok := s.o.Runners[name]
	if !ok {
		return name, nil, fmt.Errorf("runner: %q is not configured: use one of %s", name, namesOf(s.o.Runners))
	}
	return name, r, nil
}

// RunnerOf names the runner that would run the job: the job's own, else the default one;
// empty if there is neither. It may not be configured.
func (s *Service) RunnerOf(spec core.JobSpec) string { return cmp.Or(spec.Runner, s.o.DefaultRunner) }

// AllTenants stands for all namespaces, or all tenants of one, in the Tenants of [Options].
const AllTenants = "*"

// MayRun reports that the runner of a job is not for the job's tenant, as the Tenants of the
// options have it. The error names the field.
func (s *Service) MayRun(spec core.JobSpec) error {
	name := s.RunnerOf(spec)
	allowed := s.o.Tenants[name]
	matches := func(t shell.Scope) bool {
		return (t.Namespace == AllTenants || t.Namespace == spec.Namespace) && (t.Tenant == AllTenants || t.Tenant == spec.Tenant)
	}
	if len(allowed) == 0 || slices.ContainsFunc(allowed, matches) {
		return nil
	}
	return fmt.Errorf("runner: %q is not for jobs of %s/%s: name another runner, or have %q written into the tenants of the runner",
		name, spec.Namespace, spec.Tenant, spec.Namespace+"/"+spec.Tenant)
}

// TenantsOf gives those whose jobs may use a runner, as the Tenants of the options have it;
// empty: all.
func (s *Service) TenantsOf(runner string) []shell.Scope { return slices.Clone(s.o.Tenants[runner]) }

// Check reports what of a job cannot be run here: before [shell.Jobs.Apply].
// An error names the field.
func (s *Service) Check(spec core.JobSpec) error {
	if err := s.MayRun(spec); err != nil {
		return err
	}
	return s.checkSpec(spec)
}

// checkSpec is Check for a job of whatever tenant.
func (s *Service) checkSpec(spec core.JobSpec) error {
	return s.check(spec, func(job *Job) error {
		if v, ok := s.o.Checker.(interface{ Validate(job *Job) error }); ok {
			return v.Validate(job)
		}
		return nil
	})
}

// checkUnscoped is Check for a job whose namespace and tenant are not known yet.
func (s *Service) checkUnscoped(spec core.JobSpec) error {
	v, ok := s.o.Checker.(interface{ ValidateUnscoped(job *Job) error })
	if !ok {
		return s.checkSpec(spec)
	}
	return s.check(spec, v.ValidateUnscoped)
}

// checkStored is Check for a job of an action that was checked when it was stored.
func (s *Service) checkStored(spec core.JobSpec) error {
	if err := s.MayRun(spec); err != nil {
		return err
	}
	v, ok := s.o.Checker.(interface{ ValidateStored(job *Job) error })
	if !ok {
		return s.checkSpec(spec)
	}
	return s.check(spec, v.ValidateStored)
}

// check reports what of a job cannot be run here, and what validate says of its constraints.
func (s *Service) check(spec core.JobSpec, validate func(*Job) error) error {
	_, r, err := s.runner(spec)
	if err != nil {
		return err
	}
	if err := r.Check(spec); err != nil {
		return err
	}
	if len(spec.ConstraintConfig) > 0 && s.o.Checker == nil {
		return errors.New("constraint_config: no checker of constraints is configured: leave it out")
	}
	return validate(&spec)
}

// Run watches, reconciles and sends heartbeats until ctx ends. Begin it once
// [shell.Engine.Run] was begun. It returns nil after ctx ended or the engine stopped: let it
// go on until then, since what an engine that stops waits for needs it, and runs go on
// sending heartbeats. While the engine is paused it leaves the runners alone.
func (s *Service) Run(ctx context.Context, e *shell.Engine) error {
	if e == nil {
		return errors.New("jobs: Run needs an engine")
	}
	if !s.began.CompareAndSwap(false, true) {
		return errors.New("jobs: Run was called before: make a new service with New")
	}
	ctx, cancel := context.WithCancel(shell.WithActor(ctx, "jobs"))
	defer cancel()
	defer s.leaveRooms()
	var wg sync.WaitGroup
	wg.Go(func() { // an engine that has stopped takes nothing any more
		select {
		case <-e.Stopped():
			cancel()
		case <-ctx.Done():
		}
	})
	if !s.identify(ctx, e.Store()) {
		cancel()
		wg.Wait()
		return nil
	}
	s.use(e)
	for name := range s.o.Runners {
		s.sinks[name] = newSink(s, name)
	}
	s.noteUnseen(ctx)
	select {
	case <-e.Resumed(): // what a paused daemon does not know yet is not to be taken for something to delete
	case <-ctx.Done():
	}
	for name, r := range s.o.Runners {
		wg.Go(func() { s.watch(ctx, name, r) })
		wg.Go(func() { s.look(ctx, name, r) })
		wg.Go(func() { s.reconcile(ctx, name, r) })
		wg.Go(func() { s.admit(ctx, name, r) })
	}
	wg.Go(func() { s.cleanUp(ctx) })
	wg.Go(func() { s.sendHeartbeats(ctx) })
	s.startFeeds(ctx, &wg)
	wg.Wait()
	return nil
}

func (s *Service) leaveRooms() {
	for _, p := range s.places { // order-free: each is by itself
		p.leave()
	}
}

// use lets the service, and the checker of constraints, know the engine.
func (s *Service) use(e *shell.Engine) {
	s.e = e
	if s.logs == nil {
		s.logs = e.Runs()
	}
	if c, ok := s.o.Checker.(interface{ UseEngine(e *shell.Engine) }); ok {
		c.UseEngine(e)
	}
	close(s.ready)
}

// pause waits, and reports whether ctx lasts.
func (s *Service) pause(ctx context.Context, d time.Duration) bool {
	timer, stop := s.o.Clock.Timer(d)
	defer stop()
	select {
	case <-timer:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// backoff is a wait that grows with each failure in a row.
type backoff struct{ last time.Duration }

const (
	minBackoff = time.Second
	maxBackoff = 30 * time.Second
)

func (b *backoff) next() time.Duration {
	b.last = min(max(2*b.last, minBackoff), maxBackoff)
	return b.last
}

// attrs are the fields of a log line about a run (004 Structured Logging Fields).
func attrs(o core.Orchestrator) []any {
	return []any{"run_id", o.RunID, "job_id", o.JobID, "scheduled_at", o.ScheduledAt.String(), "state", string(o.State), "attempt", o.RetryAttempt}
}
