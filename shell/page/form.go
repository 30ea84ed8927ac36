package page

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/orrery-go/orrery/effects"
)

// A field is one input of a form.
type field struct {
	Name     string // in the API's body: a dot leads into an object
	Label    string
	Help     string
	Type     fieldType
	Options  []option // of a choice
	Value    string
	Required bool
	List     []string // values that are suggested
	Group    string   // of fields that stand together, and are shown when they are asked for; empty: it is always shown
	Shows    bool     // behind it stands what the form means while it is typed
}

// An option is one value of a choice.
type option struct{ Value, Text string }

// fieldType says how a field is shown, and what it becomes in a JSON body.
type fieldType string

const (
	fieldText   fieldType = ""       // a string
	fieldNumber fieldType = "number" // an integer
	fieldJSON   fieldType = "json"   // any JSON
	fieldArea   fieldType = "area"   // a string of several lines
	fieldTime   fieldType = "time"   // a time in the zone that was chosen
	fieldSpan   fieldType = "span"   // a length as whole seconds: typed as such a number, or with units
	fieldMillis fieldType = "millis" // a length as whole milliseconds, likewise
	fieldChoice fieldType = "choice" // a string of its options
	fieldCheck  fieldType = "check"  // a boolean, left out unless it is checked
	fieldLines  fieldType = "lines"  // an array of strings, one a line
	fieldPairs  fieldType = "pairs"  // an object of strings, name=value one a line, or JSON
	fieldAlerts fieldType = "alerts" // rules for alerts, one a line as the command line has them
	fieldHidden fieldType = "hidden" // a string
)

// choice makes the options of values that are their own texts.
func choice(values ...string) (out []option) {
	for _, v := range values {
		text := strings.ReplaceAll(v, "_", " ")
		if v == "" {
			text = "(default)"
		}
		out = append(out, option{v, text})
	}
	return out
}

// choiceOr is [choice] with an empty value first, which stands for one of the others.
func choiceOr(fallback string, values ...string) []option {
	return append([]option{{"", "(default: " + strings.ReplaceAll(fallback, "_", " ") + ")"}}, choice(values...)...)
}

// localTime is how a browser gives a time.
const localTime = "2006-01-02T15:04:05"

// body makes the JSON body of a form: a field that was left empty is left out.
func (q *visit) body(fields []field, form url.Values) (map[string]any, error) {
	out := make(map[string]any)
	var errs []error
	for _, f := range fields {
		v, given, err := q.value(f, form)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", f.Label, err))
		}
		if !given || err != nil {
			continue
		}
		into, name := out, f.Name
		for {
			outer, inner, nested := strings.Cut(name, ".")
			if !nested {
				break
			}
			next, ok := into[outer].(map[string]any)
			if !ok {
				next = make(map[string]any)
				into[outer] = next
			}
			into, name = next, inner
		}
		into[name] = v
	}
	if len(errs) > 0 {
		return nil, &apiError{Status: 400, Text: errors.Join(errs...).Error()}
	}
	return out, nil
}

// value reads one field of a form.
func (q *visit) value(f field, form url.Values) (v any, given bool, err error) {
	raw := form.Get(f.Name)
	trimmed := strings.TrimSpace(raw)
	if f.Type == fieldCheck {
		return true, trimmed != "", nil
	}
	if trimmed == "" {
		if f.Required {
			err = errors.New("is missing")
		}
		return nil, false, err
	}
	switch f.Type {
	case fieldNumber:
		n, err := strconv.ParseInt(trimmed, 10, 64)
		if err != nil {
			return nil, false, fmt.Errorf("%q is not a whole number", trimmed)
		}
		return n, true, nil
	case fieldJSON:
		var any json.RawMessage
		if err := json.Unmarshal([]byte(trimmed), &any); err != nil {
			return nil, false, fmt.Errorf("is not JSON: %w", err)
		}
		return any, true, nil
	case fieldTime:
		t, err := q.readTime(trimmed)
		return t, err == nil, err
	case fieldSpan:
		return readLength(trimmed, time.Second)
	case fieldMillis:
		return readLength(trimmed, time.Millisecond)
	case fieldLines:
		return nonEmpty(strings.Split(trimmed, "\n")), true, nil
	case fieldPairs:
		pairs, err := readPairs(trimmed)
		return pairs, err == nil, err
	case fieldAlerts:
		rules, err := readAlerts(trimmed)
		return rules, err == nil, err
	case fieldArea:
		return strings.ReplaceAll(raw, "\r\n", "\n"), true, nil
	default:
		return trimmed, true, nil
	}
}

// readTime reads a time with its zone, or in the zone that the browser has chosen.
func (q *visit) readTime(s string) (effects.Time, error) {
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		return effects.TimeOf(t), nil
	}
	for _, layout := range []string{localTime, "2006-01-02T15:04", "2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02"} {
		if t, err := time.ParseInLocation(layout, s, q.zone); err == nil {
			return effects.TimeOf(t), nil
		}
	}
	return 0, fmt.Errorf("%q is not a time such as 2026-01-31T09:00 (in %s) or 2026-01-31T09:00:00Z", s, q.zone)
}

func readPairs(s string) (map[string]string, error) {
	out := make(map[string]string)
	if strings.HasPrefix(s, "{") {
		if err := json.Unmarshal([]byte(s), &out); err != nil {
			return nil, fmt.Errorf("begins like a JSON object, and is none of texts: %w", err)
		}
		return out, nil
	}
	for _, line := range nonEmpty(strings.Split(s, "\n")) {
		name, value, ok := strings.Cut(line, "=")
		if !ok {
			return nil, fmt.Errorf("%q is not name=value", line)
		}
		out[strings.TrimSpace(name)] = strings.TrimSpace(value)
	}
	return out, nil
}

func nonEmpty(lines []string) []string {
	out := []string{}
	for _, l := range lines {
		if l = strings.TrimSpace(l); l != "" {
			out = append(out, l)
		}
	}
	return out
}

// filled gives the fields with the values of a form that was sent.
func filled(fields []field, form url.Values) []field {
	out := make([]field, len(fields))
	for i, f := range fields {
		if form.Has(f.Name) {
			f.Value = form.Get(f.Name)
		} else if f.Type == fieldCheck {
			f.Value = ""
		}
		out[i] = f
	}
	return out
}
