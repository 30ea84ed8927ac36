package cli

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

func TestRunShowListsEachAttemptAndSaysWhoseTheTimesAre(t *testing.T) {
	at := func(s int) effects.Time {
		return effects.TimeOf(time.Date(2026, 3, 1, 2, 0, 0, 0, time.UTC)).Add(time.Duration(s) * time.Second)
	}
	ran := func(from, to int, began, ended core.TimeSource) core.PodTimes {
		return core.PodTimes{StartedAt: at(from), StartedBy: began, EndedAt: at(to), EndedBy: ended}
	}
	o := core.Orchestrator{
		RetryAttempt: 5, CreationAskedAt: at(99), Ran: core.PodTimes{StartedAt: at(100), StartedBy: core.TimeObserved},
		Pod: core.Pod{Name: "p5", Node: "n2"},
		PastAttempts: []core.PastAttempt{
			{Attempt: 2, Failure: "no cluster"},
			{Attempt: 3, StartedAt: at(20), Failure: "noted by an earlier build"},
			{Attempt: 4, Failure: "exit code 137: OOMKilled", Ran: ran(30, 35, core.TimeCluster, core.TimeObserved), Pod: "p4", Node: "n1", ExitCode: new(int32(137))},
		},
	}
	assert.Equal(t, [][]string{
		{"0-1", "-", "-", "-", "-", "-", "-", "not known any more"},
		{"2", "-", "-", "-", "-", "-", "-", "no cluster"},
		{"3", "-", "-", "2026-03-01 02:00:20", "-", "observed", "-", "noted by an earlier build"},
		{"4", "p4", "n1", "2026-03-01 02:00:30", "5s", "cluster, observed", "137", "exit code 137: OOMKilled"},
		{"5", "p5", "n2", "2026-03-01 02:01:40", "-", "observed", "-", "-"},
	}, attemptRows(o))
	assert.Equal(t, "0", attemptRows(core.Orchestrator{RetryAttempt: 1})[0][0])
	assert.Empty(t, attemptRows(core.Orchestrator{}), "nothing was tried yet")

	shown := runView(wire.Run{Orchestrator: core.Orchestrator{
		Ran:    ran(0, 8, core.TimeShifted, core.TimeShifted),
		Checks: []core.ConstraintCheck{{Name: "maxAllowedRunTime", Phase: effects.CheckPost, Message: "it ran for 8s, and 5s is allowed"}},
	}}).text(screen{})
	assert.Regexp(t, `started +\S+ \(shifted\)\n`, shown)
	assert.Regexp(t, `maxAllowedRunTime +post +0 +violated +it ran for 8s, and 5s is allowed`, shown)
}

// A pod of 5 s is shown as such, though the daemon heard of it 20 s later, and took its time to delete it.
func TestRunListShowsHowLongThePodRan(t *testing.T) {
	started := effects.TimeOf(time.Date(2026, 3, 1, 2, 0, 0, 0, time.UTC))
	a := &app{env: func(string) string { return "" }}
	_, rows := a.runListing().rows(nil, []wire.RunSummary{{
		RunID: "r", StartedAt: started, CompletedAt: started.Add(23_700 * time.Millisecond),
		Ran: core.PodTimes{StartedAt: started, StartedBy: core.TimeCluster, EndedAt: started.Add(5 * time.Second), EndedBy: core.TimeCluster},
	}})
	assert.Contains(t, rows[0], "5s")
	assert.Contains(t, rows[0], "2026-03-01 02:00:00")
}
