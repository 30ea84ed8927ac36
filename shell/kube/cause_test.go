package kube

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/jobs"
)

// pods are as the API gives them, less what nobody looks at.
var causeRows = []struct {
	name, pod string
	phase     jobs.Phase
	reason    string
	message   string // a part of it
	code      *int32
}{
	{"just made", `status: {phase: Pending}`, jobs.PhaseCreated, "Pending", "", nil},
	{"no phase yet", `{}`, jobs.PhaseCreated, "Pending", "", nil},
	{"no node fits", `
status:
  phase: Pending
  conditions: [{type: PodScheduled, status: "False", reason: Unschedulable, message: "0/3 nodes are available: 3 Insufficient memory."}]`,
		jobs.PhaseCreated, "Unschedulable", "Insufficient memory", nil},
	{"held back by a gate", `
status:
  phase: Pending
  conditions: [{type: PodScheduled, status: "False", reason: SchedulingGated, message: Scheduling is blocked due to non-empty scheduling gates}]`,
		jobs.PhaseCreated, "SchedulingGated", "gates", nil},
	{"scheduled, the kubelet has not seen it", `{spec: {nodeName: n1}, status: {phase: Pending, conditions: [{type: PodScheduled, status: "True"}]}}`,
		jobs.PhaseCreated, "ContainerCreating", "", nil},
	{"the sandbox is made", `
spec: {nodeName: n1}
status: {phase: Pending, containerStatuses: [{name: main, state: {waiting: {reason: ContainerCreating}}}]}`,
		jobs.PhaseCreated, "ContainerCreating", "", nil},
	{"first try to pull", `
status: {phase: Pending, containerStatuses: [{name: main, state: {waiting: {reason: ErrImagePull, message: "pull access denied, repository does not exist"}}}]}`,
		jobs.PhaseCreated, "ErrImagePull", "does not exist", nil},
	{"between tries to pull", `
status: {phase: Pending, containerStatuses: [{name: main, state: {waiting: {reason: ImagePullBackOff, message: 'Back-off pulling image "nope:1"'}}}]}`,
		jobs.PhaseCreated, "ImagePullBackOff", "nope:1", nil},
	{"a name that is no image's", `
status: {phase: Pending, containerStatuses: [{name: main, state: {waiting: {reason: InvalidImageName, message: 'Failed to apply default image tag ":::"'}}}]}`,
		jobs.PhaseCreated, "InvalidImageName", ":::", nil},
	{"never to be pulled, and not there", `
status: {phase: Pending, containerStatuses: [{name: main, state: {waiting: {reason: ErrImageNeverPull, message: 'Container image "x" is not present with pull policy of Never'}}}]}`,
		jobs.PhaseCreated, "ErrImageNeverPull", "pull policy", nil},
	{"a secret is missing", `
status: {phase: Pending, containerStatuses: [{name: main, state: {waiting: {reason: CreateContainerConfigError, message: 'secret "db" not found'}}}]}`,
		jobs.PhaseCreated, "CreateContainerConfigError", `secret "db"`, nil},
	{"one of two containers runs, the other has no image", `
status:
  phase: Pending
  containerStatuses:
  - {name: main, state: {running: {startedAt: "2026-11-21T18:00:00Z"}}}
  - {name: side, state: {waiting: {reason: ImagePullBackOff, message: no such image}}}`,
		jobs.PhaseCreated, "ImagePullBackOff", "container side: no such image", nil},
	{"an init container runs", `
status:
  phase: Pending
  initContainerStatuses: [{name: setup, state: {running: {startedAt: "2026-11-21T18:00:00Z"}}}]
  containerStatuses: [{name: main, state: {waiting: {reason: PodInitializing}}}]`,
		jobs.PhaseCreated, "Initializing", "setup", nil},
	{"an init container has no image", `
status:
  phase: Pending
  initContainerStatuses: [{name: setup, state: {waiting: {reason: ErrImagePull, message: not found}}}]
  containerStatuses: [{name: main, state: {waiting: {reason: PodInitializing}}}]`,
		jobs.PhaseCreated, "ErrImagePull", "init container setup: not found", nil},
	{"the sidecar runs, the main container is created", `
spec: {initContainers: [{name: proxy, restartPolicy: Always}]}
status:
  phase: Pending
  initContainerStatuses: [{name: proxy, state: {running: {startedAt: "2026-11-21T18:00:00Z"}}}]
  containerStatuses: [{name: main, state: {waiting: {reason: ContainerCreating}}}]`,
		jobs.PhaseCreated, "ContainerCreating", "", nil},
	{"deleted before it ran", `{metadata: {deletionTimestamp: "2026-11-21T18:00:00Z"}, status: {phase: Pending}}`,
		jobs.PhaseCreated, "Terminating", "before it ran", nil},
	{"it runs", `status: {phase: Running, containerStatuses: [{name: main, state: {running: {startedAt: "2026-11-21T18:00:00Z"}}}]}`,
		jobs.PhaseRunning, "", "", nil},
	{"it runs, and one container has ended", `
status:
  phase: Running
  containerStatuses:
  - {name: main, state: {running: {startedAt: "2026-11-21T18:00:00Z"}}}
  - {name: side, state: {terminated: {exitCode: 1, reason: Error, finishedAt: "2026-11-21T18:00:01Z"}}}`,
		jobs.PhaseRunning, "", "", nil},
	{"it runs while it is deleted", `{metadata: {deletionTimestamp: "2026-11-21T18:00:00Z"}, status: {phase: Running}}`, jobs.PhaseRunning, "", "", nil},
	{"the kubelet is not heard of", `status: {phase: Unknown, reason: NodeLost, containerStatuses: [{name: main, state: {running: {startedAt: "2026-11-21T18:00:00Z"}}}]}`,
		jobs.PhaseRunning, "", "", nil},
	{"success", `status: {phase: Succeeded, containerStatuses: [{name: main, state: {terminated: {exitCode: 0, reason: Completed}}}]}`,
		jobs.PhaseEnded, "", "", new(int32(0))},
	{"success, though the sidecar was killed", `
spec: {initContainers: [{name: proxy, restartPolicy: Always}]}
status:
  phase: Succeeded
  initContainerStatuses: [{name: proxy, state: {terminated: {exitCode: 137, reason: Error}}}]
  containerStatuses: [{name: main, state: {terminated: {exitCode: 0, reason: Completed}}}]`,
		jobs.PhaseEnded, "", "", new(int32(0))},
	{"an exit code", `status: {phase: Failed, containerStatuses: [{name: main, state: {terminated: {exitCode: 3, reason: Error}}}]}`,
		jobs.PhaseEnded, "Error", "", new(int32(3))},
	{"an exit code with a last word", `status: {phase: Failed, containerStatuses: [{name: main, state: {terminated: {exitCode: 3, reason: Error, message: disk full}}}]}`,
		jobs.PhaseEnded, "Error", "disk full", new(int32(3))},
	{"no memory", `status: {phase: Failed, containerStatuses: [{name: main, state: {terminated: {exitCode: 137, reason: OOMKilled}}}]}`,
		jobs.PhaseEnded, "OOMKilled", "", new(int32(137))},
	{"the program is not there", `
status: {phase: Failed, containerStatuses: [{name: main, state: {terminated: {exitCode: 128, reason: StartError, message: 'exec: "nope": executable file not found in $PATH'}}}]}`,
		jobs.PhaseEnded, "StartError", "executable file not found", new(int32(128))},
	{"killed by a signal", `status: {phase: Failed, containerStatuses: [{name: main, state: {terminated: {exitCode: 137, signal: 9, reason: Error}}}]}`,
		jobs.PhaseEnded, "Error", "signal 9", new(int32(137))},
	{"the init container failed", `
status:
  phase: Failed
  initContainerStatuses: [{name: setup, state: {terminated: {exitCode: 7, reason: Error}}}]
  containerStatuses: [{name: main, state: {waiting: {reason: PodInitializing}}}]`,
		jobs.PhaseEnded, "Error", "init container setup", new(int32(7))},
	{"the second container failed first", `
spec: {containers: [{name: a}, {name: b}]}
status:
  phase: Failed
  containerStatuses:
  - {name: a, state: {terminated: {exitCode: 1, reason: Error, finishedAt: "2026-11-21T18:00:09Z"}}}
  - {name: b, state: {terminated: {exitCode: 2, reason: Error, finishedAt: "2026-11-21T18:00:01Z"}}}`,
		jobs.PhaseEnded, "Error", "container b", new(int32(2))},
	{"both failed in one second: the order of the spec", `
spec: {containers: [{name: b}, {name: a}]}
status:
  phase: Failed
  containerStatuses:
  - {name: a, state: {terminated: {exitCode: 1, reason: Error, finishedAt: "2026-11-21T18:00:01Z"}}}
  - {name: b, state: {terminated: {exitCode: 2, reason: Error, finishedAt: "2026-11-21T18:00:01Z"}}}`,
		jobs.PhaseEnded, "Error", "container b", new(int32(2))},
	{"evicted for want of disk", `
status: {phase: Failed, reason: Evicted, message: "The node was low on resource: ephemeral-storage.", containerStatuses: [{name: main, state: {terminated: {exitCode: 137, reason: Error}}}]}`,
		jobs.PhaseEnded, "Evicted", "ephemeral-storage", new(int32(137))},
	{"evicted before it ran", `status: {phase: Failed, reason: Evicted, message: 'The node had condition: [DiskPressure].'}`,
		jobs.PhaseEnded, "Evicted", "DiskPressure", nil},
	{"its own deadline", `
status: {phase: Failed, reason: DeadlineExceeded, message: Pod was active on the node longer than the specified deadline, containerStatuses: [{name: main, state: {terminated: {exitCode: 0, reason: Completed}}}]}`,
		jobs.PhaseEnded, "DeadlineExceeded", "longer than", nil},
	{"preempted by the scheduler", `
status:
  phase: Failed
  conditions: [{type: DisruptionTarget, status: "True", reason: PreemptionByScheduler, message: "default-scheduler: preempting to accommodate a higher priority pod"}]
  containerStatuses: [{name: main, state: {terminated: {exitCode: 143, reason: Error}}}]`,
		jobs.PhaseEnded, "Preempted", "higher priority", new(int32(143))},
	{"preempted by the kubelet", `status: {phase: Failed, reason: Preempting, message: Preempted in order to admit critical pod}`,
		jobs.PhaseEnded, "Preempted", "critical pod", nil},
	{"drained", `
metadata: {deletionTimestamp: "2026-11-21T18:00:30Z", deletionGracePeriodSeconds: 30}
status:
  phase: Failed
  conditions: [{type: DisruptionTarget, status: "True", reason: EvictionByEvictionAPI, message: "Eviction API: evicting"}]
  containerStatuses: [{name: main, state: {terminated: {exitCode: 143, reason: Error}}}]`,
		jobs.PhaseEnded, "Evicted", "Eviction API", new(int32(143))},
	{"the node is gone for good", `
status:
  phase: Failed
  conditions: [{type: DisruptionTarget, status: "True", reason: DeletionByPodGC, message: "PodGC: node no longer exists"}]
  containerStatuses: [{name: main, state: {running: {startedAt: "2026-11-21T18:00:00Z"}}}]`,
		jobs.PhaseEnded, "NodeLost", "node no longer exists", nil},
	{"the node shuts down", `status: {phase: Failed, reason: Terminated, message: Pod was terminated in response to imminent node shutdown., containerStatuses: [{name: main, state: {terminated: {exitCode: 143, reason: Error}}}]}`,
		jobs.PhaseEnded, "NodeShutdown", "node shutdown", new(int32(143))},
	{"no memory, then drained", `
status:
  phase: Failed
  conditions: [{type: DisruptionTarget, status: "True", reason: EvictionByEvictionAPI}]
  containerStatuses: [{name: main, state: {terminated: {exitCode: 137, reason: OOMKilled}}}]`,
		jobs.PhaseEnded, "OOMKilled", "", new(int32(137))},
	{"the node does not take it", `status: {phase: Failed, reason: OutOfcpu, message: "Pod was rejected: Node didn't have enough resource: cpu"}`,
		jobs.PhaseEnded, "OutOfcpu", "rejected", nil},
	{"deleted by hand while it ran", `
metadata: {deletionTimestamp: "2026-11-21T18:00:40Z", deletionGracePeriodSeconds: 30}
status: {phase: Failed, containerStatuses: [{name: main, state: {terminated: {exitCode: 143, reason: Error, finishedAt: "2026-11-21T18:00:11Z"}}}]}`,
		jobs.PhaseEnded, "Deleted", "while it ran", new(int32(143))},
	{"deleted after it had failed", `
metadata: {deletionTimestamp: "2026-11-21T18:00:40Z", deletionGracePeriodSeconds: 30}
status: {phase: Failed, containerStatuses: [{name: main, state: {terminated: {exitCode: 1, reason: Error, finishedAt: "2026-11-21T18:00:09Z"}}}]}`,
		jobs.PhaseEnded, "Error", "", new(int32(1))},
	{"the container could not be found any more", `
status: {phase: Failed, containerStatuses: [{name: main, state: {terminated: {exitCode: 137, reason: ContainerStatusUnknown, message: The container could not be located when the pod was terminated}}}]}`,
		jobs.PhaseEnded, "ContainerStatusUnknown", "could not be located", nil},
	{"failed, and nobody says why", `status: {phase: Failed}`, jobs.PhaseEnded, "Failed", "does not say why", nil},
}

