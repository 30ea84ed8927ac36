package jobs

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"time"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/internal/headtail"
)

// ErrNoPod says that an attempt has no pod whose logs could be read.
var ErrNoPod = errors.New("there is no pod")

// Logs copies the logs of an attempt of a run to w: the stored logs, or while there
// are none yet those of its pod. With o.Follow it waits for the pod if there is none
// yet, and goes on until the attempt has ended. Of stored logs o.Container picks the lines of
// one container, and those behind what was dropped whose container is not known; a name that
// there is not is a [NoContainerError]. While the runner is down, o.Kept
// says what is given without o.Follow, and a [DownError] that nothing is. If there are no logs the
// error is an [ErrNoPod] that says why; it does not name the run and the attempt. Logs
// waits until Run knows the engine.
func (s *Service) Logs(ctx context.Context, run core.Orchestrator, attempt uint32, o LogOptions, w io.Writer) error {
	if _, err := s.engine(ctx); err != nil {
		return err
	}
	l := &logReader{s: s, run: run, attempt: attempt, o: o, w: &hashed{w: w, sum: sha256.New()}}
	if !o.Follow {
		_, err := l.copyNew(ctx)
		return err
	}
	// Whatever changes after this is heard of.
	changes := s.e.Subscribe(func(ev effects.Event) bool { return ev.Source.ID == run.ID }, 1)
	defer changes.Close()
	for {
		var err error
		if l.run, err = s.e.Runs().Get(ctx, run.ID); err != nil {
			return err
		}
		done, err := l.copyNew(ctx)
		if done || err != nil && !l.mayCome(err) {
			return err
		}
		look, stop := s.o.Clock.Timer(followPoll)
		select {
		case <-changes.C:
		case <-look:
		case <-ctx.Done():
		case <-s.e.Stopped():
			stop()
			return shell.ErrStopped
		}
		stop()
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// followPoll is how often a reader reads the run by itself: the bus may drop events.
const followPoll = 5 * time.Second

// logReader reads the logs of one attempt for one reader.
type logReader struct {
	s       *Service
	run     core.Orchestrator
	attempt uint32
	o       LogOptions
	w       *hashed // what was copied
	whole   bool    // the pod's logs were followed to their end
}

// mayCome reports whether there may be logs later, though there are none now.
func (l *logReader) mayCome(err error) bool { return errors.Is(err, ErrNoPod) && !l.ended() }

// ended reports whether the attempt has ended, and all that is kept of it is stored. What
// of an ended run cannot be deleted may stay for ever: nobody waits for that.
func (l *logReader) ended() bool {
	o := l.run
	if o.RetryAttempt != l.attempt {
		return o.RetryAttempt > l.attempt || o.State.Terminal()
	}
	return o.State == core.OrchestratorRetrying || o.State.Terminal() && (!o.InCluster || o.Cleanup.Failing())
}

// began reports whether a pod of the attempt ran, or that is not known any more.
func (l *logReader) began() bool {
	o := l.run
	if o.RetryAttempt == l.attempt {
		return !o.ExecutionStartedAt.IsZero() || !o.Ran.StartedAt.IsZero()
	}
	for _, p := range o.PastAttempts {
		if p.Attempt == l.attempt {
			return !p.StartedAt.IsZero() || !p.Ran.StartedAt.IsZero()
		}
	}
	return true
}

// copyNew copies the logs that there are, as far as they were not copied yet; done:
// there will be no more.
func (l *logReader) copyNew(ctx context.Context) (done bool, err error) {
	if l.whole { // what is stored is the same, in another order, and perhaps of more containers
		return l.ended(), nil
	}
	o := l.run
	if o.RetryAttempt == l.attempt && o.InCluster && !o.Logs.Stored {
		// Of a pod that is being deleted only a part is stored before its end.
		err = l.copyLive(ctx)
		if down, is := errors.AsType[*DownError](err); is {
			return l.copyKept(ctx, down)
		}
		if !errors.Is(err, ErrNoPod) || l.o.Follow && !l.ended() {
			return false, err // also where the pod is just gone: the rest is about to be stored
		}
	}
	if done, stored := l.copyStored(ctx); done || stored != nil {
		return done, stored
	}
	switch {
	case err != nil:
		return false, err
	case o.RetryAttempt == l.attempt && o.InCluster:
		return false, l.copyLive(ctx)
	case l.w.n > 0 && l.ended():
		return true, nil
	case o.RetryAttempt < l.attempt:
		return false, noLogsError("it has not begun")
	case o.RetryAttempt == l.attempt && o.Logs.Error != "":
		return false, noLogsError(o.Logs.Error)
	case l.ended() && !l.began():
		return false, noLogsError("the pod did not start")
	case l.ended() && o.Config.Logs.Discard:
		return false, noLogsError("its job keeps no logs")
	case l.ended():
		return false, noLogsError("it has left none")
	}
	return false, noLogsError("there is no pod yet")
}

// noLogsError is an [ErrNoPod] that says why there are no logs. It does not name the
// attempt: the caller does.
type noLogsError string

// Error implements error.
func (e noLogsError) Error() string { return string(e) }

// Unwrap lets [errors.Is] find it.
func (noLogsError) Unwrap() error { return ErrNoPod }

// copyStored copies the stored logs; done: there are some.
func (l *logReader) copyStored(ctx context.Context) (done bool, err error) {
	text, err := l.s.logs.Log(ctx, l.run.ID, l.attempt)
	if errors.Is(err, shell.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if text, err = l.wanted(text); err != nil {
		return false, err
	}
	if !l.w.isPrefixOf(text) {
		// The reader has seen what was dropped, or one container of several, or several
		// whose stretches are stored in another order.
		text = []byte("… the rest is in the stored logs …\n")
	} else {
		text = text[l.w.n:]
	}
	_, err = l.w.Write(text)
	return true, err
}

// copyKept copies what is stored of the logs of a pod whose runner is down.
func (l *logReader) copyKept(ctx context.Context, down *DownError) (done bool, err error) {
	text, err := l.s.logs.Log(ctx, l.run.ID, l.attempt)
	switch {
	case errors.Is(err, shell.ErrNotFound):
		return false, down
	case err != nil:
		return false, errors.Join(down, err)
	}
	if text, err = l.wanted(text); err != nil {
		return false, err
	}
	if l.o.Kept != nil {
		l.o.Kept(down)
		down = nil
	}
	_, err = l.w.Write(text)
	if down != nil {
		err = errors.Join(down, err)
	}
	return true, err
}

// wanted gives what of stored logs is asked for.
func (l *logReader) wanted(text []byte) ([]byte, error) {
	if l.o.Container == "" {
		return text, nil
	}
	return ofContainer(text, containersOf(l.run.Config.PodSpec), l.o.Container)
}

// downFor is how long a runner is waited for that is down before logs that are not followed
// are refused.
const downFor = 5 * time.Second

// copyLive copies what the pod writes.
func (l *logReader) copyLive(ctx context.Context) error {
	name, r, err := l.s.runner(l.run.Config)
	if err != nil {
		return fmt.Errorf("run %s: %w", l.run.RunID, err)
	}
	if h := l.s.healthOf(name); !l.o.Follow && h.Status == HealthDown && l.s.o.Clock.Now().Sub(h.Since) > downFor {
		return &DownError{Runner: name, Health: h} // rather than a wait for what does not come
	}
	_, err = r.Logs(ctx, Attempt{Run: l.run.ID, N: l.attempt}, l.o, &skipping{w: l.w, skip: l.w.n})
	if err != nil {
		return fmt.Errorf("runner %s: %w", name, err)
	}
	l.whole = l.o.Follow
	return nil
}

// hashed is a writer that can tell whether a text begins with what was written to it.
type hashed struct {
	w   io.Writer
	sum hash.Hash // of what was written
	n   int64     // bytes that were written
}

// Write implements [io.Writer].
func (p *hashed) Write(b []byte) (int, error) {
	n, err := p.w.Write(b)
	p.sum.Write(b[:n])
	p.n += int64(n)
	return n, err
}

// isPrefixOf reports whether a text begins with all that was written.
func (p *hashed) isPrefixOf(text []byte) bool {
	if p.n > int64(len(text)) {
		return false
	}
	sum := sha256.Sum256(text[:p.n])
	return bytes.Equal(sum[:], p.sum.Sum(nil))
}

// skipping leaves out what was copied before.
type skipping struct {
	w    io.Writer
	skip int64
}

// Write implements [io.Writer].
func (s *skipping) Write(p []byte) (int, error) {
	left := min(s.skip, int64(len(p)))
	s.skip -= left
	n, err := s.w.Write(p[left:])
	return int(left) + n, err
}

// keptText gives what a buffer keeps as one text, with a line in the place of what was
// dropped, and how many bytes were kept and dropped. The cuts are at the ends of
// lines where there are some nearby, and else between characters.
func keptText(b *headtail.Buffer) (text []byte, bytesKept, dropped int64) {
	head, tail := b.From(0)
	if b.Total() == int64(b.Kept()) {
		return append(head, tail...), b.Total(), 0
	}
	text, tail = headtail.CutHead(head, maxCut), headtail.CutTail(tail, maxCut)
	bytesKept = int64(len(text) + len(tail))
	dropped = b.Total() - bytesKept
	if len(text) > 0 && text[len(text)-1] != '\n' {
		text = append(text, '\n')
	}
	text = fmt.Appendf(text, marker, dropped)
	return append(text, tail...), bytesKept, dropped
}

// marker stands in the place of what was dropped. maxMarker is the most that it
// adds: a line end before it, and a number of up to 19 digits.
const (
	marker    = "… %d bytes dropped …\n"
	maxMarker = len(marker) + 20
)

// maxCut bounds what a cut at the end of a line may cost.
const maxCut = 4 << 10
