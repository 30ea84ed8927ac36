package kube

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

// Profiles of a [Runner]: what its pods may have. They are the Pod Security Standards of
// Kubernetes; restricted is narrower, see [Options].Profile.
const (
	ProfilePrivileged = "privileged" // whatever the cluster takes
	ProfileBaseline   = "baseline"
	ProfileRestricted = "restricted"
)

// Profiles are all profiles, from the widest to the narrowest.
var Profiles = []string{ProfilePrivileged, ProfileBaseline, ProfileRestricted}

// profile decides what pods of a runner may have.
type profile struct {
	name            string
	level           api.Level
	evaluator       policy.Evaluator
	maxGraceSeconds int64 // 0: no bound
	// What pods may name, if the profile is restricted.
	accounts, secrets, configMaps, claims                    []string
	priorityClasses, runtimeClasses, nodeLabels, tolerations []string
	labels                                                   []string
}

// standards are the versions of the Pod Security Standards that all must allow a pod: a cluster
// may be older than this program, and enforce its own. Some settings of the kernel are allowed
// only by versions after the first; those after the second let a pod with a user namespace of
// its own be root, which a cluster without user namespaces would take for root.
var standards = []api.Version{api.MajorMinorVersion(1, 25), api.MajorMinorVersion(1, 34)}

func newProfile(o Options) (*profile, error) {
	p := &profile{
		name: cmp.Or(o.Profile, ProfilePrivileged), accounts: o.ServiceAccounts, secrets: o.Secrets,
		configMaps: o.ConfigMaps, claims: o.PersistentVolumeClaims,
		priorityClasses: o.PriorityClasses, runtimeClasses: o.RuntimeClasses, nodeLabels: o.NodeLabels, tolerations: o.Tolerations,
		labels: o.Labels,
	}
	if !slices.Contains(Profiles, p.name) {
		return nil, fmt.Errorf("kube: Profile: %q is unknown: use %q, %q or %q", p.name, ProfilePrivileged, ProfileBaseline, ProfileRestricted)
	}
	switch {
	case o.MaxGrace < 0 || o.MaxGrace%time.Second != 0:
		return nil, fmt.Errorf("kube: MaxGrace: %s is not a number of whole seconds, or 0", o.MaxGrace)
	case o.MaxGrace == 0 && p.name == ProfileRestricted:
		o.MaxGrace = DefaultMaxGrace
	}
	p.maxGraceSeconds = int64(o.MaxGrace / time.Second)
	p.level = api.Level(p.name)
	var err error
	if p.evaluator, err = policy.NewEvaluator(policy.DefaultChecks(), nil); err != nil {
		return nil, fmt.Errorf("kube: Profile: %w", err)
	}
	return p, nil
}

// apply fills in what the profile demands and the pod spec leaves open, and then reports
// what of the pod the profile does not allow: a line for each.
func (p *profile) apply(pod *corev1.PodSpec) error {
	if g := pod.TerminationGracePeriodSeconds; g != nil && p.maxGraceSeconds > 0 && *g > p.maxGraceSeconds {
		return fmt.Errorf("pod_spec.terminationGracePeriodSeconds: %d is more than the max_grace_seconds of the runner, %d", *g, p.maxGraceSeconds)
	}
	if p.name == ProfilePrivileged {
		return nil
	}
	var f refusals
	if p.name == ProfileRestricted {
		p.harden(pod)
		p.checkPod(&f, pod)
	}
	for _, v := range standards {
		for _, r := range p.evaluator.EvaluatePod(api.LevelVersion{Level: p.level, Version: v}, &metav1.ObjectMeta{}, pod) {
			line := fmt.Sprintf("pod_spec: %s: %s", r.ForbiddenReason, r.ForbiddenDetail)
			if !r.Allowed && !slices.Contains(f, line) {
				f = append(f, line)
			}
		}
	}
	if len(f) == 0 {
		return nil
	}
	return fmt.Errorf("%s\npod_spec: the profile of the runner is %q: change the pod, or set profile = \"baseline\" or \"privileged\" for the runner", strings.Join(f, "\n"), p.name)
}

