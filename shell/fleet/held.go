package fleet

import (
	"sync"
	"time"

	"github.com/orrery-go/orrery/shell/engine"
)

// held is what a process knows of its claim to a partition. Others take the partition over once they have seen no sign of life for a lease, so nobody has as long as
// the last one that the database took was sent less than a lease ago.
type held struct {
	clock engine.Clock
	lease time.Duration

	mu   sync.Mutex
	sent moment // not after a sign of life that the database has taken
	gave bool   // the partition was given back, in order
}

// moment is a reading of the steady clock, which stands still while the machine is suspended, and of how long it was.
type moment struct {
	steady    time.Time
	suspended time.Duration // below 0: not known
}

func momentOf(c engine.Clock) moment {
	m := moment{steady: c.Steady(), suspended: -1}
	if s, ok := c.(engine.SuspendClock); ok {
		m.suspended = s.Suspended()
	}
	return m
}

// since tells how much time has passed since an earlier one.
func (m moment) since(earlier moment) time.Duration {
	d := m.steady.Sub(earlier.steady)
	if m.suspended >= 0 && earlier.suspended >= 0 {
		d += max(0, m.suspended-earlier.suspended)
	}
	return d
}

// lives notes that the database has taken a sign of life that was sent at that moment or later.
func (h *held) lives(sent moment) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if sent.since(h.sent) > 0 {
		h.sent = sent
	}
}

// givenBack notes that nobody has taken the partition from this process: what it carries out on is its own.
func (h *held) givenBack() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.gave = true
}

// surely reports whether no other process can have taken the partition over. A tenth of the lease is left out: clocks of two machines do not run alike, and
// what the caller does on the answer takes a moment.
func (h *held) surely() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.gave || momentOf(h.clock).since(h.sent) < h.lease-h.lease/10
}
