package notify

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/command"
	"github.com/orrery-go/orrery/shell/internal/clip"
	"github.com/orrery-go/orrery/shell/internal/inherit"
	"github.com/orrery-go/orrery/shell/internal/procgroup"
)

// CommandOptions say which program tells people.
type CommandOptions struct {
	// Argv is the program and its arguments. No shell reads it.
	Argv []string
	// Dir is where it runs; empty: the daemon's working directory.
	Dir string
	// Env is added to its environment, which has of the daemon's own what
	// [command.DefaultInheritEnv] lists.
	Env map[string]string
	// Timeout bounds a run. Zero means 10 seconds.
	Timeout time.Duration
}

// Command is a channel that runs a program. It reads the title, an empty line and
// the message, and has them as ORRERY_TITLE and ORRERY_MESSAGE, besides
// ORRERY_SOUND, which is true or false, ORRERY_ID, which is the same for what is told
// again, and ORRERY_EVENT, such as action:failed, or empty. Exit code 0 is a success.
//
// The program runs in a process group of its own, which is killed when it has
// reached its time limit or the engine stops. What it leaves behind otherwise is
// its own affair.
type Command struct {
	argv    []string
	dir     string
	env     map[string]string
	inherit []string
	timeout time.Duration
	// arguments gives further ones for a notification; nil: none.
	arguments func(n Message) []string
}

const (
	// maxEnvText is how much of a text a program has in its environment: Linux
	// starts none with a variable of 128 KiB. The whole stands on its input.
	maxEnvText = 32 << 10
	// maxWords is how much of what a program prints stands in an error.
	maxWords = 512
)

// NewCommand makes a Command. The error names the option that cannot be right.
// Whether there is such a program shows when it is run.
func NewCommand(o CommandOptions) (*Command, error) {
	if len(o.Argv) == 0 || o.Argv[0] == "" {
		return nil, errors.New("Argv: must name a program")
	}
	for i, arg := range o.Argv {
		if strings.ContainsRune(arg, 0) {
			return nil, fmt.Errorf("Argv[%d]: %q has a NUL byte", i, quoted(arg))
		}
	}
	for name, value := range o.Env {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.ContainsRune(value, 0) {
			return nil, fmt.Errorf("Env: %q is not a variable that a program can have", quoted(name))
		}
	}
	if o.Timeout < 0 {
		return nil, fmt.Errorf("Timeout: %v is negative", o.Timeout)
	}
	return &Command{
		argv: slices.Clone(o.Argv), dir: o.Dir, env: maps.Clone(o.Env), inherit: command.DefaultInheritEnv(),
		timeout: cmp.Or(o.Timeout, 10*time.Second),
	}, nil
}

// Notify runs the program and waits for its end.
func (c *Command) Notify(ctx context.Context, n effects.Notify) error {
	return c.Tell(ctx, Message{Title: n.Title, Text: n.Message, Sound: n.Sound})
}

// Tell runs the program and waits for its end.
func (c *Command) Tell(ctx context.Context, n Message) error {
	ctx, cancel := context.WithTimeoutCause(ctx, c.timeout, fmt.Errorf("it reached its time limit of %v", c.timeout))
	defer cancel()
	argv := c.argv
	if c.arguments != nil {
		argv = slices.Concat(argv, c.arguments(n))
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = c.dir
	cmd.Env = c.environ(n)
	cmd.Stdin = strings.NewReader(n.Title + "\n\n" + n.Text + "\n")
	var output words
	cmd.Stdout, cmd.Stderr = &output, &output
	cmd.WaitDelay = time.Second // a child that keeps the output open holds nobody up
	// Cancel runs before the program is reaped, while its id is certainly the group's.
	procgroup.Lead(cmd)
	cmd.Cancel = func() error { return procgroup.Kill(cmd.Process) }
	if err := cmd.Start(); err != nil {
		return notStarted(argv[0], cmp.Or(context.Cause(ctx), err))
	}
	err := cmd.Wait()
	if cause := context.Cause(ctx); cause != nil && err != nil {
		return fmt.Errorf("program %q was killed: %w", quoted(argv[0]), cause)
	}
	if err == nil || errors.Is(err, exec.ErrWaitDelay) { // it ended well, and left a child behind
		return nil
	}
	err = fmt.Errorf("program %q: %w", quoted(argv[0]), err)
	if text := output.text(); text != "" {
		err = fmt.Errorf("%w: %q", err, text)
	}
	return err
}

// notStarted says why a program was not started. That it is not there, or may not be
// run, is permanent.
func notStarted(program string, err error) error {
	missing := errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission)
	err = fmt.Errorf("program %q was not started: %w", quoted(program), err)
	if missing {
		return shell.Permanent(err)
	}
	return err
}

