package jobs

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
)

// heartbeats reports, once in an interval, which of the runs that have not ended beat (004
// Heartbeat Mechanism, E6): see [heartbeats.beats].
type heartbeats struct {
	s       *Service
	begins  bool                     // the next report is the first one, or the first after a stop
	tracked []core.Scheduler         // as of this interval
	pods    map[uuid.UUID]podOf      // of the runs that may have some
	asked   map[uuid.UUID]askedSince // effects of runs whose pods are not there
	missing map[uuid.UUID]time.Time  // since when pods are not there that should be
	pending map[string]bool          // the runners that have not answered yet
	answers chan beatAnswer
}

// podOf is where the pod of a run is to be found.
type podOf struct {
	runner  string
	attempt Attempt
}

// held are the attempts that each of the runners holds that have answered; nil: it cannot
// say.
type held map[string]map[Attempt]bool

// works reports whether a runner has answered.
func (h held) works(runner string) bool {
	_, answered := h[runner]
	return answered
}

// has reports whether the runner of an attempt holds it, or may hold it.
func (h held) has(p podOf) bool {
	return h.works(p.runner) && (h[p.runner] == nil || h[p.runner][p.attempt])
}

type beatAnswer struct {
	runner string
	held   map[Attempt]bool
	err    error
}

func newHeartbeats(s *Service) *heartbeats {
	return &heartbeats{
		s: s, begins: true, pods: make(map[uuid.UUID]podOf), asked: make(map[uuid.UUID]askedSince), missing: make(map[uuid.UUID]time.Time),
		pending: make(map[string]bool), answers: make(chan beatAnswer, len(s.o.Runners)),
	}
}

// grace is how long the heartbeats of an interval wait for the runners, so that
// mostly all go in one transaction. The heartbeats of a runner that answers later are
// sent when it answers.
func (b *heartbeats) grace() time.Duration { return min(b.s.o.HeartbeatInterval/10, time.Second) }

// sendHeartbeats sends heartbeats until ctx ends, the first ones at once: also while the engine
// stops, which may wait long for a deletion.
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
		next = next.Add(s.o.HeartbeatInterval)
		now := s.o.Clock.Steady()
		if next.Before(now) { // it goes on from now: two reports are never closer than an interval
			next = now.Add(s.o.HeartbeatInterval)
		}
		if !b.awaitLateAnswers(ctx, next.Sub(now)) {
			return
		}
		// A process that stood still for longer has not watched meanwhile.
		b.begins = b.begins || s.o.Clock.Steady().Sub(next) > max(s.o.HeartbeatInterval, minStop)
	}
}

// minStop is how long the process must have stood still for it to count, however short the
// interval is: a busy computer is no stopped process.
const minStop = time.Second

// interval sends the heartbeats of one interval.
func (b *heartbeats) interval(ctx context.Context) {
	if err := b.readRuns(ctx); err != nil {
		if ctx.Err() == nil {
			b.s.log.Error("could not read the runs: none has a heartbeat in this interval", "error", err)
		}
		return
	}
	needed := make(map[string]bool)
	for _, p := range b.pods {
		needed[p.runner] = true
	}
	for name, r := range b.s.o.Runners {
		if needed[name] && !b.pending[name] {
			b.pending[name] = true
			go func() { b.answers <- b.s.askRunner(ctx, name, r, b.grace()) }()
		}
	}
	works := make(held)
	timer, stop := b.s.o.Clock.Timer(b.grace())
	defer stop()
	for waiting := true; waiting && b.awaitsAny(needed); {
		select {
		case a := <-b.answers:
			b.record(ctx, a, works)
		case <-timer:
			waiting = false
		case <-ctx.Done():
			return
		}
	}
	b.report(ctx, works)
}

