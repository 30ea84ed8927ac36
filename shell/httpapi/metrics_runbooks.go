package httpapi

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/orrery-go/orrery/shell"
)

var (
	descPipelines  = desc("orrery_pipelines", "Stored pipelines by status.", "status")
	descTasks      = desc("orrery_tasks", "Stored tasks by state.", "status")
	descStrategies = desc("orrery_strategies", "Stored strategies by status.", "status")
	descEvents     = desc("orrery_events_total", "Events announced on the bus; those of a runbook's own together as \"custom\".", "category", "action")
	descPhases     = desc("orrery_phase_duration_seconds", "How long phases of pipelines took, by what they do and how they ended.", "kind", "outcome")
)

// runbookCollector reads what the engine counts of runbooks at each scrape.
type runbookCollector struct{ s *Server }

// Describe implements [prometheus.Collector].
func (c *runbookCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descPipelines, descTasks, descStrategies, descEvents, descPhases} {
		ch <- d
	}
}

// Collect implements [prometheus.Collector].
func (c *runbookCollector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second) // Collect is given none
	defer cancel()
	st, err := c.s.engine.RunbookStats(ctx)
	if err != nil {
		return // orrery_up and the log tell it
	}
	gauges(ch, descPipelines, st.Pipelines)
	gauges(ch, descTasks, st.Tasks)
	gauges(ch, descStrategies, st.Strategies)
	for kind, n := range st.Events {
		ch <- prometheus.MustNewConstMetric(descEvents, prometheus.CounterValue, float64(n), kind.Category, kind.Action)
	}
	for key, h := range st.Phases {
		ch <- cumulated(descPhases, shell.PhaseBuckets[:], h, key.Kind, string(key.Outcome))
	}
}

func gauges[T ~string](ch chan<- prometheus.Metric, d *prometheus.Desc, counts map[T]uint64) {
	for status, n := range counts {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n), string(status))
	}
}

// cumulated makes a Prometheus histogram, whose buckets are cumulative.
func cumulated(d *prometheus.Desc, bounds []float64, h shell.Histogram, labels ...string) prometheus.Metric {
	buckets := make(map[float64]uint64, len(bounds))
	total := uint64(0)
	for i, n := range h.Counts {
		total += n
		if i < len(bounds) {
			buckets[bounds[i]] = total
		}
	}
	return prometheus.MustNewConstHistogram(d, total, h.Sum, buckets, labels...)
}
