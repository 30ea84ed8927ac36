package core_test

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
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
	s, effs := s.Apply(core.SchedulerDue{}, late)
	assert.Len(t, sends[core.OrchestratorOrphan](step{effs: effs}), core.MaxOrphansAtOnce)
	require.Equal(t, start.Add(30*time.Second), s.Deadline(), "the others are due at once")
	s, effs = s.Apply(core.SchedulerDue{}, late)
	assert.Len(t, sends[core.OrchestratorOrphan](step{effs: effs}), 44)
	assert.Empty(t, s.Runs)
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
	require.Equal(t, []core.RunStage{core.StagePlaced, core.StageAsked}, []core.RunStage{first.Stage, second.Stage})

	beat := start.Add(20 * time.Second)
	w.send(t, core.SchedulerRef(second.Run), core.SchedulerHeartbeats{Runs: []uuid.UUID{second.Run}}, beat, &seq)
	w.pass(t, core.Clock{Now: start.Add(31 * time.Second)}, &seq)

	runs := load[core.Orchestrator](w, core.KindOrchestrator)
	orphan, next := runs[refOf(first.Run)], runs[refOf(second.Run)]
	assert.Equal(t, core.OrchestratorOrphaned, orphan.State)
	assert.Contains(t, orphan.Error, "no heartbeat since "+start.String()+": 3 were missed")
	assert.Equal(t, core.StepDeleting, orphan.Step, "it cleans up")
	assert.Equal(t, core.OrchestratorContainerCreating, next.State)
	assert.Equal(t, core.JobCounts{Dispatched: 2, Orphaned: 1}, load[core.Job](w, core.KindJob)[key].Counts)
}
