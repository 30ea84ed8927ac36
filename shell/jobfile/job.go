package jobfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/core/schedule"
	"github.com/orrery-go/orrery/shell/internal/clip"
	"github.com/orrery-go/orrery/shell/internal/fileerr"
)

// job reads a document. What cannot be read is noted, and left out.
func (f *file) job(doc *yaml.Node) core.JobSpec {
	var s core.JobSpec
	if doc.Kind != yaml.MappingNode {
		f.say(doc, "", "it is %s: want a mapping with id, schedule and podSpec", kindOf(doc))
		return s
	}
	m, noted := &mapping{f: f, n: doc}, len(f.errs)
	if m.manifest() {
		return s
	}
	s.ID, s.Name = m.text("id"), m.text("name")
	s.Namespace, s.Tenant = m.text("namespace"), m.text("tenant")
	s.Schedule, s.Timezone = m.text("schedule"), m.text("timezone")
	s.Runner, s.Labels = m.text("runner"), m.texts("labels")
	s.PodSpec = m.podSpec()
	s.ConstraintConfig = m.wrapped("constraints", yaml.SequenceNode, "a list such as - maxAllowedRunTime: {config: {limit: 10m}, onViolation: [fail]}")
	s.ActionConfig = m.wrapped("actions", yaml.MappingNode, "a mapping of names to actions such as tell: {notify: {message: late}}")
	if r := m.inner("retry"); r != nil {
		s.RetryConfig = core.RetryConfig{
			MaxRetries:        uint32(r.number("maxRetries", core.MaxRetries)),
			InitialDelayMS:    r.duration("initialDelay", time.Millisecond, core.MaxTimeout).Milliseconds(),
			BackoffMultiplier: r.multiplier("backoffMultiplier"),
			MaxDelayMS:        r.duration("maxDelay", time.Millisecond, core.MaxTimeout).Milliseconds(),
		}
		r.done()
	}
	s.Overlap = core.OverlapPolicy(m.oneOf("overlap", string(core.OverlapAllow), string(core.OverlapSkip), string(core.OverlapBufferOne), string(core.OverlapBufferAll),
		string(core.OverlapCancelOther), string(core.OverlapTerminateOther), string(core.OverlapForbid), string(core.OverlapReplace)))
	m.policies(&s.ScheduleOptions)
	s.DST = schedule.DST(m.oneOf("dst", string(schedule.DSTOnceShifted), string(schedule.DSTSkip), string(schedule.DSTTwice)))
	s.DayMatch = schedule.DayMatch(m.oneOf("dayMatch", string(schedule.DayMatchEither), string(schedule.DayMatchBoth)))
	s.StartsAt, s.EndsAt = m.time("startsAt"), m.time("endsAt")
	s.MaxExecutions = m.number("maxExecutions", core.MaxMaxExecutions)
	s.JitterSeconds = int64(m.duration("jitter", time.Second, core.MaxJitterSeconds*time.Second) / time.Second)
	s.StartDeadlineSeconds = int64(m.duration("startDeadline", time.Second, core.MaxStartDeadline) / time.Second)
	s.MaxConcurrentRuns = uint32(m.number("maxConcurrentRuns", core.MaxActiveRuns))
	s.OrphanPolicy = core.OrphanPolicy(m.oneOf("orphanPolicy", string(core.OrphanDelete), string(core.OrphanAdopt)))
	s.PodStartTimeoutMS = m.duration("podStartTimeout", time.Millisecond, core.MaxTimeout).Milliseconds()
	s.TTLSecondsAfterFinished = int64(m.number("ttlSecondsAfterFinished", core.MaxTTLSecondsAfterFinished))
	s.CreateAheadMS = m.duration("createAhead", time.Millisecond, core.MaxCreateAheadMS*time.Millisecond).Milliseconds()
	s.ConstraintErrors = core.ErrorPolicy(m.oneOf("constraintErrors", string(core.FailClosed), string(core.FailOpen)))
	if l := m.inner("logs"); l != nil {
		s.Logs = core.LogPolicy{Discard: l.boolean("discard"), HeadBytes: l.size("head"), TailBytes: l.size("tail")}
		l.done()
	}
	m.done()
	checked := s
	if checked.PodSpec == nil { // it was said why
		checked.PodSpec = json.RawMessage("{}")
	}
	f.add(noted, doc, checked.Validate())
	return s
}

