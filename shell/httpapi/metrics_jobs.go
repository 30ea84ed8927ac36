package httpapi

import (
	"context"
	"encoding/json"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
)

// The names say job_runs: those of orrery_runs_running are runs of tools.
var (
	descJobs      = desc("orrery_jobs", "Stored jobs by status: enabled or paused.", "status")
	descJobRuns   = desc("orrery_job_runs", "Stored runs of jobs by status.", "status")
	descInCluster = desc("orrery_job_runs_in_cluster", "Runs of jobs that may have something in a cluster.")
	descRunsEnded = desc("orrery_job_runs_ended_total", "Runs of jobs that ended, by outcome.", "outcome")
	descJobTimes  = desc("orrery_job_times_total", "Times of jobs that were decided about, by verdict.", "verdict")
	jobCounters   = []counter[shell.JobStats]{
		{desc("orrery_job_triggers_total", "Runs of jobs that were made by hand, or by an action."), func(s *shell.JobStats) uint64 { return s.Triggered }},
		{desc("orrery_job_retries_total", "Attempts of runs of jobs after the first."), func(s *shell.JobStats) uint64 { return s.Retries }},
		{desc("orrery_job_constraints_checked_total", "Constraints of jobs that were evaluated."), func(s *shell.JobStats) uint64 { return s.ConstraintsChecked }},
		{desc("orrery_job_constraints_violated_total", "Constraints of jobs that were violated."), func(s *shell.JobStats) uint64 { return s.ConstraintsViolated }},
		{desc("orrery_job_constraint_errors_total", "Times that the constraints of a job could not be evaluated."), func(s *shell.JobStats) uint64 { return s.ConstraintErrors }},
		{desc("orrery_job_actions_total", "Actions of constraints that were taken, also those that failed."), func(s *shell.JobStats) uint64 { return s.ActionsExecuted }},
		{desc("orrery_job_actions_failed_total", "Actions of constraints that failed."), func(s *shell.JobStats) uint64 { return s.ActionsFailed }},
		{desc("orrery_job_heartbeats_total", "Heartbeats of runs of jobs."), func(s *shell.JobStats) uint64 { return s.Heartbeats }},
		{desc("orrery_job_api_calls_total", "Calls of the Kubernetes API for runs of jobs."), func(s *shell.JobStats) uint64 { return s.KubernetesAPICalls }},
		{desc("orrery_job_cleanups_failed_total", "Runs of jobs that ended although something may be left in a cluster."), func(s *shell.JobStats) uint64 { return s.CleanupsFailed }},
	}
)

// collectJobs reads what the engine counts of jobs.
func (s *Server) collectJobs(ctx context.Context, ch samples) {
	st, err := s.engine.JobStats(ctx)
	if err != nil {
		return // orrery_up and the log tell it
	}
	gauges(ch, descJobs, map[string]uint64{"enabled": st.Jobs, "paused": st.JobsPaused})
	gauges(ch, descJobRuns, st.Runs)
	ch.gauge(descInCluster, float64(st.InCluster))
	for _, state := range core.OrchestratorStatuses() { // from 0 on: a rate needs something to rise from
		if state.Terminal() {
			ch.counter(descRunsEnded, st.Ended[state], string(state))
		}
	}
	for _, v := range []core.Verdict{core.VerdictDispatched, core.VerdictMissed, core.VerdictSkipped} {
		ch.counter(descJobTimes, st.Verdicts[v], string(v))
	}
	for _, m := range jobCounters {
		ch.counter(m.desc, m.read(&st))
	}
}

// runPhases are what [core.OrchestratorMetrics] times of a run that has ended.
var runPhases = []struct {
	name   string
	lasted func(*core.OrchestratorMetrics) int64 // milliseconds
}{
	{"pre_run", func(m *core.OrchestratorMetrics) int64 { return m.PreRunDurationMS }},
	{"constraint_check", func(m *core.OrchestratorMetrics) int64 { return m.ConstraintCheckDurationMS }},
	{"pod_start", func(m *core.OrchestratorMetrics) int64 { return m.PodStartLatencyMS }},
	{"execution", func(m *core.OrchestratorMetrics) int64 { return m.ExecutionDurationMS }},
	{"termination", func(m *core.OrchestratorMetrics) int64 { return m.TerminationDurationMS }},
	{"total", func(m *core.OrchestratorMetrics) int64 { return m.TotalDurationMS }},
}

// observeRuns times the phases of runs, from what each announces of itself at its
// end (004 Timing Metrics). The filter of a subscription makes the
// observation, so that no event is missed and none has to be received.
func (s *Server) observeRuns() prometheus.Collector {
	phases := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "orrery_job_run_phase_duration_seconds", Help: "How long runs of jobs spent in their phases, by phase and how the run ended.",
		Buckets: shell.PhaseBuckets[:],
	}, []string{"phase", "outcome"})
	announced := effects.Custom("run", "metrics")
	s.engine.Subscribe(func(e effects.Event) bool {
		var m core.OrchestratorMetrics
		if e.Kind == announced && json.Unmarshal(e.Data, &m) == nil {
			for _, p := range runPhases {
				phases.WithLabelValues(p.name, string(m.FinalState)).Observe(float64(p.lasted(&m)) / 1000)
			}
		}
		return false
	}, 1)
	return phases
}
