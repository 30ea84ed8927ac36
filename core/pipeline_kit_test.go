package core_test

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

var _ = register(core.KindPipeline, kit{
	typ: "Pipeline", absent: core.Pipeline{}, apply: applying(core.Pipeline.Apply),
	made: func() core.State {
		s, _ := core.Pipeline{}.Apply(core.PipelineCreate{Spec: core.PipelineSpec{ID: id(1), Definition: manualDef()}}, core.Clock{Now: start})
		return s
	},
	hostile: func(t *rapid.T) core.State { return hostilePipeline(t) },
	draw: func(t *rapid.T, s core.State, c core.Clock) core.Event {
		return drawPipelineEvent(t, s.(core.Pipeline), c)
	},
	own:    core.PipelineUnblock{},
	states: pipelineStates, events: pipelineEvents,
	phase:      func(s core.State) string { return string(s.(core.Pipeline).Phase.Type) },
	phases:     []string{"absent", "init", "blocked", "running", "done", "failed", "cancelled"},
	invariants: pipelineInvariants,
})

func manualDef() core.PipelineDef {
	return core.PipelineDef{Name: "release", Phases: []core.PhaseDef{{Name: "build", Manual: &core.ManualPhase{}}, {Name: "ship", Manual: &core.ManualPhase{}}}}
}

// begunPipeline gives a pipeline that runs its first phase.
func begunPipeline(def core.PipelineDef, c core.Clock) core.Pipeline {
	p, _ := core.Pipeline{}.Apply(core.PipelineCreate{Spec: core.PipelineSpec{ID: id(1), Definition: def}}, c)
	p, _ = p.Apply(core.PipelineDue{}, c)
	return p
}

// everyPhase has a phase of each kind, with references between them.
func everyPhase() core.PipelineDef {
	phases := []core.PhaseDef{
		{Name: "run", Run: &core.ToolRun{Tool: "command", Input: json.RawMessage(`{"argv":["make","${target}"]}`)}, Retry: core.Retry{MaxAttempts: 2, BackoffMS: 1000}},
		{Name: "task", Task: &core.AgentPrompt{Prompt: "mend ${target}", Command: []string{"agent"}, Workspace: "w"}, TimeoutMS: 60_000},
		{Name: "strategy", Strategy: &core.StrategyPhase{Approaches: []core.Approach{{Name: "ff", Action: core.ApproachAction{Merge: &core.MergeRun{Repo: "r", Branch: "b", Into: "main", Strategy: effects.MergeFastForward}}}}}},
		{Name: "push", Push: &core.PushPhase{Queue: "q", Data: json.RawMessage(`"${run}"`), Wait: true}},
		{Name: "wait", Wait: &core.WaitPhase{ForMS: 1000}},
		{Name: "signal", Signal: &core.SignalPhase{Name: "go"}},
		{Name: "approval", Approval: &core.ApprovalPhase{Message: "ship ${target}?", Notify: true}},
		{Name: "pipelines", Pipelines: &core.PipelinesPhase{Start: []core.PipelineStartDef{{Definition: manualDef()}, {Definition: manualDef()}}, Wait: true}},
		{Name: "await", Pipelines: &core.PipelinesPhase{Await: []string{id(4).String()}}},
		{Name: "lock", Lock: &core.LockPhase{Name: "main", TTLMS: 1000}},
		{Name: "semaphore", Semaphore: &core.SemaphorePhase{Name: "slots", Slots: 2}},
		{Name: "worktree", Worktree: &core.WorktreePhase{Op: core.WorktreeAdd, Repo: "r", Branch: "b", Path: "p"}},
		{Name: "merge", Merge: &core.MergeRun{Repo: "r", Branch: "b", Into: "main", Strategy: effects.MergeRebase}, Retry: core.Retry{NoRetry: []string{"conflict"}}},
		{Name: "remove", Worktree: &core.WorktreePhase{Op: core.WorktreeRemove, Repo: "r", Path: "p", Force: true}, IgnoreFailure: true},
		{Name: "unlock", Unlock: &core.UnlockPhase{Name: "main"}},
		{Name: "set", Set: &core.SetPhase{Values: map[string]json.RawMessage{"answer": json.RawMessage(`["${target}",42]`)}}},
		{Name: "checkpoint", Checkpoint: &core.CheckpointPhase{Message: "merged in attempt ${phase.attempt}"}},
		{Name: "wake", Wake: &core.WakePhase{Worker: "w"}, When: &core.When{Ref: "answer.1", Equals: json.RawMessage("42")}},
		{Name: "manual", Manual: &core.ManualPhase{Instructions: "look at it"}},
		{Name: "notify", Notify: &core.NotifyPhase{Title: "done", Message: "${manual}"}},
	}
	return core.PipelineDef{Name: "every", Inputs: []core.InputDef{{Name: "target", Default: json.RawMessage(`"all"`)}}, Phases: phases, OnFailure: "notify", Result: "answer"}
}

