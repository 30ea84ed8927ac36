package core_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/core/schedule"
	"github.com/orrery-go/orrery/effects"
)

func TestAJobIsRefusedWithTheFieldAndTheValueThatIsWrong(t *testing.T) {
	for _, row := range []struct {
		name, want string
		change     func(*core.JobSpec)
	}{
		{"no id", "id: must not be empty", func(s *core.JobSpec) { s.ID = "" }},
		{"colon", `id: "a:b" has a colon`, func(s *core.JobSpec) { s.ID = "a:b" }},
		{"name", "name: ", func(s *core.JobSpec) { s.Name = "\xff" }},
		{"tenant", "tenant: ", func(s *core.JobSpec) { s.Tenant = "a\x1fb" }},
		{"no pod", "pod_spec: missing: give a JSON object", func(s *core.JobSpec) { s.PodSpec = nil }},
		{"pod that is no object", "pod_spec: [] is not a JSON object", func(s *core.JobSpec) { s.PodSpec = json.RawMessage("[]") }},
		{"pod in YAML", "pod_spec: ", func(s *core.JobSpec) { s.PodSpec = json.RawMessage("containers: []") }},
		{"huge pod", "pod_spec: 65538 bytes is more than 65536", func(s *core.JobSpec) {
			s.PodSpec = json.RawMessage(`"` + strings.Repeat("a", core.MaxPodSpecBytes) + `"`)
		}},
		{"constraints", "constraint_config: ", func(s *core.JobSpec) { s.ConstraintConfig = json.RawMessage("1") }},
		{"actions", "action_config: ", func(s *core.JobSpec) { s.ActionConfig = json.RawMessage("{") }},
		{"schedule", `schedule: minute field "61": 61 is out of range 0-59`, func(s *core.JobSpec) { s.Schedule = "61 * * * *" }},
		{"zone", `timezone: "Mars/Olympus" is not`, func(s *core.JobSpec) { s.Timezone = "Mars/Olympus" }},
		{"zone without a schedule", `timezone: "Mars/Olympus" is not`, func(s *core.JobSpec) { s.Schedule, s.Timezone = "", "Mars/Olympus" }},
		{"30 February", `schedule: "0 0 30 2 *" never fires`, func(s *core.JobSpec) { s.Schedule = "0 0 30 2 *" }},
		{"overlap", `overlap: "pray" is unknown: use "allow", "skip", "buffer_one", "buffer_all", "cancel_other", "terminate_other", "forbid" or "replace"`, func(s *core.JobSpec) { s.Overlap = "pray" }},
		{"orphans", `orphan_policy: "sell" is unknown: use "delete" or "adopt"`, func(s *core.JobSpec) { s.OrphanPolicy = "sell" }},
		{"errors", `constraint_errors: "odd" is unknown: use "closed" or "open"`, func(s *core.JobSpec) { s.ConstraintErrors = "odd" }},
		{"start deadline", "start_deadline_seconds: 3601 is not between 0 and 3600", func(s *core.JobSpec) { s.StartDeadlineSeconds = 3601 }},
		{"places", "max_concurrent_runs: 501 is not between 0 and 500", func(s *core.JobSpec) { s.MaxConcurrentRuns = core.MaxActiveRuns + 1 }},
		{"ahead", "create_ahead_ms: -1 is not between 0 and 3600000", func(s *core.JobSpec) { s.CreateAheadMS = -1 }},
		{"pod start", "pod_start_timeout_ms: -1 is not between 0 and ", func(s *core.JobSpec) { s.PodStartTimeoutMS = -1 }},
		{"retries", "retry_config.max_retries: 1001 is not between 0 and 1000", func(s *core.JobSpec) { s.RetryConfig.MaxRetries = 1001 }},
		{"delay", "retry_config.initial_delay_ms: -1 is not between 0 and ", func(s *core.JobSpec) { s.RetryConfig.InitialDelayMS = -1 }},
		{"longest delay", "retry_config.max_delay_ms: ", func(s *core.JobSpec) { s.RetryConfig.MaxDelayMS = math.MaxInt64 }},
		{"multiplier", "retry_config.backoff_multiplier: -0.5 is not between 0 and 1000", func(s *core.JobSpec) { s.RetryConfig.BackoffMultiplier = -500_000 }},
		{"logs", "logs: head_bytes -1 and tail_bytes 0 must not be negative", func(s *core.JobSpec) { s.Logs = core.LogPolicy{HeadBytes: -1} }},
		{"long label", "labels.team: 64 bytes is longer than 63", func(s *core.JobSpec) { s.Labels = map[string]string{"a": "b", "team": strings.Repeat("x", 64)} }},
		{"labels", "labels key: must not be empty", func(s *core.JobSpec) { s.Labels = map[string]string{"": "a"} }},
	} {
		t.Run(row.name, func(t *testing.T) {
			spec := changed(goldenJobSpec(), row.change)
			after, effs := core.Job{}.Apply(core.JobApply{Spec: spec}, core.Clock{Now: start})
			requireInvalid(t, after, effs, row.want)
			if row.name != "30 February" { // which depends on the time
				assert.ErrorContains(t, spec.Validate(), row.want)
			}
		})
	}
	assert.NoError(t, goldenJobSpec().Validate())
}

