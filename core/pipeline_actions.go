package core

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/effects/texts"
)

// beginAction begins the action of the running phase: its templates are filled in,
// and the pipeline requests what the phase waits for.
func (t *pipelineTransition) beginAction() outcome {
	d := t.phase()
	if t.numbersRunOut() {
		return fatalOutcome(errors.New("the pipeline has asked for too much: its numbers are used up"))
	}
	limit := maxExpansion
	if d.Pipelines != nil {
		limit = maxExpansionStart
	}
	x := newExpander(t.scope(), limit)
	d = d.rewrite(x)
	if x.err == nil {
		x.err = d.checkAction("")
	}
	if x.err != nil {
		return fatalOutcome(x.err)
	}
	t.Waiting = Waiting{Deadline: t.attemptLimit(d)}
	switch d.Kind() {
	case "run", "task", "strategy":
		return t.beginChild(d)
	case "push":
		return t.beginPush(*d.Push)
	case "pipelines":
		return t.beginPipelines(*d.Pipelines)
	case "worktree", "merge", "notify":
		return t.waitForEffect(d.effect(t.Pending.next()))
	case "wait":
		return t.beginWait(*d.Wait)
	case "approval":
		return t.beginApproval(*d.Approval)
	case "manual":
		t.Waiting.For, t.Waiting.Name = WaitManual, d.Manual.Instructions
		return outcome{waits: true}
	case "lock":
		return t.beginLock(Hold{Name: d.Lock.Name, TTLMS: d.Lock.TTLMS})
	case "semaphore":
		return t.beginLock(Hold{Name: d.Semaphore.Name, Semaphore: true, Slots: max(d.Semaphore.Slots, 1), TTLMS: d.Semaphore.TTLMS})
	case "unlock":
		t.unlock(d.Unlock.Name)
		return outcome{}
	case "signal":
		return t.beginSignal(*d.Signal)
	case "checkpoint":
		t.checkpoint(d.Checkpoint.Message)
		return outcome{}
	case "set":
		return t.set(*d.Set)
	case "wake":
		t.add(effects.WakeWorker{Worker: WorkerRef(t.Namespace, t.Tenant, d.Wake.Worker)})
		return outcome{}
	}
	return fatalOutcome(fmt.Errorf("phase %q has no action", clip(d.Name)))
}

// fatalOutcome is that of an action that cannot begin, now or later.
func fatalOutcome(err error) outcome { return outcome{err: err.Error(), final: true, fatal: true} }

// attemptLimit is when an attempt that begins now has taken too long; 0: never.
func (t *pipelineTransition) attemptLimit(d PhaseDef) Time { return limitAt(t.clock.Now, d.TimeoutMS) }

// beginChild makes an action, a task or a strategy do the work.
func (t *pipelineTransition) beginChild(d PhaseDef) outcome {
	c := t.newChild()
	to, create, err := c.create(WorkerDo{Run: d.Run, Task: d.Task, Strategy: d.Strategy}, nil)
	if err != nil {
		return fatalOutcome(fmt.Errorf("run: %w", err))
	}
	t.send(to, create)
	return t.waitForChildren(Awaited{Ref: to, N: c.owner.N, Own: true})
}

// newChild is what the pipeline says of its next child.
func (t *pipelineTransition) newChild() child {
	return child{t.Namespace, t.Tenant, t.childLabel(), t.ID, Owner{Ref: t.Ref(), N: t.number()}, t.clock}
}

// childLabel names a child for the reader.
func (t *pipelineTransition) childLabel() string {
	return texts.Bound(t.Definition.Name+"/"+t.Phase.Name, MaxNameBytes)
}

func (t *pipelineTransition) waitForChildren(children ...Awaited) outcome {
	t.Waiting.For, t.Waiting.Children = WaitChild, children
	return outcome{waits: true}
}

// beginPush pushes an item into a queue, and waits for its end if the phase says so,
// else until the item is there: in the same transaction.
func (t *pipelineTransition) beginPush(d PushPhase) outcome {
	data := d.Data
	if len(data) == 0 {
		data = json.RawMessage("null")
	}
	if err := errors.Join(checkName("push.key", d.Key, false), checkName("push.dedup_key", d.DedupKey, false),
		checkJSON("push.data", data, MaxInputBytes)); err != nil {
		return fatalOutcome(err)
	}
	to := QueueRef(t.Namespace, t.Tenant, d.Queue)
	e := QueuePush{
		Namespace: t.Namespace, Tenant: t.Tenant, Name: d.Queue, Data: data,
		Priority: d.Priority, Key: d.Key, DedupKey: d.DedupKey, DelayMS: d.DelayMS,
	}
	n := t.number()
	e.Ack = Owner{Ref: t.Ref(), N: n}
	if d.Wait {
		e.Owner = e.Ack
	}
	t.send(to, e)
	return t.waitForChildren(Awaited{Ref: to, N: n})
}

// beginPipelines starts other pipelines, or waits for some that there are.
func (t *pipelineTransition) beginPipelines(d PipelinesPhase) outcome {
	if len(d.Start) > 0 {
		return t.startPipelines(d)
	}
	ids, err := pipelineIDs(d.Await)
	if err != nil {
		return fatalOutcome(fmt.Errorf("pipelines.await: %w", err))
	}
	if slices.Contains(ids, t.ID) {
		return fatalOutcome(fmt.Errorf("pipelines.await: %s is this pipeline itself", t.ID))
	}
	var children []Awaited
	for _, id := range ids {
		to := effects.Ref{Kind: KindPipeline, ID: id}
		children = append(children, Awaited{Ref: to, N: t.watch(to)})
	}
	if len(children) == 0 {
		return outcome{result: json.RawMessage("[]")}
	}
	return t.waitForChildren(children...)
}

