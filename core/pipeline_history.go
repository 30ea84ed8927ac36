package core

import (
	"slices"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/effects/texts"
)

// Checkpoint says how far a pipeline had come (003 Checkpoint).
type Checkpoint struct {
	Phase     string `json:"phase"`
	Message   string `json:"message"`
	Timestamp Time   `json:"timestamp"`
}

// PhaseRecord says how a phase went.
type PhaseRecord struct {
	Name      string       `json:"name"`
	StartedAt Time         `json:"started_at"`
	EndedAt   Time         `json:"ended_at"`
	Attempts  uint32       `json:"attempts"`
	Outcome   PhaseOutcome `json:"outcome"`
	Reason    string       `json:"reason,omitempty"` // its beginning
	// Interrupted: nobody knows how far what it ran came, see [ChildEnded].
	Interrupted bool `json:"interrupted,omitempty"`
}

// PhaseOutcome says how a phase ended.
type PhaseOutcome string

// Outcomes of a phase.
const (
	HistoryDone      PhaseOutcome = "done"
	HistoryFailed    PhaseOutcome = "failed"
	HistorySkipped   PhaseOutcome = "skipped"
	HistoryCancelled PhaseOutcome = "cancelled"
)

// record notes how the running phase went.
func (t *pipelineTransition) record(o PhaseOutcome, reason string) {
	t.recorded++
	t.History = appendLast(t.History, MaxHistory, PhaseRecord{
		Name: t.Phase.Name, StartedAt: t.PhaseStartedAt, EndedAt: t.clock.Now, Attempts: t.Attempt, Outcome: o,
		Reason: texts.Bound(reason, maxHistoryReasonBytes),
	})
}

// recordFailure notes how the running phase failed.
func (t *pipelineTransition) recordFailure(o outcome) {
	t.record(HistoryFailed, o.err)
	t.History[len(t.History)-1].Interrupted = o.interrupted
}

// attemptsOf gives how often the phase that failed was tried: phases that clean up
// may have come after it.
func (t *pipelineTransition) attemptsOf(phase string) uint32 {
	for _, r := range slices.Backward(t.History) {
		if r.Name == phase {
			return r.Attempts
		}
	}
	return t.Attempt
}

// applyCheckpoint: a task tells how far the pipeline has come.
func (t *pipelineTransition) applyCheckpoint(e PipelineCheckpoint) {
	switch {
	case e.Message == "":
		t.refuse(effects.CodeInvalid, "message: must not be empty")
	case t.Phase.Type.Ended():
		t.conflict("it takes no checkpoint any more")
	default:
		t.checkpoint(e.Message)
	}
}

// checkpoint records how far the pipeline has come (003 Checkpoint).
func (t *pipelineTransition) checkpoint(message string) {
	phase := ""
	if t.Phase.Type == PhaseRunning {
		phase = t.Phase.Name
	}
	message = texts.Bound(message, MaxCheckpointBytes)
	t.Checkpoints = appendLast(t.Checkpoints, MaxCheckpoints, Checkpoint{Phase: phase, Message: message, Timestamp: t.clock.Now})
	t.announce("checkpoint", announcementTexts("phase", phase, "message", message))
}
