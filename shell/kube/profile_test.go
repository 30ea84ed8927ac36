package kube

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/jobs"
)

// runnerOf is a runner with a profile that lists one name of each kind.
func runnerOf(t *testing.T, profile string) *Runner {
	t.Helper()
	r, err := New(Options{
		Client: clientset{fake.NewClientset()}, Namespace: "jobs", Profile: profile,
		ServiceAccounts: []string{"builder"}, Secrets: []string{"registry"}, ConfigMaps: []string{"settings"}, PersistentVolumeClaims: []string{"cache"},
		PriorityClasses: []string{"batch"}, RuntimeClasses: []string{"gvisor"}, NodeLabels: []string{"pool=jobs", "kubernetes.io/arch"}, Tolerations: []string{"dedicated=jobs", "spot"},
		Labels: []string{"team", "kueue.x-k8s.io/queue-name=batch"},
	})
	require.NoError(t, err)
	return r
}

// Pods by what they ask for; each has what a profile refuses, or nothing.
var profileTable = []struct {
	name, pod  string
	baseline   string // what the profile says; empty: it allows the pod
	restricted string
}{
	{name: "nothing", pod: `{"containers":[{"name":"a","image":"i"}]}`},
	{name: "what is listed", pod: `{"serviceAccountName":"builder","imagePullSecrets":[{"name":"registry"}],
		"volumes":[{"name":"s","secret":{"secretName":"registry"}},{"name":"c","configMap":{"name":"settings"}},{"name":"p","persistentVolumeClaim":{"claimName":"cache"}},
		{"name":"j","projected":{"sources":[{"secret":{"name":"registry"}},{"configMap":{"name":"settings"}},{"serviceAccountToken":{"path":"t"}},{"downwardAPI":{}}]}},{"name":"e","emptyDir":{}}],
		"containers":[{"name":"a","image":"i","env":[{"name":"X","valueFrom":{"secretKeyRef":{"name":"registry","key":"k"}}}],"envFrom":[{"configMapRef":{"name":"settings"}},{"secretRef":{"name":"registry"}}]}]}`},
	{name: "a privileged container", pod: `{"containers":[{"name":"a","image":"i","securityContext":{"privileged":true}}]}`,
		baseline: `privileged: container "a" must not set securityContext.privileged=true`, restricted: `privileged: container "a" must not set securityContext.privileged=true`},
	{name: "a privileged init container", pod: `{"initContainers":[{"name":"b","image":"i","securityContext":{"privileged":true}}],"containers":[{"name":"a","image":"i"}]}`,
		baseline: `container "b" must not set securityContext.privileged=true`, restricted: `container "b" must not set securityContext.privileged=true`},
	{name: "a folder of the host", pod: `{"volumes":[{"name":"v","hostPath":{"path":"/"}}],"containers":[{"name":"a","image":"i"}]}`,
		baseline: `hostPath volumes: volume "v"`, restricted: `volume "v" uses restricted volume type "hostPath"`},
	{name: "the host's network", pod: `{"hostNetwork":true,"containers":[{"name":"a","image":"i"}]}`, baseline: `host namespaces: hostNetwork=true`, restricted: `host namespaces: hostNetwork=true`},
	{name: "the host's processes", pod: `{"hostPID":true,"containers":[{"name":"a","image":"i"}]}`, baseline: `hostPID=true`, restricted: `hostPID=true`},
	{name: "the host's shared memory", pod: `{"hostIPC":true,"containers":[{"name":"a","image":"i"}]}`, baseline: `hostIPC=true`, restricted: `hostIPC=true`},
	{name: "a port of the host", pod: `{"containers":[{"name":"a","image":"i","ports":[{"containerPort":80,"hostPort":80}]}]}`, baseline: `hostPort: container "a" uses hostPort 80`, restricted: `hostPort`},
	{name: "a capability", pod: `{"containers":[{"name":"a","image":"i","securityContext":{"capabilities":{"add":["SYS_ADMIN"]}}}]}`,
		baseline: `non-default capabilities: container "a" must not include "SYS_ADMIN" in securityContext.capabilities.add`, restricted: `unrestricted capabilities`},
	{name: "few capabilities dropped", pod: `{"containers":[{"name":"a","image":"i","securityContext":{"capabilities":{"drop":["CHOWN"]}}}]}`, restricted: `container "a" must set securityContext.capabilities.drop=["ALL"]`},
	{name: "the user root", pod: `{"containers":[{"name":"a","image":"i","securityContext":{"runAsUser":0}}]}`, restricted: `runAsUser=0: container "a" must not set runAsUser=0`},
	{name: "root allowed", pod: `{"securityContext":{"runAsNonRoot":false},"containers":[{"name":"a","image":"i"}]}`, restricted: `pod must not set securityContext.runAsNonRoot=false`},
	{name: "root in a user namespace, which the cluster may not know", pod: `{"hostUsers":false,"securityContext":{"runAsNonRoot":false},"containers":[{"name":"a","image":"i"}]}`, restricted: `pod must not set securityContext.runAsNonRoot=false`},
	{name: "more privileges", pod: `{"containers":[{"name":"a","image":"i","securityContext":{"allowPrivilegeEscalation":true}}]}`, restricted: `container "a" must set securityContext.allowPrivilegeEscalation=false`},
	{name: "no seccomp", pod: `{"securityContext":{"seccompProfile":{"type":"Unconfined"}},"containers":[{"name":"a","image":"i"}]}`, baseline: `seccompProfile`, restricted: `seccompProfile`},
	{name: "a setting of the kernel that older clusters refuse", pod: `{"securityContext":{"sysctls":[{"name":"net.ipv4.tcp_rmem","value":"1"}]},"containers":[{"name":"a","image":"i"}]}`,
		baseline: `forbidden sysctls: net.ipv4.tcp_rmem`, restricted: `forbidden sysctls: net.ipv4.tcp_rmem`},
	{name: "a network file system", pod: `{"volumes":[{"name":"v","nfs":{"server":"s","path":"/"}}],"containers":[{"name":"a","image":"i"}]}`, restricted: `restricted volume type "nfs"`},
	{name: "another's account", pod: `{"serviceAccountName":"admin","containers":[{"name":"a","image":"i"}]}`,
		restricted: `pod_spec.serviceAccountName: the service account "admin" is not one of the service_accounts of the runner: builder`},
	{name: "another's account by the old name", pod: `{"serviceAccount":"admin","containers":[{"name":"a","image":"i"}]}`, restricted: `the service account "admin" is not one of the service_accounts`},
	{name: "two accounts", pod: `{"serviceAccountName":"builder","serviceAccount":"admin","containers":[{"name":"a","image":"i"}]}`, restricted: `pod_spec.serviceAccount: "admin" is not serviceAccountName, "builder"`},
	{name: "the token of the default account", pod: `{"automountServiceAccountToken":true,"containers":[{"name":"a","image":"i"}]}`, restricted: `pod_spec.automountServiceAccountToken: must be false or absent`},
	{name: "a projected token", pod: `{"volumes":[{"name":"v","projected":{"sources":[{"serviceAccountToken":{"path":"t"}}]}}],"containers":[{"name":"a","image":"i"}]}`,
		restricted: `pod_spec.volumes[0].projected.sources[0].serviceAccountToken: the service account "default" is not one of`},
	{name: "another's Secret as a volume", pod: `{"volumes":[{"name":"v","secret":{"secretName":"db"}}],"containers":[{"name":"a","image":"i"}]}`,
		restricted: `pod_spec.volumes[0].secret: the Secret "db" is not one of the secrets of the runner: registry`},
	{name: "another's Secret as a projection", pod: `{"volumes":[{"name":"v","projected":{"sources":[{"secret":{"name":"db"}}]}}],"containers":[{"name":"a","image":"i"}]}`, restricted: `sources[0].secret: the Secret "db"`},
	{name: "another's Secret in a variable", pod: `{"containers":[{"name":"a","image":"i","env":[{"name":"X","valueFrom":{"secretKeyRef":{"name":"db","key":"k"}}}]}]}`, restricted: `pod_spec.containers[0].env[0].valueFrom.secretKeyRef: the Secret "db"`},
	{name: "another's Secret in all variables", pod: `{"initContainers":[{"name":"b","image":"i","envFrom":[{"secretRef":{"name":"db"}}]}],"containers":[{"name":"a","image":"i"}]}`, restricted: `pod_spec.initContainers[0].envFrom[0].secretRef: the Secret "db"`},
	{name: "another's Secret of a registry", pod: `{"imagePullSecrets":[{"name":"db"}],"containers":[{"name":"a","image":"i"}]}`, restricted: `pod_spec.imagePullSecrets[0]: the Secret "db"`},
	{name: "another's ConfigMap", pod: `{"volumes":[{"name":"v","configMap":{"name":"db"}}],"containers":[{"name":"a","image":"i","env":[{"name":"X","valueFrom":{"configMapKeyRef":{"name":"dc","key":"k"}}}],"envFrom":[{"configMapRef":{"name":"dd"}}]}]}`,
		restricted: "pod_spec.volumes[0].configMap: the ConfigMap \"db\" is not one of the config_maps of the runner: settings\n" +
			"pod_spec.containers[0].env[0].valueFrom.configMapKeyRef: the ConfigMap \"dc\" is not one of the config_maps of the runner: settings\n" +
			"pod_spec.containers[0].envFrom[0].configMapRef: the ConfigMap \"dd\" is not one of the config_maps of the runner: settings"},
	{name: "another's claim", pod: `{"volumes":[{"name":"v","persistentVolumeClaim":{"claimName":"db"}}],"containers":[{"name":"a","image":"i"}]}`, restricted: `the PersistentVolumeClaim "db" is not one of the persistent_volume_claims`},
	{name: "a copy of another's claim", pod: `{"volumes":[{"name":"v","ephemeral":{"volumeClaimTemplate":{"spec":{"dataSource":{"kind":"PersistentVolumeClaim","name":"db"}}}}}],"containers":[{"name":"a","image":"i"}]}`, restricted: `pod_spec.volumes[0].ephemeral: must have no dataSource`},
	{name: "a driver's volume", pod: `{"volumes":[{"name":"v","csi":{"driver":"secrets-store.csi.k8s.io"}}],"containers":[{"name":"a","image":"i"}]}`, restricted: `pod_spec.volumes[0].csi: must be absent`},
	{name: "a node", pod: `{"nodeName":"control-plane","containers":[{"name":"a","image":"i"}]}`, restricted: `pod_spec.nodeName: must be absent`},
	{name: "a priority", pod: `{"priorityClassName":"system-node-critical","containers":[{"name":"a","image":"i"}]}`, restricted: `pod_spec.priorityClassName: the priority class "system-node-critical" is not one of the priority_classes of the runner: batch`},
	{name: "a priority by its number", pod: `{"priority":7,"containers":[{"name":"a","image":"i"}]}`, restricted: `pod_spec.priority: must be absent`},
	{name: "what is listed of a pod's place", pod: `{"priorityClassName":"batch","preemptionPolicy":"Never","runtimeClassName":"gvisor","schedulerName":"default-scheduler",
		"nodeSelector":{"pool":"jobs","kubernetes.io/arch":"arm64"},
		"tolerations":[{"key":"dedicated","value":"jobs","effect":"NoSchedule"},{"key":"spot","operator":"Exists"}],
		"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"pool","operator":"In","values":["jobs"]}]}]},
		"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":1,"preference":{"matchExpressions":[{"key":"kubernetes.io/arch","operator":"Exists"}]}}]}},
		"containers":[{"name":"a","image":"i"}]}`},
	{name: "another runtime", pod: `{"runtimeClassName":"runc","containers":[{"name":"a","image":"i"}]}`, restricted: `pod_spec.runtimeClassName: the runtime class "runc" is not one of the runtime_classes of the runner: gvisor`},
	{name: "another scheduler", pod: `{"schedulerName":"mine","containers":[{"name":"a","image":"i"}]}`, restricted: `pod_spec.schedulerName: must be absent`},
	{name: "nodes of others", pod: `{"nodeSelector":{"pool":"gpu","kubernetes.io/hostname":"n1"},"containers":[{"name":"a","image":"i"}]}`,
		restricted: "pod_spec.nodeSelector: the node label \"kubernetes.io/hostname=n1\" is not one of the node_labels of the runner: pool=jobs, kubernetes.io/arch\npod_spec.nodeSelector: the node label \"pool=gpu\""},
	{name: "nodes that are no others", pod: `{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"pool","operator":"NotIn","values":["jobs"]}]}]}}},"containers":[{"name":"a","image":"i"}]}`,
		restricted: `pod_spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0]: the node label "pool" is not one of`},
	{name: "a node by its field", pod: `{"affinity":{"nodeAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":1,"preference":{"matchFields":[{"key":"metadata.name","operator":"In","values":["n1"]}]}}]}},"containers":[{"name":"a","image":"i"}]}`,
		restricted: `preferredDuringSchedulingIgnoredDuringExecution[0].preference.matchFields: must be absent`},
	{name: "the company of others", pod: `{"affinity":{"podAffinity":{},"podAntiAffinity":{}},"containers":[{"name":"a","image":"i"}]}`,
		restricted: "pod_spec.affinity.podAffinity: must be absent: it is about pods of others\npod_spec.affinity.podAntiAffinity: must be absent"},
	{name: "a taint of others", pod: `{"tolerations":[{"key":"dedicated","value":"web"}],"containers":[{"name":"a","image":"i"}]}`, restricted: `pod_spec.tolerations[0]: the taint "dedicated=web" is not one of the tolerations of the runner: dedicated=jobs, spot`},
	{name: "a taint of whatever value", pod: `{"tolerations":[{"key":"dedicated","operator":"Exists"}],"containers":[{"name":"a","image":"i"}]}`, restricted: `pod_spec.tolerations[0]: the taint "dedicated" is not one of`},
	{name: "every taint", pod: `{"tolerations":[{"operator":"Exists"}],"containers":[{"name":"a","image":"i"}]}`, restricted: `pod_spec.tolerations[0]: a toleration without a key tolerates every taint`},
	{name: "a device", pod: `{"resourceClaims":[{"name":"d","resourceClaimName":"gpu"}],"containers":[{"name":"a","image":"i"}]}`, restricted: `pod_spec.resourceClaims: must be absent`},
}

