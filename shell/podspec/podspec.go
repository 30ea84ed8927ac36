// Package podspec reads Kubernetes pod specs strictly: what it does not know is an
// error that names the field's path.
//
// It takes what stands under "spec" of a Pod manifest, in YAML or JSON. Unknown
// fields, fields that are given twice, wrong types and what the API server would
// refuse anyway are errors, as far as that can be told without a cluster: a job
// whose pod could never start is refused when it is applied, not at night.
//
// Pods of jobs are run once: restartPolicy is Never, which is also what an absent
// one means here, because Orrery alone tries again and counts the attempts. Init
// containers with restartPolicy Always, which are sidecars, are allowed.
//
// podspec.go has the one entry, decode.go reads YAML and JSON strictly, and check.go
// says what the API server would refuse.
package podspec

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/internal/clip"
)

// MaxInputBytes bounds what [Parse] reads; comments and indentation count. The
// JSON that it gives is at most [core.MaxPodSpecBytes].
const MaxInputBytes = 4 * core.MaxPodSpecBytes

// Parse reads a pod spec, in YAML or JSON, and gives it as compact JSON too, with
// its fields in a fixed order: parsed again, that gives the same. An error names the
// path of the field, such as `containers[0].imge: unknown field`; where several are
// wrong it has a line for each. Where a whole manifest is given, the error says which
// part of it is wanted.
func Parse(b []byte) (*corev1.PodSpec, json.RawMessage, error) {
	if len(b) > MaxInputBytes {
		return nil, nil, fmt.Errorf("the pod spec: %d bytes is more than %d", len(b), MaxInputBytes)
	}
	asJSON, err := toJSON(b)
	if err != nil {
		return nil, nil, err
	}
	var tree map[string]any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(asJSON, &tree); err != nil || tree == nil {
		return nil, nil, errors.New("the pod spec: it is not an object; give one with containers")
	}
	if err := notManifest(tree); err != nil {
		return nil, nil, err
	}
	spec := &corev1.PodSpec{}
	strict, err := kjson.UnmarshalStrict(asJSON, spec)
	if err != nil {
		return nil, nil, locate(tree, err)
	}
	spec.RestartPolicy = cmp.Or(spec.RestartPolicy, corev1.RestartPolicyNever)
	wrong := check(spec)
	if len(strict) > 0 {
		// What is missing may stand there under the name that is unknown.
		wrong = slices.DeleteFunc(wrong, func(err error) bool { return strings.Contains(err.Error(), ": missing") })
	}
	if len(strict)+len(wrong) > 0 {
		return nil, nil, errors.Join(strictErrors(strict), errors.Join(wrong...))
	}
	compact, err := json.Marshal(spec)
	if err != nil {
		return nil, nil, fmt.Errorf("the pod spec: %w", err)
	}
	if len(compact) > core.MaxPodSpecBytes {
		return nil, nil, fmt.Errorf("the pod spec: %d bytes of JSON is more than %d", len(compact), core.MaxPodSpecBytes)
	}
	return spec, compact, nil
}

// toJSON leaves JSON, whose errors name paths, as it is; those of YAML name lines.
func toJSON(b []byte) ([]byte, error) {
	b = bytes.TrimPrefix(b, []byte("\xef\xbb\xbf"))
	if t := bytes.TrimSpace(b); len(t) > 0 && t[0] == '{' && json.Valid(t) {
		return t, nil
	}
	if err := oneDocument(b); err != nil {
		return nil, err
	}
	asJSON, err := yaml.YAMLToJSONStrict(b)
	if err != nil {
		msg := strings.TrimPrefix(strings.TrimPrefix(err.Error(), "error converting YAML to JSON: "), "yaml: ")
		msg = strings.TrimPrefix(msg, "unmarshal errors:\n")
		return nil, fmt.Errorf("the pod spec is no valid YAML: %s", strings.TrimSpace(strings.ReplaceAll(msg, "\n ", ";")))
	}
	return asJSON, nil
}

// oneDocument refuses a second YAML document, which the reader would ignore.
func oneDocument(b []byte) error {
	content := false
	for n, line := range bytes.Split(b, []byte("\n")) {
		t := bytes.TrimRight(line, " \t\r")
		switch {
		case bytes.Equal(t, []byte("---")) || bytes.HasPrefix(t, []byte("--- ")):
			if content {
				return fmt.Errorf("the pod spec: line %d begins a second YAML document; give one", n+1)
			}
			content = len(t) > len("---")
		case len(t) > 0 && t[0] != '#' && t[0] != '%' && !bytes.Equal(t, []byte("...")):
			content = true
		}
	}
	return nil
}

// specOf says where the pod spec is in a manifest of each kind.
var specOf = map[string]string{
	"Pod": "spec", "PodTemplate": "template.spec", "CronJob": "spec.jobTemplate.spec.template.spec",
	"Job": "spec.template.spec", "Deployment": "spec.template.spec", "StatefulSet": "spec.template.spec",
	"DaemonSet": "spec.template.spec", "ReplicaSet": "spec.template.spec",
}

// notManifest refuses a whole manifest. A pod spec has none of these fields.
func notManifest(tree map[string]any) error {
	kind, _ := tree["kind"].(string)
	_, version := tree["apiVersion"]
	_, meta := tree["metadata"]
	_, spec := tree["spec"]
	_, template := tree["template"]
	switch where := specOf[kind]; {
	case where != "":
		return fmt.Errorf("kind: a whole %s is given, but a pod spec is wanted: give what is under .%s", kind, where)
	case kind != "" || version:
		return fmt.Errorf("kind: a manifest of kind %q is given, but a pod spec is wanted, which begins with containers", clip.Text(kind, maxQuoted))
	case spec:
		return errors.New("spec: unknown field: a pod spec is wanted, not what it is in: give what is under .spec")
	case template:
		return errors.New("template: unknown field: a pod spec is wanted, not what it is in: give what is under .template.spec")
	case meta:
		return errors.New("metadata: unknown field: a pod spec has none: give what is under .spec alone, and labels with the job")
	}
	return nil
}

// maxQuoted is how much of a value is quoted in an error.
const maxQuoted = 120
