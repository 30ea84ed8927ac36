package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
)

// readArgument reads a value that may be given as @FILE or as - for stdin.
func (a *app) readArgument(flag, v string) ([]byte, error) {
	var b []byte
	var err error
	switch {
	case v == "-":
		b, err = io.ReadAll(a.in)
	case strings.HasPrefix(v, "@"):
		b, err = os.ReadFile(v[1:])
	default:
		return []byte(v), nil
	}
	if err != nil {
		return nil, usagef("--%s: %w", flag, err)
	}
	return b, nil
}

// readJSON reads a value of JSON that may be given as @FILE or as - for stdin; nil if
// it is empty.
func (a *app) readJSON(flag, v string) (json.RawMessage, error) {
	if v == "" {
		return nil, nil
	}
	return a.needJSON(flag, v)
}

// needJSON is readJSON for what must not be empty.
func (a *app) needJSON(flag, v string) (json.RawMessage, error) {
	b, err := a.readArgument(flag, v)
	if err != nil {
		return nil, err
	}
	if !json.Valid(b) {
		return nil, usagef("--%s: %q is not valid JSON: a text stands in quotes", flag, text.Clip(string(b), 60))
	}
	return b, nil
}

// parsePairs reads KEY=VALUE flags.
func parsePairs(flag string, pairs []string) (map[string]string, error) {
	if len(pairs) == 0 {
		return nil, nil
	}
	m := make(map[string]string, len(pairs))
	for _, p := range pairs {
		k, v, ok := strings.Cut(p, "=")
		if !ok || k == "" {
			return nil, usagef("--%s: %q is not KEY=VALUE", flag, p)
		}
		if _, twice := m[k]; twice {
			return nil, usagef("--%s: the key %q is there twice", flag, k)
		}
		m[k] = v
	}
	return m, nil
}

// given is a text of a request; nil if it is empty.
func given(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// newID is the flag --id of what is to be made; nil if it is to be a fresh one.
func newID(id string) (*string, error) {
	if id == "" {
		return nil, nil
	}
	if err := checkID(id); err != nil {
		return nil, fmt.Errorf("--id: %w", err)
	}
	return &id, nil
}
