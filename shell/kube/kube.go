package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/jobs"
)

// Options configure a [Runner]. The zero value of each field is a sound default.
type Options struct {
	// Kubeconfig is the path of a kubeconfig file; empty: as kubectl has it
	// (KUBECONFIG, ~/.kube/config), or the service account where the process runs in
	// a cluster. Context picks one of its contexts; empty: the current one.
	Kubeconfig string
	Context    string
	// Namespace is that of the Jobs; empty: the context's or the service account's.
	Namespace string
	// QPS and Burst bound the calls of the API (defaults 20 and 40) on this side; each
	// waits until they allow it. The two watches do not count.
	QPS   float32
	Burst int
	// Instance tells apart several Orrerys in one namespace: each cares for its own
	// only. Default "orrery". Two of them must not have the same job in the same
	// namespace and tenant of theirs: its runs would have the same names. If two have the
	// same Instance, neither touches the pods of the other, see [Runner.UseDatabase].
	Instance string
	// KeepFinished is how long the cluster keeps a Job that has ended and that Orrery
	// does not delete, because it is gone (default 24 h, at least a minute). A daemon
	// that was down for longer finds such a run lost.
	KeepFinished time.Duration
	// KeepFailed is how long the Job and the pod of an attempt that has failed stay after
	// their end, unless its job has a TTLSecondsAfterFinished (default: not, at most a week).
	// [Runner.Delete] leaves them there, see [Runner.Keeps].
	KeepFailed time.Duration
	// Profile says what pods may have, whoever applies their jobs: [ProfilePrivileged],
	// [ProfileBaseline] or [ProfileRestricted], as the Pod Security Standards have it.
	// Default privileged: whatever the cluster takes. With restricted, a pod also names no
	// service account, Secret, ConfigMap, claim, priority, runtime and node but those below;
	// what the standard demands and a pod leaves open is filled in: runAsNonRoot,
	// seccompProfile RuntimeDefault, allowPrivilegeEscalation false, capabilities drop ALL,
	// and automountServiceAccountToken false for an account that is not listed.
	Profile string
	// What pods may name with the profile restricted, in the namespace of the Jobs. A
	// service account that is listed gives its token to pods that ask for it.
	ServiceAccounts, Secrets, ConfigMaps, PersistentVolumeClaims []string
	PriorityClasses, RuntimeClasses                              []string
	// NodeLabels are the labels of nodes, as "key" or "key=value", that nodeSelector and node
	// affinity may name with the profile restricted, and Tolerations the taints, as "key" or
	// "key=value", that pods may tolerate. "*" is for all. Default none: the scheduler alone
	// chooses the node.
	NodeLabels, Tolerations []string
	// Labels are the labels, as "key" or "key=value", that a job may give its pods with the
	// profile restricted; "*" is for all. Default none: labels put pods into Services, policies,
	// meshes and queues of others in the namespace.
	Labels []string
	// MaxGrace bounds the terminationGracePeriodSeconds that a pod names, in whole seconds:
	// for so long a pod that was told to end may stay, and the deletion of its run with it.
	// 0: [DefaultMaxGrace] with the profile restricted, else no bound.
	MaxGrace time.Duration
	// Client is used instead of a kubeconfig: for tests.
	Client API
	// Logger takes what there is to say (default slog.Default()); see also [LogTo].
	Logger *slog.Logger
}

// DefaultMaxGrace is the MaxGrace of [Options] with the profile restricted.
const DefaultMaxGrace = time.Hour

const (
	defaultQPS   = 20
	defaultBurst = 40
	managedBy    = "orrery"
)

// Runner runs pods in a cluster. It is safe for concurrent use.
type Runner struct {
	client     API
	counts     bool // the transport counts calls
	limit      flowcontrol.RateLimiter
	namespace  string
	instance   string
	profile    *profile
	ttlSeconds int32
	keepFailed time.Duration
	log        *slog.Logger
	health     *health // of the feed
	feed       *feed
	database   atomic.Pointer[string] // nil: nobody has said
	place      atomic.Pointer[place]  // nil: no part of a cluster

	mu       sync.Mutex
	watcher  *watcher      // of the Watch that runs, nil where none does
	began    chan struct{} // closed when a Watch begins
	expected map[jobs.Attempt]expectation
}

var (
	_ jobs.Runner  = (*Runner)(nil)
	_ jobs.Healthy = (*Runner)(nil)
	_ jobs.Doubter = (*Runner)(nil)
	_ jobs.Noter   = (*Runner)(nil)
	_ jobs.Marker  = (*Runner)(nil)
	_ jobs.Namer   = (*Runner)(nil)
)

