package forward

import (
	"net/http"
	"sync"
	"time"
)

// Front answers at an address of a process, whether it works or stands by. It is safe for concurrent use.
type Front struct {
	f *Forwarder

	mu      sync.Mutex
	own     http.Handler
	changed chan struct{} // closed once own is another one
}

// NewFront makes one that passes requests on until [Front.Own] is called.
func NewFront(f *Forwarder) *Front { return &Front{f: f, changed: make(chan struct{})} }

// Own has h answer from now on, until stop is called: for the time of a [fleet.Term]. Requests that h has begun with by then end there.
func (f *Front) Own(h http.Handler) (stop func()) {
	f.set(h)
	return sync.OnceFunc(func() { f.set(nil) })
}

func (f *Front) set(h http.Handler) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.own = h
	close(f.changed)
	f.changed = make(chan struct{})
}

func (f *Front) now() (own http.Handler, changed <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.own, f.changed
}

// ServeHTTP implements [http.Handler]. While this process has the partition, and its own handler does not answer yet, or not any more, a request waits, at
// most [Options.Wait].
func (f *Front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	limit := time.NewTimer(f.f.o.Wait)
	defer limit.Stop()
	for {
		own, set := f.now()
		if own != nil {
			own.ServeHTTP(w, r)
			return
		}
		changed := f.f.o.Member.Changed()
		if !f.f.o.Member.State().Works {
			f.f.ServeHTTP(w, r)
			return
		}
		select {
		case <-set:
		case <-changed:
		case <-limit.C:
			Unavailable(w, "this process begins to work, or ends: nothing was done")
			return
		case <-r.Context().Done():
			return
		}
	}
}
