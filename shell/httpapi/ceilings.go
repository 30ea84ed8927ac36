package httpapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// opaque are fields whose content is no request of ours: data that others read.
var opaque = []string{ // read-only: a table
	"body", "json", "data", "context", "labels", "metadata", "env", "headers", "pod_spec", "items",
}

// ceilings refuses a spec with a field, however deep, that asks for more than the tenant
// may have. A template is not a number: what it gives is bound where it is carried out.
func (t *TenantLimits) ceilings(spec any) error {
	if spec == nil || t.MaxTimeout == 0 && t.MaxAttempts == 0 && t.MaxOutputBytes == 0 {
		return nil
	}
	b, err := json.Marshal(spec)
	if err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return err
	}
	return t.walk("", v)
}

func (t *TenantLimits) walk(path string, v any) error {
	switch v := v.(type) {
	case map[string]any:
		keys := make([]string, 0, len(v))
		for k := range v { // order-free: sorted below
			keys = append(keys, k)
		}
		slices.Sort(keys)
		for _, k := range keys {
			at := k
			if path != "" {
				at = path + "." + k
			}
			if n, ok := v[k].(json.Number); ok {
				if err := t.ceiling(at, k, n); err != nil {
					return err
				}
			} else if !slices.Contains(opaque, k) {
				if err := t.walk(at, v[k]); err != nil {
					return err
				}
			}
		}
	case []any:
		for i, e := range v {
			if err := t.walk(fmt.Sprintf("%s[%d]", path, i), e); err != nil {
				return err
			}
		}
	}
	return nil
}

// ceiling compares one number.
func (t *TenantLimits) ceiling(at, key string, n json.Number) error {
	var most float64
	var by string
	switch key {
	case "timeout_ms":
		most, by = float64(t.MaxTimeout/time.Millisecond), "max_timeout_seconds"
	case "timeout_seconds", "total_timeout_seconds":
		most, by = t.MaxTimeout.Seconds(), "max_timeout_seconds"
	case "max_attempts":
		most, by = float64(t.MaxAttempts), "max_attempts"
	case "max_output_bytes":
		most, by = float64(t.MaxOutputBytes), "max_output_bytes"
	}
	if v, err := n.Float64(); most > 0 && (err != nil || v > most) {
		return failf(http.StatusBadRequest, "%s: %s is more than %s: limits.%s of the daemon allows no more", clip(at), clip(n.String()),
			strconv.FormatFloat(most, 'f', -1, 64), by)
	}
	return nil
}
