package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/core/schedule"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
	"github.com/orrery-go/orrery/shell/jobs"
)

// metrics are those of the API itself; the engine's are read when asked for.
type metrics struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	crowded  prometheus.Counter
	entries  *prometheus.CounterVec
	sets     setMetrics
	handler  http.Handler
}

// initAPIMetrics makes those of the API itself, and of the process.
func (s *Server) initAPIMetrics() {
	counterVec := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	m := metrics{
		requests: counterVec("orrery_http_requests_total", "Requests by route and status.", "route", "status"),
		entries:  counterVec("orrery_http_batch_entries_total", "Entries of requests about many, by route and by the status that each would have had alone.", "route", "status"),
		sets:     newSetMetrics(),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "orrery_http_request_duration_seconds", Help: "Time from a request's headers to its answer.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}, []string{"route"}),
	}
	m.crowded = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "orrery_webhooks_crowded_total", Help: "Webhooks that were refused with 429: the bodies under way were too many or too large.",
	})
	s.collectors = []prometheus.Collector{m.requests, m.duration, m.crowded, m.entries, m.sets.applies, m.sets.changes, m.sets.succeeded}
	s.ofProcess = append([]prometheus.Collector{
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	}, s.o.Metrics...)
	s.metrics = m
}

// initMetrics makes those that the server shows. One of several of its process leaves those of the process to the [Router].
func (s *Server) initMetrics() error {
	s.initAPIMetrics()
	of := collector{s.collectEngine, s.collectPaused, s.collectQueues, s.collectRunbooks, s.collectJobs, s.collectSchedules, s.collectTenants, s.collectLog, s.collectClaim, s.collectWebhooks, s.collectOutputs}
	if s.o.Shared == nil {
		of = append(of, s.collectProcess()...)
	}
	s.collectors = append(s.collectors, of, s.observeRuns())
	s.registry = prometheus.NewRegistry()
	s.registry.MustRegister(s.collectors...)
	if s.o.Shared == nil {
		for i, c := range s.ofProcess {
			if err := s.registry.Register(c); err != nil {
				return fmt.Errorf("httpapi: Options.Metrics[%d]: %w", i-(len(s.ofProcess)-len(s.o.Metrics)), err)
			}
		}
	}
	s.metrics.handler = promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{
		ErrorLog:      slog.NewLogLogger(s.log.Handler(), slog.LevelError),
		ErrorHandling: promhttp.ContinueOnError,
	})
	return nil
}

func (m *metrics) observe(route string, status int, took time.Duration) {
	m.requests.WithLabelValues(route, strconv.Itoa(status)).Inc()
	m.duration.WithLabelValues(route).Observe(took.Seconds())
}

func (s *Server) serveMetrics(w http.ResponseWriter, r *http.Request, _ *call) error {
	if _, err := readQuery(r, "name[]*"); err != nil {
		return err
	}
	s.metrics.handler.ServeHTTP(w, r)
	return nil
}

// described are the metrics that desc has made.
var described []*prometheus.Desc

func desc(name, help string, labels ...string) *prometheus.Desc {
	d := prometheus.NewDesc(name, help, labels, nil)
	described = append(described, d)
	return d
}

// Names of 002 section 8 stay as they are there (C10); all others begin with
// orrery_.
var (
	descUp         = desc("orrery_up", "1 if the store answers, else 0.")
	descBuild      = desc("orrery_build_info", "Always 1; the labels tell what runs.", "version", "core", "tzdb")
	descDispatched = desc("recurring_dispatched", "Dispatches of recurring actions, those by hand and by backfills too.")
	descActive     = desc("recurring_active", "Recurring actions that are currently active.")
	descBackfills  = desc("orrery_backfills_running", "Backfills that have not ended.")
	descAlerts     = desc("orrery_alerts_open", "Schedules of which an alert is open.")
	descRaised     = desc("orrery_alerts_raised_total", "Alerts of schedules that were raised, by kind.", "kind")
	descMessages   = desc("orrery_alert_messages_total", "Messages about alerts to channels that rules name, by outcome.", "outcome")
	descErrors     = desc("recurring_errors", "Recurring action dispatch errors.")
	descActions    = desc("orrery_actions", "Stored actions by status.", "status")
	descEnded      = desc("orrery_actions_ended_total", "Actions, and cycles of recurring ones, that ended, by outcome.", "outcome")
	descDeferred   = desc("orrery_starts_waiting", "Runs and effects that wait for a descriptor, a process or memory.")
	descRunning    = desc("orrery_runs_running", "Runs of tools under way in this process.")
	descLateness   = desc("orrery_lateness_seconds", "How long after its time a due action or recurring action was taken up.")
	descLag        = desc("orrery_loop_lag_seconds", "The longest that something due has waited in the last minute until the loop took it up.")
	descJournal    = desc("orrery_journal_batches", "Number of the last batch in the journal.")
)

