package kube

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// warn has the cluster say something of an object.
func (k *kit) warn(kind, name string, uid types.UID, reason, message string) {
	k.t.Helper()
	k.warnAs(map[string]string{"Job": "job-controller", "Pod": "kubelet"}[kind], kind, name, uid, reason, message)
}

// warnAs has a component say it.
func (k *kit) warnAs(component, kind, name string, uid types.UID, reason, message string) {
	k.t.Helper()
	_, err := k.api.CoreV1().Events("jobs").Create(k.t.Context(), &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Name: fmt.Sprintf("%s.%d", name, len(k.api.Actions()))},
		InvolvedObject: corev1.ObjectReference{Kind: kind, Name: name, UID: uid, Namespace: "jobs"},
		Type:           corev1.EventTypeWarning, Reason: reason, Message: message, Source: corev1.EventSource{Component: component},
	}, metav1.CreateOptions{})
	require.NoError(k.t, err)
	synctest.Wait()
}

// The fake does not choose by fields, as a server may not that is old.
func TestAnEventThatIsNoWarningSaysNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, k *kit) {
		job := k.uidOf(k.create(attempt))
		_, err := k.api.CoreV1().Events("jobs").Create(t.Context(), &corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{Name: "e"},
			InvolvedObject: corev1.ObjectReference{Kind: "Job", Name: job.Name, UID: job.UID, Namespace: "jobs"},
			Type:           corev1.EventTypeNormal, Reason: reasonFailedCreate, Message: "violates PodSecurity", Source: corev1.EventSource{Component: jobController},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
		synctest.Wait()
		assert.Empty(t, k.sink.take())
	})
}

// What API servers of Kubernetes say of pods that they do not take, as Jobs' events have it.
var sentences = []struct {
	message string
	lasting bool
}{
	{`Error creating: pods "orrery-x" is forbidden: violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false (container "main" must set securityContext.allowPrivilegeEscalation=false), runAsNonRoot != true (pod or container "main" must set securityContext.runAsNonRoot=true)`, true},
	{`Error creating: admission webhook "validate.kyverno.svc-fail" denied the request: resource Pod/jobs/x was blocked due to the following policies`, true},
	{`Error creating: pods "x" is forbidden: ValidatingAdmissionPolicy 'no-latest' with binding 'all' denied request: the tag latest is not allowed`, true},
	{`Error creating: pods "x" is forbidden: failed quota: compute: must specify limits.cpu for: main; requests.memory for: main`, true},
	{`Error creating: pods "x" is forbidden: [maximum cpu usage per Container is 1, but limit is 2, maximum memory usage per Pod is 1Gi, but limit is 2Gi]`, true},
	{`Error creating: Pod "x" is invalid: spec.containers[0].resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1`, true},
	{`Error creating: pods "x" is forbidden: exceeded quota: compute, requested: pods=1, used: pods=10, limited: pods=10`, false},
	{`Error creating: pods "x" is forbidden: error looking up service account jobs/importer: serviceaccount "importer" not found`, false},
	{`Error creating: Internal error occurred: failed calling webhook "validate.kyverno.svc-fail": failed to call webhook: Post "https://kyverno.svc": dial tcp 10.0.0.1:443: connect: connection refused`, false},
	{`Error creating: pods "x" is forbidden: no PriorityClass with name urgent was found`, false},
	{`Error creating: Timeout: request did not complete within requested timeout - context deadline exceeded`, false},
	{`Error creating: etcdserver: request timed out`, false},
}

