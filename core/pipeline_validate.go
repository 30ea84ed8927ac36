package core

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
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
	refs := &refChecker{firstError: firstError{where: where}, known: v.known}
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
		for _, name := range sortedKeys(d.Set.Values) {
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
	for _, name := range sortedKeys(values) {
		if err := checkContextName(field, name); err != nil {
			return err
		}
		if len(values[name]) == 0 {
			return fmt.Errorf("%s.%s: must not be empty: null is a value", field, name)
		}
	}
	return nil
}
