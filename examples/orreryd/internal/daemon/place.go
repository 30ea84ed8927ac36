package daemon

import (
	"context"
	"errors"

	"github.com/orrery-go/orrery/shell/jobs"
	"github.com/orrery-go/orrery/store/postgres"
)

// place says which partition of its cluster the daemon works on, for its pods; nil: the database is not divided.
func (d *daemon) place() *jobs.Place {
	if !d.hosted() {
		return nil
	}
	h := d.term.host
	return &jobs.Place{Partition: d.term.Partition, Partitions: h.layout.Partitions, Cluster: h.identity}
}

// identity reads the identity of the cluster from partition 0.
func (h *host) identity(ctx context.Context) (id string, err error) {
	if d, ok := h.mine()[0]; ok {
		return jobs.Identity(ctx, d.store)
	}
	st, err := postgres.Open(ctx, h.settings().Database, postgres.Options{ReadOnly: true})
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	return jobs.Identity(ctx, st)
}
