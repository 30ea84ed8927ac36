package text

import "strings"

// Colour is the escape sequence (SGR) of a colour of a terminal; empty: none.
type Colour string

// The colours of states.
const (
	Green  Colour = "\x1b[32m"
	Red    Colour = "\x1b[31m"
	Yellow Colour = "\x1b[33m"
	Cyan   Colour = "\x1b[36m"
)

// Paint gives a text in a colour.
func (c Colour) Paint(s string) string {
	if c == "" {
		return s
	}
	return string(c) + s + "\x1b[0m"
}

// stateColours has the words of states that have a colour: what has ended well is green, what
// failed red, what runs cyan, and what waits or is paused yellow.
var stateColours = map[string]Colour{
	"completed": Green, "done": Green, "succeeded": Green, "success": Green, "up": Green, "met": Green,
	"works": Green,

	"failed": Red, "failure": Red, "error": Red, "dead": Red, "exhausted": Red, "orphaned": Red, "stuck": Red,
	"missed": Red, "violated": Red, "down": Red,

	"running": Cyan, "processing": Cyan, "busy": Cyan, "condition_running": Cyan, "action_running": Cyan,
	"container_creating": Cyan, "terminating": Cyan,

	"paused": Yellow, "pending": Yellow, "waiting": Yellow, "waits": Yellow, "blocked": Yellow, "delayed": Yellow, "init": Yellow,
	"disabled": Yellow, "degraded": Yellow, "retrying": Yellow, "pre_run": Yellow, "condition_pending": Yellow, "action_pending": Yellow,
}

// StateColour is the colour of a state, which may be followed by more: "running (checks)". Of
// "done: failed" the result counts.
func StateColour(state string) Colour {
	if result, ok := strings.CutPrefix(state, "done: "); ok {
		state = result
	}
	word := strings.FieldsFunc(state, func(r rune) bool { return (r < 'a' || r > 'z') && r != '_' && r != '-' })
	if len(word) == 0 || !strings.HasPrefix(state, word[0]) {
		return ""
	}
	return stateColours[word[0]]
}
