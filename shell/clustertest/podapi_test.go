//go:build unix

package clustertest

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/orrery-go/orrery/shell/kube"
)

// Labels of a job that say how its pods go on.
const (
	labelRunFor = "orrery.test/run-for" // a duration; "": until it is deleted
	labelFails  = "orrery.test/fails"   // so many attempts end with [failedExit], the later ones with 0
)

const (
	podsNamespace = "jobs"
	failedExit    = 3
	killedExit    = 143
	podStart      = 20 * time.Millisecond // until a pod runs
	podEnd        = 50 * time.Millisecond // from its deletion until it is gone
)

// podAPI is an API server of Kubernetes with what stands behind it: a controller that makes the pod of each Job, and a node on which pods only pretend to run. It
// can hold calls of a daemon up; who calls, it knows by the first part of the path, which is the daemon's name.
type podAPI struct {
	server *httptest.Server

	mu        sync.Mutex
	version   int
	uids      int
	objects   map[string]runtime.Object // Jobs and pods by "resource/name"
	log       []podChange
	news      chan struct{} // closed at the next change
	holds     []*hold
	unsent    []unsentCall
	made      []*madePod
	deleted   []string          // "caller resource/name" of each call that was carried out
	strangers map[string]string // names and versions of what is of somebody else
	timers    []*time.Timer
}

// podChange is what a watch tells.
type podChange struct {
	resource, kind string
	version        int
	object         runtime.Object
}

// madePod is what became of a pod.
type madePod struct {
	name    string
	job     string // the name of its Job, which names run and attempt
	run     string // its UUID
	attempt int
	by      string // the daemon whose call has created the Job
	held    bool   // that call was held up
	created time.Time
	over    time.Time // when it ended or was gone; zero: not yet
	exit    int       // if it ended by itself
	killed  bool      // it was deleted before it had ended
}

// hold holds the next call of a kind up, whoever makes it, before it is carried out or before it is answered.
type hold struct {
	verb         string
	answer       bool          // it is carried out at once, and the answer is held
	caught       chan struct{} // closed when there is a call
	let          chan struct{} // closed by [hold.release]
	once         sync.Once
	caller, name string // once there is a call: the daemon, and the Job or pod
	late         bool   // it is a creation that finds its name free once more
}

// release lets the call go on, whether who made it is still there or not: it is in the network.
func (h *hold) release() { h.once.Do(func() { close(h.let) }) }

func newPodAPI(t *testing.T) *podAPI {
	t.Helper()
	a := &podAPI{objects: make(map[string]runtime.Object), news: make(chan struct{})}
	a.server = httptest.NewServer(a)
	t.Cleanup(func() {
		a.mu.Lock()
		for _, h := range a.holds {
			h.release()
		}
		for _, timer := range a.timers {
			timer.Stop()
		}
		a.mu.Unlock()
		a.server.CloseClientConnections()
		a.server.Close()
	})
	return a
}

// kubeconfig writes a daemon's kubeconfig, and returns its path.
func (a *podAPI) kubeconfig(t *testing.T, dir, daemon string) string {
	t.Helper()
	path := filepath.Join(dir, daemon+".kubeconfig")
	require.NoError(t, os.WriteFile(path, fmt.Appendf(nil, `
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: %q}}]
users: [{name: u}]
contexts: [{name: one, context: {cluster: c, user: u, namespace: %q}}]
current-context: one
`, a.server.URL+"/"+daemon, podsNamespace), 0o600))
	return path
}

// hold has the next call of a kind held up.
func (a *podAPI) hold(verb string, answer bool) *hold {
	h := &hold{verb: verb, answer: answer, caught: make(chan struct{}), let: make(chan struct{})}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.holds = append(a.holds, h)
	return h
}

// held gives the hold that a call runs into; nil: none.
func (a *podAPI) held(caller, verb, name string) *hold {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, h := range a.holds {
		if h.verb == verb && h.caller == "" {
			h.caller, h.name = caller, name
			close(h.caught)
			return h
		}
	}
	return nil
}

// changed notes a change of an object; under the lock. A watcher never sees a later state of what it is told.
func (a *podAPI) changed(resource, kind string, object runtime.Object) {
	a.version++
	meta := object.(metav1.Object)
	meta.SetResourceVersion(strconv.Itoa(a.version))
	a.log = append(a.log, podChange{resource, kind, a.version, object.DeepCopyObject()})
	key := resource + "/" + meta.GetName()
	if a.objects[key] = object; kind == "DELETED" {
		delete(a.objects, key)
	}
	close(a.news)
	a.news = make(chan struct{})
}