func drawPipelineSpec(t *rapid.T) core.PipelineSpec {
	s := core.PipelineSpec{ID: drawID(t, "id"), Hold: rapid.IntRange(0, 3).Draw(t, "hold") == 0}
	switch rapid.IntRange(0, 5).Draw(t, "definition") {
	case 0:
		s.Definition = manualDef()
	case 1:
		s.Definition = core.PipelineDef{Name: drawText(t, "name"), Phases: []core.PhaseDef{{Name: drawText(t, "phase"), Run: &core.ToolRun{Tool: drawText(t, "tool"), Input: drawJSON(t, "input")}}}}
	default:
		all := everyPhase()
		// Any of the phases, in order, so that each is reached often.
		s.Definition = core.PipelineDef{
			Name: "drawn", Inputs: all.Inputs, TimeoutMS: rapid.SampledFrom([]int64{0, 0, 0, 100_000}).Draw(t, "timeout_ms"),
			ContextLimit: rapid.SampledFrom([]int{0, 100, 1000}).Draw(t, "context_limit"),
		}
		s.Context = map[string]json.RawMessage{"run": json.RawMessage(`"x"`), "answer": json.RawMessage("[1,2]"), "manual": json.RawMessage(`{}`)}
		for _, p := range all.Phases {
			if rapid.IntRange(0, 3).Draw(t, p.Name) > 0 {
				continue
			}
			p.TimeoutMS = rapid.SampledFrom([]int64{0, 0, 1, 60_000}).Draw(t, "timeout_ms")
			p.Retry.MaxAttempts = rapid.SampledFrom([]uint32{0, 1, 2, 3}).Draw(t, "max_attempts")
			p.IgnoreFailure = rapid.IntRange(0, 4).Draw(t, "ignore_failure") == 0
			s.Definition.Phases = append(s.Definition.Phases, p)
		}
		if n := len(s.Definition.Phases); n > 0 && rapid.Bool().Draw(t, "cleans up") {
			s.Definition.OnFailure = s.Definition.Phases[n-1].Name
		}
	}
	if rapid.IntRange(0, 2).Draw(t, "depends") == 0 {
		s.DependsOn = []uuid.UUID{id(7), id(8)}[:rapid.IntRange(0, 2).Draw(t, "depends_on")]
	}
	if rapid.Bool().Draw(t, "rich") {
		s.Namespace, s.Tenant, s.Label, s.Runbook = drawName(t, "namespace"), drawName(t, "tenant"), drawText(t, "label"), drawName(t, "runbook")
		s.Owner = core.Owner{Ref: effects.Ref{Kind: core.KindPipeline, ID: id(9)}, N: 3}
		if s.Context == nil {
			s.Context = map[string]json.RawMessage{"x": drawJSON(t, "x")}
		}
	}
	return s
}

