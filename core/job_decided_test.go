package core_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

// changedJob is a job whose runs are made 30 seconds ahead, and which is changed after that.
type changedJob struct {
	t     *testing.T
	w     world
	key   effects.Ref
	spec  core.JobSpec
	rules core.Rules
	seq   uint64
}

func newChangedJob(t *testing.T, rules core.Rules, spec core.JobSpec) *changedJob {
	j := &changedJob{t: t, w: world{}, key: core.JobRef("", "", spec.ID), spec: spec, rules: rules}
	j.send(0, core.JobApply{Spec: spec})
	return j
}

func (j *changedJob) clock(after time.Duration) core.Clock {
	return core.Clock{Now: start.Add(after), Rules: j.rules}
}

func (j *changedJob) send(after time.Duration, e core.JobEvent) core.Result {
	j.t.Helper()
	j.seq++
	res := j.w.apply(j.t, j.seq, core.Input{To: j.key, Event: e}, j.clock(after))
	require.Nil(j.t, res.Refused)
	return res
}

// fire lets all happen that is due.
func (j *changedJob) fire(after time.Duration) { j.w.pass(j.t, j.clock(after), &j.seq) }

// edit gives the job another schedule.
func (j *changedJob) edit(after time.Duration, schedule string) core.JobApplied {
	j.t.Helper()
	j.spec.Schedule = schedule
	return j.send(after, core.JobApply{Spec: j.spec}).Answer.(core.JobApplied)
}

// cancelRun cancels the run of a time by hand.
func (j *changedJob) cancelRun(after, of time.Duration) {
	j.t.Helper()
	j.seq++
	run := core.RunRef("", "", core.RunID(j.spec.ID, start.Add(of)))
	require.Nil(j.t, j.w.apply(j.t, j.seq, core.Input{To: run, Event: core.OrchestratorCancel{Reason: "by hand"}}, j.clock(after)).Refused)
}

func (j *changedJob) state() core.Job { return load[core.Job](j.w, core.KindJob)[j.key] }

// ledger lists the entries of the job in their order: times after 14:00, verdict and count.
func (j *changedJob) ledger() (entries []string) {
	all := load[core.Occurrence](j.w, core.KindOccurrence)
	for _, ref := range slices.SortedFunc(maps.Keys(all), func(a, b effects.Ref) int { return int(all[a].Number) - int(all[b].Number) }) {
		o := all[ref]
		entries = append(entries, fmt.Sprintf("%s to %s: %d %s", o.DueAt.Std().Format("15:04:05"), o.LastDueAt.Std().Format("15:04:05"), o.Count, o.Verdict))
	}
	return entries
}

func TestAnEntryOfAJobsLedgerStandsForTimesThatFollowOneAnother(t *testing.T) {
	pausedRuns := func(rules core.Rules) []string {
		spec := byHand()
		spec.Schedule, spec.StartDeadlineSeconds, spec.Missed, spec.CatchUpSpacingSeconds = "* * * * *", 20, core.MissedAll, 20
		j := newChangedJob(t, rules, spec)
		j.fire(150 * time.Second) // 14:01 is caught up at once, 14:02 at 14:02:50; the run of 14:03 is made
		j.send(150*time.Second, core.JobPause{By: "ann", Until: start.Add(230 * time.Second)})
		run := func(at time.Duration) core.JobAdmit {
			return core.JobAdmit{Run: core.RunRef("", "", core.RunID(spec.ID, start.Add(at))).ID}
		}
		j.send(180*time.Second, run(3*time.Minute))
		j.send(180*time.Second, run(2*time.Minute))
		return j.ledger()
	}
	assert.Equal(t, []string{
		"14:01:00 to 14:01:00: 1 dispatched", "14:03:00 to 14:03:00: 1 skipped", "14:02:00 to 14:02:00: 1 skipped",
	}, pausedRuns(0))
	assert.Equal(t, []string{"14:01:00 to 14:01:00: 1 dispatched", "14:03:00 to 14:03:00: 2 skipped"}, pausedRuns(10), "as it was decided")
}

func TestATimeWhoseRunWasMadeBeforeAnEditInAPauseHasOneVerdict(t *testing.T) {
	edited := func(rules core.Rules) []string {
		spec := byHand()
		spec.Schedule = "*/2 * * * *"
		j := newChangedJob(t, rules, spec)
		j.fire(95 * time.Second) // makes the run of 14:02
		j.send(96*time.Second, core.JobPause{By: "ann"})
		j.edit(97*time.Second, "* * * * *") // which has 14:02, too
		j.fire(120 * time.Second)           // the run asks, and is skipped
		j.send(250*time.Second, core.JobResume{})
		return j.ledger()
	}
	assert.Equal(t, []string{"14:02:00 to 14:04:00: 3 skipped"}, edited(0))
	assert.Equal(t, []string{"14:02:00 to 14:04:00: 4 skipped"}, edited(10), "as it was decided")
}

