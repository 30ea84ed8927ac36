package config

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
	"github.com/orrery-go/orrery/examples/orreryd/internal/workspace"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/confine"
	"github.com/orrery-go/orrery/shell/runbook"
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
	RunAs            *string  `toml:"run_as,omitempty"` // "user" or "user:group"
}

// SessionUser is who the programs of terminal sessions run as; nil: the daemon's user.
func (c *Config) SessionUser() (*confine.User, error) {
	if c.Sessions.RunAs == nil || c.Workspace == "" {
		return nil, nil
	}
	u, err := confine.LookupUser(*c.Sessions.RunAs)
	if err == nil {
		err = u.Check()
	}
	if err != nil {
		return nil, wrongf("sessions.run_as: %w", err)
	}
	return u, nil
}

// gitConfig says how branches are merged.
type gitConfig struct {
	Author          string  `toml:"author,omitempty"`
	Email           string  `toml:"email,omitempty"`
	LockWaitSeconds float64 `toml:"lock_wait_seconds"`
}

var sessionBackends = []string{"", session.Tmux, session.PTY}

func (c *Config) validateRunbooks() error {
	s := c.Sessions
	errs := []error{
		checkSeconds("sessions.kill_grace_seconds", s.KillGraceSeconds, 0.001),
		checkSeconds("sessions.watch_seconds", s.WatchSeconds, 0.01),
		checkSeconds("git.lock_wait_seconds", c.Git.LockWaitSeconds, 0.001),
		checkBetween("sessions.columns", &s.Columns, 1, 1000),
		checkBetween("sessions.rows", &s.Rows, 1, 1000),
	}
	if s.RunAs != nil {
		_, err := confine.LookupUser(*s.RunAs)
		errs = append(errs, keyed("sessions.run_as", err))
	}
	if !slices.Contains(sessionBackends, s.Backend) {
		errs = append(errs, fmt.Errorf("sessions.backend: %q is unknown: use %q or %q, or leave it out", text.Clip(s.Backend, 40), session.Tmux, session.PTY))
	}
	errs = append(errs, c.validateNotify())
	return errors.Join(errs...)
}

// WorkspaceRoots gives the folders of all tenants, or one for all; none without a workspace.
func (c *Config) WorkspaceRoots() (workspace.Roots, error) {
	if c.Workspace == "" {
		return workspace.Roots{}, nil
	}
	shared := len(c.tenantTokens()) == 0
	if c.WorkspaceShared != nil {
		shared = *c.WorkspaceShared
	}
	user, err := c.SessionUser()
	if err != nil {
		return workspace.Roots{}, err
	}
	return workspace.New(c.Workspace, shared, user)
}

// runbooksIn reads pipelines from the runbook files of a tenant's workspace: the tool
// "pipeline" can name no other file.
func runbooksIn(roots workspace.Roots) func(context.Context, shell.Scope, string, string) (core.PipelineDef, string, error) {
	return func(_ context.Context, scope shell.Scope, file, name string) (def core.PipelineDef, runbookName string, err error) {
		if roots.Dir() == "" {
			return def, "", errors.New("tool_input.file: the daemon has no workspace to read runbooks from: start it with --workspace, or give definition")
		}
		own, err := roots.Of(scope.Namespace, scope.Tenant)
		if err != nil {
			return def, "", err
		}
		root, err := os.OpenRoot(own)
		if err != nil {
			return def, "", fmt.Errorf("workspace: %w", err)
		}
		defer func() { _ = root.Close() }() // reading loses nothing
		data, err := root.ReadFile(filepath.FromSlash(file))
		if err != nil {
			return def, "", fmt.Errorf("tool_input.file: %w", err)
		}
		book, err := runbook.Parse(file, data)
		if err != nil {
			return def, "", err
		}
		def, err = PipelineOf(book, file, name)
		return def, book.Name, err
	}
}

// PipelineOf gives the pipeline of that name, or without one the only one there is.
func PipelineOf(book *runbook.Runbook, file, name string) (core.PipelineDef, error) {
	def, ok := book.Pipeline(name)
	switch {
	case ok:
		return def, nil
	case name != "":
		return def, wrongf("%s has no pipeline %q: it has %s", text.Clip(file, 80), text.Clip(name, 60), pipelineNames(book))
	case len(book.Pipelines) != 1:
		return def, wrongf("%s has %s: name one of them", text.Clip(file, 80), pipelineNames(book))
	}
	return book.Pipelines[0], nil
}

func pipelineNames(book *runbook.Runbook) string {
	if len(book.Pipelines) == 0 {
		return "no pipeline"
	}
	names := make([]string, 0, len(book.Pipelines))
	for _, p := range book.Pipelines {
		names = append(names, p.Name)
	}
	return strings.Join(names, ", ")
}
