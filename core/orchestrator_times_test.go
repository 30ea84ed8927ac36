package core_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/orrery-go/orrery/core"
)

// A run whose pod is asked for at start, with as many attempts as it takes.
func askedForAPod(t require.TestingT) core.Orchestrator {
	job := goldenJobSpec()
	job.ConstraintConfig, job.RetryConfig.MaxRetries = nil, 40
	o, clock := core.Orchestrator{}, core.Clock{Now: start}
	for _, e := range []core.OrchestratorEvent{core.OrchestratorCreate{Spec: runSpec(job, start)}, core.OrchestratorDue{}, core.OrchestratorAdmit{Occurrence: id(5)}} {
		o, _ = o.Apply(e, clock)
	}
	require.Equal(t, core.OrchestratorContainerCreating, o.State)
	return o
}

// apply applies an event that long after start, under the rules of a version.
func appliedAfter(o core.Orchestrator, after time.Duration, rules core.Rules, e core.OrchestratorEvent) core.Orchestrator {
	o, _ = o.Apply(e, core.Clock{Now: start.Add(after), Rules: rules})
	return o
}

const sec = time.Second

// secondsAfter gives the time so many seconds after start; none for never.
func secondsAfter(s int) core.Time {
	if s == never {
		return 0
	}
	return start.Add(time.Duration(s) * sec)
}

const never = -1 << 30

func TestAPodRanWhenItsClusterSaysWhereThatCanBe(t *testing.T) {
	type told struct{ began, ended int }
	for name, row := range map[string]struct {
		runs    int // when it is heard that it runs; never: only that it has ended
		ends    int // when it is heard that it has ended
		told    told
		began   int
		by      core.TimeSource
		ended   int
		endedBy core.TimeSource
	}{
		"seen live":                       {3, 9, told{2, 7}, 2, core.TimeCluster, 7, core.TimeCluster},
		"ended while the daemon was away": {never, 25, told{2, 7}, 2, core.TimeCluster, 7, core.TimeCluster},
		"begun while the daemon was away": {25, 40, told{2, 39}, 2, core.TimeCluster, 39, core.TimeCluster},
		"told nothing":                    {3, 9, told{never, never}, 3, core.TimeObserved, 9, core.TimeObserved},
		"only told its end":               {3, 9, told{never, 7}, 3, core.TimeObserved, 7, core.TimeCluster},
		"only told its beginning":         {3, 9, told{2, never}, 2, core.TimeCluster, 9, core.TimeObserved},
		"ended before it began":           {3, 9, told{2, 1}, 2, core.TimeCluster, 2, core.TimeCluster},
		"ended long before it began":      {3, 9, told{2, -90}, 2, core.TimeCluster, 9, core.TimeObserved},
		"cut to whole seconds":            {3, 9, told{-1, 10}, 0, core.TimeCluster, 9, core.TimeCluster},
		"a clock an hour behind":          {3, 9, told{2 - 3600, 7 - 3600}, 3, core.TimeObserved, 8, core.TimeShifted},
		"a clock an hour ahead":           {3, 9, told{2 + 3600, 7 + 3600}, 3, core.TimeObserved, 8, core.TimeShifted},
		"behind, and away":                {never, 25, told{2 - 3600, 7 - 3600}, 20, core.TimeShifted, 25, core.TimeShifted},
		"ahead, and away":                 {never, 25, told{2 + 3600, 7 + 3600}, 20, core.TimeShifted, 25, core.TimeShifted},
		"a clock that was set meanwhile":  {3, 9, told{2, 3600}, 2, core.TimeCluster, 9, core.TimeObserved},
		"behind, and begun while away":    {25, 30, told{2 - 3600, 29 - 3600}, 25, core.TimeObserved, 30, core.TimeObserved},
		"set meanwhile, and away":         {never, 25, told{-3600, 7}, 25, core.TimeObserved, 25, core.TimeObserved},
		"longer than it can have been":    {3, 9, told{-3600, 3600}, 3, core.TimeObserved, 9, core.TimeObserved},
	} {
		t.Run(name, func(t *testing.T) {
			o, pod := askedForAPod(t), core.Pod{Name: "p", UID: "u", StartedAt: secondsAfter(row.told.began)}
			heard := row.ends
			if row.runs != never {
				heard = row.runs
				o = appliedAfter(o, time.Duration(row.runs)*sec, 0, core.PodRunning{Pod: pod})
			}
			pod.FinishedAt, pod.ExitCode = secondsAfter(row.told.ended), new(int32)
			o = appliedAfter(o, time.Duration(row.ends)*sec, 0, core.PodEnded{Pod: pod})
			assert.Equal(t, core.PodTimes{
				StartedAt: secondsAfter(row.began), StartedBy: row.by, EndedAt: secondsAfter(row.ended), EndedBy: row.endedBy,
			}, o.PodTimes())
			assert.Equal(t, secondsAfter(heard), o.ExecutionStartedAt, "when Orrery heard of it stays")
			assert.Equal(t, secondsAfter(row.ends), o.ExecutionEndedAt)
			assert.EqualValues(t, max(row.began, 0)*1000, o.Metrics.PodStartLatencyMS)
			for now := row.ends + 1; !o.State.Terminal(); now++ {
				o = appliedAfter(o, time.Duration(now)*sec, 0, core.EffectDone{N: core.Outstanding(o)[len(core.Outstanding(o))-1].Number()})
			}
			m := o.Metrics
			assert.EqualValues(t, (row.ended-row.began)*1000, m.ExecutionDurationMS)
			assert.Equal(t, m.TotalDurationMS, m.PreRunDurationMS+m.ConstraintCheckDurationMS+m.ExecutionDurationMS+m.TerminationDurationMS)
			assert.Equal(t, secondsAfter(row.began), o.Updates()[len(o.Updates())-1].StartedAt)
		})
	}
}

