package jobs

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
)

// Bounds of what runners have observed and the engine has not taken yet. Several
// workers share one commit of the engine.
const (
	maxObservations = 4096
	sinkWorkers     = 32
)

// watch lets a runner observe, until ctx ends.
func (s *Service) watch(ctx context.Context, name string, r Runner) {
	k := s.sinks[name]
	work := shell.WithActor(ctx, "runner:"+name)
	var wg sync.WaitGroup
	for range sinkWorkers {
		wg.Go(func() { k.work(work) })
	}
	defer wg.Wait()
	var wait backoff
	for {
		s.watches.set(name, s.o.Clock.Now(), nil)
		err := r.Watch(ctx, k)
		if ctx.Err() != nil {
			return
		}
		err = cmp.Or(err, errWatchEnded)
		s.watches.set(name, s.o.Clock.Now(), err)
		s.log.Error("the runner's watch ended; beginning again", "runner", name, "error", err)
		if !s.pause(ctx, wait.next()) {
			return
		}
	}
}

var errWatchEnded = errors.New("it returned no error, although it was to go on")

// sink takes what one runner observes into the engine: for each attempt one after
// the other, and for different ones at once.
type sink struct {
	s      *Service
	runner string
	room   chan struct{} // holds a token for each observation that is queued
	next   chan Attempt  // those whose first observation nobody works on

	mu     sync.Mutex
	queues map[Attempt][]queued // none is empty
	latest *sinkMark
}

// queued is an observation that waits for the engine.
type queued struct {
	Observation
	of *sinkMark
}

// sinkMark counts the observations between two flushes that the engine has not taken yet;
// under the sink's lock.
type sinkMark struct {
	left   int
	sealed bool // no other is added
	taken  chan struct{}
}

func newSinkMark() *sinkMark { return &sinkMark{taken: make(chan struct{})} }

func (m *sinkMark) add(n int) {
	if m.left += n; m.left == 0 && m.sealed {
		close(m.taken)
	}
}

func newSink(s *Service, runner string) *sink {
	return &sink{
		s: s, runner: runner, queues: make(map[Attempt][]queued),
		room: make(chan struct{}, s.sinkRoom), next: make(chan Attempt, s.sinkRoom), latest: newSinkMark(),
	}
}

// flushed returns once the runs have been told what was observed before.
func (k *sink) flushed(ctx context.Context) error {
	k.mu.Lock()
	before := k.latest
	k.latest = newSinkMark()
	before.sealed = true
	before.add(0)
	k.mu.Unlock()
	select {
	case <-before.taken:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Observe implements [Sink]. It blocks while very many wait for the engine.
func (k *sink) Observe(ctx context.Context, o Observation) {
	if o.Phase == PhaseEnded {
		k.s.places[k.runner].free(o.Attempt)
	}
	select {
	case k.room <- struct{}{}:
	case <-ctx.Done():
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.latest.add(1)
	k.queues[o.Attempt] = append(k.queues[o.Attempt], queued{o, k.latest})
	if len(k.queues[o.Attempt]) == 1 {
		k.next <- o.Attempt // it has room for all that are queued
	}
}

func (k *sink) work(ctx context.Context) {
	for {
		select {
		case a := <-k.next:
			k.mu.Lock()
			o := k.queues[a][0].Observation
			k.mu.Unlock()
			k.tell(ctx, o)
			k.done(a)
		case <-ctx.Done():
			return
		}
	}
}

// done takes the first observation of an attempt off.
func (k *sink) done(a Attempt) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.queues[a][0].of.add(-1)
	if rest := k.queues[a][1:]; len(rest) > 0 {
		k.queues[a] = rest
		k.next <- a
	} else {
		delete(k.queues, a)
	}
	<-k.room
}

// tell gives an observation to its run, and tries again for as long as the engine
// cannot take it. That the run refuses it is nothing unusual: it is told more than
// once, or of what the run has left behind.
func (k *sink) tell(ctx context.Context, o Observation) {
	ev := eventOf(o)
	if ev == nil {
		k.s.log.Error("the runner observed an unknown phase", "runner", k.runner, "phase", string(o.Phase), "pod", o.Name())
		return
	}
	var wait backoff
	for {
		run, err := k.s.e.Runs().SendIf(ctx, o.Run, ev, k.own)
		var refused *shell.Refusal
		switch {
		case err == nil:
			k.s.log.Debug("pod observed", append(attrs(run), "phase", string(o.Phase), "runner", k.runner)...)
			return
		case errors.Is(err, errForeign):
			k.s.log.Debug("observation passed over: the run has another runner", "runner", k.runner, "pod", o.Name(), "phase", string(o.Phase))
			return
		case errors.As(err, &refused):
			k.s.log.Debug("observation passed over", "runner", k.runner, "pod", o.Name(), "phase", string(o.Phase), "reason", refused.Reason)
			k.s.sawUnwanted(ctx, k.runner, o)
			return
		case ctx.Err() != nil, errors.Is(err, shell.ErrStopped):
			return
		}
		k.s.log.Error("an observation could not be stored; trying again", "runner", k.runner, "pod", o.Name(), "phase", string(o.Phase), "error", err)
		if !k.s.pause(ctx, wait.next()) {
			return
		}
	}
}

// errForeign: the run has another runner.
var errForeign = errors.New("the run has another runner")

// own refuses a run that has another runner, whose pod alone speaks for it: this one's
// was left there when runners got other names, say, and goes as a stray.
func (k *sink) own(run core.Orchestrator) error {
	if run.ID != uuid.Nil && !k.s.isOf(run, k.runner) {
		return errForeign
	}
	return nil
}

// eventOf is what a run is told of an observation; nil where the phase is unknown.
func eventOf(o Observation) core.OrchestratorEvent {
	switch o.Phase {
	case PhaseCreated:
		return core.PodCreated{Attempt: o.N, Pod: o.Pod}
	case PhaseRunning:
		return core.PodRunning{Attempt: o.N, Pod: o.Pod}
	case PhaseEnded:
		return core.PodEnded{Attempt: o.N, Pod: o.Pod}
	case PhaseLost:
		return core.PodLost{Attempt: o.N, Reason: o.Pod.Reason}
	case PhaseRefused:
		return core.PodLost{Attempt: o.N, Reason: strings.TrimSuffix(o.Pod.Reason+": "+o.Pod.Message, ": "), Refused: true, Final: o.Final}
	}
	return nil
}
