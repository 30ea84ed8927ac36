package setfile

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/jobfile"
)

// CheckFiles reads the files of a set, and says all that is wrong with them without an engine: what [Load] says, and, where that is
// nothing, what [shell.CheckSet] says, at the keys of the files. The warnings are what ought to be looked at, and
// refuse nothing.
func CheckFiles(paths []string, o Options, now effects.Time) (entries []shell.SetEntry, warnings []string, err error) {
	l, err := load(paths, o)
	if err != nil {
		return nil, nil, err
	}
	changes, err := shell.CheckSet(l.entries, now)
	if _, ok := errors.AsType[shell.SetErrors](err); err != nil && !ok {
		return nil, nil, err
	}
	for i, c := range changes {
		for _, note := range c.Notes {
			if c.Action == shell.SetRefuses {
				l.refused(i, note)
				continue
			}
			warnings = append(warnings, fmt.Sprintf("%s: %s %s: %s", c.File, c.Kind, c.Name, note))
		}
	}
	if len(l.errs) > 0 {
		return nil, nil, l.sorted()
	}
	return l.entries, warnings, nil
}

// aboutField matches what the kernel says of a field, such as "policy.timeout_ms: -1 is …".
var aboutField = regexp.MustCompile(`^([a-z_]+(?:\[[0-9]+\]|\.[a-z_]+)*): (.*)$`)

// refused notes why an entry is refused: a line for each field.
func (l *loader) refused(i int, why string) {
	e := l.entries[i]
	t, inTable := l.tables[i]
	for said := range strings.SplitSeq(why, "\n") {
		field := ""
		if m := aboutField.FindStringSubmatch(said); m != nil {
			field, said = m[1], m[2]
		}
		if d, ok := l.docs[i]; ok {
			if field != "" {
				said = field + ": " + said
			}
			l.errs = append(l.errs, jobfile.Explain(d.file.name, d.data, d.n, said)...)
			continue
		}
		if !inTable {
			l.errs = append(l.errs, Error{File: e.File, Line: 1, Column: 1, Field: field, Problem: said})
			continue
		}
		key := t.key
		if field != "" {
			key = join(t.key, keyFor(t, field))
		}
		l.say(t.d, key, "%s", said)
	}
}

// keyNames are the keys of files for fields of the kernel that are called otherwise.
var keyNames = map[string]string{ // read-only: a table
	"cron_expr": "cron", "timezone": "tz", "provider": "tool", "action_type": "type", "payload": "input", "metadata": "meta",
	"start_deadline_seconds": "start_deadline", "jitter_seconds": "jitter", "catch_up_seconds": "catch_up",
	"catch_up_spacing_seconds": "catch_up_spacing", "max_wait_seconds": "max_wait",
	"policy.timeout_ms": "timeout", "policy.on_interrupt": "on_interrupt", "policy.on_failure": "on_failure", "policy.max_attempts": "max_attempts",
	"policy.backoff.initial_ms": "backoff", "policy.backoff.factor_percent": "backoff_factor", "policy.backoff.max_ms": "backoff_max",
	"policy.backoff.jitter_percent": "backoff_jitter", "policy.backoff.no_retry": "no_retry", "policy.backoff": "backoff",
	"visibility_timeout_ms": "visibility_timeout", "retry.max_attempts": "max_attempts", "retry.backoff_ms": "backoff", "retry.factor_percent": "factor_percent",
	"retry.max_backoff_ms": "max_backoff", "retry.jitter_percent": "jitter_percent", "retry.no_retry": "no_retry",
	"keep_completed_ms": "keep_completed", "dedup_window_ms": "dedup_window", "poll_ms": "poll", "exclude.dates": "exclude", "exclude.weekly": "exclude_weekly",
	"include.dates": "include", "include.weekly": "include_weekly", "recurrence.cron": "cron", "recurrence.timezone": "tz",
	"alerts.late_seconds": "alerts.late", "alerts.stale_seconds": "alerts.stale", "alerts.slow_seconds": "alerts.slow", "alerts.slow_factor": "alerts.slow",
}

// keyFor gives the key of a table that a field of the kernel comes from, with what follows its name.
func keyFor(t table, field string) string {
	field = strings.TrimPrefix(field, "config.")
	best := ""
	for name := range keyNames { // order-free: the longest one is one alone
		rest, ok := strings.CutPrefix(field, name)
		if ok && (rest == "" || rest[0] == '.' || rest[0] == '[') && len(name) > len(best) {
			best = name
		}
	}
	key := field
	if best != "" {
		key = keyNames[best] + field[len(best):]
	}
	if rest, ok := strings.CutPrefix(key, "input"); ok && t.d.lines.has(join(t.key, "command")) {
		key = "command" + strings.TrimPrefix(rest, ".argv")
	}
	return cmp.Or(key, field)
}
