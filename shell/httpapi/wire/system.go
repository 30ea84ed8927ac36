package wire

import (
	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
)

// System is the answer to GET /v1/system: how the daemon and its database are.
type System struct {
	Instance  string     `json:"instance"` // that answers
	Instances []Instance `json:"instances"`
	// Store is what the server keeps its records in; nil: it was not told, or the request was for one partition of several.
	Store   *Store `json:"store,omitempty"`
	Running int64  `json:"running"` // executions of tools under way in this instance
	// PausedSince is since when this instance is paused, as it was started so, and begins nothing by itself.
	PausedSince effects.Time `json:"paused_since,omitzero"`
	// Batches, CommitErrors and Refused count since this instance began: committed batches, commits that failed, inputs
	// that machines refused.
	Batches      uint64 `json:"batches"`
	CommitErrors uint64 `json:"commit_errors"`
	Refused      uint64 `json:"refused"`
	// LateSeconds is within which time after they were due 99 of 100 machines were woken since this instance began: the least bound
	// of the lateness histogram that holds them; 0 if none was due.
	LateSeconds float64 `json:"late_seconds"`
	// LoopLagSeconds is the longest that something due has waited in the last minute until the loop of this instance took it up, or that
	// the loop takes now to answer, of which at most half a second is waited for. Above LoopLagLimitSeconds the loop does not keep up.
	LoopLagSeconds      float64 `json:"loop_lag_seconds"`
	LoopLagLimitSeconds float64 `json:"loop_lag_limit_seconds"`
	// CommitsPerSecond and InputsPerSecond are means over the last minute of this instance, or since it began: batches committed,
	// and inputs that changed something.
	CommitsPerSecond float64 `json:"commits_per_second"`
	InputsPerSecond  float64 `json:"inputs_per_second"`
	JournalSeq       uint64  `json:"journal_seq"`
	// JournalFrom is the first batch that the journal still has.
	JournalFrom uint64 `json:"journal_from"`
	// Quarantine is what could not be read and was set aside, oldest first, at most 100.
	Quarantine []SetAside `json:"quarantine"`
	// Settings are those in force, without secrets, as text; empty unless the token is an admin's.
	Settings string `json:"settings"`
	// Partitions are those of a server whose tenants are divided over several, by number. What stands above is then of all
	// together: sums, and of lateness and lag the greatest; JournalSeq and JournalFrom are 0.
	Partitions []PartitionSystem `json:"partitions,omitempty"`
}

// PartitionSystem is how the engine of one partition fares.
type PartitionSystem struct {
	Partition      int          `json:"partition"`
	Instance       string       `json:"instance"` // that has it
	PausedSince    effects.Time `json:"paused_since,omitzero"`
	Running        int64        `json:"running"`
	LoopLagSeconds float64      `json:"loop_lag_seconds"`
	CommitErrors   uint64       `json:"commit_errors"`
	JournalSeq     uint64       `json:"journal_seq"`
	JournalFrom    uint64       `json:"journal_from"`
}

// Resumed is the answer to POST /v1/system/resume.
type Resumed struct {
	// Resumed is false if the engine was not paused.
	Resumed bool `json:"resumed"`
}

// Instance is an engine that works on the database, or did.
type Instance struct {
	Claim   string       `json:"claim"`
	Holder  string       `json:"holder"`
	Token   uint64       `json:"token"` // its fencing token
	Renewed effects.Time `json:"renewed"`
	Until   effects.Time `json:"until"` // it counts as gone then
}

// SetAside is something that could not be read.
type SetAside struct {
	Kind   effects.Kind `json:"kind"`
	ID     uuid.UUID    `json:"id"`
	N      uint32       `json:"n"` // of a pending effect its number
	At     effects.Time `json:"at"`
	Reason string       `json:"reason"`
	Bytes  int          `json:"bytes"` // that are left of it: orreryd quarantine shows them
}
