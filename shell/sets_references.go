package shell

import (
	"fmt"
	"slices"
	"strings"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

// noteReferences notes what declarations name and nothing has, once it is planned what there will be. A calendar, and the tool
// of a schedule, are refused instead: these are asked for at once, the others only when there is something to do.
func (p *setPlan) noteReferences(entries []SetEntry) error {
	for i := range entries {
		if p.wrong[i] != nil {
			continue
		}
		if err := p.noteNames(&entries[i], &p.changes[i]); err != nil {
			return err
		}
	}
	return nil
}

// noteNames notes what one declaration names and nothing has.
func (p *setPlan) noteNames(e *SetEntry, c *SetChange) error {
	switch {
	case e.Queue != nil && e.Queue.Config.DeadLetterQueue != "":
		q := e.Queue
		dead := q.Config.DeadLetterQueue
		return p.noteNone(c, core.QueueRef(q.Namespace, q.Tenant, dead), "dead_letter_queue: ", "queue",
			core.MachineName{Namespace: q.Namespace, Tenant: q.Tenant, Name: dead}, "the first dead item makes one, as if nothing had been said of it")
	case e.Worker != nil:
		w := e.Worker
		p.noteTools(c, "do", toolsOfWorker(w.Do))
		return p.noteNone(c, core.QueueRef(w.Namespace, w.Tenant, w.Queue), "", "queue",
			core.MachineName{Namespace: w.Namespace, Tenant: w.Tenant, Name: w.Queue}, "the worker gets no items until there is one")
	case e.Subscriber != nil:
		of := Scope{Namespace: e.Subscriber.Namespace, Tenant: e.Subscriber.Tenant}
		return p.noteReaction(e.Subscriber.Within(of).Do, c)
	}
	return nil
}

// noteReaction notes what a subscriber names and nothing has.
func (p *setPlan) noteReaction(do core.Reaction, c *SetChange) error {
	switch {
	case do.WakeWorker != nil:
		w := *do.WakeWorker
		return p.noteNone(c, core.WorkerRef(w.Namespace, w.Tenant, w.Name), "do.wake_worker: ", "worker", w, "nothing is woken until there is one")
	case do.Push != nil:
		q := do.Push.MachineName
		return p.noteNone(c, core.QueueRef(q.Namespace, q.Tenant, q.Name), "do.push: ", "queue", q, "the first event makes one, as if nothing had been said of it")
	case do.StartPipeline != nil:
		p.noteTools(c, "do.start_pipeline", toolsOfPipeline(do.StartPipeline.Definition))
	}
	return nil
}

// noteNone notes that a machine which is named does not exist, or is about to go.
func (p *setPlan) noteNone(c *SetChange, ref effects.Ref, field, kind string, of core.MachineName, then string) error {
	s, err := p.batch.State(ref)
	switch {
	case err != nil || s != nil && !drains(s) || of.Name == "":
	case of.Namespace == "" && of.Tenant == "":
		c.Notes = append(c.Notes, fmt.Sprintf("%sthere is no %s %q without a tenant: give its namespace and tenant", field, kind, of.Name))
	case p.alone:
		c.Notes = append(c.Notes, fmt.Sprintf("%s%s %q is in none of these files: the daemon must have it", field, kind, of.Name))
	default:
		c.Notes = append(c.Notes, fmt.Sprintf("%sthere is no %s %q in %s/%s: %s", field, kind, of.Name, of.Namespace, of.Tenant, then))
	}
	return err
}

// noteTools notes which tools the engine has not; without an engine nobody knows.
func (p *setPlan) noteTools(c *SetChange, field string, tools []string) {
	if p.alone {
		return
	}
	slices.Sort(tools)
	for _, name := range slices.Compact(tools) {
		if _, there := p.s.e.o.Tools[name]; !there && name != "" && !strings.Contains(name, "${") {
			c.Notes = append(c.Notes, fmt.Sprintf("%s: the daemon has no tool %q: what needs it fails until it has", field, name))
		}
	}
}

// toolsOfWorker lists the tools that a worker runs for an item.
func toolsOfWorker(do core.WorkerDo) []string {
	switch {
	case do.Run != nil:
		return []string{do.Run.Tool}
	case do.Strategy != nil:
		return toolsOfApproaches(do.Strategy.Approaches)
	case do.Pipeline != nil:
		return toolsOfPipeline(*do.Pipeline)
	}
	return nil
}

// toolsOfPipeline lists the tools that a pipeline runs, with all pipelines that it starts.
func toolsOfPipeline(d core.PipelineDef) (tools []string) {
	for _, phase := range d.Phases {
		switch {
		case phase.Run != nil:
			tools = append(tools, phase.Run.Tool)
		case phase.Strategy != nil:
			tools = append(tools, toolsOfApproaches(phase.Strategy.Approaches)...)
		case phase.Pipelines != nil:
			for _, start := range phase.Pipelines.Start {
				tools = append(tools, toolsOfPipeline(start.Definition)...)
			}
		}
	}
	return tools
}

func toolsOfApproaches(list []core.Approach) (tools []string) {
	for _, a := range list {
		if a.Action.Command != nil {
			tools = append(tools, a.Action.Command.Tool)
		}
	}
	return tools
}
