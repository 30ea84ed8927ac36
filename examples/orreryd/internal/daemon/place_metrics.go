package daemon

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/orrery-go/orrery/shell/fleet"
)

// placeMetrics are those of the partitions of a database, as one of its daemons sees them.
type placeMetrics struct{ group *fleet.Group }

var (
	descOwned     = prometheus.NewDesc("orrery_partition_owned", "1 if this daemon works on the partition, else 0.", []string{"partition"}, nil)
	descTakeovers = prometheus.NewDesc("orrery_partition_takeovers_total", "How often this daemon has begun to work on the partition.", []string{"partition"}, nil)
	descFenced    = prometheus.NewDesc("orrery_partition_fenced_total", "How often it has lost the partition to another daemon, or since the database took nothing more, without giving it back.", []string{"partition"}, nil)
)

// Describe implements [prometheus.Collector].
func (placeMetrics) Describe(ch chan<- *prometheus.Desc) {
	ch <- descOwned
	ch <- descTakeovers
	ch <- descFenced
}

// Collect implements [prometheus.Collector].
func (m placeMetrics) Collect(ch chan<- prometheus.Metric) {
	for p := range m.group.Layout().Partitions {
		s, name, owned := m.group.Member(p).State(), strconv.Itoa(p), 0.0
		if s.Works {
			owned = 1
		}
		ch <- prometheus.MustNewConstMetric(descOwned, prometheus.GaugeValue, owned, name)
		ch <- prometheus.MustNewConstMetric(descTakeovers, prometheus.CounterValue, float64(s.Takeovers), name)
		ch <- prometheus.MustNewConstMetric(descFenced, prometheus.CounterValue, float64(s.Fenced), name)
	}
}
