package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/postgres/internal/pgkv"
)

var (
	_ store.Cluster = (*Cluster)(nil)
	_ store.Timed   = (*Cluster)(nil)
	_ store.Owned   = (*Store)(nil)
)

// Partition is what the database says of one.
type Partition = store.Partition

// Instance is a process of the cluster, as it has registered itself.
type Instance = store.Instance

// Cluster looks at a database without opening a partition: for those who stand by. Its methods are safe for
// concurrent use, and none of them waits for an owner. While the database does not answer, those that callers of the API wait for
// (Look, Partitions, Instances, FormerOwners, Drain, AcceptLoss, Rebalance, Layout) return [store.ErrUnreachable].
type Cluster struct {
	kv  *pgkv.Cluster
	url string
	o   Options
}

// Connect gives a Cluster, and makes the tables where they are not there. With Options.ReadOnly it changes nothing, and the Cluster is for looking: it opens no
// partition, and [store.ErrNotFound] is that there are no tables, [ErrOlder] that they have an earlier format. Of the options it uses Schema, Lease,
// Configure and Views, too; the others are for what [Cluster.Claim] opens. The partitions of a Cluster share its connections: each has two that write and one that reads for itself, four more that write and
// Options.Views that read are for all.
func Connect(ctx context.Context, url string, o Options) (*Cluster, error) {
	if err := o.validate(); err != nil {
		return nil, fmt.Errorf("connect to the database: %w", err)
	}
	kv, err := pgkv.Connect(ctx, url, o.kv())
	if err != nil {
		return nil, fmt.Errorf("connect to the database: %w", hintPassword(url, err))
	}
	return &Cluster{kv, url, o}, nil
}

// hintPassword says what is missing where the server asks for a password and none was given: it only says that it is the wrong one.
func hintPassword(url string, err error) error {
	pg, refused := errors.AsType[*pgconn.PgError](err)
	if !refused || pg.Code != "28P01" { // invalid_password
		return err
	}
	c, parseErr := pgconn.ParseConfig(url)
	if parseErr != nil || c.Password != "" {
		return err
	}
	return fmt.Errorf("%w: no password was given, and the server asks for one: set PGPASSWORD, or write it into ~/.pgpass", err)
}

// Look tells who owns a partition; [store.ErrNotFound]: nobody has opened it yet.
func (c *Cluster) Look(ctx context.Context, partition int) (Partition, error) {
	row, err := c.kv.Look(ctx, partition)
	if errors.Is(err, pgx.ErrNoRows) || err == nil && row.Token == 0 { // made, and never opened
		err = store.ErrNotFound
	}
	if err != nil {
		return Partition{}, fmt.Errorf("look at partition %d: %w", partition, err)
	}
	return partitionOf(row), nil
}

// Partitions tells of all that were opened ever, by number.
func (c *Cluster) Partitions(ctx context.Context) (all []Partition, err error) {
	rows, err := c.kv.Rows(ctx)
	if err != nil {
		return nil, fmt.Errorf("list partitions: %w", err)
	}
	for _, row := range rows {
		if row.Token > 0 { // else it was made, and never opened
			all = append(all, partitionOf(row))
		}
	}
	return all, nil
}

// CanFill tells whether a partition can be opened with Options.Fill; [ErrFull]: it has content already.
func CanFill(p Partition) error { return pgkv.CanFill(p.Number, p.Last, p.Halted) }

// IsFilled tells whether a partition has all that it was to be filled with; [ErrUnfilled]: it is being filled, or that was cut off, and nobody else opens it. A
// database of which that is true of one partition is half of a copy, whatever the others have.
func IsFilled(p Partition) error { return pgkv.IsFilled(p.Number, p.Halted) }

// Claim implements [store.Cluster]: it opens a partition with the options that Connect was given.
func (c *Cluster) Claim(ctx context.Context, claim store.PartitionClaim) (store.Owned, error) {
	if c.o.ReadOnly {
		return nil, ErrReadOnly
	}
	o := c.o
	o.Partition, o.Owner, o.Address, o.AcceptLoss = claim.Seen.Number, claim.Owner, claim.Address, claim.AcceptLoss
	o.Seen, o.TakeOver, o.ReadOnly, o.Fill = &claim.Seen, false, false, false
	s, err := open(ctx, c.url, o, c.kv.Pools())
	switch {
	case err == nil:
		return s, nil
	case errors.Is(err, ErrLost), errors.Is(err, ErrUnfilled), errors.Is(err, ErrNewer):
		err = fmt.Errorf("%w: %w", store.ErrUnusable, err)
	}
	return nil, err
}

func partitionOf(r pgkv.Row) Partition {
	return Partition{
		Number: r.Part, Token: r.Token, Beat: r.Beat, Last: r.Last, Lag: r.Last - r.Checkpoint,
		Session: r.Session, Owner: r.Owner, Address: r.Address, Halted: r.Halted, Lost: pgkv.IsLost(r.Halted),
	}
}

