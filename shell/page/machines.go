package page

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/internal/plainjson"
)

// machine leads to a machine that something names by its kind and id. One that is known by its name alone is
// shown without a link.
func (q *visit) machine(ref effects.Ref) cell {
	if ref.IsZero() {
		return cell{}
	}
	of := pageOf(ref.Kind)
	c := codeOf(of.name + " " + shortID(ref.ID.String()))
	if of.path == "" {
		return c
	}
	return c.to(q.page(pathOf(of.path, ref.ID.String())))
}

// holder shows who holds something: a machine, a run of a job, or somebody from outside.
func (q *visit) holder(name string, owner core.Owner) cell {
	switch run, ok := core.RunOfLockHolder(name); {
	case !owner.IsZero():
		return q.machine(owner.Ref)
	case ok:
		return q.machine(effects.Ref{Kind: core.KindOrchestrator, ID: run})
	}
	return codeOf(clip(name, 200))
}

// number shows a number, also 0: [count] leaves that out.
func number[N uint32 | uint64 | int | int32 | int64](n N) cell {
	return textOf(fmt.Sprint(n))
}

// badCount shows a number that should be 0.
func badCount(n uint64) cell {
	c := number(n)
	if n > 0 {
		c.Tone = toneBad
	}
	return c
}

// millis shows a length in milliseconds; nothing if there is none.
func millis(ms int64) cell {
	if ms <= 0 {
		return cell{}
	}
	return textOf(precisely(time.Duration(ms) * time.Millisecond))
}

// jsonValue shows JSON in one line.
func jsonValue(raw json.RawMessage) cell {
	if len(raw) == 0 {
		return cell{}
	}
	return codeOf(clip(string(plainjson.Readable(raw)), 300))
}

// asJSON shows what the API has as an object.
func asJSON(title string, v any) block {
	raw, err := plainjson.Marshal(v)
	if err != nil { // it was decoded from JSON
		return block{Title: title, Empty: "It cannot be shown."}
	}
	return block{Title: title, Text: jsonText(raw)}
}

// indented gives a value as the text of a JSON field.
func indented(v any) string {
	raw, err := plainjson.Marshal(v)
	if err != nil { // it was decoded from JSON
		return ""
	}
	return indentedJSON(raw)
}

// maxIndented is how deep JSON may be to be shown with an indent: what is as deep as decoders allow would become thousands
// of times as long by it.
const maxIndented = 50

// indentedJSON writes JSON with an indent, or as it is if it is too deep for one.
func indentedJSON(raw json.RawMessage) string {
	raw = plainjson.Readable(raw)
	var b bytes.Buffer
	if depthOf(raw) > maxIndented || json.Indent(&b, raw, "", "  ") != nil {
		return string(raw)
	}
	return b.String()
}

// depthOf says how deep JSON is.
func depthOf(raw []byte) (most int) {
	depth, text := 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case text && c == '\\':
			i++
		case c == '"':
			text = !text
		case text:
		case c == '{' || c == '[':
			depth++
			most = max(most, depth)
		case c == '}' || c == ']':
			depth--
		}
	}
	return most
}

// whyNotice shows why something ended; nothing if it is not said.
func whyNotice(why string, t tone) []block {
	if why == "" {
		return nil
	}
	return []block{{Notice: &notice{Text: why, Tone: t}}}
}

// reasonField asks for the reason of an act.
var reasonField = field{Name: "reason", Label: "Reason", Help: "Shown to whoever asks why."}

// sortedLines sorts the lines of a cell.
func sortedLines(c cell) cell {
	slices.Sort(c.Lines)
	return c
}
