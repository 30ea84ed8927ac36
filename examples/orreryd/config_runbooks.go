package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/git"
	"github.com/orrery-go/orrery/shell/notify"
	"github.com/orrery-go/orrery/shell/session"
)

// sessionsConfig says how terminal sessions run. They, and git, need the
// workspace.
type sessionsConfig struct {
	Backend          string   `toml:"backend"` // tmux or pty; empty: tmux where it is installed
	Columns          int      `toml:"columns"`
	Rows             int      `toml:"rows"`
	KillGraceSeconds float64  `toml:"kill_grace_seconds"`
	WatchSeconds     float64  `toml:"watch_seconds"` // between two looks at all sessions
	InheritEnv       []string `toml:"inherit_env,omitempty"`
}

// gitConfig says how branches are merged.
type gitConfig struct {
	Author          string  `toml:"author,omitempty"`
	Email           string  `toml:"email,omitempty"`
	LockWaitSeconds float64 `toml:"lock_wait_seconds"`
}

// notifyConfig says how people are told.
type notifyConfig struct {
	Default  string                   `toml:"default,omitempty"`
	Channels map[string]channelConfig `toml:"channels,omitempty"`
}

// channelConfig is one [notify.channels.NAME]. Which keys it may have depends on
// its type.
type channelConfig struct {
	Type           string            `toml:"type"` // webhook, command, desktop, log
	URL            string            `toml:"url,omitempty"`
	Headers        map[string]string `toml:"headers,omitempty"`
	Command        []string          `toml:"command,omitempty"`
	Dir            string            `toml:"dir,omitempty"`
	Env            map[string]string `toml:"env,omitempty"`
	TimeoutSeconds float64           `toml:"timeout_seconds,omitempty"`
}

var sessionBackends = []string{"", session.Tmux, session.PTY}

func (c *config) validateRunbooks() error {
	s := c.Sessions
	errs := []error{
		checkSeconds("sessions.kill_grace_seconds", s.KillGraceSeconds, 0.001),
		checkSeconds("sessions.watch_seconds", s.WatchSeconds, 0.01),
		checkSeconds("git.lock_wait_seconds", c.Git.LockWaitSeconds, 0.001),
		checkBetween("sessions.columns", &s.Columns, 1, 1000),
		checkBetween("sessions.rows", &s.Rows, 1, 1000),
	}
	if !slices.Contains(sessionBackends, s.Backend) {
		errs = append(errs, fmt.Errorf("sessions.backend: %q is unknown: use %q or %q, or leave it out", short(s.Backend, 40), session.Tmux, session.PTY))
	}
	for _, name := range slices.Sorted(maps.Keys(c.Notify.Channels)) {
		key := "notify.channels." + name
		if name == "" || len(name) > core.MaxNameBytes {
			errs = append(errs, fmt.Errorf("notify.channels: the name %q has %d bytes: want 1 to %d", short(name, 40), len(name), core.MaxNameBytes))
		}
		_, err := c.Notify.Channels[name].make(slog.New(slog.DiscardHandler))
		if !errors.Is(err, notify.ErrNoDesktop) { // it may be installed where the daemon runs
			errs = append(errs, keyed(key, err))
		}
	}
	if d := c.Notify.Default; d != "" {
		if _, ok := c.Notify.Channels[d]; !ok {
			errs = append(errs, fmt.Errorf("notify.default: %q is not one of the channels: %s", short(d, 40), strings.Join(slices.Sorted(maps.Keys(c.Notify.Channels)), ", ")))
		}
	}
	return errors.Join(errs...)
}

// Types of [channelConfig].
const (
	channelWebhook = "webhook"
	channelCommand = "command"
	channelDesktop = "desktop"
	channelLog     = "log"
)

// channelKeys are the keys that set the options of channels that their own check
// may refuse.
var channelKeys = strings.NewReplacer("URL: ", "url: ", "Headers: ", "headers: ", "Argv: ", "command: ", "Dir: ", "dir: ", "Env: ", "env: ", "Timeout: ", "timeout_seconds: ")

func (c channelConfig) make(log *slog.Logger) (notify.Channel, error) {
	if c.TimeoutSeconds != 0 {
		if err := checkSeconds("timeout_seconds", c.TimeoutSeconds, 0.001); err != nil {
			return nil, err
		}
	}
	foreign := map[string]bool{"url": c.URL != "", "headers": c.Headers != nil, "command": c.Command != nil, "dir": c.Dir != "", "env": c.Env != nil}
	switch c.Type {
	case channelWebhook:
		delete(foreign, "url")
		delete(foreign, "headers")
	case channelCommand:
		delete(foreign, "command")
		delete(foreign, "dir")
		delete(foreign, "env")
	case channelDesktop, channelLog:
	default:
		return nil, fmt.Errorf("type: %q is unknown: use %q, %q, %q or %q", short(c.Type, 40), channelWebhook, channelCommand, channelDesktop, channelLog)
	}
	for _, k := range slices.Sorted(maps.Keys(foreign)) {
		if foreign[k] {
			return nil, fmt.Errorf("%s: a channel of type %q has no such key", k, c.Type)
		}
	}
	switch c.Type {
	case channelWebhook:
		return orNil(notify.NewWebhook(notify.WebhookOptions{URL: c.URL, Headers: c.Headers, Timeout: seconds(c.TimeoutSeconds)}))
	case channelCommand:
		return orNil(notify.NewCommand(notify.CommandOptions{Argv: c.Command, Dir: c.Dir, Env: c.Env, Timeout: seconds(c.TimeoutSeconds)}))
	case channelDesktop:
		return orNil(notify.NewDesktop())
	default:
		return notify.NewLog(log), nil
	}
}

