package notify

import (
	"fmt"

	"github.com/orrery-go/orrery/shell/internal/clip"
)

// Error says why a notification was not delivered.
type Error struct {
	Channel string // its name; empty where none was found out
	Problem string
	Err     error // what the channel said; nil where none was asked

	permanent bool
}

// Error names the channel and the problem.
func (e *Error) Error() string {
	if e.Channel == "" {
		return "notify: " + e.Problem
	}
	return fmt.Sprintf("notify channel %q: %s", clip.Text(e.Channel, maxQuoted), e.Problem)
}

// Unwrap gives what the channel said.
func (e *Error) Unwrap() error { return e.Err }

// Permanent reports whether trying again is pointless.
func (e *Error) Permanent() bool { return e.permanent }

// maxQuoted is how much of a value is quoted in an error.
const maxQuoted = 512