// awaitedNumbers are those that the pipeline waits for, and one that it does not.
func awaitedNumbers(p core.Pipeline) []uint32 {
	out := []uint32{0, p.Pending.Last, math.MaxUint32}
	for _, o := range p.Pending.Open {
		out = append(out, o.Effect.Number(), o.Effect.Number())
	}
	for _, list := range [][]core.Awaited{p.Waiting.Children, p.Unmet} {
		for _, d := range list {
			out = append(out, d.N, d.N)
		}
	}
	for _, h := range p.Holds {
		out = append(out, h.N, h.N)
	}
	return append(out, p.Abandoned...)
}

func drawPipelineEvent(t *rapid.T, p core.Pipeline, _ core.Clock) core.Event {
	if !exists(p) && rapid.IntRange(0, 9).Draw(t, "make") > 0 {
		return core.PipelineCreate{Spec: drawPipelineSpec(t)}
	}
	n := rapid.SampledFrom(awaitedNumbers(p)).Draw(t, "n")
	phase := rapid.SampledFrom([]string{p.Phase.Name, p.Phase.Name, "x"}).Draw(t, "phase")
	likely := map[core.WaitFor][]string{
		core.WaitChild: {"child", "child", "pushed"}, core.WaitEffect: {"effect_done", "effect_failed", "effect_interrupted", "effect_handed_back"},
		core.WaitTime: {"due"}, core.WaitSignal: {"signal"}, core.WaitApproval: {"approve"}, core.WaitManual: {"phase_complete", "phase_failed"},
		core.WaitHold: {"granted", "lost"}, core.WaitRegain: {"granted", "lost"}, core.WaitRetry: {"due"}, core.WaitTransition: {"due"},
	}[p.Waiting.For]
	if more := map[core.PhaseType][]string{
		core.PhaseInit: {"due", "start"}, core.PhaseBlocked: {"child", "child", "pushed", "unblock"}, core.PhaseFailure: {"retry"},
	}[p.Phase.Type]; more != nil {
		likely = more
	}
	all := []string{
		"due", "start", "phase_complete", "phase_failed", "retry", "unblock", "cancel", "signal", "approve", "checkpoint", "watch", "expire",
		"child", "pushed", "effect_done", "effect_failed", "effect_interrupted", "effect_handed_back", "granted", "lost", "home_lost", "create",
	}
	if len(likely) > 0 && rapid.IntRange(0, 3).Draw(t, "likely") > 0 {
		all = likely
	}
	event := rapid.SampledFrom(all).Draw(t, "event")
	if e := drawPipelineAnswer(t, event, n); e != nil {
		return e
	}
	switch event {
	case "due":
		return core.PipelineDue{}
	case "start":
		return core.PipelineStart{}
	case "phase_complete":
		return core.PhaseComplete{Phase: phase, Attempt: rapid.SampledFrom([]uint32{0, 0, p.Attempt, 9}).Draw(t, "attempt"), Result: drawJSON(t, "result")}
	case "phase_failed":
		return core.PhaseFailed{Phase: phase, Error: drawText(t, "error"), Permanent: rapid.Bool().Draw(t, "permanent")}
	case "retry":
		return core.PipelineRetry{}
	case "unblock":
		return core.PipelineUnblock{}
	case "cancel":
		return core.PipelineCancel{Reason: drawText(t, "reason")}
	case "signal":
		return core.PipelineSignal{Name: rapid.SampledFrom([]string{"go", "go", "other", ""}).Draw(t, "name"), Payload: drawJSON(t, "payload")}
	case "approve":
		return core.PipelineApprove{Phase: phase, By: drawText(t, "by"), Approved: rapid.Bool().Draw(t, "approved"), Comment: drawText(t, "comment")}
	case "checkpoint":
		return core.PipelineCheckpoint{Message: drawText(t, "message")}
	case "watch":
		return core.PipelineWatch{Owner: core.Owner{Ref: effects.Ref{Kind: core.KindPipeline, ID: drawID(t, "watcher")}, N: rapid.Uint32Range(1, 2).Draw(t, "under")}}
	case "expire":
		return core.PipelineExpire{}
	}
	return core.PipelineCreate{Spec: drawPipelineSpec(t)}
}

