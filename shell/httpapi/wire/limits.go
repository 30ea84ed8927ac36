package wire

// LimitsList is the answer of GET /v1/limits: the tenants that the token sees and that
// have something, those that store the most first.
type LimitsList struct {
	Counted bool           `json:"counted"` // what tenants have is counted; else it is more than is shown
	Gaps    int64          `json:"gaps"`    // what could not be read and is not in the sums
	Tenants []TenantLimits `json:"tenants"`
	LeftOut int            `json:"left_out"` // tenants that are not shown
}

// TenantLimits is what one tenant has and may have.
type TenantLimits struct {
	Namespace string       `json:"namespace"`
	Tenant    string       `json:"tenant"`
	Usage     TenantUsage  `json:"usage"`
	Limits    TenantBounds `json:"limits"`
}

// TenantUsage is what one tenant has.
type TenantUsage struct {
	Schedules      int64 `json:"schedules"`
	LiveActions    int64 `json:"live_actions"`
	LiveRuns       int64 `json:"live_runs"`
	LivePipelines  int64 `json:"live_pipelines"`
	LiveTasks      int64 `json:"live_tasks"`
	LiveStrategies int64 `json:"live_strategies"`
	Queues         int64 `json:"queues"`
	StoredBytes    int64 `json:"stored_bytes"`
}

// TenantBounds are the limits of one tenant; 0: none.
type TenantBounds struct {
	RequestsPerSecond  float64 `json:"requests_per_second"`
	InputsPerSecond    float64 `json:"inputs_per_second"`
	MaxSchedules       int64   `json:"max_schedules"`
	MaxLiveActions     int64   `json:"max_live_actions"`
	MaxLiveRuns        int64   `json:"max_live_runs"`
	MaxLivePipelines   int64   `json:"max_live_pipelines"`
	MaxLiveTasks       int64   `json:"max_live_tasks"`
	MaxLiveStrategies  int64   `json:"max_live_strategies"`
	MaxStoredBytes     int64   `json:"max_stored_bytes"`
	MinScheduleSeconds float64 `json:"min_schedule_seconds"`
	MaxTimeoutSeconds  float64 `json:"max_timeout_seconds"`
	MaxAttempts        int64   `json:"max_attempts"`
	MaxOutputBytes     int64   `json:"max_output_bytes"`
}
