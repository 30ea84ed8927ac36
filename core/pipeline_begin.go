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

// begin starts an attempt of a phase: its templates are filled in, and what it
// asks for is asked.
func (a *advance) begin(d PhaseDef) outcome {
	if a.exhausted() {
		return fatal(errors.New("the pipeline has asked for too much: its numbers are used up"))
	}
	limit := maxExpansion
	if d.Pipelines != nil {
		limit = maxExpansionStart
	}
	x := newExpander(a.scope(), limit)
	d = d.rewrite(x)
	if x.err == nil {
		x.err = d.checkAction("")
	}
	if x.err != nil {
		return fatal(x.err)
	}
	a.Waiting = Waiting{}
	if d.TimeoutMS > 0 {
		a.Waiting.Deadline = laterMS(a.c.Now, d.TimeoutMS)
	}
	switch d.Kind() {
	case "run", "task", "strategy", "push", "pipelines":
		return a.beginChild(d)
	case "worktree", "merge", "notify":
		return a.beginEffect(d)
	case "wait":
		return a.beginWait(*d.Wait)
	case "signal":
		return a.beginSignal(*d.Signal)
	case "approval":
		return a.beginApproval(*d.Approval)
	case "manual":
		a.Waiting.For, a.Waiting.Name = WaitManual, d.Manual.Instructions
		return outcome{waits: true}
	case "lock":
		return a.beginHold(Hold{Name: d.Lock.Name, TTLMS: d.Lock.TTLMS})
	case "semaphore":
		return a.beginHold(Hold{Name: d.Semaphore.Name, Semaphore: true, Slots: max(d.Semaphore.Slots, 1), TTLMS: d.Semaphore.TTLMS})
	case "unlock":
		return a.unlock(d.Unlock.Name)
	case "checkpoint":
		a.mark(d.Checkpoint.Message)
		return outcome{}
	case "set":
		return a.set(*d.Set)
	case "wake":
		a.do(effects.WakeWorker{Worker: WorkerRef(a.Namespace, a.Tenant, d.Wake.Worker)})
		return outcome{}
	}
	return fatal(fmt.Errorf("phase %q has no action", clip(d.Name)))
}

func fatal(err error) outcome { return outcome{err: err.Error(), final: true, fatal: true} }

// label names a child for the reader.
func (a *advance) label() string {
	return texts.Bound(a.Definition.Name+"/"+a.Phase.Name, MaxNameBytes)
}

// beginChild makes another machine do the work, and waits for its end.
func (a *advance) beginChild(d PhaseDef) outcome {
	switch {
	case d.Pipelines != nil:
		return a.beginPipelines(*d.Pipelines)
	case d.Push != nil:
		return a.push(*d.Push)
	}
	n := a.number()
	owner := Owner{Ref: a.Ref(), N: n}
	child := func(kind effects.Kind, role string) effects.Ref {
		return effects.Ref{Kind: kind, ID: ChildID(a.ID, role, a.c.Step, uint64(n))}
	}
	var to effects.Ref
	var e Event
	switch {
	case d.Run != nil:
		to = child(KindAction, "action")
		spec := d.Run.actionSpec(to.ID, a.Namespace, a.Tenant, a.label(), a.c.Now, owner)
		if err := spec.Validate(); err != nil {
			return fatal(fmt.Errorf("run: %w", err))
		}
		e = ActionCreate{Spec: spec}
	case d.Task != nil:
		to = child(KindTask, "task")
		e = TaskCreate{Spec: d.Task.taskSpec(to.ID, a.Namespace, a.Tenant, a.label(), a.ID, owner)}
	default:
		to = child(KindStrategy, "strategy")
		e = StrategyCreate{Spec: StrategySpec{
			ID: to.ID, Namespace: a.Namespace, Tenant: a.Tenant, Label: a.label(), PipelineID: a.ID, Owner: owner, Approaches: d.Strategy.Approaches,
		}}
	}
	a.do(effects.Send{To: to, Event: e})
	return a.await(Awaited{Ref: to, N: n, Own: true})
}

// taskSpec is the child task that a prompt stands for.
func (a AgentPrompt) taskSpec(id uuid.UUID, namespace, tenant, label string, pipeline uuid.UUID, owner Owner) TaskSpec {
	return TaskSpec{
		ID: id, Namespace: namespace, Tenant: tenant, Label: label, PipelineID: pipeline, Owner: owner,
		Workspace: a.Workspace, Command: a.Command, Env: a.Env, Prompt: a.Prompt, Config: a.Config,
	}
}

