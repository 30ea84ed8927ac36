package kube

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	k8swait "k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/orrery-go/orrery/shell/internal/pause"
	"github.com/orrery-go/orrery/shell/jobs"
)

// rewatch are the waits between two tries to watch a resource. With the jitter the longest
// lasts from 4 to 8 seconds, so that a watch is back within 10 of its server; client-go's own
// would last for up to a minute. There are three watches, whatever the number of runs: they
// ask a server that returns for less than one thing a second.
var rewatch = k8swait.Backoff{Duration: 500 * time.Millisecond, Factor: 2, Jitter: 1, Steps: 10, Cap: 4 * time.Second}

const (
	steadyFor   = 10 * time.Second // a watch that lasted so long was no failure
	refusedWait = time.Minute      // until a resource is asked for again that the runner can do without
)

// reflection keeps a store up to date with one resource, as a client-go Reflector does. It
// is no informer: those have no say in how long they wait for a server.
type reflection struct {
	reflector *cache.Reflector
	store     *mirror
	optional  bool        // the runner goes on without it
	refused   atomic.Bool // the last call was; a list that is left behind may say so late
}

// source is where a reflection has its objects from.
type source[L runtime.Object] struct {
	what   string // as [health] has it
	api    lister[L]
	choose func(*metav1.ListOptions) // restricts what is asked for
}

// lister is the part of a typed client that a reflection needs.
type lister[L runtime.Object] interface {
	List(context.Context, metav1.ListOptions) (L, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
}

// reflect makes the reflection of a resource. Its store gets each object.
func reflect[L runtime.Object](ctx context.Context, in *feed, s source[L], example runtime.Object, store *mirror) *reflection {
	f := &reflection{store: store}
	saw := func(ctx context.Context, err error) {
		f.refused.Store(apierrors.IsForbidden(err))
		in.reached(ctx, s.what, err)
	}
	bound := &bounds{broke: func(err error) {
		if ctx.Err() == nil {
			in.health.broke(s.what, err)
		}
	}}
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			ctx, cancel := context.WithTimeout(ctx, listTimeout)
			defer cancel()
			s.choose(&o)
			l, err := s.api.List(ctx, o)
			if err != nil { // else the watch that follows says whether it can be watched
				saw(ctx, err)
			}
			return l, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			s.choose(&o)
			i, err := bound.watch(ctx, o, s.api.Watch)
			if o.SendInitialEvents == nil || !apierrors.IsInvalid(err) { // else an older server, which is asked for a list then
				saw(ctx, err)
			}
			return i, err
		},
	}
	store.heard = func() { in.health.heard(s.what) }
	logger := klog.FromContext(ctx)
	f.reflector = cache.NewReflectorWithOptions(cache.ToListWatcherWithWatchListSemantics(lw, in.client), example, store,
		cache.ReflectorOptions{Logger: &logger, Name: "orrery", TypeDescription: s.what, Backoff: &rewatch})
	return f
}

// run watches until ctx ends.
func (f *reflection) run(ctx context.Context) {
	waits := rewatch
	for ctx.Err() == nil {
		began := time.Now()
		// What there is to say of an error is said by reached.
		_ = f.reflector.ListAndWatchWithContext(ctx)
		if time.Since(began) > steadyFor {
			waits = rewatch
		}
		d := waits.Step()
		if f.optional && f.refused.Load() {
			d = refusedWait + time.Duration(rand.Int64N(int64(refusedWait))) //nolint:gosec // it spreads load, and guards nothing
		}
		if pause.For(ctx, d) != nil {
			return
		}
	}
}

// mirror is the store of a reflection: it hands on each object, trimmed, and knows them by
// name, so that a new list tells which are gone, and who joins what there is.
type mirror struct {
	lock       sync.Locker // held while objects are handed on
	seen, gone func(obj any)
	left       func(obj any) // it is another attempt's now, or another has its name
	heard      func()
	objects    map[string]any // nil: they are only handed on
	synced     chan struct{}  // closed when all that there is was handed on
	full       bool
}

var (
	_ cache.TransformingStore      = (*mirror)(nil)
	_ cache.ReflectorBookmarkStore = (*mirror)(nil)
)