// policies reads what a schedule may say about calendars, missed times and waiting.
func (m *mapping) policies(o *core.ScheduleOptions) {
	seconds := func(key string, most int64) int64 {
		return int64(m.duration(key, time.Second, time.Duration(most)*time.Second) / time.Second)
	}
	o.Calendars = m.list("calendars")
	o.Missed = core.MissedPolicy(m.oneOf("missed", string(core.MissedSkip), string(core.MissedLatest), string(core.MissedAll)))
	o.CatchUpSeconds = seconds("catchUp", core.MaxCatchUpSeconds)
	o.CatchUpLimit = uint32(m.number("catchUpLimit", core.MaxCatchUpLimit))
	o.CatchUpSpacingSeconds = seconds("catchUpSpacing", core.MaxSpacingSeconds)
	o.BufferLimit = uint32(m.number("bufferLimit", core.MaxBufferLimit))
	o.MaxWaitSeconds = seconds("maxWait", core.MaxWaitSeconds)
	o.Alerts = m.alerts()
}

// alerts reads the rules for alerts, whose words and values are those of the command line.
func (m *mapping) alerts() (r core.AlertRules) {
	in := m.inner("alerts")
	if in == nil {
		return r
	}
	for _, word := range core.AlertWords() {
		n := in.get(word)
		if n == nil {
			continue
		}
		if n.Kind != yaml.ScalarNode {
			in.say(word, n, "it is %s: want a text, a number, true or false", kindOf(n))
		} else if err := r.Set(word, n.Value); err != nil {
			in.say(word, n, "%s", err)
		}
	}
	in.done()
	return r
}

// manifest notes that a document is one for Kubernetes, not for us.
func (m *mapping) manifest() bool {
	k := m.find("kind")
	if k == nil || m.find("apiVersion") == nil {
		return false
	}
	m.f.say(m.n, "", "it is a Kubernetes manifest (%s): a job file has id, schedule and podSpec; the pod's spec goes under podSpec", clip.Text(k.Value, maxQuoted))
	return true
}

// podSpec reads podSpec, or the file that podSpecFile names, as JSON.
func (m *mapping) podSpec() json.RawMessage {
	in, named := m.get("podSpec"), m.get("podSpecFile")
	f, field, n := m.f, "podSpec", in
	switch {
	case in != nil && named != nil:
		m.say("podSpecFile", named, "give either podSpec or podSpecFile, not both")
		return nil
	case named != nil:
		if f, n = m.podSpecFile(named); n == nil {
			return nil
		}
		field = ""
	case in == nil:
		m.say("podSpec", m.n, "missing: say what runs, as in podSpec: {containers: [{name: main, image: busybox, command: [date]}]}")
		return nil
	}
	if n.Kind == yaml.ScalarNode && n.Tag == "!!str" && field != "" { // 004: the spec as a text
		text := n.Value
		inner := &file{name: f.name, o: f.o}
		docs := inner.documents([]byte(text))
		if len(docs) != 1 || len(inner.errs) > 0 {
			m.say("podSpec", n, "the text is no YAML with a pod spec")
			return nil
		}
		n = docs[0]
		place(n, in) // lines within a text are not those of the file
	}
	if n.Kind != yaml.MappingNode {
		m.say("podSpec", n, "it is %s: want a mapping with containers", kindOf(n))
		return nil
	}
	b, ok := f.json(n, field)
	if ok {
		canonical, err := f.o.ParsePodSpec(b)
		if err == nil {
			return canonical
		}
		f.relay(n, field, err)
	}
	if f != m.f {
		m.f.errs = append(m.f.errs, f.errs...)
	}
	return nil
}

