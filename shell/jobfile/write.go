package jobfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"go.yaml.in/yaml/v3"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/core/schedule"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/internal/spans"
)

// Marshal writes a job file that gives the same job. Defaults are left out.
func Marshal(s core.JobSpec) ([]byte, error) {
	w := &writer{}
	w.text("id", s.ID)
	w.text("name", s.Name)
	if s.Namespace != "" || s.Tenant != "" {
		w.text("namespace", s.Namespace)
		w.text("tenant", s.Tenant)
	}
	w.text("schedule", s.Schedule)
	if s.Timezone != "UTC" {
		w.text("timezone", s.Timezone)
	}
	w.text("runner", s.Runner)
	if len(s.Labels) > 0 {
		in := &writer{}
		for _, k := range slices.Sorted(maps.Keys(s.Labels)) {
			in.put(k, textNode(s.Labels[k]))
		}
		w.put("labels", in.node())
	}
	w.raw("podSpec", s.PodSpec, "")
	w.retry(s.RetryConfig)
	w.raw("constraints", s.ConstraintConfig, "constraints")
	w.raw("actions", s.ActionConfig, "actions")
	w.other("overlap", string(s.Overlap), string(core.OverlapAllow))
	w.policies(s.ScheduleOptions)
	w.other("dst", string(s.DST), string(schedule.DSTOnceShifted))
	w.other("dayMatch", string(s.DayMatch), string(schedule.DayMatchEither))
	w.time("startsAt", s.StartsAt)
	w.time("endsAt", s.EndsAt)
	w.number("maxExecutions", int64(s.MaxExecutions))
	w.duration("jitter", time.Duration(s.JitterSeconds)*time.Second, 0)
	w.duration("startDeadline", time.Duration(s.StartDeadlineSeconds)*time.Second, 0)
	w.number("maxConcurrentRuns", int64(s.MaxConcurrentRuns))
	w.other("orphanPolicy", string(s.OrphanPolicy), string(core.OrphanDelete))
	w.duration("podStartTimeout", time.Duration(s.PodStartTimeoutMS)*time.Millisecond, core.DefaultPodStartTimeoutMS*time.Millisecond)
	w.duration("createAhead", time.Duration(s.CreateAheadMS)*time.Millisecond, core.DefaultCreateAheadMS*time.Millisecond)
	w.number("ttlSecondsAfterFinished", s.TTLSecondsAfterFinished)
	w.other("constraintErrors", string(s.ConstraintErrors), string(core.FailClosed))
	if l := s.Logs; l != (core.LogPolicy{}) {
		in := &writer{}
		if l.Discard {
			in.put("discard", &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: "true"})
		}
		in.size("head", l.HeadBytes)
		in.size("tail", l.TailBytes)
		w.put("logs", in.node())
	}
	if w.err != nil {
		return nil, w.err
	}
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := errors.Join(e.Encode(w.node()), e.Close()); err != nil {
		return nil, fmt.Errorf("write job %q: %w", s.ID, err)
	}
	return b.Bytes(), nil
}

// policies writes what the schedule says about calendars, missed times and waiting.
func (w *writer) policies(o core.ScheduleOptions) {
	w.list("calendars", o.Calendars)
	w.other("missed", string(o.Missed), string(core.MissedSkip))
	w.duration("catchUp", time.Duration(o.CatchUpSeconds)*time.Second, 0)
	w.number("catchUpLimit", int64(o.CatchUpLimit))
	w.duration("catchUpSpacing", time.Duration(o.CatchUpSpacingSeconds)*time.Second, 0)
	w.number("bufferLimit", int64(o.BufferLimit))
	w.duration("maxWait", time.Duration(o.MaxWaitSeconds)*time.Second, 0)
	in := &writer{}
	for _, rule := range o.Alerts.Words() {
		word, value, _ := strings.Cut(rule, "=")
		in.put(word, alertNode(value))
	}
	if len(in.content) > 0 {
		w.put("alerts", in.node())
	}
}

// alertNode is the value of a rule for alerts.
func alertNode(value string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: value}
	if _, err := strconv.ParseUint(value, 10, 32); err == nil {
		n.Tag = "!!int"
	} else if value == "true" {
		n.Tag = "!!bool"
	}
	return n
}

// writer collects the keys of a mapping.
type writer struct {
	content []*yaml.Node
	err     error
}

