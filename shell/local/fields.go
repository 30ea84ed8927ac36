package local

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// parsePod reads a pod spec strictly.
func parsePod(raw json.RawMessage) (*corev1.PodSpec, error) {
	var pod corev1.PodSpec
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&pod); err != nil {
		return nil, fmt.Errorf("pod_spec: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("pod_spec: there is more after the object")
	}
	return &pod, nil
}

// rule says what a field means here: nil where it is read or can be ignored, else
// why its value is refused; empty: it is not.
type rule func(value json.RawMessage) string

// What is not in these tables is refused: a field that a newer Kubernetes has may
// mean anything.
var podFields = map[string]rule{
	"containers": nil, "initContainers": nil, "restartPolicy": nil,
	"terminationGracePeriodSeconds": nil, "activeDeadlineSeconds": nil,

	"nodeName": nil, "nodeSelector": nil, "affinity": nil, "tolerations": nil,
	"schedulerName": nil, "topologySpreadConstraints": nil, "priority": nil,
	"priorityClassName": nil, "preemptionPolicy": nil, "imagePullSecrets": nil,
	"dnsPolicy": nil, "overhead": nil, "os": nil, "readinessGates": nil,
	"resources": nil, "hostNetwork": nil, "hostPID": nil, "hostIPC": nil,
	"shareProcessNamespace": nil, "enableServiceLinks": nil,

	"automountServiceAccountToken": only("false", "there are no service accounts here"),
	"hostUsers":                    only("true", "there are no user namespaces here"),
	"securityContext":              securityContext,
}

var containerFields = map[string]rule{
	"name": nil, "command": nil, "args": nil, "env": nil, "workingDir": nil,

	"image": nil, "imagePullPolicy": nil, "ports": nil, "resources": nil,
	"resizePolicy": nil, "readinessProbe": nil, "terminationMessagePath": nil,
	"terminationMessagePolicy": nil,

	"restartPolicy":   only(`"Never"`, "nothing is started twice, and there are no sidecars"),
	"securityContext": securityContext,
}

var securityFields = map[string]rule{
	"allowPrivilegeEscalation": nil, "readOnlyRootFilesystem": nil, "procMount": nil,
	"seccompProfile": nil, "appArmorProfile": nil,

	"privileged": only("false", "processes have the rights of the daemon's user"),
	"capabilities": func(v json.RawMessage) string {
		var c corev1.Capabilities
		if err := json.Unmarshal(v, &c); err != nil || len(c.Add) > 0 {
			return "none can be added here"
		}
		return ""
	},
	"runAsUser":  only(fmt.Sprint(os.Geteuid()), "processes run as the daemon's user"),
	"runAsGroup": only(fmt.Sprint(os.Getegid()), "processes run in the daemon's group"),
	"runAsNonRoot": func(v json.RawMessage) string {
		if string(v) == "true" && os.Geteuid() == 0 {
			return "the daemon runs as root, and so do processes"
		}
		return ""
	},
}

func only(want, why string) rule {
	return func(v json.RawMessage) string {
		if string(v) == want {
			return ""
		}
		return fmt.Sprintf("%s is refused: %s", v, why)
	}
}

func securityContext(v json.RawMessage) string {
	var set map[string]json.RawMessage
	if err := json.Unmarshal(v, &set); err != nil {
		return err.Error()
	}
	for _, name := range slices.Sorted(maps.Keys(set)) {
		if why := refused(name, set[name], securityFields); why != "" {
			return name + ": " + why
		}
	}
	return ""
}

func refused(name string, v json.RawMessage, fields map[string]rule) string {
	check, known := fields[name]
	switch {
	case !known:
		return "cannot be had from processes of this machine"
	case check == nil:
		return ""
	}
	return check(v)
}

// checkFields refuses the first field of v, which is a struct, that has a value and
// no meaning here.
func checkFields(field string, v any, fields map[string]rule) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("%s: %w", field, err)
	}
	var set map[string]json.RawMessage
	if err := json.Unmarshal(b, &set); err != nil {
		return fmt.Errorf("%s: %w", field, err)
	}
	for _, name := range slices.Sorted(maps.Keys(set)) {
		if why := refused(name, set[name], fields); why != "" {
			return fmt.Errorf("%s.%s: %s: use another runner, or leave it out", field, name, why)
		}
	}
	return nil
}
