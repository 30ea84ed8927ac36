package config

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/tools/clientcmd"     //nolint:depguard // it reads what a kubeconfig says, and makes no call
	"k8s.io/client-go/tools/clientcmd/api" //nolint:depguard // as above

	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
)

// checkKubeNames checks what Kubernetes would refuse with each call.
func (r runnerConfig) checkKubeNames(key string) []error {
	var errs []error
	if n := deref(r.Namespace); n != "" && len(validation.IsDNS1123Label(n)) > 0 {
		errs = append(errs, fmt.Errorf("%s.namespace: %q is no name of a namespace: want at most 63 of a-z, 0-9 and -, with a letter or a digit at both ends", key, text.Clip(n, 80)))
	}
	if n := deref(r.Instance); n != "" && len(validation.IsValidLabelValue(n)) > 0 {
		errs = append(errs, fmt.Errorf("%s.instance: %q is no value of a label: want at most 63 of A-Z, a-z, 0-9, -, _ and ., with a letter or a digit at both ends", key, text.Clip(n, 80)))
	}
	return errs
}

// kubeError says what is wrong with the kubeconfig, and names the key to change. (For a
// context that lacks something client-go's own error names something else.)
func (r runnerConfig) kubeError(err error) error {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = deref(r.Kubeconfig)
	places := rules.Precedence
	if rules.ExplicitPath != "" {
		places = []string{rules.ExplicitPath}
	}
	file := strings.Join(slices.DeleteFunc(slices.Clone(places), func(name string) bool {
		_, err := os.Stat(name)
		return err != nil
	}), ", ")
	c, loading := rules.Load()
	switch {
	case loading != nil && strings.Contains(loading.Error(), "couldn't get version/kind"):
		return fmt.Errorf("kubeconfig: %s is no kubeconfig: it has no apiVersion and kind", file)
	case loading != nil:
		return fmt.Errorf("kubeconfig: %w", loading)
	case file == "":
		return fmt.Errorf("kubeconfig: no file at %s, and this process has no service account of a cluster: name a file", strings.Join(places, ", "))
	}
	if wrong := wrongContext(c, deref(r.Context), file); wrong != nil {
		return wrong
	}
	return fmt.Errorf("kubeconfig: %w", err)
}

// wrongContext says why a context cannot be used; nil if it seems to be right.
func wrongContext(c *api.Config, name, file string) error {
	from := ""
	if name == "" {
		name, from = c.CurrentContext, ", the current one,"
	}
	known := cmp.Or(strings.Join(slices.Sorted(maps.Keys(c.Contexts)), ", "), "none")
	context := c.Contexts[name]
	switch {
	case name == "":
		return fmt.Errorf("context: missing: %s has no current one: it has %s", file, known)
	case context == nil:
		return fmt.Errorf("context: %q%s is not in %s: it has %s", text.Clip(name, 80), from, file, known)
	case c.Clusters[context.Cluster] == nil:
		return fmt.Errorf("context: %q%s is of the cluster %q, which is not in %s", text.Clip(name, 80), from, text.Clip(context.Cluster, 80), file)
	}
	return nil
}
