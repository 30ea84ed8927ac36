// Package brokentest tests what tests find: it breaks the source of the repository in a copy, and runs a test of the package in it.
package brokentest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/shell/internal/raced"
)

// Edit breaks a file of the repository: what stands in it once is replaced.
type Edit struct{ File, Is, Becomes string }

// inner tells a test that it runs in a copy.
const inner = "ORRERY_BROKEN_SOURCE"

// Inside skips a test that is run in a copy alone.
func Inside(t *testing.T) {
	t.Helper()
	if os.Getenv(inner) == "" {
		t.Skip("of the tests of a broken source alone")
	}
}

// limit is how long a test may take in a copy: one that hangs has found something, too.
const limit = 4 * time.Minute

// said is what is shown of the output of a test that fails.
var said = regexp.MustCompile(`(?s)seed \d+:.*?\n.*?\n|panic: [^\n]*`)

// Found builds the tests of the package in which it is called, with the edits, and runs one of them. It gives what that has found; empty: nothing.
func Found[E ~struct{ File, Is, Becomes string }](t *testing.T, test string, edits []E) string {
	t.Helper()
	dir := t.TempDir()
	list, bin := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "broken.test")
	require.NoError(t, os.WriteFile(list, overlay(t, dir, edits), 0o600))
	out, err := exec.CommandContext(t.Context(), "go", "test", "-c", "-vet=off", "-overlay", list, "-o", bin, ".").CombinedOutput()
	require.NoError(t, err, "it must compile: %s", out)
	ctx, cancel := context.WithTimeout(t.Context(), limit+time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, bin, "-test.run", "^"+test+"$", "-test.timeout", limit.String())
	cmd.Env = append(os.Environ(), inner+"=1")
	if out, err = cmd.CombinedOutput(); err == nil {
		require.Contains(t, string(out), "PASS", "the test has run")
		return ""
	}
	if line := said.Find(out); line != nil {
		return string(line)
	}
	return string(out)
}

// overlay writes the files that are broken, and gives what go build is told of them.
func overlay[E ~struct{ File, Is, Becomes string }](t *testing.T, dir string, edits []E) []byte {
	t.Helper()
	root, texts, replace := rootOf(t), map[string]string{}, map[string]string{}
	for _, one := range edits {
		e := Edit(one)
		name := filepath.Join(root, filepath.FromSlash(e.File))
		if _, ok := texts[name]; !ok {
			b, err := os.ReadFile(name)
			require.NoError(t, err)
			texts[name] = string(b)
		}
		require.Equal(t, 1, strings.Count(texts[name], e.Is), "%s has once: %s", e.File, e.Is)
		texts[name] = strings.Replace(texts[name], e.Is, e.Becomes, 1)
	}
	for name, text := range texts {
		replace[name] = filepath.Join(dir, fmt.Sprintf("%d.go", len(replace)))
		require.NoError(t, os.WriteFile(replace[name], []byte(text), 0o600))
	}
	out, err := json.Marshal(map[string]any{"Replace": replace})
	require.NoError(t, err)
	return out
}

// rootOf gives the folder of the module.
func rootOf(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	require.NoError(t, err)
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		up := filepath.Dir(dir)
		require.NotEqual(t, dir, up, "there is no go.mod above the tests")
		dir = up
	}
}

// Few gives the names of the defects that are tried: all of them in a soak, else those that always are, since each is a build.
func Few[D any](t *testing.T, all map[string]D, always ...string) []string {
	t.Helper()
	raced.Skip(t)
	if testing.Short() {
		t.Skip("each is a build")
	}
	if os.Getenv("RAPID_CHECKS") != "" {
		return slices.Sorted(maps.Keys(all))
	}
	if len(always) == 0 {
		t.Skip("in a soak")
	}
	return always
}
