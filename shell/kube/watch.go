package kube

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/orrery-go/orrery/shell/jobs"
)

// watcher is what one Watch knows. Its informers' handlers bring each attempt's track
// up to date and queue it; one goroutine judges what is queued, in order, and tells
// the sink. So a sink that blocks loses nothing, and what changes several times
// meanwhile is told once.
type watcher struct {
	r      *Runner
	sink   jobs.Sink
	synced chan struct{} // closed when all that there is was seen
	ended  chan struct{} // closed when the Watch has ended

	jobs, pods cache.SharedIndexInformer

	mu     sync.Mutex
	tracks map[jobs.Attempt]*track
	queue  []item
	early  []jobs.Attempt // to be judged once synced
	ready  bool           // synced
	closed bool
	wake   chan struct{} // of capacity 1
	down   map[string]bool
}

// item is a track to judge, or a beat to answer.
type item struct {
	attempt jobs.Attempt
	beat    chan struct{}
}

func newWatcher(r *Runner, sink jobs.Sink) *watcher {
	return &watcher{
		r: r, sink: sink, synced: make(chan struct{}), ended: make(chan struct{}),
		tracks: map[jobs.Attempt]*track{}, wake: make(chan struct{}, 1), down: map[string]bool{},
	}
}

// run watches until ctx ends.
func (w *watcher) run(ctx context.Context) error {
	w.jobs = informer(w, "jobs", &batchv1.Job{}, w.r.client.BatchV1().Jobs(w.r.namespace))
	w.pods = informer(w, "pods", &corev1.Pod{}, w.r.client.CoreV1().Pods(w.r.namespace))
	var synced []cache.DoneChecker
	for _, inf := range []cache.SharedIndexInformer{w.jobs, w.pods} {
		h, err := inf.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: w.seen, UpdateFunc: func(_, obj any) { w.seen(obj) }, DeleteFunc: w.gone,
		})
		if err == nil {
			err = inf.SetTransform(trim)
		}
		if err == nil { // what there is to say is said by reached and unreachable
			err = inf.SetWatchErrorHandlerWithContext(func(context.Context, *cache.Reflector, error) {})
		}
		if err != nil {
			return err
		}
		synced = append(synced, h.HasSyncedChecker())
	}
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(logged(ctx, w.r.log))
	defer w.close()
	defer wg.Wait()
	defer cancel()
	wg.Go(func() { w.jobs.RunWithContext(ctx) })
	wg.Go(func() { w.pods.RunWithContext(ctx) })
	wg.Go(func() {
		for _, s := range synced {
			select {
			case <-s.Done():
			case <-ctx.Done():
				return
			}
		}
		w.markSynced()
	})
	w.tell(ctx)
	return ctx.Err()
}

// Limits of a list and of the time until a watch begins: a server that takes a
// connection and never answers must not stop the watch for ever.
const (
	listTimeout  = 2 * time.Minute
	watchTimeout = time.Minute
)

// lister is the part of a typed client that an informer needs.
type lister[L runtime.Object] interface {
	List(context.Context, metav1.ListOptions) (L, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
}

func informer[L runtime.Object](w *watcher, what string, example runtime.Object, api lister[L]) cache.SharedIndexInformer {
	selector := labels.SelectorFromSet(labels.Set{LabelInstance: w.r.instance}).String()
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			ctx, cancel := context.WithTimeout(ctx, listTimeout)
			defer cancel()
			o.LabelSelector = selector
			l, err := api.List(ctx, o)
			if err != nil { // else the watch that follows says whether it can be watched
				w.reached(ctx, what, err)
			}
			return l, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.LabelSelector = selector
			i, err := boundedWatch(ctx, o, api.Watch)
			if o.SendInitialEvents == nil || !apierrors.IsInvalid(err) { // else an older server, which is asked for a list then
				w.reached(ctx, what, err)
			}
			return i, err
		},
	}
	return cache.NewSharedIndexInformerWithOptions(cache.ToListWatcherWithWatchListSemantics(lw, w.r.client), example,
		cache.SharedIndexInformerOptions{ObjectDescription: what})
}

