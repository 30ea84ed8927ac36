package core

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/internal/texts"
)

// Worker takes items of a queue and does its work for each, inside the system:
// what it has in hand is as durable as everything else (003 WakeWorker).
//
//	(absent) ── configure ──▶ idle ◀── the last job ends ── busy
//	                          │  │                          ▲ │
//	                   delete │  └── items are taken ───────┘ │ delete, to drain
//	                          ▼                               ▼
//	                      (absent) ◀── the last job ends ── draining
//
// pause leads from idle and busy to paused, where jobs go on and no item is
// taken; resume leads back.
//
// Invariants, held by property tests:
//   - No more jobs run than Concurrency has places, but for those from before it
//     was lowered.
//   - An item is taken only with a free place, and never while paused or draining.
//   - At most one take is under way.
//   - Each item that is taken is completed or failed exactly once, with the
//     holder and the attempt of its take.
//   - The end of a job is taken at most once.
//   - Only a worker with nothing in hand goes.
type Worker struct {
	ID uuid.UUID `json:"id"` // derived from tenant and name
	WorkerSpec
	Paused    bool        `json:"paused"`
	Draining  bool        `json:"draining"` // it goes once nothing is in hand
	Last      uint32      `json:"last"`     // the last number of a take or a job
	Taking    uint32      `json:"taking"`   // the number of the take under way; 0: none
	Again     bool        `json:"again"`    // it was woken during the take
	Quiet     bool        `json:"quiet"`    // it has said that it is idle
	Running   []WorkerJob `json:"running"`
	PollAt    Time        `json:"poll_at"` // when it looks for items without being woken
	Completed uint64      `json:"completed"`
	Failed    uint64      `json:"failed"`
	CreatedAt Time        `json:"created_at"`
	UpdatedAt Time        `json:"updated_at"`
}

// WorkerSpec is what a creator says of a worker.
type WorkerSpec struct {
	Namespace   string   `json:"namespace"`
	Tenant      string   `json:"tenant"`
	Name        string   `json:"name"`
	Queue       string   `json:"queue"`       // its name, in the same tenant
	Concurrency uint32   `json:"concurrency"` // jobs at once: 1 to 256; 0: 1
	PollMS      int64    `json:"poll_ms"`     // how often it looks without being woken; 0: once a minute
	Do          WorkerDo `json:"do"`
}

// WorkerDo is what is done for an item: exactly one of its members is set. Its
// texts may refer to ${item.id}, ${item.data} and ${item.attempt}; a pipeline has
// "item" in its context.
type WorkerDo struct {
	Pipeline *PipelineDef   `json:"pipeline,omitempty"`
	Run      *ToolRun       `json:"run,omitempty"`
	Strategy *StrategyPhase `json:"strategy,omitempty"`
	Task     *AgentPrompt   `json:"task,omitempty"`
}

// WorkerJob is an item in hand.
type WorkerJob struct {
	Item      uuid.UUID   `json:"item"`
	Attempt   uint32      `json:"attempt"` // of the item
	Queue     string      `json:"queue"`   // from which it was taken
	Child     effects.Ref `json:"child"`   // who does it
	N         uint32      `json:"n"`
	StartedAt Time        `json:"started_at"`
}

// Limits of a worker.
const (
	MaxWorkerConcurrency = 256
	defaultPollMS        = 60_000
	minPollMS            = 100
	itemName             = "item"    // of the item in a context
	holderPrefix         = "worker:" // of the worker's name as a holder
)

// WorkerRef names the worker of that name.
func WorkerRef(namespace, tenant, name string) effects.Ref {
	return effects.Ref{Kind: KindWorker, ID: namedID("worker", namespace, tenant, name)}
}

// Holder is the name under which the worker holds items.
func (w Worker) Holder() string { return holderPrefix + w.Name }

