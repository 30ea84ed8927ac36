package core_test

import (
	"go/ast"
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The page that leads from each row of 003's tables to its function names functions
// that there are, and the files in which they stand.
func TestEachRowOfTheSpecificationNamesFunctionsThatThereAre(t *testing.T) {
	page, err := os.ReadFile("../docs/architecture.md")
	require.NoError(t, err)
	names, err := filesOfCore()
	require.NoError(t, err)
	there := map[string]bool{}
	for i, f := range parseCore(t) {
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok {
				there[names[i]+" "+fn.Name.Name] = true
			}
		}
	}
	rows := regexp.MustCompile("(?m)^\\|[^|]*\\|[^|]*\\| ((?:`\\w+`(?:, )?)+) \\| `((?:pipeline|strategy)\\w*\\.go)` \\|$").FindAllStringSubmatch(string(page), -1)
	require.Len(t, rows, 17, "rows of Pipeline and of Strategy")
	for _, row := range rows {
		for _, fn := range regexp.MustCompile(`\w+`).FindAllString(row[1], -1) {
			assert.True(t, there[row[2]+" "+fn], "%s has no function %s", row[2], fn)
		}
	}
}
