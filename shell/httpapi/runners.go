package httpapi

import (
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
	"github.com/orrery-go/orrery/shell/jobs"
)

// runnerHealth is how each runner is; empty where the service of jobs does not say so.
func (s *Server) runnerHealth() map[string]jobs.Health {
	if h, ok := s.o.Jobs.(interface{ Health() map[string]jobs.Health }); ok {
		return h.Health()
	}
	return nil
}

// listRunners answers with the runners that the token may use.
func (s *Server) listRunners(w http.ResponseWriter, r *http.Request, c *call) error {
	if _, err := readQuery(r); err != nil {
		return err
	}
	if err := forJobs(c); err != nil {
		return err
	}
	if err := s.noRunner(); err != nil {
		return err
	}
	all, room := s.runnerHealth(), map[string]jobs.Pods{}
	if bounded, ok := s.o.Jobs.(interface{ Pods() map[string]jobs.Pods }); ok {
		room = bounded.Pods()
	}
	out := wire.RunnerList{Runners: []wire.Runner{}}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if s.mayUse(c.token, name) {
			out.Runners = append(out.Runners, s.shownRunner(name, toldTo(c.token, all[name]), room[name]))
		}
	}
	return writeJSON(w, http.StatusOK, out)
}

// mayUse reports whether the token is told of a runner: it sees a tenant that the runner is
// for, and may use the runner or sees everything.
func (s *Server) mayUse(t *Token, runner string) bool {
	if bound, ok := s.o.Jobs.(interface {
		TenantsOf(runner string) []shell.Scope
	}); ok {
		of := bound.TenantsOf(runner)
		sees := func(tenant shell.Scope) bool {
			return (tenant.Namespace == jobs.AllTenants || in(t.Namespaces, tenant.Namespace)) && (tenant.Tenant == jobs.AllTenants || in(t.Tenants, tenant.Tenant))
		}
		if len(of) > 0 && !slices.ContainsFunc(of, sees) {
			return false
		}
	}
	return t.Admin || t.unbound() || slices.Contains(s.o.OpenRunners, runner) || slices.Contains(t.Runners, runner)
}

// toldTo is the health of a runner as the token may be told it: the errors of a cluster name
// what other tenants have there, and where it is.
func toldTo(t *Token, h jobs.Health) jobs.Health {
	if t.Admin {
		return h
	}
	return h.InBrief()
}

func (s *Server) shownRunner(name string, h jobs.Health, room jobs.Pods) wire.Runner {
	return wire.Runner{
		Name: name, Status: string(h.Status), Since: timeOrNull(h.Since), Error: h.Error,
		LastError: h.LastError, LastErrorAt: timeOrNull(h.LastErrorAt), SeenAt: timeOrNull(h.SeenAt), WatchAgeSeconds: s.watchAge(h),
		MaxPods: room.Max, Pods: room.Living, PodsWaiting: room.Waiting,
	}
}

func timeOrNull(t time.Time) effects.Time {
	if t.IsZero() {
		return 0
	}
	return effects.TimeOf(t)
}

// watchAge is for how long a runner's watch has heard nothing; 0 without a watch.
func (s *Server) watchAge(h jobs.Health) float64 {
	if h.SeenAt.IsZero() {
		return 0
	}
	return max(s.o.Clock.Now().Sub(h.SeenAt), 0).Seconds()
}

// ailing are the runners that do not work, with how they are. Their errors may hold
// addresses, and anyone may ask for /readyz.
func (s *Server) ailing() map[string]string {
	out := map[string]string{}
	for name, h := range s.runnerHealth() { // order-free: it fills a map
		if h.Status != jobs.HealthWorks {
			out[name] = string(h.Status)
		}
	}
	return out
}
