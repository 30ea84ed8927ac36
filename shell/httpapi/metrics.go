package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/core/schedule"
	"github.com/orrery-go/orrery/shell"
)

// metrics are those of the API itself; the engine's are read when asked for.
type metrics struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	rejected *prometheus.CounterVec
	replayed *prometheus.CounterVec
	handler  http.Handler
}

func (s *Server) initMetrics() {
	m := metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "orrery_http_requests_total", Help: "Requests by route and status.",
		}, []string{"route", "status"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "orrery_http_request_duration_seconds", Help: "Time from a request's headers to its answer.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}, []string{"route"}),
		rejected: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "orrery_webhooks_rejected_total", Help: "Webhooks whose signature was missing, wrong or too old.",
		}, []string{"route"}),
		replayed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "orrery_webhooks_replayed_total", Help: "Webhooks that came again and were answered as before.",
		}, []string{"route"}),
	}
	for route := range s.hooks { // from 0 on: a rate needs something to rise from
		m.rejected.WithLabelValues(route)
		m.replayed.WithLabelValues(route)
	}
	s.registry = prometheus.NewRegistry()
	s.registry.MustRegister(
		m.requests, m.duration, m.rejected, m.replayed,
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		collector{append(descsOf(counters), descUp, descBuild, descActive, descActions, descEnded, descRunning, descLateness, descJournal), s.collectEngine},
		collector{[]*prometheus.Desc{descQueueItems, descQueueOldest, descQueueTotal}, s.collectQueues},
		collector{[]*prometheus.Desc{descPipelines, descTasks, descStrategies, descEvents, descPhases}, s.collectRunbooks},
		collector{append(descsOf(jobCounters), descJobs, descJobRuns, descInCluster, descRunsEnded, descJobTimes), s.collectJobs},
		s.observeRuns(),
	)
	m.handler = promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{
		ErrorLog:      slog.NewLogLogger(s.log.Handler(), slog.LevelError),
		ErrorHandling: promhttp.ContinueOnError,
	})
	s.metrics = m
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

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

// Names of 002 section 8 stay as they are there (C10); all others begin with
// orrery_.
var (
	descUp         = desc("orrery_up", "1 if the store answers, else 0.")
	descBuild      = desc("orrery_build_info", "Always 1; the labels tell what runs.", "version", "core", "tzdb")
	descDispatched = desc("recurring_dispatched", "Recurring actions dispatched.")
	descActive     = desc("recurring_active", "Recurring actions that are currently active.")
	descErrors     = desc("recurring_errors", "Recurring action dispatch errors.")
	descActions    = desc("orrery_actions", "Stored actions by status.", "status")
	descEnded      = desc("orrery_actions_ended_total", "Actions, and cycles of recurring ones, that ended, by outcome.", "outcome")
	descRunning    = desc("orrery_runs_running", "Runs of tools under way in this process.")
	descLateness   = desc("orrery_lateness_seconds", "How long after its time a due action or recurring action was taken up.")
	descJournal    = desc("orrery_journal_batches", "Number of the last batch in the journal.")
)

// counter is one number of the statistics S, which only grows.
type counter[S any] struct {
	desc *prometheus.Desc
	read func(*S) uint64
}

func descsOf[S any](counters []counter[S]) []*prometheus.Desc {
	descs := make([]*prometheus.Desc, 0, len(counters))
	for _, c := range counters {
		descs = append(descs, c.desc)
	}
	return descs
}

// counters are the plain ones of [shell.Stats].
var counters = []counter[shell.Stats]{
	{desc("orrery_ticks_total", "Ticks of the loop."), func(s *shell.Stats) uint64 { return s.Ticks }},
	{desc("orrery_batches_total", "Batches that were committed."), func(s *shell.Stats) uint64 { return s.Batches }},
	{desc("orrery_inputs_total", "Inputs that changed something."), func(s *shell.Stats) uint64 { return s.Inputs }},
	{desc("orrery_inputs_refused_total", "Inputs that a machine refused."), func(s *shell.Stats) uint64 { return s.Refused }},
	{desc("orrery_input_errors_total", "Inputs that could not be decided."), func(s *shell.Stats) uint64 { return s.InputErrors }},
	{desc("orrery_commit_errors_total", "Batches that could not be committed."), func(s *shell.Stats) uint64 { return s.CommitErrors }},
	{desc("orrery_quarantined_total", "Records and webhooks that were set aside."), func(s *shell.Stats) uint64 { return s.Quarantined }},
	{desc("orrery_recovered_total", "Runs whose holder was gone."), func(s *shell.Stats) uint64 { return s.Recovered }},
	{desc("orrery_expired_total", "Records whose retention ended."), func(s *shell.Stats) uint64 { return s.Expired }},
	{desc("orrery_actions_created_total", "Actions that were created."), func(s *shell.Stats) uint64 { return s.ActionsCreated }},
	{desc("orrery_webhooks_received_total", "Webhooks that were stored."), func(s *shell.Stats) uint64 { return s.Webhooks }},
	{descDispatched, func(s *shell.Stats) uint64 { return s.RecurringDispatched }},
	{descErrors, func(s *shell.Stats) uint64 { return s.RecurringErrors }},
}

// collectTimeout bounds how long a scrape reads: Collect is given no context.
const collectTimeout = 5 * time.Second

// collector reads at each scrape what the engine counts.
type collector struct {
	descs   []*prometheus.Desc
	collect func(context.Context, samples)
}

// Describe implements [prometheus.Collector].
func (c collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		ch <- d
	}
}

// Collect implements [prometheus.Collector].
func (c collector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), collectTimeout)
	defer cancel()
	c.collect(ctx, ch)
}

// samples takes the metrics of one scrape.
type samples chan<- prometheus.Metric

func (ch samples) gauge(d *prometheus.Desc, v float64, labels ...string) {
	ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}

func (ch samples) counter(d *prometheus.Desc, n uint64, labels ...string) {
	ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
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
	ch.gauge(descRunning, float64(st.Running))
	ch.gauge(descJournal, float64(st.JournalSeq))
	ch.histogram(descLateness, shell.LatenessBuckets[:], st.Lateness)
}
