package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/examples/orreryd/internal/config"
	"github.com/orrery-go/orrery/examples/orreryd/internal/workspace"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/confine"
	"github.com/orrery-go/orrery/shell/git"
	"github.com/orrery-go/orrery/shell/session"
)

// interpreters make what carries out the effects of runbooks.
func (d *daemon) interpreters() (map[string]shell.Interpreter, error) {
	n, err := d.notifications()
	if err != nil {
		return nil, err
	}
	out := map[string]shell.Interpreter{effects.LaneNotify: approvals{n, d.hints, d.relay}}
	if d.c.Workspace == "" {
		out[effects.LaneSession], out[effects.LaneGit] = noWorkspace, noWorkspace
		return out, nil
	}
	roots, err := d.c.WorkspaceRoots()
	if err != nil {
		return nil, err
	}
	user, err := d.c.SessionUser()
	if err != nil {
		return nil, err
	}
	if d.sessions, err = newSessions(d.c, roots, user); err != nil {
		return nil, err
	}
	d.sayHowToAttach()
	d.enterWorkspace(roots, out)
	if user != nil && int(user.UID) != os.Geteuid() {
		out[effects.LaneGit] = noGit
	}
	return out, nil
}

// newSessions makes the sessions of a database, or of one of its partitions, on this machine.
func newSessions(c config.Config, roots workspace.Roots, user *confine.User) (*session.Sessions, error) {
	db, err := filepath.Abs(c.DB)
	if err != nil {
		return nil, fmt.Errorf("db: %w", err)
	}
	s := c.Sessions
	made, err := session.New(session.Options{
		Backend: s.Backend, Root: roots.Dir(), CreateWorkspace: true, Instance: db, Columns: s.Columns, Rows: s.Rows,
		KillGrace: config.Seconds(s.KillGraceSeconds), InheritEnv: s.InheritEnv, RunAs: user,
	})
	if err != nil {
		return nil, fmt.Errorf("sessions: %w", err)
	}
	return made, nil
}

// enterWorkspace enters what carries out the effects of sessions and git.
func (d *daemon) enterWorkspace(roots workspace.Roots, out map[string]shell.Interpreter) {
	newGit := func(root string) (shell.Interpreter, error) {
		return git.New(git.Options{Root: root, LockWait: config.Seconds(d.c.Git.LockWaitSeconds), Author: d.c.Git.Author, Email: d.c.Git.Email})
	}
	g, err := newGit(roots.Dir())
	switch {
	case err != nil:
		d.log.Warn("git cannot be used: worktrees and merges will fail", "error", err)
		g = failing{err}
	case !roots.Shared():
		g = &tenantGit{roots: roots, make: newGit}
	}
	out[effects.LaneGit], out[effects.LaneSession] = g, d.sessions
	if !roots.Shared() {
		out[effects.LaneSession] = tenantSessions{roots, d.sessions}
		d.log.Info("the workspace has a folder for each namespace and tenant", "workspace", roots.Dir(), "example", filepath.Join(roots.Dir(), config.DefaultScope, config.DefaultScope))
		d.warnOfStrays(roots)
	}
}

// warnOfStrays says which repositories no tenant reaches any more, and what to do.
func (d *daemon) warnOfStrays(roots workspace.Roots) {
	strays, err := roots.Strays()
	if err != nil {
		d.log.Warn("the workspace could not be looked through", "error", err)
	}
	if len(strays) > 0 {
		d.log.Warn("repositories of the time when the workspace was one for all are out of reach: move them into the folders of their tenants, or set workspace_shared = true",
			"count", len(strays), "first", strays[0])
	}
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

// noGit stands where sessions have a user of their own: what that user wrote into a repository
// would decide what git, and this daemon, do as root.
var noGit = failing{errors.New("sessions.run_as is set: worktrees and merges would work as root on files that sessions may change: have a session run git, or take run_as out")}

var noWorkspace = failing{errors.New("no workspace is configured: start the daemon with --workspace DIR")}

// failing fails all effects: their interpreter could not be made, or needs a workspace.
type failing struct{ err error }

// Carry implements [shell.Interpreter].
func (f failing) Carry(context.Context, effects.Ref, effects.Outer) (json.RawMessage, error) {
	return nil, shell.Permanent(f.err)
}