// askRunner asks a runner whether it works, and what it holds. One that works and cannot say
// yet what it holds, as while a cluster cannot be reached, has lost nothing.
func (s *Service) askRunner(ctx context.Context, name string, r Runner, grace time.Duration) beatAnswer {
	a := beatAnswer{runner: name, err: r.Beat(ctx)}
	if a.err != nil {
		return a
	}
	ctx, done := s.withTimeout(ctx, grace/2) // so that the answer goes with the others
	defer done()
	all, err := r.Held(ctx)
	if err != nil {
		return a
	}
	a.held = make(map[Attempt]bool, len(all))
	for _, attempt := range all {
		a.held[attempt] = true
	}
	return a
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
			works := make(held)
			b.record(ctx, a, works)
			if works.works(a.runner) {
				b.reportLate(ctx, a.runner, works)
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

// record notes the answer of a runner: in works if it works.
func (b *heartbeats) record(ctx context.Context, a beatAnswer, works held) {
	delete(b.pending, a.runner)
	switch {
	case a.err == nil:
		works[a.runner] = a.held
	case ctx.Err() == nil:
		b.s.log.Warn("the runner does not work: the runs whose pods it holds have no heartbeat", "runner", a.runner, "error", a.err)
	}
}

// readRuns finds out which runs have not ended, and which of them may have pods. Such a run
// is read once: it is read again where its pod is not there.
func (b *heartbeats) readRuns(ctx context.Context) error {
	var err error
	if b.tracked, err = b.s.e.Runs().Schedulers(ctx); err != nil {
		return err
	}
	ids, err := b.s.e.Runs().InCluster(ctx)
	if err != nil {
		return err
	}
	before := b.pods
	b.pods = make(map[uuid.UUID]podOf, len(ids))
	for _, id := range ids {
		if p, known := before[id]; known {
			b.pods[id] = p
		} else if _, err := b.read(ctx, id); err != nil && ctx.Err() != nil {
			return err // else it is gone meanwhile, or damaged, which is the engine's affair
		}
	}
	return nil
}

// read reads a run, and notes where its pod is to be found.
func (b *heartbeats) read(ctx context.Context, id uuid.UUID) (core.Orchestrator, error) {
	o, err := b.s.e.Runs().Get(ctx, id)
	if err != nil || !o.InCluster {
		delete(b.pods, id)
		return o, err
	}
	name, _, err := b.s.runner(o.Config)
	if err != nil {
		name = unknownRunner
	}
	b.pods[id] = podOf{name, Attempt{Run: id, N: o.RetryAttempt}}
	return o, nil
}

// unknownRunner stands for the runners that are not configured any more: the runs
// whose pods they hold have no heartbeats.
const unknownRunner = "\x00unknown"

// report reports an interval: which runs beat, and at whose pods nobody has looked yet.
func (b *heartbeats) report(ctx context.Context, works held) {
	h := shell.HeartbeatReport{Begins: b.begins}
	for _, s := range b.tracked {
		if len(s.Runs) > 0 {
			h.Of = append(h.Of, effects.Ref{Kind: core.KindScheduler, ID: s.ID})
		}
		for _, t := range s.Runs {
			p, may := b.pods[t.Run]
			switch {
			case b.beats(ctx, t.Run, works):
				h.Runs = append(h.Runs, t.Run)
			case may && p.runner != unknownRunner && !b.s.looks.looked(p.attempt):
				h.Unseen = append(h.Unseen, t.Run)
			}
		}
	}
	b.forget()
	if b.send(ctx, h) {
		b.begins = false
		b.s.reported.Store(true)
	}
}

// reportLate sends the heartbeats of the runs of a runner that has answered late.
func (b *heartbeats) reportLate(ctx context.Context, runner string, works held) {
	h := shell.HeartbeatReport{Some: true}
	for _, s := range b.tracked {
		for _, t := range s.Runs {
			if b.pods[t.Run].runner == runner && b.beats(ctx, t.Run, works) {
				h.Runs = append(h.Runs, t.Run)
			}
		}
	}
	b.send(ctx, h)
}

// send hands a report to the engine, and says whether it has it.
func (b *heartbeats) send(ctx context.Context, h shell.HeartbeatReport) bool {
	h.Every, h.Missed = b.s.o.HeartbeatInterval, uint32(b.s.o.MaxMissed)
	err := b.s.e.Runs().ReportHeartbeats(ctx, h)
	switch {
	case err == nil:
		b.s.log.Debug("heartbeats sent", "runs", len(h.Runs), "not_seen", len(h.Unseen))
	case ctx.Err() == nil && !errors.Is(err, shell.ErrStopped):
		b.s.log.Error("could not store the heartbeats", "runs", len(h.Runs), "error", err)
	}
	return err == nil
}
