package page

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
	"github.com/orrery-go/orrery/shell/internal/plainjson"
)

// changesLink leads to what has changed a machine; of those that programs change all the time, to what somebody asked for.
func (q *visit) changesLink(kind effects.Kind, id string) link {
	asked := ""
	switch kind {
	case core.KindQueue, core.KindTask, core.KindLock, core.KindSemaphore:
		asked = "true"
	}
	return link{Text: "Who changed it", Href: q.page(pathOf("changes", string(kind), id), askedFilter.Name, asked)}
}

// askedFilter leaves out of the changes what nobody asked for.
var askedFilter = field{Name: "asked", Label: "Changes", Type: fieldChoice, Options: []option{{"", "all"}, {"true", "what somebody asked for"}}}

// changes tells from the journal what has changed a machine.
func (q *visit) changes() (view, error) {
	kind, id := q.PathValue("kind"), q.PathValue("id")
	path := pathOf("changes", kind, id)
	f, params, err := q.filtered(path, []field{askedFilter})
	if err != nil {
		return view{}, err
	}
	before := q.URL.Query().Get("before")
	params.Set("limit", strconv.Itoa(pageRows))
	params.Set("before", before)
	var got wire.ChangeList
	if err := q.get(path, params, &got); err != nil {
		return view{}, err
	}
	of := pageOf(effects.Kind(kind))
	v := view{Kind: "Changes of", Title: of.name + " " + shortID(id)}
	if of.path != "" {
		path, name := listOf(of.path)
		v.Crumbs = []link{{Text: name, Href: q.page(path)}, {Text: shortID(id), Href: q.page(pathOf(of.path, id))}}
	}
	t := &table{Caption: "Changes, newest first", Head: []string{"When", "By", "What came", "What changed", "Effects", "Batch"}, Filter: f, Empty: "There is no such change here."}
	for _, c := range got.Changes {
		t.Rows = append(t.Rows, q.changeRow(c))
	}
	asked := params.Get(askedFilter.Name)
	if before != "" {
		t.First = q.page(path, askedFilter.Name, asked)
	}
	b := block{Table: t, Note: "Effects are runs of tools, input of sessions and the like, for whose answer it began or ceased to wait. Events that it announced, and what it sent to other machines, are not stored."}
	switch {
	case got.JournalEnds:
		b.Note = "The journal begins after batch " + strconv.FormatUint(got.Before, 10) + ", which changed it before: no more can be told. " + b.Note
	case got.Before != 0:
		t.Next = q.page(path, askedFilter.Name, asked, "before", strconv.FormatUint(got.Before, 10))
		if asked != "" && len(got.Changes) < pageRows {
			b.Note = "Not all of its changes were looked at: the next page goes on with those before. " + b.Note
		}
	}
	v.Body = []block{b}
	return v, nil
}

func (q *visit) changeRow(c wire.Change) []cell {
	by, came := cell{Text: "another machine"}, cell{}
	for i, in := range c.Inputs {
		who, what := textOf(clip(in.Actor, 100)), codeOf(in.Event)
		if data := string(in.Data); data != "{}" && data != "" {
			what.Hint = clip(data, 300)
		}
		if set := in.BySet.Text(); set != "" {
			who.Hint = clip(set, 200)
			who.Text += " (" + clip(set, 100) + ")"
		}
		if i == 0 {
			by, came = who, what
			continue
		}
		by.More, came.More = append(by.More, who), append(came.More, what)
	}
	var fields cell
	for _, f := range c.Fields {
		if none(f.Before) && none(f.After) { // what came to be without it
			continue
		}
		fields.Lines = append(fields.Lines, f.Field+": "+shortJSON(f.Before)+" → "+shortJSON(f.After))
	}
	var effs cell
	for _, e := range c.Effects {
		effs.Lines = append(effs.Lines, e.What+" "+strings.ReplaceAll(e.Effect, "_", " ")+": "+clip(string(plainjson.Readable(e.Data)), 200))
	}
	return []cell{q.at(c.At), by, came.wide(), fields.wide(), effs.wide(), number(c.Batch)}
}

// none reports whether a value says that there is nothing.
func none(raw json.RawMessage) bool {
	return len(raw) == 0 || string(raw) == "null" || string(raw) == `""`
}

// shortJSON shows a value on one line.
func shortJSON(raw json.RawMessage) string {
	if none(raw) {
		return "nothing"
	}
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return clip(s, 200)
	}
	return clip(string(raw), 200)
}