// boundedWatch begins a watch that ends by itself a little after the server should
// have ended it: a connection that nobody serves any more looks like a quiet one.
func boundedWatch(ctx context.Context, o metav1.ListOptions, begins watchFunc) (watch.Interface, error) {
	limit := time.Hour
	if o.TimeoutSeconds != nil {
		limit = time.Duration(*o.TimeoutSeconds)*time.Second + watchTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	begin := time.AfterFunc(watchTimeout, cancel)
	i, err := begins(ctx, o)
	begin.Stop()
	if err != nil {
		cancel()
		return nil, err
	}
	return stopping{i, cancel}, nil
}

type watchFunc func(context.Context, metav1.ListOptions) (watch.Interface, error)

type stopping struct {
	watch.Interface
	cancel context.CancelFunc
}

func (s stopping) Stop() {
	s.Interface.Stop()
	s.cancel()
}

// reached logs once that a resource cannot be watched, and once that it can again.
func (w *watcher) reached(ctx context.Context, what string, err error) {
	if ctx.Err() != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded) || apierrors.IsResourceExpired(err) || apierrors.IsGone(err) || errors.Is(err, io.EOF) {
		return // the end, or a list comes next
	}
	w.mu.Lock()
	was := w.down[what]
	w.down[what] = err != nil
	w.mu.Unlock()
	switch {
	case err != nil && !was:
		w.r.log.WarnContext(ctx, "cannot watch the cluster; trying again", "resource", what, "namespace", w.r.namespace, "error", err)
	case err == nil && was:
		w.r.log.InfoContext(ctx, "watching the cluster again", "resource", what, "namespace", w.r.namespace)
	}
}

// seen takes a new or changed object from the watch.
func (w *watcher) seen(obj any) {
	w.take(obj, func(t *track, job *batchv1.Job) { t.job, t.jobSeen = job, true },
		func(t *track, pod *corev1.Pod) { t.take(pod, w.ready) })
}

// gone takes a deleted object, in its last known state, from the watch.
func (w *watcher) gone(obj any) {
	if d, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = d.Obj
	}
	w.take(obj, func(t *track, _ *batchv1.Job) { t.job = nil }, (*track).lose)
}

// take changes the track of an object's attempt, if it is one of ours.
func (w *watcher) take(obj any, job func(*track, *batchv1.Job), pod func(*track, *corev1.Pod)) {
	switch o := obj.(type) {
	case *batchv1.Job:
		if a, ok := attemptOfJob(o); ok {
			w.update(a, func(t *track) { job(t, o) })
			w.r.arrived(a)
		}
	case *corev1.Pod:
		if a, ok := attemptOfPod(o); ok {
			w.update(a, func(t *track) { pod(t, o) })
		}
	}
}

// note says why the API does not take a Job; empty: no more.
func (w *watcher) note(a jobs.Attempt, note string) {
	w.mu.Lock()
	t := w.tracks[a]
	same := t == nil && note == "" || t != nil && t.note == note
	w.mu.Unlock()
	if !same {
		w.update(a, func(t *track) { t.note = note })
	}
}

// update changes a track, tells those who wait for it, and queues it.
func (w *watcher) update(a jobs.Attempt, change func(*track)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	t := w.trackOf(a)
	change(t)
	close(t.changed)
	t.changed = make(chan struct{})
	w.enqueue(a, t)
}

func (w *watcher) trackOf(a jobs.Attempt) *track {
	t := w.tracks[a]
	if t == nil {
		t = newTrack()
		w.tracks[a] = t
	}
	return t
}

func (w *watcher) enqueue(a jobs.Attempt, t *track) {
	if t.queued || w.closed {
		return
	}
	t.queued = true
	w.push(item{attempt: a})
}

