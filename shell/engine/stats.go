package engine

import (
	"context"
	"sort"
	"sync/atomic"

	"github.com/orrery-go/orrery/store"
)

// counters count what happens. All of it is in memory: it starts at zero with the
// process, as counters of a metrics system do.
type counters struct {
	ticks, batches, inputs, inputErrors, refused  atomic.Uint64
	commitErrors, quarantined, recovered, expired atomic.Uint64
	expiredEarly, repeated                        atomic.Uint64
	scrubbed, scrubWalks, deferred                atomic.Uint64
	deferredNow, running                          atomic.Int64
	lateness                                      histogram
	recent                                        recent
}

// LatenessBuckets are the upper bounds, in seconds, of [Stats.Lateness].
var LatenessBuckets = [...]float64{0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300}

// histogram counts seconds in buckets. Only the loop observes; any may read.
type histogram struct {
	counts [len(LatenessBuckets) + 1]atomic.Uint64
	micros atomic.Uint64
}

func (h *histogram) observe(seconds float64) {
	h.counts[sort.SearchFloat64s(LatenessBuckets[:], seconds)].Add(1)
	h.micros.Add(uint64(max(seconds, 0) * 1e6))
}

// Histogram is a snapshot of a distribution of seconds.
type Histogram struct {
	Counts []uint64 // one for each bucket, then one for what is above them; not cumulative
	Sum    float64  // seconds
}

func (h *histogram) snapshot() Histogram {
	out := Histogram{Counts: make([]uint64, len(h.counts)), Sum: float64(h.micros.Load()) / 1e6}
	for i := range h.counts {
		out.Counts[i] = h.counts[i].Load()
	}
	return out
}

// Stats is what the engine has counted since it was made.
type Stats struct {
	Ticks, Batches, Inputs, InputErrors, Refused  uint64
	CommitErrors, Quarantined, Recovered, Expired uint64
	ExpiredEarly                                  uint64    // records that went before their retention ended: their tenant had too many
	Repeated                                      uint64    // requests that were answered as before ([WithOnce])
	Scrubbed, ScrubWalks                          uint64    // records that the scrub has read, and its whole walks
	Deferred                                      uint64    // starts that failed for want of something, and were or will be tried again
	DeferredNow                                   int64     // executions that wait for their start now
	Running                                       int64     // executions under way in this process
	Lateness                                      Histogram // by [LatenessBuckets]
	Recent                                        Recent    // what the loop did in the last minute
	JournalSeq                                    uint64    // of the store
}

// Running is how many executions are under way in this process. It reads no store, so it counts also those that go on after the store was given back.
func (e *Engine) Running() int64 { return e.stats.running.Load() }

// Stats reads the counters. It costs a short read transaction, in which count, if
// there is one, reads more.
func (e *Engine) Stats(ctx context.Context, count func(store.ReadTx) error) (Stats, error) {
	s := &e.stats
	out := Stats{
		Ticks: s.ticks.Load(), Batches: s.batches.Load(), Inputs: s.inputs.Load(),
		InputErrors: s.inputErrors.Load(), Refused: s.refused.Load(),
		CommitErrors: s.commitErrors.Load(), Quarantined: s.quarantined.Load(),
		Deferred: s.deferred.Load(), DeferredNow: s.deferredNow.Load(),
		Scrubbed: s.scrubbed.Load(), ScrubWalks: s.scrubWalks.Load(),
		Recovered: s.recovered.Load(), Expired: s.expired.Load(), ExpiredEarly: s.expiredEarly.Load(), Repeated: s.repeated.Load(),
		Running: s.running.Load(), Lateness: s.lateness.snapshot(), Recent: s.recent.snapshot(e.o.Clock.Steady()),
	}
	err := e.store.View(ctx, func(tx store.ReadTx) (err error) {
		if count != nil {
			if err := count(tx); err != nil {
				return err
			}
		}
		out.JournalSeq, err = tx.Seq()
		return err
	})
	return out, err
}
