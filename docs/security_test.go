package docs_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// unshown lists what stands in security.md besides headings, tables, examples of
// configuration and the introduction: a sentence about security must be a row, with
// its tests.
func unshown(doc string) []string {
	var found []string
	inCode, inIntroduction := false, true
	for line := range strings.Lines(doc) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "```"):
			inCode = !inCode
		case inCode, line == "", strings.HasPrefix(line, "|"), strings.HasPrefix(line, "<!--"), strings.HasPrefix(line, "# "):
		case strings.HasPrefix(line, "## "):
			inIntroduction = false
		case !inIntroduction:
			found = append(found, line)
		}
	}
	return found
}

func TestEverySentenceAboutSecurityNamesTestsThatExist(t *testing.T) {
	doc := readFile(t, "docs/security.md")
	assert.Empty(t, unshown(doc), "write it as a row of a table, with its tests")
	rows := parseConformance(doc)
	require.NotEmpty(t, rows)
	ids := make([]string, len(rows))
	for i := range rows {
		ids[i] = fmt.Sprint("S", i+1) // in order, so that a new row shows
	}
	gaps := conformanceGaps(ids, rows, func(file string) ([]string, error) {
		return testNames(filepath.Join(root, filepath.FromSlash(file)), nil)
	})
	for _, gap := range gaps {
		t.Errorf("docs/security.md: %s", gap)
	}
	for _, row := range rows {
		assert.Regexp(t, `[.:]$`, row.text, "%s is a sentence", row.id)
	}
}

func TestWhatIsNotShownByATestIsFound(t *testing.T) {
	doc := "# Security\n\nAn introduction.\n\n## One\n\n| id | what holds | tests |\n|---|---|---|\n| S1 | Yes. | `a_test.go:TestA` |\n\n```toml\na = 1\n```\n\nA claim.\n"
	assert.Equal(t, []string{"A claim."}, unshown(doc))
}
