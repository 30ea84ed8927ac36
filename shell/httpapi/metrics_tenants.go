package httpapi

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
)

const (
	// maxQueueMetrics bounds the queues that the metrics tell of: each is some twenty
	// series. Tenants share them, of each the newest first.
	maxQueueMetrics = 1000
	// maxTenantMetrics bounds the tenants that the metrics tell of, those that store the
	// most first. The others stand together in series of their own.
	maxTenantMetrics = 200
)

var (
	descQueuesLeftOut = desc("orrery_queues_left_out", "Queues that the metrics do not tell of, because there are too many.")

	descSchedules           = desc("orrery_tenant_schedules", "Recurring actions and jobs of a tenant.", "namespace", "tenant")
	descLive                = desc("orrery_tenant_live_actions", "Actions of a tenant that have not ended.", "namespace", "tenant")
	descLiveRuns            = desc("orrery_tenant_live_runs", "Runs of jobs of a tenant that have not ended.", "namespace", "tenant")
	descLivePipelines       = desc("orrery_tenant_live_pipelines", "Pipelines of a tenant that have not ended.", "namespace", "tenant")
	descLiveTasks           = desc("orrery_tenant_live_tasks", "Tasks of a tenant that have not ended.", "namespace", "tenant")
	descLiveStrategies      = desc("orrery_tenant_live_strategies", "Strategies of a tenant that have not ended.", "namespace", "tenant")
	descLimited             = desc("orrery_tenant_limited_total", "What machines of a tenant did not make, because of its limits.", "namespace", "tenant")
	descBytes               = desc("orrery_tenant_stored_bytes", "Bytes of the states of a tenant's machines and items.", "namespace", "tenant")
	descTenantTimes         = desc("orrery_tenant_occurrences_total", "Times of a tenant's schedules that were decided about, by verdict.", "namespace", "tenant", "verdict")
	descOtherTimes          = desc("orrery_other_tenants_occurrences_total", "The same of all tenants that have no series of their own.", "verdict")
	descOtherSchedules      = desc("orrery_other_tenants_schedules", "The same of all tenants that have no series of their own.")
	descOtherLive           = desc("orrery_other_tenants_live_actions", "The same of all tenants that have no series of their own.")
	descOtherLiveRuns       = desc("orrery_other_tenants_live_runs", "The same of all tenants that have no series of their own.")
	descOtherLivePipelines  = desc("orrery_other_tenants_live_pipelines", "The same of all tenants that have no series of their own.")
	descOtherLiveTasks      = desc("orrery_other_tenants_live_tasks", "The same of all tenants that have no series of their own.")
	descOtherLiveStrategies = desc("orrery_other_tenants_live_strategies", "The same of all tenants that have no series of their own.")
	descOtherLimited        = desc("orrery_other_tenants_limited_total", "The same of all tenants that have no series of their own.")
	descOtherBytes          = desc("orrery_other_tenants_stored_bytes", "The same of all tenants that have no series of their own.")
	descTenantsLeftOut      = desc("orrery_tenants_left_out", "Tenants that have no series of their own, because there are too many.")
	descUsageCounted        = desc("orrery_usage_counted", "1: what tenants have is counted; 0: they may have more than the metrics say.")
	descUsageGaps           = desc("orrery_usage_gaps", "Records and parts of the store that could not be read and are not in what tenants have.")
	descRateRefused         = desc("orrery_rate_limited_total", "Requests that were refused because a token or a webhook's tenant sent too many, by rate.", "rate")
)

