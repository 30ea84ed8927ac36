//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package local

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/internal/files"
	"github.com/orrery-go/orrery/shell/jobs"
)

const (
	// pollEvery is how often pods are looked at where the system does not tell.
	pollEvery = 200 * time.Millisecond
	// rescanEvery is how often they are looked at all the same where it does.
	rescanEvery = 5 * time.Second
	// A supervisor's end is told a moment before its lock is free.
	recheckEvery = 20 * time.Millisecond
	recheckTimes = 100
)

// watch is what callers of a runner share with its Watch.
type watch struct {
	mu      sync.Mutex
	runs    bool
	known   chan struct{}   // closed once the first look is done
	dirty   map[string]int  // attempts to look at, with how often to look again
	all     bool            // look at all of them
	going   map[string]bool // they are being deleted: what is gone then is not lost
	wake    chan struct{}
	beating chan chan struct{}
}

func newWatch() *watch {
	return &watch{
		known: make(chan struct{}), dirty: map[string]int{}, going: map[string]bool{},
		wake: make(chan struct{}, 1), beating: make(chan chan struct{}),
	}
}

// touch has the attempt looked at.
func (w *watch) touch(name string) { w.touchAgain(name, 0) }

func (w *watch) touchAgain(name string, times int) {
	w.change(func() { w.dirty[name] = max(w.dirty[name], times) })
	w.wakeUp()
}

func (w *watch) touchAll() {
	w.change(func() { w.all = true })
	w.wakeUp()
}

// change calls fn, which alone may touch the fields meanwhile.
func (w *watch) change(fn func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	fn()
}

func (w *watch) wakeUp() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *watch) taken() (dirty map[string]int, all bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	dirty, all = w.dirty, w.all
	w.dirty, w.all = map[string]int{}, false
	return dirty, all
}

func (w *watch) expectGone(name string) { w.change(func() { w.going[name] = true }) }

func (w *watch) isGoing(name string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.going[name]
}

func (w *watch) ready() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.known
}

func (w *watch) setKnown() { w.change(func() { close(w.known) }) }

func (w *watch) begin() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.runs {
		return errors.New("local: Watch runs already: one serves all")
	}
	w.runs = true
	return nil
}

func (w *watch) running() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.runs
}

// end notes that Watch has ended. If it ended before its first look, those who wait in Held go on waiting, for the first look of the next Watch.
func (w *watch) end() {
	w.change(func() {
		w.runs = false
		select {
		case <-w.known:
			w.known = make(chan struct{})
		default:
		}
	})
}

// notifier tells a watch of what changes in the directories of pods.
type notifier interface {
	add(name string) error // the pod's directory
	close()
}

// watcher is one call of Watch.
type watcher struct {
	*Runner
	sink jobs.Sink
	tell notifier // nil: look every now and then
	told map[string]told
	tick *time.Ticker // look at all of them
}

// told is what was said of an attempt last.
type told struct {
	phase             jobs.Phase
	reason, message   string
	started, finished core.Time
}

// Beat implements [jobs.Runner].
func (r *Runner) Beat(ctx context.Context) error {
	done := make(chan struct{})
	select {
	case r.watch.beating <- done:
		select {
		case <-done:
			return nil
		case <-ctx.Done():
		}
	case <-ctx.Done():
	}
	return fmt.Errorf("the watch over local pods does not answer: %w", ctx.Err())
}

// Watch implements [jobs.Runner]. It fails at once where another process watches
// over the same directory.
func (r *Runner) Watch(ctx context.Context, sink jobs.Sink) error {
	if err := r.watch.begin(); err != nil {
		return err
	}
	defer r.watch.end()
	lock, err := r.own()
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }()
	r.cleanUp()
	w := &watcher{Runner: r, sink: sink, told: map[string]told{}}
	every := pollEvery
	if !r.poll {
		tell, err := newNotifier(r.dir, r.watch)
		if err != nil {
			r.logger.WarnContext(ctx, "the system does not tell of changes in directories: looking at them instead", "error", err)
		} else if tell != nil {
			defer tell.close()
			w.tell, every = tell, rescanEvery
		}
	}
	return w.loop(ctx, every)
}

// own makes sure that no other process watches over our pods.
func (r *Runner) own() (*os.File, error) {
	lock, err := os.OpenFile(filepath.Join(r.dir, runnerLock), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("local: Dir: %w", err)
	}
	mine, err := files.TryLock(lock, false)
	if err == nil && !mine {
		err = fmt.Errorf("local: Dir: %s belongs to another daemon that runs", r.dir)
	}
	if err != nil {
		_ = lock.Close()
		return nil, err
	}
	return lock, nil
}

// ownNewPrefix begins the names of directories that this process is making. The id
// of a process would not do: in a container each daemon has the same.
var ownNewPrefix = newPrefix + rand.Text() + "-"

// cleanUp removes what a daemon left that was killed.
func (r *Runner) cleanUp() {
	entries, err := os.ReadDir(r.dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		name := e.Name()
		left := strings.HasPrefix(name, newPrefix) && !strings.HasPrefix(name, ownNewPrefix)
		if !left && !strings.HasPrefix(name, gonePrefix) {
			continue
		}
		if err := files.RemoveAll(filepath.Join(r.dir, name)); err != nil {
			r.logger.Warn("cannot remove what is left of a pod", "dir", filepath.Join(r.dir, name), "error", err)
		}
	}
}

