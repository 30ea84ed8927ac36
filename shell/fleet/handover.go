package fleet

import (
	"context"
	"slices"

	"github.com/orrery-go/orrery/shell/engine"
	"github.com/orrery-go/orrery/store"
)

// handover is how the engine of a term gives the partition back while tools run on; nil: the database keeps nothing for that. ends is closed once the process is
// told to end, and surely reports whether no other process can have the partition.
func (m *Member) handover(ends <-chan struct{}, surely func() bool, giveBack func() error) *engine.Handover {
	through, ok := m.o.Cluster.(store.Handover)
	if !ok {
		return nil
	}
	return &engine.Handover{
		Through: through, Partition: m.partition, Owner: m.o.Name, Lease: m.o.Lease, Wanted: m.hasHeirs, Ends: ends, GiveBack: giveBack, Holds: surely,
	}
}

// hasHeirs reports whether another process is alive that may take the partition.
func (m *Member) hasHeirs() bool {
	ctx, cancel := m.limited(context.Background(), m.o.Lease/5)
	defer cancel()
	all, err := m.instances(ctx)
	if err != nil {
		all = m.lastListed()
	}
	return slices.ContainsFunc(all, func(i Instance) bool { return i.Session != m.self.Session && i.Alive && !i.Draining })
}
