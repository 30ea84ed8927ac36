package engine

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/orrery-go/orrery/store"
)

// register takes a claim of its own for this instance: the lowest number that is free.
func (l *loop) register(ctx context.Context) error {
	return l.e.store.Update(ctx, func(tx store.Tx) error {
		if err := noteIndexes(tx); err != nil {
			return err
		}
		if err := l.goOnFrom(tx); err != nil {
			return err
		}
		now := l.now()
		if err := l.cameBack(tx, l.wall()); err != nil {
			return err
		}
		for n := 0; ; n++ {
			name := ClaimPrefix + strconv.Itoa(n)
			if c, err := tx.Claim(name); err == nil && c.Holder != "" {
				continue // held, or its holder is gone: recoverLost deals with it
			}
			c, err := tx.Acquire(name, l.e.name, l.e.o.LeaseTTL, l.wall())
			if errors.Is(err, store.ErrClaimed) {
				continue
			}
			if err != nil {
				return err
			}
			l.claim, l.token = name, c.Token
			l.nextRenew = now.Add(l.renewEvery())
			lanes, err := tx.WaitingLanes()
			for _, name := range lanes {
				l.share(name).setWaiting(true)
			}
			_, err = store.Unreadable(err) // what cannot be read is set aside by the first batch
			return err
		}
	})
}

// goOnFrom notes when the last batch was, which may have been another process's.
func (l *loop) goOnFrom(tx store.Tx) error {
	seq, err := tx.Seq()
	if err != nil || seq == 0 {
		return err
	}
	l.last, err = timeOf(tx, seq)
	return err
}

// renewEvery is how often the instance gives a sign of life.
func (l *loop) renewEvery() time.Duration {
	return max(min(l.e.o.LeaseTTL/3, l.e.o.TickRate), min(time.Second, l.e.o.LeaseTTL/3))
}

func (l *loop) release() error {
	if l.lost != nil {
		return fmt.Errorf("the store was taken over: %w", l.lost)
	}
	err := l.e.store.Update(context.Background(), func(tx store.Tx) error {
		if err := tx.Release(l.claim, l.token); err != nil {
			return err
		}
		p := l.watch.presence()
		p.Stopped = l.wall()
		return p.note(tx)
	})
	if errors.Is(err, store.ErrFenced) {
		return nil // somebody took us for gone, and told the machines
	}
	if err != nil {
		return fmt.Errorf("release the instance's claim: %w", err)
	}
	return nil
}

// fenced: another instance took this one for gone and told the machines whose outer
// effects it carried out (R5). What runs here is cancelled, its results are dropped,
// and the instance starts afresh.
func (l *loop) fenced(err error) {
	l.e.log.Warn("another instance took over; dropping what runs here", "error", err, "running", len(l.running))
	l.dropAll()
	l.cache.init()
	l.lastSeq = 0
	l.beginOwn()
	if err := l.register(context.Background()); err != nil {
		l.failed(err)
	}
}