func TestAPodThatTheClusterRefusesFailsAtOnceInTheClustersWordsUnlessThatMayPass(t *testing.T) {
	for _, row := range sentences {
		t.Run(row.message[:min(len(row.message), 60)], func(t *testing.T) {
			inBubble(t, func(t *testing.T, k *kit) {
				job := k.uidOf(k.create(attempt))
				k.warn("Job", job.Name, job.UID, "FailedCreate", row.message)
				assert.Equal(t, attempt.Name()+": "+row.message+"\n", k.sink.messages())
				want := "created FailedCreate"
				if row.lasting {
					want = "refused FailedCreate"
				}
				assert.Equal(t, []string{want}, k.sink.take())
				k.warn("Job", job.Name, job.UID, "FailedCreate", row.message)
				wait(time.Hour)
				assert.Empty(t, k.sink.take(), "it is told once")
				if !row.lasting {
					k.createPod(runs(podOf(job)))
					assert.Equal(t, []string{"running"}, k.sink.take(), "it has passed")
				}
			})
		})
	}
}

// uidOf gives a Job a UID, as an API server does.
func (k *kit) uidOf(job *batchv1.Job) *batchv1.Job {
	k.t.Helper()
	job.UID = "uid-job"
	k.updateJob(job)
	return job
}

func TestAnEventOfAnotherJobOrPodSaysNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, k *kit) {
		job := k.uidOf(k.create(attempt))
		const message = "Error creating: violates PodSecurity"
		k.warn("Job", job.Name, "of-one-that-is-gone", "FailedCreate", message)
		k.warn("Job", job.Name, job.UID, "BackoffLimitExceeded", message)
		k.warn("CronJob", job.Name, job.UID, "FailedCreate", message)
		k.warn("Job", "nightly", "", "FailedCreate", message)
		assert.Empty(t, k.sink.take())
		assert.Equal(t, 1, k.tracked())
	})
}

func TestAnEventOfAJobThatItsControllerHasNotWrittenOrThatIsOfAPodSaysNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, k *kit) {
		job := k.uidOf(k.create(attempt))
		const message = "Error creating: violates PodSecurity"
		k.warnAs("some-operator", "Job", job.Name, job.UID, "FailedCreate", message)
		k.warnAs("", "Job", job.Name, job.UID, "FailedCreate", message)
		k.warn("Pod", job.Name, job.UID, "FailedMount", message)
		assert.Empty(t, k.sink.take())
		pod := podOf(job)
		pod.Spec.NodeName = "n1"
		pod = k.createPod(pod)
		k.sink.take()
		k.warn("Job", pod.Name, pod.UID, "FailedCreate", message)
		assert.Empty(t, k.sink.take())
	})
}

func TestAnEventThatComesBeforeItsJobIsNotLost(t *testing.T) {
	inBubble(t, func(t *testing.T, k *kit) {
		w := k.runner.current()
		w.warned(&corev1.Event{
			InvolvedObject: corev1.ObjectReference{Kind: "Job", Name: attempt.Name(), UID: "uid-job"},
			Type:           corev1.EventTypeWarning, Reason: "FailedCreate", Message: "Error creating: violates PodSecurity", ReportingController: "job-controller",
		})
		assert.Empty(t, k.sink.take())
		k.uidOf(k.create(attempt))
		assert.Equal(t, []string{"refused FailedCreate"}, k.sink.take())
	})
}

func TestAnEventOfAnAttemptThatIsForgottenIsHarmless(t *testing.T) {
	inBubble(t, func(t *testing.T, k *kit) {
		w := k.runner.current()
		w.mu.Lock()
		w.of["uid-job"] = attempt
		w.mu.Unlock()
		assert.NotPanics(t, func() {
			w.warned(&corev1.Event{
				InvolvedObject: corev1.ObjectReference{Kind: "Job", Name: attempt.Name(), UID: "uid-job"},
				Type:           corev1.EventTypeWarning, Reason: "FailedCreate", Message: "no", ReportingController: "job-controller",
			})
		})
		assert.Zero(t, k.tracked())
	})
}

