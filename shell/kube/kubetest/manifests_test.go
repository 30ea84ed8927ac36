package kubetest_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/orrery-go/orrery/shell/jobfile"
	"github.com/orrery-go/orrery/shell/kube/kubetest"
)

const manifests = "../../../examples/kubernetes/"

// resourceOf is where the API has the objects of a kind.
var resourceOf = map[string]string{
	"Namespace": "namespaces", "ServiceAccount": "serviceaccounts", "ConfigMap": "configmaps", "PersistentVolumeClaim": "persistentvolumeclaims",
	"Service": "services", "PodDisruptionBudget": "poddisruptionbudgets", "Deployment": "deployments", "Role": "roles", "RoleBinding": "rolebindings",
}

// create sends a manifest to the server as kubectl apply does: no field may be
// unknown to it.
func create(t *testing.T, client kubernetes.Interface, manifest []byte, dryRun bool) error {
	t.Helper()
	var o metav1.PartialObjectMetadata
	require.NoError(t, yaml.Unmarshal(manifest, &o))
	resource, known := resourceOf[o.Kind]
	require.True(t, known, "kind %q", o.Kind)
	path := "/api/v1/"
	if strings.Contains(o.APIVersion, "/") {
		path = "/apis/" + o.APIVersion + "/"
	}
	if o.Namespace != "" {
		path += "namespaces/" + o.Namespace + "/"
	}
	body := asJSON(t, manifest)
	req := client.CoreV1().RESTClient().Post().AbsPath(path+resource).Param("fieldValidation", metav1.FieldValidationStrict)
	if dryRun {
		req = req.Param("dryRun", metav1.DryRunAll)
	}
	err := req.SetHeader("Content-Type", "application/json").Body(body).Do(t.Context()).Error()
	if apierrors.IsAlreadyExists(err) { // with -count; the fields were looked at
		return nil
	}
	return err
}

func asJSON(t *testing.T, manifest []byte) []byte {
	t.Helper()
	body, err := yaml.YAMLToJSON(manifest)
	require.NoError(t, err)
	return body
}

func TestTheManifestsAreTakenByTheServerInTheOrderOfTheKustomization(t *testing.T) {
	t.Parallel()
	client := kubetest.Shared(t).Client()
	var kustomization struct{ Resources []string }
	text, err := os.ReadFile(manifests + "kustomization.yaml")
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(text, &kustomization))
	var daemon corev1.PodTemplateSpec
	for _, file := range kustomization.Resources {
		text, err := os.ReadFile(manifests + file)
		require.NoError(t, err)
		for document := range strings.SplitSeq(string(text), "\n---\n") {
			var o struct {
				Kind string
				Spec struct{ Template corev1.PodTemplateSpec }
			}
			require.NoError(t, yaml.Unmarshal([]byte(document), &o))
			if o.Kind == "Deployment" { // its image is nowhere
				daemon = o.Spec.Template
			}
			require.NoError(t, create(t, client, []byte(document), o.Kind == "Deployment"), "%s: %s", file, document)
		}
	}

	// Those of three daemons, on the namespaces of before.
	more, err := filepath.Glob(manifests + "postgres/*.yaml")
	require.NoError(t, err)
	for _, file := range more {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		var typ metav1.TypeMeta
		require.NoError(t, yaml.Unmarshal(text, &typ))
		if typ.Kind != "Kustomization" {
			require.NoError(t, create(t, client, text, true), file)
		}
	}

	// And with what divides the database laid over them.
	three, err := os.ReadFile(manifests + "postgres/deployment.yaml")
	require.NoError(t, err)
	divide, err := os.ReadFile(manifests + "partitions/divide.yaml")
	require.NoError(t, err)
	divided, err := strategicpatch.StrategicMergePatch(asJSON(t, three), asJSON(t, divide), appsv1.Deployment{})
	require.NoError(t, err)
	var dividing struct {
		Spec struct{ Template corev1.PodTemplateSpec }
	}
	require.NoError(t, json.Unmarshal(divided, &dividing))
	require.Len(t, dividing.Spec.Template.Spec.InitContainers, 1)
	require.NoError(t, create(t, client, divided, true))

	// The levels of Pod Security, which a Deployment and a Job only meet when they
	// make their pods.
	pod := func(ns string, meta metav1.ObjectMeta, spec corev1.PodSpec) error {
		meta.GenerateName = "p-"
		_, err := client.CoreV1().Pods(ns).Create(t.Context(), &corev1.Pod{ObjectMeta: meta, Spec: spec}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	require.NoError(t, pod("orrery", daemon.ObjectMeta, daemon.Spec))
	require.NoError(t, pod("orrery", dividing.Spec.Template.ObjectMeta, dividing.Spec.Template.Spec))
	daemon.Spec.SecurityContext = nil
	assert.True(t, apierrors.IsForbidden(pod("orrery", daemon.ObjectMeta, daemon.Spec)), "the daemon's namespace takes any pod")

	jobs, err := jobfile.Load(manifests+"nightly.yaml", jobfile.Options{})
	require.NoError(t, err)
	var spec corev1.PodSpec
	require.NoError(t, json.Unmarshal(jobs[0].PodSpec, &spec))
	eventually(t, func() error { return pod("orrery-jobs", metav1.ObjectMeta{}, spec) }) // its service account comes by itself
	spec.HostNetwork = true
	assert.True(t, apierrors.IsForbidden(pod("orrery-jobs", metav1.ObjectMeta{}, spec)), "jobs may have the node's network")
}
