package docs_test

import (
	"bytes"
	"debug/elf"
	"encoding/json"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"sigs.k8s.io/yaml"

	"github.com/orrery-go/orrery/shell/jobfile"
)

// manifests are the folder of the manifests.
const manifests = "examples/kubernetes"

// kinds are the types of what stands in the manifests.
var kinds = map[metav1.TypeMeta]func() metav1.Object{
	{APIVersion: "v1", Kind: "Namespace"}:                                  func() metav1.Object { return &corev1.Namespace{} },
	{APIVersion: "v1", Kind: "ServiceAccount"}:                             func() metav1.Object { return &corev1.ServiceAccount{} },
	{APIVersion: "v1", Kind: "ConfigMap"}:                                  func() metav1.Object { return &corev1.ConfigMap{} },
	{APIVersion: "v1", Kind: "PersistentVolumeClaim"}:                      func() metav1.Object { return &corev1.PersistentVolumeClaim{} },
	{APIVersion: "v1", Kind: "Service"}:                                    func() metav1.Object { return &corev1.Service{} },
	{APIVersion: "apps/v1", Kind: "Deployment"}:                            func() metav1.Object { return &appsv1.Deployment{} },
	{APIVersion: "policy/v1", Kind: "PodDisruptionBudget"}:                 func() metav1.Object { return &policyv1.PodDisruptionBudget{} },
	{APIVersion: "batch/v1", Kind: "Job"}:                                  func() metav1.Object { return &batchv1.Job{} },
	{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "Role"}:             func() metav1.Object { return &rbacv1.Role{} },
	{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "RoleBinding"}:      func() metav1.Object { return &rbacv1.RoleBinding{} },
	{APIVersion: "kustomize.config.k8s.io/v1beta1", Kind: "Kustomization"}: nil,
}

// readManifests reads all manifests strictly, by the name of their kind and their
// own.
func readManifests(t *testing.T) map[string]metav1.Object {
	t.Helper()
	return manifestsIn(t, manifests)
}

// manifestsIn reads those of a folder.
func manifestsIn(t *testing.T, manifests string) map[string]metav1.Object {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, manifests, "*.yaml"))
	require.NoError(t, err)
	all := map[string]metav1.Object{}
	for _, file := range files {
		for doc := range strings.SplitSeq(readFile(t, manifests+"/"+filepath.Base(file)), "\n---\n") {
			var typ metav1.TypeMeta
			require.NoError(t, yaml.Unmarshal([]byte(doc), &typ), file)
			if typ.Kind == "" { // a job file
				_, err := jobfile.Load(file, jobfile.Options{})
				require.NoError(t, err)
				continue
			}
			make, known := kinds[typ]
			require.True(t, known, "%s: %v", file, typ)
			if make == nil {
				continue
			}
			o := make()
			require.NoError(t, yaml.UnmarshalStrict([]byte(doc), o), file)
			key := typ.Kind + " " + o.GetName()
			require.NotContains(t, all, key, file)
			all[key] = o
		}
	}
	return all
}

func get[O any](t *testing.T, all map[string]metav1.Object, key string) O {
	t.Helper()
	o, ok := all[key].(O)
	require.True(t, ok, "no %s", key)
	return o
}

