package notify

import (
	"fmt"
	"strings"

	"github.com/orrery-go/orrery/effects/texts"
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
	return fmt.Sprintf("notify channel %q: %s", quoted(e.Channel), e.Problem)
}

// Unwrap gives what the channel said.
func (e *Error) Unwrap() error { return e.Err }

// Permanent reports whether trying again is pointless.
func (e *Error) Permanent() bool { return e.permanent }

// maxQuoted is how much of a value is quoted in an error.
const maxQuoted = 512

// quoted shortens a value that is quoted in an error. Errors are stored as the reason of a
// failure: bytes that are not UTF-8 become U+FFFD, as in all that is stored.
func quoted(s string) string { return strings.ToValidUTF8(texts.Clip(s, maxQuoted), "\uFFFD") }