// refusals are lines that begin with a field.
type refusals []string

func (f *refusals) add(field, format string, args ...any) {
	*f = append(*f, fmt.Sprintf("pod_spec.%s: %s", field, fmt.Sprintf(format, args...)))
}

// named refuses a name that is not in a list of the runner's.
func (f *refusals) named(field, what, name, key string, list []string) {
	if !slices.Contains(list, name) {
		f.add(field, "the %s %q is not one of the %s of the runner: %s", what, name, key, cmp.Or(strings.Join(list, ", "), "there is none"))
	}
}

// checkLabels refuses labels of a job that the profile does not allow. Those that Orrery or
// Kubernetes set are refused for that.
func (p *profile) checkLabels(labels map[string]string) error {
	if p.name != ProfileRestricted || slices.Contains(p.labels, anyOf) {
		return nil
	}
	var errs []error
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		pair := k + "=" + labels[k]
		if !isOwnLabel(k) && !slices.Contains(p.labels, k) && !slices.Contains(p.labels, pair) {
			errs = append(errs, fmt.Errorf("labels.%s: the label %q is not one of the labels of the runner: %s", k, pair, cmp.Or(strings.Join(p.labels, ", "), "there is none")))
		}
	}
	if len(errs) > 0 {
		errs = append(errs, fmt.Errorf("labels: the profile of the runner is %q: leave the label out, or add it to labels of the runner", p.name))
	}
	return errors.Join(errs...)
}

// harden sets what the standard restricted demands where the pod leaves it open: pods that
// say nothing are taken, and have the least that they can have.
func (p *profile) harden(pod *corev1.PodSpec) {
	if pod.SecurityContext == nil {
		pod.SecurityContext = &corev1.PodSecurityContext{}
	}
	s := pod.SecurityContext
	if s.RunAsNonRoot == nil {
		s.RunAsNonRoot = new(true)
	}
	if s.SeccompProfile == nil {
		s.SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}
	}
	if !slices.Contains(p.accounts, account(pod)) {
		pod.AutomountServiceAccountToken = cmp.Or(pod.AutomountServiceAccountToken, new(false))
	}
	for i := range pod.InitContainers {
		hardenContainer(&pod.InitContainers[i])
	}
	for i := range pod.Containers {
		hardenContainer(&pod.Containers[i])
	}
}

func hardenContainer(c *corev1.Container) {
	if c.SecurityContext == nil {
		c.SecurityContext = &corev1.SecurityContext{}
	}
	s := c.SecurityContext
	if s.AllowPrivilegeEscalation == nil {
		s.AllowPrivilegeEscalation = new(false)
	}
	if s.Capabilities == nil {
		s.Capabilities = &corev1.Capabilities{}
	}
	if len(s.Capabilities.Drop) == 0 {
		s.Capabilities.Drop = []corev1.Capability{"ALL"}
	}
}

// account is the name of the service account that a pod would have.
func account(pod *corev1.PodSpec) string {
	return cmp.Or(pod.ServiceAccountName, pod.DeprecatedServiceAccount, "default")
}

