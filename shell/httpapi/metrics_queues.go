package httpapi

import (
	"context"

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

// collectQueues reads the queues: their headers have what is counted.
func (s *Server) collectQueues(ctx context.Context, ch samples) {
	queues, _, err := s.engine.Queues().List(ctx, shell.QueueFilter{}, shell.Page{Limit: maxQueueMetrics})
	if err != nil {
		s.log.Error("metrics: the queues cannot be read", "error", err)
		return
	}
	for _, q := range queues {
		s.collectQueue(ctx, ch, q)
	}
}

func (s *Server) collectQueue(ctx context.Context, ch samples, q core.Queue) {
	labels := func(more ...string) []string { return append([]string{q.Namespace, q.Tenant, q.Name}, more...) }
	for _, g := range []struct {
		state string
		n     uint64
	}{
		{"ready", q.Ready}, {"waiting", q.Waiting}, {"delayed", q.Delayed}, {"processing", q.InFlight},
		{"failed", q.Retrying}, {"completed", q.Kept}, {"dead", q.Dead},
	} {
		ch.gauge(descQueueItems, float64(g.n), labels(g.state)...)
	}
	for _, t := range []struct {
		event string
		n     uint64
	}{
		{"pushed", q.Pushed}, {"taken", q.Taken}, {"completed", q.Completed}, {"failed", q.Failed},
		{"timed_out", q.TimedOut}, {"dead_lettered", q.DeadLettered}, {"cancelled", q.Cancelled}, {"redriven", q.Redriven},
	} {
		ch.counter(descQueueTotal, t.n, labels(t.event)...)
	}
	age := 0.0
	if q.Ready > 0 {
		oldest, ok, err := s.engine.Queues().OldestReady(ctx, q.Ref())
		if err != nil {
			s.log.Error("metrics: a queue cannot be read", "queue", q.Name, "error", err)
			return
		}
		if ok {
			age = s.age(oldest.CreatedAt)
		}
	}
	ch.gauge(descQueueOldest, age, labels()...)
}