// delayByOracle is 004's formula with R8: InitialDelay × BackoffMultiplier ^ attempt,
// exactly, its fraction of a millisecond dropped, at most MaxDelay.
func delayByOracle(r core.RetryConfig, attempt uint32) *big.Int {
	factor := new(big.Rat).SetFrac64(int64(r.BackoffMultiplier), 1_000_000)
	d := new(big.Rat).SetInt64(r.InitialDelayMS)
	for range attempt {
		d.Mul(d, factor)
	}
	whole := new(big.Int).Quo(d.Num(), d.Denom())
	if most := big.NewInt(r.MaxDelayMS); whole.Cmp(most) > 0 {
		return most
	}
	return whole
}

func TestTheRetryDelayIsExactForWhateverConfiguration(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := core.RetryConfig{
			InitialDelayMS:    rapid.OneOf(rapid.SampledFrom([]int64{0, 1, 999, math.MaxInt64}), rapid.Int64Range(0, 1<<40)).Draw(t, "initial"),
			BackoffMultiplier: core.Multiplier(rapid.OneOf(rapid.SampledFrom([]int64{1, 500_000, 999_999, 1_000_000, 1_000_001, 1_500_000, 2_000_000, 1_000_000_000}), rapid.Int64Range(1, 1_000_000_000)).Draw(t, "multiplier")),
			MaxDelayMS:        rapid.OneOf(rapid.SampledFrom([]int64{1, 60_000, math.MaxInt64}), rapid.Int64Range(1, 1<<50)).Draw(t, "max"),
		}
		attempt := rapid.SampledFrom([]uint32{0, 1, 2, 3, 10, 63, 64, 200, core.MaxRetries}).Draw(t, "attempt")
		got := r.Delay(attempt)
		// Without growth the first delay is bounded too, so the oracle starts from it.
		bounded := r
		bounded.InitialDelayMS = min(r.InitialDelayMS, r.MaxDelayMS)
		require.Equal(t, delayByOracle(bounded, attempt).String(), fmt.Sprint(got))
		require.True(t, got >= 0 && got <= r.MaxDelayMS)
	})
}

