package git

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"github.com/orrery-go/orrery/shell/internal/clip"
)

const (
	maxFiles      = 1000     // that an error carries
	maxFilesShown = 20       // in its text
	maxStderr     = 2 << 10  // that an error carries, in bytes
	maxStderrKept = 64 << 10 // of one command
)

// Error says why an effect was not carried out.
type Error struct {
	Op     string   // "worktree add", "worktree remove" or "merge"
	Repo   string   // as the effect names it
	Branch string   // as the effect names it; empty: none
	Reason string   // what is wrong, and what would be right
	Files  []string // those that are in the way or in conflict, from the worktree's top; at most 1000
	Stderr string   // what git said, at most 2 KiB
	Err    error    // what lies under it, or nil

	permanent bool
}

// Error names the operation, the repository, the branch, the reason and the
// first files.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Op)
	if e.Branch != "" {
		fmt.Fprintf(&b, " of %q", clip.Text(e.Branch, 100))
	}
	if e.Repo != "" {
		fmt.Fprintf(&b, " in %q", clip.Text(e.Repo, 200))
	}
	b.WriteString(": " + e.Reason)
	if len(e.Files) > 0 {
		b.WriteString(": " + fileList(e.Files))
	}
	if e.Err != nil {
		fmt.Fprintf(&b, ": %v", e.Err)
	}
	if e.Stderr != "" {
		b.WriteString(": git says: " + oneLine(e.Stderr))
	}
	return b.String()
}

// Unwrap gives what lies under it.
func (e *Error) Unwrap() error { return e.Err }

// Permanent reports whether the same effect would fail again unless somebody
// changes the effect or the repository.
func (e *Error) Permanent() bool { return e.permanent }

func fileList(files []string) string {
	var shown []string
	for _, f := range files[:min(len(files), maxFilesShown)] {
		shown = append(shown, strconv.Quote(clip.Text(f, 200)))
	}
	text := strings.Join(shown, ", ")
	if more := len(files) - len(shown); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// oneLine makes one line of text, without what could forge a log or drive a
// terminal.
func oneLine(s string) string {
	s = strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
}

// commandError says that a git command failed.
type commandError struct {
	args   []string
	code   int // -1: it was ended, or never started
	stderr string
	err    error
}

func (e *commandError) Error() string {
	return fmt.Sprintf("git %s: %v", e.args[0], e.err)
}

func (e *commandError) Unwrap() error { return e.err }

// exitCode gives the exit code of a git command that ran to its end.
func exitCode(err error) int {
	if c, ok := errors.AsType[*commandError](err); ok {
		return c.code
	}
	return -1
}

// stderrText gives what git wrote to stderr, clipped, without its advice: that speaks
// of conflicts also where there are none.
func stderrText(err error) string {
	var kept []string
	for line := range strings.Lines(stderrOf(err)) {
		if !strings.HasPrefix(line, "hint:") {
			kept = append(kept, line)
		}
	}
	return clip.Text(strings.TrimSpace(strings.Join(kept, "")), maxStderr)
}

func stderrOf(err error) string {
	if c, ok := errors.AsType[*commandError](err); ok {
		return c.stderr
	}
	return ""
}

// operation is the context of an error: which effect it is about.
type operation struct {
	name, repo, branch string
}

// refuse makes an error that the same effect would meet again.
func (o operation) refuse(format string, args ...any) *Error {
	e := o.fail(nil, format, args...)
	e.permanent = true
	return e
}

// fail makes an error that may go away by itself.
func (o operation) fail(err error, format string, args ...any) *Error {
	e := &Error{Op: o.name, Repo: o.repo, Branch: o.branch, Reason: fmt.Sprintf(format, args...), Err: err}
	e.Stderr = stderrText(err)
	return e
}

// wrap keeps an *Error as it is, and puts any other into one.
func (o operation) wrap(ctx context.Context, err error, doing string) error {
	if err == nil {
		return nil
	}
	if own, ok := errors.AsType[*Error](err); ok {
		return own
	}
	if ctx.Err() != nil {
		return o.fail(context.Cause(ctx), "stopped: %s", doing)
	}
	return o.fail(err, "%s", doing)
}

func (e *Error) withFiles(files []string) *Error {
	e.Files = files[:min(len(files), maxFiles)]
	return e
}
