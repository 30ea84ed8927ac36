package page

import (
	"cmp"
	"net/url"
	"strconv"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

// foundPages are the pages of what the API finds by the beginning of an id, and what it is called.
var foundPages = map[effects.Kind]struct{ page, name string }{
	core.KindAction: {"actions", "action"}, core.KindRecurring: {"recurring", "recurring action"}, core.KindOrchestrator: {"runs", "run"}, core.KindPipeline: {"pipelines", "pipeline"},
	core.KindTask: {"tasks", "task"}, core.KindStrategy: {"strategies", "strategy"}, core.KindBackfill: {"backfills", "backfill"}, core.KindOccurrence: {"occurrences", "time of a schedule"},
}

// findIDs adds what has an id that begins with a text, of all that is stored. A text that is no such beginning finds nothing.
func (q *visit) findIDs(begin string, t *table) error {
	var got wire.FoundList
	err := q.get("/find", url.Values{"q": {begin}, "limit": {strconv.Itoa(pageRows)}}, &got)
	if refused(err) || answered(err, 400) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, f := range got.Found {
		of, ok := foundPages[f.Kind]
		if !ok {
			continue
		}
		name := textOf(cmp.Or(clip(f.Name, 120), shortID(f.ID.String()))).to(q.page(pathOf(of.page, f.ID.String())))
		name.Hint = f.ID.String()
		t.Rows = append(t.Rows, []cell{name.wide(), textOf(of.name), whose(f.Namespace, f.Tenant)})
	}
	return nil
}