func TestNoRetryDelayOverflowsWhateverStandsInTheConfiguration(t *testing.T) {
	for _, initial := range []int64{math.MinInt64, -1, 0, 1, math.MaxInt64} {
		for _, factor := range []core.Multiplier{math.MinInt64, -1, 0, 1, 1_000_000, math.MaxInt64} {
			for _, most := range []int64{math.MinInt64, -1, 0, 1, math.MaxInt64} {
				for _, attempt := range []uint32{0, 1, 100, math.MaxUint32} {
					r := core.RetryConfig{InitialDelayMS: initial, BackoffMultiplier: factor, MaxDelayMS: most}
					limit := most
					if limit <= 0 {
						limit = core.DefaultRetryMaxDelayMS
					}
					got := r.Delay(attempt)
					assert.True(t, got >= 0 && got <= limit, "%+v after %d: %d", r, attempt, got)
				}
			}
		}
	}
	r := core.RetryConfig{InitialDelayMS: 1, BackoffMultiplier: 1_500_000, MaxDelayMS: 1000}
	var got []int64
	for attempt := range uint32(8) {
		got = append(got, r.Delay(attempt))
	}
	assert.Equal(t, []int64{1, 1, 2, 3, 5, 7, 11, 17}, got, "R8: 1.5 is not truncated to 1")
}

func TestOfTheAttemptsAsManyFollowAsAreConfigured(t *testing.T) {
	r := core.RetryConfig{MaxRetries: 2}
	assert.Equal(t, []bool{true, true, false, false}, []bool{r.ShouldRetry(0), r.ShouldRetry(1), r.ShouldRetry(2), r.ShouldRetry(math.MaxUint32)})
}

func TestAMultiplierIsReadAsItIsPrinted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := core.Multiplier(rapid.Int64Range(0, 1_000_000_000).Draw(t, "millionths"))
		back, err := core.ParseMultiplier(m.String())
		require.NoError(t, err)
		require.Equal(t, m, back)
		b, err := json.Marshal(m)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(b, &back))
		require.Equal(t, m, back)
	})
	for text, want := range map[string]core.Multiplier{"0": 0, "1": 1_000_000, "1.5": 1_500_000, "1.50": 1_500_000, "0.000001": 1, "1000": 1_000_000_000, "2.0000000000": 2_000_000} {
		got, err := core.ParseMultiplier(text)
		require.NoError(t, err, text)
		assert.Equal(t, want, got, text)
	}
	for _, text := range []string{"", ".", ".5", "1.", "-1", "+1", "1e1", "0x1", "1.0000001", "1000.000001", "1001", "99999", "1,5", " 1", "1 ", "NaN", "1.5.1", "١"} {
		_, err := core.ParseMultiplier(text)
		assert.ErrorContains(t, err, "is not a decimal number between 0 and 1000", text)
	}
	var m core.Multiplier
	assert.Error(t, json.Unmarshal([]byte(`"1.5"`), &m))
	assert.Equal(t, "-9223372036854.775808", core.Multiplier(math.MinInt64).String())
}

// jobWorld makes a job in a world.
func jobWorld(t *testing.T, spec core.JobSpec) (w world, key effects.Ref, seq uint64) {
	t.Helper()
	w, key = world{}, core.JobRef(spec.Namespace, spec.Tenant, spec.ID)
	require.Nil(t, w.send(t, key, core.JobApply{Spec: spec}, start, &seq).Refused)
	return w, key, seq
}

// pass lets time pass to an instant, as the loop does: what is due is told so, until
// nothing is.
func (w world) pass(t tb, c core.Clock, seq *uint64) {
	for range 100 {
		inputs := w.due(c)
		if len(inputs) == 0 {
			return
		}
		for _, in := range inputs {
			*seq++
			w.apply(t, *seq, in, c)
		}
	}
	require.Fail(t, "something is due for ever")
}

func byHand() core.JobSpec {
	return core.JobSpec{ID: "nightly", PodSpec: json.RawMessage(`{"containers":[]}`)}
}

