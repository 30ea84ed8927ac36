// Package runnertest tests runners of pods and their callers: [Run] checks that a
// [jobs.Runner] keeps its contract (conformance.go), and [Fake] is a scripted Runner
// for the tests of whoever needs one (fake.go).
package runnertest

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/jobs"
)

// Script says what becomes of an attempt, by itself. The zero Script leaves its pod
// waiting: the test goes on with [Fake.Start], [Fake.End] and their like.
type Script struct {
	Output string // what the pod writes as it starts
	Starts bool   // the pod runs as soon as it is there
	Ends   bool   // and ends with Exit
	Exit   int32
	// LastWords are what a pod that is deleted while it runs writes, Grace later, before
	// it ends.
	LastWords string
	Grace     time.Duration
}

// Succeeds is the Script of a pod that ends at once, with exit code 0.
func Succeeds(jobs.Run) Script { return Script{Starts: true, Ends: true} }

// Fake is a [jobs.Runner] that runs nothing: the test says what its pods do. What it
// has outlives a [jobs.Service], as a cluster does: give the next one the same Fake.
// The zero value works; its fields are set before it is used. It is safe for
// concurrent use.
type Fake struct {
	// Script says what becomes of an attempt; nil: the test does.
	Script func(jobs.Run) Script
	// Home is that of its pods, as a runner of processes tells it; empty: they have none.
	Home string
	// OnCreate, OnDelete, OnLogs, OnHeld and OnCheck come before the real thing, and
	// may wait, or fail it with an error.
	OnCreate func(ctx context.Context, r jobs.Run) error
	OnDelete func(ctx context.Context, a jobs.Attempt) error
	OnLogs   func(ctx context.Context, a jobs.Attempt) error
	OnHeld   func(ctx context.Context) error
	OnCheck  func(spec core.JobSpec) error

	mu       sync.Mutex
	pods     map[jobs.Attempt]*pod
	creates  map[jobs.Attempt]int // calls of Create that went well
	told     []jobs.Observation   // all that was ever to be told
	watches  int
	watched  int // of told, what has gone through the watch; of the present one
	hangs    bool
	changed  chan struct{} // closed and replaced whenever something changes
	inFlight int           // calls of Create and Delete
}

// pod is what the Fake has of an attempt.
type pod struct {
	run   jobs.Run
	phase jobs.Phase
	pod   core.Pod
	log   bytes.Buffer
}

var _ jobs.Runner = (*Fake)(nil)

// lock locks, and gives the unlocking that also tells those who wait.
func (f *Fake) lock() func() {
	f.mu.Lock()
	f.init()
	return func() {
		close(f.changed)
		f.changed = make(chan struct{})
		f.mu.Unlock()
	}
}

func (f *Fake) init() {
	if f.pods == nil {
		f.pods, f.creates, f.changed = make(map[jobs.Attempt]*pod), make(map[jobs.Attempt]int), make(chan struct{})
	}
}