// Apply carries out one transition.
func (w Worker) Apply(e WorkerEvent, c Clock) (Worker, []effects.Effect) {
	if configure, ok := e.(WorkerConfigure); ok {
		return w.configure(configure, c)
	}
	if w.ID == uuid.Nil {
		return w, w.refuse(e, effects.CodeNotFound, "worker not found")
	}
	switch e := e.(type) {
	case WorkerWake:
		return w.wake(c)
	case WorkerDue:
		return w.due(e, c)
	case QueueTaken:
		return w.taken(e, c)
	case ChildEnded:
		return w.childEnded(e, c)
	case WorkerPause:
		if !w.Paused && !w.Draining {
			w.Paused, w.UpdatedAt = true, c.Now
			return w, nil
		}
	case WorkerResume:
		if w.Paused {
			w.Paused, w.UpdatedAt = false, c.Now
			return w.take(c)
		}
	case WorkerDelete:
		return w.remove(e, c)
	case WorkerConfigure:
	}
	return w, w.refuse(e, effects.CodeConflict, fmt.Sprintf("worker %q is %s: it cannot take %q", clip(w.Name), w.Status(), e.EventType()))
}

// Status names the state of the diagram.
func (w Worker) Status() string {
	switch {
	case w.Draining:
		return "draining"
	case w.Paused:
		return "paused"
	case len(w.Running) > 0:
		return "busy"
	}
	return "idle"
}

// configure declares the worker, or replaces what was declared: jobs in hand go
// on as they began.
func (w Worker) configure(e WorkerConfigure, c Clock) (Worker, []effects.Effect) {
	spec, err := e.Spec.normal()
	if err == nil {
		err = spec.validate()
	}
	ref := WorkerRef(spec.Namespace, spec.Tenant, spec.Name)
	switch {
	case err != nil:
		return w, w.refuse(e, effects.CodeInvalid, err.Error())
	case w.ID != uuid.Nil && w.ID != ref.ID:
		return w, w.refuse(e, effects.CodeInvalid, fmt.Sprintf("name: %q is not the name of this worker, %q", clip(spec.Name), clip(w.Name)))
	}
	if w.ID == uuid.Nil {
		w = Worker{ID: ref.ID, CreatedAt: c.Now}
	}
	w.WorkerSpec, w.Draining, w.UpdatedAt = spec, false, c.Now
	return w.take(c)
}

// normal gives the spec as it reads after one way through the journal.
func (s WorkerSpec) normal() (WorkerSpec, error) {
	if err := errors.Join(checkName("namespace", s.Namespace, false), checkName("tenant", s.Tenant, false),
		checkName("name", s.Name, true), checkName("queue", s.Queue, true), checkScope(s.Namespace, s.Tenant)); err != nil {
		return s, err
	}
	out, err := throughJSON(s)
	if err != nil {
		return s, fmt.Errorf("do: %w", err)
	}
	if out.Concurrency == 0 {
		out.Concurrency = 1
	}
	if out.PollMS == 0 {
		out.PollMS = defaultPollMS
	}
	return out, nil
}

func (s WorkerSpec) validate() error {
	b, err := json.Marshal(s.Do)
	switch {
	case err != nil:
		return fmt.Errorf("do: %w", err)
	case len(b) > MaxDefinitionBytes:
		return fmt.Errorf("do: %d bytes of JSON are more than %d", len(b), MaxDefinitionBytes)
	case tooDeep(b):
		return fmt.Errorf("do: nested deeper than %d levels", MaxJSONDepth)
	case s.Concurrency > MaxWorkerConcurrency:
		return fmt.Errorf("concurrency: %d is more than %d", s.Concurrency, MaxWorkerConcurrency)
	case s.PollMS < minPollMS || s.PollMS > MaxTimeout.Milliseconds():
		return fmt.Errorf("poll_ms: %d is not between %d and %d", s.PollMS, minPollMS, MaxTimeout.Milliseconds())
	case len(s.Name) > MaxNameBytes-len(holderPrefix): // else every queue would refuse its holder
		return fmt.Errorf("name: %d bytes are longer than the %d that a worker's may have", len(s.Name), MaxNameBytes-len(holderPrefix))
	}
	return s.Do.validate()
}

