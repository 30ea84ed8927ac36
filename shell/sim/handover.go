package sim

import (
	"context"
	"slices"
	"time"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/store"
)

var _ store.Handover = (*cluster)(nil)

// carried is what is known of a former owner for the check.
type carried struct {
	by       *incarnation
	keys     []store.EffectKey // what it has carried out, all in all
	last     time.Time         // of its last sign of life
	silent   time.Duration     // the longest time without one
	departed bool              // by itself, with all reported
}

// formerKey names a former owner.
type formerKey struct {
	partition int
	session   string
}

// lives notes a sign of life of a former owner, and gives what is known of it.
func (c *cluster) lives(partition int, session string) *carried {
	key := formerKey{partition, session}
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.carried[key]
	if f == nil {
		f = &carried{by: c.of, last: c.now}
		c.carried[key] = f
	}
	if f.by == c.of {
		f.silent, f.last = max(f.silent, c.now.Sub(f.last)), c.now
	}
	return f
}

// checkFormers checks that nothing was taken from a former owner that lived: it was never silent for a lease, and has reported all.
func (r *run) checkFormers(bad func(rule, format string, args ...any)) {
	of := map[store.EffectKey]*carried{}
	for _, f := range r.carried {
		if f.departed && f.silent < lease {
			for _, key := range f.keys {
				of[key] = f
			}
		}
	}
	if len(of) == 0 || len(r.lost) > 0 {
		return
	}
	r.views(func(_ int, tx store.ReadTx) error {
		return tx.Journal(1, func(seq uint64, raw []byte) error {
			entry, err := core.DecodeEntry(raw)
			for _, in := range entry.Inputs {
				key := store.EffectKey{ID: in.To.ID, N: in.Ack}
				if f := of[key]; f != nil && in.Actor == "recovery" {
					bad(RuleLives, "batch %d takes %s of %s from %s", seq, key, in.To, f.by.name)
				}
			}
			return err
		})
	})
}

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
		c.lives(f.Partition, f.Session).keys = slices.Clone(f.Running)
		return c.formers.Remain(ctx, f)
	})
}

// Report implements [store.Handover].
func (c *cluster) Report(_ context.Context, f store.Former, results []store.FormerResult) (stops []store.FormerStop, err error) {
	err = c.does(f.Partition, "reports what ran", func(ctx context.Context) (err error) {
		if stops, err = c.formers.Report(ctx, f, results); err == nil {
			c.lives(f.Partition, f.Session)
			for range results {
				c.count(CountReported)
			}
		}
		return err
	})
	return stops, err
}

// Depart implements [store.Handover].
func (c *cluster) Depart(_ context.Context, partition int, by, session string) error {
	return c.does(partition, "takes out a former owner", func(ctx context.Context) error {
		if f := c.lives(partition, session); by == session {
			f.departed = true
		}
		return c.formers.Depart(ctx, partition, by, session)
	})
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
func (c *cluster) Stop(_ context.Context, partition int, by, session string, stops []store.FormerStop) error {
	return c.does(partition, "stops what a former owner runs", func(ctx context.Context) error { return c.formers.Stop(ctx, partition, by, session, stops) })
}

// Taken implements [store.Handover].
func (c *cluster) Taken(_ context.Context, partition int, by string, results []store.FormerResult) error {
	return c.does(partition, "deletes what was reported", func(ctx context.Context) error { return c.formers.Taken(ctx, partition, by, results) })
}
