package kube

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/jobs"
)

// Limits of reading logs.
const (
	idleFor     = time.Minute     // no byte of logs that are not followed
	confirmFor  = 5 * time.Second // until a stream that ended is looked at again
	maxLineHeld = 64 << 10        // of a line that is not complete, where several are followed
)

// Logs copies what the attempt's pod has written, see [jobs.Runner]: init containers
// first, then the containers, each in the order of the pod spec; with o.Follow those
// of several containers by lines, as they come. Several have their names before what
// they have written, see [jobs.Sections]. A container that never started has
// none. What breaks off is taken up again where it was, as long as ctx lasts; a log
// that the kubelet rotates meanwhile begins anew then, after a line that says so. An error
// of w ends it.
func (r *Runner) Logs(ctx context.Context, a jobs.Attempt, o jobs.LogOptions, out io.Writer) (int, error) {
	w, err := r.synced(ctx)
	if err != nil {
		return 0, err
	}
	t, release := w.use(a)
	defer release()
	c := &counter{}
	l := &logs{r: r, w: w, t: t, o: o}
	err = l.copy(context.WithValue(ctx, counterKey{}, c), out)
	return c.calls(), err
}

// logs is one call of Logs.
type logs struct {
	r   *Runner
	w   *watcher
	t   *track
	o   jobs.LogOptions
	pod string

	unopened atomic.Int32 // containers whose logs are still to be opened
}

func (l *logs) copy(ctx context.Context, out io.Writer) error {
	pod, err := l.await(ctx)
	if err != nil {
		return err
	}
	l.pod = pod.Name
	var names, all []string
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			all = append(all, list[i].Name)
			if l.o.Container == "" || l.o.Container == list[i].Name {
				names = append(names, list[i].Name)
			}
		}
	}
	if len(names) == 0 {
		return fmt.Errorf("logs of pod %s: %w", l.pod, &jobs.NoContainerError{Name: l.o.Container, Names: all})
	}
	l.unopened.Store(int32(len(names))) // a pod has few
	if len(names) == 1 {
		return l.container(ctx, names[0], out)
	}
	sections := jobs.NewSections(out)
	if l.o.Follow {
		return l.together(ctx, names, sections)
	}
	for _, name := range names {
		if err := l.container(ctx, name, sections.Of(name)); err != nil {
			return err
		}
	}
	return nil
}

// together follows several containers at once.
func (l *logs) together(ctx context.Context, names []string, out *jobs.Sections) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	shared := &sync.Mutex{}
	errs := make([]error, len(names))
	var wg sync.WaitGroup
	for i, name := range names {
		wg.Go(func() {
			lines := &lineWriter{mu: shared, out: out.Of(name)}
			if errs[i] = errors.Join(l.container(ctx, name, lines), lines.flush()); errs[i] != nil {
				cancel()
			}
		})
	}
	wg.Wait()
	for _, err := range errs { // rather the cause than that the others were stopped
		if err != nil && !errors.Is(err, context.Canceled) {
			return err
		}
	}
	return errors.Join(errs...)
}

// await gives the pod, once there is one where that is worth waiting for.
func (l *logs) await(ctx context.Context) (*corev1.Pod, error) {
	for {
		l.w.mu.Lock()
		pod, worth, changed := l.t.pod(), l.o.Follow && l.t.job != nil && !l.t.final() && l.t.gone == nil, l.t.changed
		l.w.mu.Unlock()
		switch {
		case pod != nil:
			return pod, nil
		case !worth:
			return nil, jobs.ErrNoPod
		}
		if err := l.wait(ctx, changed, 0); err != nil {
			return nil, err
		}
	}
}

// wait waits for a change, no longer than limit if that is not 0.
func (l *logs) wait(ctx context.Context, changed <-chan struct{}, limit time.Duration) error {
	var timeout <-chan time.Time
	if limit > 0 {
		t := time.NewTimer(limit)
		defer t.Stop()
		timeout = t.C
	}
	select {
	case <-changed:
	case <-timeout:
	case <-l.w.ended:
		return errWatchEnded
	case <-ctx.Done():
		return fmt.Errorf("logs of pod %s: %w", l.pod, ctx.Err())
	}
	return nil
}

// standing is how far a container is.
type standing int

const (
	notStarted   standing = iota
	started               // it runs
	hasEnded              // it has ended
	neverStarted          // its pod has ended without it
	podGone
)

func (l *logs) standing(name string) (standing, <-chan struct{}) {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	pod := l.t.pod()
	if pod == nil {
		return podGone, l.t.changed
	}
	c := statusOf(pod.Status.ContainerStatuses, name)
	if c == nil {
		c = statusOf(pod.Status.InitContainerStatuses, name)
	}
	switch {
	case c != nil && c.State.Terminated != nil:
		return hasEnded, l.t.changed
	case c != nil && c.State.Running != nil:
		return started, l.t.changed
	case pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed:
		return neverStarted, l.t.changed
	}
	return notStarted, l.t.changed
}

