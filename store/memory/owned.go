package memory

import (
	"context"
	"fmt"

	"github.com/orrery-go/orrery/store"
)

var _ store.Owned = (*Owned)(nil)

// Owned is a partition of a [Cluster] that is open.
type Owned struct {
	*Store
	process *Process
	part    *partition
	token   uint64

	failed  chan struct{}
	refuses error // why failed is closed; the cluster's lock guards it, as it does part
}

// wait implements fence.
func (o *Owned) wait() { o.process.wait() }

// pass implements fence.
func (o *Owned) pass(next *data) error {
	if err := o.process.cut(); err != nil {
		return err
	}
	c := o.process.c
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case o.refuses != nil:
		return o.refuses
	case c.away != nil:
		return c.away
	case o.part.owner != o:
		o.refuses = fmt.Errorf("partition %d: %w", o.part.row.Number, store.ErrFenced)
		close(o.failed)
		return o.refuses
	case next != nil:
		o.part.data = next
		o.part.row.Last++
		o.part.row.Beat++
	}
	return nil
}

// Token implements [store.Claimed].
func (o *Owned) Token() uint64 { return o.token }

// Failed implements [store.Failing].
func (o *Owned) Failed() <-chan struct{} { return o.failed }

// Failure implements [store.Failing].
func (o *Owned) Failure() error {
	o.process.c.mu.Lock()
	defer o.process.c.mu.Unlock()
	return o.refuses
}

// Renew implements [store.Owned].
func (o *Owned) Renew(ctx context.Context) error {
	_, err := o.begin(ctx, "renew")
	if err != nil {
		return err
	}
	defer o.open.Done()
	o.process.c.mu.Lock()
	defer o.process.c.mu.Unlock()
	if o.part.owner == o {
		o.part.row.Beat++
	}
	return nil
}

// Close implements [store.Store]: it gives the partition back, if the database answers.
func (o *Owned) Close() error {
	err := o.Store.Close()
	o.process.wait()
	if o.process.cut() != nil {
		return err // whoever opens the partition next waits for a lease
	}
	c := o.process.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.away == nil && o.part.owner == o {
		o.part.disown()
	}
	return err
}

// Fail makes the owner refuse everything from now on, as one does whose database was away for too long in a commit.
func (o *Owned) Fail(why error) {
	o.process.c.mu.Lock()
	defer o.process.c.mu.Unlock()
	if o.refuses == nil {
		o.refuses = why
		close(o.failed)
	}
}
