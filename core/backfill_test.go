package core_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

// scheduleDouble stands for the schedule of backfills: it makes at most one run of each time, whoever
// asks, refuses a time that has one, and a few at random.
type scheduleDouble struct {
	runs map[core.Time]uuid.UUID // by an id that follows from the time
	live []doubleRun
}

type doubleRun struct {
	at    core.Time
	owner core.Owner
}

// take gives the answer to a time that is refused; ok: it runs.
func (s *scheduleDouble) take(t *rapid.T, e core.BackfillTime) (refused core.ChildEnded, ok bool) {
	refused = core.ChildEnded{N: e.Owner.N, Outcome: core.ChildRefused, Reason: "it exists already"}
	if _, has := s.runs[e.At]; has {
		return refused, false
	}
	switch rapid.IntRange(0, 9).Draw(t, "schedule") {
	case 0:
		refused.Reason = "no"
		return refused, false
	case 1:
		refused.Reason, refused.Limited = "the tenant is full", true
		return refused, false
	}
	s.runs[e.At] = uuid.NewSHA1(uuid.Nil, []byte(e.At.String()))
	s.live = append(s.live, doubleRun{e.At, e.Owner})
	return refused, true
}

// pacedModel knows independently of the machine what two starts of one backfill must keep.
type pacedModel struct {
	b       core.Backfill
	active  map[uint32]bool
	started core.Time // of the last time that was not refused; zero: none
	asked   map[core.Time]int
	told    int
}

func (m *pacedModel) apply(t *rapid.T, e core.BackfillEvent, now core.Time) []effects.Effect {
	after, effs := m.b.Apply(e, core.Clock{Now: now})
	require.Nil(t, refusal(effs), "%s: %v", e.EventType(), effs)
	m.b = after
	return effs
}

// dispatch wakes the backfill, and gives its time to the schedule.
func (m *pacedModel) dispatch(t *rapid.T, s *scheduleDouble, now core.Time) {
	effs := m.apply(t, core.BackfillDue{}, now)
	sent := sends[core.BackfillTime](step{effs: effs})
	require.Len(t, sent, 1)
	m.asked[sent[0].At]++
	refused, ok := s.take(t, sent[0])
	if !ok {
		if refused.Limited {
			m.asked[sent[0].At]--
		} else {
			m.told++
		}
		m.apply(t, refused, now)
		return
	}
	require.LessOrEqual(t, len(m.active), int(m.b.MaxActive)-1, "one more than may be under way")
	if !m.started.IsZero() {
		require.GreaterOrEqual(t, int64(now-m.started), m.b.SpacingSeconds*1000, "too soon after the start before it")
	}
	m.active[sent[0].Owner.N], m.started = true, now
}

func (m *pacedModel) ended(t *rapid.T, n uint32, now core.Time) {
	delete(m.active, n)
	m.told++
	m.apply(t, core.ChildEnded{N: n, Outcome: rapid.SampledFrom([]core.ChildOutcome{core.ChildSucceeded, core.ChildFailed, core.ChildCancelled}).Draw(t, "outcome")}, now)
}

// Two backfills whose ranges overlap, with a schedule that runs each time once: whatever ends when,
// and whoever cancels.
func TestBackfillsKeepTheirPaceAndTellOfEachTimeOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &scheduleDouble{runs: map[core.Time]uuid.UUID{}}
		models := map[uuid.UUID]*pacedModel{}
		var order []uuid.UUID
		for i := range 2 {
			spec := backfillOf(rapid.IntRange(0, 12).Draw(t, "times"))
			spec.ID, spec.MaxActive, spec.SpacingSeconds = id(20+i), uint32(rapid.IntRange(1, 4).Draw(t, "max_active")), rapid.SampledFrom([]int64{0, 0, 7, 60}).Draw(t, "spacing")
			models[spec.ID] = &pacedModel{b: madeBackfill(spec), active: map[uint32]bool{}, asked: map[core.Time]int{}}
			order = append(order, spec.ID)
		}
		now := start
		cancels := rapid.SampledFrom([]int{-1, -1, 5, 20}).Draw(t, "cancels after")
		for steps := range 2000 {
			now = now.Add(time.Duration(rapid.IntRange(0, 20_000).Draw(t, "passes")) * time.Millisecond)
			m := models[order[rapid.IntRange(0, 1).Draw(t, "which")]]
			if steps == cancels && m.b.Status == core.BackfillRunning {
				m.apply(t, core.BackfillCancel{}, now)
			}
			if at := m.b.Deadline(); !at.IsZero() && !at.After(now) {
				m.dispatch(t, s, now)
			} else if len(s.live) > 0 {
				i := rapid.IntRange(0, len(s.live)-1).Draw(t, "ends")
				run := s.live[i]
				s.live = slices.Delete(s.live, i, i+1)
				models[run.owner.Ref.ID].ended(t, run.owner.N, now)
			}
			if models[order[0]].b.Status.Ended() && models[order[1]].b.Status.Ended() && len(s.live) == 0 {
				break
			}
		}
		for _, ref := range order {
			m := models[ref]
			n := m.b.Counts
			require.True(t, m.b.Status.Ended(), "%s", encoded(m.b))
			require.Empty(t, m.b.Active)
			require.Empty(t, m.active)
			require.EqualValues(t, m.told, n.Succeeded+n.Failed+n.Cancelled+n.Refused)
			for at, asked := range m.asked {
				require.LessOrEqual(t, asked, 1, "%s", at)
			}
			if m.b.Status == core.BackfillCompleted {
				require.Equal(t, len(m.b.Times), m.told, "all are told at the end")
			}
		}
	})
}

