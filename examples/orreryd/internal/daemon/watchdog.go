package daemon

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/orrery-go/orrery/shell/watchdog"
)

// watchdogMetrics are the metrics of a watchdog.
type watchdogMetrics struct{ *watchdog.Watchdog }

var (
	descWatchdog      = prometheus.NewDesc("orrery_watchdog_requests_total", "Requests that tell somebody outside that the daemon works: taken, failed, or held back since it did not.", []string{"outcome"}, nil)
	descWatchdogTaken = prometheus.NewDesc("orrery_watchdog_taken_timestamp_seconds", "When the last of them was taken; 0: none was.", nil, nil)
)

// Describe implements [prometheus.Collector].
func (watchdogMetrics) Describe(ch chan<- *prometheus.Desc) {
	ch <- descWatchdog
	ch <- descWatchdogTaken
}

// Collect implements [prometheus.Collector].
func (w watchdogMetrics) Collect(ch chan<- prometheus.Metric) {
	s := w.Stats()
	for _, of := range []struct {
		outcome string
		n       uint64
	}{{"taken", s.Taken}, {"failed", s.Failed}, {"held", s.Held}} {
		ch <- prometheus.MustNewConstMetric(descWatchdog, prometheus.CounterValue, float64(of.n), of.outcome)
	}
	at := 0.0
	if !s.TakenAt.IsZero() {
		at = float64(s.TakenAt.UnixMilli()) / 1000
	}
	ch <- prometheus.MustNewConstMetric(descWatchdogTaken, prometheus.GaugeValue, at)
}

// metrics are those of the daemon that the HTTP API serves beside its own.
func (d *daemon) metrics() []prometheus.Collector {
	if d.hosted() {
		return nil
	}
	list := []prometheus.Collector{d.reloads}
	if d.watchdog != nil {
		list = append(list, watchdogMetrics{d.watchdog})
	}
	if d.term != nil {
		list = append(list, standbyMetric(0))
	}
	return list
}
