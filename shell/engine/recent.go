package engine

import (
	"sync"
	"time"
)

// RecentSpan is what [Recent] looks back on.
const RecentSpan = time.Minute

// Recent is what the loop did in the last [RecentSpan].
type Recent struct {
	Span    time.Duration // that it covers: shorter if the engine was made less than [RecentSpan] ago
	Batches uint64        // that were committed
	Inputs  uint64        // that changed something
	Lag     time.Duration // the longest that something due waited until the loop took it up
}

// recent counts what happens by seconds of the steady clock, of which it keeps as many as [RecentSpan] has. The loop
// notes each batch once; any goroutine may read.
type recent struct {
	mu    sync.Mutex
	begun time.Time
	slots [int(RecentSpan / time.Second)]recentSlot
}

type recentSlot struct {
	second          int64 // since begun
	batches, inputs uint64
	lag             time.Duration
}

// note counts a batch that was committed.
func (r *recent) note(now time.Time, inputs int, lag time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	second := int64(now.Sub(r.begun) / time.Second)
	s := &r.slots[int(second)%len(r.slots)]
	if s.second != second {
		*s = recentSlot{second: second}
	}
	s.batches++
	s.inputs += uint64(inputs)
	s.lag = max(s.lag, lag)
}

// snapshot sums up what was counted since so many seconds ago as there are slots: whole ones, and the one that is under way.
func (r *recent) snapshot(now time.Time) Recent {
	r.mu.Lock()
	defer r.mu.Unlock()
	since := now.Sub(r.begun)
	second := int64(since / time.Second)
	first := max(second-int64(len(r.slots))+1, 0)
	out := Recent{Span: since - time.Duration(first)*time.Second}
	for i := range r.slots {
		if s := &r.slots[i]; s.second >= first && s.second <= second {
			out.Batches += s.batches
			out.Inputs += s.inputs
			out.Lag = max(out.Lag, s.lag)
		}
	}
	return out
}
