package pgkv

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/orrery-go/orrery/store"
)

// Cluster is what a process has of the database that owns nothing in it, and the connections of the partitions that it opens.
type Cluster struct {
	o     Options
	pools *Pools
	pool  *lane // its own part of them
	s     *statements
}

// Connect gives one, and makes the tables where they are not there, unless it is to read only.
func Connect(ctx context.Context, url string, o Options) (*Cluster, error) {
	o = o.withDefaults()
	pools, err := OpenPools(ctx, url, o)
	if err != nil {
		return nil, err
	}
	writes, _ := pools.lanes()
	ready := Migrate
	if o.ReadOnly {
		ready = readable
	}
	if err := ready(ctx, writes, o.Schema); err != nil {
		pools.Close()
		return nil, err
	}
	return &Cluster{o, pools, writes, newStatements(o.Schema)}, nil
}

// Pools are for the partitions that the process opens.
func (c *Cluster) Pools() *Pools { return c.pools }

// Look gives a partition's row.
func (c *Cluster) Look(ctx context.Context, part int) (Row, error) {
	r, err := scanRow(c.pool.QueryRow(ctx, c.s.look, part))
	return r, unreachable(ctx, err)
}

// Rows gives those of all partitions.
func (c *Cluster) Rows(ctx context.Context) (all []Row, err error) {
	err = each(ctx, c.pool, func(rows pgx.Rows) error {
		r, err := scanRow(rows)
		all = append(all, r)
		return err
	}, c.s.partitions)
	return all, unreachable(ctx, err)
}

// Register notes an instance.
func (c *Cluster) Register(ctx context.Context, i store.Instance) error {
	_, err := c.pool.Exec(ctx, c.s.instance, i.Name, i.Session, i.Address, i.Version, i.Able, i.Core)
	return err
}

// Drain sets whether an instance is to give back what it owns, if it is there.
func (c *Cluster) Drain(ctx context.Context, name string, on bool) (found bool, err error) {
	tag, err := c.pool.Exec(ctx, c.s.drain, name, on)
	return tag.RowsAffected() > 0, unreachable(ctx, err)
}

// Part has an instance give back what it owns, if it is there in that session.
func (c *Cluster) Part(ctx context.Context, i store.Instance) error {
	_, err := c.pool.Exec(ctx, c.s.part, i.Name, i.Session)
	return err
}

// AcceptLoss has a partition go on that is stopped for that loss of commits; false: it is not.
func (c *Cluster) AcceptLoss(ctx context.Context, part int, halted string) (is bool, err error) {
	tag, err := c.pool.Exec(ctx, c.s.acceptLoss, part, halted, filling)
	return tag.RowsAffected() > 0, unreachable(ctx, err)
}

// Rebalance tells all instances that partitions are to be where they should be.
func (c *Cluster) Rebalance(ctx context.Context) error {
	_, err := c.pool.Exec(ctx, c.s.rebalance)
	return unreachable(ctx, err)
}

// Layout gives how the database is divided; nil: it was not said.
func (c *Cluster) Layout(ctx context.Context) (*store.Layout, error) {
	l, err := layoutOf(ctx, c.pool, c.s)
	return l, unreachable(ctx, err)
}

func layoutOf(ctx context.Context, q interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}, s *statements) (*store.Layout, error) {
	var l store.Layout
	err := q.QueryRow(ctx, s.layout).Scan(&l.Partitions, &l.Rule)
	switch {
	case noRow(err):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return &l, nil
}

// SetLayout divides the database: whoever makes or claims a partition at the same time was seen, or waits.
func (c *Cluster) SetLayout(ctx context.Context, l store.Layout) error {
	if err := l.Validate(); err != nil {
		return fmt.Errorf("set the layout: %w", err)
	}
	return pgx.BeginFunc(ctx, c.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, c.s.lockMeta); err != nil {
			return fmt.Errorf("wait for who else divides the database: %w", err)
		}
		was, err := layoutOf(ctx, tx, c.s)
		if err != nil {
			return fmt.Errorf("read the layout: %w", err)
		}
		opened, err := c.opened(ctx, tx)
		if err != nil {
			return fmt.Errorf("look for partitions: %w", err)
		}
		if err := l.CanSet(was, opened); err != nil || was != nil {
			return err
		}
		knows := least
		if l.Partitions > 1 {
			knows = divided
		}
		if _, err := tx.Exec(ctx, c.s.setLayout, l.Partitions, l.Rule, knows); err != nil {
			return fmt.Errorf("write the layout: %w", err)
		}
		if _, err := tx.Exec(ctx, c.s.dropParts, l.Partitions); err != nil {
			return fmt.Errorf("remove partitions that were never opened: %w", err)
		}
		return nil
	})
}

// opened locks the rows of all partitions, and gives the numbers of those that somebody has opened.
func (c *Cluster) opened(ctx context.Context, tx pgx.Tx) (list []int, err error) {
	rows, err := tx.Query(ctx, c.s.lockParts)
	if err != nil {
		return nil, err
	}
	var part int
	var token uint64
	_, err = pgx.ForEachRow(rows, []any{&part, &token}, func() error {
		if token > 0 {
			list = append(list, part)
		}
		return nil
	})
	return list, err
}

// Leave takes an instance out, if it is there in that session.
func (c *Cluster) Leave(ctx context.Context, name, session string) error {
	_, err := c.pool.Exec(ctx, c.s.leave, name, session)
	return err
}

// Instances gives all instances, by name.
func (c *Cluster) Instances(ctx context.Context) (all []store.Instance, err error) {
	err = each(ctx, c.pool, func(rows pgx.Rows) error {
		var i store.Instance
		err := rows.Scan(&i.Name, &i.Session, &i.Address, &i.Version, &i.Able, &i.Core, &i.Draining, &i.Beat, &i.Rebalanced)
		all = append(all, i)
		return err
	}, c.s.instances)
	slices.SortFunc(all, func(a, b store.Instance) int { return cmp.Compare(a.Name, b.Name) })
	return all, unreachable(ctx, err)
}

// Close ends the connections, once the partitions are closed that have them.
func (c *Cluster) Close() { c.pools.Close() }

// Now gives the time of the database's clock.
func (c *Cluster) Now(ctx context.Context) (at time.Time, err error) {
	err = c.pool.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&at)
	return at, err
}
