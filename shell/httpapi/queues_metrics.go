package httpapi

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
)

// maxQueueMetrics bounds the queues that the metrics tell of, the newest first:
// each is some twenty series.
const maxQueueMetrics = 1000

var (
	descQueueItems  = desc("orrery_queue_items", "Items of a queue by state.", "namespace", "tenant", "queue", "state")
	descQueueOldest = desc("orrery_queue_oldest_ready_seconds", "For how long the ready item waits that waits longest.", "namespace", "tenant", "queue")
	descQueueTotal  = desc("orrery_queue_total", "What has happened to the items of a queue.", "namespace", "tenant", "queue", "event")
)

// queueCollector reads the queues at each scrape: their headers have what is
// counted.
type queueCollector struct{ s *Server }

// Describe implements [prometheus.Collector].
func (c *queueCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descQueueItems, descQueueOldest, descQueueTotal} {
		ch <- d
	}
}

// Collect implements [prometheus.Collector].
func (c *queueCollector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), collectTimeout)
	defer cancel()
	queues, _, err := c.s.engine.Queues().List(ctx, shell.QueueFilter{}, shell.Page{Limit: maxQueueMetrics})
	if err != nil {
		c.s.log.Error("metrics: the queues cannot be read", "error", err)
		return
	}
	for _, q := range queues {
		c.queue(ctx, ch, q)
	}
}

func (c *queueCollector) queue(ctx context.Context, ch chan<- prometheus.Metric, q core.Queue) {
	emit := func(d *prometheus.Desc, typ prometheus.ValueType, v float64, more ...string) {
		ch <- prometheus.MustNewConstMetric(d, typ, v, append([]string{q.Namespace, q.Tenant, q.Name}, more...)...)
	}
	for _, g := range []struct {
		state string
		n     uint64
	}{
		{"ready", q.Ready}, {"waiting", q.Waiting}, {"delayed", q.Delayed}, {"processing", q.InFlight},
		{"failed", q.Retrying}, {"completed", q.Kept}, {"dead", q.Dead},
	} {
		emit(descQueueItems, prometheus.GaugeValue, float64(g.n), g.state)
	}
	for _, t := range []struct {
		event string
		n     uint64
	}{
		{"pushed", q.Pushed}, {"taken", q.Taken}, {"completed", q.Completed}, {"failed", q.Failed},
		{"timed_out", q.TimedOut}, {"dead_lettered", q.DeadLettered}, {"cancelled", q.Cancelled}, {"redriven", q.Redriven},
	} {
		emit(descQueueTotal, prometheus.CounterValue, float64(t.n), t.event)
	}
	age := 0.0
	if q.Ready > 0 {
		oldest, ok, err := c.s.engine.Queues().OldestReady(ctx, q.Ref())
		if err != nil {
			c.s.log.Error("metrics: a queue cannot be read", "queue", q.Name, "error", err)
			return
		}
		if ok {
			age = c.s.age(oldest.CreatedAt)
		}
	}
	emit(descQueueOldest, prometheus.GaugeValue, age)
}
