package core_test

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

var _ = register(core.KindTask, kit{
	typ:     "Task",
	absent:  core.Task{},
	apply:   applying(core.Task.Apply),
	made:    func() core.State { return madeTask(goldenTaskSpec()) },
	hostile: hostileTask,
	draw:    drawTaskEvent,
	own:     core.TaskStart{},
	states:  goldenTaskStates,
	events:  goldenTaskEvents,
	phase:   func(s core.State) string { return string(s.(core.Task).State.Type) },
	phases:  []string{"absent", "pending", "running", "stuck", "done"},
	invariants: []invariant{
		on("A task that is done stays so, with the same result, but for expire.", func(s step, b, a core.Task) string {
			if _, ok := s.event.(core.TaskExpire); ok || b.State.Type != core.TaskDone {
				return ""
			}
			was, is := fieldsOf(b.State), fieldsOf(a.State)
			return unless(was == is, "%s → %s", was, is)
		}),
		on("The end is told once to the bus and to the owner: with the entry into done.", func(s step, b, a core.Task) string {
			want := 0
			if a.State.Type == core.TaskDone && b.State.Type != core.TaskDone {
				want = 1
			}
			bus := len(emitted(s, "task:complete")) + len(emitted(s, "task:failed")) + len(emitted(s, "task:cancelled"))
			owners := want
			if a.Owner.IsZero() {
				owners = 0
			}
			return unless(bus == want && len(sends[core.ChildEnded](s)) == owners, "%s → %s with %v", b.State.Type, a.State.Type, s.effs)
		}),
		on("RecoveryAttempts never decreases, grows by at most one with an event, and is at most the maximum; no restart happens at the maximum.", func(s step, b, a core.Task) string {
			if !exists(a) || !exists(b) {
				return ""
			}
			most := a.Config.MaxRecoveryAttempts
			if most == core.NoRecovery {
				most = 0
			}
			ok := a.RecoveryAttempts >= b.RecoveryAttempts && a.RecoveryAttempts <= b.RecoveryAttempts+1 && a.RecoveryAttempts <= most &&
				(a.Restarts == b.Restarts || a.Restarts == b.Restarts+1 && b.RecoveryAttempts < most && a.RecoveryAttempts == b.RecoveryAttempts+1)
			return unless(ok, "attempts %d → %d of %d, restarts %d → %d", b.RecoveryAttempts, a.RecoveryAttempts, most, b.Restarts, a.Restarts)
		}),
		on("A due event leaves no deadline that has come.", func(s step, _, a core.Task) string {
			if _, due := s.event.(core.TaskDue); !due || refusal(s.effs) != nil {
				return ""
			}
			return unless(a.Deadline().IsZero() || a.Deadline() > s.clock.Now, "due at %s, at %s", a.Deadline(), s.clock.Now)
		}),
		on("A session is spawned only if the one before it was killed.", func(s step, b, a core.Task) string {
			for _, e := range outers[effects.Spawn](s.effs) {
				again := len(outers[effects.Spawn](waitedFor(b))) == 1 && e.Session == b.SessionID // of one that was not begun, or is not known to be
				if !again && (b.Spawned || len(outers[effects.Kill](waitedFor(b))) > 0 || e.Session == b.SessionID) {
					return fmt.Sprintf("%v beside %v, spawned %t", e, waitedFor(b), b.Spawned)
				}
			}
			return ""
		}),
		on("When it enters done, a session that may live is killed.", func(s step, b, a core.Task) string {
			if a.State.Type != core.TaskDone || b.State.Type == core.TaskDone || !a.Spawned {
				return ""
			}
			kills := outers[effects.Kill](waitedFor(a))
			return unless(len(kills) == 1 && kills[0].Session == a.SessionID, "%v is asked for", waitedFor(a))
		}),
		on("A kill is asked for until it is carried out or fails, however often it is interrupted.", func(s step, b, a core.Task) string {
			e, interrupted := s.event.(core.EffectInterrupted)
			kill, killed := core.OutstandingEffect(b, e.N).(effects.Kill)
			if !interrupted || !killed {
				return ""
			}
			kills := outers[effects.Kill](waitedFor(a))
			return unless(len(kills) == 1 && kills[0].Session == kill.Session, "%v after %v was interrupted", waitedFor(a), kill)
		}),
		on("The numbers of outer effects only grow, each is asked for with the event that notes it, and what is noted is bounded.", func(s step, b, a core.Task) string {
			if !exists(a) {
				return unless(len(waitedFor(b)) == 0, "%v is lost", waitedFor(b))
			}
			return numbered(s, b.Pending, a.Pending, 4+core.MaxOpenInputs)
		}),
		on("Without a command nothing is asked of a session.", func(s step, _, a core.Task) string {
			return unless(len(a.Command) > 0 || len(waitedFor(a)) == 0 && len(outers[effects.Outer](s.effs)) == 0, "%v", s.effs)
		}),
		on("Once created, the spec never changes.", func(_ step, b, a core.Task) string {
			was, is := fieldsOf(b.TaskSpec), fieldsOf(a.TaskSpec)
			return unless(!exists(b) || !exists(a) || was == is, "%s → %s", was, is)
		}),
	},
})

