package core_test

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// genericFiles serve every machine alike: a new one changes none of them.
var genericFiles = []string{
	"answers.go", "batch.go", "batch_effects.go", "bounds.go", "core.go", "damage.go", "event_codec.go", "journal.go",
	"json.go", "kind_queries.go", "object.go", "owner.go", "pending_effects.go", "transition.go",
}

// TestGenericFilesNameNoMachine holds that kinds.go is the one place that does.
func TestGenericFilesNameNoMachine(t *testing.T) {
	files := map[string]*ast.File{}
	names, err := filesOfCore()
	require.NoError(t, err)
	for i, f := range parseCore(t) {
		files[names[i]] = f
	}
	var machines []string // names of states, of kinds and of the events that only one machine takes
	for kind, types := range sealedEvents(t) {
		for _, e := range types {
			if !declares(files["answers.go"], e) {
				machines = append(machines, e)
			}
		}
		assert.NotEmpty(t, types, "events of %s", kind)
	}
	for _, s := range goldenStates() {
		machines = append(machines, typeName(s))
	}
	var kindNames []string
	for _, want := range wantKinds {
		kindNames = append(kindNames, string(want.kind))
	}
	require.Contains(t, machines, "Action")
	require.Contains(t, machines, "WorkerWake")
	for _, name := range genericFiles {
		require.Contains(t, files, name)
		members := map[*ast.Ident]bool{} // names of fields and methods, which are others' words
		ast.Inspect(files[name], func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				members[n.Sel] = true
			case *ast.CompositeLit:
				_, indexed := n.Type.(*ast.MapType)
				for _, e := range n.Elts {
					if kv, ok := e.(*ast.KeyValueExpr); ok && !indexed {
						if key, ok := kv.Key.(*ast.Ident); ok {
							members[key] = true
						}
					}
				}
			case *ast.BasicLit:
				assert.False(t, n.Kind == token.STRING && slices.Contains(kindNames, strings.Trim(n.Value, "`\"")), "%s names the kind %s", name, n.Value)
			case *ast.Ident:
				assert.False(t, !members[n] && (slices.Contains(machines, n.Name) || strings.HasPrefix(n.Name, "Kind") && n.Name != "Kind"),
					"%s names %s: enter it in the table of kinds instead", name, n.Name)
			}
			return true
		})
	}
}

// declares reports whether a file declares a type of that name.
func declares(f *ast.File, name string) bool {
	found := false
	ast.Inspect(f, func(n ast.Node) bool {
		if spec, ok := n.(*ast.TypeSpec); ok {
			found = found || spec.Name.Name == name
		}
		return true
	})
	return found
}
