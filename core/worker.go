package core

import (
	"encoding/json"
	"math"
	"slices"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/effects/texts"
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
//   - No more jobs run than Concurrency says, but for those from before it
//     was lowered.
//   - An item is taken only for a free slot, and never while paused, draining or held.
//   - An item whose child a limit refuses goes back, and its attempt does not count.
//   - At most one take is under way.
//   - Each item that is taken is completed, failed or given back exactly once,
//     with the holder and the attempt of its take.
//   - The end of a job is taken at most once.
//   - Only a worker with nothing in hand goes.
type Worker struct {
	ID uuid.UUID `json:"id"` // derived from tenant and name
	WorkerSpec
	Paused   bool        `json:"paused"`
	Draining bool        `json:"draining"` // it goes once nothing is in hand
	Last     uint32      `json:"last"`     // the last number of a take or a job
	Taking   uint32      `json:"taking"`   // the number of the take under way; 0: none
	TakeNext bool        `json:"again"`    // it was woken during the take: another one follows
	Quiet    bool        `json:"quiet"`    // it has said that it is idle
	Running  []WorkerJob `json:"running"`
	PollAt   Time        `json:"poll_at"` // when it looks for items without being woken
	// HeldUntil: the tenant has as many children as its limit allows, and no item is
	// taken before. Zero: nothing holds it.
	HeldUntil Time   `json:"held_until,omitzero"`
	Completed uint64 `json:"completed"`
	Failed    uint64 `json:"failed"`
	CreatedAt Time   `json:"created_at"`
	UpdatedAt Time   `json:"updated_at"`
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

// WorkerRef names the worker of that name.
func WorkerRef(namespace, tenant, name string) effects.Ref {
	return effects.Ref{Kind: KindWorker, ID: namedID("worker", namespace, tenant, name)}
}

// Holder is the name under which the worker holds items.
func (w Worker) Holder() string { return holderPrefix + w.Name }

// workerTransition is the application of one event to a worker under way.
type workerTransition struct {
	transition
	Worker
}

// Apply carries out one transition.
func (w Worker) Apply(e WorkerEvent, c Clock) (Worker, []effects.Effect) {
	t := &workerTransition{transition{clock: c, event: e}, w}
	configure, ok := e.(WorkerConfigure)
	switch {
	case ok:
		t.configure(configure)
	case w.ID == uuid.Nil:
		t.refuse(effects.CodeNotFound, "worker not found")
	default:
		t.applyPresent(e)
	}
	return concluded(w, t.Worker, t.transition)
}

// applyPresent: what may happen to a worker that exists.
func (t *workerTransition) applyPresent(e WorkerEvent) {
	switch e := e.(type) {
	case WorkerWake:
		t.wake()
	case WorkerDue:
		t.due()
	case QueueTaken:
		t.startJobs(e)
	case ChildEnded:
		t.endJob(e)
	case WorkerPause:
		t.pause()
	case WorkerResume:
		t.resume()
	case WorkerDelete:
		t.delete(e)
	case WorkerConfigure: // taken in every state
	}
}

// refuseNow refuses what does not go with the present state.
func (t *workerTransition) refuseNow() {
	t.refuse(effects.CodeConflict, "worker %q is %s: it cannot take %q", clip(t.Name), t.Status(), t.event.EventType())
}

// pause: idle, busy → paused.
func (t *workerTransition) pause() {
	if t.Paused || t.Draining {
		t.refuseNow()
		return
	}
	t.Paused, t.UpdatedAt = true, t.clock.Now
}

// resume: paused → idle or busy.
func (t *workerTransition) resume() {
	if !t.Paused {
		t.refuseNow()
		return
	}
	t.Paused, t.UpdatedAt = false, t.clock.Now
	t.take()
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
func (t *workerTransition) configure(e WorkerConfigure) {
	spec, err := e.Spec.normal()
	if err == nil {
		err = spec.validate()
	}
	ref := WorkerRef(spec.Namespace, spec.Tenant, spec.Name)
	switch {
	case err != nil:
		t.refuse(effects.CodeInvalid, "%v", err)
		return
	case t.ID != uuid.Nil && t.ID != ref.ID:
		t.refuse(effects.CodeInvalid, "name: %q is not the name of this worker, %q", clip(spec.Name), clip(t.Name))
		return
	case t.ID == uuid.Nil:
		t.Worker = Worker{ID: ref.ID, CreatedAt: t.clock.Now}
	}
	t.WorkerSpec, t.Draining, t.UpdatedAt = spec, false, t.clock.Now
	t.take()
}

// free is how many more items may be in hand.
func (w Worker) free() uint32 {
	busy := uint32(min(uint64(len(w.Running)), math.MaxUint32))
	if slots := min(w.Concurrency, MaxWorkerConcurrency); busy < slots {
		return slots - busy
	}
	return 0
}

// held reports whether a limit of the tenant keeps the worker from taking items.
// If the clock goes back it is held no longer than before.
func (t *workerTransition) held() bool {
	return t.HeldUntil.After(t.clock.Now) && !t.HeldUntil.After(laterMS(t.clock.Now, limitedPollMS))
}

// number gives the next number.
func (w *Worker) number() uint32 {
	if w.Last++; w.Last == 0 {
		w.Last = 1 // after four thousand million jobs none of the first is left
	}
	return w.Last
}

// take asks the queue for as many items as the worker has free slots.
func (t *workerTransition) take() {
	switch {
	case t.Paused || t.Draining || t.held() || t.free() == 0:
		return
	case t.Taking != 0:
		t.TakeNext = true
		return
	}
	t.Taking, t.TakeNext = t.number(), false
	t.pollAfter(t.PollMS)
	t.send(QueueRef(t.Namespace, t.Tenant, t.Queue), QueueTake{
		Holder: t.Holder(), Max: t.free(), VisibilityMS: MaxTimeout.Milliseconds(), Owner: Owner{Ref: t.Ref(), N: t.Taking},
	})
}

// pollAfter sets when the worker looks for items without being woken: never, at the
// end of time.
func (t *workerTransition) pollAfter(ms int64) {
	if t.PollAt = laterMS(t.clock.Now, ms); !t.PollAt.After(t.clock.Now) {
		t.PollAt = 0
	}
}

// wake: the worker looks for items. One that is paused or has no free slot will look
// when it may.
func (t *workerTransition) wake() {
	if t.Paused || t.Draining || t.held() || t.free() == 0 {
		return
	}
	t.emit("wake")
	t.take()
}

// due: the worker looks for items without being woken. A take that was not answered by
// then never will be.
func (t *workerTransition) due() {
	if at := t.Deadline(); at.IsZero() || at.After(t.clock.Now) {
		t.refuse(effects.CodeConflict, "worker %q is %s and not due", clip(t.Name), t.Status())
		return
	}
	t.Taking = 0
	t.take()
}

// startJobs: a child is made for each item that was taken.
func (t *workerTransition) startJobs(e QueueTaken) {
	switch i := slices.IndexFunc(e.Items, func(i QueueItem) bool { return len(i.Data) > 0 && checkJSON("", i.Data, math.MaxInt) != nil }); {
	case e.N == 0 || e.N != t.Taking:
		t.refuse(effects.CodeConflict, "n: worker %q is %s, no take %d is under way", clip(t.Name), t.Status(), e.N)
		return
	case i >= 0:
		t.refuse(effects.CodeInvalid, "items[%d].data: not valid JSON", i)
		return
	}
	t.Taking, t.UpdatedAt = 0, t.clock.Now
	t.Running = slices.Clip(t.Running)
	failed := false
	for _, item := range e.Items {
		failed = !t.startJob(item) || failed
	}
	switch {
	case len(e.Items) > 0:
		t.Quiet = false
	case len(t.Running) == 0 && !t.Quiet && !t.TakeNext:
		t.Quiet = true
		t.emit("idle")
	}
	switch {
	case t.TakeNext:
		t.take()
	case failed: // so that no transition goes through a whole queue of items that fail at once
		t.pollAfter(minPollMS)
	}
	t.endIfDrained()
}

// startJob makes the child for an item; it reports false if that cannot be made, and
// gives the item back as failed.
func (t *workerTransition) startJob(item QueueItem) bool {
	job := WorkerJob{Item: item.ID, Attempt: item.Attempts, Queue: t.Worker.Queue, StartedAt: t.clock.Now}
	if len(t.Running) >= MaxWorkerConcurrency {
		t.failItem(job, "the worker has no place for it", false)
		return true
	}
	job.N = t.number()
	child, create, err := t.child(job, item, t.clock)
	if err != nil {
		t.failItem(job, err.Error(), true)
		t.Failed = saturatingAdd(t.Failed, 1)
		return false
	}
	job.Child = child
	t.Running = append(t.Running, job)
	t.send(child, create)
	return true
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
	label := texts.Bound(w.Name, MaxNameBytes)
	return child{w.Namespace, w.Tenant, label, uuid.Nil, Owner{Ref: w.Ref(), N: job.N}, c}.create(do, context)
}

// endJob: the item is completed or failed, and its slot is free.
func (t *workerTransition) endJob(e ChildEnded) {
	if e.N != 0 && e.N == t.Taking && e.Outcome == ChildRefused { // the take was refused: there is no such queue
		t.startJobs(QueueTaken{N: e.N})
		return
	}
	i := slices.IndexFunc(t.Running, func(j WorkerJob) bool { return j.N == e.N })
	if i < 0 || e.N == 0 {
		t.refuse(effects.CodeConflict, "n: worker %q has no job with the number %d", clip(t.Name), e.N)
		return
	}
	if !e.Outcome.known() {
		t.refuse(effects.CodeInvalid, "outcome: %q is unknown", clip(string(e.Outcome)))
		return
	}
	job := t.Running[i]
	t.Running, t.UpdatedAt = without(t.Running, i), t.clock.Now
	switch {
	case e.Outcome == ChildSucceeded:
		t.Completed = saturatingAdd(t.Completed, 1)
		t.send(QueueRef(t.Namespace, t.Tenant, job.Queue), QueueComplete{
			Item: job.Item, Holder: t.Holder(), Attempt: job.Attempt, Result: fitting(e.Result),
		})
		t.take()
	case e.Outcome == ChildRefused && e.Limited:
		release := QueueRelease{Item: job.Item, Holder: t.Holder(), Attempt: job.Attempt, DelayMS: limitedDelayMS}
		if t.clock.Rules.before(5) {
			release.DelayMS = 0
		}
		t.send(QueueRef(t.Namespace, t.Tenant, job.Queue), release)
		t.HeldUntil = laterMS(t.clock.Now, limitedPollMS)
		t.pollAfter(limitedPollMS)
	case e.Outcome == ChildRefused:
		t.Failed = saturatingAdd(t.Failed, 1)
		t.failItem(job, reasonOr(e.Reason, "ended without a reason"), true)
		t.pollAfter(minPollMS)
	default:
		t.Failed = saturatingAdd(t.Failed, 1)
		t.failItem(job, reasonOr(e.Reason, "ended without a reason"), e.Permanent)
		t.take()
	}
	t.endIfDrained()
}

// fitting gives a result as a queue takes it. One that is too large is left out:
// refused, it would leave the item in flight, and the work would be done again.
func fitting(v json.RawMessage) json.RawMessage {
	if v = storedResult(v); len(v) > MaxInputBytes {
		return nil
	}
	return v
}

// failItem gives an item back as failed.
func (t *workerTransition) failItem(job WorkerJob, reason string, permanent bool) {
	t.send(QueueRef(t.Namespace, t.Tenant, job.Queue), QueueFail{
		Item: job.Item, Holder: t.Holder(), Attempt: job.Attempt, Error: texts.Bound(reason, MaxTextBytes), Permanent: permanent,
	})
}

// endIfDrained: a worker that drains goes with the last of what it had in hand.
func (t *workerTransition) endIfDrained() {
	if t.Draining && len(t.Running) == 0 {
		t.Worker = Worker{}
	}
}

// delete: idle → (absent); with something in hand the worker drains first, or refuses.
func (t *workerTransition) delete(e WorkerDelete) {
	switch {
	case len(t.Running) == 0: // a take under way would have been answered in its own transition
		t.Worker = Worker{}
	case !e.Drain:
		t.refuse(effects.CodeConflict, "worker %q has %d jobs in hand: drain it", clip(t.Name), len(t.Running))
	case t.Draining:
		t.refuse(effects.CodeConflict, "worker %q drains already", clip(t.Name))
	default:
		t.Draining, t.Paused, t.UpdatedAt = true, false, t.clock.Now
	}
}

// emit announces what the worker does.
func (t *workerTransition) emit(action string) {
	t.announce("worker", "worker", action, t.ID, announcementTexts("name", t.Name, "queue", t.Worker.Queue))
}

// Ref names the worker.
func (w Worker) Ref() effects.Ref { return refOf(KindWorker, w.ID) }

// Deadline is when it looks for work without being woken.
func (w Worker) Deadline() Time {
	if w.Paused || w.Draining || w.free() == 0 || w.PollAt.IsZero() {
		return 0
	}
	return max(w.PollAt, effects.MinTime)
}

// Terms lists the worker under all, and under its status within its tenant.
func (w Worker) Terms() []effects.Term {
	if w.ID == uuid.Nil {
		return nil
	}
	return listed(w.CreatedAt, StatusTerm(w.Status()), w.scope())
}

// AppendJSON appends the stored form.
func (w Worker) AppendJSON(b []byte) []byte { return appendMarshaled(b, w) }
