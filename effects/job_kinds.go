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
}

// Number is N.
func (e CheckConstraints) Number() uint32 { return e.N }

// Number is N.
func (e TakeAction) Number() uint32 { return e.N }

// Number is N.
func (e CreateRun) Number() uint32 { return e.N }

// Number is N.
func (e FetchLogs) Number() uint32 { return e.N }

// Number is N.
func (e DeleteRun) Number() uint32 { return e.N }

// Lane is that of all checks.
func (CheckConstraints) Lane() string { return LaneConstraints }

// Lane is that of all actions of constraints.
func (TakeAction) Lane() string { return LaneActions }

// Lane is that of all that is done in a cluster.
func (CreateRun) Lane() string { return LaneRun }

// Lane is that of all reading of logs.
func (FetchLogs) Lane() string { return LaneLogs }

// Lane is that of all that is done in a cluster.
func (DeleteRun) Lane() string { return LaneRun }

// AppendJSON appends the stored form.
func (e CheckConstraints) AppendJSON(b []byte) []byte { return appendOuter(b, "check_constraints", e) }

// AppendJSON appends the stored form.
func (e TakeAction) AppendJSON(b []byte) []byte { return appendOuter(b, "take_action", e) }

// AppendJSON appends the stored form.
func (e CreateRun) AppendJSON(b []byte) []byte { return appendOuter(b, "create_run", e) }

// AppendJSON appends the stored form.
func (e FetchLogs) AppendJSON(b []byte) []byte { return appendOuter(b, "fetch_logs", e) }

// AppendJSON appends the stored form.
func (e DeleteRun) AppendJSON(b []byte) []byte { return appendOuter(b, "delete_run", e) }

func (CheckConstraints) effect() {}
func (TakeAction) effect()       {}
func (CreateRun) effect()        {}
func (FetchLogs) effect()        {}
func (DeleteRun) effect()        {}

// decodeJobOuter gives nil where the type is none of these.
func decodeJobOuter(typ string, b []byte) (Outer, error) {
	switch typ {
	case "check_constraints":
		return decodeOuterAs[CheckConstraints](b)
	case "take_action":
		return decodeOuterAs[TakeAction](b)
	case "create_run":
		return decodeOuterAs[CreateRun](b)
	case "fetch_logs":
		return decodeOuterAs[FetchLogs](b)
	case "delete_run":
		return decodeOuterAs[DeleteRun](b)
	}
	return nil, nil
}
