package notify

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"text/template"
	"text/template/parse"
	"time"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/effects/texts"
)

// Templates make the title and the text of a message of a [Notice] (text/template).
type Templates struct{ title, text *template.Template }

// DefaultTitle and DefaultText are the templates of channels that show plain text.
const (
	DefaultTitle = `{{.What}}`
	DefaultText  = `{{.What}}.
{{with .Names}}
{{range .}}  {{.}}
{{end}}{{with $.More}}  and {{thousands .}} more
{{end}}{{end}}{{with .Why}}
Why: {{.}}{{end}}
When: {{time .At}}
{{with .Scope}}Tenant: {{.}}
{{end}}{{range .Facts}}{{.Name | capital}}: {{.Value}}
{{end}}{{with .Output}}
Its output:
{{indent .}}
{{end}}{{range .Commands}}
To {{.Does}}:
{{indent .Line}}
{{end}}`
)

// SlackText is the template of the text that [Slack] shows: what was printed and what can be
// typed stand in blocks of code.
const SlackText = `{{range .Names}}• {{.}}
{{end}}{{with .More}}and {{thousands .}} more
{{end}}{{with .Why}}Why: {{.}}
{{end}}When: {{time .At}}
{{with .Scope}}Tenant: {{.}}
{{end}}{{range .Facts}}{{.Name | capital}}: {{.Value}}
{{end}}{{with .Output}}Its output:
{{code .}}
{{end}}{{range .Commands}}To {{.Does}}:
{{code .Line}}
{{end}}`

// maxRendered bounds what a template gives.
const maxRendered = 64 << 10

// More is how many things a notice of many does not name.
func (n Notice) More() int {
	if len(n.Names) == 0 {
		return 0
	}
	return max(n.Count-len(n.Names), 0)
}

// functions are what templates may call beside those of text/template.
var functions = template.FuncMap{
	"time": func(t time.Time) string {
		if t.IsZero() || t.Unix() == 0 {
			return "unknown"
		}
		return t.UTC().Format("2006-01-02 15:04:05 UTC")
	},
	"indent":    func(s string) string { return "    " + strings.ReplaceAll(strings.TrimRight(s, "\n"), "\n", "\n    ") },
	"code":      code,
	"clip":      func(most int, s string) string { return texts.Bound(s, max(most, 0)) },
	"join":      func(sep string, list []string) string { return strings.Join(list, sep) },
	"capital":   capital,
	"upper":     strings.ToUpper,
	"thousands": texts.Thousands,
}

// fence opens and closes a block of code in Slack's mrkdwn.
const fence = "```"

// code puts a text into a block of code, out of which it cannot lead.
func code(s string) string {
	return fence + "\n" + strings.ReplaceAll(strings.TrimRight(s, "\n"), fence, "'''") + "\n" + fence
}

// TemplateError is an error of a template: which one, "title" or "text", and what is wrong.
type TemplateError struct {
	Which string
	Err   error
}

// Error says which template is wrong, and how.
func (e *TemplateError) Error() string {
	return e.Which + ": " + strings.TrimPrefix(e.Err.Error(), "template: ")
}

// Unwrap gives what is wrong.
func (e *TemplateError) Unwrap() error { return e.Err }

