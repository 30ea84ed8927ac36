package postgres

import (
	"context"
	"fmt"

	"github.com/orrery-go/orrery/store"
)

var _ store.Handover = (*Cluster)(nil)

// Remain implements [store.Handover].
func (c *Cluster) Remain(ctx context.Context, f store.Former) error {
	if err := c.kv.Remain(ctx, f); err != nil {
		return fmt.Errorf("remain in partition %d: %w", f.Partition, err)
	}
	return nil
}

// Report implements [store.Handover], in one round trip.
func (c *Cluster) Report(ctx context.Context, f store.Former, results []store.FormerResult) ([]store.FormerStop, error) {
	stops, err := c.kv.Report(ctx, f, results)
	if err != nil {
		return nil, fmt.Errorf("report to partition %d: %w", f.Partition, err)
	}
	return stops, nil
}

// Depart implements [store.Handover].
func (c *Cluster) Depart(ctx context.Context, partition int, by, session string) error {
	if err := c.kv.Depart(ctx, partition, by, session); err != nil {
		return fmt.Errorf("depart from partition %d: %w", partition, err)
	}
	return nil
}

// Formers implements [store.Handover].
func (c *Cluster) Formers(ctx context.Context, partition, most int) ([]store.Former, []store.FormerResult, error) {
	all, results, err := c.kv.Formers(ctx, partition, most)
	if err != nil {
		return nil, nil, fmt.Errorf("list the former owners of partition %d: %w", partition, err)
	}
	return all, results, nil
}

// FormerOwners gives the former owners of all partitions that go on with what they carry out, by partition and session, in one round trip. While the
// database does not answer it is [store.ErrUnreachable].
func (c *Cluster) FormerOwners(ctx context.Context) ([]store.Former, error) {
	all, err := c.kv.AllFormers(ctx)
	if err != nil {
		return nil, fmt.Errorf("list former owners: %w", err)
	}
	return all, nil
}

// Stop implements [store.Handover].
func (c *Cluster) Stop(ctx context.Context, partition int, by, session string, stops []store.FormerStop) error {
	if err := c.kv.Stop(ctx, partition, by, session, stops); err != nil {
		return fmt.Errorf("stop what a former owner of partition %d carries out: %w", partition, err)
	}
	return nil
}

// Taken implements [store.Handover].
func (c *Cluster) Taken(ctx context.Context, partition int, by string, results []store.FormerResult) error {
	if err := c.kv.Taken(ctx, partition, by, results); err != nil {
		return fmt.Errorf("take results of former owners of partition %d: %w", partition, err)
	}
	return nil
}