// opened notes that what a container writes from now on is read, or that it writes nothing.
func (l *logs) opened() {
	if l.unopened.Add(-1) == 0 && l.o.Opened != nil {
		l.o.Opened()
	}
}

// container copies what one container has written.
func (l *logs) container(ctx context.Context, name string, out io.Writer) error {
	in := newResuming(out, sync.OnceFunc(l.opened))
	defer in.opened()
	for tries := 0; ; {
		s, changed := l.standing(name)
		switch {
		case s == podGone && in.whole: // it went as soon as its containers had ended
			return nil
		case s == podGone:
			return fmt.Errorf("logs of pod %s: %w", l.pod, jobs.ErrNoPod)
		case s == neverStarted || s == notStarted && !l.o.Follow:
			return nil
		case s == notStarted:
			in.opened()
			if err := l.wait(ctx, changed, 0); err != nil {
				return err
			}
			continue
		}
		before := in.written
		err := l.stream(ctx, name, in)
		switch {
		case errors.Is(err, errLogGone):
			return nil // what there was of it is written
		case errors.Is(err, errOtherLog):
			if err := in.anew(); err != nil {
				return err
			}
			continue
		}
		in.whole = in.whole && apierrors.IsNotFound(err) || err == nil
		if ctx.Err() == nil && in.failed == nil {
			l.r.health.note(err)
		}
		if in.written > before {
			tries = 0
		}
		more, err := l.afterStream(ctx, s, changed, err, in, tries)
		if !more {
			return err
		}
		tries++
	}
}

// afterStream reports whether the container is to be read once more, and waits first.
func (l *logs) afterStream(ctx context.Context, s standing, changed <-chan struct{}, err error, in *resuming, tries int) (bool, error) {
	switch {
	case in.failed != nil:
		return false, in.failed
	case ctx.Err() != nil:
		return false, fmt.Errorf("logs of pod %s: %w", l.pod, ctx.Err())
	case err == nil && (!l.o.Follow || s == hasEnded):
		return false, nil
	case err == nil: // it ended just now, or the stream broke: read what is missing
		if err := l.wait(ctx, changed, confirmFor); err != nil {
			return false, err
		}
		return true, nil
	case apierrors.IsNotFound(err) && in.whole:
		return false, nil
	case apierrors.IsNotFound(err):
		return false, fmt.Errorf("logs of pod %s: %w", l.pod, jobs.ErrNoPod)
	case apierrors.IsBadRequest(err) && strings.Contains(err.Error(), "waiting to start"):
		// The kubelet knows of no start, whatever the pod's status says.
		if !l.o.Follow {
			return false, nil
		}
	case l.r.health.doubts(err):
	case isPersistent(err):
		return false, shell.Permanent(explained("logs of pod "+l.pod, err))
	case l.onLostNode():
		return false, explained("logs of pod "+l.pod+": its node is lost", err)
	}
	if _, ended := l.r.pause(ctx, waitAfter(tries, err), err); ended != nil {
		return false, explained("logs of pod "+l.pod, err)
	}
	return true, nil
}

func (l *logs) onLostNode() bool {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	pod := l.t.pod()
	return pod != nil && nodeLost(pod)
}

// stream reads a container's log from its beginning.
func (l *logs) stream(ctx context.Context, name string, in *resuming) error {
	if err := l.r.limit.Wait(ctx); err != nil {
		return fmt.Errorf("the limit of calls left no room for it: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	l.r.count(ctx)
	idle := time.AfterFunc(idleFor, cancel)
	defer idle.Stop()
	body, err := l.r.client.Pods(l.r.namespace).GetLogs(l.pod, &corev1.PodLogOptions{Container: name, Follow: l.o.Follow}).Stream(ctx)
	if err != nil {
		return err
	}
	defer body.Close()
	if in.opened != nil {
		in.opened()
	}
	in.begin()
	buf := make([]byte, 32<<10)
	for {
		if l.o.Follow {
			idle.Stop() // a container may be silent
		} else {
			idle.Reset(idleFor)
		}
		n, err := body.Read(buf)
		if e := in.take(buf[:n]); e != nil {
			return e
		}
		if err != nil {
			e := in.end()
			if err != io.EOF {
				e = err
			}
			return e
		}
	}
}

// lineWriter writes whole lines to what it shares with others.
type lineWriter struct {
	mu   *sync.Mutex
	out  io.Writer
	held []byte
}

func (l *lineWriter) Write(b []byte) (int, error) {
	l.held = append(l.held, b...)
	end := bytes.LastIndexByte(l.held, '\n') + 1
	if end == 0 && len(l.held) > maxLineHeld {
		end = len(l.held)
	}
	if end == 0 {
		return len(b), nil
	}
	if err := l.write(l.held[:end]); err != nil {
		return 0, err
	}
	l.held = append(l.held[:0], l.held[end:]...)
	return len(b), nil
}

func (l *lineWriter) flush() error {
	if len(l.held) == 0 {
		return nil
	}
	return l.write(append(l.held, '\n'))
}

func (l *lineWriter) write(b []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err := l.out.Write(b)
	return err
}