func TestTheManifestsFitTogether(t *testing.T) {
	all := readManifests(t)
	d := get[*appsv1.Deployment](t, all, "Deployment orrery")
	pod := d.Spec.Template.Spec
	assert.Equal(t, appsv1.RecreateDeploymentStrategyType, d.Spec.Strategy.Type, "two daemons must not meet at one database")
	assert.EqualValues(t, 1, *d.Spec.Replicas)
	assert.Subset(t, d.Spec.Template.Labels, d.Spec.Selector.MatchLabels)
	assert.Subset(t, d.Spec.Template.Labels, get[*corev1.Service](t, all, "Service orrery").Spec.Selector)
	account := get[*corev1.ServiceAccount](t, all, "ServiceAccount "+pod.ServiceAccountName)
	assert.Equal(t, d.Namespace, account.Namespace)
	require.Contains(t, all, "Namespace "+d.Namespace)
	for _, o := range all {
		assert.True(t, o.GetNamespace() == "" || all["Namespace "+o.GetNamespace()] != nil, "%s is in a namespace that there is not: %s", o.GetName(), o.GetNamespace())
	}
	for _, v := range pod.Volumes {
		switch {
		case v.PersistentVolumeClaim != nil:
			require.Contains(t, all, "PersistentVolumeClaim "+v.PersistentVolumeClaim.ClaimName)
		case v.ConfigMap != nil:
			require.Contains(t, all, "ConfigMap "+v.ConfigMap.Name)
		}
	}
	c := pod.Containers[0]
	assert.True(t, *pod.SecurityContext.RunAsNonRoot)
	assert.True(t, *c.SecurityContext.ReadOnlyRootFilesystem)
	assert.False(t, *c.SecurityContext.AllowPrivilegeEscalation)
	assert.Equal(t, []corev1.Capability{"ALL"}, c.SecurityContext.Capabilities.Drop)
	assert.Equal(t, []string{"/healthz", "/healthz", "/readyz"}, []string{c.StartupProbe.HTTPGet.Path, c.LivenessProbe.HTTPGet.Path, c.ReadinessProbe.HTTPGet.Path})
	assert.Contains(t, readFile(t, manifests+"/Containerfile"), "USER 65532:65532")
	assert.EqualValues(t, 65532, *pod.SecurityContext.RunAsUser)

	var kustomization struct {
		Resources []string `json:"resources"`
		Images    []struct{ Name string }
	}
	require.NoError(t, yaml.Unmarshal([]byte(readFile(t, manifests+"/kustomization.yaml")), &kustomization))
	for _, r := range kustomization.Resources {
		readFile(t, manifests+"/"+r)
	}
	name, _, _ := strings.Cut(c.Image, ":")
	assert.Equal(t, name, kustomization.Images[0].Name)

	config := get[*corev1.ConfigMap](t, all, "ConfigMap orrery").Data["orrery.toml"]
	for _, m := range regexp.MustCompile(`"(/[^"]+)"`).FindAllStringSubmatch(config, -1) {
		assert.True(t, slices.ContainsFunc(c.VolumeMounts, func(v corev1.VolumeMount) bool { return path.Dir(m[1]) == v.MountPath }), "no volume is mounted for %s", m[1])
	}
	role := get[*rbacv1.Role](t, all, "Role orrery")
	assert.Contains(t, config, `namespace = "`+role.Namespace+`"`, "the daemon may do something where its runner works")
	binding := get[*rbacv1.RoleBinding](t, all, "RoleBinding orrery")
	assert.Equal(t, []string{role.Namespace, role.Name}, []string{binding.Namespace, binding.RoleRef.Name})
	assert.Equal(t, []rbacv1.Subject{{Kind: "ServiceAccount", Name: account.Name, Namespace: account.Namespace}}, binding.Subjects)
}

func TestTheConfigurationOfTheManifestsIsRight(t *testing.T) {
	config := get[*corev1.ConfigMap](t, readManifests(t), "ConfigMap orrery").Data["orrery.toml"]
	text, env := settled(t, config)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "orrery.toml"), []byte(text), 0o600))
	out, code := orreryd(t, dir, env, "config", "check", "orrery.toml")
	assert.Zero(t, code, out)
}

