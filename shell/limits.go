package shell

import (
	"time"

	"github.com/orrery-go/orrery/shell/engine"
)

// Limits keep one tenant's work from stopping another's. The zero value bounds
// nothing.
type Limits struct {
	// MaxLaneShare is the part of the slots of a tool, or of another lane, that one
	// tenant may hold of those that other tenants do not hold, but always one (default
	// 1: all). With 0.75 and 64 slots one tenant holds at most 48, a second one then at
	// most 12 of the other 16, a third one 3, and a fourth one the last: so three leave a
	// slot free for who has none, four do not.
	MaxLaneShare float64
	// Weights say how many slots of a lane a tenant has for one of another's while both
	// wait for some; a tenant that is not listed has 1.
	Weights map[Scope]int
	// MaxTimeout bounds the time of a run of a tool, whatever its action asks for, and also
	// if it asks for none (default 0: no bound); MaxTimeouts those of some tenants, 0 for
	// none. An action that was stored before is bound from its next run on.
	MaxTimeout  time.Duration
	MaxTimeouts map[Scope]time.Duration
	// Count has the engine count what each tenant has, for [Engine.Usage]. At the start
	// it reads all records once, part by part and beside its work: see [Engine.UsageState].
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

// timeout gives the time limit of a run that asks for one; 0: none.
func (l Limits) timeout(of Scope, asked time.Duration) time.Duration {
	most, own := l.MaxTimeouts[of]
	if !own {
		most = l.MaxTimeout
	}
	if most > 0 && (asked == 0 || asked > most) {
		return most
	}
	return asked
}
