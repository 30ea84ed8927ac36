package jobs

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
)

// looks know of the attempts that there were when the service began at which their runners
// have not looked yet, or cannot say yet what they have seen. They may have started, ended or gone meanwhile: until their runs have
// been told, no time limit and no missing heartbeat counts. What is created later was not
// there. Later attempts of a runner that is down are among them too, once their limits come.
type looks struct {
	mu     sync.Mutex
	known  bool // what there was
	unseen map[Attempt]string
	wake   map[string]chan struct{} // by runner: holds a token when there is one more
}

// lost says that a runner has lost sight of an attempt, and has to look again.
func (l *looks) lost(a Attempt, runner string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unseen[a] = runner
	select {
	case l.wake[runner] <- struct{}{}:
	default:
	}
}

// note says what there was, with the runners' names.
func (l *looks) note(unseen map[Attempt]string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.known, l.unseen = true, unseen
}

// looked reports whether an attempt was looked at, or was not there.
func (l *looks) looked(a Attempt) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, waits := l.unseen[a]
	return l.known && !waits
}

// of lists the attempts of a runner at which it has not looked.
func (l *looks) of(runner string) (left []Attempt) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for a, name := range l.unseen { // order-free: each is looked at by itself
		if name == runner {
			left = append(left, a)
		}
	}
	return left
}

func (l *looks) saw(a Attempt) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.unseen, a)
}

// noteUnseen finds out which attempts there may be.
func (s *Service) noteUnseen(ctx context.Context) {
	var wait backoff
	for {
		unseen := make(map[Attempt]string)
		err := s.eachInCluster(ctx, func(o core.Orchestrator) {
			// At what a runner has that is not configured nobody ever looks.
			if name, _, err := s.runner(o.Config); err == nil && !o.State.Terminal() {
				unseen[Attempt{Run: o.ID, N: o.RetryAttempt}] = name
			}
		})
		if err == nil {
			s.looks.note(unseen)
			return
		}
		if ctx.Err() == nil {
			s.log.Error("could not find out which runs have pods; trying again", "error", err)
		}
		if !s.pause(ctx, wait.next()) {
			return
		}
	}
}

// look has a runner look at what there was when the service began, and at what it has lost
// sight of, until ctx ends: that it has told of all that it holds, and the runs have heard it.
func (s *Service) look(ctx context.Context, name string, r Runner) {
	for {
		var wait backoff
		for len(s.looks.of(name)) > 0 && s.awaitSight(ctx, name) {
			err := s.lookOnce(ctx, name, r)
			if err != nil && ctx.Err() == nil {
				s.log.Warn("the runner has not looked yet at the pods that there were: no time limit of theirs counts; trying again", "runner", name, "error", err)
			}
			if len(s.looks.of(name)) > 0 && !s.pause(ctx, wait.next()) {
				return
			}
		}
		select {
		case <-s.looks.wake[name]:
		case <-ctx.Done():
			return
		}
	}
}

// sightPoll is how often it is looked whether a runner works again, and how long what its watch
// has missed may take until it has come.
const sightPoll = 2 * time.Second

// awaitSight waits until a runner works that is down; false if ctx has ended.
func (s *Service) awaitSight(ctx context.Context, name string) bool {
	for was := false; ; {
		down := s.isDown(name)
		switch {
		case !down && !was:
			return ctx.Err() == nil
		case !s.pause(ctx, sightPoll):
			return false
		}
		was = down
	}
}

// lookOnce is one look. An attempt that should be there and is not is to be reported as
// lost first. What the runner does not doubt before its beat, the runs have been told once
// that is settled.
func (s *Service) lookOnce(ctx context.Context, name string, r Runner) error {
	_, due, err := s.inCluster(ctx, name)
	if err != nil {
		return err
	}
	held, err := r.Held(ctx)
	for _, a := range held {
		delete(due, a)
	}
	if d, may := as[Doubter](r); may && err == nil {
		for _, a := range d.Doubtful() {
			due[a] = true
		}
	}
	if err == nil {
		err = r.Beat(ctx)
	}
	if err == nil {
		err = s.sinks[name].flushed(ctx)
	}
	if err != nil {
		return err
	}
	for _, a := range s.looks.of(name) {
		if due[a] {
			continue
		}
		o, err := s.e.Runs().Get(ctx, a.Run)
		if err == nil && o.State == core.OrchestratorContainerCreating {
			if elsewhere, err := s.e.Runs().IsElsewhere(ctx, o); err == nil && elsewhere {
				continue // what it has asked for is taken over once that is known to be safe
			}
		}
		s.looks.saw(a)
		s.decide(ctx, o, err, a)
	}
	return nil
}

// decide has a limit count now that was put off until somebody has looked. Where that fails,
// it counts once the time is over for which it was put off.
func (s *Service) decide(ctx context.Context, o core.Orchestrator, err error, a Attempt) {
	isPutOff := func(o core.Orchestrator) error {
		if o.SparedAt.IsZero() || o.RetryAttempt != a.N {
			return errNotPutOff
		}
		return nil
	}
	if err == nil && isPutOff(o) == nil { // a read costs less than a batch
		_, err = s.e.Runs().SendIf(ctx, a.Run, core.OrchestratorDue{Seen: true}, isPutOff)
	}
	_, refused := errors.AsType[*shell.Refusal](err)
	switch {
	case err == nil, refused, errors.Is(err, errNotPutOff), errors.Is(err, shell.ErrNotFound), errors.Is(err, shell.ErrStopped), ctx.Err() != nil:
	default:
		s.log.Error("could not have a limit of a pod count that was put off; it counts later", "pod", a.Name(), "run", a.Run, "error", err)
	}
}

var errNotPutOff = errors.New("no limit of the attempt is put off")
