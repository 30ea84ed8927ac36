package sim

import (
	"context"

	"github.com/orrery-go/orrery/store"
)

var _ store.Handover = (*cluster)(nil)

// does has the database do something for a former owner, or for the owner about one. Its answer may be lost.
func (c *cluster) does(partition int, what string, do func(ctx context.Context) error) error {
	what += " of " + c.partition(partition)
	if err := c.ask(what); err != nil {
		return err
	}
	if err := do(context.Background()); err != nil {
		return err
	}
	return c.ask(what + ", and is answered")
}

// Remain implements [store.Handover].
func (c *cluster) Remain(_ context.Context, f store.Former) error {
	return c.does(f.Partition, "goes on with what runs", func(ctx context.Context) error {
		c.count(CountHandedOver)
		return c.formers.Remain(ctx, f)
	})
}

// Report implements [store.Handover].
func (c *cluster) Report(_ context.Context, f store.Former, results []store.FormerResult) (stops []store.FormerStop, err error) {
	err = c.does(f.Partition, "reports what ran", func(ctx context.Context) (err error) {
		if stops, err = c.formers.Report(ctx, f, results); err == nil {
			for range results {
				c.count(CountReported)
			}
		}
		return err
	})
	return stops, err
}

// Depart implements [store.Handover].
func (c *cluster) Depart(_ context.Context, partition int, session string) error {
	return c.does(partition, "takes out a former owner", func(ctx context.Context) error { return c.formers.Depart(ctx, partition, session) })
}

// Formers implements [store.Handover].
func (c *cluster) Formers(_ context.Context, partition, most int) (all []store.Former, results []store.FormerResult, err error) {
	err = c.does(partition, "lists former owners", func(ctx context.Context) (err error) {
		all, results, err = c.formers.Formers(ctx, partition, most)
		return err
	})
	return all, results, err
}

// Stop implements [store.Handover].
func (c *cluster) Stop(_ context.Context, partition int, session string, stops []store.FormerStop) error {
	return c.does(partition, "stops what a former owner runs", func(ctx context.Context) error { return c.formers.Stop(ctx, partition, session, stops) })
}

// Taken implements [store.Handover].
func (c *cluster) Taken(_ context.Context, partition int, results []store.FormerResult) error {
	return c.does(partition, "deletes what was reported", func(ctx context.Context) error { return c.formers.Taken(ctx, partition, results) })
}