// after has something happen later; under the lock.
func (a *podAPI) after(d time.Duration, fn func()) {
	a.timers = append(a.timers, time.AfterFunc(d, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		fn()
	}))
}

func (a *podAPI) uid() types.UID {
	a.uids++
	return types.UID("uid-" + strconv.Itoa(a.uids))
}

// create makes a Job and its pod.
func (a *podAPI) create(caller string, held bool, job *batchv1.Job) (runtime.Object, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, there := a.objects["jobs/"+job.Name]; there {
		return nil, refusal(http.StatusConflict, metav1.StatusReasonAlreadyExists, "jobs.batch %q already exists", job.Name)
	}
	job.UID, job.CreationTimestamp = a.uid(), metav1.Now()
	a.changed("jobs", "ADDED", job)
	answer := job.DeepCopy()
	yes := true
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: job.Name + "-" + string(job.UID), Namespace: podsNamespace, UID: a.uid(), CreationTimestamp: metav1.Now(),
			Labels: maps.Clone(job.Spec.Template.Labels), Annotations: maps.Clone(job.Spec.Template.Annotations),
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: job.Name, UID: job.UID, Controller: &yes}},
		},
		Spec:   *job.Spec.Template.Spec.DeepCopy(),
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
	attempt, _ := strconv.Atoi(pod.Labels[kube.LabelAttempt])
	is := &madePod{name: pod.Name, job: job.Name, run: pod.Labels[kube.LabelRun], attempt: attempt, by: caller, held: held, created: time.Now()}
	a.made = append(a.made, is)
	a.changed("pods", "ADDED", pod)
	a.after(podStart, func() { a.begin(pod, is) })
	return answer, nil
}

// begin has a pod run, if it is still wanted.
func (a *podAPI) begin(pod *corev1.Pod, is *madePod) {
	if pod.DeletionTimestamp != nil {
		return
	}
	pod.Spec.NodeName, pod.Status.Phase = "node", corev1.PodRunning
	a.state(pod, corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}})
	lasts, err := time.ParseDuration(pod.Labels[labelRunFor])
	if err != nil {
		return
	}
	fails, _ := strconv.Atoi(pod.Labels[labelFails])
	a.after(lasts, func() {
		if pod.DeletionTimestamp != nil {
			return
		}
		if is.attempt < fails {
			is.exit = failedExit
		}
		is.over = time.Now()
		a.end(pod, is.exit)
	})
}

// end has a pod end, and its Job with it.
func (a *podAPI) end(pod *corev1.Pod, exit int) {
	phase, condition := corev1.PodSucceeded, batchv1.JobComplete
	if exit != 0 {
		phase, condition = corev1.PodFailed, batchv1.JobFailed
	}
	pod.Status.Phase = phase
	a.state(pod, corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: int32(exit), FinishedAt: metav1.Now()}})
	job := a.jobOf(pod)
	if job == nil || job.DeletionTimestamp != nil {
		return
	}
	job.Status.Conditions = []batchv1.JobCondition{{Type: condition, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}}
	a.changed("jobs", "MODIFIED", job)
}

func (a *podAPI) state(pod *corev1.Pod, state corev1.ContainerState) {
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: pod.Spec.Containers[0].Name, State: state}}
	a.changed("pods", "MODIFIED", pod)
}

func (a *podAPI) jobOf(pod *corev1.Pod) *batchv1.Job {
	owner := metav1.GetControllerOf(pod)
	if owner == nil {
		return nil
	}
	job, ok := a.objects["jobs/"+owner.Name].(*batchv1.Job)
	if !ok || job.UID != owner.UID {
		return nil
	}
	return job
}

// remove deletes a Job with its pods, in the foreground, or a pod.
func (a *podAPI) remove(caller, resource, name string, o *metav1.DeleteOptions) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	object, there := a.objects[resource+"/"+name]
	if !there {
		return refusal(http.StatusNotFound, metav1.StatusReasonNotFound, "%s %q not found", resource, name)
	}
	if p := o.Preconditions; p != nil && p.UID != nil && *p.UID != object.(metav1.Object).GetUID() {
		return refusal(http.StatusConflict, metav1.StatusReasonConflict, "the UID of %s %q is another one", resource, name)
	}
	a.deleted = append(a.deleted, caller+" "+resource+"/"+name)
	switch is := object.(type) {
	case *corev1.Pod:
		a.removePod(is)
	case *batchv1.Job:
		if is.DeletionTimestamp != nil {
			return nil
		}
		is.DeletionTimestamp, is.Finalizers = new(metav1.Now()), []string{metav1.FinalizerDeleteDependents}
		a.changed("jobs", "MODIFIED", is)
		pods := a.podsOf(is)
		if len(pods) == 0 {
			a.changed("jobs", "DELETED", is)
		}
		for _, pod := range pods {
			a.removePod(pod)
		}
	}
	return nil
}