// expectation is a Job that was created and that the watch has not shown yet.
type expectation struct {
	name    string
	version string    // its resourceVersion
	passed  time.Time // when the watch was first seen to be beyond that; zero: not yet
}

// New makes a Runner; it makes no call of the API. The error names the option that
// cannot be right, or says what is wrong with the kubeconfig.
func New(o Options) (*Runner, error) {
	o.Instance = cmp.Or(o.Instance, managedBy)
	if errs := validation.IsValidLabelValue(o.Instance); len(errs) > 0 {
		return nil, fmt.Errorf("kube: Instance: %q is no value of a label: %s", o.Instance, errs[0])
	}
	o.KeepFinished = cmp.Or(o.KeepFinished, 24*time.Hour)
	if o.KeepFinished < time.Minute || o.KeepFinished > math.MaxInt32*time.Second {
		return nil, fmt.Errorf("kube: KeepFinished: %s is less than a minute or too long", o.KeepFinished)
	}
	if o.KeepFailed < 0 || o.KeepFailed > core.MaxTTLSecondsAfterFinished*time.Second {
		return nil, fmt.Errorf("kube: KeepFailed: %s is not between 0 and a week", o.KeepFailed)
	}
	if o.QPS < 0 || o.Burst < 0 {
		return nil, fmt.Errorf("kube: QPS %g and Burst %d must not be negative", o.QPS, o.Burst)
	}
	r := &Runner{
		client: o.Client, namespace: o.Namespace, instance: o.Instance, ttlSeconds: int32(o.KeepFinished / time.Second), keepFailed: o.KeepFailed,
		log: cmp.Or(o.Logger, slog.Default()), began: make(chan struct{}), expected: map[jobs.Attempt]expectation{},
		health: newHealth(),
	}
	var err error
	if r.profile, err = newProfile(o); err != nil {
		return nil, err
	}
	o.QPS = cmp.Or(o.QPS, defaultQPS)
	r.limit = flowcontrol.NewTokenBucketRateLimiter(o.QPS, cmp.Or(o.Burst, max(defaultBurst, int(o.QPS))))
	if r.client == nil {
		if err := r.connect(o); err != nil {
			return nil, err
		}
	}
	r.namespace = cmp.Or(r.namespace, metav1.NamespaceDefault)
	if errs := validation.IsDNS1123Label(r.namespace); len(errs) > 0 {
		return nil, fmt.Errorf("kube: Namespace: %q is no name of a namespace: %s", r.namespace, errs[0])
	}
	r.feed = &feed{client: r.client, namespace: r.namespace, instance: r.instance, log: r.log, health: r.health}
	return r, nil
}

// connect makes the client of a kubeconfig or service account.
func (r *Runner) connect(o Options) error {
	loader := o.loader()
	cfg, err := loader.ClientConfig()
	if err != nil {
		return fmt.Errorf("kube: Kubeconfig %q, Context %q: %w", o.Kubeconfig, o.Context, err)
	}
	if r.namespace == "" {
		if r.namespace, _, err = loader.Namespace(); err != nil {
			return fmt.Errorf("kube: Namespace: %w", err)
		}
	}
	r.client, err = r.clientOf(cfg, o)
	return err
}

func (r *Runner) clientOf(cfg *rest.Config, o Options) (API, error) {
	prepare := func(cfg *rest.Config) { r.prepare(cfg, o) }
	prepare(cfg)
	t, err := rest.TransportFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("kube: %w", err)
	}
	client, err := newClients(cfg, &http.Client{Transport: &renewing{
		load: func() (http.RoundTripper, error) { return renewedTransport(o, prepare) }, log: r.log, now: t,
	}})
	if err != nil {
		return nil, fmt.Errorf("kube: %w", err)
	}
	r.counts = true
	return client, nil
}

// prepare sets what the runner needs besides server and credentials.
func (r *Runner) prepare(cfg *rest.Config, o Options) {
	cfg.QPS = -1 // the limit is ours: a call's time-out begins when the limit has let it through
	// It would end watches and logs that are followed; each call has its own limit.
	cfg.Timeout = 0
	cfg.UserAgent = fmt.Sprintf("orrery/%s (%s/%s)", o.Instance, runtime.GOOS, runtime.GOARCH)
	cfg.ContentType = "application/vnd.kubernetes.protobuf" // a third of JSON's memory
	cfg.AcceptContentTypes = cfg.ContentType + ",application/json"
	if cfg.Dial == nil {
		cfg.Dial = dialer().DialContext
	}
	cfg.WarningHandler, cfg.WarningHandlerWithContext = nil, warnings{r.log}
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		pinging(next)
		return counting{next}
	})
}

