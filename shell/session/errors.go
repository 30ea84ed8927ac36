package session

import (
	"errors"
	"fmt"
)

var (
	// ErrNotFound says that there is no session of that name, neither alive nor
	// ended.
	ErrNotFound = errors.New("there is no such session")
	// ErrEnded says that the session's program has ended, so that nobody reads
	// what is typed.
	ErrEnded = errors.New("the session has ended")
	// ErrClosed says that [Sessions.Close] was called.
	ErrClosed = errors.New("the sessions are closed")
)

// Error says what could not be done with which session. Unwrap gives the cause,
// such as [ErrNotFound].
type Error struct {
	Op      string // "spawn", "send", "kill", "nudge", "capture"
	Session string
	Err     error
}

// Error gives "spawn session "build": …".
func (e *Error) Error() string {
	return fmt.Sprintf("%s session %q: %v", e.Op, quoted(e.Session), e.Err)
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// Permanent reports whether trying again would come to the same: the effect
// itself is wrong, or what it needs is gone.
func (e *Error) Permanent() bool {
	var invalid *invalidError
	return errors.As(e.Err, &invalid) || errors.Is(e.Err, ErrNotFound) || errors.Is(e.Err, ErrEnded)
}

// invalidError is a field of an effect that is wrong and always will be.
type invalidError struct{ reason string }

func (e *invalidError) Error() string { return e.reason }

func invalid(format string, args ...any) error {
	return &invalidError{reason: fmt.Sprintf(format, args...)}
}

// maxQuoted is how much of a value is quoted in an error.
const maxQuoted = 200

// quoted shortens a value that is quoted in an error. Errors are stored as the reason of a
// failure, in which the bytes of a parted character stand as escapes.
func quoted(s string) string {
	if len(s) > maxQuoted {
		return s[:maxQuoted] + "…"
	}
	return s
}
