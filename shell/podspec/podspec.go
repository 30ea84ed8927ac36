// Package podspec reads Kubernetes pod specs strictly: what it does not know is an
// error that names the field's path.
package podspec

import (
	"encoding/json"
	"errors"

	corev1 "k8s.io/api/core/v1"
	_ "sigs.k8s.io/yaml" // the skeleton's: keeps the dependency
)

// Parse reads a pod spec, in YAML or JSON, and gives it as compact JSON too, with
// its fields in a fixed order.
func Parse(b []byte) (*corev1.PodSpec, json.RawMessage, error) {
	return nil, nil, errors.New("not written yet")
}
