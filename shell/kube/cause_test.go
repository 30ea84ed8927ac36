package kube

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
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
	{"the init container has ended, the main container is not created yet", `
spec: {nodeName: n1, initContainers: [{name: setup}]}
status:
  phase: Pending
  conditions: [{type: Initialized, status: "False", reason: ContainersNotInitialized}, {type: ContainersReady, status: "False", reason: ContainersNotReady}]
  initContainerStatuses: [{name: setup, state: {terminated: {exitCode: 0, reason: Completed}}}]
  containerStatuses: [{name: main, state: {waiting: {reason: PodInitializing}}}]`,
		jobs.PhaseCreated, "ContainerCreating", "", nil},
	{"one of two containers is created, the other has no image", `
status:
  phase: Pending
  containerStatuses:
  - {name: main, state: {waiting: {reason: ContainerCreating}}}
  - {name: side, state: {waiting: {reason: ErrImagePull, message: no such image}}}`,
		jobs.PhaseCreated, "ErrImagePull", "container side: no such image", nil},
	{"an older cluster says by the pod why it waits", `status: {phase: Pending, reason: Waiting, message: for Godot}`, jobs.PhaseCreated, "Waiting", "for Godot", nil},
	{"the kubelet is not heard of, and nobody saw it run", `{spec: {nodeName: n1}, status: {phase: Unknown}}`, jobs.PhaseCreated, "ContainerCreating", "", nil},
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
	{"killed by a signal, with a last word", `
status: {phase: Failed, containerStatuses: [{name: main, state: {terminated: {exitCode: 137, signal: 9, reason: Error, message: I am killed}}}]}`,
		jobs.PhaseEnded, "Error", "I am killed", new(int32(137))},
	{"the init container that is never tried again failed, beside a sidecar", `
spec: {initContainers: [{name: proxy, restartPolicy: Always}, {name: first}, {name: setup, restartPolicy: Never}]}
status:
  phase: Failed
  initContainerStatuses:
  - {name: proxy, state: {terminated: {exitCode: 137, reason: Error}}}
  - {name: first, state: {terminated: {exitCode: 0, reason: Completed}}}
  - {name: setup, state: {terminated: {exitCode: 7, reason: Error}}}
  containerStatuses: [{name: main, state: {waiting: {reason: PodInitializing}}}]`,
		jobs.PhaseEnded, "Error", "init container setup", new(int32(7))},
	{"the second of two init containers failed, of which neither is a sidecar", `
spec: {initContainers: [{name: first}, {name: setup}]}
status:
  phase: Failed
  initContainerStatuses:
  - {name: first, state: {terminated: {exitCode: 0, reason: Completed}}}
  - {name: setup, state: {terminated: {exitCode: 7, reason: Error}}}`,
		jobs.PhaseEnded, "Error", "init container setup", new(int32(7))},
	{"a failure beside a sidecar that was killed", `
spec: {initContainers: [{name: proxy, restartPolicy: Always}]}
status:
  phase: Failed
  initContainerStatuses: [{name: proxy, state: {terminated: {exitCode: 137, reason: Error}}}]
  containerStatuses: [{name: main, state: {terminated: {exitCode: 3, reason: Error}}}]`,
		jobs.PhaseEnded, "Error", "", new(int32(3))},
	{"conditions that are no disruption", `
status:
  phase: Failed
  conditions: [{type: PodScheduled, status: "True"}, {type: DisruptionTarget, status: "False", reason: EvictionByEvictionAPI}]
  containerStatuses: [{name: main, state: {terminated: {exitCode: 3, reason: Error}}}]`,
		jobs.PhaseEnded, "Error", "", new(int32(3))},
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
	{"the node shuts down, of old", `status: {phase: Failed, reason: Shutdown, message: "Node is shutting, evicting pods"}`, jobs.PhaseEnded, "NodeShutdown", "shutting", nil},
	{"the node shuts down, older still", `status: {phase: Failed, reason: NodeShutdown, message: Pod was rejected as the node is shutting down.}`,
		jobs.PhaseEnded, "NodeShutdown", "shutting down", nil},
	{"ended by the kubelet", `
status:
  phase: Failed
  conditions: [{type: DisruptionTarget, status: "True", reason: TerminationByKubelet, message: Pod was terminated in response to imminent node shutdown.}]`,
		jobs.PhaseEnded, "Evicted", "imminent", nil},
	{"a disruption of a kind to come", `
status: {phase: Failed, conditions: [{type: DisruptionTarget, status: "True", reason: DeletionByDragon, message: it was hungry}]}`,
		jobs.PhaseEnded, "DeletionByDragon", "hungry", nil},
	{"a disruption without a reason", `status: {phase: Failed, conditions: [{type: DisruptionTarget, status: "True", message: who knows}]}`,
		jobs.PhaseEnded, "Evicted", "who knows", nil},
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
	{"deleted by hand in the second in which it ended", `
metadata: {deletionTimestamp: "2026-11-21T18:00:40Z", deletionGracePeriodSeconds: 30}
status: {phase: Failed, containerStatuses: [{name: main, state: {terminated: {exitCode: 143, reason: Error, finishedAt: "2026-11-21T18:00:10Z"}}}]}`,
		jobs.PhaseEnded, "Deleted", "while it ran", new(int32(143))},
	{"deleted by hand, and nobody says when it ended", `
metadata: {deletionTimestamp: "2026-11-21T18:00:40Z", deletionGracePeriodSeconds: 30}
status: {phase: Failed, containerStatuses: [{name: main, state: {terminated: {exitCode: 143, reason: Error}}}]}`,
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

func TestAPodIsNamedWithItsNode(t *testing.T) {
	pod := &corev1.Pod{}
	pod.Name, pod.UID, pod.Spec.NodeName = "orrery-x", "uid", "n1"
	_, got := causeOf(pod)
	assert.Equal(t, []string{"orrery-x", "uid", "n1"}, []string{got.Name, got.UID, got.Node})
}

func TestTheContainerIsNamedWhereThereAreSeveral(t *testing.T) {
	for _, row := range []struct{ pod, want string }{
		{`{phase: Pending, containerStatuses: [{name: main, state: {waiting: {reason: ErrImagePull, message: no such image}}}]}`, "no such image"},
		{`{phase: Failed, containerStatuses: [{name: main, state: {terminated: {exitCode: 3, message: disk full}}}]}`, "disk full"},
		{`{phase: Failed, containerStatuses: [{name: a, state: {terminated: {exitCode: 3}}}, {name: b}]}`, "container a"},
		{`{phase: Failed, containerStatuses: [{name: a}, {name: b, state: {terminated: {exitCode: 3, message: disk full}}}]}`, "container b: disk full"},
	} {
		pod := &corev1.Pod{}
		require.NoError(t, yaml.UnmarshalStrict([]byte(row.pod), &pod.Status))
		_, got := causeOf(pod)
		assert.Equal(t, row.want, got.Message)
	}
}

// Times are in seconds after begin; 0 is none.
func TestTheTimesOfAPodAreThoseOfItsContainers(t *testing.T) {
	for _, row := range []struct {
		name, status      string
		started, finished int
	}{
		{"it runs", `{phase: Running, containerStatuses: [{name: a, state: {running: {startedAt: "2026-11-21T18:00:02Z"}}}, {name: b, state: {running: {startedAt: "2026-11-21T18:00:01Z"}}}]}`, 1, 0},
		{"it runs on, and one has ended", `{phase: Running, containerStatuses: [
			{name: a, state: {running: {startedAt: "2026-11-21T18:00:02Z"}}}, {name: b, state: {terminated: {startedAt: "2026-11-21T18:00:01Z", finishedAt: "2026-11-21T18:00:05Z"}}}]}`, 1, 0},
		{"it is not heard of, and one has ended", `{phase: Unknown, containerStatuses: [
			{name: a, state: {running: {startedAt: "2026-11-21T18:00:02Z"}}}, {name: b, state: {terminated: {startedAt: "2026-11-21T18:00:01Z", finishedAt: "2026-11-21T18:00:05Z"}}}]}`, 1, 0},
		{"it waits, and one runs or ended", `{phase: Pending, containerStatuses: [
			{name: a, state: {running: {startedAt: "2026-11-21T18:00:02Z"}}}, {name: b, state: {terminated: {startedAt: "2026-11-21T18:00:01Z", finishedAt: "2026-11-21T18:00:05Z"}}}, {name: c, state: {waiting: {reason: ErrImagePull}}}]}`, 0, 0},
		{"the first began and the last ended", `{phase: Succeeded, containerStatuses: [
			{name: a, state: {terminated: {startedAt: "2026-11-21T18:00:02Z", finishedAt: "2026-11-21T18:00:09Z"}}}, {name: b, state: {terminated: {startedAt: "2026-11-21T18:00:01Z", finishedAt: "2026-11-21T18:00:05Z"}}}]}`, 1, 9},
		{"the other way round", `{phase: Failed, containerStatuses: [
			{name: b, state: {terminated: {exitCode: 1, startedAt: "2026-11-21T18:00:01Z", finishedAt: "2026-11-21T18:00:05Z"}}}, {name: a, state: {terminated: {startedAt: "2026-11-21T18:00:02Z", finishedAt: "2026-11-21T18:00:09Z"}}}]}`, 1, 9},
		{"one never began", `{phase: Failed, containerStatuses: [
			{name: a, state: {terminated: {exitCode: 1, startedAt: "2026-11-21T18:00:02Z", finishedAt: "2026-11-21T18:00:05Z"}}}, {name: b, state: {terminated: {exitCode: 128, startedAt: null, finishedAt: null}}}]}`, 2, 5},
		{"an init container failed", `{phase: Failed, initContainerStatuses: [{name: setup, state: {terminated: {exitCode: 1, startedAt: "2026-11-21T18:00:02Z", finishedAt: "2026-11-21T18:00:05Z"}}}]}`, 2, 5},
		{"what is no time", `{phase: Failed, containerStatuses: [{name: a, state: {terminated: {exitCode: 128, startedAt: "1970-01-01T00:00:00Z", finishedAt: "1969-12-31T23:59:59Z"}}}]}`, 0, 0},
		{"nobody says", `{phase: Failed}`, 0, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			pod := &corev1.Pod{}
			require.NoError(t, yaml.UnmarshalStrict([]byte(row.status), &pod.Status))
			_, got := causeOf(pod)
			at := func(seconds int) core.Time {
				if seconds == 0 {
					return 0
				}
				return effects.TimeOf(begin.Add(time.Duration(seconds) * time.Second))
			}
			assert.Equal(t, at(row.started), got.StartedAt)
			assert.Equal(t, at(row.finished), got.FinishedAt)
		})
	}
}

