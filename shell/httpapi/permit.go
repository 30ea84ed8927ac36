package httpapi

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strings"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/internal/plainjson"
	"github.com/orrery-go/orrery/shell/jobs"
)

// reachUses lists what of a job's reach takes a permission: runs to cancel and locks of
// the same tenant are open to whoever may apply jobs there.
func reachUses(r jobs.Reach, field string) iter.Seq[use] {
	return func(yield func(use) bool) {
		for _, tool := range r.Tools {
			if !yield(use{field: field, tool: tool, at: field}) {
				return
			}
		}
		if len(r.Queues) > 0 && !yield(use{field: field, what: fmt.Sprintf("push to the queue %q, whose worker may do anything", clip(r.Queues[0]))}) ||
			r.Notify && !yield(use{field: field, what: "send a notification"}) ||
			r.Webhooks && !yield(use{field: field, what: "send a webhook"}) {
			return
		}
		for _, p := range r.Pipelines {
			if !walkPipeline(field+".startPipeline", p, nil, yield) {
				return
			}
		}
		for _, id := range r.Jobs {
			if !yield(use{field: field + ".kickOffJob", job: id}) {
				return
			}
		}
	}
}

// asking is one question whether a token may have something done. The constraints of a
// job lead on to other jobs.
type asking struct {
	s     *Server
	token *Token
	scope shell.Scope     // of what is done
	seen  map[string]bool // ids of jobs that were looked at
	// seeing: the question is whether something exists for the holder, which the right to
	// runners does not decide. Triggers of jobs that do not exist are allowed.
	seeing bool
	// rights: only the rights to sessions, git and runners are asked about, not the tools.
	rights bool
}

// bound reports whether the list of the token's tools is asked about.
func (a asking) bound() bool { return len(a.token.Tools) > 0 && !a.rights }

// cannotTell refuses what only a later moment decides: field is what decides.
func (a asking) cannotTell(field, format string, args ...any) error {
	who := fmt.Sprintf("the token %q is not an admin's", a.token.Name)
	if a.bound() {
		who = "the token is bound to tools"
	}
	f := failf(http.StatusForbidden, "%s: %s, and the server cannot tell %s", field, who, fmt.Sprintf(format, args...))
	f.quotes = true
	return f
}

func (s *Server) asking(t *Token, scope shell.Scope) asking {
	return asking{s: s, token: t, scope: scope, seen: map[string]bool{}}
}

// seesUses reports whether what does that exists for the holder: they could have
// made it.
func (s *Server) seesUses(ctx context.Context, t *Token, namespace, tenant string, uses iter.Seq[use]) bool {
	if !t.seesScope(namespace, tenant) {
		return false
	}
	a := s.asking(t, shell.Scope{Namespace: namespace, Tenant: tenant})
	a.seeing = true // what was there when it was made may be gone
	return a.may(ctx, uses) == nil
}

// permitJob refuses a token a runner that it may not use, and what a job's constraints and
// actions would do with tools and rights that it has not. The pod may do what its runner
// allows.
func (s *Server) permitJob(ctx context.Context, t *Token, spec core.JobSpec) error {
	a := s.asking(t, shell.Scope{Namespace: spec.Namespace, Tenant: spec.Tenant})
	a.seen[spec.ID] = true
	if err := a.mayJob(ctx, "", spec); err != nil {
		return err
	}
	return s.mayRun("", spec)
}

// mayRun refuses every token, an admin's too, a runner that is not for the job's tenant.
func (s *Server) mayRun(at string, spec core.JobSpec) error {
	if s.o.Jobs == nil {
		return nil
	}
	if err := s.o.Jobs.MayRun(spec); err != nil {
		return failf(http.StatusForbidden, "%s%s", at, oneLine(err.Error()))
	}
	return nil
}

// mayRunInput is mayRun for an input of the tool of jobs: a job that is triggered, or one of
// its own.
func (s *Server) mayRunInput(ctx context.Context, scope shell.Scope, field, job string, own core.JobSpec) error {
	if job == "" {
		own.Namespace, own.Tenant = scope.Namespace, scope.Tenant
		return s.mayRun(field+".", own)
	}
	j, err := s.engine.Jobs().Get(ctx, scope, job)
	if errors.Is(err, shell.ErrNotFound) { // whoever applies it is asked then
		return nil
	}
	return cmp.Or(err, s.mayRun(fmt.Sprintf("%s.job: job %q: ", field, clip(job)), j.JobSpec))
}

