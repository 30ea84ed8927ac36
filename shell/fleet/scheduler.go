package fleet

import (
	"context"
	"sync"
	"time"
)

// Scheduler runs a member in a simulation, which is to know when nothing of it runs: see [engine.Scheduler]. What runs is each goroutine of the
// member but while it sleeps, and the caller of [Member.Run], whom the simulation counts itself. A [store.Cluster] that waits takes itself out of the count
// meanwhile, and limits itself how long it waits.
//
// With a Scheduler work learns from its store alone that this process has lost the partition: its context does not say so. Where a [Group] ends
// the context of a work, since another instance should have the partition, or another work has failed, it counts one for that, which who notices it takes out again.
type Scheduler interface {
	// Add changes the count of what runs. It is called from any goroutine.
	Add(delta int)
	// Sleep waits for d, or until ctx has ended. Who sleeps is not counted. The name tells those apart that sleep at the same time.
	Sleep(ctx context.Context, name string, d time.Duration)
}

// goroutines are what one waits for, counted for a [Scheduler] if there is one.
type goroutines struct {
	to Scheduler

	all   sync.WaitGroup
	mu    sync.Mutex
	many  int
	waits bool // somebody waits, and is not counted
}

// start has f run in a goroutine.
func (g *goroutines) start(f func()) {
	if g.to == nil {
		g.all.Go(f)
		return
	}
	g.mu.Lock()
	g.many++
	g.mu.Unlock()
	g.to.Add(1)
	g.all.Go(func() {
		defer g.ends()
		f()
	})
}

// watch is start for what waits for a store alone: with a [Scheduler] nobody does.
func (g *goroutines) watch(f func()) {
	if g.to == nil {
		g.start(f)
	}
}

// ends notes that one has ended; the last one leaves its count to who waits.
func (g *goroutines) ends() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.many--; g.many > 0 || !g.waits {
		g.to.Add(-1)
	}
}

// wait returns once all have ended.
func (g *goroutines) wait() {
	if g.to != nil {
		g.mu.Lock()
		if g.many > 0 {
			g.waits = true
			g.to.Add(-1)
		}
		g.mu.Unlock()
	}
	g.all.Wait()
}

// limited gives a context for one thing that the database is asked. With a [Scheduler] the database limits that itself, in virtual time.
func (p *process) limited(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if p.o.Scheduler != nil {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, d)
}
