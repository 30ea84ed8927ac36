package engine

import (
	"cmp"
	"container/heap"
	"slices"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/store"
)

// lane bounds the outer effects of one sort that are carried out at a time, and shares
// its slots between tenants: a free one goes to the tenant that holds the fewest for
// its weight, and among equals they take turns, as often as their weights say. What
// tenants wait for stands in one queue of the store for each of them, in order.
type lane struct {
	limit    int                   // its slots
	running  int                   // executions under way
	reserved int                   // slots that the batch takes which is being built
	shares   map[string]*share     // by the names of their queues
	byScope  map[core.Scope]*share // the same, of tenants that have asked here
	waiting  shareHeap
	pass     float64 // of the share that was last given a slot

	// What it shares with the other engines of the process; slots nil: nothing.
	slots *Slots
	name  string
	spare int             // slots that were secured for the batch which is being built
	freed chan<- struct{} // is told when others have given one back
}

// share is what one tenant has of a lane.
type share struct {
	lane     *lane
	queue    string // its name in the store, see [store.ShareLane]
	scope    core.Scope
	weight   float64
	running  int
	reserved int
	pass     float64 // grows by 1/weight with each slot that it is given (stride scheduling)
	at       int     // in the heap of those that wait; -1: the outbox holds nothing of it that was not handed out
}

// held is how many slots of the lane the share has, with those that the batch reserves.
func (s *share) held() int { return s.running + s.reserved }

func (s *share) waits() bool { return s.at >= 0 }

func (la *lane) free() int { return la.limit - la.taken() }

// mayTake reports whether the share may have one more slot of its lane, however many
// others hold theirs for long.
func (s *share) mayTake(most float64) bool {
	own := s.held()
	return MayTakeSlot(own, s.lane.taken()-own, s.lane.limit, most)
}

// MayTakeSlot reports whether a tenant that holds own of limit slots, of which other
// tenants hold others, may have one more. Of the slots that others do not hold it may have
// the part most: so the last ones stay free for a tenant that has none. A tenant that has
// none may take any free slot.
func MayTakeSlot(own, others, limit int, most float64) bool {
	return own+others < limit && (own == 0 || own < int(most*float64(limit-others)))
}

// canServe reports whether a share that waits may have a slot of the lane.
func (la *lane) canServe(most float64) bool {
	if len(la.waiting) == 0 {
		return false
	}
	if la.slots != nil { // before it is looked: what is given back meanwhile is told. A tenant may have to wait for it also while slots are free
		la.slots.tell(la.name, la.freed)
	}
	return la.free() > 0 && slices.ContainsFunc(la.waiting, func(s *share) bool { return s.mayTake(most) })
}

// lane gives the lane of that name.
func (l *loop) lane(name string) *lane {
	if la, ok := l.lanes[name]; ok {
		return la
	}
	limit, ok := l.e.o.Concurrency[name]
	if !ok {
		limit = l.e.o.DefaultConcurrency
	}
	la := &lane{
		limit: limit, shares: make(map[string]*share), byScope: make(map[core.Scope]*share),
		slots: l.e.o.Slots, name: name, freed: l.freed,
	}
	l.lanes[name] = la
	return la
}

// share gives the share of a lane whose queue in the store has that name.
func (l *loop) share(queue string) *share {
	name, of := store.SplitLane(queue)
	la := l.lane(name)
	if s, ok := la.shares[queue]; ok {
		return s
	}
	s := &share{lane: la, queue: queue, weight: float64(cmp.Or(l.e.o.Weights[of], 1)), pass: la.pass, at: -1}
	la.shares[queue] = s
	return s
}

// shareOf gives a tenant's share of the lane of that name.
func (l *loop) shareOf(name string, scope core.Scope) *share {
	la := l.lane(name)
	if s, ok := la.byScope[scope]; ok {
		return s
	}
	s := l.share(store.ShareLane(name, ShareOf(scope)))
	s.scope = scope
	la.byScope[scope] = s
	return s
}

