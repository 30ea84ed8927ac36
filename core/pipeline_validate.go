package core

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/orrery-go/orrery/effects"
)

// Names that a context does not have, since references know them already.
const (
	systemPipeline = "pipeline"
	systemPhase    = "phase"
)

// maxProblems bounds what one validation reports.
const maxProblems = 10

// Validate tells what is wrong with the definition: the phase and the field, the
// value, and what would be right. It takes time in proportion to the
// definition.
func (d PipelineDef) Validate() error { return d.ValidateWith() }

// ValidateWith is [PipelineDef.Validate] of a definition whose context has
// values of these names beside its inputs: those that a creator adds, or "item",
// which a [Worker] gives.
func (d PipelineDef) ValidateWith(names ...string) error {
	known := make(map[string]bool, len(names)+len(d.Inputs)+len(d.Phases))
	for _, name := range append([]string{systemPipeline, systemPhase}, names...) {
		known[name] = true
	}
	v := defChecker{def: d, known: known, indices: make(map[string]int, len(d.Phases)), locks: map[string]bool{}}
	v.head()
	v.inputs()
	for i, phase := range d.Phases {
		if _, twice := v.indices[phase.Name]; twice {
			v.problem(fmt.Errorf("phases[%d].name: there are two phases %q", i, clip(phase.Name)))
			continue
		}
		v.indices[phase.Name] = i
	}
	if d.OnFailure != "" {
		if _, ok := v.indices[d.OnFailure]; !ok {
			v.problem(fmt.Errorf("on_failure: there is no phase %q", clip(d.OnFailure)))
		}
	}
	for i := range d.Phases {
		if len(v.problems) >= maxProblems {
			break
		}
		v.phase(i)
	}
	if d.Result != "" && !v.known[d.Result] {
		v.problem(fmt.Errorf("result: %q is neither an input nor the output of a phase", clip(d.Result)))
	}
	return errors.Join(v.problems...)
}

// defChecker gathers what is wrong with a definition.
type defChecker struct {
	def      PipelineDef
	indices  map[string]int  // of the phases
	known    map[string]bool // names in the context, as far as the phases were checked
	locks    map[string]bool // what earlier phases lock
	anyLock  bool            // one of them by a name that only the run will know
	problems []error
}

func (v *defChecker) problem(err error) {
	if err != nil {
		v.problems = append(v.problems, err)
	}
}

func (v *defChecker) head() {
	d := v.def
	v.problem(checkName("name", d.Name, true))
	if n := len(d.Phases); n == 0 || n > MaxPhases {
		v.problem(fmt.Errorf("phases: %d phases are not between 1 and %d", n, MaxPhases))
	}
	if d.ContextLimit < 0 || d.ContextLimit > MaxContextLimit {
		v.problem(fmt.Errorf("context_limit: %d is not between 0 and %d bytes", d.ContextLimit, MaxContextLimit))
	}
	v.problem(checkLengthMS("timeout_ms", d.TimeoutMS))
}

func (v *defChecker) inputs() {
	if n := len(v.def.Inputs); n > MaxMapEntries {
		v.problem(fmt.Errorf("inputs: %d are more than %d", n, MaxMapEntries))
		return
	}
	seen := map[string]bool{}
	for i, in := range v.def.Inputs {
		field := fmt.Sprintf("inputs[%d]", i)
		v.problem(checkContextName(field+".name", in.Name))
		if seen[in.Name] {
			v.problem(fmt.Errorf("%s.name: there are two inputs %q", field, clip(in.Name)))
		}
		if len(in.Default) > 0 {
			v.problem(checkJSON(field+".default", in.Default, MaxContextLimit))
			if in.Required {
				v.problem(fmt.Errorf("%s: a required input needs no default", field))
			}
		}
		seen[in.Name], v.known[in.Name] = true, true
	}
}

// phase checks one phase, and notes what it adds to the context.
func (v *defChecker) phase(i int) {
	d := v.def.Phases[i]
	field := fmt.Sprintf("phases[%d]", i)
	if err := checkContextName(field+".name", d.Name); err != nil {
		v.problem(err)
		return
	}
	where := fmt.Sprintf("phase %q (%s): ", clip(d.Name), field)
	switch kinds := d.kinds(); len(kinds) {
	case 0:
		v.problem(errors.New(where + "has no action: give it one, such as run"))
		return
	case 1:
	default:
		v.problem(fmt.Errorf("%shas several actions, %s: give it one", where, strings.Join(kinds, " and ")))
		return
	}
	v.problem(v.jump(i, where+"next", d.Next))
	v.problem(v.jump(i, where+"on_failure", d.OnFailure))
	v.problem(checkLengthMS(where+"timeout_ms", d.TimeoutMS))
	v.problem(d.Retry.validate(where + "retry"))
	if d.Output != "" {
		v.problem(checkContextName(where+"output", d.Output))
	}
	refs := &refChecker{where: where, known: v.known}
	if d.When != nil {
		refs.keep("when.ref", refs.reference(d.When.Ref))
		v.problem(checkJSON(where+"when.equals", d.When.Equals, MaxInputBytes))
	}
	d.rewrite(refs)
	v.problem(refs.err)
	v.problem(d.checkAction(where))
	v.locking(d, where)
	v.known[d.output()] = true
	if d.Set != nil {
		for _, name := range contextNames(d.Set.Values) {
			v.problem(checkContextName(where+"set.values", name))
			v.known[name] = true
		}
	}
}

