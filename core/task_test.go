package core_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

func TestATaskIsRefusedWithTheFieldAndTheValueThatIsWrong(t *testing.T) {
	for _, row := range []struct {
		name, want string
		change     func(*core.TaskSpec)
	}{
		{"no id", "id: must be a UUID", func(s *core.TaskSpec) { s.ID = [16]byte{} }},
		{"control character", "tenant: ", func(s *core.TaskSpec) { s.Tenant = "a\x1fb" }},
		{"no program", "command[0]: must not be empty", func(s *core.TaskSpec) { s.Command = []string{""} }},
		{"NUL in an argument", "command[1]: ", func(s *core.TaskSpec) { s.Command = []string{"a", "\x00"} }},
		{"too many arguments", "command: 257 arguments are more than 256", func(s *core.TaskSpec) { s.Command = strings.Split(strings.Repeat("a ", 256)+"a", " ") }},
		{"long arguments", "command: its arguments are together longer than 65536 bytes", func(s *core.TaskSpec) {
			s.Command = []string{strings.Repeat("a", 65_000), strings.Repeat("a", 537)}
		}},
		{"long prompt", "prompt: 65537 bytes is longer than 65536", func(s *core.TaskSpec) { s.Prompt = strings.Repeat("a", 65_537) }},
		{"prompt no UTF-8", "prompt: ", func(s *core.TaskSpec) { s.Prompt = "\xff" }},
		{"no variable", "env key: \"A=B\" has an equals sign", func(s *core.TaskSpec) { s.Env = map[string]string{"A=B": ""} }},
		{"owner of no kind", "owner: \"planet\" with id ", func(s *core.TaskSpec) { s.Owner.Ref.Kind = "planet" }},
		{"owner without id", "owner: ", func(s *core.TaskSpec) { s.Owner.Ref.ID = [16]byte{} }},
		{"negative time", "config.heartbeat_timeout_ms: -1 is not between 0 and 2592000000", func(s *core.TaskSpec) { s.Config.HeartbeatTimeoutMS = -1 }},
		{"31 days", "config.timeout_ms: 2678400000 is not between", func(s *core.TaskSpec) { s.Config.TimeoutMS = 31 * 24 * 3_600_000 }},
		{"interval", "config.recovery_interval_ms: ", func(s *core.TaskSpec) { s.Config.RecoveryIntervalMS = -1 }},
		{"idle", "config.idle_timeout_ms: ", func(s *core.TaskSpec) { s.Config.IdleTimeoutMS = -1 }},
		{"checkpoint", "config.checkpoint_interval_ms: ", func(s *core.TaskSpec) { s.Config.CheckpointIntervalMS = -1 }},
		{"recoveries", "config.max_recovery_attempts: 1001 is not between 0 and 1000; 4294967295 means none", func(s *core.TaskSpec) { s.Config.MaxRecoveryAttempts = 1001 }},
		{"altogether too large", "spec: as JSON its ", func(s *core.TaskSpec) {
			s.Prompt, s.Command = strings.Repeat("<", 65_536), []string{strings.Repeat("<", 65_536)}
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			after, effs := core.Task{}.Apply(core.TaskCreate{Spec: changed(goldenTaskSpec(), row.change)}, core.Clock{Now: start})
			requireInvalid(t, after, effs, row.want)
		})
	}
}

func TestAnOutputThatCannotBeStoredIsRefusedAndTheTaskGoesOn(t *testing.T) {
	for _, output := range []json.RawMessage{json.RawMessage("{"), nested(201), json.RawMessage("\"\xff\""), json.RawMessage(`"` + strings.Repeat("<", core.MaxInputBytes/6+1) + `"`)} {
		running := madeTask(goldenTaskSpec(), core.TaskStart{})
		after, effs := running.Apply(core.TaskComplete{Output: output}, core.Clock{Now: start})
		require.NotNil(t, refusal(effs))
		assert.Contains(t, refusal(effs).Reason, "output: ")
		assert.Equal(t, core.TaskRunning, after.State.Type)
	}
}

// What the journal makes of a value must not decide whether it fits.
func TestAnOutputThatIsTakenIsTakenByTheReplayToo(t *testing.T) {
	running := madeTask(goldenTaskSpec(), core.TaskStart{})
	e := core.TaskComplete{Output: json.RawMessage(`  {"a":  "` + strings.Repeat("<", core.MaxInputBytes/6-10) + `"}`)}
	live, effs := running.Apply(e, core.Clock{Now: start})
	require.Nil(t, refusal(effs))
	assert.Equal(t, encoded(live), encoded(reapply(t, core.KindTask, running, e, core.Clock{Now: start})))
}

