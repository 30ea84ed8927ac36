package docs_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// requirements lists the ids that must have a row in conformance.md.
func requirements() []string {
	var ids []string
	for _, span := range []struct {
		letter      string
		first, last int
	}{
		{"A", 1, 10}, {"B", 1, 8}, {"C", 1, 13}, {"D", 1, 20}, {"E", 1, 17}, {"F", 1, 6},
		{"R", 1, 21},
	} {
		for n := span.first; n <= span.last; n++ {
			ids = append(ids, fmt.Sprint(span.letter, n))
		}
	}
	return ids
}

// conformanceRow says which tests show that a requirement is met.
type conformanceRow struct {
	id, text string
	tests    []string // `path/file_test.go:TestName`
}

var codeSpan = regexp.MustCompile("`([^`]+)`")

// parseConformance reads the rows of all tables in the document whose first
// cell is a requirement's id.
func parseConformance(doc string) []conformanceRow {
	id := regexp.MustCompile(`^[A-Z]\d+$`)
	var rows []conformanceRow
	for line := range strings.Lines(doc) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if !strings.HasPrefix(line, "|") || !id.MatchString(cells[0]) {
			continue
		}
		row := conformanceRow{id: cells[0]}
		if len(cells) > 1 {
			row.text = cells[1]
		}
		if len(cells) > 2 {
			for _, m := range codeSpan.FindAllStringSubmatch(cells[2], -1) {
				row.tests = append(row.tests, m[1])
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// conformanceGaps says what is wrong with the table. testsIn gives the names
// of the tests in a file of the repository.
func conformanceGaps(ids []string, rows []conformanceRow, testsIn func(file string) ([]string, error)) []string {
	var gaps []string
	gap := func(format string, args ...any) { gaps = append(gaps, fmt.Sprintf(format, args...)) }
	seen := map[string]bool{}
	for _, row := range rows {
		switch {
		case !slices.Contains(ids, row.id):
			gap("%s: no such requirement", row.id)
		case seen[row.id]:
			gap("%s: has two rows", row.id)
		case row.text == "":
			gap("%s: the row does not say what is required", row.id)
		case len(row.tests) == 0:
			gap("%s: no test shows it", row.id)
		}
		seen[row.id] = true
		for _, ref := range row.tests {
			file, name, ok := strings.Cut(ref, ":")
			if !ok || !strings.HasSuffix(file, "_test.go") {
				gap("%s: `%s` does not read path/file_test.go:TestName", row.id, ref)
				continue
			}
			names, err := testsIn(file)
			if err != nil {
				gap("%s: %v", row.id, err)
			} else if !slices.Contains(names, name) {
				gap("%s: %s has no %s", row.id, file, name)
			}
		}
	}
	for _, id := range ids {
		if !seen[id] {
			gap("%s: has no row", id)
		}
	}
	return gaps
}

// testNames gives the functions of a test file that `go test` runs.
func testNames(file string, src any) ([]string, error) {
	f, err := parser.ParseFile(token.NewFileSet(), file, src, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	isTest := regexp.MustCompile(`^(Test|Fuzz|Example|Benchmark)([^a-z]|$)`)
	var names []string
	for _, decl := range f.Decls {
		if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv == nil && isTest.MatchString(fn.Name.Name) {
			names = append(names, fn.Name.Name)
		}
	}
	return names, nil
}

func TestEveryRequirementNamesTestsThatExist(t *testing.T) {
	rows := parseConformance(readFile(t, "docs/conformance.md"))
	gaps := conformanceGaps(requirements(), rows, func(file string) ([]string, error) {
		return testNames(filepath.Join(root, filepath.FromSlash(file)), nil)
	})
	for _, gap := range gaps {
		t.Errorf("docs/conformance.md: %s", gap)
	}
}

func TestTheConformanceTableShowsItsGaps(t *testing.T) {
	doc := "| id | requirement | tests |\n|---|---|---|\n" +
		"| A1 | one | `a_test.go:TestOne`, `a_test.go:FuzzOne` |\n" +
		"| A2 | two | |\n" +
		"| A3 | | `a_test.go:TestOne` |\n" +
		"| A4 | four | `a_test.go:TestGone` and `gone_test.go:TestOne` |\n" +
		"| A5 | five | `a.go:TestOne`, `TestOne` |\n" +
		"| A1 | again | `a_test.go:TestOne` |\n" +
		"| Z9 | never | `a_test.go:TestOne` |\n"
	rows := parseConformance(doc)
	require.Len(t, rows, 7)
	assert.Equal(t, conformanceRow{"A1", "one", []string{"a_test.go:TestOne", "a_test.go:FuzzOne"}}, rows[0])
	gaps := conformanceGaps([]string{"A1", "A2", "A3", "A4", "A5", "A6"}, rows, func(file string) ([]string, error) {
		if file != "a_test.go" {
			return nil, fmt.Errorf("no file %s", file)
		}
		return testNames(file, "package a; func TestOne() {}; func FuzzOne() {}; func Testimony() {}; func (x) TestGone() {}; func helper() {}")
	})
	assert.Equal(t, []string{
		"A2: no test shows it",
		"A3: the row does not say what is required",
		"A4: a_test.go has no TestGone",
		"A4: no file gone_test.go",
		"A5: `a.go:TestOne` does not read path/file_test.go:TestName",
		"A5: `TestOne` does not read path/file_test.go:TestName",
		"A1: has two rows",
		"Z9: no such requirement",
		"A6: has no row",
	}, gaps)
}