func TestAPodHasNoMoreThanTheProfileOfItsRunnerAllows(t *testing.T) {
	for _, row := range profileTable {
		spec := core.JobSpec{ID: "j", PodSpec: json.RawMessage(row.pod)}
		for profile, wrong := range map[string]string{"": "", ProfilePrivileged: "", ProfileBaseline: row.baseline, ProfileRestricted: row.restricted} {
			r := runnerOf(t, profile)
			_, created := r.jobOf(jobs.Run{Spec: spec})
			if err := r.Check(spec); wrong == "" {
				require.NoError(t, err, "%s, %s", row.name, profile)
				require.NoError(t, created, "%s, %s", row.name, profile)
			} else {
				require.ErrorContains(t, err, wrong, "%s, %s", row.name, profile)
				require.ErrorContains(t, err, `the profile of the runner is "`+profile+`": change the pod, or set profile = "baseline" or "privileged" for the runner`)
				require.ErrorContains(t, created, wrong, "%s, %s: the job may be older than the profile", row.name, profile)
			}
		}
	}
}

func TestARestrictedPodThatSaysNothingHasTheLeastThatItCanHave(t *testing.T) {
	spec := core.JobSpec{ID: "j", PodSpec: json.RawMessage(`{"initContainers":[{"name":"b","image":"i"}],"containers":[{"name":"a","image":"i","securityContext":{"runAsUser":7}}]}`)}
	job, err := runnerOf(t, ProfileRestricted).jobOf(jobs.Run{Spec: spec})
	require.NoError(t, err)
	pod := job.Spec.Template.Spec
	assert.Equal(t, new(true), pod.SecurityContext.RunAsNonRoot)
	assert.Equal(t, corev1.SeccompProfileTypeRuntimeDefault, pod.SecurityContext.SeccompProfile.Type)
	assert.Equal(t, new(false), pod.AutomountServiceAccountToken)
	for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
		assert.Equal(t, new(false), c.SecurityContext.AllowPrivilegeEscalation)
		assert.Equal(t, []corev1.Capability{"ALL"}, c.SecurityContext.Capabilities.Drop)
	}
	assert.Equal(t, new(int64(7)), pod.Containers[0].SecurityContext.RunAsUser, "what it says stays")

	for _, profile := range []string{"", ProfileBaseline} {
		job, err := runnerOf(t, profile).jobOf(jobs.Run{Spec: spec})
		require.NoError(t, err)
		assert.Nil(t, job.Spec.Template.Spec.SecurityContext, "the profile %q changes nothing", profile)
	}
	spec.PodSpec = json.RawMessage(`{"serviceAccountName":"builder","containers":[{"name":"a","image":"i"}]}`)
	job, err = runnerOf(t, ProfileRestricted).jobOf(jobs.Run{Spec: spec})
	require.NoError(t, err)
	assert.Nil(t, job.Spec.Template.Spec.AutomountServiceAccountToken, "an account that is listed gives its token")
}