func (d WorkerDo) validate() error {
	set := 0
	for _, is := range []bool{d.Pipeline != nil, d.Run != nil, d.Strategy != nil, d.Task != nil} {
		if is {
			set++
		}
	}
	refs := &refChecker{where: "do.", known: map[string]bool{itemName: true}}
	d.rewrite(refs)
	switch {
	case set != 1:
		return fmt.Errorf("do: give one of pipeline, run, strategy and task, not %d of them", set)
	case refs.err != nil:
		return refs.err
	case d.Pipeline != nil:
		if err := d.Pipeline.ValidateWith(itemName); err != nil {
			return fmt.Errorf("do.pipeline: %w", err)
		}
	case d.Run != nil:
		return d.Run.validate("do.run")
	case d.Strategy != nil:
		return d.Strategy.validate("do.strategy")
	case d.Task != nil:
		return d.Task.validatePart("do.task")
	}
	return nil
}

// rewrite takes all templates through r. Those of a pipeline are its own.
func (d WorkerDo) rewrite(r rewriter) WorkerDo {
	d.Run = rewritten(d.Run, r, "run", ToolRun.rewrite)
	d.Strategy = rewritten(d.Strategy, r, "strategy", StrategyPhase.rewrite)
	d.Task = rewritten(d.Task, r, "task", AgentPrompt.rewrite)
	return d
}

// free is how many more items may be in hand.
func (w Worker) free() uint32 {
	busy := uint32(min(uint64(len(w.Running)), math.MaxUint32))
	if places := min(w.Concurrency, MaxWorkerConcurrency); busy < places {
		return places - busy
	}
	return 0
}

// number gives the next number.
func (w *Worker) number() uint32 {
	if w.Last++; w.Last == 0 {
		w.Last = 1 // after four thousand million jobs none of the first is left
	}
	return w.Last
}

// take asks the queue for as many items as there are free places.
func (w Worker) take(c Clock) (Worker, []effects.Effect) {
	switch {
	case w.Paused || w.Draining || w.free() == 0:
		return w, nil
	case w.Taking != 0:
		w.Again = true
		return w, nil
	}
	w.Taking, w.Again = w.number(), false
	if w.PollAt = laterMS(c.Now, w.PollMS); !w.PollAt.After(c.Now) {
		w.PollAt = 0 // the end of time
	}
	return w, []effects.Effect{effects.Send{
		To: QueueRef(w.Namespace, w.Tenant, w.Queue),
		Event: QueueTake{
			Holder: w.Holder(), Max: w.free(), VisibilityMS: MaxTimeout.Milliseconds(), Owner: Owner{Ref: w.Ref(), N: w.Taking},
		},
	}}
}

// wake: it looks for work. One that is paused or has no free place will look
// when it may.
func (w Worker) wake(c Clock) (Worker, []effects.Effect) {
	if w.Paused || w.Draining || w.free() == 0 {
		return w, nil
	}
	w, effs := w.take(c)
	return w, append([]effects.Effect{w.announce("wake")}, effs...)
}

// due: it looks for work without being woken. A take that was not answered by
// then never will be.
func (w Worker) due(e WorkerDue, c Clock) (Worker, []effects.Effect) {
	if at := w.Deadline(); at.IsZero() || at.After(c.Now) {
		return w, w.refuse(e, effects.CodeConflict, fmt.Sprintf("worker %q is %s and not due", clip(w.Name), w.Status()))
	}
	w.Taking = 0
	return w.take(c)
}

