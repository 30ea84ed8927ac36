package sim

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"
)

// begin is when the time of each run begins.
var begin = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// tardy is by how much things that happen at a time may come late.
const tardy = 30 * time.Second

// world knows what may happen next, and has one thing happen at a time: it counts what runs, and goes on
// once nothing does.
type world struct {
	seed uint64

	mu       sync.Mutex
	quiet    *sync.Cond
	runs     int
	now      time.Time // the steady time of all, which no clock shows: see clock
	possible []*stimulus
	lines    []string // what has happened within the present step
	trace    strings.Builder
	steps    int
	ending   bool // nothing waits any more
	prompt   bool // nothing comes late
}

// stimulus is something that may happen.
type stimulus struct {
	name  string
	of    *incarnation // whose it is; nil: the world's
	at    time.Time    // not before that, unless early says so
	early func() bool
	fire  func()
	fired bool
	timer bool // else somebody waits in it
}

func newWorld(seed uint64) *world {
	w := &world{seed: seed, now: begin}
	w.quiet = sync.NewCond(&w.mu)
	return w
}

// Add counts what runs.
func (w *world) Add(delta int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.runs += delta; w.runs < 0 {
		panic("sim: more has stopped than ran")
	}
	if w.runs == 0 {
		w.quiet.Broadcast()
	}
}

func (w *world) awaitQuiet() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.runs > 0 {
		w.quiet.Wait()
	}
}

func (w *world) time() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

// log notes what has happened in this step; those of a step are put in order, since nobody knows theirs.
func (w *world) log(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lines = append(w.lines, fmt.Sprintf(format, args...))
}

// plan adds what may happen after d. What fires is counted by the world until it says otherwise, once, by Add(-1).
func (w *world) plan(s *stimulus, d time.Duration) (cancel func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s.at = w.now.Add(max(d, 0))
	w.possible = append(w.possible, s)
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.remove(s)
	}
}

func (w *world) remove(s *stimulus) {
	w.possible = slices.DeleteFunc(w.possible, func(o *stimulus) bool { return o == s })
}

// after has f called by the world itself after d.
func (w *world) after(name string, d time.Duration, f func()) {
	w.plan(&stimulus{name: name, fire: func() {
		f()
		w.Add(-1)
	}}, d)
}

// park has the goroutine of an incarnation wait until the stimulus is picked, d from now at the earliest unless early says so.
func (w *world) park(of *incarnation, name string, d time.Duration, early func() bool) {
	c := make(chan struct{})
	w.mu.Lock()
	if w.ending || of != nil && of.leaving {
		w.mu.Unlock()
		return
	}
	w.possible = append(w.possible, &stimulus{name: name, of: of, at: w.now.Add(d), early: early, fire: func() { close(c) }})
	w.mu.Unlock()
	w.Add(-1)
	<-c
}

// draw gives the randomness of a step. That of one does not depend on what was drawn in another, so that a plan
// with a part left out resembles the whole one.
func (w *world) draw() *rand.Rand { return rand.New(rand.NewPCG(w.seed, uint64(w.steps))) } //nolint:gosec // a seed is a run

// next has one thing happen, of more or of what is possible, and waits until all is quiet. It reports false if nothing can happen.
func (w *world) next(more []*stimulus) bool {
	w.mu.Lock()
	w.steps++
	r := w.draw()
	now, later := w.candidates(more)
	if len(now) == 0 && len(later) == 0 {
		w.mu.Unlock()
		return false
	}
	var s *stimulus
	if len(now) > 0 && (w.prompt || len(later) == 0 || later[0].at.Sub(w.now) > tardy || r.IntN(8) > 0) { // time goes by slowly while there is something to do
		s = now[r.IntN(len(now))]
	} else if s = later[0]; !w.prompt && len(later) > 1 && r.IntN(8) == 0 && later[1].at.Sub(s.at) < tardy { // the first one comes late
		s = later[1]
	}
	w.happen(s)
	return true
}

// candidates gives what may happen now, and what may once its time has come, each in an order that follows from names alone; w.mu is held.
func (w *world) candidates(more []*stimulus) (now, later []*stimulus) {
	for _, s := range slices.Concat(w.possible, more) {
		switch {
		case s.of != nil && !s.of.moves():
		case !s.at.After(w.now) || s.early != nil && s.early():
			now = append(now, s)
		default:
			later = append(later, s)
		}
	}
	byName := func(a, b *stimulus) int { return strings.Compare(a.name, b.name) }
	slices.SortFunc(now, byName)
	slices.SortFunc(later, func(a, b *stimulus) int { return cmp.Or(a.at.Compare(b.at), byName(a, b)) })
	return now, later
}

// happen has it happen; w.mu is held, and released.
func (w *world) happen(s *stimulus) {
	w.remove(s)
	if s.at.After(w.now) && (s.early == nil || !s.early()) {
		w.now = s.at
	}
	s.fired = true
	w.runs++
	fmt.Fprintf(&w.trace, "%d %s %s\n", w.steps, w.now.Format("15:04:05.000"), s.name)
	w.mu.Unlock()
	s.fire()
	w.awaitQuiet()
	w.mu.Lock()
	slices.Sort(w.lines)
	for _, l := range w.lines {
		w.trace.WriteString("    " + l + "\n")
	}
	w.lines = w.lines[:0]
	w.mu.Unlock()
}

// waits reports whether something possible has a name that begins so, whenever it may happen.
func (w *world) waits(of *incarnation, prefix string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.waitsNow(of, prefix)
}

// waitsNow is waits for who holds w.mu.
func (w *world) waitsNow(of *incarnation, prefix string) bool {
	return slices.ContainsFunc(w.possible, func(s *stimulus) bool { return s.of == of && strings.HasPrefix(s.name, prefix) })
}