// environ gives the program's whole environment. Later entries win.
func (c *Command) environ(n Message) []string {
	env := inherit.Environ(c.inherit)
	for _, name := range slices.Sorted(maps.Keys(c.env)) {
		env = append(env, name+"="+c.env[name])
	}
	event := ""
	if n.Event != nil {
		event = n.Event.Kind.String()
	}
	return append(env,
		"ORRERY_ID="+envText(n.ID), "ORRERY_EVENT="+envText(event),
		"ORRERY_TITLE="+envText(n.Title),
		"ORRERY_MESSAGE="+envText(n.Text),
		fmt.Sprintf("ORRERY_SOUND=%t", n.Sound),
	)
}

// envText is what of a text can stand in a variable or an argument.
func envText(s string) string {
	return clip.Text(strings.ReplaceAll(s, "\x00", ""), maxEnvText)
}

// words keeps the end of what a program prints. Output and errors are one writer,
// so that exec writes to it from one goroutine.
type words struct{ b []byte }

var _ io.Writer = (*words)(nil)

func (w *words) Write(p []byte) (int, error) {
	w.b = append(w.b, p...)
	if len(w.b) > 2*maxWords {
		w.b = append(w.b[:0], w.b[len(w.b)-maxWords:]...)
	}
	return len(p), nil
}

func (w *words) text() string {
	b := w.b[max(0, len(w.b)-maxWords):]
	return strings.ToValidUTF8(string(bytes.TrimSpace(b)), "\uFFFD")
}

// ErrNoDesktop says that nothing is installed that shows notifications on the
// desktop.
var ErrNoDesktop = errors.New("no desktop notifications: install notify-send (libnotify)")

// NewDesktop gives a channel that shows notifications on the desktop of the
// daemon's user, by notify-send, or osascript on macOS; [ErrNoDesktop] where
// there is none.
func NewDesktop() (*Command, error) {
	if path, err := exec.LookPath("notify-send"); err == nil {
		return newDesktop([]string{path, "--app-name=orrery"}, notifySend)
	}
	if path, err := exec.LookPath("osascript"); err == nil && runtime.GOOS == "darwin" {
		return newDesktop([]string{
			path, "-e", "on run argv", "-e", "display notification (item 2 of argv) with title (item 1 of argv)", "-e", "end run",
		}, plain)
	}
	return nil, ErrNoDesktop
}

func newDesktop(argv []string, arguments func(Message) []string) (*Command, error) {
	c, err := NewCommand(CommandOptions{Argv: argv})
	if err != nil {
		return nil, err
	}
	c.inherit = append(c.inherit, "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS")
	c.arguments = arguments
	return c, nil
}

// plain gives title and message after "--", so that neither is an option.
func plain(n Message) []string {
	title := cmp.Or(envText(n.Title), "Orrery") // a notification must have one
	return []string{"--", title, envText(n.Text)}
}

func notifySend(n Message) []string {
	n.Text = strings.ReplaceAll(n.Text, `\`, `\\`) // it reads escapes in the message
	args := plain(n)
	if n.Sound {
		args = append([]string{"--hint=string:sound-name:message-new-instant"}, args...)
	}
	return args
}
