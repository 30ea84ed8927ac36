package jobs

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
)

// heartbeats sends the heartbeats of all runs that have not ended (004 Heartbeat
// Mechanism, E6). A run that may have pods has heartbeats only while its runner
// works; all other runs wait for the engine alone, and have heartbeats while this
// process lives.
type heartbeats struct {
	s       *Service
	tracked []core.Scheduler     // as of this interval
	runners map[uuid.UUID]string // of the runs that may have pods
	pending map[string]bool      // the runners that have not answered yet
	answers chan beatAnswer
}

type beatAnswer struct {
	runner string
	err    error
}

func newHeartbeats(s *Service) *heartbeats {
	return &heartbeats{
		s: s, runners: make(map[uuid.UUID]string), pending: make(map[string]bool),
		answers: make(chan beatAnswer, len(s.o.Runners)),
	}
}

// grace is how long the heartbeats of an interval wait for the runners, so that
// mostly all go in one transaction. The heartbeats of a runner that answers later are
// sent when it answers.
func (b *heartbeats) grace() time.Duration { return min(b.s.o.HeartbeatInterval/10, time.Second) }

// sendHeartbeats sends heartbeats until ctx ends, the first ones at once.
func (s *Service) sendHeartbeats(ctx context.Context) {
	b := newHeartbeats(s)
	defer func() { // the runners' contexts have ended
		for range b.pending {
			<-b.answers
		}
	}()
	next := s.o.Clock.Steady()
	for {
		b.interval(ctx)
		// After a long stop the clock goes on from now.
		next = next.Add(s.o.HeartbeatInterval)
		now := s.o.Clock.Steady()
		if next.Before(now) {
			next = now
		}
		if !b.awaitLateAnswers(ctx, next.Sub(now)) {
			return
		}
	}
}

// interval sends the heartbeats of one interval.
func (b *heartbeats) interval(ctx context.Context) {
	if err := b.readRuns(ctx); err != nil {
		if ctx.Err() == nil {
			b.s.log.Error("could not read the runs: none has a heartbeat in this interval", "error", err)
		}
		return
	}
	needed := make(map[string]bool)
	for _, runner := range b.runners {
		needed[runner] = true
	}
	for name, r := range b.s.o.Runners {
		if needed[name] && !b.pending[name] {
			b.pending[name] = true
			go func() { b.answers <- beatAnswer{name, r.Beat(ctx)} }()
		}
	}
	alive := map[string]bool{"": true}
	timer, stop := b.s.o.Clock.Timer(b.grace())
	defer stop()
	for waiting := true; waiting && b.awaitsAny(needed); {
		select {
		case a := <-b.answers:
			alive[a.runner] = b.record(ctx, a)
		case <-timer:
			waiting = false
		case <-ctx.Done():
			return
		}
	}
	b.send(ctx, alive)
}

// awaitsAny reports whether one of the needed runners has not answered yet.
func (b *heartbeats) awaitsAny(needed map[string]bool) bool {
	for name := range needed {
		if b.pending[name] {
			return true
		}
	}
	return false
}

// awaitLateAnswers sends the heartbeats of the runners that answer before the next
// interval; false if ctx has ended.
func (b *heartbeats) awaitLateAnswers(ctx context.Context, d time.Duration) bool {
	timer, stop := b.s.o.Clock.Timer(d)
	defer stop()
	for {
		select {
		case a := <-b.answers:
			if b.record(ctx, a) {
				b.send(ctx, map[string]bool{a.runner: true})
			}
		case <-timer:
			for name := range b.pending {
				b.s.log.Warn("the runner does not answer: the runs whose pods it holds have no heartbeat", "runner", name)
			}
			return ctx.Err() == nil
		case <-ctx.Done():
			return false
		}
	}
}

// record notes a runner's answer, and reports whether the runner works.
func (b *heartbeats) record(ctx context.Context, a beatAnswer) bool {
	delete(b.pending, a.runner)
	if a.err != nil && ctx.Err() == nil {
		b.s.log.Warn("the runner does not work: the runs whose pods it holds have no heartbeat", "runner", a.runner, "error", a.err)
	}
	return a.err == nil
}

// readRuns finds out which runs have not ended, and the runners of those that may have
// pods. Such a run is read once: its runner does not change.
func (b *heartbeats) readRuns(ctx context.Context) error {
	var err error
	if b.tracked, err = b.s.e.Runs().Schedulers(ctx); err != nil {
		return err
	}
	ids, err := b.s.e.Runs().InCluster(ctx)
	if err != nil {
		return err
	}
	runners := make(map[uuid.UUID]string, len(ids))
	for _, id := range ids {
		runner, known := b.runners[id]
		if !known {
			o, err := b.s.e.Runs().Get(ctx, id)
			if err != nil {
				if ctx.Err() != nil {
					return err
				}
				continue // gone meanwhile, or damaged, which is the engine's affair
			}
			if runner, _, err = b.s.runner(o.Config); err != nil {
				runner = unknownRunner
			}
		}
		runners[id] = runner
	}
	b.runners = runners
	return nil
}

// unknownRunner stands for the runners that are not configured any more: the runs
// whose pods they hold have no heartbeats.
const unknownRunner = "\x00unknown"

// send sends the heartbeats of the runs whose runners work. The empty name stands for
// the runs that have no pods.
func (b *heartbeats) send(ctx context.Context, alive map[string]bool) {
	var runs []uuid.UUID
	for _, s := range b.tracked {
		for _, t := range s.Runs {
			if alive[b.runners[t.Run]] {
				runs = append(runs, t.Run)
			}
		}
	}
	if len(runs) == 0 {
		return
	}
	o := &b.s.o
	err := b.s.e.Runs().Heartbeat(ctx, runs, o.HeartbeatInterval, uint32(o.MaxMissed))
	switch {
	case err == nil:
		b.s.log.Debug("heartbeats sent", "runs", len(runs))
	case ctx.Err() == nil && !errors.Is(err, shell.ErrStopped):
		b.s.log.Error("could not store the heartbeats", "runs", len(runs), "error", err)
	}
}