func TestAnAttemptOfAnEarlierVersionHasTheTimesThatItsRulesNoted(t *testing.T) {
	before := core.RulesOf("4")
	pod := core.Pod{Name: "p", StartedAt: secondsAfter(2)}
	o := appliedAfter(askedForAPod(t), 20*sec, before, core.PodRunning{Pod: pod})
	pod.FinishedAt, pod.ExitCode = secondsAfter(7), new(int32)
	for _, rules := range []core.Rules{before, 0} {
		ended := appliedAfter(o, 25*sec, rules, core.PodEnded{Pod: pod})
		assert.Zero(t, ended.Ran)
		assert.Equal(t, core.PodTimes{StartedAt: secondsAfter(2), StartedBy: core.TimeCluster, EndedAt: secondsAfter(7), EndedBy: core.TimeCluster}, ended.PodTimes())
		assert.EqualValues(t, 20_000, ended.Metrics.PodStartLatencyMS)
		assert.Equal(t, secondsAfter(20), ended.Updates()[0].StartedAt, "what was announced is told again as it was")
	}
	assert.Equal(t, core.PodTimes{StartedAt: secondsAfter(20), StartedBy: core.TimeObserved}, o.PodTimes())
}

// A pod that is stopped runs until it has ended, or until nothing of it is left.
func TestAPodThatIsStoppedHasRunUntilItsEnd(t *testing.T) {
	running := appliedAfter(askedForAPod(t), 3*sec, 0, core.PodRunning{Pod: core.Pod{Name: "p", StartedAt: secondsAfter(2)}})
	o := appliedAfter(running, 10*sec, 0, core.OrchestratorCancel{Reason: "enough"})
	deletion := core.Outstanding(o)[0].Number()
	unseen := appliedAfter(o, 20*sec, 0, core.EffectDone{N: deletion})
	require.Equal(t, core.OrchestratorCancelled, unseen.State)
	assert.Equal(t, core.PodTimes{StartedAt: secondsAfter(2), StartedBy: core.TimeCluster, EndedAt: secondsAfter(20), EndedBy: core.TimeObserved}, unseen.PodTimes())
	assert.EqualValues(t, 18_000, unseen.Metrics.ExecutionDurationMS)

	limited := running
	limited.MaxAllowedRunTimeMS = 7_000
	limited = appliedAfter(limited, 10*sec, 0, core.OrchestratorDue{})
	require.Equal(t, core.OrchestratorTerminating, limited.State)
	assert.Zero(t, limited.PodTimes().EndedAt, "it was only told to end")
	limited = appliedAfter(limited, 20*sec, 0, core.EffectDone{N: core.Outstanding(limited)[0].Number()})
	assert.Equal(t, unseen.PodTimes(), limited.PodTimes())

	o = appliedAfter(o, 15*sec, 0, core.PodEnded{Pod: core.Pod{Name: "p", StartedAt: secondsAfter(2), FinishedAt: secondsAfter(14), ExitCode: new(int32(143))}})
	o = appliedAfter(o, 20*sec, 0, core.EffectDone{N: deletion})
	assert.Equal(t, core.PodTimes{StartedAt: secondsAfter(2), StartedBy: core.TimeCluster, EndedAt: secondsAfter(14), EndedBy: core.TimeCluster}, o.PodTimes())
	assert.EqualValues(t, 12_000, o.Metrics.ExecutionDurationMS)
	assert.EqualValues(t, 6_000, o.Metrics.TerminationDurationMS)
}

