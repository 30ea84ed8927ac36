package notify

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/effects/texts"
)

// Notice is what a template says of an event: what happened, when, why, what it printed, and
// which commands show and act. Any event has one, also of kinds that this package does not know.
type Notice struct {
	ID   string    // of the event
	Kind string    // "action:failed"
	At   time.Time // UTC
	// What is a sentence without a full stop: Action "nightly" failed.
	What string
	// Why is the error, the reason or the message, or empty.
	Why string
	// Output is the end of what it printed, or empty.
	Output string
	// Name is what it is called, or its id.
	Name              string
	Namespace, Tenant string // empty where the event does not say
	// Resolved says that something that was wrong is right again.
	Resolved bool
	// Count is how many things the event speaks of, 1 if it does not say; Names are some of them.
	Count int
	Names []string
	// Facts are the further members of the event's data, in a fixed order.
	Facts    []Fact
	Commands []Hint

	members map[string]json.RawMessage
}

// Fact is a member of an event's data.
type Fact struct{ Name, Value string }

// Data gives a member of the event's data as a text, empty if there is none of that name.
// Templates say {{.Data "phase"}}.
func (n Notice) Data(name string) string { return member(n.members, name) }

// Scope is "namespace/tenant", or empty where the event does not say whose it is.
func (n Notice) Scope() string {
	if n.Namespace == "" && n.Tenant == "" {
		return ""
	}
	return n.Namespace + "/" + n.Tenant
}

// Bounds of what a notice holds.
const (
	maxWhy     = 2000 // bytes of Why
	maxOutput  = 2000 // bytes of Output, from its end
	maxFact    = 300  // bytes of the value of a fact
	maxFacts   = 12
	maxNames   = 10
	maxName    = 120
	maxMention = 300 // bytes of what is said in one line
)

// nouns are what the machines are called, by the category of what they announce.
var nouns = map[string]string{
	"action": "Action", "recurring": "Recurring action", "pipeline": "Pipeline", "task": "Task", "strategy": "Strategy", "queue": "Queue",
	"worker": "Worker", "lock": "Lock", "semaphore": "Semaphore", "job": "Job", "run": "Run", "orchestrator": "Run",
}

// verbs say what happened where the action's name does not read as a verb.
var verbs = map[string]string{
	"action:retry": "failed and is tried again", "pipeline:retry": "is tried again", "pipeline:complete": "is complete", "pipeline:approval": "waits for an approval",
	"pipeline:blocked": "waits for other pipelines", "pipeline:phase": "has entered a phase", "pipeline:refused": "was not made", "pipeline:signal": "got a signal",
	"pipeline:checkpoint": "has come to a checkpoint", "task:stuck": "is stuck", "task:restarting": "is being restarted", "task:complete": "is complete",
	"task:input_lost": "has lost its input", "strategy:exhausted": "has no approach left", "strategy:fallback": "tries another approach", "strategy:success": "succeeded",
	"queue:dead": "has given up an item", "queue:fail": "has an item that failed", "job:run_refused": "could not start a run", "job:missed": "has missed its time",
	"recurring:missed": "has missed its time", "recurring:no_next": "has no next time", "recurring:wait_expired": "has waited for its turn too long",
	"run:orphaned": "is orphaned, nothing is heard of it", "run:constraint_violated": "violates a constraint", "run:constraint_error": "has a constraint that could not be checked",
	"run:cleanup_abandoned": "was not cleaned up", "run:cleanup_failed": "could not be cleaned up yet", "run:action_refused": "has an action that was refused",
	"action:refused": "was not made", "task:refused": "was not made", "strategy:refused": "was not made", "run:refused": "was not made",
}

// passive are the actions that somebody else does to a machine.
var passive = []string{
	"acquired", "broken", "cancelled", "configured", "created", "deleted", "dispatched", "paused", "released", "resumed", "skipped", "triggered", "updated",
}

// alerts say what is wrong, by the kind of an alert.
var alerts = map[string]string{
	"late": " is late", "missed": " has missed its time", "stale": " has not succeeded for too long", "failing": " keeps failing", "slow": " is slow",
}

// spokenMembers are the members that a notice has fields for, or that say no more than those.
var spokenMembers = []string{"namespace", "tenant", "label", "name", "job_id", "error", "reason", "message", "output", "names", "show", "approve", "commands"}

// spokenOf are such members of what is announced in one category.
var spokenOf = map[string][]string{"alert": {"kind", "of", "schedule", "since", "count", "kinds", "alerts", "channel", "over", "tenants", "others", "cleared"}, "pipeline": {"phase", "pipeline_id"}}

