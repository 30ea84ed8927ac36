package core_test

import (
	"go/ast"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

// filesOfCore lists the package's own files.
func filesOfCore() ([]string, error) {
	entries, err := os.ReadDir(".")
	var out []string
	for _, e := range entries {
		if name := e.Name(); filepath.Ext(name) == ".go" && !strings.HasSuffix(name, "_test.go") {
			out = append(out, name)
		}
	}
	return out, err
}

// sealedEvents reads from the source which types belong to the sealed event
// interface of each machine.
func sealedEvents(t *testing.T) map[effects.Kind][]string {
	t.Helper()
	seals := map[string]effects.Kind{}
	members := map[effects.Kind][]string{}
	files := parseCore(t)
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			if iface, ok := spec.Type.(*ast.InterfaceType); ok && strings.HasSuffix(spec.Name.Name, "Event") {
				for _, m := range iface.Methods.List {
					if len(m.Names) == 1 && !m.Names[0].IsExported() {
						kind := effects.Kind(strings.ToLower(strings.TrimSuffix(spec.Name.Name, "Event")))
						seals[m.Names[0].Name] = kind
					}
				}
			}
			return true
		})
	}
	for _, f := range files {
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Recv == nil {
				continue
			}
			if kind, ok := seals[fn.Name.Name]; ok {
				if recv, ok := fn.Recv.List[0].Type.(*ast.Ident); ok {
					members[kind] = append(members[kind], recv.Name)
				}
			}
		}
	}
	return members
}

func TestEverySealedEventInterfaceIsCovered(t *testing.T) {
	sealed := sealedEvents(t)
	var found []effects.Kind
	for kind, types := range sealed {
		found = append(found, kind)
		require.NotEmpty(t, types)
		assert.NotEmpty(t, invariants[kind], "invariants of %s", kind)
	}
	assert.ElementsMatch(t, kinds, found, "a machine was added: give it traces, invariants, a generator and a golden file")
}

func TestTheCodecKnowsEveryEvent(t *testing.T) {
	for kind, types := range sealedEvents(t) {
		golden := goldenEvents()[kind]
		var names []string
		for _, e := range golden {
			names = append(names, typeName(e))
			checkEventJSON(t, kind, e)
		}
		assert.Subset(t, names, types, "golden events of %s", kind)
		_, err := core.DecodeEvent(kind, []byte(`{"type":"no such"}`))
		assert.EqualError(t, err, "decode event of "+string(kind)+`: type "no such" is unknown`)
	}
}
