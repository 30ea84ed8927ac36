package shell

import "github.com/orrery-go/orrery/shell/engine"

// Limits keep one tenant's work from stopping another's. The zero value bounds
// nothing.
type Limits struct {
	// MaxLaneShare is the part of the slots of a tool, or of another lane, that one
	// tenant may hold of those that other tenants do not hold, but always one (default
	// 1: all). With 0.75 and 64 slots one tenant holds at most 48, a second one then at
	// most 12 of the other 16, and so on: a slot stays free for who has none, even if
	// nothing that runs ever ends.
	MaxLaneShare float64
	// Weights say how many slots of a lane a tenant has for one of another's while both
	// wait for some; a tenant that is not listed has 1.
	Weights map[Scope]int
	// Count has the engine count what each tenant has, for [Engine.Usage]. At the start
	// it reads all records once, beside its work.
	Count bool
}

// weights gives the weights by the names that the loop has for tenants.
func (l Limits) weights() map[string]int {
	out := make(map[string]int, len(l.Weights))
	for scope, n := range l.Weights { // order-free: it fills a map
		out[engine.ShareOf(scope)] = n
	}
	return out
}