func TestAnUnknownProfileIsRefused(t *testing.T) {
	_, err := New(Options{Client: clientset{fake.NewClientset()}, Profile: "strict"})
	require.EqualError(t, err, `kube: Profile: "strict" is unknown: use "privileged", "baseline" or "restricted"`)
}

func TestTheGracePeriodOfAPodIsBounded(t *testing.T) {
	spec := func(seconds string) core.JobSpec {
		return core.JobSpec{ID: "j", PodSpec: json.RawMessage(`{"terminationGracePeriodSeconds":` + seconds + `,"containers":[{"name":"a","image":"i"}]}`)}
	}
	for _, c := range []struct {
		profile     string
		most        time.Duration
		takes, says string
	}{
		{ProfileRestricted, 0, "3600", "pod_spec.terminationGracePeriodSeconds: 999999 is more than the max_grace_seconds of the runner, 3600"},
		{ProfileRestricted, 24 * time.Hour, "86400", "pod_spec.terminationGracePeriodSeconds: 999999 is more than the max_grace_seconds of the runner, 86400"},
		{ProfilePrivileged, time.Minute, "60", "pod_spec.terminationGracePeriodSeconds: 999999 is more than the max_grace_seconds of the runner, 60"},
		{ProfilePrivileged, 0, "999999", ""},
		{ProfileBaseline, 0, "999999", ""},
	} {
		r, err := New(Options{Client: clientset{fake.NewClientset()}, Profile: c.profile, MaxGrace: c.most})
		require.NoError(t, err)
		require.NoError(t, r.Check(spec(c.takes)))
		_, created := r.jobOf(jobs.Run{Spec: spec("999999")})
		if err := r.Check(spec("999999")); c.says == "" {
			require.NoError(t, err)
			require.NoError(t, created)
		} else {
			require.EqualError(t, err, c.says)
			require.ErrorContains(t, created, c.says, "the job may be older")
		}
	}
	for _, most := range []time.Duration{-time.Second, 1500 * time.Millisecond} {
		_, err := New(Options{Client: clientset{fake.NewClientset()}, MaxGrace: most})
		require.EqualError(t, err, "kube: MaxGrace: "+most.String()+" is not a number of whole seconds, or 0")
	}
}

