package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strings"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
)

// use is one thing that a definition has done outside of the system.
type use struct {
	field string
	tool  string // a run of it; empty: a session, git or the like, which no list of tools names
	what  string // without a tool: what it does, as in "it cannot run git"
	// input is that of the tool, as it stands in the field at; filled: references in
	// it are filled in before the tool sees it.
	input  json.RawMessage
	at     string
	filled bool
	job    string // the id of a job that is triggered: then there is nothing else
}

// usesTool is a run of a tool within a definition.
func usesTool(field string, run core.ToolRun) use {
	return use{field: field + ".tool", tool: run.Tool, input: run.Input, at: field + ".input", filled: true}
}

// usesOf lists what a pipeline would do, with all pipelines that it starts.
func usesOf(field string, d core.PipelineDef) iter.Seq[use] {
	return func(yield func(use) bool) { walkPipeline(field, d, yield) }
}

func walkPipeline(field string, d core.PipelineDef, yield func(use) bool) bool {
	for i, p := range d.Phases {
		if !walkPhase(fmt.Sprintf("%s.phases[%d]", field, i), p, yield) {
			return false
		}
	}
	return true
}

func walkPhase(field string, p core.PhaseDef, yield func(use) bool) bool {
	switch {
	case p.Run != nil && !yield(usesTool(field+".run", *p.Run)),
		p.Task != nil && !yield(use{field: field + ".task", what: "start a terminal session"}),
		p.Merge != nil && !yield(use{field: field + ".merge", what: "run git"}),
		p.Worktree != nil && !yield(use{field: field + ".worktree", what: "run git"}),
		p.Push != nil && !yield(use{field: field + ".push", what: "push to a queue, whose worker may do anything"}),
		p.Wake != nil && !yield(use{field: field + ".wake", what: "wake a worker, which may do anything"}),
		p.Notify != nil && !yield(use{field: field + ".notify", what: "send a notification"}),
		p.Approval != nil && p.Approval.Notify && !yield(use{field: field + ".approval.notify", what: "send a notification"}),
		p.Strategy != nil && !walkApproaches(field+".strategy", p.Strategy.Approaches, yield):
		return false
	}
	if p.Pipelines != nil {
		for i, start := range p.Pipelines.Start {
			if !walkPipeline(fmt.Sprintf("%s.pipelines.start[%d].definition", field, i), start.Definition, yield) {
				return false
			}
		}
	}
	return true
}

// walkApproaches lists what a strategy would do. The field is what holds the
// approaches; empty: the whole body.
func walkApproaches(field string, list []core.Approach, yield func(use) bool) bool {
	if field != "" {
		field += "."
	}
	for i, a := range list {
		at := fmt.Sprintf("%sapproaches[%d].action", field, i)
		switch {
		case a.Action.Command != nil && !yield(usesTool(at+".command", *a.Action.Command)),
			a.Action.Merge != nil && !yield(use{field: at + ".merge", what: "run git"}),
			a.Action.AgentPrompt != nil && !yield(use{field: at + ".agent_prompt", what: "start a terminal session"}):
			return false
		}
	}
	return true
}

// usesOfWorker lists what a worker would do for an item, and that it takes it.
func usesOfWorker(do core.WorkerDo) iter.Seq[use] {
	return func(yield func(use) bool) {
		switch {
		case do.Run != nil && !yield(usesTool("do.run", *do.Run)),
			do.Task != nil && !yield(use{field: "do.task", what: "start a terminal session"}),
			do.Strategy != nil && !walkApproaches("do.strategy", do.Strategy.Approaches, yield),
			do.Pipeline != nil && !walkPipeline("do.pipeline", *do.Pipeline, yield),
			!yield(use{field: "queue", what: "take items of a queue, which may be for any tool"}):
		}
	}
}

// usesOfStrategy lists what a strategy would do.
func usesOfStrategy(list []core.Approach) iter.Seq[use] {
	return func(yield func(use) bool) { walkApproaches("", list, yield) }
}

// checkTools refuses tools that do not exist: they could only fail later.
func (s *Server) checkTools(uses iter.Seq[use]) error {
	known := s.engine.Actions().Tools()
	for u := range uses {
		if u.tool == "" || strings.Contains(u.tool, "${") || slices.Contains(known, u.tool) {
			continue
		}
		hint := "no tool is configured"
		if len(known) > 0 {
			hint = "use one of " + strings.Join(known, ", ")
		}
		return failf(http.StatusBadRequest, "%s: %q is unknown: %s", u.field, clip(u.tool), hint)
	}
	return nil
}

// permitUses is [Server.mayUse], and then [Server.checkTools]: a token learns of
// no tools but its own.
func (s *Server) permitUses(ctx context.Context, t *Token, scope shell.Scope, uses iter.Seq[use]) error {
	if err := s.mayUse(ctx, t, scope, uses); err != nil {
		return err
	}
	return s.checkTools(uses)
}