func fieldsOf(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// emitted lists the announcements of a kind that the step makes.
func emitted(s step, kind string) []effects.Event {
	var out []effects.Event
	for _, e := range s.effs {
		if emit, ok := e.(effects.Emit); ok && emit.Event.Kind.String() == kind {
			out = append(out, emit.Event)
		}
	}
	return out
}

// outers lists the effects of one type.
func outers[E effects.Outer](effs []effects.Effect) []E {
	var out []E
	for _, e := range effs {
		if e, ok := e.(E); ok {
			out = append(out, e)
		}
	}
	return out
}

// waitedFor lists the outer effects that a machine waits for.
func waitedFor(s core.State) []effects.Effect {
	var out []effects.Effect
	for _, e := range core.Outstanding(s) {
		out = append(out, e)
	}
	return out
}

// numbered checks what a step does to the effects that a machine waits for.
func numbered(s step, before, after core.PendingEffects, most int) string {
	last, open := before.Last, map[uint32]string{}
	for _, o := range before.Open {
		open[o.Effect.Number()] = string(o.Effect.AppendJSON(nil))
	}
	for _, e := range s.effs {
		if w, ok := e.(effects.Withdraw); ok {
			if open[w.N] == "" {
				return fmt.Sprintf("%d is withdrawn, which nobody waits for", w.N)
			}
			delete(open, w.N)
		}
		if o, ok := e.(effects.Outer); ok {
			if o.Number() <= last {
				return fmt.Sprintf("number %d after %d", o.Number(), last)
			}
			last, open[o.Number()] = o.Number(), string(o.AppendJSON(nil))
		}
	}
	switch e := s.event.(type) {
	case core.EffectDone:
		delete(open, e.N)
	case core.EffectFailed:
		delete(open, e.N)
	case core.EffectInterrupted:
		delete(open, e.N)
	case core.EffectHandedBack:
		delete(open, e.N)
	}
	for _, o := range after.Open {
		if open[o.Effect.Number()] != string(o.Effect.AppendJSON(nil)) {
			return fmt.Sprintf("%s is noted and was not asked for", o.Effect.AppendJSON(nil))
		}
	}
	return unless(after.Last == last && len(after.Open) == len(open) && len(open) <= most, "last %d, want %d; noted %v, want %v, at most %d", after.Last, last, after.Open, open, most)
}

func goldenTaskSpec() core.TaskSpec {
	return core.TaskSpec{
		ID: id(1), Namespace: "merges", Tenant: "tenant-1", Label: "Größe <3 & \"more\"", PipelineID: id(2),
		Owner:     core.Owner{Ref: effects.Ref{Kind: core.KindPipeline, ID: id(2)}, N: 3},
		Workspace: "a/b", Command: []string{"agent", "--<flag>"}, Env: map[string]string{"B": "2", "A": "1"}, Prompt: "Fix it.\n",
		Config: core.TaskConfig{
			HeartbeatTimeoutMS: 60_000, IdleTimeoutMS: 300_000, MaxRecoveryAttempts: 2, RecoveryIntervalMS: 30_000,
			CheckpointIntervalMS: 120_000, TimeoutMS: 3_600_000, Nudge: "continue",
		},
	}
}

// madeTask gives the task of a spec, and what some events make of it.
func madeTask(spec core.TaskSpec, events ...core.TaskEvent) core.Task {
	task, _ := core.Task{}.Apply(core.TaskCreate{Spec: spec}, core.Clock{Now: start})
	return afterEvents(core.Task.Apply, task, events...)
}

func goldenTaskStates() []core.State {
	spec := goldenTaskSpec()
	up := []core.TaskEvent{core.TaskStart{}, core.EffectDone{N: 1}}
	with := func(events ...core.TaskEvent) core.State {
		return madeTask(spec, append(up[:2:2], events...)...)
	}
	return []core.State{
		madeTask(spec), madeTask(spec, core.TaskStart{}), madeTask(core.TaskSpec{ID: id(3)}, core.TaskStart{}),
		with(core.TaskHeartbeat{Status: core.LivenessActive, Output: "<$ ", Progress: "1/2"}, core.TaskInput{Text: "y"}),
		with(core.TaskHeartbeat{Status: core.LivenessIdle, IdleMS: 300_001}, core.TaskRecover{Action: core.RecoverNudge}),
		with(core.TaskHeartbeat{Status: core.LivenessSessionDead, ExitCode: new(int32(-1))}),
		with(core.TaskRecover{Action: core.RecoverRestart}, core.EffectInterrupted{N: 2}),
		with(core.TaskComplete{Output: json.RawMessage(` {"a": "<"} `)}), with(core.TaskFail{Error: "no"}), with(core.TaskCancel{}, core.EffectDone{N: 2}),
		madeTask(spec, core.TaskStart{}, core.EffectFailed{N: 1, Reason: "tmux: not found"}),
		madeTask(spec, core.TaskStart{}, core.EffectDone{N: 1, Result: json.RawMessage(`{"home":"daemon-1"}`)}, core.HomeLost{Home: "daemon-1"}),
	}
}

func goldenTaskEvents() []core.Event {
	return []core.Event{
		core.TaskCreate{Spec: goldenTaskSpec()}, core.TaskCreate{Spec: core.TaskSpec{ID: id(3)}}, core.TaskStart{}, core.TaskDue{},
		core.TaskHeartbeat{Status: core.LivenessActive}, core.TaskHeartbeat{Status: core.LivenessIdle, Session: "s", IdleMS: 1, Output: "<$ ", Progress: "1/2"},
		core.TaskHeartbeat{Status: core.LivenessSessionDead, ExitCode: new(int32(0))},
		core.TaskRecover{Action: core.RecoverNudge}, core.TaskRecover{Action: core.RecoverEscalate, Message: "look"},
		core.TaskComplete{}, core.TaskComplete{Output: json.RawMessage(`{"a":1}`)}, core.TaskFail{Error: "no"}, core.TaskCancel{Reason: "not needed"},
		core.TaskInput{Text: "y"}, core.TaskExpire{}, core.EffectDone{N: 1}, core.EffectDone{N: 1, Result: json.RawMessage(`{}`)},
		core.EffectFailed{N: 1, Reason: "no", Permanent: true}, core.EffectInterrupted{N: 1, Reason: core.ReasonRecovered}, core.EffectHandedBack{N: 1},
		core.HomeLost{Home: "daemon-1"},
	}
}

func drawOwner(t *rapid.T) core.Owner {
	return rapid.SampledFrom([]core.Owner{
		{}, {Ref: effects.Ref{Kind: core.KindPipeline, ID: id(7)}, N: 1}, {Ref: effects.Ref{Kind: core.KindPipeline, ID: id(7)}, N: 1}, {Ref: effects.Ref{Kind: "planet", ID: id(7)}},
	}).Draw(t, "owner")
}

func drawTaskConfig(t *rapid.T) core.TaskConfig {
	spans := []int64{0, 0, 1, 1000, 60_000, 60_000, core.MaxTimeout.Milliseconds(), -1}
	if rapid.IntRange(0, 3).Draw(t, "sane") > 0 {
		spans = []int64{0, 1000, 60_000}
	}
	span := func(label string) int64 { return rapid.SampledFrom(spans).Draw(t, label) }
	return core.TaskConfig{
		HeartbeatTimeoutMS: span("heartbeat_timeout_ms"), IdleTimeoutMS: span("idle_timeout_ms"), RecoveryIntervalMS: span("recovery_interval_ms"),
		CheckpointIntervalMS: span("checkpoint_interval_ms"),
		MaxRecoveryAttempts:  rapid.SampledFrom([]uint32{0, 1, 2, 5, core.NoRecovery}).Draw(t, "max_recovery_attempts"),
		TimeoutMS:            rapid.SampledFrom([]int64{0, 0, 0, 1, 3_600_000}).Draw(t, "timeout_ms"),
	}
}

func drawTaskSpec(t *rapid.T) core.TaskSpec {
	s := core.TaskSpec{ID: drawID(t, "id"), Owner: drawOwner(t), Config: drawTaskConfig(t), PipelineID: drawID(t, "pipeline_id")}
	if rapid.IntRange(0, 4).Draw(t, "session") > 0 {
		s.Command = []string{"agent"}
	}
	if rapid.IntRange(0, 3).Draw(t, "rich") == 0 {
		s.Namespace, s.Tenant, s.Label = drawName(t, "namespace"), drawName(t, "tenant"), drawText(t, "label")
		s.Env, s.Prompt, s.Workspace = drawMap(t, "env"), drawText(t, "prompt"), drawText(t, "workspace")
		s.Command = rapid.SampledFrom([][]string{{}, {""}, {"a", ""}, {"\xff"}}).Draw(t, "command")
	}
	return s
}

// drawAnswer answers one of the outer effects that a machine waits for, or none.
func drawAnswer(t *rapid.T, s core.State) core.Event {
	numbers := []uint32{0, 1, math.MaxUint32}
	if open := core.Outstanding(s); len(open) > 0 && rapid.IntRange(0, 9).Draw(t, "stale") > 0 {
		numbers = nil
		for _, e := range open {
			numbers = append(numbers, e.Number())
		}
	}
	n := rapid.SampledFrom(numbers).Draw(t, "n")
	switch rapid.SampledFrom([]string{"done", "done", "failed", "interrupted", "handed back"}).Draw(t, "answer") {
	case "done":
		return core.EffectDone{N: n, Result: drawHome(t)}
	case "failed":
		return core.EffectFailed{N: n, Reason: drawText(t, "reason"), Result: drawJSON(t, "result"), Permanent: rapid.IntRange(0, 3).Draw(t, "permanent") == 0}
	case "interrupted":
		return core.EffectInterrupted{N: n, Reason: drawText(t, "reason")}
	}
	return core.EffectHandedBack{N: n}
}

func drawTaskEvent(t *rapid.T, state core.State, c core.Clock) core.Event {
	task := state.(core.Task)
	if !exists(task) && rapid.IntRange(0, 9).Draw(t, "make") > 0 {
		return core.TaskCreate{Spec: drawTaskSpec(t)}
	}
	switch rapid.SampledFrom([]string{
		"due", "due", "due", "due", "heartbeat", "heartbeat", "heartbeat", "recover", "recover", "input", "answer", "answer", "answer", "start",
		"complete", "fail", "cancel", "expire", "create", "home_lost",
	}).Draw(t, "event") {
	case "due":
		return core.TaskDue{}
	case "heartbeat":
		return drawHeartbeat(t, task)
	case "recover":
		return core.TaskRecover{
			Action:  rapid.SampledFrom([]core.RecoveryAction{core.RecoverNudge, core.RecoverRestart, core.RecoverEscalate, "pray"}).Draw(t, "action"),
			Message: drawText(t, "message"),
		}
	case "input":
		return core.TaskInput{Text: drawText(t, "text")}
	case "answer":
		return drawAnswer(t, task)
	case "start":
		return core.TaskStart{}
	case "complete":
		return core.TaskComplete{Output: drawJSON(t, "output")}
	case "fail":
		return core.TaskFail{Error: drawText(t, "error")}
	case "cancel":
		return core.TaskCancel{Reason: drawText(t, "reason")}
	case "expire":
		return core.TaskExpire{}
	case "home_lost":
		return core.HomeLost{Home: rapid.SampledFrom([]string{task.Home, task.Home, "a", "\xff", ""}).Draw(t, "home")}
	}
	return core.TaskCreate{Spec: drawTaskSpec(t)}
}

func drawHeartbeat(t *rapid.T, task core.Task) core.TaskHeartbeat {
	return core.TaskHeartbeat{
		Status: rapid.SampledFrom([]core.Liveness{
			core.LivenessActive, core.LivenessActive, core.LivenessIdle, core.LivenessIdle, core.LivenessSessionDead, "well",
		}).Draw(t, "status"),
		Session:  rapid.SampledFrom([]string{"", "", task.SessionID, "another"}).Draw(t, "session"),
		IdleMS:   rapid.SampledFrom([]int64{0, 0, 1000, 60_000, 60_001, 300_001, math.MaxInt64, -1}).Draw(t, "idle_ms"),
		ExitCode: maybe(t, "exit_code", func() int32 { return rapid.SampledFrom([]int32{0, 1, -1}).Draw(t, "exit_code") }),
		Output:   rapid.SampledFrom([]string{"", "$ ", "\xff\xfe", strings.Repeat("☃", core.MaxScreenBytes)}).Draw(t, "output"),
		Progress: drawText(t, "progress"),
	}
}

func drawPending(t *rapid.T) core.PendingEffects {
	var out core.PendingEffects
	out.Last = rapid.SampledFrom([]uint32{0, 1, 5, math.MaxUint32}).Draw(t, "last")
	out.Open = rapid.SliceOfN(rapid.SampledFrom([]core.PendingEffect{
		{Effect: effects.Spawn{N: 1}}, {Effect: effects.Kill{N: 2}}, {Effect: effects.Nudge{N: 1}}, {Effect: effects.SendInput{N: math.MaxUint32}},
		{Effect: effects.Merge{N: 3}}, {Effect: effects.RunTool{Run: 1}},
	}), 0, 4).Draw(t, "open")
	return out
}

func hostileTask(t *rapid.T) core.State {
	c := core.Clock{Now: start}
	count := func(label string) uint32 {
		return rapid.SampledFrom([]uint32{0, 1, math.MaxUint32 - 1, math.MaxUint32}).Draw(t, label)
	}
	spec := drawTaskSpec(t)
	if rapid.Bool().Draw(t, "exists") && spec.ID == uuid.Nil {
		spec.ID = id(1)
	}
	return core.Task{
		TaskSpec: spec, SessionID: drawText(t, "session_id"), Home: rapid.SampledFrom([]string{"", "a"}).Draw(t, "home"),
		State: core.TaskState{
			Type:      rapid.SampledFrom([]core.TaskStateType{"", "odd", core.TaskPending, core.TaskRunning, core.TaskStuck, core.TaskDone}).Draw(t, "state"),
			StartedAt: drawTime(t, c), DetectedAt: drawTime(t, c),
			Reason: core.StuckReason{
				Type:     rapid.SampledFrom([]core.StuckType{"", core.StuckNoHeartbeat, core.StuckNoProgress, core.StuckSessionDead}).Draw(t, "reason"),
				LastSeen: drawTime(t, c), DurationMS: rapid.SampledFrom([]int64{0, math.MaxInt64, math.MinInt64}).Draw(t, "duration"),
			},
		},
		LastHeartbeat: drawTime(t, c), LastProgress: drawTime(t, c), RecoverAt: drawTime(t, c), CheckpointAt: drawTime(t, c),
		RecoveryAttempts: count("attempts"), Restarts: count("restarts"), Repeats: count("repeats"),
		Nudged: rapid.Bool().Draw(t, "nudged"), Spawned: rapid.Bool().Draw(t, "spawned"), Pending: drawPending(t),
		CreatedAt: drawTime(t, c), UpdatedAt: drawTime(t, c), FinishedAt: drawTime(t, c),
	}
}