// jump checks a phase that another one names: it must stand later, so that no
// pipeline can go round and round.
func (v *defChecker) jump(i int, field, to string) error {
	if to == "" || to == PhaseEnd && strings.HasSuffix(field, "next") {
		return nil
	}
	j, ok := v.indices[to]
	switch {
	case !ok:
		return fmt.Errorf("%s: there is no phase %q", field, clip(to))
	case j > i:
		return nil
	}
	path := []string{clip(v.def.Phases[i].Name)}
	for k := j; k != i; { // every step goes on by itself or by a later jump, or else it is reported itself
		path = append(path, clip(v.def.Phases[k].Name))
		next := k + 1
		if p, ok := v.indices[v.def.Phases[k].Next]; ok {
			next = p
		}
		if next <= k || next > i || len(path) > 8 {
			path = append(path, "…")
			break
		}
		k = next
	}
	path = append(path, clip(v.def.Phases[i].Name))
	return fmt.Errorf("%s: %q does not stand later, which makes a cycle: %s", field, clip(to), strings.Join(path, " → "))
}

// locking notes the locks that a phase takes, and checks that what it releases was taken.
func (v *defChecker) locking(d PhaseDef, where string) {
	var taken string
	switch {
	case d.Lock != nil:
		taken = d.Lock.Name
	case d.Semaphore != nil:
		taken = d.Semaphore.Name
	case d.Unlock != nil:
		if name := d.Unlock.Name; !strings.Contains(name, "${") && !v.anyLock && !v.locks[name] {
			v.problem(fmt.Errorf("%sunlock.name: no earlier phase takes a lock or a semaphore %q", where, clip(name)))
		}
		return
	default:
		return
	}
	v.locks[taken] = true
	v.anyLock = v.anyLock || strings.Contains(taken, "${")
}

// checkAction checks what of the action is no template.
func (d PhaseDef) checkAction(where string) error {
	switch {
	case d.Run != nil:
		return d.Run.validate(where + "run")
	case d.Task != nil:
		return d.Task.validatePart(where + "task")
	case d.Strategy != nil:
		return d.Strategy.validate(where + "strategy")
	case d.Push != nil:
		return errors.Join(checkName(where+"push.queue", d.Push.Queue, true), checkLengthMS(where+"push.delay_ms", d.Push.DelayMS))
	case d.Wait != nil:
		return d.Wait.validate(where + "wait")
	case d.Signal != nil:
		return checkName(where+"signal.name", d.Signal.Name, true)
	case d.Pipelines != nil:
		return d.Pipelines.validate(where + "pipelines")
	case d.Lock != nil:
		return errors.Join(checkName(where+"lock.name", d.Lock.Name, true), checkLengthMS(where+"lock.ttl_ms", d.Lock.TTLMS))
	case d.Unlock != nil:
		return checkName(where+"unlock.name", d.Unlock.Name, true)
	case d.Semaphore != nil:
		return errors.Join(checkName(where+"semaphore.name", d.Semaphore.Name, true), checkLengthMS(where+"semaphore.ttl_ms", d.Semaphore.TTLMS))
	case d.Worktree != nil:
		return d.Worktree.validate(where + "worktree")
	case d.Merge != nil:
		return d.Merge.validatePhase(where + "merge")
	case d.Notify != nil:
		return checkName(where+"notify.title", d.Notify.Title, true)
	case d.Checkpoint != nil && d.Checkpoint.Message == "":
		return errors.New(where + "checkpoint.message: must not be empty")
	case d.Set != nil && (len(d.Set.Values) == 0 || len(d.Set.Values) > MaxMapEntries):
		return fmt.Errorf("%sset.values: %d are not between 1 and %d", where, len(d.Set.Values), MaxMapEntries)
	case d.Wake != nil:
		return checkName(where+"wake.worker", d.Wake.Worker, true)
	}
	return nil
}

func (a ToolRun) validate(field string) error {
	policy := RunPolicy{OnInterrupt: a.OnInterrupt, TimeoutMS: a.TimeoutMS}.withDefaults()
	if err := checkName(field+".tool", a.Tool, true); err != nil {
		return err
	}
	if err := policy.validate(); err != nil {
		return fmt.Errorf("%s: %w", field, err)
	}
	return nil
}

func (a StrategyPhase) validate(field string) error {
	if n := len(a.Approaches); n == 0 || n > MaxApproaches {
		return fmt.Errorf("%s.approaches: %d are not between 1 and %d", field, n, MaxApproaches)
	}
	return checkApproaches(field+".approaches", a.Approaches, func(field string, a Approach) error { return a.Action.check(field) })
}

