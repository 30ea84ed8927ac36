package page

import (
	"cmp"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

// listed is what is read of a thing of any kind, in a list or alone. Each kind has some of the fields.
type listed struct {
	ID             string                `json:"id"`
	RunID          string                `json:"run_id"`
	Namespace      string                `json:"namespace"`
	Tenant         string                `json:"tenant"`
	Label          string                `json:"label"`
	Name           string                `json:"name"`
	Description    *string               `json:"description"`
	ToolName       string                `json:"tool_name"`
	Provider       string                `json:"provider"`
	ActionType     string                `json:"action_type"`
	ActionTemplate listedTemplate        `json:"action_template"` // of a recurring action alone; a list has its parts
	Definition     struct{ Name string } `json:"definition"`      // of a pipeline alone; a list has its name
	SessionID      string                `json:"session_id"`
	CreatedAt      effects.Time          `json:"created_at"`
}

type listedTemplate struct {
	ActionType string `json:"action_type"`
}

// name is what people call the thing, on each page: what it was given, or else what it does; empty if it has nothing of that.
// Those that are known by an id of their own, such as jobs, have it as ID.
func (l *listed) name() string {
	name := cmp.Or(l.Label, l.RunID, l.Name, or(l.Description))
	switch {
	case name != "":
	case l.ToolName != "":
		name = core.ActionSpec{ToolName: l.ToolName, ActionType: l.ActionType}.Title()
	default:
		name = cmp.Or(l.ActionTemplate.ActionType, l.ActionType, l.Definition.Name, l.SessionID)
	}
	return clip(name, 120)
}