// NoticeOf gives the notice of an event. What says more of it than the event has, such as the
// label, the error and the output of an action that failed, stands in the event's data, as
// [shell.Engine.Subscribe] adds it.
func NoticeOf(ev effects.Event, commands ...Hint) Notice {
	var members map[string]json.RawMessage
	if json.Unmarshal(ev.Data, &members) != nil {
		members = nil // no object
	}
	n := Notice{
		ID: ev.ID.String(), Kind: ev.Kind.String(), At: ev.Timestamp.Std().UTC(),
		Namespace: line(member(members, "namespace")), Tenant: line(member(members, "tenant")),
		Why:    texts.Bound(firstOf(members, "error", "reason", "message"), maxWhy),
		Output: tail(member(members, "output")), Commands: slices.Clone(commands), members: members, Count: 1,
	}
	if c, err := strconv.Atoi(member(members, "count")); err == nil && c > 0 {
		n.Count = c
	}
	n.Names = names(members["names"])
	name, spoken := naming(ev.Kind.Category, members)
	n.Name = cmp.Or(name, identity(ev.Source.ID))
	n.say(ev)
	n.Facts = facts(members, spoken)
	n.countRuns(ev)
	return n
}

// naming gives what people call what an event is about, empty if the event does not say, and the members that are
// spoken of. A pipeline without a label is called as its definition is: its id, which tells it from others of that,
// is a fact then.
func naming(category string, members map[string]json.RawMessage) (name string, spoken []string) {
	if name = line(firstOf(members, "label", "name", "job_id")); name == "" && category == "pipeline" {
		if name = line(member(members, "pipeline")); name != "" {
			return name, slices.Concat(spokenMembers, []string{"phase", "pipeline"})
		}
	}
	return name, slices.Concat(spokenMembers, spokenOf[category])
}

// countRuns counts the attempts of a run from one, as those of all else: its events say how often it was tried again.
func (n *Notice) countRuns(ev effects.Event) {
	i := slices.IndexFunc(n.Facts, func(f Fact) bool { return f.Name == "attempt" })
	if ev.Kind.Category != "run" || i < 0 {
		return
	}
	if again, err := strconv.ParseUint(n.Facts[i].Value, 10, 32); err == nil {
		n.Facts[i].Value = strconv.FormatUint(again+1, 10)
	}
}

// say sets What, and whether it is a good thing.
func (n *Notice) say(ev effects.Event) {
	category, action := ev.Kind.Category, ev.Kind.Action
	switch {
	case category == "alert":
		n.sayAlert(action)
		return
	case ev.Kind == effects.KindEscalate:
		n.What = "Somebody is needed"
		return
	}
	n.Resolved = ev.Kind == effects.KindTaskRecovered
	verb := cmp.Or(verbs[ev.Kind.String()], spelled(action))
	if action == "missed" && n.Count > 1 {
		verb = "has missed " + texts.Thousands(n.Count) + " of its times"
	}
	if slices.Contains(passive, action) {
		verb = "was " + verb
	}
	noun, known := nouns[category]
	if !known {
		noun = capital(spelled(category))
	}
	subject := noun
	if n.Name != "" {
		subject += " " + strconv.Quote(n.Name)
	}
	if phase := n.Data("phase"); phase != "" && category == "pipeline" {
		verb += " in phase " + strconv.Quote(line(phase))
	}
	if !known { // "deploy done": what a runbook announces says by itself what it is
		n.What = strings.TrimSpace(noun + " " + spelled(action))
		if n.Name != "" {
			n.What += ": " + n.Name
		}
		return
	}
	n.What = subject + " " + verb
}

// alert is one of those that an event of alerts speaks of.
type alert struct {
	Kind      string      `json:"kind"`
	Schedule  effects.Ref `json:"schedule"`
	Namespace string      `json:"namespace"`
	Tenant    string      `json:"tenant"`
	Name      string      `json:"name"`
	Reason    string      `json:"reason"`
	Over      bool        `json:"over"` // it has been cleared since it was raised
}

// why is the reason of an alert, and whether it is over.
func (a alert) why() string {
	if a.Over {
		return a.Reason + " (over already)"
	}
	return a.Reason
}

// line says in one line which alert it is; of whom, if there is no scope that is that of all.
func (a alert) line(scoped bool) string {
	name := line(a.Name)
	if a.Namespace != "" && !scoped {
		name += " (" + line(a.Namespace) + "/" + line(a.Tenant) + ")"
	}
	return name
}

