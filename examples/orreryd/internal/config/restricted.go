package config

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/orrery-go/orrery/examples/orreryd/internal/text"

	corev1 "k8s.io/api/core/v1"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/jobs"
)

// restricted is a runner of this machine's processes that runs the listed programs
// alone, as the tool command does: command[0] is one of them to the letter, and only
// variables that are listed are set.
type restricted struct {
	jobs.Runner
	executables, allowEnv []string
}

// Unwrap gives the runner that runs them.
func (r *restricted) Unwrap() jobs.Runner { return r.Runner }

// Check implements [jobs.Runner].
func (r *restricted) Check(spec core.JobSpec) error {
	if err := r.allowed(spec); err != nil {
		return err
	}
	return r.Runner.Check(spec)
}

// Create implements [jobs.Runner]: the job may be older than the list.
func (r *restricted) Create(ctx context.Context, run jobs.Run) (int, error) {
	if err := r.allowed(run.Spec); err != nil {
		return 0, shell.Permanent(err)
	}
	return r.Runner.Create(ctx, run)
}

func (r *restricted) allowed(spec core.JobSpec) error {
	var pod corev1.PodSpec
	if err := json.Unmarshal(spec.PodSpec, &pod); err != nil {
		return fmt.Errorf("pod_spec: %w", err)
	}
	for list, containers := range map[string][]corev1.Container{"initContainers": pod.InitContainers, "containers": pod.Containers} {
		for i, c := range containers {
			field := fmt.Sprintf("pod_spec.%s[%d]", list, i)
			if len(c.Command) == 0 || !slices.Contains(r.executables, c.Command[0]) {
				return fmt.Errorf("%s.command: %q is not one of the programs that may be run here: %s",
					field, text.Clip(strings.Join(c.Command[:min(1, len(c.Command))], ""), 80), cmp.Or(strings.Join(r.executables, ", "), "there is none"))
			}
			for n, v := range c.Env {
				if !slices.ContainsFunc(r.allowEnv, func(name string) bool { return namedBy(name, v.Name) }) {
					return fmt.Errorf("%s.env[%d]: the variable %q may not be set here: allow_env does not list it", field, n, text.Clip(v.Name, 80))
				}
			}
			if len(c.EnvFrom) > 0 {
				return fmt.Errorf("%s.envFrom: variables may be set here only by name", field)
			}
		}
	}
	return nil
}

// namedBy reports whether a name of a list means a variable: one that ends with *
// means all with that beginning.
func namedBy(pattern, name string) bool {
	if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(name, prefix)
	}
	return pattern == name
}
