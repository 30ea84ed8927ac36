package core

import (
	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
)

// recordVerdict records what was decided about a run's time, and gives the id of the
// occurrence.
func (t *jobTransition) recordVerdict(v Verdict, a ActiveRun, reason string) uuid.UUID {
	return t.record(Occurrence{
		DueAt: a.ScheduledAt, LastDueAt: a.ScheduledAt, Verdict: v, Count: 1, Manual: a.Manual, ActionID: a.Run, Reason: reason,
	})
}

// record notes a verdict for the history, counts it, and says what did not run.
func (t *jobTransition) record(o Occurrence) uuid.UUID {
	t.Sequence++
	o.ID, o.RecurringID, o.DecidedAt = ChildID(t.Key, "occurrence", t.clock.Step, t.Sequence), t.Key, t.clock.Now
	n := &t.Counts.Dispatched
	switch o.Verdict {
	case VerdictMissed:
		n = &t.Counts.Missed
	case VerdictSkipped:
		n = &t.Counts.Skipped
	case VerdictDispatched, VerdictDeduplicated:
	}
	*n = saturatingAdd(*n, o.Count)
	if !o.Manual {
		t.LastVerdictAt = max(t.LastVerdictAt, o.LastDueAt)
	}
	t.send(effects.Ref{Kind: KindOccurrence, ID: o.ID}, OccurrenceRecord{o})
	if o.Verdict != VerdictDispatched {
		t.announce(string(o.Verdict), announcementData(struct {
			ScheduledAt Time   `json:"scheduled_at"`
			Until       Time   `json:"until"`
			Count       uint64 `json:"count"`
			Reason      string `json:"reason"`
		}{o.DueAt, o.LastDueAt, o.Count, o.Reason}))
	}
	return o.ID
}
