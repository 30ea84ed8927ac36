package constraints

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/internal/clip"
	"github.com/orrery-go/orrery/shell/internal/strictjson"
	"github.com/orrery-go/orrery/shell/jobs"
)

// maxActionBytes bounds the configurations of all actions that one evaluation may
// ask for, with their texts filled in: they stand in the journal.
const maxActionBytes = 512 << 10

// plan is a job's configuration as it was understood.
type plan struct {
	constraints []planned
	needs       []need
	reach       jobs.Reach
	refused     error // what a new job may not have; see [Spec.refuse]
}

type planned struct {
	name, typ string
	phases    []effects.CheckPhase
	advisory  bool
	onError   core.ErrorPolicy // empty: as the job says
	c         Constraint
}

// need is something that the daemon must be configured for.
type need struct {
	what  needed
	name  string
	path  string
	input json.RawMessage // of a tool
}

type needed int

const (
	needTool needed = iota
	needSecret
	needNotify
)

func (p *plan) need(n need) { p.needs = append(p.needs, n) }

// parser reads configurations.
type parser struct {
	types   map[string]Type
	actions map[string]ActionFactory
	// lenient passes over types that it does not know.
	lenient bool
}

// entry is what stands behind the type of a constraint (004).
type entry struct {
	Name        string            `json:"name"`
	Config      json.RawMessage   `json:"config"`
	OnViolation []json.RawMessage `json:"onViolation"`
	OnMet       []json.RawMessage `json:"onMet"`
	Phase       string            `json:"phase"`
	Advisory    *bool             `json:"advisory"`
	OnError     core.ErrorPolicy  `json:"onError"`
}

// reading is one run of a parser over one job.
type reading struct {
	parser
	*plan
	job   *jobs.Job
	named map[string]core.ActionRequest
	bytes int // of the actions' configurations
	count int // of the actions
}

func (p parser) parse(job *jobs.Job) (*plan, error) {
	r := reading{parser: p, plan: &plan{}, job: job, named: map[string]core.ActionRequest{}}
	var doc actionDoc
	if err := decodeConfig("actions", job.ActionConfig, &doc); err != nil { // constraints refer to them
		return nil, err
	}
	if err := errors.Join(r.namedActions(doc.Actions), r.constraintConfig(job.ConstraintConfig)); err != nil {
		return nil, err
	}
	return r.plan, nil
}

// decodeConfig decodes a configuration that may be missing.
func decodeConfig(name string, raw json.RawMessage, dst any) error {
	switch {
	case len(raw) == 0:
		return nil
	case len(raw) > core.MaxPodSpecBytes:
		return fmt.Errorf("%s: %d bytes is more than %d", name, len(raw), core.MaxPodSpecBytes)
	}
	return strictjson.Decode(raw, dst)
}

