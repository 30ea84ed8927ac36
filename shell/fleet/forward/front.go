package forward

import (
	"net/http"
	"sync"
	"time"
)

// Front answers at an address of a process, whether it works or stands by. It is safe for concurrent use.
type Front struct {
	mu      sync.Mutex
	f       *Forwarder
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

// Pass has requests be passed on by another Forwarder from now on, of other settings. Requests under way go on by the one before.
func (f *Front) Pass(by *Forwarder) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.f = by
}

func (f *Front) now() (own http.Handler, passes *Forwarder, changed <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.own, f.f, f.changed
}

// ServeHTTP implements [http.Handler]. While this process has the partition, and its own handler does not answer yet, or not any more, a request waits, at
// most [Options.Wait].
func (f *Front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, passes, _ := f.now()
	limit := time.NewTimer(passes.o.Wait)
	defer limit.Stop()
	for {
		own, _, set := f.now()
		if own != nil {
			own.ServeHTTP(w, r)
			return
		}
		changed := passes.o.Member.Changed()
		if !passes.o.Member.State().Works {
			passes.ServeHTTP(w, r)
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