func newMirror(lock sync.Locker, seen, gone, left func(any)) *mirror {
	return &mirror{lock: lock, seen: seen, gone: gone, left: left, objects: map[string]any{}, synced: make(chan struct{})}
}

// Transformer implements [cache.TransformingStore]: what is listed is kept trimmed from the
// beginning.
func (m *mirror) Transformer() cache.TransformFunc { return trim }

// Add implements [cache.ReflectorStore].
func (m *mirror) Add(obj any) error {
	m.heard()
	m.lock.Lock()
	defer m.lock.Unlock()
	return m.put(obj, m.objects)
}

// put takes an object in place of the one of its name among those that there were.
func (m *mirror) put(obj any, were map[string]any) error {
	obj, err := trim(obj)
	if err != nil {
		return err
	}
	if m.objects != nil {
		key, err := cache.MetaNamespaceKeyFunc(obj)
		if err != nil {
			return err
		}
		switch was, there := were[key]; {
		case !there:
		case !isSame(was, obj):
			m.left(was)
		case isOtherPod(was, obj):
			m.gone(was)
		}
		m.objects[key] = obj
	}
	m.seen(obj)
	return nil
}

// isSame reports whether two objects of one name are of the same attempt. Another Job of it
// takes the place of the one before.
func isSame(a, b any) bool {
	x, errX := meta.Accessor(a)
	y, errY := meta.Accessor(b)
	if errX != nil || errY != nil || !isOfSame(x, y) {
		return false
	}
	of, known := attemptOfObject(a)
	is, still := attemptOfObject(b)
	return of == is && known == still
}

// isOfSame reports whether two objects are of the same database, cluster and tenant.
func isOfSame(a, b metav1.Object) bool {
	for _, k := range []string{LabelDatabase, LabelCluster, LabelPartition} {
		if a.GetLabels()[k] != b.GetLabels()[k] {
			return false
		}
	}
	return a.GetAnnotations()[AnnotationNamespace] == b.GetAnnotations()[AnnotationNamespace] &&
		a.GetAnnotations()[AnnotationTenant] == b.GetAnnotations()[AnnotationTenant]
}

// isOtherPod reports whether a pod has the name of another one, which nobody saw go.
func isOtherPod(was, is any) bool {
	x, ok := was.(*corev1.Pod)
	y, too := is.(*corev1.Pod)
	return ok && too && x.UID != "" && y.UID != "" && x.UID != y.UID
}

// attemptOfObject is the attempt of a Job or pod.
func attemptOfObject(obj any) (jobs.Attempt, bool) {
	switch o := obj.(type) {
	case *batchv1.Job:
		return attemptOfJob(o)
	case *corev1.Pod:
		return attemptOfPod(o)
	}
	return jobs.Attempt{}, false
}

// Update implements [cache.ReflectorStore].
func (m *mirror) Update(obj any) error { return m.Add(obj) }

// Delete implements [cache.ReflectorStore].
func (m *mirror) Delete(obj any) error {
	m.heard()
	if m.objects == nil {
		return nil
	}
	obj, err := trim(obj)
	if err != nil {
		return err
	}
	key, err := cache.MetaNamespaceKeyFunc(obj)
	if err != nil {
		return err
	}
	m.lock.Lock()
	defer m.lock.Unlock()
	delete(m.objects, key)
	m.gone(obj)
	return nil
}

// Replace implements [cache.ReflectorStore].
func (m *mirror) Replace(list []any, _ string) error {
	m.heard()
	m.lock.Lock()
	defer m.lock.Unlock()
	old := m.objects
	if old != nil {
		m.objects = make(map[string]any, len(list))
	}
	for _, obj := range list {
		if err := m.put(obj, old); err != nil {
			return err
		}
	}
	for key, obj := range old { // order-free: each is of another attempt
		if _, still := m.objects[key]; !still {
			m.gone(obj)
		}
	}
	if !m.full {
		m.full = true
		close(m.synced)
	}
	return nil
}

// Resync implements [cache.ReflectorStore].
func (m *mirror) Resync() error { return nil }

// Bookmark implements [cache.ReflectorBookmarkStore]: the server says that nothing has
// changed.
func (m *mirror) Bookmark(string) error {
	m.heard()
	return nil
}
