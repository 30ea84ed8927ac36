package core_test

import (
	"encoding/json"
	"math"
	"slices"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/orrery-go/orrery/core"
)

var _ = register(core.KindWorker, kit{
	typ: "Worker", absent: core.Worker{}, apply: applying(core.Worker.Apply),
	made: func() core.State {
		s, _ := core.Worker{}.Apply(core.WorkerConfigure{Spec: workerSpec()}, core.Clock{Now: start})
		return s
	},
	hostile: func(t *rapid.T) core.State { return hostileWorker(t) },
	draw:    func(t *rapid.T, s core.State, c core.Clock) core.Event { return drawWorkerEvent(t, s.(core.Worker), c) },
	own:     core.WorkerDelete{},
	states:  workerStates, events: workerEvents,
	phase:      func(s core.State) string { return s.(core.Worker).Status() },
	phases:     []string{"absent", "idle", "busy", "paused", "draining"},
	invariants: workerInvariants,
})

func workerSpec() core.WorkerSpec {
	return core.WorkerSpec{
		Name: "merge", Queue: "merges", Concurrency: 2,
		Do: core.WorkerDo{Run: &core.ToolRun{Tool: "command", Input: json.RawMessage(`{"argv":["merge","${item.data.branch}"]}`)}},
	}
}

func drawWorkerSpec(t *rapid.T) core.WorkerSpec {
	s := workerSpec()
	s.Concurrency = rapid.SampledFrom([]uint32{0, 1, 2, 3, 256, 257}).Draw(t, "concurrency")
	s.PollMS = rapid.SampledFrom([]int64{0, 0, 100, -1}).Draw(t, "poll_ms")
	switch rapid.IntRange(0, 5).Draw(t, "do") {
	case 0:
		def := manualDef()
		s.Do = core.WorkerDo{Pipeline: &def}
	case 1:
		s.Do = core.WorkerDo{Task: &core.AgentPrompt{Prompt: "do ${item.data}"}}
	case 2:
		s.Do = core.WorkerDo{Strategy: everyPhase().Phases[2].Strategy}
	case 3:
		s.Do.Task = &core.AgentPrompt{}
	case 4:
		s.Do.Run = &core.ToolRun{Tool: drawText(t, "tool"), Input: drawJSON(t, "input")}
	}
	return s
}

func drawItem(t *rapid.T) core.QueueItem {
	return core.QueueItem{
		ID: drawID(t, "item"), Data: rapid.SampledFrom([]json.RawMessage{nil, json.RawMessage(`{"branch":"x<y"}`), json.RawMessage(`{"branch":"b"}`), json.RawMessage(`[]`), json.RawMessage("{")}).Draw(t, "data"),
		Attempts: rapid.SampledFrom([]uint32{1, 2, math.MaxUint32}).Draw(t, "attempts"),
	}
}

func drawWorkerEvent(t *rapid.T, w core.Worker, _ core.Clock) core.Event {
	if !exists(w) && rapid.IntRange(0, 9).Draw(t, "make") > 0 {
		return core.WorkerConfigure{Spec: drawWorkerSpec(t)}
	}
	numbers := []uint32{0, w.Taking, w.Taking, w.Last}
	for _, job := range w.Running {
		numbers = append(numbers, job.N, job.N, job.N)
	}
	n := rapid.SampledFrom(numbers).Draw(t, "n")
	all := []string{"configure", "wake", "due", "pause", "resume", "delete", "taken", "taken", "taken", "child", "child", "child"}
	if w.Taking != 0 && rapid.Bool().Draw(t, "answer") {
		all = []string{"taken"}
	}
	switch rapid.SampledFrom(all).Draw(t, "event") {
	case "wake":
		return core.WorkerWake{}
	case "due":
		return core.WorkerDue{}
	case "pause":
		return core.WorkerPause{}
	case "resume":
		return core.WorkerResume{}
	case "delete":
		return core.WorkerDelete{Drain: rapid.Bool().Draw(t, "drain")}
	case "taken":
		e := core.QueueTaken{N: rapid.SampledFrom([]uint32{w.Taking, w.Taking, w.Taking, n}).Draw(t, "take")}
		for range rapid.IntRange(0, max(int(w.Concurrency)-len(w.Running), 0)%5).Draw(t, "items") {
			e.Items = append(e.Items, drawItem(t))
		}
		return e
	case "child":
		return core.ChildEnded{
			N: n, Limited: rapid.Bool().Draw(t, "limited"), Outcome: rapid.SampledFrom([]core.ChildOutcome{core.ChildSucceeded, core.ChildFailed, core.ChildCancelled, core.ChildRefused, "odd"}).Draw(t, "outcome"),
			Result: drawJSON(t, "result"), Reason: drawText(t, "reason"),
		}
	}
	return core.WorkerConfigure{Spec: drawWorkerSpec(t)}
}

func hostileWorker(t *rapid.T) core.Worker {
	c := core.Clock{Now: start}
	n := func(label string) uint32 {
		return rapid.SampledFrom([]uint32{0, 1, 2, math.MaxUint32}).Draw(t, label)
	}
	w := core.Worker{
		ID: drawID(t, "id"), WorkerSpec: drawWorkerSpec(t), Paused: rapid.Bool().Draw(t, "paused"), Draining: rapid.Bool().Draw(t, "draining"),
		Last: n("last"), Taking: n("taking"), TakeNext: rapid.Bool().Draw(t, "again"), PollAt: drawTime(t, c), HeldUntil: drawTime(t, c), Completed: math.MaxUint64, Failed: math.MaxUint64,
	}
	for range rapid.SampledFrom([]int{0, 1, 300}).Draw(t, "running") {
		w.Running = append(w.Running, core.WorkerJob{N: n("n")})
	}
	return w
}

