package engine

import "time"

// maxStint is how long one part of a batch goes on deciding before it leaves the rest to the
// next batch. Whoever asks in the meantime waits for the batch under way: a few requests that
// take long to decide must not stand between two commits.
const maxStint = 25 * time.Millisecond

// stint is the time of one part of a batch.
type stint struct {
	l     *loop
	begin time.Time
	most  time.Duration
	any   bool
}

func (l *loop) newStint() stint { return stint{l: l, begin: l.now(), most: maxStint} }

// over reports whether the part ends here. It is asked before each thing to do, and lets the
// first one through: each part of each batch goes on by one at least.
func (s *stint) over() bool {
	if !s.any {
		s.any = true
		return false
	}
	return s.l.now().Sub(s.begin) > s.most
}

// inTurns orders requests so that each actor has its turn: first the first one of each, then
// the second ones, and so on. Those of one actor stay in the order in which they came, so
// that an actor with much that takes long is passed by those with little.
func inTurns(requests []*request) []*request {
	if sameActor(requests) { // as nearly always
		return requests
	}
	var actors []string
	of := make(map[string][]*request)
	for _, r := range requests {
		a := r.actor()
		if len(of[a]) == 0 {
			actors = append(actors, a)
		}
		of[a] = append(of[a], r)
	}
	out := requests[:0]
	for n := 0; len(out) < len(requests); n++ {
		for _, a := range actors {
			if n < len(of[a]) {
				out = append(out, of[a][n])
			}
		}
	}
	return out
}

func sameActor(requests []*request) bool {
	for _, r := range requests {
		if r.actor() != requests[0].actor() {
			return false
		}
	}
	return true
}

// actor gives who asks; nothing where that is the system itself.
func (r *request) actor() string {
	if len(r.Inputs) == 0 {
		return ""
	}
	return r.Inputs[0].Actor
}