// constraintConfig reads the constraints. The error tells of each that is wrong.
func (r *reading) constraintConfig(raw json.RawMessage) error {
	var doc struct {
		Constraints []map[string]json.RawMessage `json:"constraints"`
	}
	if err := decodeConfig("constraints", raw, &doc); err != nil {
		return err
	}
	if n := len(doc.Constraints); n > core.MaxConstraints {
		return fmt.Errorf("constraints: %d are more than %d", n, core.MaxConstraints)
	}
	errs := make([]error, 0, len(doc.Constraints))
	for i, e := range doc.Constraints {
		errs = append(errs, r.constraint(i, e))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	switch {
	case r.count > core.MaxRunActions:
		return fmt.Errorf("constraints: they have %d actions, more than %d", r.count, core.MaxRunActions)
	case r.bytes > maxActionBytes:
		return fmt.Errorf("constraints: the configurations of their actions have %d bytes, more than %d", r.bytes, maxActionBytes)
	}
	if n := len(sorted(r.reach).Locks); n > core.MaxRunLocks {
		return fmt.Errorf("constraints: they take %d locks, more than %d", n, core.MaxRunLocks)
	}
	return r.names()
}

// constraint reads one entry: {"<type>": {…}}.
func (r *reading) constraint(i int, e map[string]json.RawMessage) error {
	at := "constraints[" + strconv.Itoa(i) + "]"
	if len(e) != 1 {
		return fmt.Errorf("%s: want one constraint, {\"<type>\": {…}}, got %d fields", at, len(e))
	}
	typ := slices.Collect(maps.Keys(e))[0]
	at += "." + clip.Text(typ, maxQuoted)
	kind, ok := r.types[typ]
	if !ok && !r.lenient {
		return fmt.Errorf("%s: there is no such constraint: %s", at, oneOf(slices.Sorted(maps.Keys(r.types))))
	}
	var in entry
	if raw := e[typ]; !isNull(raw) {
		if err := strictjson.DecodeAt(at, raw, &in); err != nil {
			return err
		}
	}
	c := planned{name: in.Name, typ: typ, onError: in.OnError, advisory: strictjson.Or(in.Advisory, kind.Advisory)}
	if err := errors.Join(checkName(at+".name", in.Name, maxName), checkPolicy(at+".onError", in.OnError)); err != nil {
		return err
	}
	var err error
	spec := Spec{Job: r.job, Name: in.Name, Path: at, Config: object(in.Config), parsed: r.plan}
	if spec.Violated, err = r.list(at+".onViolation", in.OnViolation); err != nil {
		return err
	}
	if spec.Met, err = r.list(at+".onMet", in.OnMet); err != nil {
		return err
	}
	if !ok {
		return nil
	}
	if c.phases, err = kind.phase(at+".phase", in.Phase); err != nil {
		return err
	}
	if c.c, err = kind.New(spec); err != nil {
		return err
	}
	r.constraints = append(r.constraints, c)
	return nil
}

// phase says in which phases a constraint is checked.
func (t Type) phase(at, want string) ([]effects.CheckPhase, error) {
	may := t.Phases
	if len(may) == 0 {
		may = []effects.CheckPhase{effects.CheckPre, effects.CheckPost}
	}
	either := slices.Contains(may, effects.CheckPre) && slices.Contains(may, effects.CheckPost)
	switch i := slices.Index(may, effects.CheckPhase(want)); {
	case want != "" && t.Always:
		return nil, fmt.Errorf("%s: %q: this constraint has no choice of its phase: leave it out", at, clip.Text(want, maxQuoted))
	case t.Always, want == "both" && either:
		return may, nil
	case want == "":
		return may[:1], nil
	case i >= 0:
		return may[i : i+1], nil
	case either:
		return nil, fmt.Errorf("%s: %q is unknown: use \"pre\", \"post\" or \"both\"", at, clip.Text(want, maxQuoted))
	}
	return nil, fmt.Errorf("%s: %q: this constraint is checked in phase %q alone", at, clip.Text(want, maxQuoted), may[0])
}

// names gives each constraint a name: its own, its type, or its type with a number.
func (r *reading) names() error {
	taken := map[string]bool{}
	for i, c := range r.constraints {
		if c.name != "" && taken[c.name] {
			return fmt.Errorf("constraints[%d].%s.name: there are two constraints %q", i, clip.Text(c.typ, maxQuoted), clip.Text(c.name, maxQuoted))
		}
		taken[c.name] = c.name != ""
	}
	for i := range r.constraints {
		c := &r.constraints[i]
		for n := 1; c.name == ""; n++ {
			name := c.typ
			if n > 1 {
				name += "-" + strconv.Itoa(n)
			}
			if !taken[name] {
				c.name, taken[name] = name, true
			}
		}
	}
	return nil
}

// actionDoc is an action_config: the named actions, by their names.
type actionDoc struct {
	Actions map[string]map[string]json.RawMessage `json:"actions"`
}

// namedActions reads the named actions. The error tells of each that is wrong.
func (r *reading) namedActions(actions map[string]map[string]json.RawMessage) error {
	errs := make([]error, 0, len(actions))
	for _, name := range slices.Sorted(maps.Keys(actions)) {
		errs = append(errs, r.namedAction(name, actions[name]))
	}
	return errors.Join(errs...)
}

func (r *reading) namedAction(name string, o map[string]json.RawMessage) (err error) {
	at := "actions." + clip.Text(name, maxQuoted)
	switch _, own := r.actions[name]; {
	case name == "" || name == continueOnError:
		return fmt.Errorf("%s: %q is no name for an action", at, name)
	case own || builtinAction(name):
		return fmt.Errorf("%s: it has the name of a type of actions: give it another one", at)
	}
	if err := checkName(at, name, maxName); err != nil {
		return err
	}
	r.named[name], err = r.object(at, o, false) // also where it is wrong: who refers to it is right
	return err
}

// continueOnError may stand beside the type of an action.
const continueOnError = "continueOnError"

// list reads onViolation or onMet.
func (r *reading) list(at string, entries []json.RawMessage) ([]core.ActionRequest, error) {
	if len(entries) > core.MaxRunActions {
		return nil, fmt.Errorf("%s: %d actions are more than %d", at, len(entries), core.MaxRunActions)
	}
	var list []core.ActionRequest
	for i, raw := range entries {
		a, err := r.action(at+"["+strconv.Itoa(i)+"]", raw)
		if err != nil {
			return nil, err
		}
		r.count++
		r.bytes += expandedBytes(a.Config)
		list = append(list, a)
	}
	return list, nil
}

// action reads an entry of such a list: the name of an action, or {"<type>": {…}}.
func (r *reading) action(at string, raw json.RawMessage) (core.ActionRequest, error) {
	var name string
	if json.Unmarshal(raw, &name) == nil && !isNull(raw) {
		if a, ok := r.named[name]; ok {
			return a, nil
		}
		return r.typed(at, name, nil)
	}
	var o map[string]json.RawMessage
	if err := strictjson.DecodeAt(at, raw, &o); err != nil || o == nil {
		return core.ActionRequest{}, fmt.Errorf("%s: want the name of an action, or {\"<type>\": {…}}, got %s", at, clip.Text(string(raw), maxQuoted))
	}
	return r.object(at, o, true)
}

// object reads {"<type>": {…}, "continueOnError": true}; refer: a named action may be the type.
func (r *reading) object(at string, o map[string]json.RawMessage, refer bool) (core.ActionRequest, error) {
	var goOn bool
	raw, given := o[continueOnError]
	if given {
		if err := strictjson.DecodeAt(at+"."+continueOnError, raw, &goOn); err != nil {
			return core.ActionRequest{}, err
		}
	}
	types := slices.DeleteFunc(slices.Sorted(maps.Keys(o)), func(k string) bool { return k == continueOnError })
	if len(types) != 1 {
		return core.ActionRequest{}, fmt.Errorf("%s: want one action, {\"<type>\": {…}}, got %d", at, len(types))
	}
	typ := types[0]
	a, named := r.named[typ]
	var err error
	switch {
	case named && refer && !isNull(o[typ]) && string(o[typ]) != "{}":
		return core.ActionRequest{}, fmt.Errorf("%s.%s: it is the name of an action, which takes no configuration here", at, clip.Text(typ, maxQuoted))
	case named && refer:
	default:
		a, err = r.typed(at, typ, o[typ])
	}
	if given {
		a.ContinueOnError = goOn
	}
	return a, err
}

// typed checks an action of a type.
func (r *reading) typed(at, typ string, raw json.RawMessage) (core.ActionRequest, error) {
	raw = object(raw)
	at += "." + clip.Text(typ, maxQuoted)
	var err error
	make, own := r.actions[typ]
	switch {
	case builtinAction(typ):
		err = r.builtin(at, typ, raw)
	case own:
		if err = strictjson.DecodeAt(at, raw, new(map[string]json.RawMessage)); err == nil {
			_, err = make(at, raw)
		}
	case !r.lenient:
		known := append(slices.Collect(maps.Keys(r.actions)), builtinActions...)
		slices.Sort(known)
		err = fmt.Errorf("%s: there is no such action: %s, or the name of one in action_config", at, oneOf(known))
	}
	if string(raw) == "{}" {
		raw = nil
	}
	return core.ActionRequest{Type: typ, Config: raw}, err
}

// object gives the configuration that was left out.
func object(raw json.RawMessage) json.RawMessage {
	if isNull(raw) {
		return json.RawMessage("{}")
	}
	return raw
}

func isNull(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

func checkName(at, name string, most int) error {
	switch {
	case len(name) > most:
		return fmt.Errorf("%s: %d bytes is longer than %d", at, len(name), most)
	case strings.ContainsFunc(name, func(r rune) bool { return r < 0x20 || r == 0x7f }):
		return fmt.Errorf("%s: %q has a control character", at, clip.Text(name, maxQuoted))
	}
	return nil
}

const maxName = 128

func checkPolicy(at string, p core.ErrorPolicy) error {
	if p != "" && p != core.FailClosed && p != core.FailOpen {
		return fmt.Errorf("%s: %q is unknown: use %q or %q", at, clip.Text(string(p), maxQuoted), core.FailClosed, core.FailOpen)
	}
	return nil
}

func oneOf(names []string) string {
	if len(names) == 0 {
		return "none is configured"
	}
	return "use one of " + strings.Join(names, ", ")
}

// maxQuoted is how much of a value is quoted in an error.
const maxQuoted = 96
