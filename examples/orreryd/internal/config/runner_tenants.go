package config

import (
	"errors"
	"fmt"
	"strings"

	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/jobs"
)

// tenants are the namespaces and tenants that the runner is for; none: all.
func (r runnerConfig) tenants(key string) ([]shell.Scope, error) {
	errs := []error{refuseEmpty(key+".tenants", r.Tenants)}
	var out []shell.Scope
	for i, s := range r.Tenants {
		// A namespace with a slash is not meant by any: else two tenants might be one.
		namespace, tenant, found := strings.Cut(s, "/")
		if !found || namespace == "" || tenant == "" || namespace == jobs.AllTenants && tenant != jobs.AllTenants {
			errs = append(errs, fmt.Errorf("%s.tenants[%d]: %q is not NAMESPACE/TENANT, such as \"team-a/default\", or \"team-a/*\" for all tenants of a namespace", key, i, text.Clip(s, 80)))
		}
		out = append(out, shell.Scope{Namespace: namespace, Tenant: tenant})
	}
	return out, errors.Join(errs...)
}

// RunnerTenants are the namespaces and tenants that runners are for, by the names of the
// runners that are not for all; [jobs.AllTenants] stands for all.
func (c *Config) RunnerTenants() map[string][]shell.Scope {
	out := map[string][]shell.Scope{}
	for _, name := range c.RunnerNames() {
		if t, err := c.Runners[name].tenants("runners." + name); err == nil && len(t) > 0 {
			out[name] = t
		}
	}
	return out
}