// subject is what an alert is about: Recurring action "nightly".
func (a alert) subject() string {
	return cmp.Or(nouns[string(a.Schedule.Kind)], "Schedule") + " " + strconv.Quote(line(cmp.Or(a.Name, identity(a.Schedule.ID))))
}

// sayAlert sets What, and what follows from the list of alerts, of an event that tells that some
// were raised or cleared: of one, or of many that have one cause.
func (n *Notice) sayAlert(action string) {
	if action != "raised" && action != "cleared" {
		n.What = "A message about alerts was " + cmp.Or(map[string]string{"undelivered": "not delivered"}[action], spelled(action))
		return
	}
	n.Resolved = action == "cleared"
	defer n.sayOthers(action)
	if n.Data("count") == "0" && n.Data("others") != "" {
		n.What, n.Count = "Alerts were "+action, 1
		return
	}
	var list []alert
	if json.Unmarshal(n.members["alerts"], &list) != nil || len(list) == 0 {
		list = []alert{{Kind: n.Data("kind"), Namespace: n.Namespace, Tenant: n.Tenant, Name: n.Name, Reason: n.Why}}
	}
	n.Count = max(n.Count, len(list))
	if n.Count == 1 {
		one := list[0]
		n.Name, n.Namespace, n.Tenant, n.Why = line(one.Name), line(one.Namespace), line(one.Tenant), texts.Bound(one.why(), maxWhy)
		n.What = one.subject() + cmp.Or(alerts[one.Kind], ": "+spelled(line(one.Kind)))
	} else {
		n.sayAlerts(list)
	}
	if n.Resolved {
		n.What = "Resolved: " + n.What
	}
	n.sayCleared(list)
}

// sayOthers says that there are alerts of more tenants than the event tells apart: they may be of those who read it.
func (n *Notice) sayOthers(action string) {
	others, err := strconv.Atoi(n.Data("others"))
	if err != nil || others < 1 {
		return
	}
	more := texts.Thousands(others) + " were " + action + " of more tenants than a message tells apart, and may be of yours"
	if n.Why != "" {
		more = n.Why + "\n" + more
	}
	n.Why = more
}

// sayCleared adds what was cleared to what was raised, if a message says both.
func (n *Notice) sayCleared(raised []alert) {
	var members map[string]json.RawMessage
	var cleared []alert
	if json.Unmarshal(n.members["cleared"], &members) != nil || json.Unmarshal(members["alerts"], &cleared) != nil || len(cleared) == 0 {
		return
	}
	both := Notice{members: members, Count: 1, Namespace: line(member(members, "namespace")), Tenant: line(member(members, "tenant"))}
	if c, err := strconv.Atoi(member(members, "count")); err == nil && c > 0 {
		both.Count = c
	}
	both.sayAlert("cleared")
	scoped := n.Namespace != "" && n.Namespace == both.Namespace && n.Tenant == both.Tenant
	if !scoped {
		n.Namespace, n.Tenant = "", ""
	}
	n.What += "; " + strings.Replace(both.What, "Resolved", "resolved", 1)
	n.Name, n.Names, n.Count = "", nil, n.Count+both.Count
	for i, list := range [][]alert{raised, cleared} {
		for _, a := range list[:min(len(list), maxNames)] {
			sign := [2]string{"", "no longer "}[i]
			n.Names = append(n.Names, texts.Bound(sign+spelled(line(a.Kind))+": "+a.line(scoped)+": "+line(a.why()), maxMention))
		}
	}
}