// drawPipelineAnswer gives an answer with that number; nil where the event is none.
func drawPipelineAnswer(t *rapid.T, event string, n uint32) core.Event {
	switch event {
	case "child":
		outcome := rapid.SampledFrom([]core.ChildOutcome{core.ChildSucceeded, core.ChildSucceeded, core.ChildSucceeded, core.ChildFailed, core.ChildCancelled, core.ChildRefused, "odd"}).Draw(t, "outcome")
		return core.ChildEnded{Child: effects.Ref{Kind: core.KindAction, ID: id(5)}, N: n, Outcome: outcome, Result: drawJSON(t, "result"), Reason: drawText(t, "reason"), Permanent: rapid.Bool().Draw(t, "permanent")}
	case "pushed":
		return core.QueuePushed{N: n, Item: id(6)}
	case "effect_done":
		return core.EffectDone{N: n, Result: drawHome(t)}
	case "effect_failed":
		return core.EffectFailed{N: n, Reason: drawText(t, "reason"), Result: drawJSON(t, "result"), Permanent: rapid.Bool().Draw(t, "permanent")}
	case "effect_interrupted":
		return core.EffectInterrupted{N: n, Reason: drawText(t, "reason")}
	case "effect_handed_back":
		return core.EffectHandedBack{N: n}
	case "granted":
		return core.Granted{N: n, Name: "main", Token: 7, Until: start}
	case "lost":
		return core.Lost{N: n, Name: "main", Reason: drawText(t, "reason")}
	case "home_lost":
		return core.HomeLost{Home: rapid.SampledFrom([]string{"a", "a", "b", "\xff", ""}).Draw(t, "home")}
	}
	return nil
}

// drawHome gives the result of an effect, which may tell of a home.
func drawHome(t *rapid.T) json.RawMessage {
	if rapid.IntRange(0, 2).Draw(t, "has a home") > 0 {
		return drawJSON(t, "result")
	}
	return json.RawMessage(rapid.SampledFrom([]string{`{"home":"a"}`, `{"home":"a"}`, `{"home":"b"}`, `{"home":7}`}).Draw(t, "home"))
}

func hostilePipeline(t *rapid.T) core.Pipeline {
	c := core.Clock{Now: start}
	n := func(label string) uint32 {
		return rapid.SampledFrom([]uint32{0, 1, 2, math.MaxUint32 - 500, math.MaxUint32}).Draw(t, label)
	}
	name := rapid.SampledFrom([]string{"", "no such", "run", "merge", "lock", "manual", "notify", "pipelines", "wait", "approval"}).Draw(t, "phase")
	p := core.Pipeline{
		PipelineSpec: drawPipelineSpec(t),
		Phase: core.Phase{
			Type: rapid.SampledFrom([]core.PhaseType{"", "odd", core.PhaseInit, core.PhaseBlocked, core.PhaseRunning, core.PhaseRunning, core.PhaseDone, core.PhaseFailure, core.PhaseCancelled}).Draw(t, "type"),
			Name: name, Recoverable: rapid.Bool().Draw(t, "recoverable"),
		},
		Attempt: n("attempt"), CreatedAt: drawTime(t, c), EndsBy: rapid.SampledFrom([]core.Time{0, -5, start}).Draw(t, "ends_by"),
		Pending: core.PendingEffects{Last: n("last"), Open: []core.PendingEffect{{Effect: effects.Merge{N: n("open")}}, {Effect: effects.RunTool{Run: n("run"), Tool: "x"}}}},
		Waiting: core.Waiting{
			For: rapid.SampledFrom([]core.WaitFor{
				"", "odd", core.WaitChild, core.WaitEffect, core.WaitTime, core.WaitSignal, core.WaitApproval, core.WaitManual, core.WaitHold, core.WaitRegain, core.WaitRetry, core.WaitTransition,
			}).Draw(t, "for"),
			N: n("n"), Name: "go", Until: drawTime(t, c), Deadline: drawTime(t, c), Children: []core.Awaited{{Ref: effects.Ref{Kind: "odd"}, N: n("child"), Own: true}},
		},
		Holds:     []core.Hold{{Name: "main", N: n("hold"), Granted: rapid.Bool().Draw(t, "granted")}},
		Regain:    []core.Hold{{Name: "main"}},
		Unmet:     []core.Awaited{{Ref: effects.Ref{Kind: core.KindPipeline, ID: id(7)}, N: n("unmet")}},
		Abandoned: []uint32{n("leaving")}, Watchers: []core.Owner{{}},
	}
	if rapid.Bool().Draw(t, "every phase") {
		p.Definition = everyPhase()
	}
	for range rapid.SampledFrom([]int{0, 0, 1, 2, core.MaxWorktrees, core.MaxWorktrees + 3}).Draw(t, "worktrees") {
		p.Worktrees = append(p.Worktrees, core.Worktree{Repo: "r", Path: "p", Home: "a"})
	}
	if rapid.Bool().Draw(t, "failing") {
		p.Failing = &core.Failing{Phase: name}
	}
	return p
}

