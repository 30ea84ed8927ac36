package jobs

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/engine"
)

// places are the room that one runner has for pods that live at a time. An attempt that
// finds none waits here: its effect is answered, so that it holds no slot of the lane,
// which deletions need to make room. Its run is marked as queued in the store, from where
// a restart has it again.
type places struct {
	limit   int // 0: no bound, and nothing is counted
	share   float64
	weights map[shell.Scope]int
	wake    chan struct{} // holds a token while somebody is to look for who is next

	room    *room // whose mutex guards what follows
	known   bool  // what lives is known; before, all wait
	left    bool  // the service has ended
	living  map[Attempt]shell.Scope
	ended   map[Attempt]bool // have ended, or are gone, since before what lives was known
	waiting map[Attempt]shell.Scope
	turn    map[Attempt]shell.Scope        // have waited, and are created now or next
	making  map[Attempt]context.CancelFunc // creations of attempts that have waited
}

// placesOf is what one tenant has of the places.
type placesOf struct {
	at    *places
	held  int
	queue []Attempt
	pass  float64 // grows by 1/weight with each place that it is given (stride scheduling)
}

func newPlaces(in *room, limit int, share float64, weights map[shell.Scope]int) *places {
	return &places{
		room: in, limit: limit, share: share, weights: weights, wake: make(chan struct{}, 1),
		living: make(map[Attempt]shell.Scope), ended: make(map[Attempt]bool), waiting: make(map[Attempt]shell.Scope),
		turn: make(map[Attempt]shell.Scope), making: make(map[Attempt]context.CancelFunc),
	}
}

// most is how many places a tenant may hold while no other holds one.
func (p *places) most() int { return max(1, int(p.share*float64(p.limit))) }

// whyWait says why an attempt of the runner of that name waits.
func (p *places) whyWait(name string) string {
	if !p.isKnown() {
		return fmt.Sprintf("runner %q has just been started, and what pods it has is not known yet", name)
	}
	said := fmt.Sprintf("runner %q has room for %d pods at a time", name, p.limit)
	if most := p.most(); most < p.limit {
		said += fmt.Sprintf(", and for %d of one tenant at most", most)
	}
	return said
}

// take gives an attempt a place, unless it must wait. One that has a place keeps it.
func (p *places) take(a Attempt, of shell.Scope) bool {
	if p.limit == 0 {
		return true
	}
	p.room.mu.Lock()
	defer p.room.mu.Unlock()
	if _, lives := p.living[a]; lives {
		return true
	}
	if !p.known || !p.mayTake(p.of(of)) || p.room.first() != nil {
		return false
	}
	p.hold(a, of)
	return true
}

// await has an attempt wait for a place; false: it has one.
func (p *places) await(a Attempt, of shell.Scope) bool {
	p.room.mu.Lock()
	defer p.room.mu.Unlock()
	return p.enqueue(a, of)
}

// enqueue is await; under the lock.
func (p *places) enqueue(a Attempt, of shell.Scope) bool {
	if _, lives := p.living[a]; lives {
		return false
	}
	if _, waits := p.waiting[a]; waits || p.left {
		return true
	}
	p.waiting[a] = of
	t := p.of(of)
	t.queue = append(t.queue, a)
	p.wakeUp()
	return true
}

// next gives a place to the attempt whose turn it is.
func (p *places) next() (a Attempt, ok bool) {
	p.room.mu.Lock()
	defer p.room.mu.Unlock()
	if !p.known {
		return a, false
	}
	t := p.room.first()
	if t == nil {
		return a, false
	}
	if t.at != p {
		t.at.wakeUp()
		return a, false
	}
	a, t.queue = t.queue[0], t.queue[1:]
	of := p.waiting[a]
	delete(p.waiting, a)
	p.turn[a] = of
	if p.limit > 0 {
		p.hold(a, of)
	}
	return a, true
}

// waits reports whether an attempt waits for a place, or is created after having waited.
func (p *places) waits(a Attempt) bool {
	p.room.mu.Lock()
	defer p.room.mu.Unlock()
	_, waits := p.waiting[a]
	_, turn := p.turn[a]
	return waits || turn
}

// isKnown reports whether it is known who waits.
func (p *places) isKnown() bool {
	p.room.mu.Lock()
	defer p.room.mu.Unlock()
	return p.known
}

// served says that the attempt's turn is over.
func (p *places) served(a Attempt) {
	p.room.mu.Lock()
	defer p.room.mu.Unlock()
	delete(p.turn, a)
}

// again has an attempt that has its turn, which is over, wait for another one. That may come at once.
func (p *places) again(a Attempt) {
	p.room.mu.Lock()
	defer p.room.mu.Unlock()
	of, waited := p.turn[a]
	if !waited {
		of = p.living[a]
	}
	delete(p.turn, a)
	p.release(a)
	p.enqueue(a, of)
}

