package httpapi

import (
	"context"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/effects/texts"
	"github.com/orrery-go/orrery/shell"
)

const (
	// maxScheduleMetrics bounds the schedules that the metrics tell of. Tenants share them, of each
	// the newest first.
	maxScheduleMetrics = 1000
	// maxMetricName bounds the names of schedules in labels.
	maxMetricName = 100
)

var (
	descTimes = desc("orrery_occurrences_total", "Times of schedules that were decided about, by what the schedule belongs to and by verdict.", "schedule", "verdict")

	descLastSuccess = desc("orrery_schedule_last_success_timestamp_seconds", "When the last action or run of a recurring action or a job, or the last cycle of an action that recurs, ended that completed; 0: none did.", "namespace", "tenant", "schedule", "id", "name")
	descUnlisted    = desc("orrery_schedules_unlisted", "Recurring actions, jobs and actions that recur whose last success the metrics do not tell, because there are too many.")
)

// collectSchedules tells what was decided about times, and when each schedule has succeeded last.
// That stands in the schedules' own records, so it is right from the start of the process on.
func (s *Server) collectSchedules(ctx context.Context, ch samples) {
	times := s.engine.OccurrenceStats().Total
	for _, kind := range core.OccurrenceSchedules() {
		for _, v := range core.Verdicts() {
			if v != core.VerdictWaiting { // from 0 on: a rate needs something to rise from
				ch.counter(descTimes, times[shell.OccurrenceKey{Schedule: kind, Verdict: v}], string(kind), string(v))
			}
		}
	}
	total, err := s.engine.ScheduleTotal(ctx)
	if err != nil {
		return // orrery_up and the log tell it
	}
	listed := uint64(0)
	for _, part := range s.scheduleParts(ctx) {
		n, err := s.collectPart(ctx, ch, part)
		if err != nil {
			s.log.Error("metrics: the schedules cannot be read", "error", err)
			return
		}
		listed += n
	}
	ch.gauge(descUnlisted, float64(total-min(listed, total)))
}

// schedulePart is how many schedules the metrics tell of one tenant, or of all.
type schedulePart struct {
	of   *shell.Scope
	most int
}

// scheduleParts gives each tenant its part of the schedules that the metrics tell of.
func (s *Server) scheduleParts(ctx context.Context) (parts []schedulePart) {
	all, err := s.engine.Usages(ctx)
	if err != nil || !s.engine.UsageState().Counted {
		return []schedulePart{{nil, maxScheduleMetrics}}
	}
	has := make(map[shell.Scope]int64, len(all))
	for of, u := range all { // order-free: it fills a map
		if u.Schedules > 0 {
			has[of] = u.Schedules
		}
	}
	for _, p := range portions(has, maxScheduleMetrics) {
		if p.n > 0 {
			parts = append(parts, schedulePart{&p.of, int(p.n)})
		}
	}
	return parts
}

// collectPart tells of the recurring actions of a part, of its jobs, and of its actions that recur.
func (s *Server) collectPart(ctx context.Context, ch samples, part schedulePart) (listed uint64, err error) {
	say := func(namespace, tenant string, kind effects.Kind, id, name string, at effects.Time) {
		seconds := 0.0
		if !at.IsZero() {
			seconds = float64(at) / 1000
		}
		ch.gauge(descLastSuccess, seconds, namespace, tenant, string(kind), id, texts.Bound(name, maxMetricName))
		listed++
	}
	recurring, _, err := s.engine.Recurring().List(ctx, shell.RecurringFilter{Scope: part.of}, shell.Page{Limit: part.most})
	if err != nil {
		return listed, err
	}
	for _, r := range recurring {
		say(r.Namespace, r.Tenant, core.KindRecurring, r.ID.String(), r.Description, r.LastSuccessAt)
	}
	if part.most -= len(recurring); part.most == 0 {
		return listed, nil
	}
	list, _, err := s.engine.Jobs().List(ctx, shell.JobFilter{Scope: part.of}, shell.Page{Limit: part.most})
	if err != nil {
		return listed, err
	}
	for _, j := range list {
		say(j.Namespace, j.Tenant, core.KindJob, j.JobSpec.ID, j.Name, j.LastSuccessAt)
	}
	if part.most -= len(list); part.most == 0 {
		return listed, nil
	}
	actions, _, err := s.engine.Actions().List(ctx, shell.ActionFilter{Scope: part.of, Recurs: true}, shell.Page{Limit: part.most})
	if err != nil {
		return listed, err
	}
	for i := range actions {
		if a := &actions[i]; a.Ledger != nil {
			say(a.Namespace, a.Tenant, core.KindAction, a.ID.String(), a.Label, a.Ledger.LastSuccessAt)
		}
	}
	return listed, nil
}