// collectTenants tells what each tenant has, if the engine counts it.
func (s *Server) collectTenants(ctx context.Context, ch samples) {
	s.rates.mu.Lock()
	for _, what := range []string{requestRate, inputRate} {
		ch.counter(descRateRefused, s.rates.refused[what], what)
	}
	s.rates.mu.Unlock()
	all, err := s.engine.Usages(ctx)
	if err != nil {
		return // nobody counts
	}
	state, counted := s.engine.UsageState(), 0.0
	if state.Counted {
		counted = 1
	}
	ch.gauge(descUsageCounted, counted)
	ch.gauge(descUsageGaps, float64(state.Gaps))
	var rest shell.Usage
	var restLimited uint64
	limited := s.engine.Limited()
	for of := range limited { // order-free: it fills a map
		all[of] = all[of].Plus(shell.Usage{}) // one that has nothing has met a limit, too
	}
	times, restTimes := s.engine.OccurrenceStats().ByTenant, make(map[core.Verdict]uint64)
	tenants := byBytes(all)
	for i, of := range tenants {
		u := all[of]
		if i >= maxTenantMetrics {
			rest, restLimited = rest.Plus(u), restLimited+limited[of]
			for v, n := range times[of] { // order-free: sums
				restTimes[v] += n
			}
			continue
		}
		ch.gauge(descSchedules, float64(u.Schedules), of.Namespace, of.Tenant)
		ch.gauge(descLive, float64(u.LiveActions), of.Namespace, of.Tenant)
		ch.gauge(descLiveRuns, float64(u.LiveRuns), of.Namespace, of.Tenant)
		ch.gauge(descLivePipelines, float64(u.LivePipelines), of.Namespace, of.Tenant)
		ch.gauge(descLiveTasks, float64(u.LiveTasks), of.Namespace, of.Tenant)
		ch.gauge(descLiveStrategies, float64(u.LiveStrategies), of.Namespace, of.Tenant)
		ch.counter(descLimited, limited[of], of.Namespace, of.Tenant)
		ch.gauge(descBytes, float64(u.StoredBytes), of.Namespace, of.Tenant)
		for v, n := range times[of] { // order-free: each by itself
			ch.counter(descTenantTimes, n, of.Namespace, of.Tenant, string(v))
		}
	}
	for v, n := range restTimes { // order-free: each by itself
		ch.counter(descOtherTimes, n, string(v))
	}
	ch.gauge(descOtherSchedules, float64(rest.Schedules))
	ch.gauge(descOtherLive, float64(rest.LiveActions))
	ch.gauge(descOtherLiveRuns, float64(rest.LiveRuns))
	ch.gauge(descOtherLivePipelines, float64(rest.LivePipelines))
	ch.gauge(descOtherLiveTasks, float64(rest.LiveTasks))
	ch.gauge(descOtherLiveStrategies, float64(rest.LiveStrategies))
	ch.counter(descOtherLimited, restLimited)
	ch.gauge(descOtherBytes, float64(rest.StoredBytes))
	ch.gauge(descTenantsLeftOut, float64(max(len(tenants)-maxTenantMetrics, 0)))
}

// byBytes sorts tenants: those that store the most first.
func byBytes(all map[shell.Scope]shell.Usage) []shell.Scope {
	out := make([]shell.Scope, 0, len(all))
	for of := range all { // order-free: sorted below
		out = append(out, of)
	}
	slices.SortFunc(out, func(a, b shell.Scope) int {
		return cmp.Or(cmp.Compare(all[b].StoredBytes, all[a].StoredBytes), a.Compare(b))
	})
	return out
}

// collectQueues reads the queues: their headers have what is counted.
func (s *Server) collectQueues(ctx context.Context, ch samples) {
	queues, leftOut, err := s.queuesForMetrics(ctx)
	if err != nil {
		s.log.Error("metrics: the queues cannot be read", "error", err)
		return
	}
	for _, q := range queues {
		s.collectQueue(ctx, ch, q)
	}
	ch.gauge(descQueuesLeftOut, float64(leftOut))
}

// queuesForMetrics gives each tenant its part of the queues that the metrics tell of.
func (s *Server) queuesForMetrics(ctx context.Context) (out []core.Queue, leftOut int64, err error) {
	all, err := s.engine.Usages(ctx)
	if errors.Is(err, shell.ErrNotCounted) || !s.engine.UsageState().Counted {
		out, next, err := s.engine.Queues().List(ctx, shell.QueueFilter{}, shell.Page{Limit: maxQueueMetrics})
		if next != "" {
			leftOut = 1 // at least: nobody counts them
		}
		return out, leftOut, err
	}
	if err != nil {
		return nil, 0, err
	}
	has := make(map[shell.Scope]int64, len(all))
	for of, u := range all { // order-free: it fills a map
		if u.Queues > 0 {
			has[of] = u.Queues
		}
	}
	for _, part := range portions(has, maxQueueMetrics) {
		leftOut += has[part.of] - part.n
		if part.n == 0 {
			continue
		}
		queues, _, err := s.engine.Queues().List(ctx, shell.QueueFilter{Scope: &part.of}, shell.Page{Limit: int(part.n)})
		if err != nil {
			return nil, 0, err
		}
		out = append(out, queues...)
	}
	return out, leftOut, nil
}

// portion is how many of something a tenant has its part of.
type portion struct {
	of shell.Scope
	n  int64
}

// portions divides room between tenants: who has little gets all of it, and the others
// the same.
func portions(has map[shell.Scope]int64, room int64) []portion {
	out := make([]portion, 0, len(has))
	for of, n := range has { // order-free: sorted below
		out = append(out, portion{of, n})
	}
	slices.SortFunc(out, func(a, b portion) int {
		return cmp.Or(cmp.Compare(a.n, b.n), cmp.Compare(a.of.Namespace, b.of.Namespace), cmp.Compare(a.of.Tenant, b.of.Tenant))
	})
	for i := range out {
		left := int64(len(out) - i)
		out[i].n = min(out[i].n, (room+left-1)/left)
		room -= out[i].n
	}
	return out
}
