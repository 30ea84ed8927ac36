package jobs

import (
	"maps"
	"math"
	"slices"
	"sync"

	"github.com/orrery-go/orrery/shell"
)

// Rooms are what the services of several engines of one process have in common, so that together their runners have no more pods that live at a time
// than [Options.MaxPods] says, which all of them have alike: as [shell.Slots] are for lanes. Whose turn it is, is decided over the tenants of all of them. The zero value is
// good for use. It is safe for concurrent use.
type Rooms struct {
	mu    sync.Mutex
	rooms map[string]*room // by runner
}

// of gives the room of a runner; without Rooms, one of its own.
func (r *Rooms) of(runner string) *room {
	if r == nil {
		return newRoom()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.rooms == nil {
		r.rooms = make(map[string]*room)
	}
	in := r.rooms[runner]
	if in == nil {
		in = newRoom()
		r.rooms[runner] = in
	}
	return in
}

// room is where the places of one runner are, for one service or several.
type room struct {
	mu      sync.Mutex
	living  int // pods of all
	tenants map[tenantAt]*placesOf
	pass    float64 // of the tenant that was last given a place
}

type tenantAt struct {
	scope shell.Scope
	at    *places // pods of no run are of the same scope in all
}

func compareTenants(a, b tenantAt) int { return a.scope.Compare(b.scope) }

func newRoom() *room { return &room{tenants: make(map[tenantAt]*placesOf)} }

// first gives the tenant that waits and is served next: one that holds the fewest places for
// its weight, and among equals they take turns. Nil: none may have a place now. Under the lock.
func (r *room) first() (best *placesOf) {
	least, pass := math.Inf(1), 0.0
	for _, key := range slices.SortedFunc(maps.Keys(r.tenants), compareTenants) {
		t := r.tenants[key]
		load := float64(t.held) / t.at.weight(key.scope)
		if t.at.known && len(t.queue) > 0 && t.at.mayTake(t) && (best == nil || load < least || load == least && t.pass < pass) {
			best, least, pass = t, load, t.pass
		}
	}
	return best
}

// wakeNext has the service of the tenant that is served next look; under the lock.
func (r *room) wakeNext() {
	if t := r.first(); t != nil {
		t.at.wakeUp()
	}
}

// leave gives back what the service holds of the room, at its end: what lives is the next owner's, and what waits.
func (p *places) leave() {
	p.room.mu.Lock()
	defer p.room.mu.Unlock()
	p.known, p.left = false, true
	p.room.living -= len(p.living)
	clear(p.living)
	clear(p.waiting)
	maps.DeleteFunc(p.room.tenants, func(key tenantAt, _ *placesOf) bool { return key.at == p })
	p.room.wakeNext()
}