func TestThePhaseAndCauseOfAPod(t *testing.T) {
	for _, row := range causeRows {
		t.Run(row.name, func(t *testing.T) {
			pod := &corev1.Pod{}
			require.NoError(t, yaml.UnmarshalStrict([]byte(row.pod), pod))
			kept, err := trim(pod)
			require.NoError(t, err)
			for _, pod := range []*corev1.Pod{pod, kept.(*corev1.Pod)} { // what is dropped is not needed
				phase, got := causeOf(pod)
				assert.Equal(t, row.phase, phase)
				assert.Equal(t, row.reason, got.Reason)
				assert.Equal(t, row.code, got.ExitCode)
				if row.message == "" {
					assert.Empty(t, got.Message)
				} else {
					assert.Contains(t, got.Message, row.message)
				}
			}
		})
	}
}

func TestTheTimesOfAPodAreThoseOfItsContainers(t *testing.T) {
	pod := exits(&corev1.Pod{}, 1)
	_, got := causeOf(pod)
	assert.Equal(t, effects.TimeOf(begin), got.StartedAt)
	assert.Equal(t, effects.TimeOf(begin.Add(time.Minute)), got.FinishedAt)
	_, got = causeOf(runs(pod))
	assert.Equal(t, effects.TimeOf(begin), got.StartedAt)
	assert.Zero(t, got.FinishedAt)
}