func TestATriggerWithADedupKeyThatIsKnownMakesNoRun(t *testing.T) {
	w, key, seq := jobWorld(t, byHand())
	trigger := func(dedup string) core.JobTriggered {
		t.Helper()
		res := w.send(t, key, core.JobTrigger{By: "ann", DedupKey: dedup}, start, &seq)
		require.Nil(t, res.Refused)
		return res.Answer.(core.JobTriggered)
	}
	first := trigger("key 0")
	assert.False(t, first.Duplicate)
	for n := range core.MaxTriggerKeys - 1 {
		assert.False(t, trigger(fmt.Sprintf("key %d", n+1)).Duplicate)
	}
	again := trigger("key 0")
	assert.Equal(t, core.JobTriggered{Run: first.Run, RunID: first.RunID, Duplicate: true}, again)
	assert.False(t, trigger("").Duplicate)
	assert.False(t, trigger("").Duplicate, "no key is no key")
	assert.True(t, trigger("key 0").Duplicate, "runs without one push none out")
	assert.False(t, trigger("one too many").Duplicate)
	assert.False(t, trigger("key 0").Duplicate, "it was the oldest")
	assert.True(t, trigger("key 2").Duplicate)
	assert.Len(t, load[core.Orchestrator](w, core.KindOrchestrator), core.MaxTriggerKeys+4)

	for dedup, want := range map[string]string{
		strings.Repeat("k", core.MaxNameBytes+1): "dedup_key: 256 bytes is longer than 255",
		"a\x00b":                                 `dedup_key: "a\x00b" has the control character '\x00'`,
	} {
		res := w.send(t, key, core.JobTrigger{DedupKey: dedup}, start, &seq)
		require.NotNil(t, res.Refused)
		assert.Equal(t, want, res.Refused.Reason)
	}
}

func TestAsManyRunsAsMayBeAreTriggeredInOneInstantAndNoneMore(t *testing.T) {
	w, key, seq := jobWorld(t, byHand())
	seq++
	batch := core.NewBatch(w, core.Clock{Now: start}, seq)
	ids := map[uuid.UUID]bool{}
	for range core.MaxActiveRuns {
		res, err := batch.Apply(core.Input{To: key, Event: core.JobTrigger{By: "ann"}})
		require.NoError(t, err)
		require.Nil(t, res.Refused)
		ids[res.Answer.(core.JobTriggered).Run] = true
	}
	res, err := batch.Apply(core.Input{To: key, Event: core.JobTrigger{By: "ann"}})
	require.NoError(t, err)
	require.NotNil(t, res.Refused)
	assert.Contains(t, res.Refused.Reason, "500 runs of job nightly have not ended")
	w.store(batch)
	assert.Len(t, ids, core.MaxActiveRuns)
	assert.Len(t, load[core.Orchestrator](w, core.KindOrchestrator), core.MaxActiveRuns)
	for ref, o := range load[core.Orchestrator](w, core.KindOrchestrator) { // order-free: each by itself
		for n := range core.MaxRunLocks {
			name := fmt.Sprintf("%s %d", o.RunID, n)
			w.send(t, core.LockRef("", "", name), core.LockAcquire{Name: name, Holder: core.RunLockHolder(ref.ID)}, start, &seq)
			o.Locks = append(o.Locks, name)
		}
		w[ref] = encoded(o)
	}

	res = w.send(t, key, core.JobDelete{Reason: "not needed"}, start.Add(time.Second), &seq)
	require.True(t, res.Changed, "one event reaches them all")
	for _, l := range load[core.Lock](w, core.KindLock) { // order-free: each by itself
		require.Empty(t, l.Holder)
	}
	for _, o := range load[core.Orchestrator](w, core.KindOrchestrator) { // order-free: each by itself
		require.Equal(t, core.OrchestratorCancelled, o.State)
		require.True(t, o.Reported)
	}
	for _, o := range load[core.Occurrence](w, core.KindOccurrence) { // order-free: each by itself
		require.Equal(t, core.VerdictCancelled, o.Verdict)
	}
}

