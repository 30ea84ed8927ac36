package engine_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

// allowed are the names that the engine may use of packages in which machines, or their
// effects, have names, too.
var allowed = map[string][]string{
	"core": {
		// what any machine is
		"State", "Event", "Input", "Result", "Change", "Clock", "Cursor", "Version", "DecodeState", "DecodeStateOf", "EncodeAnswer", "DecodeAnswer", "EndedAt", "MustBeKept", "CheckRevision", "AppendEvent", "DecodeEvent", "TermAll", "TermEnded", "TermWithin", "TenantOfTerm", "IndexVersion", "ReindexedKinds", "FormerTerms", "Scope", "ScopeOf", "StoredScope",
		// batches and their journal
		"Batch", "NewBatch", "Entry", "Absence", "AbsenceCause", "AbsentStopped", "AbsentKilled", "AbsentSuspended", "AbsentClockSet", "AbsentJump", "AbsentOff", "AbsentPaused", "Informs", "Informed", "NewEntry", "Given", "Allowance", "Full", "Subscriber", "CheckPartition", "CheckPartitions",
		// by kind
		"DueEvent", "ExpireEvent", "InterruptEvent", "HandBackEvent", "AnswerEvent", "Failure", "OutstandingEffect", "Awaits", "Stopping", "StoppedEffect", "OuterEffectKinds",
		"Retentions", "Retention", "RetentionClass", "Cacheable", "Shared", "Whole", "Held", "ScansAll", "HeardOn", "Names", "Paced", "PacedWith", "KeepsLogs", "Shortens", "Shortened", "Given", "ReasonRecovered",
	},
	"effects": {"Ref", "Kind", "Time", "TimeOf", "Event", "Outer", "DecodeOuter", "Refused", "CodeInvalid"},
}

func TestTheEngineNamesNoMachine(t *testing.T) {
	files, err := os.ReadDir(".")
	require.NoError(t, err)
	for _, entry := range files {
		if !strings.HasSuffix(entry.Name(), ".go") || strings.HasSuffix(entry.Name(), "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), entry.Name(), nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, imported := range file.Imports {
			path, err := strconv.Unquote(imported.Path.Value)
			require.NoError(t, err)
			own, ours := strings.CutPrefix(path, "github.com/orrery-go/orrery/")
			assert.True(t, !ours || slices.Contains([]string{"core", "effects", "store"}, own), "%s imports %s", entry.Name(), path)
			assert.Nil(t, imported.Name, "%s renames %s", entry.Name(), path)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if text, ok := n.(*ast.BasicLit); ok && text.Kind == token.STRING {
				name, err := strconv.Unquote(text.Value)
				require.NoError(t, err)
				_, err = core.DecodeState(effects.Kind(name), nil)
				assert.ErrorContains(t, err, "is unknown", "%s names the kind %s", entry.Name(), text.Value)
			}
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if pkg, ok := sel.X.(*ast.Ident); ok {
				names, checked := allowed[pkg.Name]
				assert.True(t, !checked || slices.Contains(names, sel.Sel.Name), "%s names %s.%s", entry.Name(), pkg.Name, sel.Sel.Name)
			}
			return true
		})
	}
}
