package daemon

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
)

// boundFor bounds how long it may take to find out whether a partition has anything on this machine.
const boundFor = 5 * time.Second

// bound reports whether work of a partition stands on this machine: a terminal session, a worktree, a program of a local runner. It is not moved
// to another one meanwhile. What cannot be found out counts as such.
func (h *host) bound(partition int) bool {
	d, ok := h.mine()[partition]
	if !ok {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), boundFor)
	defer cancel()
	for _, has := range []func(context.Context) (bool, error){d.hasSessions, d.hasWorktrees, d.hasPrograms} {
		if is, err := has(ctx); is || err != nil {
			return true
		}
	}
	return false
}

func (d *daemon) hasSessions(ctx context.Context) (bool, error) {
	if d.sessions == nil {
		return false, nil
	}
	all, err := d.sessions.List(ctx)
	return len(all) > 0, err
}

// hasWorktrees reports whether a pipeline runs that works in a worktree, or merges, on this machine's own disk.
func (d *daemon) hasWorktrees(ctx context.Context) (bool, error) {
	if d.c.Workspace == "" || d.c.Cluster.SharedWorkspace {
		return false, nil
	}
	return anyOf(func(p shell.Page) ([]core.Pipeline, string, error) {
		return d.engine.Pipelines().List(ctx, shell.MachineFilter{Status: string(core.PhaseRunning)}, p)
	}, func(p core.Pipeline) bool {
		return slices.ContainsFunc(p.Definition.Phases, func(f core.PhaseDef) bool { return f.Worktree != nil || f.Merge != nil })
	})
}

// hasPrograms reports whether a local runner may have anything of a run.
func (d *daemon) hasPrograms(ctx context.Context) (bool, error) {
	local := d.c.LocalRunners()
	if len(local) == 0 {
		return false, nil
	}
	return anyOf(func(p shell.Page) ([]core.Orchestrator, string, error) {
		return d.engine.Runs().List(ctx, shell.JobRunFilter{InCluster: true}, p)
	}, func(o core.Orchestrator) bool {
		return slices.Contains(local, cmp.Or(o.Config.Runner, d.c.DefaultRunner()))
	})
}

// anyOf reports whether a list has one of a sort.
func anyOf[S any](list func(shell.Page) ([]S, string, error), is func(S) bool) (bool, error) {
	for page := (shell.Page{Limit: shell.MaxPage}); ; {
		some, next, err := list(page)
		if err != nil || slices.ContainsFunc(some, is) || next == "" {
			return err == nil && slices.ContainsFunc(some, is), err
		}
		page.Token = next
	}
}