func TestABackfillKeepsTheLastProblemsAndShortReasons(t *testing.T) {
	spec := backfillOf(30)
	spec.MaxActive = 1
	b := madeBackfill(spec)
	for n := uint32(1); n <= 30; n++ {
		b = afterEvents(core.Backfill.Apply, b, []core.BackfillEvent{
			core.BackfillDue{}, core.ChildEnded{N: n, Outcome: core.ChildFailed, Reason: fmt.Sprint(n) + strings.Repeat("x", 5000)},
		}...)
	}
	assert.Equal(t, core.BackfillCompleted, b.Status)
	assert.EqualValues(t, 30, b.Counts.Failed)
	require.Len(t, b.Problems, core.MaxBackfillProblems)
	assert.Equal(t, spec.Times[29], b.Problems[19].At)
	assert.LessOrEqual(t, len(b.Problems[19].Reason), 500)
}

// A part of a dispatch that is refused undoes the whole input: of a backfill only the one time, which
// counts as refused, or is put off if a limit is the reason.
func TestATimeWhoseActionCannotBeMadeIsUndoneAloneAndTheBackfillGoesOn(t *testing.T) {
	b := madeBackfill(backfillOf(2))
	refused, effs := b.Apply(core.BackfillDue{Refusal: "it exists already"}, core.Clock{Now: start})
	require.Nil(t, refusal(effs))
	assert.EqualValues(t, 1, refused.Counts.Refused)
	assert.Equal(t, start, refused.Deadline(), "the next one is due at once")
	held, effs := b.Apply(core.BackfillDue{Refusal: "full", Limited: true}, core.Clock{Now: start})
	require.Nil(t, refusal(effs))
	assert.Zero(t, held.Counts.Refused)
	assert.Equal(t, start.Add(5*time.Second), held.Deadline())
	assert.Equal(t, "full", held.Held)
}

func TestDueTimesAreThoseOfTheScheduleThatItDoesNotLeaveOut(t *testing.T) {
	made, err := effects.ParseTime("2026-02-10T14:30:00Z")
	require.NoError(t, err)
	at := func(s string) core.Time {
		v, err := effects.ParseTime(s)
		require.NoError(t, err)
		return v
	}
	spec := core.RecurringSpec{
		ID: id(1), CronExpr: "0 12 * * *", Timezone: "UTC", Enabled: true, EndsAt: at("2026-03-01T12:00:00Z"),
		ActionTemplate:  core.RecurringActionTemplate{Provider: "http", ActionType: "get"},
		ScheduleOptions: core.ScheduleOptions{StartsAt: at("2026-01-30T00:00:00Z")},
	}
	r, effs := core.RecurringAction{}.Apply(core.RecurringCreate{Spec: spec}, core.Clock{Now: made})
	require.Nil(t, refusal(effs))

	times, more := r.DueTimes(at("2026-01-01T00:00:00Z"), at("2026-02-01T12:00:00Z"), nil, 100)
	assert.Equal(t, []core.Time{at("2026-01-30T12:00:00Z"), at("2026-01-31T12:00:00Z")}, times, "none before starts_at, and not the end of the range")
	assert.False(t, more)
	times, more = r.DueTimes(at("2026-02-01T12:00:00Z"), at("2026-02-09T00:00:00Z"), nil, 2)
	assert.Equal(t, []core.Time{at("2026-02-01T12:00:00Z"), at("2026-02-02T12:00:00Z")}, times, "the beginning of the range belongs to it")
	assert.True(t, more)
	times, _ = r.DueTimes(at("2026-02-27T00:00:00Z"), at("2026-03-09T00:00:00Z"), nil, 100)
	assert.Len(t, times, 2, "none at or after ends_at")

	r.Calendars = []string{"weekend"}
	times, _ = r.DueTimes(at("2026-01-30T00:00:00Z"), at("2026-02-03T00:00:00Z"), core.CalendarSet(madeCalendar(weekend())), 100)
	assert.Equal(t, []core.Time{at("2026-01-30T12:00:00Z"), at("2026-02-02T12:00:00Z")}, times)
	times, _ = r.DueTimes(at("2026-01-30T00:00:00Z"), at("2026-02-03T00:00:00Z"), nil, 100)
	assert.Empty(t, times, "a calendar that is gone leaves out what it may have left out")

	assert.Equal(t, made, r.DecidedBefore(made))
	assert.Equal(t, r.NextExecutionAt, r.DecidedBefore(r.NextExecutionAt.Add(time.Hour)), "what is due and undecided is the schedule's")
}