func TestARunThatIsOverdueWhenItsJobIsMadeAgainUnderTheSameIdIsRunOnce(t *testing.T) {
	spec := byHand()
	spec.Schedule = "* * * * *"
	w, key, seq := jobWorld(t, spec)
	w.fire(t, start.Add(30*time.Second), &seq)
	at := start.Add(time.Minute)
	run := effects.Ref{Kind: core.KindOrchestrator, ID: runAt(spec, at)}
	require.Equal(t, core.OrchestratorPreRun, load[core.Orchestrator](w, core.KindOrchestrator)[run].State)

	w.send(t, key, core.JobDelete{}, start.Add(40*time.Second), &seq)
	w.send(t, key, core.JobApply{Spec: spec}, start.Add(41*time.Second), &seq)
	w.fire(t, start.Add(41*time.Second), &seq)

	job := load[core.Job](w, core.KindJob)[key]
	assert.Empty(t, job.Active)
	assert.Zero(t, job.Counts, "the run of that time exists already, and has its verdict")
	assert.Len(t, load[core.Occurrence](w, core.KindOccurrence), 1)
	assert.Equal(t, at.Add(time.Minute), job.NextRunAt)
	assert.Equal(t, core.OrchestratorCancelled, load[core.Orchestrator](w, core.KindOrchestrator)[run].State)
	w.pass(t, core.Clock{Now: start.Add(2 * time.Minute)}, &seq)
	assert.EqualValues(t, 1, load[core.Job](w, core.KindJob)[key].Counts.Dispatched)
}

func TestTheTimesAtWhichNobodyWasThereAreMissedAndTheLastOneRunsWhereItIsNotTooLate(t *testing.T) {
	spec := byHand()
	spec.Schedule = "* * * * *"
	w, key, seq := jobWorld(t, spec)
	w.fire(t, start.Add(30*time.Second), &seq) // makes the run of 14:01
	w.pass(t, core.Clock{Now: start.Add(time.Hour + 30*time.Second)}, &seq)

	job := load[core.Job](w, core.KindJob)[key]
	verdicts := map[core.Verdict]uint64{}
	for _, o := range load[core.Occurrence](w, core.KindOccurrence) { // order-free: summed up
		verdicts[o.Verdict] += o.Count
	}
	assert.Equal(t, map[core.Verdict]uint64{core.VerdictMissed: 59, core.VerdictDispatched: 1}, verdicts, "14:01 to 14:59, and 15:00")
	assert.Equal(t, core.JobCounts{Dispatched: 1, Missed: 59}, job.Counts)
	missed := load[core.Orchestrator](w, core.KindOrchestrator)[effects.Ref{Kind: core.KindOrchestrator, ID: runAt(spec, start.Add(time.Minute))}]
	assert.Equal(t, core.OrchestratorFailed, missed.State)
	assert.Equal(t, "missed: the daemon was behind by 59m30s; a run begins within its start deadline of 2m0s", missed.Error)
	assert.Equal(t, []core.RunStage{core.StageWaiting, core.StageAdmitted}, []core.RunStage{job.Active[0].Stage, job.Active[1].Stage})
}