func pipelineStates() []core.State {
	c := core.Clock{Now: start}
	owner := core.Owner{Ref: effects.Ref{Kind: core.KindWorker, ID: id(2)}, N: 4}
	p, _ := core.Pipeline{}.Apply(core.PipelineCreate{Spec: core.PipelineSpec{
		ID: id(1), Namespace: "n", Tenant: "t", Label: "<Größe>", Runbook: "book", Owner: owner, Definition: everyPhase(), DependsOn: []uuid.UUID{id(3)},
	}}, c)
	blocked, _ := p.Apply(core.PipelineDue{}, c)
	running, _ := blocked.Apply(core.ChildEnded{N: 1, Outcome: core.ChildSucceeded}, c)
	again, _ := running.Apply(core.ChildEnded{N: 2, Outcome: core.ChildFailed, Reason: "exit status 1"}, c)
	cancelled, _ := again.Apply(core.PipelineCancel{}, core.Clock{Now: start.Add(time.Second)})
	full := again
	full.Holds = []core.Hold{{Name: "main", Semaphore: true, Slots: 2, TTLMS: 5, N: 9, Granted: true, Token: math.MaxUint64, Until: start}}
	full.Regain, full.Failing = full.Holds, &core.Failing{Phase: "run", Error: "e", Recoverable: true}
	full.Signals = []core.Signal{{Name: "go", Payload: json.RawMessage(`{"a":1}`), At: start}}
	full.Pending = core.PendingEffects{Last: 9, Open: []core.PendingEffect{{Effect: effects.Notify{N: 9, Title: "t"}}}}
	full.Checkpoints = []core.Checkpoint{{Phase: "run", Message: "m", Timestamp: start}}
	full.Worktrees = []core.Worktree{{Repo: "r", Path: "wt", Home: "daemon-1"}}
	full.Abandoned, full.Watchers = []uint32{4}, []core.Owner{owner}
	return []core.State{p, blocked, running, again, cancelled, full}
}

func pipelineEvents() []core.Event {
	ref := effects.Ref{Kind: core.KindAction, ID: id(5)}
	return []core.Event{
		core.PipelineCreate{Spec: core.PipelineSpec{ID: id(1), Definition: everyPhase(), Context: map[string]json.RawMessage{"target": json.RawMessage(`"x"`)}, DependsOn: []uuid.UUID{id(2)}, Hold: true}},
		core.PipelineStart{}, core.PhaseComplete{Phase: "build", Attempt: 1, Result: json.RawMessage(`{"ok":true}`)}, core.PhaseComplete{},
		core.PhaseFailed{Phase: "build", Error: "no", Permanent: true}, core.PipelineRetry{}, core.PipelineUnblock{}, core.PipelineCancel{Reason: "r"},
		core.PipelineSignal{Name: "go", Payload: json.RawMessage(`[1]`)}, core.PipelineApprove{Phase: "ask", By: "ann", Approved: true, Comment: "fine"},
		core.PipelineCheckpoint{Message: "half"}, core.PipelineWatch{Owner: core.Owner{Ref: ref, N: 1}}, core.PipelineDue{}, core.PipelineExpire{},
		core.QueuePushed{N: 1, Item: id(6)}, core.ChildEnded{Child: ref, N: 1, Outcome: core.ChildFailed, Reason: "x", Interrupted: true},
		core.ChildEnded{Child: ref, N: 1, Outcome: core.ChildSucceeded, Result: json.RawMessage(`1`)}, core.ChildEnded{Child: ref, N: 1, Outcome: core.ChildFailed, Reason: "x", Permanent: true},
		core.EffectDone{N: 1, Result: json.RawMessage(`1`)}, core.EffectFailed{N: 1, Reason: "x", Permanent: true}, core.EffectInterrupted{N: 1, Reason: "x"},
		core.EffectHandedBack{N: 1}, core.Granted{N: 1, Name: "l", Token: 2, Until: start}, core.Lost{N: 1, Name: "l", Reason: "x"},
		core.HomeLost{Home: "daemon-1"},
	}
}