// of gives what a tenant has; under the lock.
func (p *places) of(scope shell.Scope) *placesOf {
	key := tenantAt{scope, p}
	t := p.room.tenants[key]
	if t == nil {
		t = &placesOf{at: p, pass: p.room.pass}
		p.room.tenants[key] = t
	}
	return t
}

func (p *places) mayTake(t *placesOf) bool {
	return p.limit == 0 || engine.MayTakeSlot(t.held, p.room.living-t.held, p.limit, p.share)
}

func (p *places) weight(scope shell.Scope) float64 { return float64(max(p.weights[scope], 1)) }

// hold gives a place; under the lock.
func (p *places) hold(a Attempt, of shell.Scope) {
	t := p.of(of)
	p.room.pass = max(p.room.pass, t.pass)
	t.pass = p.room.pass + 1/p.weight(of)
	t.held++
	p.room.living++
	p.living[a] = of
}

// free frees the place of an attempt whose pod has ended or is gone. What is being listed meanwhile as what lives may be of before.
func (p *places) free(a Attempt) {
	p.room.mu.Lock()
	defer p.room.mu.Unlock()
	if !p.known && !p.left && p.limit > 0 {
		p.ended[a] = true
	}
	p.release(a)
}

// freeWhere frees the places of the attempts that are gone.
func (p *places) freeWhere(gone func(Attempt) bool) {
	p.room.mu.Lock()
	living := slices.Collect(maps.Keys(p.living))
	p.room.mu.Unlock()
	for _, a := range living { // order-free: each by itself
		if gone(a) {
			p.free(a)
		}
	}
}

// release is free; under the lock.
func (p *places) release(a Attempt) {
	of, lives := p.living[a]
	if !lives {
		return
	}
	delete(p.living, a)
	p.of(of).held--
	p.room.living--
	p.drop(of)
	p.wakeUp()
	p.room.wakeNext()
}

// drop forgets a tenant that has nothing and waits for nothing.
func (p *places) drop(of shell.Scope) {
	if t := p.of(of); t.held == 0 && len(t.queue) == 0 {
		delete(p.room.tenants, tenantAt{of, p})
	}
}

// withdraw says that nobody wants an attempt any more: it does not wait, and its creation
// ends.
func (p *places) withdraw(a Attempt) {
	p.room.mu.Lock()
	defer p.room.mu.Unlock()
	if of, waits := p.waiting[a]; waits {
		p.unqueue(a, of)
		p.drop(of)
	}
	if cancel := p.making[a]; cancel != nil {
		cancel()
	}
}

// unqueue takes an attempt out of those that wait; under the lock.
func (p *places) unqueue(a Attempt, of shell.Scope) {
	t := p.of(of)
	t.queue = slices.DeleteFunc(t.queue, func(other Attempt) bool { return other == a })
	delete(p.waiting, a)
}

// make bounds the creation of an attempt that has waited: it ends when that is withdrawn.
func (p *places) make(ctx context.Context, a Attempt) (_ context.Context, done func()) {
	ctx, cancel := context.WithCancel(ctx)
	p.room.mu.Lock()
	defer p.room.mu.Unlock()
	p.making[a] = cancel
	return ctx, func() {
		cancel()
		p.room.mu.Lock()
		defer p.room.mu.Unlock()
		delete(p.making, a)
	}
}

// learn says what lives: attempts that the runner holds, but for those that have ended or are gone. Those of them that had begun to wait for a place
// have one: it gives them, whose turn it is.
func (p *places) learn(held map[Attempt]shell.Scope) (turn []Attempt) {
	p.room.mu.Lock()
	defer p.room.mu.Unlock()
	for a, of := range held { // order-free: each is created by itself
		if _, lives := p.living[a]; lives || p.ended[a] || p.limit == 0 {
			continue
		}
		p.hold(a, of)
		if of, waits := p.waiting[a]; waits {
			p.unqueue(a, of)
			p.turn[a] = of
			turn = append(turn, a)
		}
	}
	p.known = true
	clear(p.ended)
	p.wakeUp()
	return turn
}

func (p *places) wakeUp() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// Pods are what one runner has of pods, see [Options.MaxPods].
type Pods struct {
	Max     int // that may live at a time
	Living  int // that were created and have not ended; also those that were there before
	Waiting int // attempts of runs that wait for room
}

// Pods tells of each runner whose pods are bounded.
func (s *Service) Pods() map[string]Pods {
	out := make(map[string]Pods)
	for name, p := range s.places {
		if p.limit > 0 {
			p.room.mu.Lock()
			out[name] = Pods{Max: p.limit, Living: len(p.living), Waiting: len(p.waiting)}
			p.room.mu.Unlock()
		}
	}
	return out
}
