package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// ErrUnusable says that nobody opens the partition until a person has looked at it, for the reason that the error gives, or that
// this program never can. Trying again does not help.
var ErrUnusable = errors.New("the partition cannot be opened")

// ErrLost says that the database does not have commits that were acknowledged, as after a failover to a standby that lagged behind. Nobody opens the
// partition before [Cluster.AcceptLoss].
var ErrLost = errors.New("the database has lost commits that were acknowledged")

// ErrNotLost says that a partition is not stopped for the loss of commits that somebody accepts.
var ErrNotLost = errors.New("the partition is not stopped for that loss")

// Partition is what a database that several processes share says of one of its partitions. Each is a whole [Store].
type Partition struct {
	Number  int
	Token   uint64 // grows with each claim
	Beat    uint64 // grows with each sign of life of the owner, of which a commit is one
	Last    uint64 // number of the last commit
	Lag     uint64 // commits that a takeover has to read
	Session string // of the owner's opening ([Store.Session]); empty: nobody owns it
	Owner   string
	Address string // where the owner answers requests
	Halted  string // why nobody opens it ([ErrUnusable]); empty: it can be opened
	// Lost: what Halted says is a loss of commits, which [Cluster.AcceptLoss] accepts.
	Lost bool
}

// CanAcceptLoss says whether the partition is stopped for that loss of commits: nil, or an error that is [ErrNotLost]. It is for who implements [Cluster].
func (p Partition) CanAcceptLoss(halted string) error {
	switch {
	case p.Halted == "":
		return fmt.Errorf("%w: it is not stopped", ErrNotLost)
	case p.Halted != halted, !p.Lost:
		return fmt.Errorf("%w: it is stopped for another reason: %s", ErrNotLost, p.Halted)
	}
	return nil
}

// Owned reports whether somebody owns the partition, alive or not.
func (p Partition) Owned() bool { return p.Session != "" }

// Instance is a process of a cluster, as it has registered itself.
type Instance struct {
	Name    string
	Session string // of its registration
	Address string
	Version string
	Core    string // version of the rules by which its engines decide (core.Version); empty: it does not say
	Able    string // what it can do, such as a hash of its tools, routes and runners; empty: it does not say
	Beat    uint64 // grows with each [Cluster.Renew]
	// Draining: it is to give back what it owns, and to claim nothing ([Cluster.Drain]). Register does not set it.
	Draining bool
	// Rebalanced grows with each [Cluster.Rebalance]. Register does not set it.
	Rebalanced uint64
}

// Layout is how a database is divided.
type Layout struct {
	// Partitions is their number, from 1 to [MaxDivided].
	Partitions int
	// Rule is the version of the rule by which a tenant has its partition, from 1 on: core.PartitionRule of who has set it.
	Rule int
}

// MaxPartitions bounds the number of partitions: ids have room for their numbers.
const MaxPartitions = 1 << 12

// MaxDivided bounds the number of partitions that a database is divided into: the page token of a list over all tenants has a place in each of them, and has to fit into the head of
// a request, of which a server takes 32 KiB.
const MaxDivided = 256

// Validate refuses what no database can be divided by.
func (l Layout) Validate() error {
	switch {
	case l.Partitions < 1:
		return fmt.Errorf("partitions: %d: want 1 to %d", l.Partitions, MaxDivided)
	case l.Partitions > MaxDivided:
		return fmt.Errorf("partitions: %d: want 1 to %d, since the page token of a list over all tenants has a place in each, and has to fit into a request", l.Partitions, MaxDivided)
	case l.Rule < 1:
		return fmt.Errorf("rule: %d: want 1 or more", l.Rule)
	}
	return nil
}

// String gives it in words.
func (l Layout) String() string { return fmt.Sprintf("%d partitions by rule %d", l.Partitions, l.Rule) }

// ErrDivided says that the database is divided otherwise, or has content by which it cannot be divided any more. Another number of
// partitions is a copy into a new database, or into another schema.
var ErrDivided = errors.New("the database is divided already")

