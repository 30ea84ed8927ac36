package constraints_test

import (
	"context"
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/constraints"
	"github.com/orrery-go/orrery/shell/jobfile"
)

func page(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("../../docs/constraints.md")
	require.NoError(t, err)
	return string(b)
}

func TestTheExamplesOfTheReferenceAreValid(t *testing.T) {
	c := checker(t, nil, func(o *constraints.Options) {
		o.Tools = map[string]shell.Tool{"command": shell.ToolFunc(nil)}
		o.Secrets = map[string]constraints.Secret{"oncall": {Key: "c2VjcmV0"}}
		o.Notify = func(context.Context, string, effects.Notify) error { return nil }
	})
	examples := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(page(t), -1)
	used := map[string]bool{}
	for _, example := range examples {
		specs, err := jobfile.Parse("constraints.md", []byte("id: report\npodSpec: {containers: [{name: main, image: x}]}\n"+example[1]), jobfile.Options{Validate: c.Validate})
		require.NoError(t, err, example[1])
		var doc struct{ Constraints []map[string]json.RawMessage }
		require.NoError(t, json.Unmarshal(specs[0].ConstraintConfig, &doc))
		for _, entry := range doc.Constraints {
			for typ := range entry {
				used[typ] = true
			}
		}
	}
	for typ := range constraints.BuiltinTypes() {
		assert.True(t, used[typ], "%s has no example", typ)
	}
}

func TestTheReferenceHasEveryConstraintWithItsPhases(t *testing.T) {
	doc := page(t)
	rows := map[string][]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\| ([^|]+) \\| ([^|]+) \\| (yes|no) \\|$").FindAllStringSubmatch(doc, -1) {
		rows[row[1]] = row[2:]
	}
	types := constraints.BuiltinTypes()
	assert.Len(t, rows, len(types))
	for name, typ := range types {
		assert.Contains(t, doc, "\n### "+name+"\n")
		var phases []string
		for _, p := range typ.Phases {
			phases = append(phases, string(p))
		}
		want := []string{strings.Join(phases, ", "), phases[0], "no"}
		if typ.Always {
			want[0], want[1] = strings.Join(phases, " and "), "always both"
		}
		if typ.Advisory {
			want[2] = "yes"
		}
		assert.Equal(t, want, rows[name], name)
	}
}

func TestTheReferenceHasEveryActionAndEveryReference(t *testing.T) {
	doc := page(t)
	for _, action := range constraints.BuiltinActions() {
		assert.Contains(t, doc, "\n| `"+action+"` | ", action)
	}
	assert.Contains(t, doc, "\n`"+strings.Join(constraints.VariableNames(), "`, `")+"`\n")
}
