package shell

import (
	"sync"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/engine"
)

// Changes tells that something has changed, to who shows what is stored: no more than that, so that a
// reader who is slow misses nothing, and looks at what there is then. See [Engine.Changes].
type Changes struct {
	// C holds one element after a commit that has changed a machine. What changes until it is received from is
	// told with it.
	C <-chan struct{}

	c    chan struct{}
	sees func(core.State) bool
	of   *changeFeed
}

// Changes begins to tell of changes, from now on. If sees is not nil only those of machines for which it
// is true, as they are then or were at last, are told; it is called between two batches, so it must be quick. The caller closes what it gets. Safe for concurrent use.
func (e *Engine) Changes(sees func(core.State) bool) *Changes {
	c := make(chan struct{}, 1)
	w := &Changes{C: c, c: c, sees: sees, of: &e.changes}
	w.of.mu.Lock()
	defer w.of.mu.Unlock()
	if w.of.open == nil {
		w.of.open = make(map[*Changes]struct{})
	}
	w.of.open[w] = struct{}{}
	return w
}

// Close ends it. It may be called more than once.
func (w *Changes) Close() {
	w.of.mu.Lock()
	defer w.of.mu.Unlock()
	delete(w.of.open, w)
}

// changeFeed holds who is told of changes.
type changeFeed struct {
	mu   sync.Mutex
	open map[*Changes]struct{}
}

// tell tells of a batch. Who was told and has not looked yet costs nothing.
func (f *changeFeed) tell(committed engine.Committed) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for w := range f.open {
		if len(w.c) == 0 && w.concerns(committed.Changes) { // nobody else sends
			w.c <- struct{}{}
		}
	}
}

func (w *Changes) concerns(changes []core.Change) bool {
	if w.sees == nil {
		return len(changes) > 0
	}
	for _, ch := range changes {
		s := ch.After
		if s == nil {
			s = ch.Before
		}
		if s != nil && w.sees(s) {
			return true
		}
	}
	return false
}
