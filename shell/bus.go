package shell

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/engine"
)

// maxHeartbeatEvery is the longest that may pass between two heartbeats of an engine.
const maxHeartbeatEvery = 24 * time.Hour

// checkBus lists what is wrong with what concerns the bus.
func (o Options) checkBus() (errs []error) {
	for _, name := range slices.Sorted(maps.Keys(o.Subscribers)) {
		if name == "" || o.Subscribers[name] == nil {
			errs = append(errs, fmt.Errorf("shell: Options.Subscribers[%q]: give a name and a subscriber that is not nil", name))
		}
	}
	if d := o.HeartbeatEvery; d < 0 || d > maxHeartbeatEvery || d%time.Millisecond != 0 {
		errs = append(errs, fmt.Errorf("shell: Options.HeartbeatEvery is %s: it must be a whole number of milliseconds from 0 to %s", d, maxHeartbeatEvery))
	}
	return errs
}

// ownInputs are what the engine tells the bus by itself: which subscribers the program has, that those of other
// tenants belong to the buses of these, and that it is at work.
func (o Options) ownInputs() []engine.OwnInput {
	names := slices.Sorted(maps.Keys(o.Subscribers))
	own := []engine.OwnInput{{Input: func(string) core.Input {
		return core.Input{To: core.BusRef(), Actor: "engine", Event: core.BusRegister{Names: names}}
	}}, {Input: func(string) core.Input { // of a database from before each tenant had a bus
		return core.Input{To: core.BusRef(), Actor: "engine", Event: core.BusDivide{}}
	}}}
	if o.HeartbeatEvery > 0 {
		own = append(own, engine.OwnInput{Every: o.HeartbeatEvery, Input: func(instance string) core.Input {
			id, _ := uuid.Parse(instance) // all zeros where the name is no UUID
			return core.Input{To: core.BusRef(), Actor: "clock", Event: core.BusHeartbeat{Instance: id, EveryMS: o.HeartbeatEvery.Milliseconds()}}
		}})
	}
	return own
}
