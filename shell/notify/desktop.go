package notify

import (
	"errors"
	"os/exec"
	"runtime"
	"strings"

	"github.com/orrery-go/orrery/effects"
)

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

func newDesktop(argv []string, arguments func(effects.Notify) []string) (*Command, error) {
	c, err := NewCommand(CommandOptions{Argv: argv})
	if err != nil {
		return nil, err
	}
	c.inherit = append(c.inherit, "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS")
	c.arguments = arguments
	return c, nil
}

// plain gives title and message after "--", so that neither is an option.
func plain(n effects.Notify) []string {
	title := envText(n.Title)
	if title == "" { // a notification must have one
		title = "Orrery"
	}
	return []string{"--", title, envText(n.Message)}
}

func notifySend(n effects.Notify) []string {
	n.Message = strings.ReplaceAll(n.Message, `\`, `\\`) // it reads escapes in the message
	args := plain(n)
	if n.Sound {
		args = append([]string{"--hint=string:sound-name:message-new-instant"}, args...)
	}
	return args
}
