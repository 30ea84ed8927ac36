// Package brokentest tests what tests find: it breaks the source of the repository in a copy, and runs a test of the package in it. All defects of a list are built at once, and a process has one of them.
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
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/shell/internal/raced"
)

// Edit breaks a file of the repository: what stands in it once is replaced.
type Edit struct{ File, Is, Becomes string }

// inner tells a test that it runs in a copy, and has the number of the defect.
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

// Broken are the tests of a package, built once with all defects of a list, of which each process has one.
type Broken struct {
	bin     string
	numbers map[string]int
}

// Build builds the tests of the package in which it is called, with all those defects. Each edit must stand in one function.
func Build[E ~struct{ File, Is, Becomes string }](t *testing.T, defects map[string][]E) *Broken {
	t.Helper()
	dir, root := t.TempDir(), rootOf(t)
	b := &Broken{bin: filepath.Join(dir, "broken.test"), numbers: map[string]int{}}
	all := &switched{files: map[string]*brokenFile{}, read: func(name string) ([]byte, error) {
		return os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
	}}
	for n, name := range slices.Sorted(maps.Keys(defects)) {
		b.numbers[name] = n + 1
		edits := make([]Edit, len(defects[name]))
		for i, e := range defects[name] {
			edits[i] = Edit(e)
		}
		require.NoError(t, all.add(n+1, edits), "%s", name)
	}
	replace := map[string]string{}
	for name, text := range all.texts() {
		file := filepath.Join(dir, fmt.Sprintf("%d.go", len(replace)))
		require.NoError(t, os.WriteFile(file, text, 0o600))
		replace[filepath.Join(root, filepath.FromSlash(name))] = file
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	require.NoError(t, err)
	overlay := filepath.Join(dir, "overlay.json")
	require.NoError(t, os.WriteFile(overlay, list, 0o600))
	out, err := exec.CommandContext(t.Context(), "go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", b.bin, ".").CombinedOutput()
	require.NoError(t, err, "all defects must compile: %s", out)
	return b
}

// Found runs a test of the package with a defect, and gives what that has found; empty: nothing.
func (b *Broken) Found(t *testing.T, name, test string) string {
	t.Helper()
	n, ok := b.numbers[name]
	require.True(t, ok, "%s: it is not in the list that was built", name)
	ctx, cancel := context.WithTimeout(t.Context(), limit+time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, b.bin, "-test.run", "^"+test+"$", "-test.timeout", limit.String())
	cmd.Env = append(os.Environ(), inner+"="+strconv.Itoa(n))
	out, err := cmd.CombinedOutput()
	if err == nil {
		require.Contains(t, string(out), "PASS", "the test has run")
		return ""
	}
	if line := said.Find(out); line != nil {
		return string(line)
	}
	return string(out)
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

// Few gives the names of the defects that are tried: all of them in a soak, else those that always are, since one takes some seconds.
func Few[D any](t *testing.T, all map[string]D, always ...string) []string {
	t.Helper()
	raced.Skip(t)
	if testing.Short() {
		t.Skip("it is a build")
	}
	if os.Getenv("RAPID_CHECKS") != "" {
		return slices.Sorted(maps.Keys(all))
	}
	if len(always) == 0 {
		t.Skip("in a soak")
	}
	return always
}
