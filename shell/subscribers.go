package shell

import (
	"context"

	"github.com/orrery-go/orrery/core"
)

// Subscribers are the calls for the event bus, which keeps the list of its
// subscribers.
type Subscribers struct{ e *Engine }

// Subscribers gives the calls for the event bus. [Engine.Subscribe] listens to the
// same events inside this process.
func (e *Engine) Subscribers() Subscribers { return Subscribers{e} }

// Send gives an event to the event bus: a subscription, or an announcement from
// outside. It returns the bus with its subscribers.
func (s Subscribers) Send(ctx context.Context, ev core.BusEvent) (core.Bus, error) {
	return sendTo[core.Bus](ctx, s.e, core.BusRef(), ev)
}

// Get reads the event bus; the zero Bus if nobody ever subscribed.
func (s Subscribers) Get(ctx context.Context) (core.Bus, error) {
	return readAs[core.Bus](ctx, s.e, core.BusRef())
}