func TestATimeWhoseRunIsCancelledAheadHasOneVerdictAndEndsNoTimesBeforeIt(t *testing.T) {
	cancelled := func(rules core.Rules) []string {
		spec := byHand()
		spec.Schedule = "*/4 * * * *"
		spec.CreateAheadMS = 200_000
		j := newChangedJob(t, rules, spec)
		j.fire(50 * time.Second) // makes the run of 14:04
		j.cancelRun(51*time.Second, 4*time.Minute)
		j.edit(52*time.Second, "* * * * *")
		j.fire(10 * time.Minute)
		return j.ledger()
	}
	assert.Equal(t, []string{
		"14:04:00 to 14:04:00: 1 cancelled", "14:01:00 to 14:03:00: 3 missed", "14:05:00 to 14:09:00: 5 missed", "14:10:00 to 14:10:00: 1 dispatched",
	}, cancelled(0))
	assert.Equal(t, []string{
		"14:04:00 to 14:04:00: 1 cancelled", "14:05:00 to 14:09:00: 5 missed", "14:10:00 to 14:10:00: 1 dispatched",
	}, cancelled(10), "as it was decided: 14:01 to 14:03 had no verdict")
}

func TestATimeWhoseRunIsCancelledAfterAnEditIsNotMissedAsWell(t *testing.T) {
	spec := byHand()
	spec.Schedule = "*/2 * * * *"
	j := newChangedJob(t, 0, spec)
	j.fire(95 * time.Second) // makes the run of 14:02
	j.edit(96*time.Second, "*/10 * * * * *")
	j.cancelRun(97*time.Second, 2*time.Minute)
	assert.Equal(t, []core.Time{start.Add(2 * time.Minute)}, j.state().Decided)
	assert.NotContains(t, j.state().NextTimes(start.Add(97*time.Second), nil), start.Add(2*time.Minute))
	j.fire(10 * time.Minute)
	assert.Equal(t, []string{
		"14:02:00 to 14:02:00: 1 cancelled", "14:01:40 to 14:01:50: 2 missed", "14:02:10 to 14:09:50: 47 missed", "14:10:00 to 14:10:00: 1 dispatched",
	}, j.ledger())
	assert.Empty(t, j.state().Decided)
}

func TestARunThatAnEditInAPauseHasLeftWithoutATimeIsCancelled(t *testing.T) {
	edited := func(rules core.Rules) []string {
		spec := byHand()
		spec.Schedule = "* * * * *"
		j := newChangedJob(t, rules, spec)
		j.fire(45 * time.Second) // makes the run of 14:01
		j.send(46*time.Second, core.JobPause{By: "ann"})
		j.edit(47*time.Second, "30 12 * * *")
		j.send(70*time.Second, core.JobResume{})
		return j.ledger()
	}
	assert.Equal(t, []string{"14:01:00 to 14:01:00: 1 cancelled"}, edited(0))
	assert.Equal(t, []string{"14:01:00 to 14:01:00: 1 skipped"}, edited(10), "as it was decided")
}

func TestAJobThatAWrongClockHasLedYearsAheadGoesOnAfterEachEdit(t *testing.T) {
	edited := func(rules core.Rules) (next []int) {
		spec := byHand()
		spec.Schedule = "* * * * *"
		j := newChangedJob(t, rules, spec)
		j.fire(10 * 365 * 24 * time.Hour)
		for i, schedule := range []string{"*/2 * * * *", "*/3 * * * *"} {
			j.edit(time.Duration(i)*time.Second, schedule)
			next = append(next, j.state().NextRunAt.Std().Year())
		}
		return next
	}
	assert.Equal(t, []int{2026, 2026}, edited(0))
	assert.Equal(t, []int{2026, 2036}, edited(10), "as it was decided")
}

func TestTheNextTimesOfAnEditedJobAreInOrderAndEachStandsThereOnce(t *testing.T) {
	spec := byHand()
	spec.Schedule = "*/2 * * * *"
	j := newChangedJob(t, 0, spec)
	j.fire(95 * time.Second) // makes the run of 14:02
	at := func(seconds ...int) (times []core.Time) {
		for _, s := range seconds {
			times = append(times, start.Add(time.Duration(s)*time.Second))
		}
		return times
	}
	assert.Equal(t, at(105, 120, 135, 150, 165), j.edit(96*time.Second, "*/15 * * * * *").NextTimes)
	assert.Equal(t, at(120, 180, 240, 300, 360), j.edit(97*time.Second, "* * * * *").NextTimes)
}