// taken: a child is made for each item.
func (w Worker) taken(e QueueTaken, c Clock) (Worker, []effects.Effect) {
	switch i := slices.IndexFunc(e.Items, func(i QueueItem) bool { return len(i.Data) > 0 && checkJSON("", i.Data, math.MaxInt) != nil }); {
	case e.N == 0 || e.N != w.Taking:
		return w, w.refuse(e, effects.CodeConflict, fmt.Sprintf("n: worker %q is %s, no take %d is under way", clip(w.Name), w.Status(), e.N))
	case i >= 0:
		return w, w.refuse(e, effects.CodeInvalid, fmt.Sprintf("items[%d].data: not valid JSON", i))
	}
	w.Taking, w.UpdatedAt = 0, c.Now
	var effs []effects.Effect
	w.Running = slices.Clip(w.Running)
	failed := false
	for _, item := range e.Items {
		if len(w.Running) >= MaxWorkerConcurrency {
			effs = append(effs, w.fail(WorkerJob{Item: item.ID, Attempt: item.Attempts, Queue: w.Queue}, "the worker has no place for it", false))
			continue
		}
		job := WorkerJob{Item: item.ID, Attempt: item.Attempts, Queue: w.Queue, N: w.number(), StartedAt: c.Now}
		child, create, err := w.child(job, item, c)
		if err != nil {
			effs = append(effs, w.fail(job, err.Error(), true))
			w.Failed, failed = saturated(w.Failed), true
			continue
		}
		job.Child = child
		w.Running = append(w.Running, job)
		effs = append(effs, effects.Send{To: child, Event: create})
	}
	switch {
	case len(e.Items) > 0:
		w.Quiet = false
	case len(w.Running) == 0 && !w.Quiet && !w.Again:
		w.Quiet = true
		effs = append(effs, w.announce("idle"))
	}
	switch {
	case w.Again:
		next, more := w.take(c)
		return next.drained(append(effs, more...))
	case failed:
		w.pollSoon(c)
	}
	return w.drained(effs)
}

// pollSoon puts off the next take where items fail at once, so that no
// transition goes through a whole queue of them.
func (w *Worker) pollSoon(c Clock) {
	if w.PollAt = laterMS(c.Now, minPollMS); !w.PollAt.After(c.Now) {
		w.PollAt = 0
	}
}

// child gives who does the work for an item, and the event that makes it.
func (w Worker) child(job WorkerJob, item QueueItem, c Clock) (effects.Ref, Event, error) {
	value := begin(nil)
	value.id("id", item.ID)
	value.raw("data", item.Data)
	value.num("attempt", uint64(item.Attempts))
	context := map[string]json.RawMessage{itemName: canonical(value.end())}
	x := newExpander(scope{context: context}, maxExpansion)
	do := w.Do.rewrite(x)
	if x.err != nil {
		return effects.Ref{}, nil, x.err
	}
	owner, label := Owner{Ref: w.Ref(), N: job.N}, texts.Bound(w.Name, MaxNameBytes)
	ref := func(kind effects.Kind, role string) effects.Ref {
		return effects.Ref{Kind: kind, ID: ChildID(w.ID, role, c.Step, uint64(job.N))}
	}
	switch {
	case do.Pipeline != nil:
		to := ref(KindPipeline, "pipeline")
		return to, PipelineCreate{Spec: PipelineSpec{
			ID: to.ID, Namespace: w.Namespace, Tenant: w.Tenant, Label: label, Owner: owner, Definition: *do.Pipeline, Context: context,
		}}, nil
	case do.Run != nil:
		to := ref(KindAction, "action")
		spec := do.Run.actionSpec(to.ID, w.Namespace, w.Tenant, label, c.Now, owner)
		return to, ActionCreate{Spec: spec}, spec.Validate()
	case do.Strategy != nil:
		to := ref(KindStrategy, "strategy")
		return to, StrategyCreate{Spec: StrategySpec{
			ID: to.ID, Namespace: w.Namespace, Tenant: w.Tenant, Label: label, Owner: owner, Approaches: do.Strategy.Approaches,
		}}, nil
	case do.Task != nil:
		to := ref(KindTask, "task")
		return to, TaskCreate{Spec: do.Task.taskSpec(to.ID, w.Namespace, w.Tenant, label, uuid.Nil, owner)}, nil
	}
	return effects.Ref{}, nil, errors.New("do: the worker has nothing to do")
}

