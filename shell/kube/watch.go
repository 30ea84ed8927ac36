package kube

import (
	"context"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/orrery-go/orrery/shell/jobs"
)

// watcher is what one Watch knows. Its runner's feed brings each attempt's track
// up to date and queue it; one goroutine judges what is queued, in order, and tells
// the sink. So a sink that blocks loses nothing, and what changes several times
// meanwhile is told once.
type watcher struct {
	r      *Runner
	sink   jobs.Sink
	synced chan struct{} // closed when all that there is was seen
	ended  chan struct{} // closed when the Watch has ended

	jobs *reflection // of the runner's feed

	mu     sync.Mutex
	tracks map[jobs.Attempt]*track
	queue  []item
	early  []jobs.Attempt // to be judged once synced
	// of says whose each Job and pod is, and unplaced are the warnings about what was not
	// seen yet.
	of       map[types.UID]jobs.Attempt
	unplaced map[types.UID]notice
	foreign  map[types.UID]jobs.Foreign // Jobs and pods of other databases
	ready    bool                       // synced
	closed   bool
	wake     chan struct{} // of capacity 1
}

// item is a track to judge, or a beat to answer.
type item struct {
	attempt jobs.Attempt
	beat    chan struct{}
}

func newWatcher(r *Runner, sink jobs.Sink) *watcher {
	return &watcher{
		r: r, sink: sink, synced: make(chan struct{}), ended: make(chan struct{}),
		tracks: map[jobs.Attempt]*track{}, of: map[types.UID]jobs.Attempt{}, unplaced: map[types.UID]notice{}, foreign: map[types.UID]jobs.Foreign{},
		wake: make(chan struct{}, 1),
	}
}

// run watches until ctx ends.
func (w *watcher) run(ctx context.Context) error {
	defer w.close()
	w.r.feed.join(ctx, w)
	defer w.r.feed.leave(w)
	w.tell(ctx)
	return ctx.Err()
}

// seen takes a new or changed object from the watch.
func (w *watcher) seen(obj any) {
	if w.isOthers(obj, true) {
		return
	}
	w.take(obj, func(t *track, job *batchv1.Job) { t.job, t.jobSeen = job, true },
		func(t *track, pod *corev1.Pod) { t.take(pod, w.ready) })
}

// gone takes a deleted object, in its last known state, from the watch.
func (w *watcher) gone(obj any) {
	if w.isOthers(obj, false) {
		return
	}
	w.take(obj, func(t *track, _ *batchv1.Job) { t.job = nil }, (*track).lose)
}

// left takes an object, in its last known state, that is of its attempt no more: somebody
// has changed its labels.
func (w *watcher) left(obj any) {
	if w.isOthers(obj, false) {
		return
	}
	w.take(obj, func(t *track, _ *batchv1.Job) { t.job, t.left = nil, true }, func(t *track, pod *corev1.Pod) {
		t.left = true
		t.lose(pod)
	})
}

// take changes the track of an object's attempt, if it is one of ours.
func (w *watcher) take(obj any, job func(*track, *batchv1.Job), pod func(*track, *corev1.Pod)) {
	switch o := obj.(type) {
	case *batchv1.Job:
		if a, ok := attemptOfJob(o); ok {
			w.update(a, func(t *track) {
				job(t, o)
				w.know(a, t, o.UID)
			})
			w.r.arrived(a)
		}
	case *corev1.Pod:
		if a, ok := attemptOfPod(o); ok {
			w.update(a, func(t *track) {
				pod(t, o)
				w.know(a, t, o.UID)
			})
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

// taken says that the API has taken the Job of which it was told that it does not.
func (w *watcher) taken(a jobs.Attempt) {
	w.mu.Lock()
	t := w.tracks[a]
	noted := t != nil && t.note != ""
	w.mu.Unlock()
	if noted {
		w.update(a, func(t *track) { t.taken, t.note = true, "" })
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
	t.doubtful = v.doubt
	news := t.news(v)
	if news {
		t.told = jobs.Observation{Attempt: a, Phase: v.phase, Pod: v.pod, Final: v.final}
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

// doubtful are the attempts that are to be judged yet, or again after a while.
func (w *watcher) doubtful() (out []jobs.Attempt) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for a, t := range w.tracks { // order-free: each is in doubt by itself
		if t.queued || t.doubtful && !t.final() && !t.deleting {
			out = append(out, a)
		}
	}
	return out
}

// beyond reports whether the watch of Jobs has got as far as that version.
func (w *watcher) beyond(version string) bool {
	c, err := resourceversion.CompareResourceVersion(w.jobs.reflector.LastSyncResourceVersion(), version)
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
