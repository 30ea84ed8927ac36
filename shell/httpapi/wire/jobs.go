package wire

import (
	"encoding/json"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/core/schedule"
	"github.com/orrery-go/orrery/effects"
)

// JobRequest is the body of PUT /v1/jobs/{id}: a [core.JobSpec] whose id is in the
// path.
type JobRequest struct {
	Namespace               *string            `json:"namespace,omitempty"`
	Tenant                  *string            `json:"tenant,omitempty"`
	Name                    string             `json:"name,omitempty"`
	Schedule                string             `json:"schedule,omitempty"`
	Timezone                string             `json:"timezone,omitempty"`
	PodSpec                 json.RawMessage    `json:"pod_spec"`
	ConstraintConfig        json.RawMessage    `json:"constraint_config,omitempty"`
	ActionConfig            json.RawMessage    `json:"action_config,omitempty"`
	RetryConfig             core.RetryConfig   `json:"retry_config,omitzero"`
	Overlap                 core.OverlapPolicy `json:"overlap,omitempty"`
	StartDeadlineSeconds    int64              `json:"start_deadline_seconds,omitempty"`
	MaxConcurrentRuns       uint32             `json:"max_concurrent_runs,omitempty"`
	OrphanPolicy            core.OrphanPolicy  `json:"orphan_policy,omitempty"`
	PodStartTimeoutMS       int64              `json:"pod_start_timeout_ms,omitempty"`
	CreateAheadMS           int64              `json:"create_ahead_ms,omitempty"`
	TTLSecondsAfterFinished int64              `json:"ttl_seconds_after_finished,omitempty"`
	ConstraintErrors        core.ErrorPolicy   `json:"constraint_errors,omitempty"`
	Logs                    core.LogPolicy     `json:"logs,omitzero"`
	Labels                  map[string]string  `json:"labels,omitempty"`
	Runner                  string             `json:"runner,omitempty"`
	EndsAt                  effects.Time       `json:"ends_at,omitzero"`
	core.ScheduleOptions
}

// Job is a whole job, and when it runs next.
type Job struct {
	core.Job
	Active []core.ActiveRun `json:"active"`
	// NextTimes are the next times of the schedule; none while the job is paused for as long as
	// somebody wants.
	NextTimes []effects.Time `json:"next_times"`
	Warnings  []string       `json:"warnings,omitempty"` // what of the schedule means something else than it seems to
	Declared  *DeclaredBy    `json:"declared,omitempty"` // the set that owns it, where one alone is shown
}

// JobApplied is the answer to PUT /v1/jobs/{id}: the job, and when it would have run next before
// the request.
type JobApplied struct {
	Job
	NextTimesBefore []effects.Time `json:"next_times_before"`
}

// JobPlanned is the answer to PUT /v1/jobs/{id}?dry_run=true: what the request would do.
type JobPlanned struct {
	Would string `json:"would"` // "create", "update" or "keep"
	Job   Job    `json:"job"`   // as it would be
	// NextTimesBefore are the next times of the job as it is.
	NextTimesBefore []effects.Time `json:"next_times_before"`
}

// JobSummary is a job as lists show it: without its pod spec and what is opaque.
type JobSummary struct {
	ID           string            `json:"id"`
	Namespace    string            `json:"namespace"`
	Tenant       string            `json:"tenant"`
	Name         string            `json:"name"`
	Schedule     string            `json:"schedule"`
	Timezone     string            `json:"timezone"`
	DayMatch     schedule.DayMatch `json:"day_match,omitempty"`
	Runner       string            `json:"runner"`
	Overlap      string            `json:"overlap"`
	Labels       map[string]string `json:"labels"`
	Paused       bool              `json:"paused"`
	PausedReason string            `json:"paused_reason"`
	Ended        bool              `json:"ended,omitempty"` // it has a schedule of which no time is to come, also if it were resumed
	NextRunAt    effects.Time      `json:"next_run_at"`
	SkipNext     uint32            `json:"skip_next"`
	ActiveRuns   int               `json:"active_runs"` // that have not ended
	LastRun      core.EndedRun     `json:"last_run"`
	Counts       core.JobCounts    `json:"counts"`
	CreatedAt    effects.Time      `json:"created_at"`
	UpdatedAt    effects.Time      `json:"updated_at"`
}

// JobList is a page of GET /v1/jobs.
type JobList struct {
	Jobs          []JobSummary `json:"jobs"`
	NextPageToken string       `json:"next_page_token"`
}

// JobTriggerRequest is the body of POST /v1/jobs/{id}/trigger.
type JobTriggerRequest struct {
	DedupKey string            `json:"dedup_key,omitempty"`
	Env      map[string]string `json:"env,omitempty"` // of the containers of this run
}

// JobPauseRequest is the body of POST /v1/jobs/{id}/pause.
type JobPauseRequest struct {
	Reason *string      `json:"reason,omitempty"`
	Until  effects.Time `json:"until,omitzero"` // the job resumes by itself then
}

// RunSummary is a run as lists show it: without its configuration, its checks and what only
// its machine needs.
type RunSummary struct {
	ID           uuid.UUID               `json:"id"`
	RunID        string                  `json:"run_id"`
	JobID        string                  `json:"job_id"`
	Namespace    string                  `json:"namespace"`
	Tenant       string                  `json:"tenant"`
	ScheduledAt  effects.Time            `json:"scheduled_at"`
	Manual       bool                    `json:"manual"`
	State        core.OrchestratorStatus `json:"state"`
	RetryAttempt uint32                  `json:"retry_attempt"` // 0: the first attempt
	MaxRetries   uint32                  `json:"max_retries"`
	InCluster    bool                    `json:"in_cluster"`
	Cleanup      core.RunCleanup         `json:"cleanup,omitzero"` // what is in the cluster could not be deleted so far
	Pod          core.Pod                `json:"pod"`
	Error        string                  `json:"error"`
	Note         string                  `json:"note"` // what it waits for while it is pending, or that its runner does not work; else empty
	CreatedAt    effects.Time            `json:"created_at"`
	StartedAt    effects.Time            `json:"started_at"` // of the pod, as Ran has it; null: it does not run yet
	// Ran is when the pod of the present attempt ran, and who says so.
	Ran         core.PodTimes `json:"ran,omitzero"`
	RetryAt     effects.Time  `json:"retry_at"`
	CompletedAt effects.Time  `json:"completed_at"`
}

// RunList is a page of GET /v1/runs and of GET /v1/jobs/{id}/runs.
type RunList struct {
	Runs          []RunSummary `json:"runs"`
	NextPageToken string       `json:"next_page_token"`
}