// orNil keeps a nil pointer from becoming a channel that is not nil.
func orNil[C notify.Channel](c C, err error) (notify.Channel, error) {
	if errors.Is(err, notify.ErrNoDesktop) {
		return nil, err
	}
	if err != nil {
		return nil, errors.New(channelKeys.Replace(err.Error()))
	}
	return c, nil
}

// interpreters make what carries out the effects of runbooks.
func (d *daemon) interpreters() (map[string]shell.Interpreter, error) {
	channels := map[string]notify.Channel{}
	for name, c := range d.c.Notify.Channels {
		ch, err := c.make(d.log)
		if err != nil {
			return nil, fmt.Errorf("notify.channels.%s: %w", name, err)
		}
		channels[name] = ch
	}
	byDefault := d.c.Notify.Default
	if len(channels) == 0 { // somebody who watches the log is told
		channels[channelLog], byDefault = notify.NewLog(d.log), channelLog
	}
	n, err := notify.New(notify.Options{Channels: channels, Default: byDefault})
	if err != nil {
		return nil, fmt.Errorf("notify: %w", err)
	}
	out := map[string]shell.Interpreter{effects.LaneNotify: n}
	if d.c.Workspace == "" {
		out[effects.LaneSession], out[effects.LaneGit] = noWorkspace{}, noWorkspace{}
		return out, nil
	}
	root, err := filepath.Abs(d.c.Workspace)
	if err != nil {
		return nil, fmt.Errorf("workspace: %w", err)
	}
	if err := os.MkdirAll(root, 0o700); err != nil {
		return nil, fmt.Errorf("workspace: %w", err)
	}
	db, err := filepath.Abs(d.c.DB)
	if err != nil {
		return nil, fmt.Errorf("db: %w", err)
	}
	s := d.c.Sessions
	d.sessions, err = session.New(session.Options{
		Backend: s.Backend, Root: root, CreateWorkspace: true, Instance: db, Columns: s.Columns, Rows: s.Rows,
		KillGrace: seconds(s.KillGraceSeconds), InheritEnv: s.InheritEnv,
	})
	if err != nil {
		return nil, fmt.Errorf("sessions: %w", err)
	}
	d.sayHowToAttach()
	g, err := git.New(git.Options{Root: root, LockWait: seconds(d.c.Git.LockWaitSeconds), Author: d.c.Git.Author, Email: d.c.Git.Email})
	if err != nil {
		d.log.Warn("no git: worktrees and merges will fail", "error", err)
		out[effects.LaneGit] = failing{err}
	} else {
		out[effects.LaneGit] = g
	}
	out[effects.LaneSession] = d.sessions
	return out, nil
}

// sayHowToAttach says by which command a person joins a session, and warns where
// tmux is missing: then sessions end with the daemon.
func (d *daemon) sayHowToAttach() {
	attach := d.sessions.AttachCommand("SESSION")
	switch {
	case len(attach) > 0:
		d.log.Info("sessions", "backend", d.sessions.Backend(), "attach", strings.Join(attach, " "))
	case d.c.Sessions.Backend == "":
		d.log.Warn("no tmux 3.2 or later: sessions will end with the daemon, and nobody can join them", "backend", d.sessions.Backend())
	}
}

// noWorkspace fails what needs the workspace, and says what to do.
type noWorkspace struct{}

// Carry implements [shell.Interpreter].
func (noWorkspace) Carry(context.Context, effects.Ref, effects.Outer) (json.RawMessage, error) {
	return nil, shell.Permanent(errors.New("no workspace is configured: start the daemon with --workspace DIR"))
}

// failing fails all effects with the reason for which it could not be made.
type failing struct{ err error }

// Carry implements [shell.Interpreter].
func (f failing) Carry(context.Context, effects.Ref, effects.Outer) (json.RawMessage, error) {
	return nil, shell.Permanent(f.err)
}

// observer gives the engine eyes, where there are sessions.
func (d *daemon) observer() shell.SessionObserver {
	if d.sessions == nil {
		return nil
	}
	return d.sessions.Observer(nil).ForEngine()
}

// sweepSessions ends the sessions that no task wants any more: a crash may have
// left them behind.
func (d *daemon) sweepSessions(ctx context.Context) error {
	if d.sessions == nil {
		return nil
	}
	// What is wanted is read once the sessions were listed: the engine is at work
	// already, and a task stands in the store before its session is there.
	var wanted map[string]bool
	var unknown error
	killed, err := d.sessions.Cleanup(ctx, func(name string) bool {
		if wanted == nil && unknown == nil {
			wanted, unknown = d.wantedSessions(ctx)
		}
		return unknown != nil || wanted[name]
	})
	if len(killed) > 0 {
		d.log.Warn("sessions that no task wants any more were ended", "sessions", killed)
	}
	return errors.Join(err, unknown)
}

// wantedSessions gives the sessions of all tasks that may still have one. It walks
// all tasks in one order, so that one which changes meanwhile is not passed over.
func (d *daemon) wantedSessions(ctx context.Context) (map[string]bool, error) {
	names := map[string]bool{}
	page := shell.Page{Limit: shell.MaxPage}
	for {
		tasks, next, err := d.engine.Tasks().List(ctx, shell.MachineFilter{}, page)
		if err != nil {
			return nil, fmt.Errorf("list the tasks: %w", err)
		}
		for _, t := range tasks {
			// One that is done may still have its session killed by an effect.
			if t.State.Type != core.TaskDone || len(core.Outstanding(t)) > 0 {
				names[t.SessionID] = true
			}
		}
		if next == "" {
			return names, nil
		}
		page.Token = next
	}
}