// counter is one number of the statistics S, which only grows.
type counter[S any] struct {
	desc *prometheus.Desc
	read func(*S) uint64
}

// counters are the plain ones of [shell.Stats].
var counters = []counter[shell.Stats]{
	{desc("orrery_ticks_total", "Ticks of the loop."), func(s *shell.Stats) uint64 { return s.Ticks }},
	{desc("orrery_batches_total", "Batches that were committed."), func(s *shell.Stats) uint64 { return s.Batches }},
	{desc("orrery_inputs_total", "Inputs that changed something."), func(s *shell.Stats) uint64 { return s.Inputs }},
	{desc("orrery_inputs_refused_total", "Inputs that a machine refused."), func(s *shell.Stats) uint64 { return s.Refused }},
	{desc("orrery_requests_repeated_total", "Requests that were answered as before, since they came again with the same Idempotency-Key."), func(s *shell.Stats) uint64 { return s.Repeated }},
	{desc("orrery_input_errors_total", "Inputs that could not be decided."), func(s *shell.Stats) uint64 { return s.InputErrors }},
	{desc("orrery_commit_errors_total", "Batches that could not be committed."), func(s *shell.Stats) uint64 { return s.CommitErrors }},
	{desc("orrery_quarantined_total", "Records and webhooks that were set aside."), func(s *shell.Stats) uint64 { return s.Quarantined }},
	{desc("orrery_starts_deferred_total", "Starts that failed for want of a descriptor, process or memory, and are tried again."), func(s *shell.Stats) uint64 { return s.Deferred }},
	{desc("orrery_scrubbed_total", "Records that the scrub has read."), func(s *shell.Stats) uint64 { return s.Scrubbed }},
	{desc("orrery_scrub_walks_total", "Walks of the scrub through all records."), func(s *shell.Stats) uint64 { return s.ScrubWalks }},
	{desc("orrery_recovered_total", "Runs whose holder was gone."), func(s *shell.Stats) uint64 { return s.Recovered }},
	{desc("orrery_expired_total", "Records whose retention ended."), func(s *shell.Stats) uint64 { return s.Expired }},
	{desc("orrery_expired_early_total", "Entries of the ledger of occurrences that went before their retention ended, since their tenant has too many."), func(s *shell.Stats) uint64 { return s.ExpiredEarly }},
	{desc("orrery_actions_created_total", "Actions that were created."), func(s *shell.Stats) uint64 { return s.ActionsCreated }},
	{desc("orrery_action_retries_total", "Runs of actions that failed, and are tried again."), func(s *shell.Stats) uint64 { return s.ActionRetries }},
	{desc("orrery_webhooks_received_total", "Webhooks that were stored."), func(s *shell.Stats) uint64 { return s.Webhooks }},
	{desc("orrery_backfill_dispatched_total", "Past times of schedules that backfills have dispatched."), func(s *shell.Stats) uint64 { return s.BackfillDispatched }},
	{desc("orrery_backfill_refused_total", "Past times of schedules whose dispatch by a backfill was refused."), func(s *shell.Stats) uint64 { return s.BackfillRefused }},
	{descDispatched, func(s *shell.Stats) uint64 { return s.RecurringDispatched }},
	{descErrors, func(s *shell.Stats) uint64 { return s.RecurringErrors }},
}

// collectTimeout bounds how long a scrape reads: Collect is given no context.
const collectTimeout = 5 * time.Second

// collector reads at each scrape what the engine counts: all of its parts at once.
type collector []func(context.Context, samples)

// Describe implements [prometheus.Collector]: names that collide are refused at the start.
func (collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range described {
		ch <- d
	}
}

// collectProcess reads what is of the process, and not of an engine.
func (s *Server) collectProcess() collector {
	return collector{s.collectConns, s.collectAudit, s.collectNotify}
}

// besides is a collector beside others, which have described all names.
type besides struct{ collector }

