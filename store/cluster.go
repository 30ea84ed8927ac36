package store

import (
	"context"
	"errors"
	"time"
)

// ErrUnusable says that nobody opens the partition until a person has looked at it, for the reason that the error gives, or that
// this program never can. Trying again does not help.
var ErrUnusable = errors.New("the partition cannot be opened")

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
}

// Owned reports whether somebody owns the partition, alive or not.
func (p Partition) Owned() bool { return p.Session != "" }

// Instance is a process of a cluster, as it has registered itself.
type Instance struct {
	Name    string
	Session string // of its registration
	Address string
	Version string
	Beat    uint64 // grows with each [Cluster.Renew]
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
	// Renew gives a sign of life of an instance; [ErrFenced]: it is registered no more.
	Renew(ctx context.Context, i Instance) error
	// Leave takes an instance out, if it is registered in that session.
	Leave(ctx context.Context, i Instance) error
	// Instances lists those that are registered, by name, alive or not.
	Instances(ctx context.Context) ([]Instance, error)
}

// Timed is a [Cluster] that tells its time.
type Timed interface {
	// Ahead tells how far the database's clock is ahead of this machine's (negative: behind it), and how far that may be wrong.
	Ahead(ctx context.Context) (by, within time.Duration, err error)
}