// childEnded: the item is completed or failed, and its place is free.
func (w Worker) childEnded(e ChildEnded, c Clock) (Worker, []effects.Effect) {
	if e.N != 0 && e.N == w.Taking && e.Outcome == ChildRefused { // the take was refused: there is no such queue
		return w.taken(QueueTaken{N: e.N}, c)
	}
	i := slices.IndexFunc(w.Running, func(j WorkerJob) bool { return j.N == e.N })
	if i < 0 || e.N == 0 {
		return w, w.refuse(e, effects.CodeConflict, fmt.Sprintf("n: worker %q has no job with the number %d", clip(w.Name), e.N))
	}
	switch e.Outcome {
	case ChildSucceeded, ChildFailed, ChildCancelled, ChildRefused:
	default:
		return w, w.refuse(e, effects.CodeInvalid, fmt.Sprintf("outcome: %q is unknown", clip(string(e.Outcome))))
	}
	job := w.Running[i]
	if w.Running = slices.Concat(w.Running[:i], w.Running[i+1:]); len(w.Running) == 0 {
		w.Running = nil
	}
	w.UpdatedAt = c.Now
	var answer effects.Effect
	if e.Outcome == ChildSucceeded {
		w.Completed = saturated(w.Completed)
		answer = effects.Send{To: QueueRef(w.Namespace, w.Tenant, job.Queue), Event: QueueComplete{
			Item: job.Item, Holder: w.Holder(), Attempt: job.Attempt, Result: fitting(e.Result),
		}}
	} else {
		w.Failed = saturated(w.Failed)
		answer = w.fail(job, reasonOr(e.Reason, "ended without a reason"), e.Outcome == ChildRefused || e.Permanent)
	}
	if e.Outcome == ChildRefused {
		w.pollSoon(c)
		return w.drained([]effects.Effect{answer})
	}
	next, effs := w.take(c)
	return next.drained(append([]effects.Effect{answer}, effs...))
}

// fitting gives a result as a queue takes it. One that is too large is left out:
// refused, it would leave the item in flight, and the work would be done again.
func fitting(v json.RawMessage) json.RawMessage {
	if v = storedResult(v); len(v) > MaxInputBytes {
		return nil
	}
	return v
}

// fail gives an item back as failed.
func (w Worker) fail(job WorkerJob, reason string, permanent bool) effects.Effect {
	return effects.Send{To: QueueRef(w.Namespace, w.Tenant, job.Queue), Event: QueueFail{
		Item: job.Item, Holder: w.Holder(), Attempt: job.Attempt, Error: texts.Bound(reason, MaxTextBytes), Permanent: permanent,
	}}
}

// drained: a worker that drains goes with the last of what it had in hand.
func (w Worker) drained(effs []effects.Effect) (Worker, []effects.Effect) {
	if w.Draining && len(w.Running) == 0 {
		return Worker{}, effs
	}
	return w, effs
}

// remove: idle → (absent); with something in hand it drains first, or is refused.
func (w Worker) remove(e WorkerDelete, c Clock) (Worker, []effects.Effect) {
	switch {
	case len(w.Running) == 0: // a take under way would have been answered in its own transition
		return Worker{}, nil
	case !e.Drain:
		return w, w.refuse(e, effects.CodeConflict, fmt.Sprintf("worker %q has %d jobs in hand: drain it", clip(w.Name), len(w.Running)))
	case w.Draining:
		return w, w.refuse(e, effects.CodeConflict, fmt.Sprintf("worker %q drains already", clip(w.Name)))
	}
	w.Draining, w.Paused, w.UpdatedAt = true, false, c.Now
	return w, nil
}

// saturated counts one more.
func saturated(n uint64) uint64 {
	if n == math.MaxUint64 {
		return n
	}
	return n + 1
}

// announce tells the bus.
func (w Worker) announce(action string) effects.Effect {
	return effects.Emit{Event: effects.Event{
		Kind:   effects.EventKind{Category: "worker", Action: action},
		Source: effects.EventSource{Component: "worker", ID: w.ID},
		Data:   announcementTexts("name", w.Name, "queue", w.Queue),
	}}
}
