package httpapi

import (
	"context"
	"crypto/sha256"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/shell"
)

// Bounds of the memory of deliveries. The window is twice the tolerance of the
// timestamps, so that a signed request cannot outlive its memory.
const (
	replayWindow = 10 * time.Minute
	maxReplays   = 100_000
)

// replayCache remembers deliveries of webhooks, so that one that comes twice is
// stored once and answered the same. It lives in memory, is bounded, and starts
// empty with the process: what a sender repeats after a restart, or after 100 000 other
// deliveries, is stored once more.
type replayCache struct {
	clock shell.Clock
	mu    sync.Mutex
	seen  map[[sha256.Size]byte]*delivery
	order []*delivery // oldest first
}

type delivery struct {
	key  [sha256.Size]byte
	done chan struct{} // closed once id and err stand
	id   uuid.UUID
	err  error
	at   time.Time
}

func newReplayCache(clock shell.Clock) *replayCache {
	return &replayCache{clock: clock, seen: make(map[[sha256.Size]byte]*delivery)}
}

// once calls store for the first of several equal deliveries, and gives its id
// to all of them. If store fails, the next one calls it.
func (c *replayCache) once(ctx context.Context, key string, store func() (uuid.UUID, error)) (id uuid.UUID, replayed bool, err error) {
	sum := sha256.Sum256([]byte(key)) // whatever the length of the sender's id
	for {
		d, mine := c.enter(sum)
		if mine {
			id, err := c.fill(d, store)
			return id, false, err
		}
		select {
		case <-d.done:
		case <-ctx.Done():
			return uuid.Nil, false, ctx.Err()
		}
		if d.err == nil {
			return d.id, true, nil
		}
	}
}

// enter finds a delivery, or makes it the caller's to fill.
func (c *replayCache) enter(key [sha256.Size]byte) (d *delivery, mine bool) {
	now := c.clock.Steady()
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.order) > 0 && (len(c.order) >= maxReplays || now.Sub(c.order[0].at) > replayWindow) {
		old := c.order[0]
		c.order = c.order[1:]
		if c.seen[old.key] == old {
			delete(c.seen, old.key)
		}
	}
	if d, ok := c.seen[key]; ok {
		return d, false
	}
	d = &delivery{key: key, done: make(chan struct{}), at: now}
	c.seen[key] = d
	c.order = append(c.order, d)
	return d, true
}

// fill stores, and forgets the delivery if that failed, also by a panic.
func (c *replayCache) fill(d *delivery, store func() (uuid.UUID, error)) (uuid.UUID, error) {
	d.err = context.Canceled
	defer func() {
		if d.err != nil {
			c.mu.Lock()
			if c.seen[d.key] == d {
				delete(c.seen, d.key)
			}
			c.mu.Unlock()
		}
		close(d.done)
	}()
	d.id, d.err = store()
	return d.id, d.err
}
