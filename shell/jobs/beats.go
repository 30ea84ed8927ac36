package jobs

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
)

// beats sends the heartbeats of all runs that have not ended (004 Heartbeat
// Mechanism, E6). What a run has in a cluster beats with its runner, which may hang;
// all else that a run waits for is the engine's affair, and beats with this process.
type beats struct {
	s       *Service
	tracked []core.Scheduler     // as of this interval
	at      map[uuid.UUID]string // the runners of the runs in a cluster
	asked   map[string]bool      // the runners that have not answered yet
	answers chan beatAnswer
}

type beatAnswer struct {
	runner string
	err    error
}

func newBeats(s *Service) *beats {
	return &beats{
		s: s, at: make(map[uuid.UUID]string), asked: make(map[string]bool),
		answers: make(chan beatAnswer, len(s.o.Runners)),
	}
}

// grace is how long the heartbeats of an interval wait for the runners, so that
// mostly all go in one transaction. A runner that answers later beats then.
func (b *beats) grace() time.Duration { return min(b.s.o.HeartbeatInterval/10, time.Second) }

// beat sends heartbeats until ctx ends, the first ones at once.
func (s *Service) beat(ctx context.Context) {
	b := newBeats(s)
	defer func() { // the runners' contexts have ended
		for range b.asked {
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
		if !b.lateAnswers(ctx, next.Sub(now)) {
			return
		}
	}
}

// interval sends the heartbeats of one interval.
func (b *beats) interval(ctx context.Context) {
	if err := b.read(ctx); err != nil {
		if ctx.Err() == nil {
			b.s.log.Error("the runs could not be read: no heartbeats this time", "error", err)
		}
		return
	}
	needed := make(map[string]bool)
	for _, runner := range b.at {
		needed[runner] = true
	}
	for name, r := range b.s.o.Runners {
		if needed[name] && !b.asked[name] {
			b.asked[name] = true
			go func() { b.answers <- beatAnswer{name, r.Beat(ctx)} }()
		}
	}
	alive := map[string]bool{"": true}
	timer, stop := b.s.o.Clock.Timer(b.grace())
	defer stop()
	for waiting := true; waiting && b.waitsFor(needed); {
		select {
		case a := <-b.answers:
			alive[a.runner] = b.heard(ctx, a)
		case <-timer:
			waiting = false
		case <-ctx.Done():
			return
		}
	}
	b.send(ctx, alive)
}

func (b *beats) waitsFor(needed map[string]bool) bool {
	for name := range needed {
		if b.asked[name] {
			return true
		}
	}
	return false
}

// lateAnswers lets the runners beat that answer until the next interval; false
// where ctx has ended.
func (b *beats) lateAnswers(ctx context.Context, d time.Duration) bool {
	timer, stop := b.s.o.Clock.Timer(d)
	defer stop()
	for {
		select {
		case a := <-b.answers:
			if b.heard(ctx, a) {
				b.send(ctx, map[string]bool{a.runner: true})
			}
		case <-timer:
			for name := range b.asked {
				b.s.log.Warn("the runner does not answer: its runs have no heartbeat", "runner", name)
			}
			return ctx.Err() == nil
		case <-ctx.Done():
			return false
		}
	}
}

// heard notes a runner's answer, and reports whether it works.
func (b *beats) heard(ctx context.Context, a beatAnswer) bool {
	delete(b.asked, a.runner)
	if a.err != nil && ctx.Err() == nil {
		b.s.log.Warn("the runner does not work: its runs have no heartbeat", "runner", a.runner, "error", a.err)
	}
	return a.err == nil
}

// read finds out which runs have not ended, and which of them are where. A run is
// read once while it is in a cluster: where it is does not change.
func (b *beats) read(ctx context.Context) error {
	var err error
	if b.tracked, err = b.s.e.Runs().Schedulers(ctx); err != nil {
		return err
	}
	ids, err := b.s.e.Runs().InCluster(ctx)
	if err != nil {
		return err
	}
	at := make(map[uuid.UUID]string, len(ids))
	for _, id := range ids {
		runner, known := b.at[id]
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
		at[id] = runner
	}
	b.at = at
	return nil
}

// unknownRunner stands for the runners that are not configured any more: nobody
// cares for what their runs have there, and they do not beat.
const unknownRunner = "\x00unknown"

// send sends the heartbeats of the runs of the runners that work; those of no
// runner are under the empty name.
func (b *beats) send(ctx context.Context, alive map[string]bool) {
	var runs []uuid.UUID
	for _, s := range b.tracked {
		for _, t := range s.Runs {
			if alive[b.at[t.Run]] {
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
		b.s.log.Error("the heartbeats could not be stored", "runs", len(runs), "error", err)
	}
}