func (a *advance) await(children ...Awaited) outcome {
	a.Waiting.For, a.Waiting.Children = WaitChild, children
	return outcome{waits: true}
}

// push puts an item into a queue, and waits for its end where it is to, else
// until it is there: in the same transaction.
func (a *advance) push(d PushPhase) outcome {
	data := d.Data
	if len(data) == 0 {
		data = json.RawMessage("null")
	}
	if err := errors.Join(checkName("push.key", d.Key, false), checkName("push.dedup_key", d.DedupKey, false),
		checkJSON("push.data", data, MaxInputBytes)); err != nil {
		return fatal(err)
	}
	to := QueueRef(a.Namespace, a.Tenant, d.Queue)
	e := QueuePush{
		Namespace: a.Namespace, Tenant: a.Tenant, Name: d.Queue, Data: data,
		Priority: d.Priority, Key: d.Key, DedupKey: d.DedupKey, DelayMS: d.DelayMS,
	}
	n := a.number()
	e.Ack = Owner{Ref: a.Ref(), N: n}
	if d.Wait {
		e.Owner = e.Ack
	}
	a.do(effects.Send{To: to, Event: e})
	return a.await(Awaited{Ref: to, N: n})
}

// beginPipelines starts other pipelines, or waits for some that there are.
func (a *advance) beginPipelines(d PipelinesPhase) outcome {
	var children []Awaited
	var ids []string
	var creates []effects.Effect // sent only once all are right
	for _, start := range d.Start {
		n := a.number()
		spec := PipelineSpec{
			ID: ChildID(a.ID, "pipeline", a.c.Step, uint64(n)), Namespace: a.Namespace, Tenant: a.Tenant,
			Label: start.Label, Runbook: a.Runbook, Definition: start.Definition, Context: start.Context,
		}
		if d.Wait {
			spec.Owner = Owner{Ref: a.Ref(), N: n}
		}
		if normal, err := spec.normal(); err != nil {
			return fatal(fmt.Errorf("pipelines.start: %w", err))
		} else if err := normal.validate(); err != nil {
			return fatal(fmt.Errorf("pipelines.start: %w", err))
		}
		to := effects.Ref{Kind: KindPipeline, ID: spec.ID}
		children, ids = append(children, Awaited{Ref: to, N: n, Own: true}), append(ids, spec.ID.String())
		creates = append(creates, effects.Send{To: to, Event: PipelineCreate{Spec: spec}})
	}
	if len(d.Start) > 0 {
		a.do(creates...)
		if d.Wait {
			return a.await(children...)
		}
		list, _ := json.Marshal(ids) // strings always encode
		return outcome{result: list}
	}
	awaited, err := pipelineIDs(d.Await)
	if err != nil {
		return fatal(fmt.Errorf("pipelines.await: %w", err))
	}
	if slices.Contains(awaited, a.ID) {
		return fatal(fmt.Errorf("pipelines.await: %s is this pipeline itself", a.ID))
	}
	for _, id := range awaited {
		n := a.number()
		to := effects.Ref{Kind: KindPipeline, ID: id}
		children = append(children, Awaited{Ref: to, N: n})
		a.do(effects.Send{To: to, Event: PipelineWatch{Owner: Owner{Ref: a.Ref(), N: n}, Namespace: a.Namespace, Tenant: a.Tenant}})
	}
	if len(children) == 0 {
		return outcome{result: json.RawMessage("[]")}
	}
	return a.await(children...)
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

// beginEffect asks for an outer effect. All of them may be repeated.
func (a *advance) beginEffect(d PhaseDef) outcome {
	n := a.Asked.next()
	var e effects.Outer
	switch {
	case d.Merge != nil:
		e = effects.Merge{N: n, Repo: d.Merge.Repo, Branch: d.Merge.Branch, Into: d.Merge.Into, Strategy: d.Merge.Strategy}
	case d.Notify != nil:
		e = effects.Notify{N: n, Title: d.Notify.Title, Message: d.Notify.Message, Sound: d.Notify.Sound, Channel: d.Notify.Channel}
	case d.Worktree.Op == WorktreeRemove:
		e = effects.WorktreeRemove{N: n, Repo: d.Worktree.Repo, Path: d.Worktree.Path, Force: d.Worktree.Force}
	default:
		e = effects.WorktreeAdd{N: n, Repo: d.Worktree.Repo, Branch: d.Worktree.Branch, Path: d.Worktree.Path, Base: d.Worktree.Base}
	}
	a.ask(e)
	return outcome{waits: true}
}

// ask asks for an outer effect whose answer ends the phase.
func (a *advance) ask(e effects.Outer) {
	a.Asked = a.Asked.ask(e)
	a.Waiting.For, a.Waiting.N = WaitEffect, e.Number()
	a.do(e)
}

func (a *advance) beginWait(d WaitPhase) outcome {
	until := laterMS(a.c.Now, d.ForMS)
	if d.Until != "" {
		at, err := effects.ParseTime(d.Until)
		if err != nil {
			return fatal(fmt.Errorf("wait.until: %w", err))
		}
		until = at
	}
	if !until.After(a.c.Now) {
		return outcome{}
	}
	a.Waiting.For, a.Waiting.Until = WaitTime, until
	return outcome{waits: true}
}

// beginSignal takes a signal that came before, or waits for one.
func (a *advance) beginSignal(d SignalPhase) outcome {
	i := slices.IndexFunc(a.Signals, func(s Signal) bool { return s.Name == d.Name })
	if i < 0 {
		a.Waiting.For, a.Waiting.Name = WaitSignal, d.Name
		return outcome{waits: true}
	}
	payload := a.Signals[i].Payload
	if a.Signals = slices.Concat(a.Signals[:i], a.Signals[i+1:]); len(a.Signals) == 0 {
		a.Signals = nil
	}
	return outcome{result: payload}
}

// beginApproval waits for a person, and tells one where it is to.
func (a *advance) beginApproval(d ApprovalPhase) outcome {
	a.Waiting.For, a.Waiting.Name = WaitApproval, d.Message
	if d.Notify {
		e := effects.Notify{
			N: a.Asked.next(), Title: "Approval needed: " + a.label(), Message: d.Message, Channel: d.Channel,
		}
		a.Asked = a.Asked.ask(e)
		a.do(e)
	}
	return outcome{waits: true}
}

// beginHold waits for a lock or slots, unless the pipeline has them.
func (a *advance) beginHold(h Hold) outcome {
	for _, has := range a.Holds {
		if has.Name == h.Name && has.Semaphore == h.Semaphore && has.Granted {
			return outcome{result: has.result()}
		}
	}
	if len(a.Holds) >= MaxHolds {
		return fatal(fmt.Errorf("the pipeline holds %d locks and semaphores: more than %d are too many", len(a.Holds), MaxHolds))
	}
	a.Waiting.For = WaitHold
	a.Waiting.N = a.acquire(h)
	return outcome{waits: true}
}

// result is what the phase that took it gives.
func (h Hold) result() json.RawMessage {
	o := begin(nil)
	o.str("name", h.Name)
	o.num("token", h.Token)
	return canonical(o.end())
}

// unlock gives back what has that name.
func (a *advance) unlock(name string) outcome {
	var kept []Hold
	for _, h := range a.Holds {
		if h.Name == name {
			a.do(a.release(h))
		} else {
			kept = append(kept, h)
		}
	}
	a.Holds = kept
	a.Regain = slices.DeleteFunc(slices.Clone(a.Regain), func(h Hold) bool { return h.Name == name })
	if len(a.Regain) == 0 {
		a.Regain = nil
	}
	return outcome{}
}

// mark notes a checkpoint.
func (a *advance) mark(message string) {
	name := ""
	if a.Phase.Type == PhaseRunning {
		name = a.Phase.Name
	}
	message = texts.Bound(message, MaxCheckpointBytes)
	a.Checkpoints = append(slices.Clip(a.Checkpoints), Checkpoint{Phase: name, Message: message, Timestamp: a.c.Now})
	if over := len(a.Checkpoints) - MaxCheckpoints; over > 0 {
		a.Checkpoints = slices.Clone(a.Checkpoints[over:])
	}
	a.emit("checkpoint", announcementTexts("phase", name, "message", message))
}

// set puts values into the context: all of them or none.
func (a *advance) set(d SetPhase) outcome {
	before := a.Context
	for _, name := range contextNames(d.Values) {
		if v := d.Values[name]; !storable(v) || !a.put(name, canonical(v)) {
			a.Context = before
			return outcome{err: fmt.Sprintf("set.values.%s: the context would be longer than %d bytes, or nested too deeply", clip(name), a.Definition.contextLimit()), final: true}
		}
	}
	return outcome{}
}