// place gives all nodes of a tree the place of at.
func place(n, at *yaml.Node) {
	n.Line, n.Column = at.Line, at.Column
	for _, c := range n.Content {
		place(c, at)
	}
}

// podSpecFile reads the file that podSpecFile names.
func (m *mapping) podSpecFile(named *yaml.Node) (*file, *yaml.Node) {
	name := m.text("podSpecFile")
	switch {
	case name == "":
		return nil, nil
	case m.f.o.ReadFile == nil:
		m.say("podSpecFile", named, "no other file can be read from here: give podSpec")
		return nil, nil
	}
	data, err := m.f.o.ReadFile(name)
	if err != nil {
		m.say("podSpecFile", named, "%s", err)
		return nil, nil
	}
	f := &file{name: name, o: m.f.o}
	docs := f.documents(data)
	switch {
	case len(f.errs) > 0:
		m.f.errs = append(m.f.errs, f.errs...)
		return nil, nil
	case len(docs) != 1:
		m.say("podSpecFile", named, "%s has %d documents: want one, a pod spec", clip.Text(name, maxQuoted), len(docs))
		return nil, nil
	}
	return f, docs[0]
}

// wrapped reads a value of one kind as the only member of a JSON object.
func (m *mapping) wrapped(key string, kind yaml.Kind, want string) json.RawMessage {
	n := m.get(key)
	switch {
	case n == nil:
		return nil
	case n.Kind != kind:
		m.say(key, n, "it is %s: want %s", kindOf(n), want)
		return nil
	case len(n.Content) == 0:
		return nil
	}
	b, ok := m.f.json(n, key)
	if !ok {
		return nil
	}
	return json.RawMessage(fmt.Sprintf(`{%q:%s}`, key, b))
}

// specFields are the fields of the spec by the keys of a file.
var specFields = strings.NewReplacer(
	"pod_spec", "podSpec", "constraint_config.constraints", "constraints", "constraint_config", "constraints",
	"action_config.actions", "actions", "action_config", "actions",
	"retry_config.max_retries", "retry.maxRetries", "retry_config.initial_delay_ms", "retry.initialDelay",
	"retry_config.backoff_multiplier", "retry.backoffMultiplier", "retry_config.max_delay_ms", "retry.maxDelay", "retry_config", "retry",
	"day_match", "dayMatch", "starts_at", "startsAt", "ends_at", "endsAt", "max_executions", "maxExecutions", "jitter_seconds", "jitter",
	"catch_up_spacing_seconds", "catchUpSpacing", "catch_up_limit", "catchUpLimit", "catch_up_seconds", "catchUp", "buffer_limit", "bufferLimit", "max_wait_seconds", "maxWait",
	"alerts.late_seconds", "alerts.late", "alerts.stale_seconds", "alerts.stale", "alerts.slow_seconds", "alerts.slow", "alerts.slow_factor", "alerts.slow",
	"start_deadline_seconds", "startDeadline", "max_concurrent_runs", "maxConcurrentRuns", "orphan_policy", "orphanPolicy",
	"pod_start_timeout_ms", "podStartTimeout", "create_ahead_ms", "createAhead", "ttl_seconds_after_finished", "ttlSecondsAfterFinished", "constraint_errors", "constraintErrors",
)

// specNames are the fields that problems speak of; a value in quotes is left alone.
var specNames = regexp.MustCompile(`( )(retry|constraint|action)_config\b`)

// inProblem names the fields that a problem speaks of as a job file has them.
func inProblem(text string) string {
	return specNames.ReplaceAllStringFunc(text, specFields.Replace)
}

// InFile writes the fields with which the problems of an error text begin, which are
// those of the API, as a job file has them: pod_spec as podSpec. Each problem is a line, or
// is parted from the one before by "; ", as the API has it.
func InFile(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		problems := strings.Split(line, "; ")
		for j, p := range problems {
			if path, problem, ok := strings.Cut(p, ": "); ok && !strings.Contains(path, " ") {
				problems[j] = specFields.Replace(path) + ": " + inProblem(problem)
			}
		}
		lines[i] = strings.Join(problems, "; ")
	}
	return strings.Join(lines, "\n")
}

