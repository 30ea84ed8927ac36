package core

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/orrery-go/orrery/effects"
)

// MaxTriggerKeys is how many of the dedup keys of its last runs by hand a job knows.
const MaxTriggerKeys = 100

// KeyedTrigger is a run by hand that was asked for with a dedup key.
type KeyedTrigger struct {
	Key string `json:"key"`
	At  Time   `json:"at"` // the run's time, which its id has
}

// trigger makes a run now, out of turn, unless its dedup key has made one. Who asks
// is told which one.
func (j Job) trigger(e JobTrigger, c Clock) (Job, []effects.Effect) {
	if err := checkName("dedup_key", e.DedupKey, false); err != nil {
		return j, j.refuse(e, effects.CodeInvalid, err.Error())
	}
	if i := slices.IndexFunc(j.Triggers, func(t KeyedTrigger) bool { return t.Key == e.DedupKey }); i >= 0 {
		made := runOf(j.JobSpec, j.Triggers[i].At, true)
		return j, []effects.Effect{effects.Answer{Value: JobTriggered{Run: made.ID, RunID: made.RunID, Duplicate: true}}}
	}
	if len(j.Active) >= MaxActiveRuns {
		return j, j.refuse(e, effects.CodeConflict, fmt.Sprintf("%d runs of job %s have not ended: no more are made", len(j.Active), clip(j.ID)))
	}
	at := j.freeInstant(c)
	run := runOf(j.JobSpec, at, true)
	run.By = firstText(e.By)
	j.LastTriggeredAt, j.UpdatedAt = at, c.Now
	if e.DedupKey != "" {
		known := j.Triggers[max(0, len(j.Triggers)-MaxTriggerKeys+1):]
		j.Triggers = append(slices.Clone(known), KeyedTrigger{Key: e.DedupKey, At: at})
	}
	return j.make(run, []effects.Effect{
		j.announceData("triggered", jsonOf(struct {
			By    string `json:"by"`
			RunID string `json:"run_id"`
		}{firstText(e.By), run.RunID})),
		effects.Answer{Value: JobTriggered{Run: run.ID, RunID: run.RunID}},
	})
}

// triggerLead bounds how far ahead of the clock runs by hand may be numbered.
const triggerLead = 60_000

// freeInstant is the first millisecond from now on that names no run, nor will:
// triggers of one batch have the same clock reading, and the times of the schedule
// belong to it.
func (j Job) freeInstant(c Clock) Time {
	at := max(c.Now, effects.MinTime)
	if j.LastTriggeredAt >= at && j.LastTriggeredAt < laterMS(at, triggerLead) {
		at = j.LastTriggeredAt + 1
	}
	for j.hasRunAt(at) || j.isTime(at) {
		at++
	}
	return at
}

// jsonOf encodes what an announcement says: strings, numbers and times always do.
func jsonOf(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	return b
}