// Each time of the schedule gets one verdict, whatever is done to the job and its runs while its
// clock goes on, sometimes by leaps, sometimes back.
func TestEachTimeOfAScheduleGetsOneVerdict(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := byHand()
		spec.Schedule = "* * * * *"
		spec.Overlap = rapid.SampledFrom([]core.OverlapPolicy{
			core.OverlapAllow, core.OverlapForbid, core.OverlapReplace, core.OverlapBufferOne, core.OverlapBufferAll, core.OverlapTerminateOther,
		}).Draw(t, "overlap")
		spec.Missed = rapid.SampledFrom([]core.MissedPolicy{"", core.MissedLatest, core.MissedAll}).Draw(t, "missed")
		spec.CatchUpSpacingSeconds = rapid.SampledFrom([]int64{0, 5}).Draw(t, "spacing")
		spec.MaxWaitSeconds = rapid.SampledFrom([]int64{0, 90}).Draw(t, "wait")
		spec.MaxConcurrentRuns = rapid.SampledFrom([]uint32{0, 1, 2}).Draw(t, "limit")
		spec.JitterSeconds = rapid.SampledFrom([]int64{0, 0, 20}).Draw(t, "jitter")
		spec.MaxExecutions = rapid.SampledFrom([]uint64{0, 0, 3}).Draw(t, "max")
		spec.CreateAheadMS = rapid.SampledFrom([]int64{0, 1, 100_000}).Draw(t, "ahead")
		key, clock, w, seq := core.JobRef("", "", spec.ID), core.Clock{Now: start}, world{}, uint64(0)
		send := func(to effects.Ref, e core.Event) {
			seq++
			w.apply(t, seq, core.Input{To: to, Event: e}, clock)
		}
		send(key, core.JobApply{Spec: spec})
		whole := spec.MaxExecutions == 0 // not ended, nor paused or edited while the clock was set back: then no time is without a verdict
		due, latest := dueTimes{spec: spec, from: start}, start
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			clock.Now = clock.Now.Add(time.Duration(rapid.SampledFrom([]int{0, 1, 15, 30, 60, 60, 200, -90}).Draw(t, "seconds")) * time.Second)
			latest = max(latest, clock.Now)
			w.pass(t, clock, &seq)
			runs := load[core.Orchestrator](w, core.KindOrchestrator)
			for _, ref := range w.refs() {
				if o, ok := runs[ref]; ok && len(core.Outstanding(o)) > 0 && rapid.Bool().Draw(t, "goes on") {
					send(ref, core.EffectFailed{N: core.Outstanding(o)[0].Number(), Reason: "no", Permanent: true})
				}
			}
			switch rapid.IntRange(0, 15).Draw(t, "what") {
			case 0:
				send(key, core.JobSkipNext{})
			case 1:
				send(key, core.JobKill{All: true})
			case 2:
				send(key, core.JobTrigger{})
			case 3, 4:
				whole = whole && clock.Now >= due.from
				send(key, rapid.SampledFrom([]core.Event{core.JobPause{}, core.JobPause{Until: clock.Now.Add(100 * time.Second)}, core.JobResume{}}).Draw(t, "switch"))
			case 5, 6:
				spec.Schedule = rapid.SampledFrom([]string{"* * * * *", "*/2 * * * *", "30 * * * * *"}).Draw(t, "schedule")
				whole = whole && clock.Now == latest
				due.change(t, spec, clock.Now, load[core.Job](w, core.KindJob)[key])
				send(key, core.JobApply{Spec: spec})
			case 7:
				for _, ref := range w.refs() {
					if o, ok := runs[ref]; ok && o.State == core.OrchestratorPreRun {
						send(ref, core.OrchestratorCancel{Reason: "by hand"})
						break
					}
				}
			}
		}
		whole = whole && clock.Now >= due.from
		send(key, core.JobResume{}) // what passes in a pause is recorded with its end
		checkVerdicts(t, w, key)
		if whole {
			job := load[core.Job](w, core.KindJob)[key]
			due.change(t, spec, max(clock.Now, job.LastDueAt), job)
			due.check(t, w, job)
		}
		if spec.MaxExecutions > 0 {
			bySchedule := uint64(0)
			for _, o := range load[core.Occurrence](w, core.KindOccurrence) { // order-free: counted
				bySchedule += oneIf(o.Verdict == core.VerdictDispatched && !o.Manual)
			}
			require.LessOrEqual(t, bySchedule, spec.MaxExecutions)
			require.Equal(t, bySchedule, load[core.Job](w, core.KindJob)[key].Executions)
		}
	})
}

// checkVerdicts checks that no time has two verdicts, and that the job counts them.
func checkVerdicts(t *rapid.T, w world, key effects.Ref) {
	decided, sum := map[core.Time]bool{}, uint64(0)
	for _, o := range load[core.Occurrence](w, core.KindOccurrence) { // order-free: into a map, and summed up
		if o.Verdict == core.VerdictWaiting {
			continue
		}
		sum += o.Count
		if o.Manual {
			continue
		}
		require.False(t, decided[o.DueAt] || decided[o.LastDueAt], "%s to %s has two verdicts", o.DueAt, o.LastDueAt)
		decided[o.DueAt], decided[o.LastDueAt] = true, true
	}
	job := load[core.Job](w, core.KindJob)[key]
	require.Equal(t, sum, sumOf(countsOf(job)))
	for _, a := range job.Active {
		if a.Stage == core.StageWaiting || a.Stage == core.StageAsked {
			require.False(t, decided[a.ScheduledAt], "%s has a verdict, and a run that waits for one", a.ScheduledAt)
		}
	}
}

