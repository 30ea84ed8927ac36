package kube

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// feed watches a cluster for one or several runners: by one watch of Jobs, one of pods and one of warnings, whatever their number. It watches from the first
// watcher that joins until the last one has left. Each watcher gets each object, and drops what is not its runner's.
type feed struct {
	client              API
	namespace, instance string
	log                 *slog.Logger
	health              *health

	mu       sync.Mutex // held while an object is handed on, so that who joins misses none and gets none twice
	watchers []*watcher
	on       *feeding // nil: nobody watches
}

// feeding is the time of a feed from the first watcher to the last.
type feeding struct {
	f                  *feed
	jobs, pods, events *reflection
	synced             bool
	stop               func()
	running            sync.WaitGroup
}

// join has a watcher hear of all that there is, and then of each change.
func (f *feed) join(ctx context.Context, w *watcher) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.on == nil {
		f.on = f.begin(ctx)
	}
	w.jobs = f.on.jobs
	f.watchers = append(f.watchers, w)
	for _, of := range []*reflection{f.on.jobs, f.on.pods} {
		for _, obj := range of.store.objects { // order-free: of an attempt's pods the oldest counts
			w.seen(obj)
		}
	}
	if f.on.synced {
		w.markSynced()
	}
}

// leave has a watcher hear nothing more.
func (f *feed) leave(w *watcher) {
	f.mu.Lock()
	f.watchers = slices.DeleteFunc(f.watchers, func(other *watcher) bool { return other == w })
	ended := f.on
	if len(f.watchers) > 0 || ended == nil {
		f.mu.Unlock()
		return
	}
	f.on = nil
	ended.stop()
	f.mu.Unlock()
	ended.running.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.on == nil { // else another one has joined meanwhile
		f.health.watch(false)
	}
}

// begin begins to watch; under the lock. It goes on after ctx has ended.
func (f *feed) begin(ctx context.Context) *feeding {
	ctx, cancel := context.WithCancel(logged(context.WithoutCancel(ctx), f.log))
	on := &feeding{f: f, stop: cancel}
	f.health.watch(true)
	its := labels.SelectorFromSet(labels.Set{LabelInstance: f.instance}).String()
	choose := func(o *metav1.ListOptions) { o.LabelSelector = its }
	on.jobs = reflect(ctx, f, source[*batchv1.JobList]{watchingJobs, f.client.Jobs(f.namespace), choose}, &batchv1.Job{}, on.mirror())
	on.pods = reflect(ctx, f, source[*corev1.PodList]{watchingPods, f.client.Pods(f.namespace), choose}, &corev1.Pod{}, on.mirror())
	on.events = on.eventsOf(ctx)
	for _, r := range []*reflection{on.jobs, on.pods} {
		on.running.Go(func() { r.run(ctx) })
	}
	on.running.Go(func() {
		for _, r := range []*reflection{on.jobs, on.pods} {
			select {
			case <-r.store.synced:
			case <-ctx.Done():
				return
			}
		}
		on.markSynced()
		on.events.run(ctx) // they are about what is known
	})
	return on
}

// mirror makes the store of a reflection, which hands each object on to all watchers.
func (on *feeding) mirror() *mirror {
	tell := func(hear func(*watcher, any)) func(any) {
		return func(obj any) { on.tell(func(w *watcher) { hear(w, obj) }) }
	}
	return newMirror(&on.f.mu, tell((*watcher).seen), tell((*watcher).gone), tell((*watcher).left))
}

// tell tells each watcher; under the lock. A time that is over tells nobody anything.
func (on *feeding) tell(hear func(*watcher)) {
	if on.f.on != on {
		return
	}
	for _, w := range on.f.watchers {
		hear(w)
	}
}

// markSynced says that all that there is was seen.
func (on *feeding) markSynced() {
	on.f.mu.Lock()
	defer on.f.mu.Unlock()
	if on.f.on != on {
		return
	}
	on.synced = true
	on.f.health.synced()
	on.tell((*watcher).markSynced)
}

// reached notes whether a resource can be watched, and logs once that it cannot, and once
// that it can again.
func (f *feed) reached(ctx context.Context, what string, err error) {
	if ctx.Err() != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded) || isExpired(err) {
		return // the end, or a list comes next
	}
	resource := strings.TrimPrefix(what, "watch ")
	switch {
	case err != nil && f.health.failed(what, err):
		f.log.WarnContext(ctx, "cannot watch the cluster; trying again", "resource", resource, "namespace", f.namespace, "error", err)
	case err == nil && f.health.worked(what):
		f.log.InfoContext(ctx, "watching the cluster again", "resource", resource, "namespace", f.namespace)
	}
}
