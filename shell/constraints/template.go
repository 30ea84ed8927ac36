package constraints

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/internal/clip"
	"github.com/orrery-go/orrery/shell/internal/plainjson"
)

// Texts of actions and hooks may hold "${run_id}" and the others of variableNames;
// "$${" stands for "${".
var variableNames = []string{
	"attempt", "constraint", "exit_code", "job_id", "message", "namespace", "phase", "run_id", "scheduled_at", "tenant",
}

// maxValueBytes bounds what one reference is filled in with, as JSON.
const maxValueBytes = 1100

// variables are the values of one constraint of one run.
func variables(in *Input, constraint, message string) map[string]string {
	values := map[string]string{
		"attempt": strconv.FormatUint(uint64(in.Run.RetryAttempt), 10), "constraint": constraint, "exit_code": "",
		"job_id": in.Run.JobID, "message": message, "namespace": in.Run.Namespace, "phase": string(in.Phase),
		"run_id": in.Run.RunID, "scheduled_at": in.Run.ScheduledAt.String(), "tenant": in.Run.Tenant,
	}
	if in.Phase == effects.CheckPost && in.ExitCode >= 0 {
		values["exit_code"] = strconv.Itoa(in.ExitCode)
	}
	return values
}

// checkTexts reports a reference in the texts of a value that cannot be filled in.
func checkTexts(path string, raw json.RawMessage) error {
	_, err := mapTexts(raw, func(s string) (string, error) { return fill(s, nil) })
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// expandFields fills in the texts of the fields that may have references.
func expandFields(raw json.RawMessage, fields []string, values map[string]string) (json.RawMessage, error) {
	if len(raw) == 0 || len(fields) == 0 || !bytes.Contains(raw, []byte("${")) {
		return raw, nil
	}
	var o map[string]json.RawMessage
	if err := json.Unmarshal(raw, &o); err != nil {
		return nil, err
	}
	for _, f := range fields {
		if v, ok := o[f]; ok {
			var err error
			if o[f], err = expand(v, values); err != nil {
				return nil, err
			}
		}
	}
	return plainjson.Marshal(o)
}

// expand fills in all texts of a value.
func expand(raw json.RawMessage, values map[string]string) (json.RawMessage, error) {
	return mapTexts(raw, func(s string) (string, error) { return fill(s, values) })
}

// expandedBytes is how long a value can become.
func expandedBytes(raw json.RawMessage) int {
	return len(raw) + maxValueBytes*bytes.Count(raw, []byte("${"))
}

// mapTexts maps each string of a value, but for the names of fields.
func mapTexts(raw json.RawMessage, f func(string) (string, error)) (json.RawMessage, error) {
	if !bytes.Contains(raw, []byte("${")) && !bytes.Contains(raw, []byte(`\u`)) {
		return raw, nil
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	v, err := mapValue(v, f)
	if err != nil {
		return nil, err
	}
	return plainjson.Marshal(v)
}

func mapValue(v any, f func(string) (string, error)) (any, error) {
	var err error
	switch v := v.(type) {
	case string:
		return f(v)
	case []any:
		for i := range v {
			if v[i], err = mapValue(v[i], f); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		for k := range v {
			if v[k], err = mapValue(v[k], f); err != nil {
				return nil, err
			}
		}
	}
	return v, nil
}

// fill puts values into a text; with nil it checks the references alone.
func fill(s string, values map[string]string) (string, error) {
	var out strings.Builder
	for {
		i := strings.Index(s, "${")
		if i < 0 {
			out.WriteString(s)
			return out.String(), nil
		}
		if i > 0 && s[i-1] == '$' {
			out.WriteString(s[:i-1] + "${")
			s = s[i+2:]
			continue
		}
		name, rest, closed := strings.Cut(s[i+2:], "}")
		if !closed {
			return "", fmt.Errorf("%q has no end: write ${name}, or $${ for ${", clip.Text(s[i:], maxQuoted))
		}
		if !slices.Contains(variableNames, name) {
			return "", fmt.Errorf("${%s} is unknown: use one of %s, or $${ for ${", clip.Text(name, maxQuoted), strings.Join(variableNames, ", "))
		}
		out.WriteString(s[:i])
		out.WriteString(line(values[name]))
		s = rest
	}
}

// maxMessage bounds the message of one constraint.
const maxMessage = 480

// line makes a line of a text from outside.
func line(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < 0x20 || r == 0x7f || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, plainjson.Text(s))
	return clip.Text(strings.TrimSpace(s), maxMessage)
}

// requests gives the actions of a constraint with their texts filled in.
func requests(list []core.ActionRequest, values map[string]string) ([]core.ActionRequest, error) {
	list = slices.Clone(list)
	var errs []error
	for i := range list {
		var err error
		if list[i].Config, err = expandFields(list[i].Config, textFields[list[i].Type], values); err != nil {
			errs = append(errs, fmt.Errorf("action %s: %w", list[i].Type, err))
		}
	}
	return list, errors.Join(errs...)
}