func TestAJobHasOnlyTheLabelsThatItsRunnerLists(t *testing.T) {
	pod := json.RawMessage(`{"containers":[{"name":"a","image":"i"}]}`)
	labels := map[string]string{
		"app": "victim", "team": "any", "kueue.x-k8s.io/queue-name": "theirs", "sidecar.istio.io/inject": "true", "orrery.dev/tenant": "x",
	}
	for _, profile := range []string{"", ProfilePrivileged, ProfileBaseline} {
		err := runnerOf(t, profile).Check(core.JobSpec{PodSpec: pod, Labels: labels})
		require.EqualError(t, err, "labels.orrery.dev/tenant: this label is Orrery's or Kubernetes' own; use another name", profile)
	}
	restricted := runnerOf(t, ProfileRestricted)
	err := restricted.Check(core.JobSpec{PodSpec: pod, Labels: labels})
	const listed = "is not one of the labels of the runner: team, kueue.x-k8s.io/queue-name=batch\n"
	require.EqualError(t, err, "labels.orrery.dev/tenant: this label is Orrery's or Kubernetes' own; use another name\n"+
		"labels.app: the label \"app=victim\" "+listed+
		"labels.kueue.x-k8s.io/queue-name: the label \"kueue.x-k8s.io/queue-name=theirs\" "+listed+
		"labels.sidecar.istio.io/inject: the label \"sidecar.istio.io/inject=true\" "+listed+
		"labels: the profile of the runner is \"restricted\": leave the label out, or add it to labels of the runner")
	require.NoError(t, restricted.Check(core.JobSpec{PodSpec: pod, Labels: map[string]string{"team": "any", "kueue.x-k8s.io/queue-name": "batch"}}))

	before := run(attempt) // of a job that is older than the profile
	before.Spec.Labels = map[string]string{"app": "victim"}
	_, err = restricted.Create(t.Context(), before)
	assert.True(t, shell.IsPermanent(err))
	require.ErrorContains(t, err, "labels.app")

	none, err := New(Options{Client: clientset{fake.NewClientset()}, Profile: ProfileRestricted})
	require.NoError(t, err)
	require.ErrorContains(t, none.Check(core.JobSpec{PodSpec: pod, Labels: map[string]string{"team": "any"}}), "is not one of the labels of the runner: there is none")
	all, err := New(Options{Client: clientset{fake.NewClientset()}, Profile: ProfileRestricted, Labels: []string{"*"}})
	require.NoError(t, err)
	require.NoError(t, all.Check(core.JobSpec{PodSpec: pod, Labels: map[string]string{"app": "victim"}}))
}