// sayAlerts is sayAlert of several.
func (n *Notice) sayAlerts(list []alert) {
	n.Name, n.Namespace, n.Tenant, n.Why, n.Names = "", "", "", "", nil
	same := func(of func(alert) string) string {
		if slices.ContainsFunc(list, func(a alert) bool { return of(a) != of(list[0]) }) {
			return ""
		}
		return line(of(list[0]))
	}
	if n.Count == len(list) { // else nobody knows whose the others are
		n.Namespace, n.Tenant = same(func(a alert) string { return a.Namespace }), same(func(a alert) string { return a.Tenant })
		if n.Namespace == "" || n.Tenant == "" {
			n.Namespace, n.Tenant = "", ""
		}
	}
	reason := same(alert.why)
	if n.Why = reason; reason == "" {
		n.Why = texts.Bound("different reasons; of "+list[0].line(n.Namespace != "")+": "+line(list[0].why()), maxWhy)
	}
	for _, a := range list[:min(len(list), maxNames)] {
		name := a.line(n.Namespace != "")
		if reason == "" {
			name = spelled(line(a.Kind)) + ": " + name + ": " + line(a.why())
		}
		n.Names = append(n.Names, texts.Bound(name, maxMention))
	}
	var kinds map[string]int
	if json.Unmarshal(n.members["kinds"], &kinds) != nil || len(kinds) == 0 {
		n.What = texts.Thousands(n.Count) + " alerts"
		return
	}
	many := texts.Thousands(n.Count)
	if wrong := alerts[sortedKeys(kinds)[0]]; len(kinds) == 1 && wrong != "" {
		n.What = many + " schedules" + strings.NewReplacer("is ", "are ", "has ", "have ", "its ", "their ", "keeps ", "keep ").Replace(wrong)
		return
	}
	var parts []string
	for _, kind := range sortedKeys(kinds) {
		parts = append(parts, texts.Thousands(kinds[kind])+" "+spelled(line(kind)))
	}
	n.What = many + " alerts: " + strings.Join(parts[:min(len(parts), maxNames)], ", ")
}

// facts are the members that are not spoken of elsewhere.
func facts(members map[string]json.RawMessage, spoken []string) []Fact {
	var out []Fact
	for _, name := range sortedKeys(members) {
		if slices.Contains(spoken, name) {
			continue
		}
		if v := line(member(members, name)); v != "" {
			out = append(out, Fact{Name: line(spelled(name)), Value: texts.Bound(v, maxFact)})
		}
		if len(out) == maxFacts {
			break
		}
	}
	return out
}

// names gives the first of a list of names.
func names(raw json.RawMessage) (out []string) {
	var list []any
	if json.Unmarshal(raw, &list) != nil {
		return nil
	}
	for _, v := range list {
		if s, ok := v.(string); ok && len(out) < maxNames {
			out = append(out, texts.Bound(line(s), maxName))
		}
	}
	return out
}

// member gives a member as text; what is no text, in its JSON form.
func member(members map[string]json.RawMessage, name string) string {
	raw, ok := members[name]
	if !ok || string(raw) == "null" {
		return ""
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return texts.Valid(text)
	}
	var out bytes.Buffer
	if json.Compact(&out, raw) != nil {
		return ""
	}
	return texts.Valid(out.String())
}

// firstOf gives the first of the members that says something.
func firstOf(members map[string]json.RawMessage, among ...string) string {
	for _, name := range among {
		if v := strings.TrimSpace(member(members, name)); v != "" {
			return v
		}
	}
	return ""
}

func identity(id uuid.UUID) string {
	if id == uuid.Nil {
		return ""
	}
	return id.String()
}

// spelled makes a name of the machines' readable: "input_lost" is "input lost".
func spelled(name string) string { return strings.ReplaceAll(name, "_", " ") }

func capital(s string) string {
	r, size := utf8.DecodeRuneInString(s)
	if size == 0 {
		return s
	}
	return string(unicode.ToUpper(r)) + s[size:]
}

// line makes one line of a text, without what a terminal or a mail program takes for a command.
func line(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' || isBidi(r) {
			return ' '
		}
		return r
	}, texts.Valid(s))
	return texts.Bound(strings.TrimSpace(s), maxMention)
}

// isBidi reports whether a character reorders those beside it, so that a text reads as what it
// is not.
func isBidi(r rune) bool { return r >= 0x202A && r <= 0x202E || r >= 0x2066 && r <= 0x2069 }

// escapes are sequences by which programs colour what they print, and the like (ECMA-48).
var escapes = regexp.MustCompile("\x1b(?:\\[[0-?]*[ -/]*[@-~]|\\][^\x07\x1b]*(?:\x07|\x1b\\\\)|[@-Z\\\\-_])")

// plainText keeps lines and tabs, and takes out all other control characters.
func plainText(s string) string {
	s = strings.ReplaceAll(escapes.ReplaceAllString(texts.Valid(s), ""), "\r\n", "\n")
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case r == '\r':
			return '\n'
		case unicode.IsControl(r) || isBidi(r):
			return -1
		}
		return r
	}, s)
}

// tail gives the end of what something printed, in whole lines where that can be.
func tail(s string) string {
	s = strings.TrimSpace(plainText(s))
	if len(s) <= maxOutput {
		return s
	}
	s = texts.Tail(s, maxOutput)
	if i := strings.IndexByte(s, '\n'); i >= 0 && i < maxOutput/4 {
		s = s[i+1:]
	}
	return "…\n" + s
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
