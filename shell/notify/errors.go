package notify

import (
	"errors"
	"fmt"
	"strings"

	"github.com/orrery-go/orrery/internal/texts"
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
	return fmt.Sprintf("notify channel %q: %s", clip(e.Channel), e.Problem)
}

// Unwrap gives what the channel said.
func (e *Error) Unwrap() error { return e.Err }

// Permanent reports whether trying again is pointless.
func (e *Error) Permanent() bool { return e.permanent }

func permanent(err error) bool {
	var p interface{ Permanent() bool }
	return errors.As(err, &p) && p.Permanent()
}

// clip shortens what is quoted in an error, and makes it valid UTF-8.
func clip(s string) string { return strings.ToValidUTF8(texts.Clip(s, 512), "\uFFFD") }