// permitInput refuses a token what a run of a tool that it may use would do with tools
// and rights that it has not.
func (s *Server) permitInput(ctx context.Context, t *Token, scope shell.Scope, field, tool string, input json.RawMessage) error {
	switch starts, err := s.engine.Actions().Starts(tool, input); {
	case tool == jobs.ToolName:
		job, own, err := jobs.ReadToolInput(input)
		if err != nil {
			return nil // the tool says what is wrong, and does nothing
		}
		if err := s.mayRunInput(ctx, scope, field, job, own); err != nil {
			return err
		}
	case starts == nil || err != nil:
		return nil // as above
	}
	run := use{field: field, tool: tool, input: input, at: field}
	return s.asking(t, scope).may(ctx, slices.Values([]use{run}))
}

// permitTemplate is [Server.permitInput] of the actions of a recurring one.
func (s *Server) permitTemplate(ctx context.Context, t *Token, namespace, tenant string, a core.RecurringActionTemplate) error {
	return s.permitInput(ctx, t, shell.Scope{Namespace: namespace, Tenant: tenant}, "payload", a.Provider, a.Payload)
}

// may refuses what a token may not have done: sessions, git and runners without the right
// to them; of a token that is bound to tools other tools, also those that only the context
// will name, everything that no tool's name stands for, and jobs that do such things, as
// they are now.
func (a asking) may(ctx context.Context, uses iter.Seq[use]) error {
	if a.token.Admin || a.seeing && !a.bound() {
		return nil
	}
	for u := range uses {
		if err := a.mayUse(ctx, u); err != nil {
			return err
		}
	}
	return nil
}

func (a asking) mayUse(ctx context.Context, u use) error {
	switch {
	case u.await != "":
		return a.mayAwait(ctx, u)
	case u.job != "":
		return a.mayTrigger(ctx, u.field, u.job)
	case u.right != noRight:
		return a.mayHave(u)
	case u.tool == "" && a.bound():
		return failf(http.StatusForbidden, "%s: the token may only use the tools %s; it cannot %s", u.field, strings.Join(a.token.Tools, ", "), u.what)
	case u.tool == "":
		return nil
	case a.bound() && !in(a.token.Tools, u.tool):
		return failf(http.StatusForbidden, "%s: %q is not one of the token's tools", u.field, clip(u.tool))
	case u.tool == jobs.ToolName:
		return a.mayRunPod(ctx, u)
	case a.seeing: // who may use the tool of pipelines sees all that it starts
		return nil
	case u.filled && mayRefer(u.tool):
		return a.cannotTell(u.field, "which tool the reference stands for: write the tool's name out")
	}
	return a.mayStart(ctx, u)
}

// right is a permission that no list of tools gives.
type right int

const (
	noRight right = iota
	rightSessions
	rightGit
)

// mayHave is about a right that the token must have by its name.
func (a asking) mayHave(u use) error {
	has, line := a.token.Sessions, "sessions = true"
	if u.right == rightGit {
		has, line = a.token.Git, "git = true"
	}
	switch {
	case has:
		return nil
	case a.bound():
		return failf(http.StatusForbidden, "%s: the token may only use the tools %s; it cannot %s: that takes %s for the token", u.field, strings.Join(a.token.Tools, ", "), u.what, line)
	}
	return failf(http.StatusForbidden, "%s: the token %q may not %s: that takes %s for the token", u.field, a.token.Name, u.what, line)
}

// mayRunOn is about the runner of a job: one that is open, or that the token names.
func (a asking) mayRunOn(at string, spec core.JobSpec) error {
	if a.token.Admin || a.seeing {
		return nil
	}
	name := spec.Runner
	if a.s.o.Jobs != nil {
		name = a.s.o.Jobs.RunnerOf(spec)
	}
	switch {
	case name == "" && a.s.o.Jobs != nil: // the service of jobs says what is missing
		return nil
	case name == "":
		return a.cannotTell(at+"runner", "which one is the default: name one")
	case slices.Contains(a.s.o.OpenRunners, name), slices.Contains(a.token.Runners, name):
		return nil
	}
	return failf(http.StatusForbidden, "%srunner: the token %q may not use the runner %q: that takes runners = [%q] for the token", at, a.token.Name, clip(name), clip(name))
}