// The three daemons on PostgreSQL are the one of the folder above, but for what makes them three.
func TestTheManifestsOfThreeDaemonsFitTogether(t *testing.T) {
	one, all := readManifests(t), manifestsIn(t, manifests+"/postgres")
	d, alone := get[*appsv1.Deployment](t, all, "Deployment orrery"), get[*appsv1.Deployment](t, one, "Deployment orrery")
	assert.EqualValues(t, 3, *d.Spec.Replicas)
	for _, o := range all {
		assert.Equal(t, alone.Namespace, o.GetNamespace(), o.GetName())
	}
	budget := get[*policyv1.PodDisruptionBudget](t, all, "PodDisruptionBudget orrery").Spec
	assert.Equal(t, 1, budget.MaxUnavailable.IntValue(), "of three")
	assert.Subset(t, d.Spec.Template.Labels, budget.Selector.MatchLabels)
	assert.Subset(t, d.Spec.Template.Labels, d.Spec.Selector.MatchLabels)
	assert.Equal(t, get[*corev1.Service](t, one, "Service orrery").Spec, get[*corev1.Service](t, all, "Service orrery").Spec)

	pod, was := d.Spec.Template.Spec, alone.Spec.Template.Spec
	for _, spread := range pod.TopologySpreadConstraints {
		assert.Subset(t, d.Spec.Template.Labels, spread.LabelSelector.MatchLabels)
	}
	env := map[string]corev1.EnvVar{}
	for _, v := range pod.Containers[0].Env {
		env[v.Name] = v
	}
	assert.Equal(t, "status.podIP", env["POD_IP"].ValueFrom.FieldRef.FieldPath)
	assert.Equal(t, "http://$(POD_IP):7460", env["ORRERY_CLUSTER_ADDRESS"].Value, "they reach one another where each listens")
	assert.EqualValues(t, 7460, pod.Containers[0].Ports[0].ContainerPort)
	key := env["ORRERY_DATABASE"].ValueFrom.SecretKeyRef
	assert.Contains(t, readFile(t, manifests+"/README.md"), "create secret generic "+key.Name+" --from-literal=admin-token=\"$(openssl rand -hex 32)\" \\\n  --from-literal="+key.Key+"=")
	require.NotNil(t, pod.Volumes[0].EmptyDir, "what stands beside the database is each pod's")
	pod.Volumes[0], pod.TopologySpreadConstraints, pod.Containers[0].Env = was.Volumes[0], nil, nil
	assert.Equal(t, was, pod)

	config := func(all map[string]metav1.Object) string {
		text := get[*corev1.ConfigMap](t, all, "ConfigMap orrery").Data["orrery.toml"]
		return regexp.MustCompile(`(?m) *#.*$`).ReplaceAllString(text, "")
	}
	assert.Equal(t, config(one), config(all))
	var kustomization struct{ Resources []string }
	require.NoError(t, yaml.Unmarshal([]byte(readFile(t, manifests+"/postgres/kustomization.yaml")), &kustomization))
	assert.Len(t, kustomization.Resources, len(all))
	for _, r := range kustomization.Resources {
		readFile(t, manifests+"/postgres/"+r)
	}
}

// What divides the database is laid over the three daemons, as kubectl does it.
func TestTheManifestsOfADividedDatabaseAreTheThreeDaemonsAndWhatDividesIt(t *testing.T) {
	was := get[*appsv1.Deployment](t, manifestsIn(t, manifests+"/postgres"), "Deployment orrery")
	before, err := json.Marshal(was)
	require.NoError(t, err)
	patch, err := yaml.YAMLToJSONStrict([]byte(readFile(t, manifests+"/partitions/divide.yaml")))
	require.NoError(t, err)
	after, err := strategicpatch.StrategicMergePatch(before, patch, appsv1.Deployment{})
	require.NoError(t, err)
	d := &appsv1.Deployment{}
	require.NoError(t, yaml.UnmarshalStrict(after, d))

	require.Len(t, d.Spec.Template.Spec.InitContainers, 1)
	divide, c := d.Spec.Template.Spec.InitContainers[0], d.Spec.Template.Spec.Containers[0]
	assert.Equal(t, []string{"cluster", "init", "--partitions", "16"}, divide.Args)
	assert.Equal(t, []string{c.Image, string(c.ImagePullPolicy)}, []string{divide.Image, string(divide.ImagePullPolicy)})
	assert.Equal(t, c.SecurityContext, divide.SecurityContext)
	require.Len(t, divide.Env, 1)
	assert.Contains(t, c.Env, divide.Env[0], "it is the database of the daemons")
	d.Spec.Template.Spec.InitContainers = nil
	assert.Equal(t, was, d)

	out, code := orreryd(t, t.TempDir(), nil, divide.Args...)
	assert.NotZero(t, code)
	assert.Contains(t, out, "--database: missing", "the program takes the arguments, and lacks the database alone")

	var kustomization struct {
		Resources []string                `json:"resources"`
		Patches   []struct{ Path string } `json:"patches"`
		Images    []struct{ Name string } `json:"images"`
	}
	require.NoError(t, yaml.UnmarshalStrict(kustomizationText(t, "partitions"), &kustomization))
	assert.Equal(t, []string{"../postgres"}, kustomization.Resources)
	assert.Equal(t, []struct{ Path string }{{"divide.yaml"}}, kustomization.Patches)
	name, _, _ := strings.Cut(divide.Image, ":")
	assert.Equal(t, []struct{ Name string }{{name}}, kustomization.Images)
}

