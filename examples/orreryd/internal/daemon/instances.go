package daemon

import (
	"context"
	"net/http"
	"time"

	"github.com/orrery-go/orrery/shell/fleet"
	"github.com/orrery-go/orrery/shell/fleet/forward"
)

// instances gives the daemons that are alive, each with what passes requests on to that daemon, whatever partitions it has.
func (h *host) instances(ctx context.Context) (map[string]http.Handler, error) {
	list, err := h.group.Instances(ctx)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	by := h.passing
	h.mu.Unlock()
	all := make(map[string]http.Handler)
	for _, i := range list {
		if !i.Alive {
			continue
		}
		if all[i.Name], err = by.toInstance(fixed{i.Name, i.Address}); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// fixed is one daemon, for what is asked of that one.
type fixed struct{ name, address string }

// State implements [forward.Member].
func (f fixed) State() fleet.State { return fleet.State{Owner: f.name, Address: f.address} }

// Changed implements [forward.Member]: nothing changes.
func (fixed) Changed() <-chan struct{} { return nil }

// instanceWait is how long a daemon is tried that is asked for what only it has.
const instanceWait = 2 * time.Second

// toInstance makes what passes requests on to one daemon.
func (f *forwarding) toInstance(m fixed) (http.Handler, error) {
	o := f.o
	o.Member, o.Wait = m, instanceWait
	return forward.New(o)
}