// validatePart checks what of an agent is no template.
func (a AgentPrompt) validatePart(field string) error {
	switch {
	case len(a.Command) > MaxCommandArgs:
		return fmt.Errorf("%s.command: %d arguments are more than %d", field, len(a.Command), MaxCommandArgs)
	case len(a.Env) > MaxMapEntries:
		return fmt.Errorf("%s.env: %d entries are more than %d", field, len(a.Env), MaxMapEntries)
	}
	return checkPart(field, a.Config.withDefaults().validate())
}

// check finds what could not be started once the approach begins.
func (a ApproachAction) check(field string) error {
	switch {
	case a.Command != nil:
		return a.Command.validate(field + ".command")
	case a.AgentPrompt != nil:
		return a.AgentPrompt.validateAgent(field + ".agent_prompt")
	}
	return a.Merge.checkStrategy(field+".merge", func(field string) error { return a.Merge.Agent.validateAgent(field) })
}

// validateAgent checks one that needs a session.
func (a AgentPrompt) validateAgent(field string) error {
	if len(a.Command) == 0 {
		return fmt.Errorf("%s.command: must not be empty: a prompt needs a session", field)
	}
	return a.validatePart(field)
}

func (a WaitPhase) validate(field string) error {
	if (a.ForMS != 0) == (a.Until != "") {
		return fmt.Errorf("%s: give one of for_ms and until", field)
	}
	if err := checkLengthMS(field+".for_ms", a.ForMS); err != nil || a.Until == "" || strings.Contains(a.Until, "${") {
		return err
	}
	if _, err := effects.ParseTime(a.Until); err != nil {
		return fmt.Errorf("%s.until: %w", field, err)
	}
	return nil
}

func (a PipelinesPhase) validate(field string) error {
	n := len(a.Start) + len(a.Await)
	switch {
	case n == 0 || n > MaxChildPipelines:
		return fmt.Errorf("%s: %d pipelines are not between 1 and %d", field, n, MaxChildPipelines)
	case len(a.Start) > 0 && len(a.Await) > 0:
		return fmt.Errorf("%s: give one of start and await: another phase for the other", field)
	}
	for i, start := range a.Start {
		at := fmt.Sprintf("%s.start[%d]", field, i)
		if err := checkContextNames(at+".context", start.Context); err != nil {
			return err
		}
		if err := start.Definition.ValidateWith(contextNames(start.Context)...); err != nil {
			return fmt.Errorf("%s.definition: %w", at, err)
		}
	}
	for i, id := range a.Await {
		if strings.Contains(id, "${") {
			continue
		}
		if _, err := pipelineIDs([]string{id}); err != nil {
			return fmt.Errorf("%s.await[%d]: %w", field, i, err)
		}
	}
	return nil
}

func (a WorktreePhase) validate(field string) error {
	switch {
	case a.Op != WorktreeAdd && a.Op != WorktreeRemove:
		return fmt.Errorf("%s.op: %q is unknown: use %q or %q", field, clip(string(a.Op)), WorktreeAdd, WorktreeRemove)
	case a.Repo == "":
		return fmt.Errorf("%s.repo: must not be empty", field)
	case a.Path == "":
		return fmt.Errorf("%s.path: must not be empty", field)
	case a.Op == WorktreeAdd && a.Branch == "":
		return fmt.Errorf("%s.branch: must not be empty", field)
	}
	return nil
}

func (a MergeRun) validatePhase(field string) error {
	switch {
	case a.Strategy != effects.MergeFastForward && a.Strategy != effects.MergeRebase:
		return fmt.Errorf("%s.strategy: %q is not %q or %q: an agent merges within a strategy phase", field, clip(string(a.Strategy)), effects.MergeFastForward, effects.MergeRebase)
	case a.Agent != nil:
		return fmt.Errorf("%s.agent: an agent merges within a strategy phase", field)
	case a.Repo == "":
		return fmt.Errorf("%s.repo: must not be empty", field)
	case a.Branch == "":
		return fmt.Errorf("%s.branch: must not be empty", field)
	case a.Into == "":
		return fmt.Errorf("%s.into: must not be empty", field)
	}
	return nil
}

// checkContextName checks the name of a phase or of a value of a context, which
// references must be able to name.
func checkContextName(field, name string) error {
	if err := checkName(field, name, true); err != nil {
		return err
	}
	if strings.ContainsAny(name, ".${}") || name[0] == '@' {
		return fmt.Errorf("%s: %q has one of \".${}\" or begins with \"@\", so that no reference could name it", field, clip(name))
	}
	if name == systemPipeline || name == systemPhase {
		return fmt.Errorf("%s: %q is taken: references to it give what is built in", field, name)
	}
	return nil
}

func checkContextNames(field string, values map[string]json.RawMessage) error {
	for _, name := range contextNames(values) {
		if err := checkContextName(field, name); err != nil {
			return err
		}
		if len(values[name]) == 0 {
			return fmt.Errorf("%s.%s: must not be empty: null is a value", field, name)
		}
	}
	return nil
}