// CanSet says whether a layout can be set where another one was (nil: none was), and where the partitions of these numbers were opened: nil, or
// an error that is [ErrDivided]. It is for who implements [Cluster].
func (l Layout) CanSet(was *Layout, opened []int) error {
	if err := l.Validate(); err != nil {
		return fmt.Errorf("set the layout: %w", err)
	}
	const instead = "another number of partitions is a copy into a new database or schema"
	switch {
	case was != nil && *was == l:
		return nil
	case was != nil:
		return fmt.Errorf("set the layout to %s: %w: it has %s; want the same, since %s", l, ErrDivided, *was, instead)
	case len(opened) == 0, l.Partitions == 1 && slices.Equal(opened, []int{0}): // one is what it is without a layout
		return nil
	}
	return fmt.Errorf("set the layout to %s: %w: partition %d was opened without a layout; want a database that nobody has opened, since %s", l, ErrDivided, opened[0], instead)
}

// PartitionClaim is how an instance asks for a partition.
type PartitionClaim struct {
	// Seen is the partition as it was seen last. With the zero Token: there was none yet.
	Seen Partition
	// Owner and Address stand in the partition from then on.
	Owner, Address string
	// AcceptLoss opens a partition that was stopped since its database had lost commits, as it is.
	AcceptLoss bool
}

// Owned is a partition that is open. Close gives it back, so that another instance can claim it at once.
type Owned interface {
	Claimed
	// Renew gives a sign of life for a time without commits; [ErrFenced]: another one owns the partition.
	Renew(ctx context.Context) error
}

// Cluster is a database with partitions that several processes share, each partition owned by one of them at a time. Who
// that is stands in the database and nowhere else. Its methods are safe for concurrent use; none waits for an owner.
type Cluster interface {
	// Look tells who owns a partition; [ErrNotFound]: nobody has opened it yet.
	Look(ctx context.Context, partition int) (Partition, error)
	// Partitions tells of all that were opened ever, by number.
	Partitions(ctx context.Context) ([]Partition, error)
	// Claim opens a partition if its owner has given no sign of life since it was seen, or has given it back and nobody
	// has claimed it since: what it was seen like is compared, and changed, in one step. [ErrClaimed]: it is not
	// like that any more. [ErrUnusable] and [ErrCorrupt]: it would fail again.
	Claim(ctx context.Context, c PartitionClaim) (Owned, error)
	// Register tells others of an instance. Another one of that name is replaced.
	Register(ctx context.Context, i Instance) error
	// Renew gives a sign of life of an instance and of the partitions that it owns, together: it waits for nobody who has one of them locked. It returns
	// those partitions of which none is known to be given, with an error and without: [Owned.Renew] of each gives one, or tells why not. [ErrFenced]: the
	// instance is registered no more; its partitions are renewed all the same.
	Renew(ctx context.Context, i Instance, owned ...Owned) (rest []Owned, err error)
	// Leave takes an instance out, if it is registered in that session.
	Leave(ctx context.Context, i Instance) error
	// Instances lists those that are registered, by name, alive or not.
	Instances(ctx context.Context) ([]Instance, error)
	// Drain says that an instance is to give back what it owns, or (on: false) that it need not. A new session of the instance
	// begins without. [ErrNotFound]: no instance of that name is registered.
	Drain(ctx context.Context, name string, on bool) error
	// Part says of an instance that ends what Drain says, if it is registered in that session: another one of that name goes on as it is.
	Part(ctx context.Context, i Instance) error
	// AcceptLoss says that a partition which was stopped since its database had lost commits goes on as it is: whoever looks at it next may claim it.
	// halted is [Partition.Halted] as it was read, so that no loss is accepted that nobody has read of. [ErrNotLost]: the partition is not stopped, or for
	// another reason; [ErrNotFound]: nobody has opened it yet.
	AcceptLoss(ctx context.Context, partition int, halted string) error
	// Rebalance tells all instances that are registered that partitions are to be where they should be, now.
	Rebalance(ctx context.Context) error
	// Layout tells how the database is divided; [ErrNotFound]: SetLayout was never called, and it is one partition, number 0.
	Layout(ctx context.Context) (Layout, error)
	// SetLayout divides a database of which no partition was opened yet, once; a second time it may be asked for the same. Else
	// [ErrDivided]. From then on programs that know of no layout open no partition, if there is more than one.
	SetLayout(ctx context.Context, l Layout) error
}

// Timed is a [Cluster] that tells its time.
type Timed interface {
	// Ahead tells how far the database's clock is ahead of this machine's (negative: behind it), and how far that may be wrong.
	Ahead(ctx context.Context) (by, within time.Duration, err error)
}
