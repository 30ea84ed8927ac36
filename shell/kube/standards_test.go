package kube

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"pgregory.net/rapid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/jobs"
)

// one draws one of these values, or mostly that nothing is said: a pod is to have few of them.
func one[T any](t *rapid.T, name string, values ...T) T {
	return rapid.SampledFrom(append(make([]T, 5*len(values)), values...)).Draw(t, name)
}

func drawSecurity(t *rapid.T) *corev1.SecurityContext {
	if rapid.Bool().Draw(t, "no container security") {
		return nil
	}
	s := &corev1.SecurityContext{
		Privileged: one(t, "privileged", new(true), new(false)), AllowPrivilegeEscalation: one(t, "escalation", new(true), new(false)),
		RunAsNonRoot: one(t, "non-root", new(true), new(false)), RunAsUser: one(t, "user", new(int64(0)), new(int64(7))),
		ProcMount: one(t, "proc", new(corev1.DefaultProcMount), new(corev1.UnmaskedProcMount)),
	}
	if add, drop := one[corev1.Capability](t, "add", "NET_BIND_SERVICE", "CHOWN", "SYS_ADMIN"), one[corev1.Capability](t, "drop", "ALL", "CHOWN"); add+drop != "" {
		s.Capabilities = &corev1.Capabilities{}
		if add != "" {
			s.Capabilities.Add = []corev1.Capability{add}
		}
		if drop != "" {
			s.Capabilities.Drop = []corev1.Capability{drop}
		}
	}
	if p := one(t, "seccomp", corev1.SeccompProfileTypeRuntimeDefault, corev1.SeccompProfileTypeUnconfined); p != "" {
		s.SeccompProfile = &corev1.SeccompProfile{Type: p}
	}
	if p := one(t, "apparmor", corev1.AppArmorProfileTypeRuntimeDefault, corev1.AppArmorProfileTypeUnconfined); p != "" {
		s.AppArmorProfile = &corev1.AppArmorProfile{Type: p}
	}
	if typ := one(t, "selinux", "container_t", "container_engine_t", "spc_t"); typ != "" {
		s.SELinuxOptions = &corev1.SELinuxOptions{Type: typ, User: one(t, "selinux user", "u")}
	}
	return s
}

func drawContainer(t *rapid.T, name string) corev1.Container {
	c := corev1.Container{Name: name, Image: "i", SecurityContext: drawSecurity(t)}
	if port := one[int32](t, "host port", 80); port != 0 {
		c.Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: port}}
	}
	if host := one(t, "probe's host", "10.0.0.1", "127.0.0.1"); host != "" && name == "main" {
		c.LivenessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Host: host, Port: intstr.FromInt32(80)}}}
	}
	return c
}

func drawVolume(t *rapid.T) corev1.VolumeSource {
	return rapid.SampledFrom([]corev1.VolumeSource{
		{EmptyDir: &corev1.EmptyDirVolumeSource{}}, {HostPath: &corev1.HostPathVolumeSource{Path: "/"}},
		{NFS: &corev1.NFSVolumeSource{Server: "s", Path: "/"}}, {Secret: &corev1.SecretVolumeSource{SecretName: "registry"}},
		{ISCSI: &corev1.ISCSIVolumeSource{TargetPortal: "1.2.3.4", IQN: "iqn.2001-04.com.example:a"}}, {ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}}},
		{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "cache"}}, {DownwardAPI: &corev1.DownwardAPIVolumeSource{}},
	}).Draw(t, "volume")
}

// drawPod draws a pod of what the Pod Security Standards look at.
func drawPod(t *rapid.T) corev1.PodSpec {
	pod := corev1.PodSpec{
		Containers:  []corev1.Container{drawContainer(t, "main")},
		HostNetwork: one(t, "host's network", true), HostPID: one(t, "host's processes", true),
		HostIPC: one(t, "host's memory", true), HostUsers: one(t, "host's users", new(true), new(false)),
	}
	if rapid.Bool().Draw(t, "init") {
		pod.InitContainers = []corev1.Container{drawContainer(t, "init")}
	}
	if rapid.Bool().Draw(t, "volumes") {
		pod.Volumes = []corev1.Volume{{Name: "v", VolumeSource: drawVolume(t)}}
	}
	if rapid.Bool().Draw(t, "pod security") {
		s := &corev1.PodSecurityContext{RunAsNonRoot: one(t, "pod's non-root", new(true), new(false)), RunAsUser: one(t, "pod's user", new(int64(0)), new(int64(7)))}
		if name := one(t, "sysctl", "net.ipv4.tcp_rmem", "net.ipv4.tcp_keepalive_time", "net.ipv4.tcp_syncookies", "kernel.msgmax"); name != "" {
			s.Sysctls = []corev1.Sysctl{{Name: name, Value: "1"}}
		}
		if p := one(t, "pod's seccomp", corev1.SeccompProfileTypeRuntimeDefault, corev1.SeccompProfileTypeUnconfined); p != "" {
			s.SeccompProfile = &corev1.SeccompProfile{Type: p}
		}
		pod.SecurityContext = s
	}
	if os := one[corev1.OSName](t, "os", corev1.Linux, corev1.Windows); os != "" {
		pod.OS = &corev1.PodOS{Name: os}
	}
	return pod
}

func TestNoPodOfARestrictedRunnerIsRefusedByTheStandardRestrictedOfAnyCluster(t *testing.T) {
	theirs, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	require.NoError(t, err)
	versions := []api.Version{api.LatestVersion()}
	for minor := 25; minor <= 37; minor++ {
		versions = append(versions, api.MajorMinorVersion(1, minor))
	}
	passed, refused := 0, 0
	for _, profile := range []string{ProfileRestricted, ProfileBaseline} {
		r := runnerOf(t, profile)
		rapid.Check(t, func(t *rapid.T) {
			spec, err := json.Marshal(drawPod(t))
			require.NoError(t, err)
			job, err := r.jobOf(jobs.Run{Spec: core.JobSpec{ID: "j", PodSpec: spec}})
			if err != nil {
				refused++
				return
			}
			passed++
			made := job.Spec.Template
			for _, v := range versions {
				for _, res := range theirs.EvaluatePod(api.LevelVersion{Level: api.Level(profile), Version: v}, &metav1.ObjectMeta{}, &made.Spec) {
					require.True(t, res.Allowed, "%s of %s: %s: %s\n%s", profile, v.String(), res.ForbiddenReason, res.ForbiddenDetail, spec)
				}
			}
		})
	}
	require.Greater(t, passed, 5, "the test lets some through")
	require.Greater(t, refused, 5)
}