func (w *watcher) push(i item) {
	w.queue = append(w.queue, i)
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// markSynced queues what was seen early: a pod without its Job would have looked orphaned.
func (w *watcher) markSynced() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ready = true
	for _, a := range w.early {
		w.push(item{attempt: a})
	}
	w.early = nil
	close(w.synced)
}

// beat queues a beat behind all that was seen before.
func (w *watcher) beat() <-chan struct{} {
	done := make(chan struct{})
	w.mu.Lock()
	defer w.mu.Unlock()
	w.push(item{beat: done})
	return done
}

// tell judges what is queued and tells the sink, until ctx ends.
func (w *watcher) tell(ctx context.Context) {
	for ctx.Err() == nil {
		w.mu.Lock()
		if len(w.queue) == 0 {
			w.queue = nil // gives its memory back
			w.mu.Unlock()
			select {
			case <-w.wake:
			case <-ctx.Done():
			}
			continue
		}
		next := w.queue[0]
		w.queue = w.queue[1:]
		if next.beat != nil {
			w.mu.Unlock()
			close(next.beat)
			continue
		}
		o, news := w.judge(next.attempt)
		w.mu.Unlock()
		if news {
			w.sink.Observe(ctx, o)
		}
	}
}

// judge says what is to be told of an attempt, and whether it is new. Until all that
// there is was seen, that is no more than why its Job cannot be created.
func (w *watcher) judge(a jobs.Attempt) (jobs.Observation, bool) {
	t := w.tracks[a]
	if t == nil {
		return jobs.Observation{}, false
	}
	if !w.ready && (t.note == "" || t.inCluster() || t.jobSeen || t.first != "") {
		w.early = append(w.early, a) // and stays queued
		return jobs.Observation{}, false
	}
	t.queued = false
	v := t.judge(time.Now())
	news := t.news(v)
	if news {
		t.told = jobs.Observation{Attempt: a, Phase: v.phase, Pod: v.pod}
	}
	if t.timer != nil {
		t.timer.Stop()
		t.timer = nil
	}
	if v.wait > 0 && !t.final() {
		t.timer = time.AfterFunc(v.wait, func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.tracks[a] == t {
				w.enqueue(a, t)
			}
		})
	}
	told := t.told
	w.forget(a, t)
	return told, news
}

// forget drops a track that has served its purpose.
func (w *watcher) forget(a jobs.Attempt, t *track) {
	if t.forgettable() && w.tracks[a] == t {
		delete(w.tracks, a)
	}
}

// use gives an attempt's track to a waiter, until the waiter calls the function.
func (w *watcher) use(a jobs.Attempt) (*track, func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	t := w.trackOf(a)
	t.users++
	return t, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		t.users--
		w.forget(a, t)
	}
}

func (w *watcher) hasJob(a jobs.Attempt) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	t := w.tracks[a]
	return t != nil && t.jobSeen
}

// jobOf is the Job of an attempt, as the watch has shown it last; nil: there is none.
func (w *watcher) jobOf(a jobs.Attempt) *batchv1.Job {
	w.mu.Lock()
	defer w.mu.Unlock()
	if t := w.tracks[a]; t != nil {
		return t.job
	}
	return nil
}

// held are the attempts of which there is a Job or a pod.
func (w *watcher) held() map[jobs.Attempt]bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := make(map[jobs.Attempt]bool, len(w.tracks))
	for a, t := range w.tracks {
		if t.inCluster() {
			out[a] = true
		}
	}
	return out
}

// beyond reports whether the watch of Jobs has got as far as that version.
func (w *watcher) beyond(version string) bool {
	c, err := resourceversion.CompareResourceVersion(w.jobs.LastSyncResourceVersion(), version)
	return err == nil && c >= 0
}

func (w *watcher) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	for _, t := range w.tracks {
		if t.timer != nil {
			t.timer.Stop()
		}
	}
}
