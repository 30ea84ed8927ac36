package docs_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
)

const orchestratorPage = "docs/orchestrator.md"

func TestTheOrchestratorPageDrawsTheMapOfTheCode(t *testing.T) {
	_, fences := splitMarkdown(readFile(t, orchestratorPage))
	drawn := 0
	for _, f := range fences {
		if f.lang == "mermaid" {
			assert.Equal(t, core.OrchestratorDiagram(), f.text, "%s:%d: copy what core.OrchestratorDiagram gives", orchestratorPage, f.line)
			drawn++
		}
	}
	assert.Equal(t, 1, drawn)
}

func TestTheOrchestratorPageExplainsEveryState(t *testing.T) {
	var rows []string
	for line := range strings.Lines(readFile(t, orchestratorPage)) {
		if state, ok := strings.CutPrefix(line, "| `"); ok {
			state, _, _ = strings.Cut(state, "`")
			rows = append(rows, state)
		}
	}
	var want []string
	for _, state := range core.OrchestratorStatuses() {
		want = append(want, string(state))
	}
	require.Equal(t, want, rows)
}
