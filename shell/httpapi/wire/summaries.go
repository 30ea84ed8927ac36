package wire

import (
	"bytes"
	"encoding/json"

	"github.com/orrery-go/orrery/core"
)

// ActionSummary is an action as lists show it: tool_input, trigger.raw_payload and the
// results of its status and of its last run are left out unless the list was asked for
// them. In an ActionSummary they are nil if they are left out.
type ActionSummary core.Action

// MarshalJSON encodes the action without what is left out.
func (a ActionSummary) MarshalJSON() ([]byte, error) {
	b := core.Action(a).AppendJSON(nil)
	if a.ToolInput == nil {
		b = without(b, "tool_input")
	}
	if a.Status.Result == nil {
		b = without(b, "status", "result")
	}
	if a.LastRun != nil && a.LastRun.Status.Result == nil {
		b = without(b, "last_run", "status", "result")
	}
	if a.Trigger.RawPayload == nil {
		b = without(b, "trigger", "raw_payload")
	}
	return b, nil
}

// UnmarshalJSON decodes what there is.
func (a *ActionSummary) UnmarshalJSON(b []byte) error { return json.Unmarshal(b, (*core.Action)(a)) }

// ItemSummary is an item of a queue as lists show it: data and the result of its state are
// left out unless the list was asked for them. In an ItemSummary they are nil if they are
// left out.
type ItemSummary core.QueueItem

// MarshalJSON encodes the item without what is left out.
func (i ItemSummary) MarshalJSON() ([]byte, error) {
	b := core.QueueItem(i).AppendJSON(nil)
	if i.Data == nil {
		b = without(b, "data")
	}
	return b, nil // an empty result is never encoded
}

// UnmarshalJSON decodes what there is.
func (i *ItemSummary) UnmarshalJSON(b []byte) error { return json.Unmarshal(b, (*core.QueueItem)(i)) }

// without takes the member that the path leads to out of a compact JSON object; nothing if
// there is none.
func without(b []byte, path ...string) []byte {
	at := 0 // of the object in which the member is looked for
	for depth, name := range path {
		start, value, end := member(b[at:], name)
		if start < 0 {
			return b
		}
		if depth < len(path)-1 {
			at += value
			continue
		}
		start, end = at+start, at+end
		switch {
		case b[end] == ',':
			end++ // the comma behind it goes, too
		case b[start-1] == ',':
			start-- // it was the last one
		}
		return append(b[:start], b[end:]...)
	}
	return b
}

// member finds a member of the object that b begins with: where its name and its value
// begin, and where the value ends; -1 if there is none.
func member(b []byte, name string) (start, value, end int) {
	if len(b) == 0 || b[0] != '{' {
		return -1, -1, -1
	}
	for i := 1; i < len(b) && b[i] == '"'; {
		colon := valueEnd(b, i)
		stop := valueEnd(b, colon+1)
		if bytes.Equal(b[i+1:colon-1], []byte(name)) {
			return i, colon + 1, stop
		}
		if b[stop] != ',' {
			break
		}
		i = stop + 1
	}
	return -1, -1, -1
}

// valueEnd gives the index behind the value that begins at i.
func valueEnd(b []byte, i int) int {
	depth := 0
	for ; i < len(b); i++ {
		switch b[i] {
		case '"':
			for i++; b[i] != '"'; i++ {
				if b[i] == '\\' {
					i++
				}
			}
			if depth == 0 {
				return i + 1
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
			if depth < 0 {
				return i
			}
		case ',':
			if depth == 0 {
				return i
			}
		}
	}
	return i
}