func TestTheClusterHasGivenUpANodeWhereItSaysSo(t *testing.T) {
	for status, want := range map[string]bool{
		`{phase: Unknown}`: true, `{phase: Running, reason: NodeLost}`: true,
		`{phase: Running, conditions: [{type: DisruptionTarget, status: "True", reason: DeletionByTaintManager}]}`:  true,
		`{phase: Running, conditions: [{type: DisruptionTarget, status: "False", reason: DeletionByTaintManager}]}`: false,
		`{phase: Running, conditions: [{type: DisruptionTarget, status: "True", reason: EvictionByEvictionAPI}]}`:   false,
		`{phase: Running}`: false, `{phase: Running, reason: Evicted}`: false,
	} {
		pod := &corev1.Pod{}
		require.NoError(t, yaml.UnmarshalStrict([]byte(status), &pod.Status))
		assert.Equal(t, want, nodeLost(pod), "%s", status)
	}
}

func TestAJobHasEndedWhereACurrentConditionSaysSo(t *testing.T) {
	for _, row := range []struct {
		status        string
		end, complete bool
	}{
		{`{}`, false, false},
		{`{conditions: [{type: Complete, status: "True"}]}`, true, true},
		{`{conditions: [{type: SuccessCriteriaMet, status: "True"}]}`, true, true},
		{`{conditions: [{type: Failed, status: "True"}]}`, true, false},
		{`{conditions: [{type: FailureTarget, status: "True"}]}`, true, false},
		{`{conditions: [{type: Suspended, status: "True"}]}`, false, false},
		{`{conditions: [{type: Complete, status: "False"}, {type: Failed, status: "Unknown"}]}`, false, false},
		{`{conditions: [{type: Suspended, status: "False"}, {type: Complete, status: "False"}, {type: Failed, status: "True"}]}`, true, false},
	} {
		job := &batchv1.Job{}
		require.NoError(t, yaml.UnmarshalStrict([]byte(row.status), &job.Status))
		end, complete := jobEnd(job)
		assert.Equal(t, row.end, end != nil, row.status)
		assert.Equal(t, row.complete, complete, row.status)
	}
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
