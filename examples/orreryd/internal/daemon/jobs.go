package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/examples/orreryd/internal/config"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/constraints"
	"github.com/orrery-go/orrery/shell/jobs"
)

// runJobs makes what carries out the runs of jobs, and enters it into the options of
// the engine: before that is made.
func (d *daemon) runJobs(engine *shell.Options) error {
	keys, err := d.c.Jobs.SigningKeys()
	if err != nil {
		return err
	}
	client, err := d.c.Jobs.WebhookClient()
	if err != nil {
		return err
	}
	var slots *constraints.Slots
	var rooms *jobs.Rooms
	if d.hosted() { // what the partitions of one daemon have in common
		slots, rooms = &d.term.host.hooks, &d.term.host.rooms
	}
	d.checker, err = constraints.New(constraints.Options{
		Tools: d.hookTools(), Concurrency: d.hookSlots(engine), Slots: slots, MaxShare: engine.Limits.MaxLaneShare, Client: client, Secrets: keys,
		Notify: d.notify.Say,
		Logger: d.log,
	})
	if err != nil {
		return fmt.Errorf("constraints: %w", err)
	}
	j := d.c.Jobs
	o := jobs.Options{
		Runners: d.runners, DefaultRunner: d.c.DefaultRunner(), MaxPods: d.c.MaxPods(), Rooms: rooms, Tenants: d.c.RunnerTenants(),
		PodShare: engine.Limits.MaxLaneShare, PodWeights: engine.Limits.Weights,
		Checker: d.checker, Actions: d.checker,
		HeartbeatInterval: config.Seconds(j.HeartbeatSeconds), MaxMissed: j.MaxMissed, ReconcileEvery: config.Seconds(j.ReconcileSeconds),
		LogHeadBytes: int64(j.LogHeadBytes), LogTailBytes: int64(j.LogTailBytes), Logger: d.log, Place: d.place(),
	}
	if d.term != nil {
		o.Home = d.term.roster.name
	}
	feed, err := j.MakeFeed()
	if err != nil {
		return err
	}
	if feed.Updates != nil {
		o.Syncer = feed
	}
	if feed.Metrics != nil {
		o.Stats = feed
	}
	if d.jobs, err = jobs.Wire(engine, o); err != nil {
		return fmt.Errorf("jobs: %w", err)
	}
	d.tools = engine.Tools
	d.log.Info("jobs", "runners", strings.Join(d.c.RunnerNames(), ", "), "default", j.DefaultRunner)
	return nil
}

// warnOfJobs warns of stored jobs for which the configuration has no runner, as after an
// upgrade with tokens: nothing else would say it before a run fails.
func (d *daemon) warnOfJobs(ctx context.Context) {
	if len(d.c.RunnerNames()) > 0 {
		return
	}
	running := false
	stored, _, err := d.engine.Jobs().List(ctx, shell.JobFilter{Paused: &running}, shell.Page{Limit: 1})
	if err == nil && len(stored) > 0 {
		d.log.Warn("there are jobs, and each of their runs will fail", "job", stored[0].ID, "namespace", stored[0].Namespace,
			"tenant", stored[0].Tenant, "error", config.ErrNoRunner)
	}
}

// laneLimits sets how many effects of runs are executed at a time, if the default is less.
// Such effects mostly wait: for a cluster that does not answer, for a pod that takes long
// to end, for a hook. The effects of one runner must leave slots for those of others.
// (Effects that read logs hold them in memory, and keep the default. Of the deletions that
// do, package jobs bounds how many read at a time.)
func laneLimits(atLeast int, limits map[string]int) {
	for lane, n := range map[string]int{effects.LaneRun: 1024, effects.LaneConstraints: 256, effects.LaneActions: 256} {
		limits[lane] = max(n, atLeast)
	}
}

// hookTools are the tools that hooks of constraints may run: those that need no
// engine.
func (d *daemon) hookTools() map[string]shell.Tool {
	out := map[string]shell.Tool{}
	for name, t := range d.tools {
		if typ := d.c.Tools[name].Type; typ == config.TypeCommand || typ == config.TypeHTTP {
			out[name] = t
		}
	}
	return out
}

// hookSlots gives hooks as many slots of each tool as runs have.
func (d *daemon) hookSlots(engine *shell.Options) map[string]int {
	out := map[string]int{}
	for name := range d.hookTools() { // order-free: it fills a map
		out[name] = cmp.Or(engine.Concurrency[name], engine.DefaultConcurrency)
	}
	return out
}

// watchJobs runs the service of jobs until ctx ends.
func (d *daemon) watchJobs(ctx context.Context) error {
	err := d.jobs.Run(ctx, d.engine)
	if err == nil || ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return fmt.Errorf("jobs: %w", err)
}