func TestOfAScreenTheEndIsKeptCutBetweenCharacters(t *testing.T) {
	running := madeTask(goldenTaskSpec(), core.TaskStart{})
	e := core.TaskHeartbeat{Status: core.LivenessActive, Output: strings.Repeat("☃", core.MaxScreenBytes) + "$ \xff"}
	after, _ := running.Apply(e, core.Clock{Now: start})
	assert.LessOrEqual(t, len(after.Screen), core.MaxScreenBytes)
	assert.Greater(t, len(after.Screen), core.MaxScreenBytes-4)
	assert.True(t, strings.HasPrefix(after.Screen, "☃"))
	assert.True(t, strings.HasSuffix(after.Screen, "☃$ \uFFFD"))
	assert.Equal(t, encoded(after), encoded(reapply(t, core.KindTask, running, e, core.Clock{Now: start})))
}

func TestASessionThatTakesNoInputIsGivenNoMoreAfterSome(t *testing.T) {
	task := madeTask(goldenTaskSpec(), core.TaskStart{}, core.EffectDone{N: 1})
	for range core.MaxOpenInputs {
		var effs []effects.Effect
		task, effs = task.Apply(core.TaskInput{Text: "y"}, core.Clock{Now: start})
		require.Nil(t, refusal(effs))
	}
	_, effs := task.Apply(core.TaskInput{Text: "y"}, core.Clock{Now: start})
	require.NotNil(t, refusal(effs))
	assert.Equal(t, effects.CodeConflict, refusal(effs).Code)
	task, _ = task.Apply(core.EffectDone{N: 2}, core.Clock{Now: start})
	_, effs = task.Apply(core.TaskInput{Text: "y"}, core.Clock{Now: start})
	assert.Nil(t, refusal(effs))
}

func TestTheLargestTaskIsNoLargerThanTwoMebibytes(t *testing.T) {
	spec := goldenTaskSpec()
	spec.Prompt = strings.Repeat("a", core.MaxPromptBytes)
	spec.Command = []string{strings.Repeat("a", core.MaxPromptBytes)}
	spec.Env = map[string]string{}
	for i := range core.MaxMapEntries {
		spec.Env[fmt.Sprint(i)] = strings.Repeat("a", core.MaxTextBytes)
	}
	task := madeTask(spec, core.TaskStart{}, core.TaskHeartbeat{Status: core.LivenessActive, Output: strings.Repeat("<", core.MaxScreenBytes), Progress: strings.Repeat("<", core.MaxTextBytes)})
	assert.Less(t, len(encoded(task)), 2<<20)
	full := `"` + strings.Repeat("a", core.MaxInputBytes-2) + `"`
	task, effs := task.Apply(core.TaskComplete{Output: json.RawMessage(full)}, core.Clock{Now: start})
	require.Nil(t, refusal(effs))
	assert.Less(t, len(encoded(task)), 5<<19, "2.5 MiB, with the largest output beside the largest spec")
}

// Whatever its limits, and however its session answers, a task that nobody hears
// of comes to an end by its own deadlines, and says so once.
func TestATaskThatNobodyHearsOfEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := core.TaskSpec{ID: id(1), Owner: core.Owner{Ref: effects.Ref{Kind: core.KindPipeline, ID: id(7)}, N: 1}, PipelineID: id(7), Config: core.TaskConfig{
			HeartbeatTimeoutMS: rapid.SampledFrom([]int64{1, 60_000}).Draw(t, "heartbeat"), CheckpointIntervalMS: rapid.SampledFrom([]int64{0, 30_000}).Draw(t, "checkpoint"),
			MaxRecoveryAttempts: rapid.SampledFrom([]uint32{0, 1, 5, core.NoRecovery}).Draw(t, "attempts"),
		}}
		if rapid.Bool().Draw(t, "session") {
			spec.Command = []string{"agent"}
		}
		task, clock := madeTask(spec), core.Clock{Now: start}
		told, escalated := 0, 0
		next := func(e core.TaskEvent) {
			after, effs := task.Apply(e, clock)
			require.Nil(t, refusal(effs), "%v", effs)
			s := step{before: task, after: after, event: e, clock: clock, effs: effs}
			told += len(sends[core.ChildEnded](s))
			escalated += len(emitted(s, "system:escalate"))
			task = after
		}
		for range 200 {
			if open := core.Outstanding(task); len(open) > 0 {
				n := open[0].Number()
				next(rapid.SampledFrom([]core.TaskEvent{
					core.EffectDone{N: n}, core.EffectDone{N: n}, core.EffectFailed{N: n}, core.EffectInterrupted{N: n}, core.EffectHandedBack{N: n},
				}).Draw(t, "answer"))
				continue
			}
			if task.Deadline().IsZero() {
				break
			}
			clock.Now = max(clock.Now, task.Deadline())
			next(core.TaskDue{})
		}
		require.Equal(t, core.TaskDone, task.State.Type)
		require.Equal(t, core.TaskFailed, task.State.Result.Type)
		require.Equal(t, 1, told)
		require.LessOrEqual(t, escalated, 2, "its end, and a session that could not be ended")
		require.Less(t, clock.Now.Sub(start), 24*time.Hour)
	})
}

