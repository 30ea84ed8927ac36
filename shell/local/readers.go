//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package local

import (
	"context"
	"sync"
	"time"
)

// readers counts who follows the logs of pods that are about to be deleted, by the pods'
// names: the files of a pod go when its last reader has read them. The zero value works.
type readers struct {
	mu    sync.Mutex
	of    map[string]int
	fewer chan struct{} // closed and replaced when one has ended
}

// add counts a reader until done is called.
func (r *readers) add(pod string) (done func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.of == nil {
		r.of, r.fewer = map[string]int{}, make(chan struct{})
	}
	r.of[pod]++
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.of[pod]--; r.of[pod] == 0 {
			delete(r.of, pod)
		}
		close(r.fewer)
		r.fewer = make(chan struct{})
	}
}

// readPatience is how long a deletion waits for the readers of a pod that has ended: its
// log is at most a few megabytes.
const readPatience = 5 * time.Second

// wait waits until nobody reads the logs of a pod any more, no longer than readPatience.
func (r *readers) wait(ctx context.Context, pod string) {
	limit := time.NewTimer(readPatience)
	defer limit.Stop()
	for {
		r.mu.Lock()
		n, fewer := r.of[pod], r.fewer
		r.mu.Unlock()
		if n == 0 {
			return
		}
		select {
		case <-fewer:
		case <-limit.C:
			return
		case <-ctx.Done():
			return
		}
	}
}
