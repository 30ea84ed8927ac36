package shell

import (
	"slices"

	"github.com/orrery-go/orrery/shell/engine"
)

// Histogram is a snapshot of a distribution of seconds.
type Histogram = engine.Histogram

// PhaseBuckets are the upper bounds, in seconds, of [RunbookStats.Phases].
var PhaseBuckets = [...]float64{0.01, 0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600, 6 * 3600, 24 * 3600}

// observed adds one observation to a distribution by [PhaseBuckets].
func observed(h Histogram, seconds float64) Histogram {
	if h.Counts == nil {
		h.Counts = make([]uint64, len(PhaseBuckets)+1)
	}
	i := 0
	for i < len(PhaseBuckets) && seconds > PhaseBuckets[i] {
		i++
	}
	h.Counts[i]++
	h.Sum += max(seconds, 0)
	return h
}

// cloned copies a distribution; one that has seen nothing has buckets, too.
func cloned(h Histogram) Histogram {
	if h.Counts == nil {
		h.Counts = make([]uint64, len(PhaseBuckets)+1)
	}
	h.Counts = slices.Clone(h.Counts)
	return h
}