// Whatever a cluster tells, no time of a pod is before its creation, after the moment at
// which it was told, or before its beginning, and its beginning stays as it was told first.
func TestNoClockOfANodeMakesNonsenseOfThePodsTimes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		told := rapid.Custom(func(t *rapid.T) core.Time {
			return rapid.OneOf(rapid.Just(core.Time(0)), rapid.Custom(func(t *rapid.T) core.Time {
				return start.Add(time.Duration(rapid.IntRange(-5_000, 45_000).Draw(t, "ms")) * time.Millisecond)
			}), rapid.Map(rapid.Int64(), func(n int64) core.Time { return core.Time(n) })).Draw(t, "time")
		})
		o, now := askedForAPod(t), 0*sec
		pod := core.Pod{Name: "p", StartedAt: told.Draw(t, "began")}
		if rapid.Bool().Draw(t, "seen running") {
			now = time.Duration(rapid.IntRange(0, 20_000).Draw(t, "running")) * time.Millisecond
			o = appliedAfter(o, now, 0, core.PodRunning{Pod: pod})
		}
		began := o.PodTimes()
		now += time.Duration(rapid.IntRange(0, 20_000).Draw(t, "ended")) * time.Millisecond
		pod.FinishedAt, pod.ExitCode = told.Draw(t, "finished"), new(int32)
		o = appliedAfter(o, now, 0, core.PodEnded{Pod: pod})
		ran := o.PodTimes()
		require.True(t, start <= ran.StartedAt && ran.StartedAt <= ran.EndedAt && ran.EndedAt <= start.Add(now), "%+v", ran)
		if !began.StartedAt.IsZero() {
			require.Equal(t, began.StartedAt, ran.StartedAt)
		}
		require.LessOrEqual(t, o.Metrics.PodStartLatencyMS, now.Milliseconds())
	})
}

func TestARunKnowsHowItsLastAttemptsRanAndEnded(t *testing.T) {
	o, now := askedForAPod(t), 0*sec
	for attempt := range uint32(core.MaxPastAttempts + 2) {
		now += 5 * sec
		for o.State == core.OrchestratorRetrying {
			now = max(now, o.RetryAt.Sub(start))
			o = appliedAfter(o, now, 0, core.OrchestratorDue{})
		}
		pod := core.Pod{
			Name: fmt.Sprint("p", attempt), Node: "n", Reason: "OOMKilled", Message: "m", StartedAt: start.Add(now + sec), FinishedAt: start.Add(now + 4*sec),
			ExitCode: new(int32(attempt)),
		}
		if attempt == 0 {
			pod.ExitCode = new(int32(137))
		}
		now += 20 * sec
		o = appliedAfter(o, now, 0, core.PodEnded{Attempt: attempt, Pod: pod})
		for range 2 {
			o = appliedAfter(o, now, 0, core.EffectDone{N: core.Outstanding(o)[len(core.Outstanding(o))-1].Number()})
		}
		require.Equal(t, core.OrchestratorRetrying, o.State, "%s", encoded(o))
	}
	require.Len(t, o.PastAttempts, core.MaxPastAttempts)
	first := o.PastAttempts[0]
	assert.EqualValues(t, 1, first.Attempt)
	assert.Equal(t, "p1", first.Pod)
	assert.Equal(t, "n", first.Node)
	assert.Equal(t, "OOMKilled", first.Reason)
	assert.Equal(t, "exit code 1: OOMKilled: m", first.Failure)
	assert.EqualValues(t, 1, *first.ExitCode)
	assert.Equal(t, 3*sec, first.Ran.EndedAt.Sub(first.Ran.StartedAt))
	assert.Equal(t, core.TimeCluster, first.Ran.EndedBy)
	assert.Equal(t, 19*sec, first.StartedAt.Sub(first.Ran.StartedAt))
}
