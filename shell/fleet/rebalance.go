package fleet

import (
	"context"
	"fmt"
	"slices"

	"github.com/orrery-go/orrery/store"
)

// Placing is where a partition is, and where it should be.
type Placing struct {
	Partition int
	// Owner is who owns it; empty: nobody does.
	Owner string
	// Should is who should; empty: nobody can.
	Should string
	// Keeps is what keeps the partition where it is; empty: it is where it should be.
	Keeps string
}

// Rebalance has partitions be where they should be: what was taken in place of another instance goes to that now, and what waits because somebody has come or gone within a lease
// waits no more. All instances learn of it from the database, within seconds, and then give back one partition after the other, as ever; what is bound to a machine stays. It tells how
// the partitions were placed when it was asked.
func (g *Group) Rebalance(ctx context.Context) ([]Placing, error) {
	if err := g.o.Cluster.Rebalance(ctx); err != nil {
		return nil, err
	}
	return g.Placings(ctx)
}

// Placings tells where each partition is and should be, as this process sees the cluster.
func (g *Group) Placings(ctx context.Context) ([]Placing, error) {
	list, err := g.instances(ctx)
	if err != nil {
		return nil, err
	}
	rows, err := g.rows(ctx)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, i := range ableOf(slices.DeleteFunc(list, func(i Instance) bool { return !i.Alive || i.Draining })) {
		names = append(names, i.Name)
	}
	all := make([]Placing, len(g.seats))
	for n := range all {
		p := Placing{Partition: n, Owner: rows[n].Owner}
		if len(names) > 0 {
			p.Should = Place(n, names)
		}
		p.Keeps = g.keeps(p, rows[n])
		all[n] = p
	}
	return all, nil
}

// keeps says why a partition is not where it should be.
func (g *Group) keeps(p Placing, row store.Partition) string {
	switch {
	case row.Halted != "":
		return "it is stopped: " + row.Halted
	case p.Should == "":
		return "no instance that is alive can have it: all drain"
	case p.Owner == p.Should:
		return ""
	case p.Owner == "":
		return fmt.Sprintf("%s is about to claim it", p.Should)
	case p.Owner != g.o.Name:
		return fmt.Sprintf("%s gives back one partition after the other, and none with sessions, worktrees or programs on its machine", p.Owner)
	case g.o.Bound != nil && g.o.Bound(p.Partition):
		return fmt.Sprintf("sessions, worktrees or programs on the machine of %s", p.Owner)
	}
	return "one partition moves after the other"
}
