package core_test

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

func TestASchedulerDeclaresManyOrphansInPortions(t *testing.T) {
	var s core.Scheduler
	const runs = core.MaxOrphansAtOnce + 44
	for n := range uint32(runs) {
		run := id(1)
		binary.BigEndian.PutUint32(run[12:], n)
		s, _ = s.Apply(core.SchedulerTrack{Run: run}, core.Clock{Now: start})
	}
	late := core.Clock{Now: start.Add(30 * time.Second)}
	for range 1 + s.MaxMissed { // the first one after a run began is not counted
		require.Zero(t, s.Deadline())
		s, _ = s.Apply(core.SchedulerHeartbeats{}, late)
	}
	s, effs := s.Apply(core.SchedulerDue{}, late)
	assert.Len(t, sends[core.OrchestratorOrphan](step{effs: effs}), core.MaxOrphansAtOnce)
	require.Equal(t, start.Add(30*time.Second), s.Deadline(), "the others are due at once")
	s, effs = s.Apply(core.SchedulerDue{}, late)
	assert.Len(t, sends[core.OrchestratorOrphan](step{effs: effs}), 44)
	assert.Empty(t, s.Runs)
}

// The journal may say in fewer words what was sent, but never something else.
func TestHeartbeatsThatAreShortenedAreTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		clock := core.Clock{Now: start}
		s := hostileScheduler(t).(core.Scheduler)
		if rapid.Bool().Draw(t, "sound") {
			s = core.Scheduler{}
			for n := range rapid.IntRange(0, 6).Draw(t, "tracked") {
				s, _ = s.Apply(core.SchedulerTrack{Run: id(n + 1)}, clock)
			}
		}
		e, ok := drawSchedulerEvent(t, s, clock).(core.SchedulerHeartbeats)
		if !ok {
			return
		}
		if rapid.IntRange(0, 3).Draw(t, "as configured") == 0 {
			e.IntervalMS, e.MaxMissed = s.IntervalMS, s.MaxMissed
		}
		clock.Now = clock.Now.Add(10 * time.Second)
		want, effs := s.Apply(e, clock)
		if refusal(effs) != nil {
			return
		}
		short := s.Shortened(e)
		got, effs := s.Apply(short, clock)
		require.Nil(t, refusal(effs))
		require.Equal(t, want, got)
		require.LessOrEqual(t, len(encoded(short)), len(encoded(e))+len(`"all":true,"except":[],`))
	})
	s := madeScheduler(core.SchedulerTrack{Run: id(1)}, core.SchedulerTrack{Run: id(2)}, core.SchedulerTrack{Run: id(3)})
	for want, e := range map[string]core.SchedulerHeartbeats{
		`{"type":"heartbeats","all":true}`:                                     {Runs: []uuid.UUID{id(3), id(2), id(1), id(9)}, IntervalMS: 10_000, MaxMissed: 3},
		`{"type":"heartbeats","all":true,"interval_ms":5000}`:                  {Runs: []uuid.UUID{id(3), id(2), id(1)}, IntervalMS: 5_000, MaxMissed: 3},
		`{"type":"heartbeats","all":true,"except":["` + id(2).String() + `"]}`: {Runs: []uuid.UUID{id(3), id(1)}},
		`{"type":"heartbeats","runs":["` + id(2).String() + `"]}`:              {Runs: []uuid.UUID{id(2)}},
	} {
		assert.Equal(t, want, encoded(s.Shortened(e)))
	}
	s.Runs = []core.TrackedRun{{Run: id(1)}, {Run: id(1)}, {Run: id(2)}}
	twice := core.SchedulerHeartbeats{Runs: []uuid.UUID{id(1), id(2)}}
	assert.Equal(t, twice, s.Shortened(twice), "a damaged record: of a run that stands in it twice, one beats")
}