func (w *watcher) loop(ctx context.Context, every time.Duration) error {
	w.tick = time.NewTicker(every)
	defer w.tick.Stop()
	recheck := time.NewTicker(recheckEvery)
	defer recheck.Stop()
	later := map[string]int{}
	w.watch.touchAll()
	known := false
	for {
		w.lookAtDirty(ctx, later)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if !known {
			known = true
			w.watch.setKnown()
		}
		var rechecks <-chan time.Time
		if len(later) > 0 {
			rechecks = recheck.C
		}
		select {
		case <-w.watch.wake:
		case <-w.tick.C:
			w.watch.touchAll()
		case <-rechecks:
			for name, times := range later {
				w.watch.touchAgain(name, times-1)
			}
			clear(later)
		case done := <-w.watch.beating:
			w.lookAtDirty(ctx, later)
			if ctx.Err() == nil {
				close(done)
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// lookAtDirty looks at what may have changed. What is to be looked at again is put
// into later.
func (w *watcher) lookAtDirty(ctx context.Context, later map[string]int) {
	dirty, all := w.watch.taken()
	if all {
		held, err := w.list()
		if err != nil {
			w.logger.WarnContext(ctx, "cannot list the local pods", "error", err)
		}
		for _, a := range held {
			dirty[a.Name()] = max(dirty[a.Name()], 0)
		}
		for name := range w.told {
			dirty[name] = max(dirty[name], 0)
		}
	}
	for name, times := range dirty {
		if ctx.Err() != nil {
			return
		}
		a, ok := attemptOf(name)
		if !ok || w.isForeign(a) {
			continue
		}
		if final := w.report(ctx, a); !final && times > 0 {
			later[name] = times
		}
	}
}

// report tells the sink what is new of an attempt; final: nothing more can change about
// it but that it is deleted.
func (w *watcher) report(ctx context.Context, a jobs.Attempt) (final bool) {
	name := a.Name()
	before, known := w.told[name]
	if before.phase == jobs.PhaseEnded || before.phase == jobs.PhaseLost {
		if there, err := exists(w.path(a)); err != nil || there {
			return true
		}
	}
	o, there, err := w.observe(a)
	switch {
	case err != nil:
		w.logger.WarnContext(ctx, "cannot look at a local pod", "pod", name, "error", err)
		return false
	case !there:
		if known && before.phase != jobs.PhaseEnded && before.phase != jobs.PhaseLost && !w.watch.isGoing(name) {
			w.sink.Observe(ctx, jobs.Observation{Attempt: a, Phase: jobs.PhaseLost, Pod: core.Pod{Name: name, Reason: "the files of its processes are gone"}})
		}
		delete(w.told, name)
		w.watch.change(func() { delete(w.watch.going, name) })
		return true
	case o.Phase == jobs.PhaseLost && w.watch.isGoing(name):
		return true // it is being deleted
	}
	now := told{o.Phase, o.Pod.Reason, o.Pod.Message, o.Pod.StartedAt, o.Pod.FinishedAt}
	if !known || before != now {
		w.told[name] = now
		w.sink.Observe(ctx, o)
	}
	return o.Phase == jobs.PhaseEnded || o.Phase == jobs.PhaseLost
}

// observe says how far an attempt is. there is false where it has no directory.
func (w *watcher) observe(a jobs.Attempt) (o jobs.Observation, there bool, err error) {
	dir := w.path(a)
	o = jobs.Observation{Attempt: a, Phase: jobs.PhaseCreated, Pod: core.Pod{Name: a.Name(), Node: w.node, Home: w.home}}
	if there, err = exists(dir); err != nil || !there {
		return o, there, err
	}
	if w.tell != nil {
		// First this, then the look: what comes after it is told.
		if err := w.tell.add(a.Name()); err != nil && !errors.Is(err, os.ErrNotExist) {
			w.logger.Warn("the system tells of no more directories: looking at them instead", "error", err)
			w.tell = nil // what it does tell is heard of all the same
			w.tick.Reset(pollEvery)
		}
	}
	if p, err := readPlan(dir); err == nil {
		o.Pod.UID = p.UID
	}
	st, started, alive, err := readProgress(dir)
	if err != nil || !started {
		return o, true, err
	}
	o.Pod.StartedAt, o.Pod.FinishedAt = st.StartedAt, st.FinishedAt
	switch {
	case st.Phase == phaseEnded:
		o.Phase = jobs.PhaseEnded
		o.Pod.ExitCode, o.Pod.Reason, o.Pod.Message = st.ExitCode, st.Reason, st.Message
	case !alive:
		if still, err := exists(dir); err != nil || !still {
			return o, still, err // it was deleted meanwhile
		}
		o.Phase, o.Pod.Reason = jobs.PhaseLost, "the process that supervised it was killed"
	case st.Phase == phaseRunning:
		o.Phase = jobs.PhaseRunning
	default:
		o.Pod.Reason = "PodInitializing"
	}
	return o, true, nil
}