// Create creates the Job of an attempt (004 Job Creation), and repeats the call until ctx
// ends while the API cannot take it. Another's Job of that name is a permanent error.
func (r *Runner) Create(ctx context.Context, run jobs.Run) (int, error) {
	job, err := r.jobOf(run)
	if err != nil {
		return 0, shell.Permanent(err)
	}
	defer r.noted(run.Attempt, "")
	return r.retried(ctx, "create Job "+job.Name, func(err error) {
		r.noted(run.Attempt, explained("the API did not take the Job yet", err).Error())
	}, func(ctx context.Context) error {
		err := r.createOrFind(ctx, run, job)
		if w := r.current(); w != nil && err == nil {
			w.taken(run.Attempt)
		}
		return err
	})
}

// noted has the watch tell why there is no pod yet, and no more where it is empty.
func (r *Runner) noted(a jobs.Attempt, note string) {
	if w := r.current(); w != nil {
		w.note(a, note)
	}
}

func (r *Runner) createOrFind(ctx context.Context, run jobs.Run, job *batchv1.Job) error {
	a := run.Attempt
	if there, err := r.jobBefore(ctx, a); there != nil || err != nil {
		if err == nil {
			err = sameRun(job, there)
		}
		if err == nil {
			r.expect(a, there)
		}
		return err
	}
	api := r.client.Jobs(r.namespace)
	if run.Confirm != nil {
		if err := run.Confirm(); err != nil {
			return err
		}
	}
	made, err := api.Create(ctx, job, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		r.count(ctx)
		made, err = api.Get(ctx, job.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return fmt.Errorf("it was there, and is gone: %w", errGone) // create it then
		case err == nil && r.isOthers(&made.ObjectMeta):
			return shell.Permanent(fmt.Errorf("create Job %s: there is one of that name in namespace %q that is of %s, and this one is %s: %s", job.Name, r.namespace, ownerIn(made.Labels), r.own(), remedy))
		case err == nil && !r.owns(made):
			return shell.Permanent(fmt.Errorf("create Job %s: there is one of that name in namespace %q that is not of instance %q: use another namespace, or delete it", job.Name, r.namespace, r.instance))
		case err == nil:
			err = sameRun(job, made)
		}
	}
	if err != nil {
		return err
	}
	r.expect(a, made)
	return nil
}

// sameRun refuses a Job that is there and of another run than the one that is to be created: a database
// that was restored from an old backup may give a run the id of one that began after the backup.
func sameRun(job, there *batchv1.Job) error {
	is, wants := there.Annotations[AnnotationRunID], job.Annotations[AnnotationRunID]
	if is == "" || is == wants {
		return nil
	}
	return shell.Permanent(fmt.Errorf("create Job %s: it is there, and of run %q, which the database does not know any more, not of %q", there.Name, is, wants))
}

// jobBefore is the Job that the attempt has already, whatever its name; nil: none. Builds that named Jobs
// otherwise may have created it. Only until the watch knows all that there was at its
// beginning this costs a call; a Job of this process has the name that is tried.
func (r *Runner) jobBefore(ctx context.Context, a jobs.Attempt) (*batchv1.Job, error) {
	if w := r.current(); w != nil {
		select {
		case <-w.synced:
			if job := w.jobOf(a); job != nil && r.owns(job) {
				return job, nil
			}
			return nil, nil //nolint:nilnil // there is none
		default:
		}
	}
	list, err := r.listJobs(ctx, a)
	if err != nil {
		return nil, err
	}
	if len(list) > 0 {
		return &list[0], nil
	}
	r.count(ctx)    // the creation is another call
	return nil, nil //nolint:nilnil // there is none
}

// listJobs asks the API for the Jobs of an attempt.
func (r *Runner) listJobs(ctx context.Context, a jobs.Attempt) ([]batchv1.Job, error) {
	of := labels.Set{LabelInstance: r.instance, LabelRun: a.Run.String(), LabelAttempt: strconv.FormatUint(uint64(a.N), 10)}
	list, err := r.client.Jobs(r.namespace).List(ctx, metav1.ListOptions{LabelSelector: of.String()})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list.Items, func(job batchv1.Job) bool { return !namesJob(a, job.Name) || r.isOthers(&job.ObjectMeta) }), nil
}

