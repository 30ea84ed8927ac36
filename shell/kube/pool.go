package kube

import (
	"cmp"
	"log/slog"

	"github.com/orrery-go/orrery/shell/jobs"
)

// Pool makes the runners of several engines of one process that run pods in one cluster and namespace for one instance, such as those of the partitions
// of a database. They have the watches in common, of which there are as many as one runner has, however many runners there are; the limit of the calls,
// [Options.QPS]; the connections; and the health. It is safe for concurrent use.
//
// Tell each of its runners whose pods are its own: by [Runner.UsePlace], as package jobs does. Until then it takes all for its own.
type Pool struct{ first *Runner }

// NewPool makes a Pool; it makes no call of the API, and has nothing to be closed. The error is as that of [New].
func NewPool(o Options) (*Pool, error) {
	r, err := New(o)
	if err != nil {
		return nil, err
	}
	return &Pool{first: r}, nil
}

// Runner makes another runner, which logs to that logger (default: that of the pool's options). A Watch of one that begins while those of others run
// knows at once what there is, and one that has ended is told nothing more.
func (p *Pool) Runner(log *slog.Logger) *Runner {
	r := p.first
	return &Runner{
		client: r.client, counts: r.counts, limit: r.limit, namespace: r.namespace, instance: r.instance, profile: r.profile,
		ttlSeconds: r.ttlSeconds, keepFailed: r.keepFailed, log: cmp.Or(log, r.log), health: r.health, feed: r.feed,
		began: make(chan struct{}), expected: map[jobs.Attempt]expectation{},
	}
}
