package core

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Limits of what a creator may say. They keep one record from burdening all.
const (
	MaxNameBytes    = 255       // names: tool, namespace, tenant, action type, keys of maps
	MaxTextBytes    = 4 << 10   // label, description, values of maps, dedup key template
	MaxMapEntries   = 64        // metadata, labels
	MaxInputBytes   = 1 << 20   // tool input, payload
	MaxWebhookBytes = 16 << 20  // raw payload of a webhook
	MaxAttemptsEver = 1_000_000 // policy.max_attempts
	MaxScopeBytes   = 500       // namespace and tenant together: they share names of list indexes
	// MaxJSONDepth bounds the nesting of a payload or a result, whose levels add
	// to those of the state and the journal around it: encoding/json reads back
	// 10,000 levels at most.
	MaxJSONDepth = 200
)

func checkTime(field string, t Time) error {
	if t < 1 || t > 253_402_300_799_999 {
		if t == 0 {
			return fmt.Errorf("%s: missing: give a time in RFC 3339, such as \"2026-02-10T14:00:00Z\"", field)
		}
		return fmt.Errorf("%s: %d ms is out of range: it must be after 1970-01-01T00:00:00Z and before the year 10000", field, int64(t))
	}
	return nil
}

func checkName(field, v string, required bool) error {
	if len(v) <= MaxNameBytes && isPlain(v) && (v != "" || !required) {
		return nil
	}
	switch {
	case v == "" && required:
		return fmt.Errorf("%s: must not be empty", field)
	case len(v) > MaxNameBytes:
		return fmt.Errorf("%s: %d bytes is longer than %d", field, len(v), MaxNameBytes)
	case !utf8.ValidString(v):
		return fmt.Errorf("%s: %q is not valid UTF-8", field, clip(v))
	}
	if i := strings.IndexFunc(v, func(r rune) bool { return r < 0x20 || r == 0x7f }); i >= 0 {
		return fmt.Errorf("%s: %q has the control character %q", field, clip(v), v[i])
	}
	return nil
}

// checkTenant checks where a machine belongs; the fields begin with prefix.
func checkTenant(prefix, namespace, tenant string) error {
	return errors.Join(checkName(prefix+"namespace", namespace, false), checkName(prefix+"tenant", tenant, false), checkScope(namespace, tenant))
}

func checkScope(namespace, tenant string) error {
	if n := len(namespace) + len(tenant); n > MaxScopeBytes {
		return fmt.Errorf("namespace and tenant: together %d bytes are longer than %d", n, MaxScopeBytes)
	}
	return nil
}

func checkText(field, v string) error { return checkTextWithin(field, v, MaxTextBytes) }

// isPlain reports whether a text has nothing but the printable characters of ASCII.
func isPlain(v string) bool {
	for i := range len(v) {
		if v[i] < ' ' || v[i] > '~' {
			return false
		}
	}
	return true
}

func checkTextWithin(field, v string, limit int) error {
	if len(v) <= limit && isPlain(v) {
		return nil
	}
	switch {
	case len(v) > limit:
		return fmt.Errorf("%s: %d bytes is longer than %d", field, len(v), limit)
	case !utf8.ValidString(v):
		return fmt.Errorf("%s: %q is not valid UTF-8", field, clip(v))
	case strings.ContainsRune(v, 0):
		return fmt.Errorf("%s: %q has a NUL byte", field, clip(v))
	}
	return nil
}

func checkJSON(field string, v json.RawMessage, limit int) error {
	if len(v) <= limit {
		if sound, ascii := soundJSON(v); sound && (ascii || utf8.Valid(v)) {
			return nil
		}
	}
	switch {
	case len(v) > limit:
		return fmt.Errorf("%s: %d bytes is more than %d", field, len(v), limit)
	case !json.Valid(v):
		return fmt.Errorf("%s: %q is not valid JSON", field, clip(string(v)))
	case !utf8.Valid(v):
		return fmt.Errorf("%s: not valid UTF-8", field)
	case tooDeep(v):
		return fmt.Errorf("%s: nested deeper than %d levels", field, MaxJSONDepth)
	}
	return nil
}

func checkMap(field string, m map[string]string) error {
	if len(m) == 0 {
		return nil
	}
	if len(m) > MaxMapEntries {
		return fmt.Errorf("%s: %d entries are more than %d", field, len(m), MaxMapEntries)
	}
	found, bad := false, ""
	for k, v := range m { // order-free: of the bad entries, the first in order is reported
		if (!found || k < bad) && (checkName("", k, true) != nil || checkText("", v) != nil) {
			found, bad = true, k
		}
	}
	if !found {
		return nil
	}
	if err := checkName(field+" key", bad, true); err != nil {
		return err
	}
	return checkText(field+"."+bad, m[bad])
}

func checkObject(field string, v json.RawMessage) error {
	if err := checkJSON(field, v, MaxInputBytes); err != nil {
		return err
	}
	if !strings.HasPrefix(strings.TrimLeft(string(v[:min(len(v), 64)]), " \t\r\n"), "{") {
		return fmt.Errorf("%s: %s is not a JSON object", field, clip(string(v)))
	}
	return nil
}

// checkOneOf checks that a value is one of those that are known.
func checkOneOf[S ~string](field string, v S, known ...S) error {
	if slices.Contains(known, v) {
		return nil
	}
	quoted := make([]string, len(known))
	for i, k := range known {
		quoted[i] = strconv.Quote(string(k))
	}
	rest, last := "", len(known)-1
	if last > 0 {
		rest = strings.Join(quoted[:last], ", ") + " or "
	}
	return fmt.Errorf("%s: %q is unknown: use %s%s", field, clip(string(v)), rest, quoted[last])
}

// checkLengthMS checks a length of time in milliseconds.
func checkLengthMS(field string, ms int64) error {
	if ms < 0 || ms > MaxTimeout.Milliseconds() {
		return fmt.Errorf("%s: %d is not between 0 and %d", field, ms, MaxTimeout.Milliseconds())
	}
	return nil
}

func checkCommand(field string, argv []string) error {
	if len(argv) > MaxCommandArgs {
		return fmt.Errorf("%s: %d arguments are more than %d", field, len(argv), MaxCommandArgs)
	}
	size := 0
	for i, arg := range argv {
		if i == 0 && arg == "" {
			return fmt.Errorf("%s[0]: must not be empty: it names the program", field)
		}
		if err := checkLongText(fmt.Sprintf("%s[%d]", field, i), arg); err != nil {
			return err
		}
		if size += len(arg); size > MaxPromptBytes {
			return fmt.Errorf("%s: its arguments are together longer than %d bytes", field, MaxPromptBytes)
		}
	}
	return nil
}

func checkEnv(field string, env map[string]string) error {
	if err := checkMap(field, env); err != nil {
		return err
	}
	for _, k := range sortedKeys(env) {
		if strings.Contains(k, "=") {
			return fmt.Errorf("%s key: %q has an equals sign, which no variable's name can have", field, clip(k))
		}
	}
	return nil
}

func checkLongText(field, v string) error { return checkTextWithin(field, v, MaxPromptBytes) }

// checkSize bounds what a spec takes in state and journal.
func checkSize(field string, spec any) error {
	if b, err := json.Marshal(spec); err != nil || len(b) > MaxSpecBytes {
		return fmt.Errorf("%s: as JSON its %d bytes are more than %d", field, len(b), MaxSpecBytes)
	}
	return nil
}