// kustomizationText gives a kustomization without what only kubectl reads.
func kustomizationText(t *testing.T, folder string) []byte {
	t.Helper()
	return regexp.MustCompile(`(?m)^(apiVersion|kind|    new).*\n`).ReplaceAll([]byte(readFile(t, manifests+"/"+folder+"/kustomization.yaml")), nil)
}

func TestTheDaemonMayDoWhatItsRunnerNeedsAndNothingElse(t *testing.T) {
	rights := func(rules []rbacv1.PolicyRule) map[string][]string {
		out := map[string][]string{}
		for _, r := range rules {
			require.Empty(t, r.ResourceNames)
			for _, g := range r.APIGroups {
				for _, res := range r.Resources {
					out[g+"/"+res] = slices.Sorted(slices.Values(append(out[g+"/"+res], r.Verbs...)))
				}
			}
		}
		return out
	}
	assert.Equal(t, map[string][]string{
		"batch/jobs": {"create", "delete", "get", "list", "watch"},
		"/pods":      {"delete", "get", "list", "watch"},
		"/pods/log":  {"get"},
		"/events":    {"list", "watch"},
	}, rights(get[*rbacv1.Role](t, readManifests(t), "Role orrery").Rules))
}

// TestTheStaticProgramRunsInAnEmptyFolder builds the program as the Containerfile
// does, and runs it where there is nothing but itself.
func TestTheStaticProgramRunsInAnEmptyFolder(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("images are for Linux")
	}
	if os.Getenv("ORRERY_SLOW") != "1" {
		t.Skip("set ORRERY_SLOW=1: it compiles all that the daemon is linked with once more, without cgo")
	}
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o755))
	bin := filepath.Join(dir, "orreryd")
	require.NoError(t, build(bin, "CGO_ENABLED=0"))
	require.NoError(t, os.Chmod(bin, 0o755))

	f, err := elf.Open(bin)
	require.NoError(t, err)
	defer func() { _ = f.Close() }()
	for _, p := range f.Progs {
		assert.NotEqual(t, elf.PT_INTERP, p.Type, "it needs a loader: it is not static")
	}

	cmd := exec.CommandContext(t.Context(), "/orreryd", "recurring", "preview", "--cron", "30 2 * * *", "--tz", "Europe/Berlin")
	if err := intoFolder(cmd, dir); err != nil {
		t.Skipf("nobody but root may do that here: %v", err)
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.Env = []string{}
	require.NoError(t, cmd.Run(), out.String())
	assert.Contains(t, out.String(), "Europe/Berlin")
}

// TestTheProgramBringsTheTimeZonesOfExpressions holds what an image from scratch
// lacks: the schedules have their own zones, CEL asks the standard library.
func TestTheProgramBringsTheTimeZonesOfExpressions(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "./examples/orreryd")
	cmd.Dir = root
	out, err := cmd.Output()
	require.NoError(t, err)
	assert.Contains(t, strings.Fields(string(out)), "time/tzdata")
}

func TestWhatRunsOnThisMachineOutlivesTheDaemonUnderSystemd(t *testing.T) {
	unit := "\n" + readFile(t, "examples/orreryd/orreryd.service")
	assert.Contains(t, unit, "\nKillMode=process\n")
	assert.Contains(t, unit, "\nOOMPolicy=continue\n")
	for _, lost := range []string{"DynamicUser", "PrivateTmp"} {
		assert.NotContains(t, unit, "\n"+lost+"=")
	}
}

// What is created, and then applied, gives a warning of kubectl's.
func TestTheGuideOfTheManifestsCreatesNothingThatItAppliesLater(t *testing.T) {
	guide := readFile(t, manifests+"/README.md")
	for key := range readManifests(t) {
		kind, name, _ := strings.Cut(key, " ")
		assert.NotContains(t, guide, "create "+strings.ToLower(kind)+" "+name)
	}
	assert.Contains(t, guide, "kubectl apply -f examples/kubernetes/namespace.yaml\n", "the Secret needs it")
}