func TestAJobHasDecidedBeforeTheRunsThatWait(t *testing.T) {
	now := start
	j, effs := core.Job{}.Apply(core.JobApply{Spec: core.JobSpec{ID: "j", Schedule: "* * * * *", PodSpec: []byte(`{"containers":[]}`)}}, core.Clock{Now: now})
	require.Nil(t, refusal(effs))
	times, more := j.DueTimes(now.Add(-3*time.Minute), now, nil, 10)
	assert.Len(t, times, 3)
	assert.False(t, more)
	assert.Equal(t, now, j.DecidedBefore(now))
	late := now.Add(10 * time.Minute)
	assert.Equal(t, j.NextRunAt, j.DecidedBefore(late), "for these no run was made yet")
	j.NextRunAt = late
	j.Active = []core.ActiveRun{{ScheduledAt: now.Add(time.Minute), Stage: core.StageAsked}, {ScheduledAt: now, Stage: core.StageAdmitted}, {ScheduledAt: now, Stage: core.StageAsked, Manual: true}}
	assert.Equal(t, now.Add(time.Minute), j.DecidedBefore(late), "a run waits for a slot")
	j.Active[0].Owner = recurringOwner
	assert.Equal(t, late, j.DecidedBefore(late), "that of a backfill holds up no other one")
	times, _ = core.Job{}.DueTimes(now, late, nil, 10)
	assert.Empty(t, times)
}

// The end of a pause has come, and the schedule has not decided since: the times from the end on are
// the schedule's, and those before it are the pause's.
func TestWhatCameSinceTheEndOfAPauseIsTheSchedules(t *testing.T) {
	until, now := start.Add(10*time.Minute), start.Add(15*time.Minute)
	backfill := func(at core.Time) core.BackfillTime { return core.BackfillTime{At: at, Owner: recurringOwner} }

	r, _ := core.RecurringAction{}.Apply(core.RecurringCreate{Spec: everyMinute("")}, core.Clock{Now: start})
	first := r.NextExecutionAt
	r, _ = r.Apply(core.RecurringPause{Until: until}, core.Clock{Now: start, Step: 1})
	assert.Equal(t, until, r.DecidedBefore(now))
	_, effs := r.Apply(backfill(first.Add(12*time.Minute)), core.Clock{Now: now, Step: 2})
	require.NotNil(t, refusal(effs))
	assert.Contains(t, refusal(effs).Reason, "is not decided about yet")
	_, effs = r.Apply(backfill(first.Add(time.Minute)), core.Clock{Now: now, Step: 2})
	assert.Nil(t, refusal(effs))

	spec := byHand()
	spec.Schedule, spec.Missed = "* * * * *", core.MissedAll
	j, _ := core.Job{}.Apply(core.JobApply{Spec: spec}, core.Clock{Now: start})
	j, _ = j.Apply(core.JobPause{Until: until}, core.Clock{Now: start, Step: 1})
	assert.Equal(t, until, j.DecidedBefore(now))
	_, effs = j.Apply(backfill(first.Add(12*time.Minute)), core.Clock{Now: now, Step: 2})
	require.NotNil(t, refusal(effs))
	assert.Contains(t, refusal(effs).Reason, "is not decided about yet")
	j, effs = j.Apply(backfill(first.Add(time.Minute)), core.Clock{Now: now, Step: 2})
	require.Nil(t, refusal(effs))
	j, _ = j.Apply(core.JobDue{}, core.Clock{Now: now, Step: 3})
	live := 0
	for _, a := range j.Active {
		if a.Owner.IsZero() && !a.ScheduledAt.Before(until) {
			live++
		}
	}
	assert.GreaterOrEqual(t, live, 5, "they are caught up: %v", j.Active)
}

