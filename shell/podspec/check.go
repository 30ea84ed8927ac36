package podspec

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/orrery-go/orrery/shell/internal/clip"
)

// maxErrors bounds what one answer tells.
const maxErrors = 20

// findings collects what is wrong.
type findings []error

func (f *findings) add(path, format string, args ...any) {
	if len(*f) < maxErrors {
		*f = append(*f, fmt.Errorf("%s: %s", path, fmt.Sprintf(format, args...)))
	}
}

// check finds what the API server would refuse, if that is cheap, and what jobs cannot have.
func check(s *corev1.PodSpec) findings {
	var f findings
	if s.RestartPolicy != corev1.RestartPolicyNever {
		f.add("restartPolicy", "%q must be %q or absent: the job's retry_config says how often it is tried again", clip.Text(string(s.RestartPolicy), maxQuoted), corev1.RestartPolicyNever)
	}
	if g := s.TerminationGracePeriodSeconds; g != nil && *g < 0 {
		f.add("terminationGracePeriodSeconds", "%d is negative", *g)
	}
	if d := s.ActiveDeadlineSeconds; d != nil && *d < 1 {
		f.add("activeDeadlineSeconds", "%d is less than 1", *d)
	}
	if len(s.EphemeralContainers) > 0 {
		f.add("ephemeralContainers", "a pod cannot be created with any")
	}
	if len(s.Containers) == 0 {
		f.add("containers", "missing: give at least one")
	}
	volumes := checkVolumes(&f, s.Volumes)
	names := map[string]string{}
	for i := range s.InitContainers {
		checkContainer(&f, fmt.Sprintf("initContainers[%d]", i), &s.InitContainers[i], true, names, volumes)
	}
	for i := range s.Containers {
		checkContainer(&f, fmt.Sprintf("containers[%d]", i), &s.Containers[i], false, names, volumes)
	}
	if s.HostNetwork && s.HostUsers != nil && !*s.HostUsers {
		f.add("hostUsers", "false does not go with hostNetwork")
	}
	return f
}

// checkVolumes gives the names of the volumes.
func checkVolumes(f *findings, volumes []corev1.Volume) map[string]bool {
	names := make(map[string]bool, len(volumes))
	for i := range volumes {
		path := fmt.Sprintf("volumes[%d]", i)
		v := &volumes[i]
		checkLabelName(f, path+".name", v.Name)
		if names[v.Name] {
			f.add(path+".name", "%q is the name of another volume too", clip.Text(v.Name, maxQuoted))
		}
		names[v.Name] = true
		if v.EmptyDir != nil && v.EmptyDir.SizeLimit != nil && v.EmptyDir.SizeLimit.Sign() < 0 {
			f.add(path+".emptyDir.sizeLimit", "%s is negative", v.EmptyDir.SizeLimit)
		}
	}
	return names
}

func checkContainer(f *findings, path string, c *corev1.Container, initial bool, names map[string]string, volumes map[string]bool) {
	checkLabelName(f, path+".name", c.Name)
	if other, ok := names[c.Name]; ok && c.Name != "" {
		f.add(path+".name", "%q is the name of %s too", clip.Text(c.Name, maxQuoted), other)
	} else {
		names[c.Name] = path
	}
	switch {
	case c.Image == "":
		f.add(path+".image", "missing")
	case strings.TrimSpace(c.Image) != c.Image:
		f.add(path+".image", "%q has space around it", clip.Text(c.Image, maxQuoted))
	}
	switch c.ImagePullPolicy {
	case "", corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever:
	default:
		f.add(path+".imagePullPolicy", "%q is unknown: use %q, %q or %q", clip.Text(string(c.ImagePullPolicy), maxQuoted), corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever)
	}
	checkRestarts(f, path, c, initial)
	checkResources(f, path+".resources", c.Resources)
	for i, e := range c.Env {
		switch p := fmt.Sprintf("%s.env[%d]", path, i); {
		case e.Name == "":
			f.add(p+".name", "missing")
		case strings.Contains(e.Name, "="):
			f.add(p+".name", "%q has a =", clip.Text(e.Name, maxQuoted))
		case e.Value != "" && e.ValueFrom != nil:
			f.add(p+".valueFrom", "%q has a value already", clip.Text(e.Name, maxQuoted))
		}
	}
	for i, m := range c.VolumeMounts {
		p := fmt.Sprintf("%s.volumeMounts[%d]", path, i)
		if !volumes[m.Name] {
			f.add(p+".name", "there is no volume %q", clip.Text(m.Name, maxQuoted))
		}
		if m.MountPath == "" {
			f.add(p+".mountPath", "missing")
		}
	}
	for i, port := range c.Ports {
		if port.ContainerPort < 1 || port.ContainerPort > 65535 {
			f.add(fmt.Sprintf("%s.ports[%d].containerPort", path, i), "%d is not between 1 and 65535", port.ContainerPort)
		}
	}
}

// checkRestarts lets no container but a sidecar start twice: Orrery alone tries again.
func checkRestarts(f *findings, path string, c *corev1.Container, initial bool) {
	if len(c.RestartPolicyRules) > 0 {
		f.add(path+".restartPolicyRules", "containers of jobs are not restarted: the job's retry_config says how often it is tried again")
	}
	if c.RestartPolicy == nil {
		return
	}
	switch p := *c.RestartPolicy; {
	case p == corev1.ContainerRestartPolicyNever:
	case p == corev1.ContainerRestartPolicyAlways && initial:
	case initial:
		f.add(path+".restartPolicy", "%q must be %q (a sidecar) or absent", clip.Text(string(p), maxQuoted), corev1.ContainerRestartPolicyAlways)
	default:
		f.add(path+".restartPolicy", "%q must be %q or absent: the job's retry_config says how often it is tried again", clip.Text(string(p), maxQuoted), corev1.ContainerRestartPolicyNever)
	}
}

func checkResources(f *findings, path string, r corev1.ResourceRequirements) {
	for _, part := range []struct {
		name string
		list corev1.ResourceList
	}{{"limits", r.Limits}, {"requests", r.Requests}} {
		for _, k := range slices.Sorted(maps.Keys(part.list)) {
			if q := part.list[k]; q.Sign() < 0 {
				f.add(fmt.Sprintf("%s.%s.%s", path, part.name, clip.Text(string(k), maxQuoted)), "%s is negative", q.String())
			}
		}
	}
	for _, k := range slices.Sorted(maps.Keys(r.Requests)) {
		request, limit := r.Requests[k], r.Limits[k]
		if _, limited := r.Limits[k]; limited && request.Cmp(limit) > 0 {
			f.add(fmt.Sprintf("%s.requests.%s", path, clip.Text(string(k), maxQuoted)), "%s is more than its limit, %s", request.String(), limit.String())
		}
	}
}

func checkLabelName(f *findings, path, name string) {
	if name == "" {
		f.add(path, "missing")
		return
	}
	if errs := validation.IsDNS1123Label(name); len(errs) > 0 {
		f.add(path, "%q is not made of up to 63 lower-case letters, digits and hyphens, which it must not begin or end with", clip.Text(name, maxQuoted))
	}
}