// Describe implements [prometheus.Collector].
func (besides) Describe(chan<- *prometheus.Desc) {}

// Collect implements [prometheus.Collector].
func (c collector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), collectTimeout)
	defer cancel()
	var wg sync.WaitGroup
	for _, part := range c {
		wg.Go(func() { part(ctx, ch) })
	}
	wg.Wait()
}

// samples takes the metrics of one scrape.
type samples chan<- prometheus.Metric

func (ch samples) gauge(d *prometheus.Desc, v float64, labels ...string) {
	ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}

func (ch samples) counter(d *prometheus.Desc, n uint64, labels ...string) {
	ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
}

// seconds adds a counter of time.
func (ch samples) seconds(d *prometheus.Desc, total time.Duration) {
	ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, total.Seconds())
}

// histogram adds a Prometheus histogram, whose buckets are cumulative.
func (ch samples) histogram(d *prometheus.Desc, bounds []float64, h shell.Histogram, labels ...string) {
	buckets := make(map[float64]uint64, len(bounds))
	total := uint64(0)
	for i, n := range h.Counts {
		total += n
		if i < len(bounds) {
			buckets[bounds[i]] = total
		}
	}
	ch <- prometheus.MustNewConstHistogram(d, total, h.Sum, buckets, labels...)
}

// gauges adds one gauge for each status.
func gauges[T ~string](ch samples, d *prometheus.Desc, counts map[T]uint64) {
	for status, n := range counts {
		ch.gauge(d, float64(n), string(status))
	}
}

// collectEngine reads the counters of the engine.
func (s *Server) collectEngine(ctx context.Context, ch samples) {
	ch.gauge(descBuild, 1, s.o.Version, core.Version, schedule.TZVersion)
	st, err := s.engine.Stats(ctx)
	if err != nil {
		s.log.Error("metrics: the store does not answer", "error", err)
		ch.gauge(descUp, 0)
		return
	}
	ch.gauge(descUp, 1)
	for _, m := range counters {
		ch.counter(m.desc, m.read(&st))
	}
	ch.counter(descEnded, st.ActionsCompleted, string(core.StatusCompleted))
	ch.counter(descEnded, st.ActionsFailed, string(core.StatusFailed))
	ch.counter(descEnded, st.ActionsCancelled, string(core.StatusCancelled))
	gauges(ch, descActions, st.ActionsByStatus)
	ch.gauge(descActive, float64(st.RecurringActive))
	ch.gauge(descBackfills, float64(st.BackfillsRunning))
	ch.gauge(descAlerts, float64(st.AlertsOpen))
	for _, kind := range core.AlertKinds() {
		ch.counter(descRaised, st.AlertsRaised.Of(kind), string(kind))
	}
	ch.counter(descMessages, st.AlertMessagesSent, "sent")
	ch.counter(descMessages, st.AlertMessagesLost, "lost")
	ch.gauge(descDeferred, float64(st.DeferredNow))
	ch.gauge(descRunning, float64(st.Running))
	ch.gauge(descLag, st.Recent.Lag.Seconds())
	ch.gauge(descJournal, float64(st.JournalSeq))
	ch.histogram(descLateness, shell.LatenessBuckets[:], st.Lateness)
}