// startPipelines starts all pipelines of a phase, or none if one of them is wrong.
func (t *pipelineTransition) startPipelines(d PipelinesPhase) outcome {
	var children []Awaited
	var ids []string
	var creates []effects.Effect
	for _, start := range d.Start {
		c := t.newChild()
		to := c.ref(KindPipeline)
		spec := PipelineSpec{
			ID: to.ID, Namespace: t.Namespace, Tenant: t.Tenant,
			Label: start.Label, Runbook: t.Runbook, Definition: start.Definition, Context: start.Context,
		}
		if d.Wait {
			spec.Owner = c.owner
		}
		if _, err := spec.checked(); err != nil {
			return fatalOutcome(fmt.Errorf("pipelines.start: %w", err))
		}
		children, ids = append(children, Awaited{Ref: to, N: c.owner.N, Own: true}), append(ids, to.ID.String())
		creates = append(creates, effects.Send{To: to, Event: PipelineCreate{Spec: spec}})
	}
	t.add(creates...)
	if d.Wait {
		return t.waitForChildren(children...)
	}
	list, _ := json.Marshal(ids) // strings always encode
	return outcome{result: list}
}

// pipelineIDs reads ids, of which each text has one or a JSON list of them.
func pipelineIDs(texts []string) ([]uuid.UUID, error) {
	var out []uuid.UUID
	for _, text := range texts {
		list := []string{text}
		if strings.HasPrefix(text, "[") {
			if err := json.Unmarshal([]byte(text), &list); err != nil {
				return nil, fmt.Errorf("%q is no list of ids", clip(text))
			}
		}
		for _, s := range list {
			id, err := uuid.Parse(s)
			if err != nil || id == uuid.Nil {
				return nil, fmt.Errorf("%q is no UUID", clip(s))
			}
			if !slices.Contains(out, id) {
				out = append(out, id)
			}
			if len(out) > MaxChildPipelines {
				return nil, fmt.Errorf("more than %d pipelines", MaxChildPipelines)
			}
		}
	}
	return out, nil
}

// effect is the outer effect of a phase that waits for one. All of them may be
// repeated.
func (d PhaseDef) effect(n uint32) effects.Outer {
	switch {
	case d.Merge != nil:
		return effects.Merge{N: n, Repo: d.Merge.Repo, Branch: d.Merge.Branch, Into: d.Merge.Into, Strategy: d.Merge.Strategy}
	case d.Notify != nil:
		return effects.Notify{N: n, Title: d.Notify.Title, Message: d.Notify.Message, Sound: d.Notify.Sound, Channel: d.Notify.Channel}
	case d.Worktree.Op == WorktreeRemove:
		return effects.WorktreeRemove{N: n, Repo: d.Worktree.Repo, Path: d.Worktree.Path, Force: d.Worktree.Force}
	}
	return effects.WorktreeAdd{N: n, Repo: d.Worktree.Repo, Branch: d.Worktree.Branch, Path: d.Worktree.Path, Base: d.Worktree.Base}
}

// waitForEffect requests an outer effect whose answer ends the phase.
func (t *pipelineTransition) waitForEffect(e effects.Outer) outcome {
	t.request(&t.Pending, e)
	t.Waiting.For, t.Waiting.N = WaitEffect, e.Number()
	return outcome{waits: true}
}

func (t *pipelineTransition) beginWait(d WaitPhase) outcome {
	until := laterMS(t.clock.Now, d.ForMS)
	if d.Until != "" {
		at, err := effects.ParseTime(d.Until)
		if err != nil {
			return fatalOutcome(fmt.Errorf("wait.until: %w", err))
		}
		until = at
	}
	if !until.After(t.clock.Now) {
		return outcome{}
	}
	t.Waiting.For, t.Waiting.Until = WaitTime, until
	return outcome{waits: true}
}

// beginSignal takes a signal that came before its phase, or waits for one.
func (t *pipelineTransition) beginSignal(d SignalPhase) outcome {
	i := slices.IndexFunc(t.Signals, func(s Signal) bool { return s.Name == d.Name })
	if i < 0 {
		t.Waiting.For, t.Waiting.Name = WaitSignal, d.Name
		return outcome{waits: true}
	}
	payload := t.Signals[i].Payload
	t.Signals = without(t.Signals, i)
	return outcome{result: payload}
}

// approvalRules are the first that announce that a phase waits for an approval.
const approvalRules = 13

// beginApproval waits for a person: it announces so, and notifies one if the phase says so.
func (t *pipelineTransition) beginApproval(d ApprovalPhase) outcome {
	t.Waiting.For, t.Waiting.Name = WaitApproval, d.Message
	if !t.clock.Rules.before(approvalRules) {
		t.announce("approval", announcementTexts("phase", t.Phase.Name, "message", d.Message))
	}
	if d.Notify {
		t.request(&t.Pending, effects.Notify{
			N: t.Pending.next(), Title: "Approval needed: " + t.childLabel(), Message: d.Message, Channel: d.Channel,
		})
	}
	return outcome{waits: true}
}

// beginLock waits for a lock or slots, unless the pipeline has them.
func (t *pipelineTransition) beginLock(h Hold) outcome {
	for _, has := range t.Holds {
		if has.same(h) && has.Granted {
			return outcome{result: has.result()}
		}
	}
	if len(t.Holds) >= MaxHolds {
		return fatalOutcome(fmt.Errorf("the pipeline holds %d locks and semaphores: more than %d are too many", len(t.Holds), MaxHolds))
	}
	t.Waiting.For = WaitHold
	t.Waiting.N = t.acquire(h)
	return outcome{waits: true}
}