// dueTimes are the times of a job whose schedule is changed now and then.
type dueTimes struct {
	spec  core.JobSpec // that holds from an instant on
	from  core.Time
	all   []core.Time
	ahead []core.Time // times that had a run when the schedule was changed: it may not have them any more
}

// change has another schedule hold from an instant on.
func (d *dueTimes) change(t *rapid.T, spec core.JobSpec, now core.Time, job core.Job) {
	s, err := schedule.Parse(d.spec.Schedule, "UTC", start)
	require.NoError(t, err)
	d.all = slices.AppendSeq(d.all, s.Due(d.from, now))
	d.ahead = slices.AppendSeq(d.ahead, s.Due(now, job.LastDueAt))
	d.spec, d.from = spec, now
}

// check checks that each time stands in one entry, or has a run that waits for its verdict, and
// that each entry counts the times that it stands for.
func (d *dueTimes) check(t *rapid.T, w world, job core.Job) {
	decided := map[core.Time]bool{}
	for _, o := range load[core.Occurrence](w, core.KindOccurrence) { // order-free: each by itself
		if o.Manual {
			continue
		}
		spans := func(at core.Time) bool { return at >= o.DueAt && at <= o.LastDueAt }
		least, most := uint64(0), uint64(0)
		for _, at := range d.all {
			if spans(at) {
				require.False(t, decided[at], "%s has two verdicts", at)
				decided[at], least, most = true, least+1, most+1
			}
		}
		for _, at := range d.ahead {
			most += oneIf(spans(at))
		}
		require.True(t, o.Count >= least && o.Count <= most, "%s to %s, %s: %d, and not %d", o.DueAt, o.LastDueAt, o.Reason, o.Count, least)
	}
	for _, a := range job.Active {
		decided[a.ScheduledAt] = true
	}
	for _, at := range d.all {
		require.True(t, decided[at], "%s has no verdict", at)
	}
}

func TestAllThatIsWrongWithAJobIsSaid(t *testing.T) {
	long := strings.Repeat("x", 64)
	err := core.JobSpec{
		ID: "a", PodSpec: json.RawMessage("{}"), Schedule: "61 * * * *", Timezone: "Mars/Base", Overlap: "x", OrphanPolicy: "y", ConstraintErrors: "z",
		StartDeadlineSeconds: -1, MaxConcurrentRuns: core.MaxActiveRuns + 1, CreateAheadMS: -1, PodStartTimeoutMS: -1, Logs: core.LogPolicy{HeadBytes: -1},
		Labels: map[string]string{"b": long, "a": long}, RetryConfig: core.RetryConfig{MaxRetries: core.MaxRetries + 1, BackoffMultiplier: -1, InitialDelayMS: -1, MaxDelayMS: -1},
	}.Validate()
	require.Error(t, err)
	for _, field := range []string{
		"schedule: ", "timezone: ", "overlap: ", "orphan_policy: ", "constraint_errors: ", "start_deadline_seconds: ", "max_concurrent_runs: ",
		"create_ahead_ms: ", "pod_start_timeout_ms: ", "logs: ", "labels.a: ", "labels.b: ", "retry_config.max_retries: ",
		"retry_config.backoff_multiplier: ", "retry_config.initial_delay_ms: ", "retry_config.max_delay_ms: ",
	} {
		assert.Equal(t, 1, strings.Count("\n"+err.Error(), "\n"+field), "%s\n%s", field, err)
	}
}