func workerStates() []core.State {
	c := core.Clock{Now: start}
	idle, _ := core.Worker{}.Apply(core.WorkerConfigure{Spec: workerSpec()}, c)
	busy, _ := idle.Apply(core.QueueTaken{N: 1, Items: []core.QueueItem{{ID: id(5), Data: json.RawMessage(`{"branch":"b"}`), Attempts: 1}}}, c)
	draining, _ := busy.Apply(core.WorkerDelete{Drain: true}, c)
	return []core.State{idle, busy, draining}
}

func workerEvents() []core.Event {
	def := manualDef()
	return []core.Event{
		core.WorkerConfigure{Spec: workerSpec()}, core.WorkerConfigure{Spec: core.WorkerSpec{Name: "p", Queue: "q", Do: core.WorkerDo{Pipeline: &def}}},
		core.WorkerWake{}, core.WorkerDue{}, core.WorkerPause{}, core.WorkerResume{}, core.WorkerDelete{}, core.WorkerDelete{Drain: true},
		core.QueueTaken{N: 1}, core.QueueTaken{N: 1, Items: []core.QueueItem{{ID: id(5), Queue: id(6), Data: json.RawMessage(`{"branch":"b"}`), Priority: -1, Key: "k", Attempts: 2, CreatedAt: start}}},
		core.ChildEnded{N: 2, Outcome: core.ChildSucceeded, Result: json.RawMessage(`{"ok":true}`)},
	}
}

// itemAnswers lists the items that a step completes, fails or gives back.
func itemAnswers(s step) []uuid.UUID {
	var out []uuid.UUID
	for _, e := range sends[core.QueueComplete](s) {
		out = append(out, e.Item)
	}
	for _, e := range sends[core.QueueFail](s) {
		out = append(out, e.Item)
	}
	for _, e := range sends[core.QueueRelease](s) {
		out = append(out, e.Item)
	}
	return out
}

func items(jobs []core.WorkerJob) []uuid.UUID {
	var out []uuid.UUID
	for _, j := range jobs {
		out = append(out, j.Item)
	}
	return out
}

func byBytes(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) }

var workerInvariants = []invariant{
	on("No more jobs run than Concurrency says, but for those from before it was lowered.", func(_ step, b, a core.Worker) string {
		return unless(len(a.Running) <= max(int(a.Concurrency), len(b.Running)), "%d jobs in %d places", len(a.Running), a.Concurrency)
	}),
	on("An item is taken only for a free slot, and never while paused, draining or held.", func(s step, _, a core.Worker) string {
		for _, take := range sends[core.QueueTake](s) {
			held := a.HeldUntil > s.clock.Now && a.HeldUntil <= s.clock.Now.Add(5*time.Second)
			if a.Paused || a.Draining || held || int(take.Max) != int(a.Concurrency)-len(a.Running) || take.Max == 0 {
				return "it takes with no place for it"
			}
		}
		return ""
	}),
	on("An item whose child a limit refuses goes back, and its attempt does not count.", func(s step, b, _ core.Worker) string {
		released := sends[core.QueueRelease](s)
		e, ok := s.event.(core.ChildEnded)
		limited := ok && e.Limited && e.Outcome == core.ChildRefused && slices.ContainsFunc(b.Running, func(j core.WorkerJob) bool { return j.N == e.N && e.N != 0 && e.N != b.Taking })
		if refusal(s.effs) != nil {
			return ""
		}
		return unless(limited == (len(released) == 1) && (len(released) == 0 || released[0].Holder == b.Holder()), "%d items go back", len(released))
	}),
	on("At most one take is under way.", func(s step, b, a core.Worker) string {
		takes := sends[core.QueueTake](s)
		_, due := s.event.(core.WorkerDue)
		if len(takes) == 0 {
			return ""
		}
		return unless(len(takes) == 1 && takes[0].Owner.N == a.Taking && (b.Taking == 0 || due || b.Taking != a.Taking), "%d takes", len(takes))
	}),
	on("Each item that is taken is completed, failed or given back exactly once, with the holder and the attempt of its take.", func(s step, b, a core.Worker) string {
		before := items(b.Running)
		if taken, ok := s.event.(core.QueueTaken); ok && refusal(s.effs) == nil {
			for _, item := range taken.Items {
				before = append(before, item.ID)
			}
		}
		after := append(items(a.Running), itemAnswers(s)...)
		slices.SortFunc(before, byBytes)
		slices.SortFunc(after, byBytes)
		for _, e := range sends[core.QueueComplete](s) {
			if !slices.ContainsFunc(b.Running, func(j core.WorkerJob) bool { return j.Item == e.Item && j.Attempt == e.Attempt }) || e.Holder != b.Holder() {
				return "completed with another attempt"
			}
		}
		return unless(slices.Equal(before, after), "%v became %v", before, after)
	}),
	on("The end of a job is taken at most once.", func(s step, _, a core.Worker) string {
		e, ok := s.event.(core.ChildEnded)
		if !ok || refusal(s.effs) != nil {
			return ""
		}
		_, effs := a.Apply(e, s.clock)
		return unless(refusal(effs) != nil, "%d is taken twice", e.N)
	}),
	on("Only a worker with nothing in hand goes.", func(s step, b, a core.Worker) string {
		gone := exists(b) && !exists(a)
		_, ended := s.event.(core.ChildEnded)
		return unless(!gone || len(b.Running) == 0 || ended && len(b.Running) == 1, "%d jobs", len(b.Running))
	}),
}
