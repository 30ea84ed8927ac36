package effects

import "encoding/json"

// Lanes of the outer effects of job runs.
const (
	LaneConstraints = "@constraints"
	LaneActions     = "@actions"
	LaneRun         = "@run"
	LaneLogs        = "@logs" // a lane of its own: reading logs takes long, and must delay no creation nor deletion
)

// CheckPhase says when constraints are checked.
type CheckPhase string

// When constraints are checked.
const (
	CheckPre  CheckPhase = "pre"  // before the run is created
	CheckPost CheckPhase = "post" // after it has ended
)

// CheckConstraints evaluates the constraints of a run's job (004
// CheckPreExecution, CheckPostExecution; outer). It changes nothing, so it may be
// repeated.
type CheckConstraints struct {
	N     uint32     `json:"n"`
	Phase CheckPhase `json:"phase"`
}

// TakeAction carries out one action of a constraint (004 Action.Take; outer).
type TakeAction struct {
	N          uint32          `json:"n"`
	Constraint string          `json:"constraint"` // whose action it is
	Type       string          `json:"action"`     // "webhook", say
	Config     json.RawMessage `json:"config,omitempty"`
}

// CreateRun creates what a run consists of in its cluster: a Kubernetes Job, or a
// local process (004 createKubernetesJob; outer). Its name is derived from the run
// and the attempt, so it may be repeated.
type CreateRun struct {
	N       uint32 `json:"n"`
	Attempt uint32 `json:"attempt"` // 0 for the first
}

// FetchLogs fetches and stores what a run's pod has written (004 retrievePodLogs;
// outer). It may be repeated.
type FetchLogs struct {
	N       uint32 `json:"n"`
	Attempt uint32 `json:"attempt"`
}

// DeleteRun deletes what a run consists of in its cluster, and ends what still
// runs there (outer). What is gone already is no error.
type DeleteRun struct {
	N       uint32 `json:"n"`
	Attempt uint32 `json:"attempt"`
	// Logs: what the pod writes until its end is stored, as by [FetchLogs], which then
	// is not asked for.
	Logs bool `json:"logs,omitempty"`
	// NoGrace: the pod is killed at once.
	NoGrace bool `json:"no_grace,omitempty"`
}
