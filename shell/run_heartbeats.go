package shell

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/engine"
	"github.com/orrery-go/orrery/store"
)

// Schedulers reads all that is known of the heartbeats of runs, which is how to
// learn cheaply which runs have not ended: at most 256 records, and none of a run.
func (r Runs) Schedulers(ctx context.Context) ([]core.Scheduler, error) {
	list, _, err := page[core.Scheduler](ctx, r.e.store, newest(core.KindScheduler, core.TermAll), Page{Limit: MaxPage}, nil)
	return list, err
}

// InCluster lists the ids of the runs that may have something in a cluster,
// newest first. It reads no run.
func (r Runs) InCluster(ctx context.Context) ([]uuid.UUID, error) {
	var ids []uuid.UUID
	err := r.e.store.View(ctx, func(tx store.ReadTx) error {
		var from store.Cursor
		for {
			entries, err := tx.Scan(core.KindOrchestrator, core.TermInCluster, from, true, MaxPage)
			if err != nil {
				return err
			}
			for _, c := range entries {
				ids, from = append(ids, c.ID), c
			}
			if len(entries) < MaxPage {
				return nil
			}
		}
	})
	return ids, err
}

// Heartbeat sends the heartbeats of runs, all in one transaction (004
// OrchestratorHeartbeatMsg). Those that nobody waits for are passed over. every is
// the time until the next one, and missed how many may be missing before a run is
// orphaned; 0: as they were.
func (r Runs) Heartbeat(ctx context.Context, runs []uuid.UUID, every time.Duration, missed uint32) error {
	shards := make(map[effects.Ref]int)
	var inputs []core.Input
	for _, run := range runs {
		to := core.SchedulerRef(run)
		i, known := shards[to]
		if !known {
			i = len(inputs)
			shards[to] = i
			inputs = append(inputs, inputOf(ctx, to, core.SchedulerHeartbeats{
				IntervalMS: every.Milliseconds(), MaxMissed: missed,
			}))
		}
		ev, _ := inputs[i].Event.(core.SchedulerHeartbeats)
		ev.Runs = append(ev.Runs, run)
		inputs[i].Event = ev
	}
	if len(inputs) == 0 {
		return nil
	}
	_, err := r.e.loop.Do(ctx, engine.Request{Inputs: inputs})
	if _, refused := errors.AsType[*Refusal](err); refused { // of the last one: its runs have ended meanwhile
		return nil
	}
	if err != nil {
		return fmt.Errorf("send heartbeats: %w", err)
	}
	return nil
}
