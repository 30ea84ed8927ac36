package core

import (
	"cmp"
	"errors"
	"fmt"
)

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

// Limits of a worker.
const (
	MaxWorkerConcurrency = 256
	defaultPollMS        = 60_000
	minPollMS            = 100
	limitedPollMS        = 5000      // after a limit has refused a child
	limitedDelayMS       = 250       // until another worker may take the item of that child
	itemName             = "item"    // of the item in a context
	holderPrefix         = "worker:" // of the worker's name as a holder
)

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
	out.Concurrency, out.PollMS = cmp.Or(out.Concurrency, 1), cmp.Or(out.PollMS, defaultPollMS)
	return out, nil
}

func (s WorkerSpec) validate() error {
	if err := checkDefinition("do", s.Do); err != nil {
		return err
	}
	switch {
	case s.Concurrency > MaxWorkerConcurrency:
		return fmt.Errorf("concurrency: %d is more than %d", s.Concurrency, MaxWorkerConcurrency)
	case s.PollMS < minPollMS || s.PollMS > MaxTimeout.Milliseconds():
		return checkBetween("poll_ms", s.PollMS, minPollMS, MaxTimeout.Milliseconds())
	case len(s.Name) > MaxNameBytes-len(holderPrefix): // else every queue would refuse its holder
		return fmt.Errorf("name: %d bytes are longer than the %d that a worker's may have", len(s.Name), MaxNameBytes-len(holderPrefix))
	}
	return s.Do.validate()
}

func (d WorkerDo) validate() error {
	set := howMany(d.Pipeline != nil, d.Run != nil, d.Strategy != nil, d.Task != nil)
	refs := &refChecker{firstError: firstError{where: "do."}, known: map[string]bool{itemName: true}}
	d.rewrite(refs)
	switch {
	case set != 1:
		return fmt.Errorf("do: give one of pipeline, run, strategy and task, not %d of them", set)
	case refs.err != nil:
		return refs.err
	case d.Pipeline != nil:
		return checkPart("do.pipeline", d.Pipeline.ValidateWith(itemName))
	case d.Run != nil:
		return d.Run.validate("do.run")
	case d.Strategy != nil:
		return d.Strategy.validate("do.strategy")
	case d.Task != nil:
		return d.Task.validate("do.task")
	}
	return nil
}

// rewrite takes all templates through r. Those of a pipeline are its own.
func (d WorkerDo) rewrite(r rewriter) WorkerDo {
	rewritePart(&d.Run, r, "run")
	rewritePart(&d.Strategy, r, "strategy")
	rewritePart(&d.Task, r, "task")
	return d
}
