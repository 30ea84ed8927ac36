package kubetest_test

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/orrery-go/orrery/shell/kube/kubetest"
)

const examples = "../../../examples/kubernetes/"

// example reads a manifest of the examples strictly.
func example(t *testing.T, file string, into any) {
	t.Helper()
	text, err := os.ReadFile(examples + file)
	require.NoError(t, err)
	require.NoError(t, yaml.UnmarshalStrict(text, into))
}

// deployed is the Deployment of the examples, with the image of their Containerfile, as
// it can be here, where there is no network of pods: the pod has the node's, and is told
// where the API is.
func deployed(t *testing.T, c *kubetest.Cluster, ns, listen string) *appsv1.Deployment {
	t.Helper()
	imported(t, c)
	var d appsv1.Deployment
	example(t, "deployment.yaml", &d)
	d.Namespace = ns
	pod := &d.Spec.Template.Spec
	pod.HostNetwork = true
	pod.NodeSelector = map[string]string{kubetest.NodeLabel: kubetest.RealNode}
	api, err := url.Parse(c.Config().Host)
	require.NoError(t, err)
	main := &pod.Containers[0]
	main.Env = append(main.Env, // nobody carries the address of the service
		corev1.EnvVar{Name: "KUBERNETES_SERVICE_HOST", Value: api.Hostname()},
		corev1.EnvVar{Name: "KUBERNETES_SERVICE_PORT", Value: api.Port()},
		corev1.EnvVar{Name: "ORRERY_LISTEN", Value: listen})
	port, err := net.ResolveTCPAddr("tcp", listen)
	require.NoError(t, err)
	require.Equal(t, "http", main.Ports[0].Name)
	main.Ports[0].ContainerPort = int32(port.Port)
	return &d
}

// volume is a volume of the node for the claim of the examples: nobody makes volumes
// here.
func volume(t *testing.T, client kubernetes.Interface, ns string) {
	t.Helper()
	folder, err := os.MkdirTemp(filepath.Dir(orreryd(t)), "volume-") //nolint:usetesting // it outlives the daemon, which outlives the test
	require.NoError(t, err)
	here := []corev1.NodeSelectorRequirement{{Key: kubetest.NodeLabel, Operator: corev1.NodeSelectorOpIn, Values: []string{kubetest.RealNode}}}
	_, err = client.CoreV1().PersistentVolumes().Create(t.Context(), &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: ns},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("2Gi")},
			AccessModes:                   []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			PersistentVolumeSource:        corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: folder}},
			ClaimRef:                      &corev1.ObjectReference{Namespace: ns, Name: "orrery"},
			NodeAffinity:                  &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: here}}}},
		},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
}

// freeAddress is one of the node's that was free a moment ago.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.2:0")
	require.NoError(t, err)
	defer func() { assert.NoError(t, l.Close()) }()
	return l.Addr().String()
}

// The manifests of the examples, in a cluster: the daemon is a pod, finds the API and
// its account as a pod does, and has no more rights than it says there.
func TestTheDaemonOfTheManifestsRunsJobsWithTheAccountOfItsPod(t *testing.T) {
	t.Parallel()
	c := kubetest.SharedReal(t)
	client, ns, listen := c.Client(), namespace(t, c.Client()), freeAddress(t)
	account(t, client, ns)
	var config corev1.ConfigMap
	example(t, "configmap.yaml", &config)
	config.Namespace = ns
	text := config.Data["orrery.toml"]
	require.Contains(t, text, `namespace = "orrery-jobs"`)
	config.Data["orrery.toml"] = strings.ReplaceAll(text, `namespace = "orrery-jobs"`, fmt.Sprintf("namespace = %q", ns))
	_, err := client.CoreV1().ConfigMaps(ns).Create(t.Context(), &config, metav1.CreateOptions{})
	require.NoError(t, err)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "orrery"}, StringData: map[string]string{"admin-token": strings.Repeat("0123456789abcdef", 4)}}
	_, err = client.CoreV1().Secrets(ns).Create(t.Context(), secret, metav1.CreateOptions{})
	require.NoError(t, err)
	volume(t, client, ns)
	var claim corev1.PersistentVolumeClaim
	example(t, "pvc.yaml", &claim)
	claim.Namespace = ns
	_, err = client.CoreV1().PersistentVolumeClaims(ns).Create(t.Context(), &claim, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = client.AppsV1().Deployments(ns).Create(t.Context(), deployed(t, c, ns, listen), metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { explainDaemon(t, c, ns) })

	eventually(t, func() error {
		d, err := client.AppsV1().Deployments(ns).Get(t.Context(), "orrery", metav1.GetOptions{})
		if err == nil && d.Status.ReadyReplicas != 1 {
			err = fmt.Errorf("the daemon is not ready: %+v", d.Status)
		}
		return err
	})

	// The job of the examples, with the image that there is.
	job, err := os.ReadFile(examples + "nightly.yaml")
	require.NoError(t, err)
	const image, pod = "image: docker.io/library/busybox:1.37\n", "\npodSpec:\n"
	require.Contains(t, string(job), image)
	require.Contains(t, string(job), pod)
	p := &program{t: t, path: orreryd(t), dir: t.TempDir(), url: "http://" + listen, token: secret.StringData["admin-token"]}
	here := strings.NewReplacer(image, "image: "+kubetest.Busybox+"\n      imagePullPolicy: Never\n", pod, pod+"  nodeSelector: {"+kubetest.NodeLabel+": "+kubetest.RealNode+"}\n")
	require.NoError(t, os.WriteFile(filepath.Join(p.dir, "nightly.yaml"), []byte(here.Replace(string(job))), 0o600))
	p.ok("job", "apply", "-f", "nightly.yaml")
	out := p.ok("job", "trigger", "nightly", "--wait", "--json")
	assert.Contains(t, out, `"completed"`)
	assert.Contains(t, p.ok("run", "logs", p.runs("nightly", "completed")[0].RunID), "done\n")
	jobs, err := client.BatchV1().Jobs(ns).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	assert.Empty(t, jobs.Items, "it may delete them")
}

// explainDaemon logs what became of the daemon's pod where the test has failed.
func explainDaemon(t *testing.T, c *kubetest.Cluster, ns string) {
	t.Helper()
	if !t.Failed() {
		return
	}
	pods, err := c.Client().CoreV1().Pods(ns).List(context.Background(), metav1.ListOptions{})
	for _, p := range pods.Items {
		t.Logf("pod %s: %+v", p.Name, p.Status)
		said, err := c.Client().CoreV1().Pods(ns).GetLogs(p.Name, &corev1.PodLogOptions{}).DoRaw(context.Background())
		t.Logf("it said (%v):\n%s", err, said)
	}
	events, err2 := c.Client().CoreV1().Events(ns).List(context.Background(), metav1.ListOptions{})
	for _, e := range events.Items {
		t.Logf("event %s: %s", e.Reason, e.Message)
	}
	t.Logf("errors: %v, %v", err, err2)
}