// checkPod finds what the Pod Security Standards allow and the profile restricted does
// not: what belongs to others in the namespace of the pods, or decides over their place.
func (p *profile) checkPod(f *refusals, pod *corev1.PodSpec) {
	mounts := pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken
	switch name := account(pod); {
	case pod.DeprecatedServiceAccount != "" && pod.DeprecatedServiceAccount != name:
		f.add("serviceAccount", "%q is not serviceAccountName, %q", pod.DeprecatedServiceAccount, name)
	case slices.Contains(p.accounts, name):
	case name != "default":
		f.named("serviceAccountName", "service account", name, "service_accounts", p.accounts)
	case mounts:
		f.add("automountServiceAccountToken", "must be false or absent: the service account \"default\" is not one of the service_accounts of the runner")
	}
	for i, s := range pod.ImagePullSecrets {
		f.named(fmt.Sprintf("imagePullSecrets[%d]", i), "Secret", s.Name, "secrets", p.secrets)
	}
	p.checkPlacement(f, pod)
	if len(pod.ResourceClaims) > 0 {
		f.add("resourceClaims", "must be absent: they are devices of the cluster")
	}
	for i, v := range pod.Volumes {
		p.checkVolume(f, fmt.Sprintf("volumes[%d].", i), account(pod), v)
	}
	for i, c := range pod.InitContainers {
		p.checkEnv(f, fmt.Sprintf("initContainers[%d].", i), c)
	}
	for i, c := range pod.Containers {
		p.checkEnv(f, fmt.Sprintf("containers[%d].", i), c)
	}
}

func (p *profile) checkVolume(f *refusals, at, account string, v corev1.Volume) {
	switch {
	case v.Secret != nil:
		f.named(at+"secret", "Secret", v.Secret.SecretName, "secrets", p.secrets)
	case v.ConfigMap != nil:
		f.named(at+"configMap", "ConfigMap", v.ConfigMap.Name, "config_maps", p.configMaps)
	case v.PersistentVolumeClaim != nil:
		f.named(at+"persistentVolumeClaim", "PersistentVolumeClaim", v.PersistentVolumeClaim.ClaimName, "persistent_volume_claims", p.claims)
	case v.CSI != nil:
		f.add(at+"csi", "must be absent: what a driver gives is no concern of the profile")
	case v.Ephemeral != nil:
		if t := v.Ephemeral.VolumeClaimTemplate; t != nil && (t.Spec.DataSource != nil || t.Spec.DataSourceRef != nil || t.Spec.VolumeName != "") {
			f.add(at+"ephemeral", "must have no dataSource, dataSourceRef and volumeName: they are data of others")
		}
	case v.Image != nil:
		f.add(at+"image", "must be absent: use the image of a container")
	case v.Projected != nil:
		for i, s := range v.Projected.Sources {
			p.checkProjection(f, fmt.Sprintf("%sprojected.sources[%d].", at, i), account, s)
		}
	}
}

func (p *profile) checkProjection(f *refusals, at, account string, s corev1.VolumeProjection) {
	switch {
	case s.Secret != nil:
		f.named(at+"secret", "Secret", s.Secret.Name, "secrets", p.secrets)
	case s.ConfigMap != nil:
		f.named(at+"configMap", "ConfigMap", s.ConfigMap.Name, "config_maps", p.configMaps)
	case s.ServiceAccountToken != nil:
		f.named(at+"serviceAccountToken", "service account", account, "service_accounts", p.accounts)
	case s.PodCertificate != nil:
		f.add(at+"podCertificate", "must be absent")
	}
}

func (p *profile) checkEnv(f *refusals, at string, c corev1.Container) {
	for i, e := range c.Env {
		if e.ValueFrom == nil {
			continue
		}
		if r := e.ValueFrom.SecretKeyRef; r != nil {
			f.named(fmt.Sprintf("%senv[%d].valueFrom.secretKeyRef", at, i), "Secret", r.Name, "secrets", p.secrets)
		}
		if r := e.ValueFrom.ConfigMapKeyRef; r != nil {
			f.named(fmt.Sprintf("%senv[%d].valueFrom.configMapKeyRef", at, i), "ConfigMap", r.Name, "config_maps", p.configMaps)
		}
	}
	for i, e := range c.EnvFrom {
		if e.SecretRef != nil {
			f.named(fmt.Sprintf("%senvFrom[%d].secretRef", at, i), "Secret", e.SecretRef.Name, "secrets", p.secrets)
		}
		if e.ConfigMapRef != nil {
			f.named(fmt.Sprintf("%senvFrom[%d].configMapRef", at, i), "ConfigMap", e.ConfigMapRef.Name, "config_maps", p.configMaps)
		}
	}
}
