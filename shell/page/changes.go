package page

import (
	"encoding/json"
	"net/url"
	"strconv"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

// changesLink leads to what has changed a machine.
func (q *visit) changesLink(kind effects.Kind, id string) link {
	return link{Text: "Who changed it", Href: q.page(pathOf("changes", string(kind), id))}
}

// changes tells from the journal what has changed a machine.
func (q *visit) changes() (view, error) {
	kind, id := q.PathValue("kind"), q.PathValue("id")
	var got wire.ChangeList
	if err := q.get(pathOf("changes", kind, id), url.Values{"limit": {"50"}}, &got); err != nil {
		return view{}, err
	}
	of := pageOf(effects.Kind(kind))
	v := view{Kind: "Changes of", Title: of.name + " " + shortID(id)}
	if of.path != "" {
		path, name := listOf(of.path)
		v.Crumbs = []link{{Text: name, Href: q.page(path)}, {Text: shortID(id), Href: q.page(pathOf(of.path, id))}}
	}
	t := &table{Caption: "Changes, newest first", Head: []string{"When", "By", "What came", "What changed", "Batch"}}
	for _, c := range got.Changes {
		t.Rows = append(t.Rows, q.changeRow(c))
	}
	b := block{Table: t}
	switch {
	case got.JournalEnds:
		b.Note = "The journal begins after batch " + strconv.FormatUint(got.Before, 10) + ", which changed it before: no more can be told."
	case got.Before != 0:
		b.Note = "These are the last " + strconv.Itoa(len(got.Changes)) + " changes; orreryd history tells all of them, from a backup."
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
		if i == 0 {
			by, came = who, what
			continue
		}
		by.More, came.More = append(by.More, who), append(came.More, what)
	}
	var fields cell
	for _, f := range c.Fields {
		fields.Lines = append(fields.Lines, f.Field+": "+shortJSON(f.Before)+" → "+shortJSON(f.After))
	}
	return []cell{q.at(c.At), by, came.wide(), fields.wide(), number(c.Batch)}
}

// shortJSON shows a value on one line.
func shortJSON(raw json.RawMessage) string {
	if string(raw) == "null" || len(raw) == 0 {
		return "nothing"
	}
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return clip(s, 200)
	}
	return clip(string(raw), 200)
}