// numbersAsked lists the numbers of the children, effects and locks that a step asks for.
func numbersAsked(s step) []uint32 {
	var out []uint32
	for _, e := range s.effs {
		if outer, ok := e.(effects.Outer); ok {
			out = append(out, outer.Number())
		}
		if lock, ok := e.(effects.AcquireLock); ok {
			out = append(out, lock.N)
		}
		if slots, ok := e.(effects.AcquireSemaphore); ok {
			out = append(out, slots.N)
		}
		if send, ok := e.(effects.Send); ok {
			out = append(out, ownerNumber(send.Event))
		}
	}
	return slices.DeleteFunc(out, func(n uint32) bool { return n == 0 })
}

// ownerNumber is the number under which the sender of an event waits; 0: it does not.
func ownerNumber(e effects.Message) uint32 {
	switch e := e.(type) {
	case core.ActionCreate:
		return e.Spec.Owner.N
	case core.TaskCreate:
		return e.Spec.Owner.N
	case core.StrategyCreate:
		return e.Spec.Owner.N
	case core.PipelineWatch:
		return e.Owner.N
	case core.PipelineCreate:
		return e.Spec.Owner.N
	case core.QueuePush:
		return e.Owner.N
	}
	return 0
}

// given lists the locks and semaphores, by number, that a step gives back.
func given(s step) []uint32 {
	var out []uint32
	for _, e := range s.effs {
		if lock, ok := e.(effects.ReleaseLock); ok {
			out = append(out, lock.N)
		}
		if slots, ok := e.(effects.ReleaseSemaphore); ok {
			out = append(out, slots.N)
		}
	}
	return out
}

func contextBytes(p core.Pipeline) int {
	n := 0
	for name, v := range p.Context {
		n += len(name) + len(v)
	}
	return n
}

func placeOf(p core.Pipeline) int {
	return slices.IndexFunc(p.Definition.Phases, func(d core.PhaseDef) bool { return d.Name == p.Phase.Name })
}

// answers gives the number that an event answers.
func answers(e core.Event) (uint32, bool) {
	switch e.(type) {
	case core.ChildEnded, core.EffectDone, core.EffectFailed, core.EffectInterrupted, core.EffectHandedBack, core.Granted:
		return uint32(reflect.ValueOf(e).FieldByName("N").Uint()), true
	}
	return 0, false
}

