package kubetest_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/internal/pause"
	"github.com/orrery-go/orrery/shell/kube/kubetest"
)

// The heartbeats of the daemon that is rolled out: it is away for longer than the
// silence that orphans a run.
const (
	rolloutHeartbeat = 3 * time.Second
	rolloutSilence   = 3 * rolloutHeartbeat
)

const (
	daemonNamespace = "orrery" // those of the manifests
	jobsNamespace   = "orrery-jobs"
)

// rollout is a daemon that the manifests of the examples have made, in a cluster of its
// own whose real node may be drained.
type rollout struct {
	*world
	*program
	client kubernetes.Interface
}

func newRollout(t *testing.T) *rollout {
	t.Helper()
	c, err := kubetest.Start(t.Context(), kubetest.Options{FakeNodes: 1, RealNode: true})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, c.Stop()) })
	r := &rollout{
		world:  &world{t: t, cluster: c, admin: c.Client(), ns: jobsNamespace, proxy: kubetest.NewProxy(t, c), pods: map[string]string{}},
		client: c.Client(),
	}
	listen := freeAddress(t)
	r.program = &program{t: t, path: orreryd(t), dir: t.TempDir(), url: "http://" + listen, token: strings.Repeat("0123456789abcdef", 4)}
	r.apply(listen)
	r.witness()
	t.Cleanup(r.explain)
	t.Cleanup(func() { explainDaemon(t, c, daemonNamespace) })
	r.rolledOut("")
	return r
}

// apply makes what the kustomization lists, in its order, and what it needs beside.
func (r *rollout) apply(listen string) {
	t := r.world.t
	t.Helper()
	var kustomization struct{ Resources []string }
	text, err := os.ReadFile(examples + "kustomization.yaml")
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(text, &kustomization))
	for _, file := range kustomization.Resources {
		text, err := os.ReadFile(examples + file)
		require.NoError(t, err)
		switch file {
		case "namespace.yaml": // the daemon has the node's network here
			require.Contains(t, string(text), "enforce: restricted")
			text = []byte(strings.Replace(string(text), "enforce: restricted", "enforce: privileged", 1))
		case "configmap.yaml":
			text = r.config(text)
		case "deployment.yaml":
			d := deployed(t, r.cluster, daemonNamespace, listen)
			r.withCredentials(d)
			text, err = yaml.Marshal(d)
			require.NoError(t, err)
		}
		for document := range strings.SplitSeq(string(text), "\n---\n") {
			require.NoError(t, create(t, r.client, []byte(document), false), "%s: %s", file, document)
		}
		if file == "rbac.yaml" {
			r.secret("orrery", map[string]string{"admin-token": r.token})
			r.secret("first", nil)
			r.secret("credentials", r.credentials("first"))
			volume(t, r.client, daemonNamespace)
		}
	}
}

// config has the daemon's heartbeats faster.
func (r *rollout) config(text []byte) []byte {
	t := r.world.t
	t.Helper()
	var config corev1.ConfigMap
	require.NoError(t, yaml.UnmarshalStrict(text, &config))
	config.Data["orrery.toml"] += fmt.Sprintf("\n[jobs]\nheartbeat_seconds = %g\n", rolloutHeartbeat.Seconds())
	text, err := yaml.Marshal(config)
	require.NoError(t, err)
	return text
}

// withCredentials gives the daemon the service account's token from a Secret, which can
// be replaced while it runs: kubelet's own token would last for most of an hour.
func (r *rollout) withCredentials(d *appsv1.Deployment) {
	pod, no := &d.Spec.Template.Spec, false
	pod.AutomountServiceAccountToken = &no
	pod.Volumes = append(pod.Volumes, corev1.Volume{Name: "credentials", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "credentials"}}})
	pod.Containers[0].VolumeMounts = append(pod.Containers[0].VolumeMounts,
		corev1.VolumeMount{Name: "credentials", MountPath: "/var/run/secrets/kubernetes.io/serviceaccount", ReadOnly: true})
}

func (r *rollout) secret(name string, data map[string]string) {
	r.world.t.Helper()
	_, err := r.client.CoreV1().Secrets(daemonNamespace).Create(r.world.t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: data}, metav1.CreateOptions{})
	require.NoError(r.world.t, err)
}

// credentials are what a pod finds of its service account. The token lasts as long as
// the Secret of that name.
func (r *rollout) credentials(bound string) map[string]string {
	t := r.world.t
	t.Helper()
	secret, err := r.client.CoreV1().Secrets(daemonNamespace).Get(t.Context(), bound, metav1.GetOptions{})
	require.NoError(t, err)
	hour := int64(3600)
	made, err := r.client.CoreV1().ServiceAccounts(daemonNamespace).CreateToken(t.Context(), "orrery", &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: &hour,
		BoundObjectRef:    &authenticationv1.BoundObjectReference{Kind: "Secret", APIVersion: "v1", Name: bound, UID: secret.UID},
	}}, metav1.CreateOptions{})
	require.NoError(t, err)
	ca, err := os.ReadFile(r.cluster.Config().CAFile)
	require.NoError(t, err)
	return map[string]string{"token": made.Status.Token, "ca.crt": string(ca), "namespace": daemonNamespace}
}

