package engine

import "sync"

// Slots are what several engines of one process have in common, so that together they carry out no more outer effects of a lane at a time than
// [Options.Concurrency] says, which all of them have alike. The zero value is good for use. It is safe for concurrent use.
type Slots struct {
	mu    sync.Mutex
	lanes map[string]*sharedLane
}

type sharedLane struct {
	used int
	want map[chan<- struct{}]bool // who is told once one is free
}

// lane gives what is known of a lane. s.mu is held.
func (s *Slots) lane(name string) *sharedLane {
	la := s.lanes[name]
	if la == nil {
		if s.lanes == nil {
			s.lanes = make(map[string]*sharedLane)
		}
		la = &sharedLane{want: make(map[chan<- struct{}]bool)}
		s.lanes[name] = la
	}
	return la
}

// state gives how many slots of a lane are used by all engines.
func (s *Slots) state(name string) (used int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lane(name).used
}

// tell has who be told once a slot is given back that another engine uses.
func (s *Slots) tell(name string, who chan<- struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lane(name).want[who] = true
}

// take takes a slot, if one is free; if none is, who is told once one is.
func (s *Slots) take(name string, limit int, who chan<- struct{}) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	la := s.lane(name)
	if la.used >= limit {
		la.want[who] = true
		return false
	}
	la.used++
	return true
}

// give gives slots back.
func (s *Slots) give(name string, n int) {
	if n == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	la := s.lane(name)
	la.used -= n
	for who := range la.want { // order-free: each is told
		select {
		case who <- struct{}{}:
		default: // it was told, and has not looked yet
		}
	}
	clear(la.want)
}

// taken is how many slots of the lane are held, by all engines that share it.
func (la *lane) taken() int {
	if la.slots == nil {
		return la.running + la.reserved
	}
	return la.slots.state(la.name) - la.spare
}

// secure makes sure that a slot which is free is still so when it is reserved: other engines may take it.
func (la *lane) secure() bool {
	if la.slots == nil || la.spare > 0 {
		return true
	}
	if !la.slots.take(la.name, la.limit, la.freed) {
		return false
	}
	la.spare++
	return true
}

// unused gives back the slots that were secured and not reserved.
func (l *loop) unused() {
	for _, la := range l.lanes { // order-free: they share nothing
		if la.slots != nil {
			la.slots.give(la.name, la.spare)
			la.spare = 0
		}
	}
}

// giveSlots gives all slots back, at the end of the loop: what is left behind holds none.
func (l *loop) giveSlots() {
	for _, la := range l.lanes { // order-free: they share nothing
		if la.slots != nil {
			la.slots.give(la.name, la.running+la.reserved+la.spare)
			la.slots = nil
		}
	}
}