// relay notes what somebody else says of a part of the file; n is that part, and
// field what it is called. The places are found by the fields that the errors name.
func (f *file) relay(n *yaml.Node, field string, err error) {
	if err == nil {
		return
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			f.relay(n, field, e)
		}
		return
	}
	for text := range strings.SplitSeq(err.Error(), "\n") {
		path, problem, ok := strings.Cut(text, ": ")
		if field == "" {
			path = specFields.Replace(path)
		} else {
			path = strings.TrimPrefix(strings.TrimPrefix(path, "pod_spec."), "spec.")
		}
		at, found := locate(n, path)
		switch {
		case strings.TrimSpace(text) == "":
		case !ok || !found && strings.ContainsAny(path, " "): // it names no field
			f.say(n, field, "%s", inProblem(text))
		default:
			f.say(at, strings.Trim(field+"."+path, "."), "%s", inProblem(problem))
		}
	}
}

// Explain says where a document of a file, the n-th from 0 of those that are jobs, has what a text speaks of: a line for each
// problem, with the field of the spec first. The file is one that [Parse] has read.
func Explain(name string, data []byte, n int, text string) Errors {
	f := &file{name: name}
	docs := f.documents(data)
	if f.errs = nil; n >= len(docs) {
		return Errors{{File: name, Line: 1, Column: 1, Problem: text}}
	}
	f.relay(docs[n], "", errors.New(text))
	return f.errs
}

// add relays what is said of a job, but for what is noted of the same fields since
// noted: a value that cannot be read was left out, and would be said to be missing.
func (f *file) add(noted int, doc *yaml.Node, err error) {
	more := &file{name: f.name}
	more.relay(doc, "", err)
	for i, e := range more.errs {
		before := append(f.errs[noted:len(f.errs):len(f.errs)], more.errs[:i]...)
		if !slices.ContainsFunc(before, func(b Error) bool { return fileerr.Within(e.Field, b.Field) || fileerr.Within(b.Field, e.Field) }) {
			f.say(&yaml.Node{Line: e.Line, Column: e.Column}, e.Field, "%s", e.Problem)
		}
	}
}

// locate finds the value that a path such as containers[0].image names, or the
// deepest one on the way. found: the path begins with a key that is there.
func locate(n *yaml.Node, path string) (at *yaml.Node, found bool) {
	for path != "" {
		path = strings.TrimPrefix(path, ".")
		next, rest := (*yaml.Node)(nil), ""
		switch n.Kind {
		case yaml.MappingNode:
			next, rest = longestKey(n, path)
		case yaml.SequenceNode:
			var i int
			if inner, after, ok := strings.Cut(strings.TrimPrefix(path, "["), "]"); ok && path[0] == '[' {
				if _, err := fmt.Sscanf(inner, "%d", &i); err == nil && i >= 0 && i < len(n.Content) {
					next, rest = n.Content[i], after
				}
			}
		case yaml.ScalarNode, yaml.AliasNode, yaml.DocumentNode:
		}
		if next == nil {
			return n, found
		}
		n, path, found = next, rest, true
	}
	return n, found
}

// longestKey finds the value whose key begins the path: keys may have dots.
func longestKey(n *yaml.Node, path string) (value *yaml.Node, rest string) {
	most := -1
	for i := 0; i+1 < len(n.Content); i += 2 {
		k := n.Content[i].Value
		after, ok := strings.CutPrefix(path, k)
		if ok && len(k) > most && k != "" && (after == "" || after[0] == '.' || after[0] == '[') {
			most, rest = len(k), after
			if value = n.Content[i+1]; value.Kind != yaml.ScalarNode {
				value = &yaml.Node{Kind: value.Kind, Tag: value.Tag, Content: value.Content, Line: n.Content[i].Line, Column: n.Content[i].Column}
			}
		}
	}
	return value, rest
}