func (w *writer) node() *yaml.Node {
	return &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Content: w.content}
}

func (w *writer) put(key string, n *yaml.Node) { w.content = append(w.content, textNode(key), n) }

func (w *writer) text(key, v string) {
	if v != "" {
		w.put(key, textNode(v))
	}
}

func (w *writer) list(key string, texts []string) {
	if len(texts) == 0 {
		return
	}
	n := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
	for _, v := range texts {
		n.Content = append(n.Content, textNode(v))
	}
	w.put(key, n)
}

// other writes a word that is not the default.
func (w *writer) other(key, v, byDefault string) {
	if v != byDefault {
		w.text(key, v)
	}
}

func (w *writer) duration(key string, v, byDefault time.Duration) {
	if v != 0 && v != byDefault {
		w.put(key, textNode(spans.Text(v)))
	}
}

func (w *writer) number(key string, v int64) {
	if v != 0 {
		w.put(key, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!int", Value: strconv.FormatInt(v, 10)})
	}
}

func (w *writer) time(key string, v effects.Time) {
	if !v.IsZero() {
		w.text(key, v.String())
	}
}

func (w *writer) size(key string, v int64) {
	for _, u := range sizes {
		if v != 0 && strings.HasSuffix(u.suffix, "i") && v%u.bytes == 0 {
			w.put(key, textNode(strconv.FormatInt(v/u.bytes, 10)+u.suffix))
			return
		}
	}
	w.number(key, v)
}

func (w *writer) retry(r core.RetryConfig) {
	in := &writer{}
	in.number("maxRetries", int64(r.MaxRetries))
	in.duration("initialDelay", time.Duration(r.InitialDelayMS)*time.Millisecond, 0)
	if m := r.BackoffMultiplier; m != 0 && m.String() != "2" {
		in.put("backoffMultiplier", &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!float", Value: m.String()})
	}
	in.duration("maxDelay", time.Duration(r.MaxDelayMS)*time.Millisecond, core.DefaultRetryMaxDelayMS*time.Millisecond)
	if len(in.content) > 0 {
		w.put("retry", in.node())
	}
}

// raw writes JSON; member: what of an object is written, and alone in it.
func (w *writer) raw(key string, v json.RawMessage, member string) {
	if len(v) == 0 || w.err != nil {
		return
	}
	if !json.Valid(v) {
		w.err = fmt.Errorf("write %s: it is no JSON", key)
		return
	}
	n := jsonTree(v)
	if member != "" {
		if len(n.Content) != 2 || n.Content[0].Value != member {
			w.err = fmt.Errorf("write %s: want an object with %q alone: a job file cannot say this", key, member)
			return
		}
		n = n.Content[1]
	}
	restyle(n)
	w.put(key, n)
}

// restyle lets texts look as a person would write them.
func restyle(n *yaml.Node) {
	if n.Kind == yaml.ScalarNode && n.Tag == "!!str" {
		n.Style = textStyle(n.Value)
	}
	if n.Kind != yaml.ScalarNode && len(n.Content) == 0 {
		n.Style = yaml.FlowStyle
	}
	for _, c := range n.Content {
		restyle(c)
	}
}

func textNode(v string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: v, Style: textStyle(v)}
}

// textStyle is plain for a text that no reader of YAML misreads, whatever words it knows.
func textStyle(v string) yaml.Style {
	switch strings.ToLower(v) {
	case "y", "n", "yes", "no", "on", "off", "true", "false", "null", "~", "", "<<", "=":
		return yaml.DoubleQuotedStyle
	}
	lines := strings.Split(v, "\n")
	plain := true
	for i, l := range lines {
		last := i == len(lines)-1
		if l != strings.TrimRightFunc(l, unicode.IsSpace) || l == "" && !last || strings.HasPrefix(l, "#") {
			plain = false
		}
	}
	if strings.ContainsFunc(v, func(r rune) bool { return r != '\n' && (!unicode.IsPrint(r) || r > 0xFFFF) }) || !plain {
		return yaml.DoubleQuotedStyle
	}
	switch {
	case len(lines) == 1:
		return 0 // the library quotes what needs it
	case unicode.IsSpace([]rune(v)[0]):
		return yaml.DoubleQuotedStyle
	}
	return yaml.LiteralStyle
}