// rolledOut waits until the Deployment has one ready pod that is not the one of that
// name, and gives its name.
func (r *rollout) rolledOut(before string) (pod string) {
	t := r.world.t
	t.Helper()
	eventually(t, func() error {
		pods, err := r.client.CoreV1().Pods(daemonNamespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		if len(pods.Items) != 1 || pods.Items[0].Name == before {
			return fmt.Errorf("there are %d pods of the daemon, and it was %q", len(pods.Items), before)
		}
		p := pods.Items[0]
		pod = p.Name
		ready := slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		})
		if !ready || p.DeletionTimestamp != nil {
			return fmt.Errorf("pod %s is not ready: %+v", p.Name, p.Status)
		}
		assert.Zero(t, p.Status.ContainerStatuses[0].RestartCount, "it never ended by itself")
		return nil
	})
	return pod
}

// restart does what kubectl rollout restart does.
func (r *rollout) restart() {
	t := r.world.t
	t.Helper()
	patch := `{"spec":{"template":{"metadata":{"annotations":{"kubectl.kubernetes.io/restartedAt":"now"}}}}}`
	_, err := r.client.AppsV1().Deployments(daemonNamespace).Patch(t.Context(), "orrery", types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
	require.NoError(t, err)
}

// drain does what kubectl drain does to the node of the daemon.
func (r *rollout) drain(pod string) {
	t := r.world.t
	t.Helper()
	r.cordon(true)
	require.NoError(t, r.client.PolicyV1().Evictions(daemonNamespace).Evict(t.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: pod, Namespace: daemonNamespace}}))
	eventually(t, func() error {
		_, err := r.client.CoreV1().Pods(daemonNamespace).Get(t.Context(), pod, metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("pod %s is still there: %w", pod, err)
		}
		return nil
	})
}

func (r *rollout) cordon(yes bool) {
	r.world.t.Helper()
	patch := fmt.Sprintf(`{"spec":{"unschedulable":%t}}`, yes)
	_, err := r.client.CoreV1().Nodes().Patch(r.world.t.Context(), "127.0.0.2", types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
	require.NoError(r.world.t, err)
}

// rotate gives the daemon a new token, and takes the old one back at once: it is refused
// before kubelet has brought the new one.
func (r *rollout) rotate() {
	t := r.world.t
	t.Helper()
	old, err := r.client.CoreV1().Secrets(daemonNamespace).Get(t.Context(), "credentials", metav1.GetOptions{})
	require.NoError(t, err)
	r.secret("second", nil)
	renewed := old.DeepCopy()
	renewed.StringData = r.credentials("second")
	require.NoError(t, r.client.CoreV1().Secrets(daemonNamespace).Delete(t.Context(), "first", metav1.DeleteOptions{}))
	eventually(t, func() error {
		_, err := clientOf(t, r.cluster, string(old.Data["token"])).BatchV1().Jobs(jobsNamespace).List(t.Context(), metav1.ListOptions{})
		if !apierrors.IsUnauthorized(err) {
			return fmt.Errorf("the old token is taken: %w", err)
		}
		return nil
	})
	_, err = r.client.CoreV1().Secrets(daemonNamespace).Update(t.Context(), renewed, metav1.UpdateOptions{})
	require.NoError(t, err)
}

// Jobs on the fake node: the pods of two outlive the daemon, and one ends soon.
const rolloutJobs = `
id: well
labels: {orrery.test/run-for: 40s}
podSpec:
  nodeSelector: {orrery.test/node: fake}
  containers: [{name: main, image: "localhost/busybox:test", imagePullPolicy: Never}]
---
id: badly
labels: {orrery.test/run-for: 20s, orrery.test/exit-code: "7"}
podSpec:
  nodeSelector: {orrery.test/node: fake}
  containers: [{name: main, image: "localhost/busybox:test", imagePullPolicy: Never}]
---
id: soon
labels: {orrery.test/run-for: 2s}
podSpec:
  nodeSelector: {orrery.test/node: fake}
  containers: [{name: main, image: "localhost/busybox:test", imagePullPolicy: Never}]
`

// The daemon of the manifests, from the image of the Containerfile: its pod is replaced,
// its node is drained, and its credentials change while runs go on.
func TestRunsGoOnThroughARolloutADrainedNodeAndNewCredentialsOfTheDaemon(t *testing.T) {
	t.Parallel()
	kubetest.SharedReal(t) // is skipped where that is
	r := newRollout(t)
	require.NoError(t, os.WriteFile(filepath.Join(r.dir, "jobs.yaml"), []byte(rolloutJobs), 0o600))
	r.ok("job", "apply", "-f", "jobs.yaml")
	for range 10 {
		r.ok("job", "trigger", "well")
	}
	for range 10 {
		r.ok("job", "trigger", "badly")
	}
	r.program.some(10, "well", core.OrchestratorRunning, core.OrchestratorCompleted) // the first may have ended

	first := r.rolledOut("")
	r.restart()
	second := r.rolledOut(first)

	r.drain(second)
	require.NoError(t, pause.For(t.Context(), rolloutSilence))
	r.cordon(false)
	third := r.rolledOut(second)

	r.rotate()
	r.ok("job", "trigger", "soon") // while the daemon has no credentials that count
	ended := slices.Concat(r.program.some(10, "well", core.OrchestratorCompleted), r.program.some(1, "soon", core.OrchestratorCompleted))
	badly := r.program.some(10, "badly", core.OrchestratorFailed)
	assert.Equal(t, third, r.rolledOut(""), "the same pod with other credentials")

	var want []string
	for _, run := range slices.Concat(ended, badly) {
		want = append(want, run.ID+"/0")
	}
	slices.Sort(want)
	assert.Equal(t, want, r.attempts(), "one pod for each run, and no run more")
	for _, run := range badly {
		if assert.NotNil(t, run.Pod.ExitCode, run.Error) {
			assert.EqualValues(t, 7, *run.Pod.ExitCode, run.Error)
		}
	}
	r.leavesNothing()
}