// mayStart is about a tool that starts pipelines: what these do may take rights that the
// token has not. The tools of their phases are not asked about: that is what the tool's
// name among a token's tools stands for.
func (a asking) mayStart(ctx context.Context, u use) error {
	starts, err := a.s.engine.Actions().Starts(u.tool, u.input)
	switch {
	case err != nil:
		return a.cannotTell(u.at, "what %s would start: %s", u.tool, oneLine(err.Error()))
	case starts == nil:
		return nil
	case starts.Definition != nil:
		a.rights = true
		return a.may(ctx, usesOf(u.at+".definition", *starts.Definition, nil))
	case !a.token.Sessions || !a.token.Git:
		return failf(http.StatusForbidden, "%s.file: the token %q may not start pipelines of files, which may do anything: that takes sessions = true and git = true for the token; or give definition", u.at, a.token.Name)
	}
	return nil
}

// mayRunPod is about the tool of jobs: its input may have constraints of its own,
// or trigger a job that has.
func (a asking) mayRunPod(ctx context.Context, u use) error {
	job, spec, err := jobs.ReadToolInput(u.input)
	if err != nil {
		return a.cannotTell(u.at, "what %s would do: %s", jobs.ToolName, oneLine(err.Error()))
	}
	if field := referring(job, spec); u.filled && field != "" {
		return a.cannotTell(u.at+"."+field, "what the reference stands for: write the value out, or apply a job and trigger it")
	}
	if job != "" {
		return a.mayTrigger(ctx, u.at+".job", job)
	}
	spec.Namespace, spec.Tenant = a.scope.Namespace, a.scope.Tenant
	return a.mayJob(ctx, u.at+".", spec)
}

// referring names the field with a reference, of those that decide what else the run does.
func referring(job string, spec core.JobSpec) string {
	switch {
	case mayRefer(job):
		return "job"
	case mayRefer(spec.ConstraintConfig):
		return "constraint_config"
	case mayRefer(spec.ActionConfig):
		return "action_config"
	case mayRefer(spec.Runner):
		return "runner"
	}
	return ""
}

// mayRefer reports whether there is a reference in a value, however it is written.
func mayRefer(v any) bool {
	b, err := plainjson.Marshal(v)
	var plain any
	if err == nil && json.Unmarshal(b, &plain) == nil {
		b, err = plainjson.Marshal(plain)
	}
	return err != nil || bytes.Contains(b, []byte("${"))
}

// mayTrigger is about a job of the same tenant.
func (a asking) mayTrigger(ctx context.Context, field, id string) error {
	if a.seen[id] {
		return nil
	}
	a.seen[id] = true
	j, err := a.s.engine.Jobs().Get(ctx, a.scope, id)
	switch {
	case errors.Is(err, shell.ErrNotFound) && (a.seeing || !a.bound()): // whoever applies it is asked then
		return nil
	case errors.Is(err, shell.ErrNotFound):
		return a.cannotTell(field, "what job %q would do: apply it first", clip(id))
	case err != nil:
		return err
	}
	return a.mayJob(ctx, fmt.Sprintf("%s: job %q: ", field, clip(id)), j.JobSpec)
}

// mayJob is about the runner, the constraints and the actions of a job; at stands before
// the names of its fields.
func (a asking) mayJob(ctx context.Context, at string, spec core.JobSpec) error {
	if err := a.mayRunOn(at, spec); err != nil {
		return err
	}
	if a.token.Admin || a.seeing && !a.bound() || len(spec.ConstraintConfig) == 0 && len(spec.ActionConfig) == 0 {
		return nil
	}
	if a.s.o.JobUses == nil {
		return a.cannotTell(at+"constraint_config", "what the constraints would use: leave it out")
	}
	reach, err := a.s.o.JobUses(spec)
	if err != nil {
		return failf(http.StatusBadRequest, "%s%s", at, oneLine(err.Error()))
	}
	return a.may(ctx, reachUses(reach, at+"constraint_config"))
}