// podsOf gives the pods of a Job, in the order of their names.
func (a *podAPI) podsOf(job *batchv1.Job) (pods []*corev1.Pod) {
	for _, name := range slices.Sorted(maps.Keys(a.objects)) {
		if pod, ok := a.objects[name].(*corev1.Pod); ok && a.jobOf(pod) == job {
			pods = append(pods, pod)
		}
	}
	return pods
}

func (a *podAPI) removePod(pod *corev1.Pod) {
	if pod.DeletionTimestamp != nil {
		return
	}
	pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = new(metav1.Now()), new(int64(0))
	a.changed("pods", "MODIFIED", pod)
	a.after(podEnd, func() {
		if is := a.madeOf(pod); is != nil && is.over.IsZero() {
			is.over, is.killed = time.Now(), true
			a.end(pod, killedExit)
		}
		job := a.jobOf(pod)
		a.changed("pods", "DELETED", pod)
		if job != nil && job.DeletionTimestamp != nil && len(a.podsOf(job)) == 0 {
			a.changed("jobs", "DELETED", job)
		}
	})
}

// madeOf is what became of a pod that was made for a daemon; nil: it was not.
func (a *podAPI) madeOf(pod *corev1.Pod) *madePod {
	n := slices.IndexFunc(a.made, func(is *madePod) bool { return is.name == pod.Name })
	if n < 0 {
		return nil
	}
	return a.made[n]
}

// seed puts an object of somebody else's into the cluster, whose pod runs until it is deleted.
func (a *podAPI) seed(name string, labels, annotations map[string]string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	meta := metav1.ObjectMeta{Name: name, Namespace: podsNamespace, UID: a.uid(), CreationTimestamp: metav1.Now(), Labels: labels, Annotations: annotations}
	spec := corev1.PodSpec{NodeName: "node", Containers: []corev1.Container{{Name: "main"}}}
	yes := true
	job := &batchv1.Job{ObjectMeta: meta, Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: spec}}}
	a.changed("jobs", "ADDED", job)
	pod := &corev1.Pod{ObjectMeta: *meta.DeepCopy(), Spec: spec, Status: corev1.PodStatus{Phase: corev1.PodRunning}}
	pod.Name, pod.UID = name+"-pod", a.uid()
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: name, UID: job.UID, Controller: &yes}}
	a.changed("pods", "ADDED", pod)
	a.state(pod, corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}})
}

// list gives what a selector chooses, in the order of their names, and the version of all.
func (a *podAPI) list(resource string, chosen labels.Selector) (all []runtime.Object, version int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(a.objects)) {
		o := a.objects[key].DeepCopyObject()
		if resource+"/"+o.(metav1.Object).GetName() == key && chosen.Matches(labels.Set(o.(metav1.Object).GetLabels())) {
			all = append(all, o)
		}
	}
	return all, a.version
}

// since gives what has changed after a version, and what is closed when more has.
func (a *podAPI) since(version int) (all []podChange, more <-chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	from, _ := slices.BinarySearchFunc(a.log, version+1, func(c podChange, v int) int { return cmp.Compare(c.version, v) })
	return a.log[from:], a.news
}

// names gives the names of all Jobs and pods with their versions.
func (a *podAPI) names() map[string]string {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := make(map[string]string, len(a.objects))
	for key, o := range a.objects { // order-free: a map again
		all[key] = o.(metav1.Object).GetResourceVersion()
	}
	return all
}

// notBy notes that a daemon must not create a Job any more.
func (a *podAPI) notBy(job, daemon string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.unsent = append(a.unsent, unsentCall{job, daemon})
}

// goneElsewhere reports whether another one than the daemon has had a Job of that name, which is gone.
func (a *podAPI) goneElsewhere(job, daemon string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, there := a.objects["jobs/"+job]
	return !there && slices.ContainsFunc(a.made, func(is *madePod) bool { return is.job == job && is.by != daemon })
}