// The names say job_runs: those of orrery_runs_running are runs of tools.
var (
	descJobs          = desc("orrery_jobs", "Stored jobs by status: enabled or paused.", "status")
	descJobRuns       = desc("orrery_job_runs", "Stored runs of jobs by status.", "status")
	descCleanupFailed = desc("orrery_job_runs_cleanup_failed", "Runs of jobs of which something in a cluster could not be deleted so far; it is tried again.")
	descInCluster     = desc("orrery_job_runs_in_cluster", "Runs of jobs that may have something in a cluster.")
	descMaxPods       = desc("orrery_runner_max_pods", "Pods of a runner that may live at a time; runners without a bound are not shown.", "runner")
	descPods          = desc("orrery_runner_pods", "Pods of a runner with a bound that live.", "runner")
	descPodsWait      = desc("orrery_runner_pods_waiting", "Pods that wait for room with a runner.", "runner")
	descRunnerUp      = desc("orrery_runner_up", "1 if a runner sees what becomes of its pods, else 0.", "runner")
	descRunnerIll     = desc("orrery_runner_degraded", "1 if a runner is degraded: it sees its pods, and something else does not work.", "runner")
	descWatchAge      = desc("orrery_runner_watch_age_seconds", "For how long the watch of a runner has heard nothing; runners without one are not shown.", "runner")
	descRunsEnded     = desc("orrery_job_runs_ended_total", "Runs of jobs that ended, by outcome.", "outcome")
	descJobTimes      = desc("orrery_job_times_total", "Times of jobs that were decided about, by verdict.", "verdict")
	jobCounters       = []counter[shell.JobStats]{
		{desc("orrery_job_triggers_total", "Runs of jobs that were made by hand, or by an action."), func(s *shell.JobStats) uint64 { return s.Triggered }},
		{desc("orrery_job_retries_total", "Attempts of runs of jobs after the first."), func(s *shell.JobStats) uint64 { return s.Retries }},
		{desc("orrery_job_constraints_checked_total", "Constraints of jobs that were evaluated."), func(s *shell.JobStats) uint64 { return s.ConstraintsChecked }},
		{desc("orrery_job_constraints_violated_total", "Constraints of jobs that were violated."), func(s *shell.JobStats) uint64 { return s.ConstraintsViolated }},
		{desc("orrery_job_constraint_errors_total", "Times that the constraints of a job could not be evaluated."), func(s *shell.JobStats) uint64 { return s.ConstraintErrors }},
		{desc("orrery_job_actions_total", "Actions of constraints that were taken, also those that failed."), func(s *shell.JobStats) uint64 { return s.ActionsExecuted }},
		{desc("orrery_job_actions_failed_total", "Actions of constraints that failed."), func(s *shell.JobStats) uint64 { return s.ActionsFailed }},
		{desc("orrery_job_heartbeats_total", "Heartbeats of runs of jobs."), func(s *shell.JobStats) uint64 { return s.Heartbeats }},
		{desc("orrery_job_api_calls_total", "Calls of the Kubernetes API for runs of jobs."), func(s *shell.JobStats) uint64 { return s.KubernetesAPICalls }},
		{desc("orrery_job_cleanups_failed_total", "Runs of jobs of which something in a cluster could not be deleted at first; each once until it is deleted."), func(s *shell.JobStats) uint64 { return s.CleanupsFailed }},
	}
)

// collectJobs reads what the engine counts of jobs.
func (s *Server) collectJobs(ctx context.Context, ch samples) {
	st, err := s.engine.JobStats(ctx)
	if err != nil {
		return // orrery_up and the log tell it
	}
	gauges(ch, descJobs, map[string]uint64{"enabled": st.Jobs, "paused": st.JobsPaused})
	gauges(ch, descJobRuns, st.Runs)
	ch.gauge(descCleanupFailed, float64(st.CleanupFailing))
	ch.gauge(descInCluster, float64(st.InCluster))
	if bounded, ok := s.o.Jobs.(interface{ Pods() map[string]jobs.Pods }); ok {
		all := bounded.Pods()
		for _, name := range slices.Sorted(maps.Keys(all)) {
			ch.gauge(descMaxPods, float64(all[name].Max), name)
			ch.gauge(descPods, float64(all[name].Living), name)
			ch.gauge(descPodsWait, float64(all[name].Waiting), name)
		}
	}
	s.collectRunners(ch)
	for _, state := range core.OrchestratorStatuses() { // from 0 on: a rate needs something to rise from
		if state.Terminal() {
			ch.counter(descRunsEnded, st.Ended[state], string(state))
		}
	}
	for _, v := range core.Verdicts() {
		if v != core.VerdictWaiting {
			ch.counter(descJobTimes, st.Verdicts[v], string(v))
		}
	}
	for _, m := range jobCounters {
		ch.counter(m.desc, m.read(&st))
	}
}

// collectRunners reads how the runners are.
func (s *Server) collectRunners(ch samples) {
	all := s.runnerHealth()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		up, ill := 1.0, 0.0
		switch all[name].Status {
		case jobs.HealthDown:
			up = 0
		case jobs.HealthDegraded:
			ill = 1
		case jobs.HealthWorks:
		}
		ch.gauge(descRunnerUp, up, name)
		ch.gauge(descRunnerIll, ill, name)
		if !all[name].SeenAt.IsZero() {
			ch.gauge(descWatchAge, s.watchAge(all[name]), name)
		}
	}
}