func TestATaskWhoseSessionIsNotThereYetIsNotFoundSilent(t *testing.T) {
	clock := core.Clock{Now: start}
	spec := core.TaskSpec{ID: id(1), PipelineID: id(2), Command: []string{"agent"}, Config: core.TaskConfig{HeartbeatTimeoutMS: 500, CheckpointIntervalMS: 1000}}
	s, effs := core.Task{}.Apply(core.TaskCreate{Spec: spec}, clock)
	require.Nil(t, refusal(effs))
	s, _ = s.Apply(core.TaskDue{}, clock)
	clock.Now = s.Deadline()
	require.Equal(t, start.Add(time.Second), clock.Now, "the checkpoint alone")
	s, effs = s.Apply(core.TaskDue{}, clock)
	assert.Equal(t, core.TaskRunning, s.State.Type)
	assert.Len(t, effs, 1, "the checkpoint alone")
}

func TestAClockThatGoesBackLeavesNoProgressInTheFuture(t *testing.T) {
	clock := core.Clock{Now: start}
	s, _ := core.Task{}.Apply(core.TaskCreate{Spec: core.TaskSpec{ID: id(1)}}, clock)
	s, _ = s.Apply(core.TaskDue{}, clock)
	clock.Now = start.Add(-time.Hour)
	s, effs := s.Apply(core.TaskHeartbeat{Status: core.LivenessActive}, clock)
	require.Nil(t, refusal(effs))
	assert.Equal(t, clock.Now, s.LastProgress)
	assert.Equal(t, clock.Now, s.LastHeartbeat)
	assert.LessOrEqual(t, s.Deadline(), clock.Now.Add(time.Minute))
}

// A spawn that is asked for again and again is not answered by a nudge: there is
// nothing yet that could be nudged.
func TestAStuckTaskWhoseSessionIsBeingStartedIsRestarted(t *testing.T) {
	clock := core.Clock{Now: start}
	s, _ := core.Task{}.Apply(core.TaskCreate{Spec: core.TaskSpec{ID: id(1), Command: []string{"agent"}}}, clock)
	s, _ = s.Apply(core.TaskDue{}, clock)
	s, effs := s.Apply(core.TaskHeartbeat{Status: core.LivenessIdle, IdleMS: core.DefaultIdleTimeoutMS + 1}, clock)
	require.Nil(t, refusal(effs))
	require.Equal(t, core.StuckNoProgress, s.State.Reason.Type)
	clock.Now = s.Deadline()
	s, _ = s.Apply(core.TaskDue{}, clock)
	assert.Equal(t, core.TaskPending, s.State.Type)
	assert.EqualValues(t, 1, s.Restarts)
}

// A daemon that is killed again and again may die during each kill of a session, which
// must not make the task give the session up.
func TestAKillOfASessionIsAskedForHoweverOftenItIsInterrupted(t *testing.T) {
	for _, row := range []struct {
		name  string
		rules core.Rules
		ends  core.TaskEvent
		state core.TaskStateType
		asked int
	}{
		{"of a task that has ended", 0, core.TaskComplete{}, core.TaskDone, 100},
		{"of a task that restarts", 0, core.TaskRecover{Action: core.RecoverRestart}, core.TaskPending, 100},
		{"by the rules before version 10", 9, core.TaskComplete{}, core.TaskDone, core.MaxEffectRepeats + 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			clock := core.Clock{Now: start, Rules: row.rules}
			task := madeTask(goldenTaskSpec(), core.TaskStart{}, core.EffectDone{N: 1})
			task, effs := task.Apply(row.ends, clock)
			asked := 0
			for ; len(outers[effects.Kill](effs)) > 0 && asked < 100; asked++ {
				require.Nil(t, refusal(effs))
				task, effs = task.Apply(core.EffectInterrupted{N: task.Pending.Last, Reason: core.ReasonRecovered}, clock)
			}
			assert.Equal(t, row.asked, asked)
			assert.Equal(t, row.state, task.State.Type)
			if row.rules != 0 {
				assert.Empty(t, core.Outstanding(task))
				assert.Len(t, emitted(step{effs: effs}, "system:escalate"), 1, "the kill is given up, and a person is called")
				return
			}
			assert.Equal(t, []effects.Effect{effects.Kill{N: task.Pending.Last, Session: task.SessionID}}, waitedFor(task))
			task, _ = task.Apply(core.EffectDone{N: task.Pending.Last}, clock)
			assert.Empty(t, core.Outstanding(task))
			assert.False(t, task.Spawned)
		})
	}
}
