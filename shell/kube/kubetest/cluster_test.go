package kubetest_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/orrery-go/orrery/shell/kube/kubetest"
)

// patience is how long a condition may take: the machine may be loaded.
const patience = 3 * time.Minute

// eventually polls until ok, or fails the test with what ok said last.
func eventually(t *testing.T, ok func() error) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ok()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			require.NoError(t, err, "after %s", patience)
		}
	}
}

// namespace makes a namespace that goes with the test.
func namespace(t *testing.T, client kubernetes.Interface) string {
	t.Helper()
	made, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "orrery-"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, client.CoreV1().Namespaces().Delete(context.Background(), made.Name, metav1.DeleteOptions{}))
	})
	eventually(t, func() error { // pods are refused before
		_, err := client.CoreV1().ServiceAccounts(made.Name).Get(t.Context(), "default", metav1.GetOptions{})
		return err
	})
	return made.Name
}

// plainJob is a Job as kubectl would make it, on nodes of that kind.
func plainJob(node, name string, labels map[string]string, command ...string) *batchv1.Job {
	never, no := int32(0), false
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: batchv1.JobSpec{
			BackoffLimit: &never,
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					RestartPolicy: corev1.RestartPolicyNever, AutomountServiceAccountToken: &no,
					NodeSelector: map[string]string{kubetest.NodeLabel: node},
					Containers:   []corev1.Container{{Name: "main", Image: kubetest.Busybox, ImagePullPolicy: corev1.PullNever, Command: command}},
				},
			},
		},
	}
}

// endedPod waits until the pod of a Job has ended.
func endedPod(t *testing.T, client kubernetes.Interface, job *batchv1.Job) corev1.Pod {
	t.Helper()
	var pod corev1.Pod
	eventually(t, func() error {
		pods, err := client.CoreV1().Pods(job.Namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "job-name=" + job.Name})
		if err != nil {
			return err
		}
		if len(pods.Items) != 1 {
			return fmt.Errorf("job %s has %d pods", job.Name, len(pods.Items))
		}
		pod = pods.Items[0]
		if pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed {
			return fmt.Errorf("pod %s: %+v", pod.Name, pod.Status)
		}
		return nil
	})
	return pod
}

func TestAPodOnTheRealNodeEndsWithItsExitCodeAndItsLogsCanBeRead(t *testing.T) {
	t.Parallel()
	client := kubetest.SharedReal(t).Client()
	ns := namespace(t, client)

	job, err := client.BatchV1().Jobs(ns).Create(t.Context(), plainJob(kubetest.RealNode, "real", nil, "sh", "-c", "echo it runs; exit 3"), metav1.CreateOptions{})
	require.NoError(t, err)
	pod := endedPod(t, client, job)

	require.Len(t, pod.Status.ContainerStatuses, 1)
	require.NotNil(t, pod.Status.ContainerStatuses[0].State.Terminated)
	assert.EqualValues(t, 3, pod.Status.ContainerStatuses[0].State.Terminated.ExitCode)
	logs, err := client.CoreV1().Pods(ns).GetLogs(pod.Name, &corev1.PodLogOptions{}).DoRaw(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "it runs\n", string(logs))
}

func TestAPodOnAFakeNodeEndsAsItsLabelsSay(t *testing.T) {
	t.Parallel()
	client := kubetest.Shared(t).Client()
	ns := namespace(t, client)
	labels := map[string]string{kubetest.ExitCode: "137", kubetest.Reason: "OOMKilled", kubetest.RunFor: "200ms"}

	job, err := client.BatchV1().Jobs(ns).Create(t.Context(), plainJob(kubetest.FakeNode, "fake", labels, "true"), metav1.CreateOptions{})
	require.NoError(t, err)
	pod := endedPod(t, client, job)

	require.Len(t, pod.Status.ContainerStatuses, 1)
	ended := pod.Status.ContainerStatuses[0].State.Terminated
	require.NotNil(t, ended)
	assert.EqualValues(t, 137, ended.ExitCode)
	assert.Equal(t, "OOMKilled", ended.Reason)
	logs, err := client.CoreV1().Pods(ns).GetLogs(pod.Name, &corev1.PodLogOptions{}).DoRaw(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "a fake node's pod has written this\n", string(logs))
}

// The cluster is its own: nobody else's server goes away.
func TestTheServerComesBackOnTheSamePortWithAllThatItHeld(t *testing.T) {
	t.Parallel()
	kubetest.Shared(t) // is skipped where that is
	c, err := kubetest.Start(t.Context(), kubetest.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, c.Stop()) })
	ns := namespace(t, c.Client())

	require.NoError(t, c.StopProgram(t.Context(), kubetest.Server))
	_, err = c.Client().CoreV1().Namespaces().Get(t.Context(), ns, metav1.GetOptions{})
	require.ErrorContains(t, err, "refused")
	require.NoError(t, c.StartProgram(t.Context(), kubetest.Server))

	eventually(t, func() error {
		_, err := c.Client().CoreV1().Namespaces().Get(t.Context(), ns, metav1.GetOptions{})
		return err
	})
	require.ErrorContains(t, c.StartProgram(t.Context(), kubetest.Server), "it runs")
	require.ErrorContains(t, c.StopProgram(t.Context(), "nginx"), "no program")
}