// runPhases are what [core.OrchestratorMetrics] times of a run that has ended.
var runPhases = []struct {
	name   string
	lasted func(*core.OrchestratorMetrics) int64 // milliseconds
}{
	{"pre_run", func(m *core.OrchestratorMetrics) int64 { return m.PreRunDurationMS }},
	{"constraint_check", func(m *core.OrchestratorMetrics) int64 { return m.ConstraintCheckDurationMS }},
	{"pod_start", func(m *core.OrchestratorMetrics) int64 { return m.PodStartLatencyMS }},
	{"execution", func(m *core.OrchestratorMetrics) int64 { return m.ExecutionDurationMS }},
	{"termination", func(m *core.OrchestratorMetrics) int64 { return m.TerminationDurationMS }},
	{"total", func(m *core.OrchestratorMetrics) int64 { return m.TotalDurationMS }},
}

// observeRuns times the phases of runs, from what each announces of itself at its
// end (004 Timing Metrics). The filter of a subscription makes the
// observation, so that no event is missed and none has to be received.
func (s *Server) observeRuns() prometheus.Collector {
	phases := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "orrery_job_run_phase_duration_seconds", Help: "How long runs of jobs spent in their phases, by phase and how the run ended.",
		Buckets: shell.PhaseBuckets[:],
	}, []string{"phase", "outcome"})
	announced := effects.Custom("run", "metrics")
	s.engine.Subscribe(func(e effects.Event) bool {
		var m core.OrchestratorMetrics
		if e.Kind == announced && json.Unmarshal(e.Data, &m) == nil {
			for _, p := range runPhases {
				phases.WithLabelValues(p.name, string(m.FinalState)).Observe(float64(p.lasted(&m)) / 1000)
			}
		}
		return false
	}, 1)
	return phases
}

var (
	descQueueItems  = desc("orrery_queue_items", "Items of a queue by state.", "namespace", "tenant", "queue", "state")
	descQueueOldest = desc("orrery_queue_oldest_ready_seconds", "For how long the ready item waits that waits longest.", "namespace", "tenant", "queue")
	descQueueTotal  = desc("orrery_queue_total", "What has happened to the items of a queue.", "namespace", "tenant", "queue", "event")
)

func (s *Server) collectQueue(ctx context.Context, ch samples, q core.Queue) {
	labels := func(more ...string) []string { return append([]string{q.Namespace, q.Tenant, q.Name}, more...) }
	d, err := s.queueDetail(ctx, q)
	eachCount(d.Items, func(state string, n uint64) { ch.gauge(descQueueItems, float64(n), labels(state)...) })
	eachCount(d.Totals, func(event string, n uint64) { ch.counter(descQueueTotal, n, labels(event)...) })
	if err != nil {
		s.log.Error("metrics: a queue cannot be read", "queue", q.Name, "error", err)
		return
	}
	ch.gauge(descQueueOldest, d.OldestReadySeconds, labels()...)
}

// eachCount visits the counts of a body under their names in JSON.
func eachCount[T wire.QueueGauges | wire.QueueTotals](counts T, visit func(name string, n uint64)) {
	for f, n := range reflect.ValueOf(counts).Fields() {
		visit(f.Tag.Get("json"), n.Uint())
	}
}

var (
	descPipelines  = desc("orrery_pipelines", "Stored pipelines by status.", "status")
	descTasks      = desc("orrery_tasks", "Stored tasks by state.", "status")
	descStrategies = desc("orrery_strategies", "Stored strategies by status.", "status")
	descEvents     = desc("orrery_events_total", "Events announced on the bus; those of a runbook's own together as \"custom\".", "category", "action")
	descPhases     = desc("orrery_phase_duration_seconds", "How long phases of pipelines took, by what they do and how they ended.", "kind", "outcome")
)

// collectRunbooks reads what the engine counts of runbooks.
func (s *Server) collectRunbooks(ctx context.Context, ch samples) {
	st, err := s.engine.RunbookStats(ctx)
	if err != nil {
		return // orrery_up and the log tell it
	}
	gauges(ch, descPipelines, st.Pipelines)
	gauges(ch, descTasks, st.Tasks)
	gauges(ch, descStrategies, st.Strategies)
	for kind, n := range st.Events {
		ch.counter(descEvents, n, kind.Category, kind.Action)
	}
	for key, h := range st.Phases {
		ch.histogram(descPhases, shell.PhaseBuckets[:], h, key.Kind, string(key.Outcome))
	}
}