func TestWhatTheEventsOfOthersAreIsForgotten(t *testing.T) {
	inBubble(t, func(t *testing.T, k *kit) {
		w := k.runner.current()
		for n := range uint32(10 * maxUnplaced) {
			w.warned(&corev1.Event{
				InvolvedObject: corev1.ObjectReference{Kind: "Job", Name: "other", UID: types.UID(fmt.Sprint("other-", n))},
				Type:           corev1.EventTypeWarning, Reason: "FailedCreate", Message: "no", ReportingController: "job-controller",
			})
		}
		assert.LessOrEqual(t, len(w.unplaced), maxUnplaced)
		assert.Zero(t, k.tracked())
	})
}

// waitsFor has a container of a pod wait.
func waitsFor(pod *corev1.Pod, reason, message string) *corev1.Pod {
	pod.Spec.NodeName = "n1"
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}}}
	return pod
}

func TestAPodThatNeverStartsFailsOnceItsReasonLasts(t *testing.T) {
	for _, row := range []struct {
		reason, message string
		refused         time.Duration // after; below 0: never
		final           bool
	}{
		{"InvalidImageName", `Failed to apply default image tag "UPPER CASE": couldn't parse image name`, 0, true},
		{"CreateContainerConfigError", `secret "db" not found`, configFor, false},
		{"CreateContainerConfigError", `container has runAsNonRoot and image will run as root`, configFor, false},
		{"CreateContainerConfigError", `failed to sync configmap cache: timed out waiting for the condition`, -1, false},
		{"CreateContainerConfigError", `services have not yet been read at least once, cannot construct envvars`, -1, false},
		{"ErrImageNeverPull", `Container image "x" is not present with pull policy of Never`, -1, false},
		{"CreateContainerError", `context deadline exceeded`, -1, false},
	} {
		t.Run(row.reason+row.message[:10], func(t *testing.T) {
			inBubble(t, func(t *testing.T, k *kit) {
				k.createPod(waitsFor(podOf(k.create(attempt)), row.reason, row.message))
				if row.refused != 0 {
					assert.Equal(t, []string{"created " + row.reason}, k.sink.take())
					wait(configFor - time.Second)
					assert.Empty(t, k.sink.take())
					wait(2 * time.Second)
				}
				if row.refused < 0 {
					wait(time.Hour)
					assert.Empty(t, k.sink.take())
					return
				}
				k.sink.mu.Lock()
				final := k.sink.told[len(k.sink.told)-1].Final
				k.sink.mu.Unlock()
				assert.Equal(t, row.final, final)
				assert.Equal(t, []string{"refused " + row.reason}, k.sink.take())
			})
		})
	}
}

func TestAPodWhoseSecretComesSomeSecondsLaterRuns(t *testing.T) {
	inBubble(t, func(t *testing.T, k *kit) {
		pod := k.createPod(waitsFor(podOf(k.create(attempt)), "CreateContainerConfigError", `secret "db" not found`))
		wait(configFor - time.Second)
		k.updatePod(runs(pod))
		wait(time.Hour)
		assert.Equal(t, []string{"created CreateContainerConfigError", "running"}, k.sink.take())
	})
}

func TestAPodWhoseVolumeCannotBeMountedSaysSo(t *testing.T) {
	inBubble(t, func(t *testing.T, k *kit) {
		pod := podOf(k.create(attempt))
		pod.Spec.NodeName = "n1"
		pod = k.createPod(pod)
		assert.Equal(t, []string{"created ContainerCreating"}, k.sink.take())
		const message = `MountVolume.SetUp failed for volume "db" : secret "db" not found`
		k.warn("Pod", pod.Name, pod.UID, "FailedMount", message)
		assert.Equal(t, attempt.Name()+": "+message+"\n", k.sink.messages())
		assert.Equal(t, []string{"created FailedMount"}, k.sink.take())
		k.warn("Pod", pod.Name, pod.UID, "Unhealthy", "a probe")
		k.updatePod(runs(pod))
		assert.Equal(t, []string{"running"}, k.sink.take())
	})
}
