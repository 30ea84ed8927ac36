package kube

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// Limits of a list and of a watch: a server that takes a connection and never answers, or
// tells no more, must not look like a quiet one.
const (
	listTimeout  = time.Minute
	beginTimeout = 10 * time.Second // until a watch begins
	quietFor     = 90 * time.Second // that a server tells nothing which says each minute that nothing has changed
	lateEnd      = time.Minute      // how much later than it should a server may end a watch
	earlyEnd     = 10 * time.Second // how much earlier
)

var (
	errUnanswered = fmt.Errorf("the server has not answered for %s", beginTimeout)
	errQuiet      = fmt.Errorf("the server has told nothing for %s, not even that nothing has changed", quietFor)
	errBrokeOff   = errors.New("the watch broke off")
)

// bounds bound the watches of one resource in time.
type bounds struct {
	broke func(error) // a watch has ended that should not have
	ticks atomic.Bool // the server says each minute that nothing has changed
}

type watchFunc func(context.Context, metav1.ListOptions) (watch.Interface, error)

// watch begins a watch, if the server answers in time.
func (b *bounds) watch(ctx context.Context, o metav1.ListOptions, begins watchFunc) (watch.Interface, error) {
	ctx, cancel := context.WithCancel(ctx)
	begin := time.AfterFunc(beginTimeout, cancel)
	inner, err := begins(ctx, o)
	late := !begin.Stop()
	switch {
	case err == nil && late:
		inner.Stop()
		fallthrough
	case late:
		cancel()
		return nil, errUnanswered
	case err != nil:
		cancel()
		return nil, err
	}
	w := &boundedWatch{bounds: b, inner: inner, cancel: cancel, out: make(chan watch.Event), stopped: make(chan struct{}), began: time.Now()}
	select {
	case e, begun := <-inner.ResultChan():
		if !begun { // client-go says so of a connection that broke before there was an answer
			w.Stop()
			return nil, errBrokeOff
		}
		w.first = &e
	default:
	}
	if o.TimeoutSeconds != nil {
		w.lasts = time.Duration(*o.TimeoutSeconds) * time.Second
	}
	go w.pass(ctx)
	return w, nil
}

// boundedWatch is a watch that ends once its server tells nothing any more.
type boundedWatch struct {
	*bounds
	inner   watch.Interface
	cancel  context.CancelFunc
	out     chan watch.Event
	once    sync.Once
	stopped chan struct{} // closed by Stop
	first   *watch.Event
	began   time.Time
	lasts   time.Duration // 0: the server decides
}

// ResultChan implements [watch.Interface].
func (w *boundedWatch) ResultChan() <-chan watch.Event { return w.out }

// Stop implements [watch.Interface].
func (w *boundedWatch) Stop() {
	w.once.Do(func() {
		close(w.stopped)
		w.inner.Stop()
		w.cancel()
	})
}

// pass hands on what the server tells, until the watch ends.
func (w *boundedWatch) pass(ctx context.Context) {
	defer close(w.out)
	defer w.Stop()
	lasts := time.Hour
	if w.lasts > 0 {
		lasts = w.lasts + lateEnd
	}
	end, quiet := time.NewTimer(lasts), time.NewTimer(quietFor)
	defer end.Stop()
	defer quiet.Stop()
	if w.first != nil && !w.hand(*w.first) {
		return
	}
	var ticked time.Time
	for {
		select {
		case e, more := <-w.inner.ResultChan():
			if !more {
				w.ended(ctx)
				return
			}
			quiet.Reset(quietFor)
			if isTick(e) {
				// One that comes just before the end of each watch is none.
				if !ticked.IsZero() && time.Since(ticked) < quietFor {
					w.ticks.Store(true)
				}
				ticked = time.Now()
			}
			if !w.hand(e) {
				return
			}
		case <-quiet.C:
			if w.ticks.Load() {
				w.broke(errQuiet)
				return
			}
		case <-end.C:
			return // the next one says whether the server lives
		case <-w.stopped:
			return
		}
	}
}

// hand hands on an event; false: nobody wants it any more.
func (w *boundedWatch) hand(e watch.Event) bool {
	if e.Type == watch.Error {
		if err := apierrors.FromObject(e.Object); !isExpired(err) {
			w.broke(err)
		}
	}
	select {
	case w.out <- e:
		return true
	case <-w.stopped:
		return false
	}
}

// ended notes that the server has ended the watch, if that is too early.
func (w *boundedWatch) ended(ctx context.Context) {
	select {
	case <-w.stopped:
		return
	default:
	}
	if ctx.Err() == nil && time.Since(w.began) < w.lasts-earlyEnd {
		w.broke(errBrokeOff)
	}
}

// isTick reports whether an event says that nothing has changed, and not that all was told
// that there was at the watch's beginning.
func isTick(e watch.Event) bool {
	if e.Type != watch.Bookmark {
		return false
	}
	o, err := meta.Accessor(e.Object)
	return err == nil && o.GetAnnotations()[metav1.InitialEventsAnnotationKey] != "true"
}

// isExpired reports whether the server does not know any more what a watch wants to go on
// from: a list comes next.
func isExpired(err error) bool { return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) }