// anyPod draws a pod that no cluster would make.
func anyPod(t *rapid.T) *corev1.Pod {
	text := rapid.SampledFrom([]string{"", "main", "a", "Evicted", "OOMKilled", "Error", "Terminated", "ContainerStatusUnknown", "ImagePullBackOff", "DeletionByTaintManager", "\xff"})
	when := rapid.Custom(func(t *rapid.T) metav1.Time {
		return metav1.Unix(rapid.SampledFrom([]int64{-62135596800, -1, 0, 1, begin.Unix(), 1 << 60}).Draw(t, "unix"), 0)
	})
	status := rapid.Custom(func(t *rapid.T) corev1.ContainerStatus {
		s := corev1.ContainerStatus{Name: text.Draw(t, "name")}
		if rapid.Bool().Draw(t, "waits") {
			s.State.Waiting = &corev1.ContainerStateWaiting{Reason: text.Draw(t, "reason")}
		}
		if rapid.Bool().Draw(t, "runs") {
			s.State.Running = &corev1.ContainerStateRunning{StartedAt: when.Draw(t, "at")}
		}
		if rapid.Bool().Draw(t, "ended") {
			s.State.Terminated = &corev1.ContainerStateTerminated{ExitCode: rapid.Int32Range(-1, 2).Draw(t, "code"), Signal: rapid.Int32().Draw(t, "signal"),
				Reason: text.Draw(t, "reason"), Message: text.Draw(t, "message"), StartedAt: when.Draw(t, "started"), FinishedAt: when.Draw(t, "finished")}
		}
		return s
	})
	pod := &corev1.Pod{}
	pod.Name, pod.Spec.NodeName = text.Draw(t, "pod"), text.Draw(t, "node")
	if rapid.Bool().Draw(t, "deleted") {
		at := when.Draw(t, "deletedAt")
		pod.DeletionTimestamp = &at
		if rapid.Bool().Draw(t, "grace") {
			g := rapid.Int64().Draw(t, "graceSeconds")
			pod.DeletionGracePeriodSeconds = &g
		}
	}
	pod.Status.Phase = rapid.SampledFrom([]corev1.PodPhase{"", "Pending", "Running", "Succeeded", "Failed", "Unknown", "Other"}).Draw(t, "phase")
	pod.Status.Reason, pod.Status.Message = text.Draw(t, "reason"), text.Draw(t, "message")
	pod.Status.InitContainerStatuses = rapid.SliceOfN(status, 0, 3).Draw(t, "init")
	pod.Status.ContainerStatuses = rapid.SliceOfN(status, 0, 3).Draw(t, "containers")
	for range rapid.IntRange(0, 2).Draw(t, "conditions") {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
			Type: rapid.SampledFrom([]corev1.PodConditionType{corev1.PodScheduled, corev1.DisruptionTarget}).Draw(t, "type"), Status: rapid.SampledFrom([]corev1.ConditionStatus{"True", "False", "Unknown"}).Draw(t, "status"), Reason: text.Draw(t, "why"),
		})
	}
	for _, n := range rapid.SliceOfN(text, 0, 3).Draw(t, "spec") {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: n})
	}
	return pod
}

func TestNoPodWhateverItsStatusIsMisjudged(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pod := anyPod(t)
		phase, got := causeOf(pod)
		over := pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
		require.Equal(t, over, phase == jobs.PhaseEnded)
		require.Equal(t, pod.Status.Phase == corev1.PodSucceeded, got.ExitCode != nil && *got.ExitCode == 0, "exit code 0 is success, and success alone")
		if pod.Status.Phase == corev1.PodFailed {
			require.NotEmpty(t, got.Reason)
		}
		if phase == jobs.PhaseCreated {
			require.NotEmpty(t, got.Reason, "it says why it waits")
		}
		for _, at := range []core.Time{got.StartedAt, got.FinishedAt} {
			require.True(t, at >= 0 && at <= effects.MaxTime)
		}
	})
}
