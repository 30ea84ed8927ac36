package page

import (
	"strings"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

// A kindPage says where the machines of a kind have their pages, and what one of them is called.
type kindPage struct {
	kind effects.Kind
	path string // of the API below /v1, and of the pages; the id stands behind it
	name string
}

// kindPages are those of the machines that are known by their ids, in the order in which an id is tried.
var kindPages = [...]kindPage{
	{core.KindAction, "actions", "action"}, {core.KindRecurring, "recurring", "recurring action"}, {core.KindOrchestrator, "runs", "run"}, {core.KindPipeline, "pipelines", "pipeline"},
	{core.KindTask, "tasks", "task"}, {core.KindStrategy, "strategies", "strategy"}, {core.KindBackfill, "backfills", "backfill"},
}

// pageOf gives the page of a kind. One whose machines are known by their names has no path.
func pageOf(kind effects.Kind) kindPage {
	for _, p := range kindPages {
		if p.kind == kind {
			return p
		}
	}
	return kindPage{kind: kind, name: strings.ReplaceAll(string(kind), "_", " ")}
}
