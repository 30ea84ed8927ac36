package command

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/internal/clip"
)

// StartError says that a program was never started. Nothing of it ran, so it is
// always safe to try again.
type StartError struct {
	Command string // argv[0]
	Problem string // what is wrong and what would be right
	Err     error  // the system's error
}

// Error names the program and the problem.
func (e *StartError) Error() string {
	return fmt.Sprintf("command %q was not started: %s", clip.Text(e.Command, maxQuoted), e.Problem)
}

// Unwrap gives the system's error.
func (e *StartError) Unwrap() error { return e.Err }

// Exhausted reports whether the system lacked descriptors, processes or memory,
// so that the same input may well start later.
func (e *StartError) Exhausted() bool {
	lacking := []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.EAGAIN, syscall.ENOMEM}
	return slices.ContainsFunc(lacking, func(errno syscall.Errno) bool { return errors.Is(e.Err, errno) })
}

// Permanent reports whether the same input would not start later either: there is no such
// program, it is none, or it may not be run.
func (e *StartError) Permanent() bool {
	lasting := []error{exec.ErrNotFound, exec.ErrDot, fs.ErrNotExist, fs.ErrPermission, syscall.ENOEXEC, syscall.E2BIG}
	return slices.ContainsFunc(lasting, func(err error) bool { return errors.Is(e.Err, err) })
}

// NotStarted reports whether the engine is to try again by itself: see [shell.NotStarted].
func (e *StartError) NotStarted() bool { return e.Exhausted() }

func startError(argv0, dir string, err error) error {
	return &StartError{Command: argv0, Problem: startProblem(argv0, dir, err), Err: err}
}

func startProblem(argv0, dir string, err error) string {
	switch {
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return fmt.Sprintf("out of file descriptors: raise the daemon's limit (ulimit -n) or run fewer actions at once (%v)", err)
	case errors.Is(err, syscall.EAGAIN):
		return fmt.Sprintf("out of processes or threads: raise the daemon's limit (ulimit -u) or run fewer actions at once (%v)", err)
	case errors.Is(err, syscall.ENOMEM):
		return fmt.Sprintf("out of memory (%v)", err)
	case errors.Is(err, syscall.E2BIG):
		return fmt.Sprintf("its arguments and environment are too long for the system: use stdin or a file (%v)", err)
	case errors.Is(err, syscall.ENOEXEC):
		return "it is not a program that this system can run: a script needs a first line such as #!/bin/sh"
	case errors.Is(err, exec.ErrNotFound):
		return "it is not found in the daemon's PATH: install it or give its full path"
	case errors.Is(err, exec.ErrDot):
		return "it is found in the current directory only: give its full path"
	}
	path := argv0
	if !filepath.IsAbs(path) && strings.ContainsRune(path, filepath.Separator) {
		path = filepath.Join(dir, path)
	}
	info, statErr := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && statErr == nil:
		return "it exists, but the interpreter that its #! line or its loader names does not"
	case errors.Is(err, fs.ErrNotExist):
		return "it does not exist"
	case statErr == nil && info.IsDir():
		return "it is a directory"
	case errors.Is(err, fs.ErrPermission):
		return "it is not executable for the daemon's user (permission denied)"
	}
	return err.Error()
}

// ExitError says that a program ran and ended by itself without success.
type ExitError struct {
	Command string // argv[0]
	Code    int    // the exit code, -1 when a signal ended it
	Signal  string // the signal that ended it, such as "SIGSEGV", or empty
	Core    bool   // it left a core dump
	Stderr  string // the last lines that it wrote to stderr, at most 1 KiB
	Stdout  string // the last lines that it wrote to stdout, where stderr is empty
}

// Error names the program, how it ended and the last lines that it wrote.
func (e *ExitError) Error() string {
	how := fmt.Sprintf("exited with code %d", e.Code)
	if e.Signal != "" {
		how = "was ended by " + e.Signal
		if e.Core {
			how += ", with a core dump"
		}
	}
	return fmt.Sprintf("command %q %s%s", clip.Text(e.Command, maxQuoted), how, lastWords(e.Stderr, e.Stdout))
}

// StoppedError says that a program was made to end.
type StoppedError struct {
	Command string        // argv[0]
	Cause   error         // why: one of the causes of package shell
	Limit   time.Duration // the time limit of the input or of Options, if that was it
	Grace   time.Duration // how long it ignored SIGTERM before it got SIGKILL, or 0
	Stderr  string        // the last lines that it wrote to stderr, at most 1 KiB
	Stdout  string        // the last lines that it wrote to stdout, where stderr is empty
}

// Error names the program, why it was stopped and the last lines that it wrote.
func (e *StoppedError) Error() string {
	var b strings.Builder
	if e.Limit > 0 {
		fmt.Fprintf(&b, "command %q reached its time limit of %v and was killed", clip.Text(e.Command, maxQuoted), e.Limit)
	} else {
		fmt.Fprintf(&b, "command %q was killed: %v", clip.Text(e.Command, maxQuoted), e.Cause)
	}
	if e.Grace > 0 {
		fmt.Fprintf(&b, "; it did not end within %v of SIGTERM", e.Grace)
	}
	b.WriteString(lastWords(e.Stderr, e.Stdout))
	return b.String()
}

// Unwrap gives the cause.
func (e *StoppedError) Unwrap() error { return e.Cause }

// limitReached is the cause of a context that ends by this tool's own limit.
type limitReached struct{ limit time.Duration }

func (l *limitReached) Error() string { return fmt.Sprintf("it reached its time limit of %v", l.limit) }
func (l *limitReached) Unwrap() error { return shell.ErrTimeLimit }

// lastWords quotes the text, so that what a program prints cannot forge lines of
// a log or drive a terminal.
func lastWords(stderr, stdout string) string {
	switch {
	case stderr != "":
		return fmt.Sprintf("; stderr ends with %q", stderr)
	case stdout != "":
		return fmt.Sprintf("; stdout ends with %q", stdout)
	}
	return ""
}

// maxQuoted is how much of a value is quoted in an error.
const maxQuoted = 128
