package core

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/orrery-go/orrery/effects"
)

// MaxTriggerKeys is how many of the dedup keys of its last runs by hand a job knows.
const MaxTriggerKeys = 100

// KeyedTrigger is a run by hand that was asked for with a dedup key.
type KeyedTrigger struct {
	Key string `json:"key"`
	At  Time   `json:"at"` // the run's time, which its id has
}

// trigger makes a run now, unless its dedup key has made one. The answer
// names the run.
func (t *jobTransition) trigger(e JobTrigger) {
	if t.invalid(errors.Join(checkName("dedup_key", e.DedupKey, false), checkRunEnv("env", e.Env))) {
		return
	}
	if i := slices.IndexFunc(t.Triggers, func(known KeyedTrigger) bool { return known.Key == e.DedupKey }); i >= 0 {
		made := runOf(t.JobSpec, t.Triggers[i].At, true)
		t.answer(JobTriggered{Run: made.ID, RunID: made.RunID, Duplicate: true})
		if !t.before10() {
			t.record(Occurrence{
				DueAt: t.clock.Now, LastDueAt: t.clock.Now, Verdict: VerdictDeduplicated, Count: 1, Manual: true, ActionID: made.ID,
				Reason: fmt.Sprintf("dedup_key %q has made run %s", clip(e.DedupKey), made.RunID),
			})
		}
		return
	}
	if len(t.Active) >= MaxActiveRuns {
		t.refuse(effects.CodeConflict, "%d runs of job %s have not ended: no more are made", len(t.Active), clip(t.ID))
		return
	}
	at := t.freeInstant()
	run := runOf(t.JobSpec, at, true)
	run.By, run.Env = firstText(e.By), e.Env
	t.LastTriggeredAt, t.UpdatedAt = at, t.clock.Now
	if e.DedupKey != "" {
		t.Triggers = appendLast(t.Triggers, MaxTriggerKeys, KeyedTrigger{Key: e.DedupKey, At: at})
	}
	t.announce("triggered", announcementTexts("by", run.By, "run_id", run.RunID))
	t.answer(JobTriggered{Run: run.ID, RunID: run.RunID})
	t.makeRun(run, Owner{})
}

// checkRunEnv checks variables that a run is given. Those that a runner sets nobody else can.
func checkRunEnv(field string, env map[string]string) error {
	if err := checkEnv(field, env); err != nil {
		return err
	}
	for _, name := range sortedKeys(env) {
		if strings.HasPrefix(name, reservedEnv) {
			return fmt.Errorf("%s.%s: names that begin with %s are the runner's: take another name", field, clip(name), reservedEnv)
		}
	}
	return checkSize(field, env)
}

const reservedEnv = "ORRERY_"

// triggerLead bounds how far ahead of the clock runs by hand may be numbered.
const triggerLead = 60_000

// freeInstant is the first millisecond from now on that names no run, nor will: all
// triggers of a batch have the same clock reading, and the times of the schedule belong
// to the schedule.
func (t *jobTransition) freeInstant() Time {
	at := max(t.clock.Now, effects.MinTime)
	if t.LastTriggeredAt >= at && t.LastTriggeredAt < laterMS(at, triggerLead) {
		at = t.LastTriggeredAt + 1
	}
	for t.hasRunAt(at) || t.isTime(at) {
		at++
	}
	return at
}