// wait returns once done, which is called under the lock, returns true.
func (f *Fake) wait(ctx context.Context, done func() bool) error {
	for {
		f.mu.Lock()
		f.init()
		ok, changed := done(), f.changed
		f.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// tell notes an observation of the pod; under the lock.
func (f *Fake) tell(a jobs.Attempt, p *pod) {
	f.told = append(f.told, jobs.Observation{Attempt: a, Phase: p.phase, Pod: p.pod})
}

// Check implements [jobs.Runner].
func (f *Fake) Check(spec core.JobSpec) error {
	if f.OnCheck != nil {
		return f.OnCheck(spec)
	}
	return nil
}

// Create implements [jobs.Runner].
func (f *Fake) Create(ctx context.Context, r jobs.Run) (int, error) {
	f.flying(1)
	defer f.flying(-1)
	if calls, err := callHook(ctx, f.OnCreate, r); err != nil {
		return calls, err
	}
	defer f.lock()()
	f.creates[r.Attempt]++
	if f.pods[r.Attempt] != nil {
		return 1, nil
	}
	p := &pod{run: r, phase: jobs.PhaseCreated, pod: core.Pod{Name: r.Name(), UID: r.Name() + "-uid", Node: "fake", Home: f.Home}}
	f.pods[r.Attempt] = p
	f.tell(r.Attempt, p)
	if f.Script == nil {
		return 1, nil
	}
	s := f.Script(r)
	p.log.WriteString(s.Output)
	if s.Starts || s.Ends {
		f.start(r.Attempt, p)
	}
	if s.Ends {
		f.end(r.Attempt, p, s.Exit, "")
	}
	return 1, nil
}

// callHook calls what the test has come before a call of Create or Delete.
func callHook[T any](ctx context.Context, hook func(context.Context, T) error, of T) (calls int, err error) {
	if hook != nil {
		if err := hook(ctx, of); err != nil {
			return 1, err
		}
	}
	return 0, ctx.Err()
}

// flying counts a call of Create or Delete: 1 as it begins, -1 as it returns.
func (f *Fake) flying(n int) {
	defer f.lock()()
	f.inFlight += n
}

func (f *Fake) start(a jobs.Attempt, p *pod) {
	p.phase = jobs.PhaseRunning
	f.tell(a, p)
}

func (f *Fake) end(a jobs.Attempt, p *pod, exit int32, reason string) {
	p.phase, p.pod.ExitCode, p.pod.Reason = jobs.PhaseEnded, &exit, reason
	f.tell(a, p)
}

// change changes a pod; false where there is none.
func (f *Fake) change(a jobs.Attempt, fn func(*pod)) bool {
	defer f.lock()()
	p := f.pods[a]
	if p != nil {
		fn(p)
	}
	return p != nil
}

// Explain says why a pod waits, such as "ImagePullBackOff"; false where there is no
// such attempt, as with all that follow.
func (f *Fake) Explain(a jobs.Attempt, reason, message string) bool {
	return f.change(a, func(p *pod) {
		p.pod.Reason, p.pod.Message = reason, message
		f.tell(a, p)
	})
}

// Start lets the pod run.
func (f *Fake) Start(a jobs.Attempt) bool { return f.change(a, func(p *pod) { f.start(a, p) }) }

// Write lets the pod write.
func (f *Fake) Write(a jobs.Attempt, text string) bool {
	return f.change(a, func(p *pod) { p.log.WriteString(text) })
}

// End ends the pod with an exit code, and for a reason, which may be empty.
func (f *Fake) End(a jobs.Attempt, exit int32, reason string) bool {
	return f.change(a, func(p *pod) { f.end(a, p, exit, reason) })
}

// Lose takes the pod away, as if somebody had deleted it by hand, and says so.
func (f *Fake) Lose(a jobs.Attempt, reason string) bool {
	return f.change(a, func(p *pod) {
		delete(f.pods, a)
		p.phase, p.pod = jobs.PhaseLost, core.Pod{Reason: reason}
		f.tell(a, p)
	})
}

// Vanish takes the pod away unseen: the watch was broken meanwhile.
func (f *Fake) Vanish(a jobs.Attempt) bool {
	return f.change(a, func(*pod) { delete(f.pods, a) })
}

// Plant puts a pod that runs into the cluster that nobody has asked for.
func (f *Fake) Plant(a jobs.Attempt) {
	defer f.lock()()
	p := &pod{run: jobs.Run{Attempt: a}, phase: jobs.PhaseRunning, pod: core.Pod{Name: a.Name(), Node: "fake"}}
	f.pods[a] = p
	f.tell(a, p)
}

// Hang lets the runner hang, or go on: while it hangs it observes nothing and does
// not answer to Beat.
func (f *Fake) Hang(hangs bool) {
	defer f.lock()()
	f.hangs = hangs
}

// Logs implements [jobs.Runner].
func (f *Fake) Logs(ctx context.Context, a jobs.Attempt, o jobs.LogOptions, w io.Writer) (int, error) {
	if f.OnLogs != nil {
		if err := f.OnLogs(ctx, a); err != nil {
			return 1, err
		}
	}
	var p *pod
	for sent := 0; ; {
		var chunk []byte
		var gone, over bool
		err := f.wait(ctx, func() bool {
			now := f.pods[a]
			if p = cmp.Or(p, now); p == nil {
				gone = true
				return true
			}
			gone = now != p
			chunk, over = bytes.Clone(p.log.Bytes()[sent:]), p.phase == jobs.PhaseEnded
			if o.Opened != nil {
				o.Opened()
				o.Opened = nil
			}
			return len(chunk) > 0 || over || gone || !o.Follow
		})
		if err != nil {
			return 1, err
		}
		if p == nil {
			return 1, fmt.Errorf("attempt %s: %w", a.Name(), jobs.ErrNoPod)
		}
		if _, err := w.Write(chunk); err != nil {
			return 1, err
		}
		if sent += len(chunk); gone || over || !o.Follow {
			return 1, nil
		}
	}
}

// Delete implements [jobs.Runner]. A pod that has not ended is killed, and the watch
// says so.
func (f *Fake) Delete(ctx context.Context, a jobs.Attempt) (int, error) {
	f.flying(1)
	defer f.flying(-1)
	if calls, err := callHook(ctx, f.OnDelete, a); err != nil {
		return calls, err
	}
	if err := f.terminate(ctx, a); err != nil {
		return 1, err
	}
	f.change(a, func(p *pod) {
		if p.phase == jobs.PhaseRunning {
			f.end(a, p, 137, "Killed")
		}
		delete(f.pods, a)
	})
	return 1, nil
}

// terminate lets a pod that runs write its last words.
func (f *Fake) terminate(ctx context.Context, a jobs.Attempt) error {
	f.mu.Lock()
	f.init()
	p := f.pods[a]
	if p == nil || p.phase != jobs.PhaseRunning || f.Script == nil {
		f.mu.Unlock()
		return nil
	}
	s := f.Script(p.run)
	f.mu.Unlock()
	if s.Grace > 0 {
		select {
		case <-time.After(s.Grace):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	f.change(a, func(p *pod) { p.log.WriteString(s.LastWords) })
	return nil
}

// Watch implements [jobs.Runner].
func (f *Fake) Watch(ctx context.Context, sink jobs.Sink) error {
	unlock := f.lock()
	var next []jobs.Observation
	for _, a := range f.attempts() {
		next = append(next, jobs.Observation{Attempt: a, Phase: f.pods[a].phase, Pod: f.pods[a].pod})
	}
	at := len(f.told)
	f.watches++
	watch := f.watches
	f.watched = -1 // not even what there was at first
	unlock()
	for {
		for _, o := range next {
			sink.Observe(ctx, o)
		}
		unlock := f.lock()
		if f.watches == watch {
			f.watched = at
		}
		unlock()
		err := f.wait(ctx, func() bool {
			next = slices.Clone(f.told[at:])
			return !f.hangs && len(next) > 0
		})
		if err != nil {
			return err
		}
		at += len(next)
	}
}

// Held implements [jobs.Runner].
func (f *Fake) Held(ctx context.Context) (held []jobs.Attempt, err error) {
	if f.OnHeld != nil {
		if err := f.OnHeld(ctx); err != nil {
			return nil, err
		}
	}
	err = f.wait(ctx, func() bool {
		held = f.attempts()
		return f.watches > 0 && f.watched >= 0
	})
	return held, err
}

// Beat implements [jobs.Runner].
func (f *Fake) Beat(ctx context.Context) error {
	before := -1
	return f.wait(ctx, func() bool {
		if before < 0 {
			before = len(f.told)
		}
		return f.watches > 0 && f.watched >= before && !f.hangs
	})
}

// attempts lists what there is, in order; under the lock.
func (f *Fake) attempts() []jobs.Attempt {
	return slices.SortedFunc(maps.Keys(f.pods), func(a, b jobs.Attempt) int { return strings.Compare(a.Name(), b.Name()) })
}

// Attempts lists the attempts that there are.
func (f *Fake) Attempts() []jobs.Attempt {
	defer f.lock()()
	return f.attempts()
}

// Creates tells how many calls of Create for the attempt went well.
func (f *Fake) Creates(a jobs.Attempt) int {
	defer f.lock()()
	return f.creates[a]
}

// InFlight tells how many calls of Create and Delete have not returned.
func (f *Fake) InFlight() int {
	defer f.lock()()
	return f.inFlight
}

// Created waits until an attempt of a run is there, and gives it with all that the
// Runner was told. runID is that of [jobs.Run]: "jobID:timestamp".
func (f *Fake) Created(ctx context.Context, runID string, n uint32) (r jobs.Run, err error) {
	err = f.wait(ctx, func() bool {
		for a, p := range f.pods {
			if a.N == n && p.run.RunID == runID {
				r = p.run
				return true
			}
		}
		return false
	})
	return r, err
}

// Gone waits until the attempt is not there any more.
func (f *Fake) Gone(ctx context.Context, a jobs.Attempt) error {
	return f.wait(ctx, func() bool { return f.pods[a] == nil })
}
