package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"syscall"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/examples/orreryd/internal/workspace"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/session"
)

// scopeOf says whose a machine is that has sessions or uses git.
func scopeOf(s core.State) (shell.Scope, error) {
	switch s := s.(type) {
	case core.Task:
		return shell.Scope{Namespace: s.Namespace, Tenant: s.Tenant}, nil
	case core.Pipeline:
		return shell.Scope{Namespace: s.Namespace, Tenant: s.Tenant}, nil
	case core.Strategy:
		return shell.Scope{Namespace: s.Namespace, Tenant: s.Tenant}, nil
	}
	return shell.Scope{}, fmt.Errorf("a machine of kind %q has no part in the workspace", s.Ref().Kind)
}

// errNoScope is about an effect without the machine that asks for it.
var errNoScope = errors.New("the effect has no machine, and so no namespace and tenant")

// rootFor gives the root of the tenant whose machine asks for an effect.
func rootFor(roots workspace.Roots, s core.State) (string, error) {
	scope, err := scopeOf(s)
	if err == nil {
		var root string
		if root, err = roots.Of(scope.Namespace, scope.Tenant); err == nil {
			return root, nil
		}
	}
	return "", final(err)
}

// final marks an error as one that no repetition changes, unless the system lacks
// something that it may have again soon.
func final(err error) error {
	for _, lack := range []error{syscall.EMFILE, syscall.ENFILE, syscall.EAGAIN, syscall.ENOMEM} {
		if errors.Is(err, lack) {
			return shell.NotStarted(err)
		}
	}
	return shell.Permanent(err)
}

// tenantSessions begin each session in the root of its tenant.
type tenantSessions struct {
	roots    workspace.Roots
	sessions *session.Sessions
}

// Carry implements [shell.Interpreter].
func (t tenantSessions) Carry(context.Context, effects.Ref, effects.Outer) (json.RawMessage, error) {
	return nil, shell.Permanent(errNoScope)
}

// CarryFor implements [shell.StateInterpreter].
func (t tenantSessions) CarryFor(ctx context.Context, s core.State, e effects.Outer) (json.RawMessage, error) {
	root, err := rootFor(t.roots, s)
	if err != nil {
		return nil, err
	}
	return t.sessions.CarryUnder(ctx, root, s.Ref(), e)
}

// tenantGit has one interpreter of git for each tenant, which knows its root alone.
type tenantGit struct {
	roots workspace.Roots
	make  func(root string) (shell.Interpreter, error)

	mu   sync.Mutex
	made map[string]shell.Interpreter // by root
}

// Carry implements [shell.Interpreter].
func (t *tenantGit) Carry(context.Context, effects.Ref, effects.Outer) (json.RawMessage, error) {
	return nil, shell.Permanent(errNoScope)
}

// CarryFor implements [shell.StateInterpreter].
func (t *tenantGit) CarryFor(ctx context.Context, s core.State, e effects.Outer) (json.RawMessage, error) {
	root, err := rootFor(t.roots, s)
	if err != nil {
		return nil, err
	}
	g, err := t.of(root)
	if err != nil {
		return nil, final(err)
	}
	return g.Carry(ctx, s.Ref(), e)
}

func (t *tenantGit) of(root string) (shell.Interpreter, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if g := t.made[root]; g != nil {
		return g, nil
	}
	g, err := t.make(root)
	if err != nil {
		return nil, err
	}
	if t.made == nil {
		t.made = map[string]shell.Interpreter{}
	}
	t.made[root] = g
	return g, nil
}
