package daemon

import (
	"context"
	"errors"
	"fmt"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
)

// observer shows the engine the sessions; nil if the daemon has none.
func (d *daemon) observer() shell.SessionObserver {
	if d.sessions == nil {
		return nil
	}
	return d.sessions.Observer(nil).ForEngine()
}

// endSessions is [daemon.sweepSessions], and says if it cannot.
func (d *daemon) endSessions(ctx context.Context) {
	if err := d.sweepSessions(ctx); err != nil && ctx.Err() == nil {
		d.log.Warn("could not end the sessions that no task wants: they may go on", "error", err)
	}
}

// sweepSessions ends the sessions that no task wants any more: a crash may have
// left them behind.
func (d *daemon) sweepSessions(ctx context.Context) error {
	if d.sessions == nil {
		return nil
	}
	// The tasks are read after the sessions were listed: the engine runs already, and
	// stores a task before it makes the task's session.
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

// wantedSessions gives the sessions of all tasks that may still have one. It lists
// tasks of all states in one order, so that no task is missed that changes meanwhile.
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
			elsewhere := d.term != nil && t.Home != "" && t.Home != d.term.roster.name
			if !elsewhere && (t.State.Type != core.TaskDone || len(core.Outstanding(t)) > 0) {
				names[t.SessionID] = true
			}
		}
		if next == "" {
			return names, nil
		}
		page.Token = next
	}
}