// Register tells others of an instance. Another one of that name is replaced.
func (c *Cluster) Register(ctx context.Context, i Instance) error {
	if i.Name == "" || i.Session == "" {
		return fmt.Errorf("register an instance: name %q, session %q: want both", i.Name, i.Session)
	}
	if err := c.kv.Register(ctx, i); err != nil {
		return fmt.Errorf("register instance %s: %w", i.Name, err)
	}
	return nil
}

// Renew implements [store.Cluster], in one statement; [store.ErrFenced]: another instance has registered under its name, or it has left. A partition that is
// locked, and was committed to since the last Renew, needs no other sign of life.
func (c *Cluster) Renew(ctx context.Context, i Instance, owned ...store.Owned) (rest []store.Owned, err error) {
	dbs := make([]*pgkv.DB, len(owned)) // nil: it is none of this package
	for n, o := range owned {
		if s, ok := o.(*Store); ok {
			dbs[n] = s.db
		}
	}
	renewed, found, err := c.kv.Renew(ctx, i.Name, i.Session, dbs)
	for n, o := range owned {
		if !renewed[n] {
			rest = append(rest, o)
		}
	}
	switch {
	case err != nil:
		return rest, fmt.Errorf("renew instance %s: %w", i.Name, err)
	case !found:
		return rest, fmt.Errorf("renew instance %s: %w", i.Name, store.ErrFenced)
	}
	return rest, nil
}

// Leave takes an instance out; where another one has its name nothing happens.
func (c *Cluster) Leave(ctx context.Context, i Instance) error {
	if err := c.kv.Leave(ctx, i.Name, i.Session); err != nil {
		return fmt.Errorf("take out instance %s: %w", i.Name, err)
	}
	return nil
}

// Instances lists those that are registered, by name, alive or not: the beat of one that is grows.
func (c *Cluster) Instances(ctx context.Context) ([]Instance, error) {
	all, err := c.kv.Instances(ctx)
	if err != nil {
		return nil, fmt.Errorf("list instances: %w", err)
	}
	return all, nil
}

// Drain implements [store.Cluster]: the instance finds it in its row.
func (c *Cluster) Drain(ctx context.Context, name string, on bool) error {
	found, err := c.kv.Drain(ctx, name, on)
	if err == nil && !found {
		err = store.ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("drain instance %s: %w", name, err)
	}
	return nil
}

// Part implements [store.Cluster].
func (c *Cluster) Part(ctx context.Context, i Instance) error {
	if err := c.kv.Part(ctx, i); err != nil {
		return fmt.Errorf("part instance %s: %w", i.Name, err)
	}
	return nil
}

// AcceptLoss implements [store.Cluster].
func (c *Cluster) AcceptLoss(ctx context.Context, partition int, halted string) error {
	is, err := c.kv.AcceptLoss(ctx, partition, halted)
	if err == nil && !is {
		err = c.notLost(ctx, partition, halted)
	}
	if err != nil {
		return fmt.Errorf("accept the loss of partition %d: %w", partition, err)
	}
	return nil
}

// notLost says what a partition is that is not stopped for the loss that was to be accepted.
func (c *Cluster) notLost(ctx context.Context, partition int, halted string) error {
	p, err := c.Look(ctx, partition)
	if err != nil {
		return err
	}
	if unfilled := IsFilled(p); unfilled != nil {
		return fmt.Errorf("%w: %w", store.ErrNotLost, unfilled)
	}
	return cmp.Or(p.CanAcceptLoss(halted), store.ErrNotLost) // it was when this was asked, and has changed since
}

// Rebalance implements [store.Cluster]: each instance finds it in its row.
func (c *Cluster) Rebalance(ctx context.Context) error {
	if err := c.kv.Rebalance(ctx); err != nil {
		return fmt.Errorf("rebalance: %w", err)
	}
	return nil
}

// Layout implements [store.Cluster].
func (c *Cluster) Layout(ctx context.Context) (store.Layout, error) {
	l, err := c.kv.Layout(ctx)
	if err == nil && l == nil {
		err = fmt.Errorf("%w: SetLayout was never called: the database is one partition", store.ErrNotFound)
	}
	if err != nil {
		return store.Layout{}, fmt.Errorf("read the layout: %w", err)
	}
	return *l, nil
}

// SetLayout implements [store.Cluster]. A program of an earlier version opens no partition then, if there is more than one: [ErrNewer].
func (c *Cluster) SetLayout(ctx context.Context, l store.Layout) error {
	return c.kv.SetLayout(ctx, l)
}

// Close ends its connections, which what Claim has opened has, too: it waits until that is closed.
func (c *Cluster) Close() { c.kv.Close() }

// Ahead implements [store.Timed]: it tells how far the database's clock is ahead of this machine's (negative: behind it), and how far that may be wrong: half of the time
// that the question took.
func (c *Cluster) Ahead(ctx context.Context) (by, within time.Duration, err error) {
	asked := time.Now()
	at, err := c.kv.Now(ctx)
	if err != nil {
		return 0, 0, fmt.Errorf("read the database's clock: %w", err)
	}
	within = time.Since(asked) / 2
	return at.Sub(asked.Add(within)), within, nil
}
