package jobs

import (
	"context"
	"errors"
	"fmt"

	"github.com/orrery-go/orrery/store"
)

// Place says which of a cluster's databases a [Service] works for, where tenants are divided over several of them that may share what their
// runners run pods in.
type Place struct {
	// Partition is the database's number, from 0 on, of so many Partitions, as core.Partition has them.
	Partition, Partitions int
	// Cluster reads the identity of the cluster, which is that of the database of partition 0 when it began: see [Identity]. An error that is
	// [store.ErrNotFound] says that partition 0 has not begun yet. It is called, and repeated, until the database has noted the identity:
	// no pod is created before. For partition 0, or if no runner is a [Placer], it is never called, and may be nil for partition 0.
	Cluster func(context.Context) (string, error)
}

func (p *Place) validate() error {
	switch {
	case p == nil:
		return nil
	case p.Partitions < 1 || p.Partitions > store.MaxPartitions:
		return fmt.Errorf("jobs: Options.Place.Partitions is %d: it must be between 1 and %d", p.Partitions, store.MaxPartitions)
	case p.Partition < 0 || p.Partition >= p.Partitions:
		return fmt.Errorf("jobs: Options.Place.Partition is %d: it must be between 0 and %d", p.Partition, p.Partitions-1)
	case p.Partition > 0 && p.Cluster == nil:
		return fmt.Errorf("jobs: Options.Place.Cluster is nil: partition %d needs it", p.Partition)
	}
	return nil
}

// Placer is implemented by a [Marker] that tells apart what the partitions of one cluster have made, and what other clusters have.
type Placer interface {
	Marker
	// UsePlace says of which cluster, and of which of its partitions, the runs are: the identity is a text that could be the value of a Kubernetes
	// label. It is called after UseDatabase, before Watch and Create. From then on the runner marks what it creates with both, and what is of
	// another cluster, or of a tenant of another partition, it neither holds, observes nor deletes. What another partition of its own
	// cluster has made is not [Foreign].
	UsePlace(cluster string, partition, partitions int)
}

// clusterMeta is where the store keeps the identity of the cluster that the database is a partition of. A copy of the database has it too.
const clusterMeta = "jobs/cluster"

// Identity reads the identity of the cluster from the database of partition 0, for [Place.Cluster]; [store.ErrNotFound]: nothing has worked on that
// partition yet. It changes nothing.
func Identity(ctx context.Context, st store.Store) (string, error) {
	for _, name := range []string{clusterMeta, databaseMeta} { // a copy of partition 0 is of the same cluster
		id, err := readIdentity(ctx, st, name)
		if err != nil || id != "" {
			return id, err
		}
	}
	return "", fmt.Errorf("identity of the cluster: %w", store.ErrNotFound)
}

// clusterOf reads the identity of the cluster from the service's own database, which notes it the first time.
func (s *Service) clusterOf(ctx context.Context, st store.Store, own string) (string, error) {
	return identityOf(ctx, st, clusterMeta, func() (string, error) {
		if s.o.Place.Partition == 0 {
			return own, nil
		}
		id, err := s.o.Place.Cluster(ctx)
		if err == nil {
			err = checkIdentity("Options.Place.Cluster", id)
		}
		return id, err
	})
}

// identities finds out which database this is, and of which cluster; that is empty if it is none's, or no runner asks.
func (s *Service) identities(ctx context.Context, st store.Store) (id, cluster string, err error) {
	if id, err = databaseOf(ctx, st); err != nil || s.o.Place == nil || !s.hasPlacer() {
		return id, "", err
	}
	cluster, err = s.clusterOf(ctx, st, id)
	return id, cluster, err
}

func (s *Service) hasPlacer() bool {
	for _, r := range s.o.Runners { // order-free: any will do
		if _, ok := as[Placer](r); ok {
			return true
		}
	}
	return false
}

// mark tells the runners which database this is, and of which cluster.
func (s *Service) mark(id, cluster string) {
	for name := range s.o.Runners { // order-free: each is told the same
		if m, ok := as[Marker](s.o.Runners[name]); ok {
			m.UseDatabase(id)
		}
		if p, ok := as[Placer](s.o.Runners[name]); ok && cluster != "" {
			p.UsePlace(cluster, s.o.Place.Partition, s.o.Place.Partitions)
		}
	}
	s.database = id
}

// notYet reports whether the identity of the cluster is not known because partition 0 has not begun.
func notYet(err error) bool { return errors.Is(err, store.ErrNotFound) }
