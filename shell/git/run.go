package git

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/orrery-go/orrery/shell/internal/files"
	"github.com/orrery-go/orrery/shell/internal/pause"
	"github.com/orrery-go/orrery/shell/internal/procgroup"
)

const (
	maxStdout = 256 << 20       // a merge that changes a million files lists them
	killGrace = 5 * time.Second // between SIGTERM and SIGKILL, but in tests
	pipeDelay = time.Second     // how long a command's children may keep its output open
)

// config turns off whatever would run programs, ask somebody, or do more than
// was asked for, whatever the user has configured.
var config = []string{
	"core.hooksPath=" + os.DevNull,
	"core.fsmonitor=false",
	"core.editor=true",
	"core.pager=cat",
	"sequence.editor=true",
	"core.quotePath=false",
	"gc.auto=0",
	"maintenance.auto=false",
	"submodule.recurse=false",
	"commit.gpgSign=false",
	"rerere.enabled=false",
	"rebase.autoStash=false",
	"rebase.autoSquash=false",
	"rebase.updateRefs=false",
	"rebase.rebaseMerges=false",
	"rebase.missingCommitsCheck=ignore",
	"rebase.abbreviateCommands=false",
	"notes.rewrite.rebase=false",
	"advice.detachedHead=false",
	"advice.mergeConflict=false",
	"advice.skippedCherryPicks=false",
	"color.ui=false",
}

// command is one run of git.
type command struct {
	dir   string   // where it runs, and the only directory in which it looks for a repository
	args  []string // without the options before the git command
	stdin string
	to    io.Writer // gets what git writes to stdout, of any length; nil: it is given back
	env   []string
	whole bool     // once begun it is not stopped by a cancellation, only after cleanUpLimit
	lock  *os.File // the repository's lock, which the command keeps held
}

// exec runs git and gives what it wrote to stdout. When ctx ends, the whole
// process group is ended.
func (g *Git) exec(ctx context.Context, c command) (string, error) {
	if ctx.Err() != nil {
		return "", &commandError{args: c.args, code: -1, err: context.Cause(ctx)}
	}
	args := make([]string, 0, 2*len(config)+len(c.args))
	for _, kv := range config {
		args = append(args, "-c", kv)
	}
	cmd := exec.CommandContext(ctx, g.bin, append(args, c.args...)...)
	cmd.Dir = c.dir
	cmd.Env = append(append(append([]string{}, g.env...),
		"LC_ALL=C", "GIT_TERMINAL_PROMPT=0", "GIT_EDITOR=true", "GIT_SEQUENCE_EDITOR=true", "GIT_PAGER=cat",
		"GIT_ADVICE=0", "GIT_OPTIONAL_LOCKS=0", "GIT_SSH_COMMAND=ssh -oBatchMode=yes",
		"GIT_CEILING_DIRECTORIES="+filepath.Dir(c.dir), "PWD="+c.dir,
	), c.env...)
	if c.stdin != "" {
		cmd.Stdin = strings.NewReader(c.stdin)
	}
	stdout, stderr := &capped{limit: maxStdout}, &capped{limit: maxStderrKept}
	cmd.Stderr = stderr
	if c.lock != nil && files.CanLock {
		cmd.ExtraFiles = []*os.File{c.lock}
	}
	err := supervise(cmd, g.grace, cmp.Or(c.to, io.Writer(stdout)))
	switch {
	case ctx.Err() != nil && err != nil:
		return "", &commandError{args: c.args, code: -1, stderr: stderr.String(), err: context.Cause(ctx)}
	case err != nil:
		code := -1
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			code = exit.ExitCode()
		}
		return stdout.String(), &commandError{args: c.args, code: code, stderr: stderr.String(), err: err}
	case stdout.dropped:
		return "", &commandError{args: c.args, code: -1, err: fmt.Errorf("it printed more than %d bytes", maxStdout)}
	}
	return stdout.String(), nil
}

// supervise runs a command in a process group of its own and waits for it and for
// the end of what it prints.
func supervise(cmd *exec.Cmd, grace time.Duration, stdout io.Writer) error {
	// The death signal of Linux fires when the thread that started the program
	// ends, so keep it until then.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	procgroup.Bind(cmd, syscall.SIGTERM) // at SIGTERM git removes its own lock files
	var hard *time.Timer
	done := make(chan struct{})
	cmd.Cancel = func() error {
		defer close(done)
		hard = time.AfterFunc(grace, func() { _ = procgroup.Kill(cmd.Process) })
		_ = procgroup.Terminate(cmd.Process)
		return nil
	}
	cmd.WaitDelay = grace + pipeDelay
	out, write, err := os.Pipe()
	if err != nil {
		return err
	}
	cmd.Stdout = write
	copied := make(chan error, 1)
	go func() {
		_, err := io.Copy(stdout, out)
		copied <- err
	}()
	err = cmd.Run()
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil // git is done, and who else still complains on stderr does not matter
	}
	select {
	case <-done: // Run waits for Cancel
		hard.Stop()
		_ = procgroup.Kill(cmd.Process) // what ignored SIGTERM although git obeyed
	default:
	}
	_ = write.Close()
	late := time.AfterFunc(cmd.WaitDelay, func() { _ = out.Close() })
	copyErr := <-copied
	late.Stop()
	_ = out.Close()
	if err == nil && copyErr != nil {
		return fmt.Errorf("its output did not end: %w", copyErr) // half of it could mean something else
	}
	return err
}

// capped keeps the beginning of what is written to it.
type capped struct {
	buf     bytes.Buffer
	limit   int
	dropped bool
}

func (c *capped) Write(p []byte) (int, error) {
	keep := min(len(p), c.limit-c.buf.Len())
	if keep < len(p) {
		c.dropped = true
	}
	_, _ = c.buf.Write(p[:keep]) // never fails
	return len(p), nil
}

func (c *capped) String() string { return c.buf.String() }

// lockPattern finds the lock file of git's that a command met.
var lockPattern = regexp.MustCompile(`Unable to create '(.+\.lock)': File exists`)

// lockFile names the lock file at which a command failed, or is empty.
func lockFile(err error) string {
	if m := lockPattern.FindStringSubmatch(stderrOf(err)); m != nil {
		return m[1]
	}
	return ""
}

// waitFor runs a command that takes a lock of git's until it gets it or LockWait
// is over. Such a command does nothing before it has its locks.
func (r *repo) waitFor(ctx context.Context, c command) error {
	r.beginWork()
	deadline := time.Now().Add(r.g.o.LockWait)
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, 500*time.Millisecond) {
		_, err := r.exec(ctx, c)
		lock := lockFile(err)
		if lock == "" {
			return err
		}
		removed, until, why := r.clearLock(c, lock)
		if removed {
			continue
		}
		if time.Until(deadline) <= 0 && time.Until(until) <= 0 {
			return r.op.fail(why, "lock file %q is held by another git process, or was left by one that died: waited %v; remove it if no git is at work", lock, r.g.o.LockWait)
		}
		r.g.step("waits")
		if err := pause.For(ctx, wait); err != nil {
			return err
		}
	}
}
