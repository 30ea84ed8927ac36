package wire

import (
	"encoding/json"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

// ChangeList is the answer to GET /v1/changes/{kind}/{id}: what has changed a machine, newest first.
type ChangeList struct {
	Changes []Change `json:"changes"`
	// Before is the batch in which it goes on behind the last of Changes, for the parameter of that name; 0: it does not.
	Before uint64 `json:"before"`
	// JournalEnds says that Before is older than the journal: no more can be told.
	JournalEnds bool `json:"journal_ends"`
}

// Change is one batch that has changed a machine.
type Change struct {
	Batch    uint64       `json:"batch"`
	At       effects.Time `json:"at"`
	Instance string       `json:"instance"` // that committed it
	// Inputs are those of the machine. If there is none, what another machine did has changed it.
	Inputs []ChangeInput  `json:"inputs"`
	Fields []ChangedField `json:"fields"`
	// Effects are the outer effects, such as runs of tools, for whose answer the machine began or ceased to wait. They follow from the
	// states before and after: events that it announced, and what it sent to other machines, are not among them.
	Effects []ChangeEffect `json:"effects"`
}

// ChangeEffect is what became of an outer effect in a change.
type ChangeEffect struct {
	What   string          `json:"what"` // requested, answered or withdrawn
	Effect string          `json:"effect"`
	Number uint32          `json:"number"` // counts the effects of the machine
	Data   json.RawMessage `json:"data"`
}

// ChangeInput is one input of a machine.
type ChangeInput struct {
	Actor string          `json:"actor"`
	BySet *ChangeSet      `json:"by_set,omitempty"` // the set of files that it came from; left out: from none
	Event string          `json:"event"`
	Data  json.RawMessage `json:"data"`
}

// ChangeSet is the set of files that an input came from.
type ChangeSet struct {
	Set  string `json:"set,omitempty"`  // left out: somebody took over what a set had declared
	File string `json:"file,omitempty"` // where in the set it is declared
	// TakeOver says that it was let change what another set owned.
	TakeOver bool `json:"take_over,omitempty"`
}

// ChangeSetOf gives the set of files that an input came from; nil: from none.
func ChangeSetOf(by *core.Declaration) *ChangeSet {
	if by == nil {
		return nil
	}
	return &ChangeSet{Set: by.Set, File: by.File, TakeOver: by.TakeOver}
}

// Text says for people where an input came from; empty: from no set.
func (s *ChangeSet) Text() string {
	switch {
	case s == nil:
		return ""
	case s.Set == "":
		return "taken over from its set"
	case s.File == "":
		return "set " + s.Set
	}
	return "set " + s.Set + ", " + s.File
}

// ChangedField is what became of one field of a machine's state.
type ChangedField struct {
	Field  string          `json:"field"`
	Before json.RawMessage `json:"before"` // null: the field was not there
	After  json.RawMessage `json:"after"`
}