// What rules before 5 have decided they decide in a replay: by the time since the last
// heartbeat, and a late due event spares once.
func TestBeforeRules5TheTimeOrphansARun(t *testing.T) {
	var s core.Scheduler
	at := func(after time.Duration, e core.SchedulerEvent) []effects.Effect {
		var effs []effects.Effect
		s, effs = s.Apply(e, core.Clock{Now: start.Add(after), Rules: 4})
		return effs
	}
	orphans := func(effs []effects.Effect) int {
		require.Nil(t, refusal(effs))
		return len(sends[core.OrchestratorOrphan](step{effs: effs}))
	}
	for n := range 3 {
		at(0, core.SchedulerTrack{Run: id(n + 1)})
	}
	require.NotNil(t, refusal(at(5*time.Second, core.SchedulerHeartbeats{})), "a report without heartbeats is none")
	at(10*time.Second, core.SchedulerHeartbeats{Runs: []uuid.UUID{id(1), id(2)}})
	require.Equal(t, start.Add(30*time.Second), s.Deadline())
	assert.Equal(t, 1, orphans(at(35*time.Second, core.SchedulerDue{})), "in time")
	require.Equal(t, start.Add(40*time.Second), s.Deadline())
	assert.Zero(t, orphans(at(46*time.Second, core.SchedulerDue{})), "later than half an interval")
	require.Equal(t, start.Add(76*time.Second), s.Deadline())
	assert.Equal(t, 2, orphans(at(time.Hour, core.SchedulerDue{})), "once alone")
	assert.Empty(t, s.Runs)
	assert.Zero(t, s.ReportedAt)

	s = core.Scheduler{}
	at(0, core.SchedulerTrack{Run: id(1)})
	s, effs := s.Apply(core.SchedulerDue{}, core.Clock{Now: start.Add(30 * time.Second)})
	require.Nil(t, refusal(effs))
	assert.Empty(t, effs, "rules of now count from now")
	assert.Zero(t, s.Deadline())
}

func TestTheRunsAreSpreadOverTheSchedulersByTheirFirstByte(t *testing.T) {
	seen := map[uuid.UUID]bool{}
	for n := range 256 {
		seen[core.SchedulerRef(uuid.UUID{byte(n), 1}).ID] = true
		assert.Equal(t, core.SchedulerRef(uuid.UUID{byte(n), 1}), core.SchedulerRef(uuid.UUID{byte(n), 2}))
	}
	assert.Len(t, seen, 256)
}

// A run whose runner hangs is orphaned through the real machines, and its place is
// given to the next one.
func TestARunThatStopsBeatingIsOrphanedAndGivesItsPlaceBack(t *testing.T) {
	spec := byHand()
	spec.MaxConcurrentRuns = 1
	w, key, seq := jobWorld(t, spec)
	for range 2 {
		w.send(t, key, core.JobTrigger{}, start, &seq)
	}
	w.fire(t, start.Add(time.Second), &seq)
	job := load[core.Job](w, core.KindJob)[key]
	first, second := job.Active[0], job.Active[1]
	require.Equal(t, []core.RunStage{core.StageAdmitted, core.StageAsked}, []core.RunStage{first.Stage, second.Stage})

	for n := range 4 {
		at := start.Add(time.Duration(n+1) * 10 * time.Second)
		w.send(t, core.SchedulerRef(second.Run), core.SchedulerHeartbeats{Runs: []uuid.UUID{second.Run}}, at, &seq)
		if core.SchedulerRef(first.Run) != core.SchedulerRef(second.Run) {
			w.send(t, core.SchedulerRef(first.Run), core.SchedulerHeartbeats{}, at, &seq)
		}
	}
	w.pass(t, core.Clock{Now: start.Add(41 * time.Second)}, &seq)

	runs := load[core.Orchestrator](w, core.KindOrchestrator)
	orphan, next := runs[refOf(first.Run)], runs[refOf(second.Run)]
	assert.Equal(t, core.OrchestratorOrphaned, orphan.State)
	assert.Contains(t, orphan.Error, "no heartbeat since "+start.String()+": 3 were missed")
	assert.Equal(t, core.StepDeleting, orphan.Step, "it cleans up")
	assert.Equal(t, core.OrchestratorContainerCreating, next.State)
	assert.Equal(t, core.JobCounts{Dispatched: 2, Orphaned: 1}, load[core.Job](w, core.KindJob)[key].Counts)
}
