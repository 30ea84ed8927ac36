package runbook

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/internal/spans"
)

// span writes milliseconds as a file would.
func span(ms int64) string { return spans.Text(time.Duration(ms) * time.Millisecond) }

func condition(w core.When) string {
	sign := "="
	if w.Not {
		sign = "≠"
	}
	return fmt.Sprintf("%s %s %s", w.Ref, sign, w.Equals)
}

// phaseShape tells by the shape what a phase does.
func phaseShape(p core.PhaseDef) shape {
	switch p.Kind() {
	case "run", "task", "strategy", "worktree", "merge", "notify":
		return shapeOuter
	case "wait", "signal", "approval", "lock", "semaphore", "manual":
		return shapeWaiting
	}
	return shapePhase
}

// phaseLabel is a phase's name, what it does, and what is special.
func phaseLabel(p core.PhaseDef) []string {
	lines := []string{p.Name, strings.TrimSuffix(p.Kind()+": "+phaseDetail(p), ": ")}
	var notes []string
	if p.TimeoutMS > 0 {
		notes = append(notes, "at most "+span(p.TimeoutMS))
	}
	if n := p.Retry.Attempts(); n > 1 {
		notes = append(notes, fmt.Sprintf("%d attempts", n))
	}
	if p.IgnoreFailure {
		notes = append(notes, "failure ignored")
	}
	if len(notes) > 0 {
		lines = append(lines, strings.Join(notes, ", "))
	}
	return lines
}

func phaseDetail(p core.PhaseDef) string {
	switch {
	case p.Run != nil:
		return toolDetail(*p.Run)
	case p.Task != nil:
		return p.Task.Prompt
	case p.Push != nil:
		return p.Push.Queue
	case p.Wait != nil && p.Wait.ForMS > 0:
		return span(p.Wait.ForMS)
	case p.Wait != nil:
		return "until " + p.Wait.Until
	case p.Signal != nil:
		return p.Signal.Name
	case p.Approval != nil:
		return p.Approval.Message
	case p.Lock != nil:
		return p.Lock.Name
	case p.Unlock != nil:
		return p.Unlock.Name
	case p.Semaphore != nil:
		return p.Semaphore.Name
	case p.Worktree != nil:
		return string(p.Worktree.Op) + " " + p.Worktree.Path
	case p.Merge != nil:
		return mergeDetail(*p.Merge)
	case p.Notify != nil:
		return p.Notify.Title
	case p.Checkpoint != nil:
		return p.Checkpoint.Message
	case p.Manual != nil:
		return p.Manual.Instructions
	case p.Wake != nil:
		return p.Wake.Worker
	}
	return ""
}

func mergeDetail(m core.MergeRun) string {
	return fmt.Sprintf("%s into %s by %s", m.Branch, m.Into, m.Strategy)
}

// toolDetail is the command, or the name of another tool.
func toolDetail(r core.ToolRun) string {
	var in commandInput
	if r.Tool == toolCommand && json.Unmarshal(r.Input, &in) == nil && len(in.Argv) > 0 {
		if len(in.Argv) == 3 && in.Argv[0] == "sh" && in.Argv[1] == "-c" {
			return strings.ReplaceAll(in.Argv[2], "$${", "${")
		}
		return strings.Join(in.Argv, " ")
	}
	return "tool " + r.Tool
}

func approachDetail(a core.Approach) []string {
	var lines []string
	switch act := a.Action; {
	case act.Command != nil:
		lines = append(lines, toolDetail(*act.Command))
	case act.Merge != nil:
		lines = append(lines, "merge "+mergeDetail(*act.Merge))
	case act.AgentPrompt != nil:
		lines = append(lines, "agent: "+act.AgentPrompt.Prompt)
	}
	if a.TimeoutMS > 0 {
		lines = append(lines, "at most "+span(a.TimeoutMS))
	}
	return lines
}