// use is one thing that a definition has done outside of the system.
type use struct {
	field string
	tool  string // a run of it; empty: a session, git or the like, which no list of tools names
	what  string // without a tool: what it does, as in "it cannot run git"
	right right  // without a tool: what the token must have by its name
	// input is that of the tool, as it stands in the field at; filled: references in
	// it are filled in before the tool sees it.
	input  json.RawMessage
	at     string
	filled bool
	job    string // the id of a job that is triggered: then there is nothing else
	// await is the id of a pipeline that is waited for, or a reference to some; then there is
	// nothing else. ownChild: it can only stand for pipelines that the same definition starts.
	await    string
	ownChild bool
}

// usesTool is a run of a tool within a definition.
func usesTool(field string, run core.ToolRun) use {
	return use{field: field + ".tool", tool: run.Tool, input: run.Input, at: field + ".input", filled: true}
}

// given are the values that a context begins with; nil: they are not known.
type given map[string]json.RawMessage

// usesOf lists what a pipeline would do, with all pipelines that it starts.
func usesOf(field string, d core.PipelineDef, context given) iter.Seq[use] {
	return func(yield func(use) bool) { walkPipeline(field, d, context, yield) }
}

func walkPipeline(field string, d core.PipelineDef, context given, yield func(use) bool) bool {
	for i, p := range d.Phases {
		at := fmt.Sprintf("%s.phases[%d]", field, i)
		for _, u := range usesAwaits(at, d, p, context) {
			if !yield(u) {
				return false
			}
		}
		if !walkPhase(at, p, yield) {
			return false
		}
	}
	return true
}

func walkPhase(field string, p core.PhaseDef, yield func(use) bool) bool {
	switch {
	case p.Run != nil && !yield(usesTool(field+".run", *p.Run)),
		p.Task != nil && !yield(use{field: field + ".task", right: rightSessions, what: "start a terminal session"}),
		p.Merge != nil && !yield(use{field: field + ".merge", right: rightGit, what: "run git"}),
		p.Worktree != nil && !yield(use{field: field + ".worktree", right: rightGit, what: "run git"}),
		p.Push != nil && !yield(use{field: field + ".push", what: "push to a queue, whose worker may do anything"}),
		p.Wake != nil && !yield(use{field: field + ".wake", what: "wake a worker, which may do anything"}),
		p.Notify != nil && !yield(use{field: field + ".notify", what: "send a notification"}),
		p.Approval != nil && p.Approval.Notify && !yield(use{field: field + ".approval.notify", what: "send a notification"}),
		p.Strategy != nil && !walkApproaches(field+".strategy", p.Strategy.Approaches, yield):
		return false
	}
	if p.Pipelines != nil {
		for i, start := range p.Pipelines.Start {
			if !walkPipeline(fmt.Sprintf("%s.pipelines.start[%d].definition", field, i), start.Definition, contextOf(start.Context), yield) {
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
			a.Action.Merge != nil && !yield(use{field: at + ".merge", right: rightGit, what: "run git"}),
			a.Action.Merge != nil && a.Action.Merge.Agent != nil && !yield(use{field: at + ".merge.agent", right: rightSessions, what: "start a terminal session"}),
			a.Action.AgentPrompt != nil && !yield(use{field: at + ".agent_prompt", right: rightSessions, what: "start a terminal session"}):
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
			do.Task != nil && !yield(use{field: "do.task", right: rightSessions, what: "start a terminal session"}),
			do.Strategy != nil && !walkApproaches("do.strategy", do.Strategy.Approaches, yield),
			do.Pipeline != nil && !walkPipeline("do.pipeline", *do.Pipeline, given{"item": nil}, yield),
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

// permitUses asks whether the token may, and then [Server.checkTools]: a token learns of
// no tools but its own.
func (s *Server) permitUses(ctx context.Context, t *Token, scope shell.Scope, uses iter.Seq[use]) error {
	if err := s.asking(t, scope).may(ctx, uses); err != nil {
		return err
	}
	return s.checkTools(uses)
}
