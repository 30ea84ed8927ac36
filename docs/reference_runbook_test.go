package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/effects"
)

const runbookPage = "docs/runbooks.md"

// runbookKeys finds where the reader of runbook files asks a table for a key.
var runbookKeys = regexp.MustCompile(`\.(?:text|texts|textAs|textMap|boolean|integer|integers|number|duration|durationBetween|factor|rate|json|jsonMap|` +
	`list|sub|subOr|run|task|merge|strategyOf|when|approaches|get)\("([a-z_]+)"`)

func TestTheRunbookPageHasEveryKeyOfARunbookFile(t *testing.T) {
	names, err := filepath.Glob(filepath.Join(root, "shell", "runbook", "*.go"))
	require.NoError(t, err)
	var keys []string
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		src, err := os.ReadFile(name)
		require.NoError(t, err)
		for _, m := range runbookKeys.FindAllStringSubmatch(string(src), -1) {
			keys = append(keys, m[1])
		}
	}
	slices.Sort(keys)
	keys = slices.Compact(keys)
	require.Greater(t, len(keys), 80, "the expression finds no keys any more")

	var shown []string
	word := regexp.MustCompile(`[a-z_]+`)
	doc := readFile(t, runbookPage)
	for line := range strings.SplitSeq(doc, "\n") {
		for _, s := range codeSpan.FindAllStringSubmatch(line, -1) {
			shown = append(shown, word.FindAllString(s[1], -1)...)
		}
	}
	for _, key := range keys {
		assert.Contains(t, shown, key, "%s names every key in a code span", runbookPage)
	}
}

func TestWhatTheRunbookPageShowsIsWhatTheCommandsPrint(t *testing.T) {
	dir := t.TempDir()
	_, fences := splitMarkdown(readFile(t, runbookPage))
	ran := 0
	for _, f := range fences {
		name, isFile := strings.CutPrefix(strings.SplitN(f.text, "\n", 2)[0], "# ")
		switch {
		case f.lang == "toml" && isFile:
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(f.text), 0o600))
			_, code := orreryd(t, dir, nil, "runbook", "check", name)
			assert.Equal(t, name == "wrong.toml", code != 0, "%s:%d", runbookPage, f.line)
		case f.lang == "console":
			command, want, _ := strings.Cut(f.text, "\n")
			args := strings.Fields(strings.TrimPrefix(command, "$ orreryd "))
			out, _ := orreryd(t, dir, nil, args...)
			assert.Equal(t, want, out, "%s:%d", runbookPage, f.line)
			ran++
		case f.lang == "mermaid":
			out, code := orreryd(t, dir, nil, "runbook", "graph", "release.toml")
			require.Zero(t, code, out)
			assert.Equal(t, f.text, out, "%s:%d", runbookPage, f.line)
			ran++
		}
	}
	assert.Equal(t, 3, ran)
}

func TestTheLinesOfARunbookThatThePageShowsAreTaken(t *testing.T) {
	dir := t.TempDir()
	_, fences := splitMarkdown(readFile(t, runbookPage))
	head := "[agents.resolver]\ncommand = [\"claude\"]\n\n[pipelines.p]\ninputs = [{ name = \"branch\" }]\n\n[[pipelines.p.phases]]\nname = \"one\"\n"
	for _, f := range fences {
		if f.lang != "toml" || strings.HasPrefix(f.text, "# ") {
			continue
		}
		require.NoError(t, os.WriteFile(filepath.Join(dir, "part.toml"), []byte(head+f.text), 0o600))
		out, code := orreryd(t, dir, nil, "runbook", "check", "part.toml")
		assert.Zero(t, code, "%s:%d: %s", runbookPage, f.line, out)
	}
}

func TestTheRunbookPageListsEveryEventThatIsAnnounced(t *testing.T) {
	_, section, ok := strings.Cut(readFile(t, runbookPage), "\n## Events\n")
	require.True(t, ok)
	var listed, announced []string
	for _, row := range regexp.MustCompile("(?m)^\\| `(\\w+:\\w+)` \\|").FindAllStringSubmatch(section, -1) {
		listed = append(listed, row[1])
	}
	for _, kind := range effects.Announced() {
		announced = append(announced, kind.String())
	}
	assert.ElementsMatch(t, announced, listed)
}