// A job whose pause has ended, and that has not decided since, is changed or deleted.
func TestNoTimeFromBeforeAJobIsMissedIfItIsDeletedAsItsPauseEnds(t *testing.T) {
	spec := byHand()
	spec.Schedule = "* * * * *"
	j, _ := core.Job{}.Apply(core.JobApply{Spec: spec}, core.Clock{Now: start})
	j, _ = j.Apply(core.JobPause{Until: start.Add(10 * time.Minute)}, core.Clock{Now: start, Step: 1})
	edited := spec
	edited.Schedule = "*/5 * * * *"
	for _, e := range []core.JobEvent{core.JobDelete{}, core.JobApply{Spec: edited}} {
		_, effs := j.Apply(e, core.Clock{Now: start.Add(15 * time.Minute), Step: 2})
		require.Nil(t, refusal(effs))
		for _, o := range recordedBy(effs) {
			assert.Greater(t, o.DueAt, start, "%s %s: %d times, %s", e.EventType(), o.Verdict, o.Count, o.Reason)
		}
	}
}

// A limit of the tenant puts the times of a backfill off: it is asked again every few seconds, and of
// what was not dispatched nothing stays, neither entries nor counts.
func TestATimeThatALimitPutsOffLeavesNothingInTheHistoryOfItsSchedule(t *testing.T) {
	for _, dedup := range []string{"", "k"} {
		w, seq := world{}, new(uint64)
		ref := w.made(t, seq, recurringRef, core.RecurringCreate{Spec: everyMinute(dedup)})
		schedule := func() core.RecurringAction { return load[core.RecurringAction](w, core.KindRecurring)[ref] }
		first := schedule().NextExecutionAt.Add(-2 * time.Minute)
		spec := core.BackfillSpec{ID: id(50), Namespace: "n", Tenant: "t", Schedule: ref, From: first, To: first.Add(90 * time.Second), Times: []core.Time{first, first.Add(time.Minute)}}
		of := w.made(t, seq, effects.Ref{Kind: core.KindBackfill, ID: spec.ID}, core.BackfillCreate{Spec: spec})
		backfill := func() core.Backfill { return load[core.Backfill](w, core.KindBackfill)[of] }
		before := schedule()
		for range 3 {
			res, said := w.bounded(t, room{core.KindAction: 0}, backfill().Deadline(), seq, dueInput(of))
			require.True(t, res.Changed)
			assert.Empty(t, said)
			require.NotEmpty(t, backfill().Held)
		}
		assert.Equal(t, before, schedule())
		assert.Empty(t, load[core.Occurrence](w, core.KindOccurrence))
		assert.Empty(t, load[core.Dedup](w, core.KindDedup))

		w.bounded(t, room{core.KindAction: 9}, backfill().Deadline(), seq, dueInput(of))
		require.Len(t, schedule().Running, 1)
		assert.Equal(t, first, schedule().Running[0].DueAt)
		assert.Len(t, load[core.Action](w, core.KindAction), 1)
	}
}

// The same of a job: nobody is told of a refusal every few seconds.
func TestARunThatALimitPutsOffIsRefusedInSilence(t *testing.T) {
	spec := byHand()
	spec.Schedule = "* * * * *"
	j, _ := core.Job{}.Apply(core.JobApply{Spec: spec}, core.Clock{Now: start})
	j, effs := j.Apply(core.BackfillTime{At: j.NextRunAt.Add(-time.Minute), Owner: recurringOwner}, core.Clock{Now: start, Step: 1})
	require.Nil(t, refusal(effs))
	refused := core.ChildEnded{Child: effects.Ref{Kind: core.KindOrchestrator, ID: j.Active[0].Run}, Outcome: core.ChildRefused, Reason: "full", Limited: true}
	after, effs := j.Apply(refused, core.Clock{Now: start, Step: 1})
	assert.Empty(t, after.Active)
	require.Len(t, effs, 1, "its backfill alone is told: %v", effs)
	assert.Len(t, sends[core.ChildEnded](step{effs: effs}), 1)
	refused.Limited = false
	_, effs = j.Apply(refused, core.Clock{Now: start, Step: 1})
	assert.Len(t, effs, 2, "what no limit has refused is announced, too")
}
