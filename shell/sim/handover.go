package sim

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/engine"
	"github.com/orrery-go/orrery/store"
)

var _ store.Handover = (*cluster)(nil)

// carried is what is known of a former owner for the check.
type carried struct {
	by       *incarnation
	keys     []store.EffectKey // what it had in hand as it gave the partition back
	last     time.Time         // of its last sign of life
	silent   time.Duration     // the longest time without one
	departed bool              // by itself, with all reported
	told     []store.EffectKey // of what it has reported, while it was never silent for a lease
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
		f.silent, f.last = max(f.silent, c.silence(f.last)), c.now
	}
	return f
}

// checkFormers checks that nothing was taken from a former owner that lived, and that what it has reported counts: it was never silent for a lease before that.
func (r *run) checkFormers(bad func(rule, format string, args ...any)) {
	for _, what := range r.gone {
		bad(RuleLives, "%s", what)
	}
	of := map[store.EffectKey]*carried{}
	for _, f := range r.carried { // order-free: what one has in hand no other one has
		for _, key := range f.told {
			of[key] = f
		}
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

// does has the database do something for a former owner, or for the owner about one. It may be lost, and so may its answer; by a fault, if it tells something.
func (c *cluster) does(partition int, what string, tells bool, do func(ctx context.Context) error) error {
	what += " of " + c.partition(partition)
	if err := c.ask(what); err != nil {
		return err
	}
	lost, answer := false, false
	if tells {
		lost, answer = c.loseNext()
	}
	if lost && !answer {
		c.of.log("%s %s, which is lost", c.of.name, what)
		return errAway
	}
	if err := do(context.Background()); err != nil {
		return err
	}
	if err := c.ask(what + ", and is answered"); err != nil {
		return err
	}
	if lost {
		return errAway
	}
	return nil
}

// loseNext reports whether the next message about a handover is lost, or the answer to it.
func (r *run) loseNext() (lost, answer bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.loses) == 0 || !r.calm.IsZero() {
		return false, false
	}
	if r.loses[0] >= 16 { // of up to four one, so that whatever is told meets it now and then
		r.loses[0] -= 16
		return false, false
	}
	answer = r.loses[0]%2 == 1
	r.loses = r.loses[1:]
	return true, answer
}

// inHand gives what a former owner has in hand by the store, which is more than it says if it has forgotten something.
func (c *cluster) inHand(f store.Former) (keys []store.EffectKey) {
	keys = slices.Clone(f.Running)
	if err := c.dbs[f.Partition].live.View(context.Background(), func(tx store.ReadTx) error {
		claims, err := tx.Claims(engine.ClaimPrefix)
		if err != nil {
			return err
		}
		return tx.Outbox(func(o store.OutboxEntry) error {
			if slices.ContainsFunc(claims, func(c store.Claim) bool { return c.Session == f.Session && c.Name == o.Holder && c.Token == o.Token }) {
				keys = append(keys, o.Key)
			}
			return nil
		})
	}); err != nil {
		c.broken = err
	}
	return keys
}

// Remain implements [store.Handover].
func (c *cluster) Remain(_ context.Context, f store.Former) error {
	return c.does(f.Partition, "goes on with what runs", true, func(ctx context.Context) error {
		c.count(CountHandedOver)
		c.lives(f.Partition, f.Session).keys = c.inHand(f)
		return c.formers.Remain(ctx, f)
	})
}

// Report implements [store.Handover].
func (c *cluster) Report(_ context.Context, f store.Former, results []store.FormerResult) (stops []store.FormerStop, err error) {
	err = c.does(f.Partition, "reports what ran", len(results) > 0, func(ctx context.Context) (err error) {
		if stops, err = c.formers.Report(ctx, f, results); err == nil {
			is := c.lives(f.Partition, f.Session)
			for _, r := range results {
				c.count(CountReported)
				if is.silent < lease {
					is.told = append(is.told, r.Key)
				}
			}
		}
		return err
	})
	return stops, err
}

// Depart implements [store.Handover].
func (c *cluster) Depart(_ context.Context, partition int, by, session string) error {
	return c.does(partition, "takes out a former owner", true, func(ctx context.Context) error {
		switch f := c.lives(partition, session); {
		case by == session:
			f.departed = true
		case !f.departed && max(f.silent, c.silence(f.last)) < lease:
			c.mu.Lock()
			c.gone = append(c.gone, fmt.Sprintf("%s takes %s for gone in %s, which was never silent for longer than %s", c.of.name, f.by.name, c.partition(partition), max(f.silent, c.silence(f.last))))
			c.mu.Unlock()
		}
		return c.formers.Depart(ctx, partition, by, session)
	})
}

// Formers implements [store.Handover].
func (c *cluster) Formers(_ context.Context, partition, most int) (all []store.Former, results []store.FormerResult, err error) {
	err = c.does(partition, "lists former owners", false, func(ctx context.Context) (err error) {
		all, results, err = c.formers.Formers(ctx, partition, most)
		return err
	})
	return all, results, err
}

// Stop implements [store.Handover].
func (c *cluster) Stop(_ context.Context, partition int, by, session string, stops []store.FormerStop) error {
	return c.does(partition, "stops what a former owner runs", true, func(ctx context.Context) error { return c.formers.Stop(ctx, partition, by, session, stops) })
}

// Taken implements [store.Handover].
func (c *cluster) Taken(_ context.Context, partition int, by string, results []store.FormerResult) error {
	return c.does(partition, "deletes what was reported", true, func(ctx context.Context) error { return c.formers.Taken(ctx, partition, by, results) })
}
