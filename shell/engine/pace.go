package engine

import "time"

// pace is how long deciding and syncing take of late. Deciding ahead only pays where it
// takes longer than the sync that goes on meanwhile: else those who are answered after the
// sync, and ask again, come too late for the next one and wait for two.
type pace struct {
	each time.Duration // to decide one thing
	sync time.Duration
}

// worth is the least time that a batch takes of which half is decided ahead: each batch costs
// something by itself, and where all processors are busy nothing is won.
const worth = 8 * time.Millisecond

func (p *pace) decided(many int, took time.Duration) {
	if many > 0 {
		p.each += (took/time.Duration(many) - p.each) / 8
	}
}

func (p *pace) synced(took time.Duration) { p.sync += (took - p.sync) / 8 }

// pays reports whether that many things are better decided while a sync goes on than after
// it. It is careful: a single one takes less time among many than what was measured of few.
func (p *pace) pays(many int) bool { return time.Duration(many)*p.each >= 2*p.sync }

// splits reports whether of that many things half are better left to the next batch, which
// is decided while the disk takes this one.
func (p *pace) splits(many int) bool {
	return many > 1 && p.pays(many/2) && time.Duration(many)*p.each >= worth
}
