package core

import (
	"slices"
	"strings"
)

// OrchestratorEdges gives each edge of the map with what takes it: the types of the
// events, and the name of a method.
func OrchestratorEdges(each func(from, to OrchestratorStatus, events []string, by string)) {
	for _, from := range OrchestratorStatuses() {
		for _, edge := range transitions[from] {
			each(from, edge.to, slices.DeleteFunc(strings.Split(edge.on, ", "), func(e string) bool { return e == "" }), edge.by)
		}
	}
}