var errGone = errors.New("the name is free")

// owns reports whether a Job of an attempt's name is that attempt's, and this instance's and database's.
func (r *Runner) owns(job *batchv1.Job) bool {
	_, ok := attemptOfJob(job) // which has that name
	return ok && job.Labels[LabelInstance] == r.instance && !r.isOthers(&job.ObjectMeta)
}

// expect notes a Job that the watch will show: until then it is held all the same.
func (r *Runner) expect(a jobs.Attempt, job *batchv1.Job) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.watcher != nil && r.watcher.hasJob(a) {
		return
	}
	r.expected[a] = expectation{name: job.Name, version: job.ResourceVersion}
}

// nameOfExpected is the name of a Job that this process has created; empty: of none.
func (r *Runner) nameOfExpected(a jobs.Attempt) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.expected[a].name
}

func (r *Runner) arrived(a jobs.Attempt) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.expected, a)
}

// Watch watches this instance's Jobs and pods, see [jobs.Runner]. One runs at a time.
func (r *Runner) Watch(ctx context.Context, sink jobs.Sink) error {
	w := newWatcher(r, sink)
	r.mu.Lock()
	if r.watcher != nil {
		r.mu.Unlock()
		return errors.New("kube: Watch runs already")
	}
	r.watcher = w
	close(r.began)
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		r.watcher, r.began = nil, make(chan struct{})
		r.mu.Unlock()
		close(w.ended)
	}()
	return w.run(ctx)
}

func (r *Runner) current() *watcher {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.watcher
}

// watching waits for a Watch to run.
func (r *Runner) watching(ctx context.Context) (*watcher, error) {
	for {
		r.mu.Lock()
		w, began := r.watcher, r.began
		r.mu.Unlock()
		if w != nil {
			return w, nil
		}
		select {
		case <-began:
		case <-ctx.Done():
			return nil, fmt.Errorf("kube: the watch does not run: %w", ctx.Err())
		}
	}
}

// synced waits until a Watch runs that knows all that there is.
func (r *Runner) synced(ctx context.Context) (*watcher, error) {
	w, err := r.watching(ctx)
	if err != nil {
		return nil, err
	}
	select {
	case <-w.synced:
		return w, nil
	case <-w.ended:
		return nil, errWatchEnded
	case <-ctx.Done():
		return nil, fmt.Errorf("kube: it is not known yet what the cluster holds: %w", ctx.Err())
	}
}

// Held lists what the cluster holds, even if it is being deleted, once the watch is synced.
func (r *Runner) Held(ctx context.Context) ([]jobs.Attempt, error) {
	w, err := r.synced(ctx)
	if err != nil {
		return nil, err
	}
	held := w.held()
	r.mu.Lock()
	defer r.mu.Unlock()
	for a, e := range r.expected {
		switch {
		case held[a]:
		case r.overdue(w, a, e):
			delete(r.expected, a)
		default:
			held[a] = true
		}
	}
	return slices.AppendSeq(make([]jobs.Attempt, 0, len(held)), maps.Keys(held)), nil
}

// Doubtful lists the attempts whose Job or pod is gone, has ended unseen or has made nothing,
// while something may still say what became of them: see [jobs.Doubter].
func (r *Runner) Doubtful() []jobs.Attempt {
	if w := r.current(); w != nil {
		return w.doubtful()
	}
	return nil
}

var errWatchEnded = errors.New("kube: the watch has ended")

// expectedFor is how long what the watch has seen may take through the cache.
const expectedFor = 10 * time.Second

// overdue reports whether a Job that was created came and went while nobody watched.
func (r *Runner) overdue(w *watcher, a jobs.Attempt, e expectation) bool {
	if !w.beyond(e.version) {
		return false
	}
	if e.passed.IsZero() {
		e.passed = time.Now()
		r.expected[a] = e
	}
	return time.Since(e.passed) > expectedFor
}

// Beat returns once the sink knows all that was seen before: see [jobs.Runner].
func (r *Runner) Beat(ctx context.Context) error {
	w, err := r.watching(ctx)
	if err != nil {
		return err
	}
	select {
	case <-w.beat():
		return nil
	case <-w.ended:
		return errWatchEnded
	case <-ctx.Done():
		return fmt.Errorf("kube: the watch does not answer: %w", ctx.Err())
	}
}