var pipelineInvariants = []invariant{
	on("A pipeline passes its phases in order: while it runs, a phase is only followed by a later one; only a retry goes back, to the phase that failed.", func(s step, b, a core.Pipeline) string {
		if b.Phase.Type != core.PhaseRunning || a.Phase.Type != core.PhaseRunning {
			if _, retry := s.event.(core.PipelineRetry); retry && a.Phase.Type == core.PhaseRunning && b.Phase.Type == core.PhaseFailure {
				return unless(placeOf(a) >= placeOf(b), "retried at %q instead of %q", a.Phase.Name, b.Phase.Name)
			}
			return ""
		}
		return unless(placeOf(a) >= placeOf(b), "%q is followed by %q", b.Phase.Name, a.Phase.Name)
	}),
	on("Done, failed and cancelled have no deadline, wait for nothing, and hold neither lock nor slot: what they held or waited for was given back.", func(s step, b, a core.Pipeline) string {
		if !exists(a) || !a.Phase.Type.Ended() {
			return ""
		}
		if a.Deadline() != 0 || a.Waiting.For != "" || len(a.Waiting.Children) > 0 || len(a.Holds) > 0 || len(a.Pending.Open) > 0 {
			return fmt.Sprintf("%s at %s: %+v %+v", a.Phase.Type, a.Deadline(), a.Waiting, a.Holds)
		}
		lost, _ := s.event.(core.Lost)
		ended, _ := s.event.(core.ChildEnded)
		for _, h := range b.Holds {
			if !slices.Contains(given(s), h.N) && h.N != lost.N && h.N != ended.N {
				return fmt.Sprintf("%+v was not given back", h)
			}
		}
		return ""
	}),
	on("An answer is taken at most once: its number is not waited for afterwards.", func(s step, b, a core.Pipeline) string {
		n, is := answers(s.event)
		if !is || refusal(s.effs) != nil {
			return ""
		}
		_, effs := a.Apply(s.event.(core.PipelineEvent), s.clock)
		return unless(refusal(effs) != nil, "number %d is taken twice", n)
	}),
	on("The context is never above its limit.", func(_ step, _, a core.Pipeline) string {
		limit := a.Definition.ContextLimit
		if limit == 0 {
			limit = core.DefaultContextLimit
		}
		return unless(contextBytes(a) <= limit, "%d bytes of %d", contextBytes(a), limit)
	}),
	on("Numbers never decrease, and no two of a child, an effect or a lock that are asked for have the same.", func(s step, b, a core.Pipeline) string {
		if !exists(a) {
			return ""
		}
		last := b.Pending.Last
		for _, n := range numbersAsked(s) {
			if n <= last {
				return fmt.Sprintf("%d is asked for after %d", n, last)
			}
			last = n
		}
		return unless(a.Pending.Last >= last, "the last is %d, and then %d", last, a.Pending.Last)
	}),
	on("Owner and watchers are told exactly once, at the end.", func(s step, b, a core.Pipeline) string {
		if _, watch := s.event.(core.PipelineWatch); watch {
			return ""
		}
		ends := exists(a) && a.Phase.Type.Ended() && !b.Phase.Type.Ended()
		want := 0
		if ends {
			want = len(b.Watchers)
			if !b.Told && !b.Owner.IsZero() {
				want++
			}
		}
		return unless(len(sends[core.ChildEnded](s)) == want && (!ends || a.Told), "told %d of %d", len(sends[core.ChildEnded](s)), want)
	}),
	on("Each change into failed and blocked keeps the phase to resume at (R7).", func(_ step, _, a core.Pipeline) string {
		resumes := a.Phase.Type == core.PhaseFailure || a.Phase.Type == core.PhaseBlocked
		return unless(!exists(a) || !resumes || placeOf(a) >= 0, "%s at %q", a.Phase.Type, a.Phase.Name)
	}),
	on("The definition never changes.", func(_ step, b, a core.Pipeline) string {
		if !exists(a) || !exists(b) {
			return ""
		}
		was, _ := json.Marshal(b.Definition)
		is, _ := json.Marshal(a.Definition)
		return unless(string(was) == string(is), "%s → %s", was, is)
	}),
	on("Every list of the state stays within its limit.", func(_ step, _, a core.Pipeline) string {
		return unless(len(a.History) <= core.MaxHistory && len(a.Signals) <= core.MaxSignals && len(a.Checkpoints) <= core.MaxCheckpoints &&
			len(a.Watchers) <= core.MaxWatchers && len(a.Holds) <= core.MaxHolds && len(a.Regain) <= core.MaxHolds &&
			len(strings.TrimSpace(encoded(a))) <= 2<<20, "too long")
	}),
}