// ShareOf names the share that a tenant has of each lane, as [Options.Weights] has it.
func ShareOf(s core.Scope) string {
	if s == (core.Scope{}) {
		return ""
	}
	return s.Namespace + "\x1f" + s.Tenant
}

// setWaiting notes whether the outbox may hold entries of the share that wait.
func (s *share) setWaiting(waits bool) {
	switch {
	case waits && !s.waits():
		heap.Push(&s.lane.waiting, s)
	case !waits && s.waits():
		heap.Remove(&s.lane.waiting, s.at)
	}
	s.drop()
}

// maxIdle is how many shares a lane remembers: tenants come back.
const maxIdle = 64

// drop forgets a share that has nothing and waits for nothing, if there are many.
func (s *share) drop() {
	if s.held() == 0 && !s.waits() && len(s.lane.shares) > maxIdle {
		delete(s.lane.shares, s.queue)
		if s.lane.byScope[s.scope] == s {
			delete(s.lane.byScope, s.scope)
		}
	}
}

// reserve gives the share one more slot, or takes it back, for the batch that is being
// built.
func (l *loop) reserve(s *share, slots int) {
	if s.reserved == 0 {
		l.reserved = append(l.reserved, s)
	}
	if slots > 0 {
		s.lane.pass = max(s.pass, s.lane.pass)
		s.pass = s.lane.pass + 1/s.weight
	}
	s.reserved += slots
	s.lane.reserved += slots
	if s.lane.slots != nil {
		s.lane.spare -= slots
	}
	s.moved()
}

// moved restores the order of those that wait after the share's slots have changed.
func (s *share) moved() {
	if s.waits() {
		heap.Fix(&s.lane.waiting, s.at)
	}
}

// unreserve forgets what a batch that was not committed has reserved.
func (l *loop) unreserve() {
	for _, s := range l.reserved {
		if s.lane.slots != nil {
			s.lane.spare += s.reserved
		}
		s.lane.reserved -= s.reserved
		s.reserved = 0
		s.moved()
		s.drop()
	}
	l.reserved = l.reserved[:0]
	l.unused()
}

// occupy turns what the batch has reserved into slots that are held.
func (l *loop) occupy() {
	for _, s := range l.reserved {
		n := s.reserved
		s.running, s.reserved = s.running+n, 0
		s.lane.running, s.lane.reserved = s.lane.running+n, s.lane.reserved-n
		s.drop()
	}
	l.reserved = l.reserved[:0]
	l.unused()
}

// vacate frees the slot of an execution.
func (l *loop) vacate(queue string) {
	s := l.share(queue)
	s.running--
	s.lane.running--
	if s.lane.slots != nil {
		s.lane.slots.give(s.lane.name, 1)
	}
	s.moved()
	s.drop()
}

// canStartWaiting reports whether a lane in which entries wait has a slot for them.
func (l *loop) canStartWaiting() bool {
	for _, la := range l.lanes {
		if la.canServe(l.e.o.MaxLaneShare) {
			return true
		}
	}
	return false
}

// shareHeap has on top whose turn it is.
type shareHeap []*share

// Len is how many wait.
func (h shareHeap) Len() int { return len(h) }

// Less says who comes first.
func (h shareHeap) Less(i, j int) bool {
	a, b := h[i], h[j]
	return cmp.Or(
		cmp.Compare(float64(a.held())/a.weight, float64(b.held())/b.weight),
		cmp.Compare(a.pass, b.pass), cmp.Compare(a.queue, b.queue)) < 0
}

// Swap exchanges two.
func (h shareHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].at, h[j].at = i, j
}

// Push adds one.
func (h *shareHeap) Push(x any) {
	s := x.(*share) //nolint:forcetypeassert // the heap holds nothing else
	s.at = len(*h)
	*h = append(*h, s)
}

// Pop takes the last one off.
func (h *shareHeap) Pop() any {
	last := len(*h) - 1
	s := (*h)[last]
	(*h)[last] = nil
	*h, s.at = (*h)[:last], -1
	return s
}