// NewTemplates reads templates. One that names what no notice has is an error here, also where
// it stands in a branch that is seldom taken, and so is one that fails for any kind of event
// that the machines announce: not when something has to be told.
func NewTemplates(title, text string) (*Templates, error) {
	t := &Templates{}
	var errs []error
	for _, of := range []struct {
		which, source string
		to            **template.Template
	}{{"title", title, &t.title}, {"text", text, &t.text}} {
		parsed, err := template.New(of.which).Option("missingkey=error").Funcs(functions).Parse(of.source)
		if err == nil {
			err = checkNames(parsed)
		}
		for _, n := range samples() {
			if err != nil {
				break
			}
			if _, err = render(parsed, n); err != nil {
				err = fmt.Errorf("for %s: %w", n.Kind, err)
			}
		}
		if err != nil {
			errs = append(errs, &TemplateError{of.which, err})
		}
		*of.to = parsed
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return t, nil
}

// mustTemplates reads templates of this package.
func mustTemplates(title, text string) *Templates {
	t, err := NewTemplates(title, text)
	if err != nil {
		panic("notify: " + err.Error()) // a test holds that it does not
	}
	return t
}

var byDefault = mustTemplates(DefaultTitle, DefaultText)

// Message renders a notice. Where a template fails all the same, the message is that of the
// default templates, and the error says why: what has to be told is told.
func (t *Templates) Message(ev effects.Event, n Notice) (Message, error) {
	if t == nil {
		t = byDefault
	}
	m := Message{ID: digest("event", n.ID), At: n.At, Event: &ev, Commands: n.Commands, Sound: !n.Resolved}
	var errs []error
	for _, of := range []struct {
		to            *string
		with, instead *template.Template
	}{{&m.Title, t.title, byDefault.title}, {&m.Text, t.text, byDefault.text}} {
		text, err := render(of.with, n)
		if err != nil {
			errs = append(errs, &TemplateError{of.with.Name(), err})
			if text, err = render(of.instead, n); err != nil {
				errs, text = append(errs, err), n.What
			}
		}
		*of.to = text
	}
	m.Title, m.Text = line(m.Title), strings.TrimSpace(plainText(m.Text))
	return m, errors.Join(errs...)
}

// render executes a template, which may give no more than is bounded.
func render(t *template.Template, n Notice) (string, error) {
	var out bounded
	if err := t.Execute(&out, n); err != nil {
		return "", err
	}
	return out.String(), nil
}

// bounded takes no more than maxRendered.
type bounded struct{ strings.Builder }

func (b *bounded) Write(p []byte) (int, error) {
	if b.Len()+len(p) > maxRendered {
		return 0, fmt.Errorf("it gives more than %d bytes", maxRendered)
	}
	return b.Builder.Write(p)
}

// named are the names that templates may use after a dot: the fields and methods of all that
// they can reach.
var named = func() map[string]bool {
	out := map[string]bool{}
	for _, t := range []reflect.Type{reflect.TypeFor[Notice](), reflect.TypeFor[Fact](), reflect.TypeFor[Hint](), reflect.TypeFor[time.Time]()} {
		for f := range t.Fields() {
			out[f.Name] = f.IsExported()
		}
		for m := range t.Methods() {
			out[m.Name] = true
		}
	}
	return out
}()

// checkNames finds names that nothing has, in all branches.
func checkNames(t *template.Template) error {
	var wrong []string
	for _, of := range t.Templates() {
		if of.Tree != nil {
			walk(reflect.ValueOf(of.Root), func(idents []string) {
				for _, name := range idents {
					if !named[name] && !slices.Contains(wrong, name) {
						wrong = append(wrong, name)
					}
				}
			})
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	var known []string
	for f := range reflect.TypeFor[Notice]().Fields() {
		if f.IsExported() {
			known = append(known, "."+f.Name)
		}
	}
	return fmt.Errorf(".%s is unknown: use %s, .Scope, .More or .Data \"MEMBER\"", wrong[0], strings.Join(known, ", "))
}

// walk gives each list of names after a dot to visit.
func walk(v reflect.Value, visit func([]string)) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return
		}
		switch n := v.Interface().(type) {
		case *parse.FieldNode:
			visit(n.Ident)
		case *parse.VariableNode:
			visit(n.Ident[1:])
		case *parse.ChainNode:
			visit(n.Field)
		case *parse.Tree:
			return // the node's own tree, which is walked already
		}
		walk(v.Elem(), visit)
	case reflect.Struct:
		for f, value := range v.Fields() {
			if f.IsExported() {
				walk(value, visit)
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			walk(v.Index(i), visit)
		}
	default:
	}
}

// samples are notices of all kinds of events, each with all that it may have and with nothing.
func samples() (out []Notice) {
	kinds := append(effects.Announced(), effects.Custom("deploy", "done"))
	for _, kind := range kinds {
		ev := effects.Event{ID: uuid.Max, Kind: kind, Timestamp: effects.TimeOf(time.Unix(1_800_000_000, 0))}
		out = append(out, NoticeOf(ev))
		ev.Source = effects.EventSource{Component: kind.Category, ID: uuid.Max}
		ev.Data, _ = json.Marshal(sampleData) // texts and numbers always encode
		out = append(out, NoticeOf(ev, Hint{Does: "show it", Line: "orreryd actions show ID"}))
		if kind.Category == "alert" {
			ev.Data, _ = json.Marshal(sampleAlerts)
			out = append(out, NoticeOf(ev))
		}
	}
	return out
}

var sampleData = map[string]any{
	"namespace": "default", "tenant": "default", "label": "nightly", "tool": "command", "attempt": 3, "error": "exit status 1", "output": "one\ntwo",
	"phase": "build", "count": 1, "names": []string{"a", "b"}, "kind": "late",
}

var sampleAlerts = map[string]any{
	"count": 10_000, "kinds": map[string]int{"late": 10_000},
	"alerts": []alert{{Kind: "late", Name: "nightly", Reason: "its time has not begun"}, {Kind: "late", Name: "weekly", Reason: "its time has not begun"}},
}

// SampleEvent is an event with which a channel and its templates can be tried out: an action has
// failed.
func SampleEvent(at time.Time) effects.Event {
	data, _ := json.Marshal(map[string]any{ // texts and numbers always encode
		"namespace": "default", "tenant": "default", "label": "nightly", "tool": "command", "attempt": 3,
		"error": "exit code 1", "output": "copying 12 of 40\nno space left on device",
	})
	return effects.Event{ID: uuid.Max, Kind: effects.Custom("action", "failed"), Timestamp: effects.TimeOf(at), Data: data}
}
