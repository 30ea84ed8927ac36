package daemon

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/orrery-go/orrery/shell/fleet"
)

// placeMetrics are those of the partitions of a database, as one of its daemons sees them.
type placeMetrics struct {
	group *fleet.Group
	left  func() map[int]int64 // the runs of tools that go on here, by partitions that were given back
}

// opens notes what works on a partition, until the function is called that it gives.
func (h *host) opens(d *daemon) (ends func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.opened[d] = struct{}{}
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.opened, d)
	}
}

// runsLeft gives how many runs of tools this daemon goes on with, by the partitions that it has given back since it began them.
func (h *host) runsLeft() map[int]int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	left := map[int]int64{}
	for d := range h.opened { // order-free: a sum
		if d.gaveBack.Load() {
			left[d.term.Partition] += d.engine.Running()
		}
	}
	return left
}

var (
	descOwned     = prometheus.NewDesc("orrery_partition_owned", "1 if this daemon works on the partition, else 0.", []string{"partition"}, nil)
	descTakeovers = prometheus.NewDesc("orrery_partition_takeovers_total", "How often this daemon has begun to work on the partition.", []string{"partition"}, nil)
	descFenced    = prometheus.NewDesc("orrery_partition_fenced_total", "How often it has lost the partition to another daemon, or since the database took nothing more, without giving it back.", []string{"partition"}, nil)
	descStopped   = prometheus.NewDesc("orrery_partition_stopped", "1 if nobody can work on the partition until a person has looked at it, else 0.", []string{"partition"}, nil)
	descRunsLeft  = prometheus.NewDesc("orrery_partition_runs_left", "Runs of tools that this daemon goes on with, although it has given the partition back since it began them.", []string{"partition"}, nil)
)

// Describe implements [prometheus.Collector].
func (placeMetrics) Describe(ch chan<- *prometheus.Desc) {
	ch <- descOwned
	ch <- descTakeovers
	ch <- descFenced
	ch <- descStopped
	ch <- descRunsLeft
}

// Collect implements [prometheus.Collector].
func (m placeMetrics) Collect(ch chan<- prometheus.Metric) {
	left := m.left()
	for p := range m.group.Layout().Partitions {
		s, name, owned, stopped := m.group.Member(p).State(), strconv.Itoa(p), 0.0, 0.0
		if s.Works {
			owned = 1
		}
		if s.Unusable != nil {
			stopped = 1
		}
		ch <- prometheus.MustNewConstMetric(descOwned, prometheus.GaugeValue, owned, name)
		ch <- prometheus.MustNewConstMetric(descTakeovers, prometheus.CounterValue, float64(s.Takeovers), name)
		ch <- prometheus.MustNewConstMetric(descFenced, prometheus.CounterValue, float64(s.Fenced), name)
		ch <- prometheus.MustNewConstMetric(descStopped, prometheus.GaugeValue, stopped, name)
		ch <- prometheus.MustNewConstMetric(descRunsLeft, prometheus.GaugeValue, float64(left[p]), name)
	}
}
