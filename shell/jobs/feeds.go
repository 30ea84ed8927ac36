package jobs

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/store"
)

// Bounds of what goes to a [JobStateSyncer] or a [StatsCollector].
const (
	feedBatch  = 256              // one call at most
	feedDelay  = time.Second      // the longest wait for a batch to fill
	feedBuffer = 16384            // of the subscription; beyond it the stored states are read
	feedMark   = 10 * time.Second // between two watermarks
)

// feed tells the Syncer and the Stats, where there are any, until ctx ends.
//
// What is announced on the bus goes out in order and in batches. The bus forgets
// what comes while nobody listens or while nobody takes it, so each feed keeps a
// watermark in the store: the journal batch up to which all has been taken. After a
// start, or where the bus has dropped something, each run that was written since is
// read again, and told of as [core.Orchestrator.Updates] and its Metrics have it.
//
// So each metrics, and of each run the latest update, is told at least once; an
// update of a run that went on by the next one before it was told, while the process
// was gone, may be missing. What comes twice has the same UpdateID or RunID, and says
// the same.
func (s *Service) feed(ctx context.Context, wg *sync.WaitGroup) {
	if s.o.Syncer != nil {
		f := &feed[core.JobRunUpdate]{s: s, name: "updates", action: "update", deliver: s.o.Syncer.Sync, rebuild: core.Orchestrator.Updates}
		wg.Go(func() { f.run(ctx) })
	}
	if s.o.Stats != nil {
		f := &feed[core.OrchestratorMetrics]{s: s, name: "metrics", action: "metrics", deliver: s.o.Stats.Collect, rebuild: metricsOf}
		wg.Go(func() { f.run(ctx) })
	}
}

// metricsOf gives the metrics of a run that have been announced.
func metricsOf(o core.Orchestrator) []core.OrchestratorMetrics {
	if !o.Reported {
		return nil
	}
	return []core.OrchestratorMetrics{o.Metrics}
}

// feed is the way from runs to one receiver.
type feed[T any] struct {
	s       *Service
	name    string // of the watermark
	action  string // of the announcements: "run:action"
	deliver func(context.Context, []T) error
	rebuild func(core.Orchestrator) []T

	sub     *shell.Subscription
	dropped uint64 // of the subscription, when all was last read again
	batch   []T
	mark    uint64 // all up to that journal batch has been taken
}

func (f *feed[T]) run(ctx context.Context) {
	f.sub = f.s.e.Subscribe(func(ev effects.Event) bool {
		return ev.Kind.Category == "run" && ev.Kind.Action == f.action
	}, f.s.feedBuffer)
	defer f.sub.Close()
	if !f.begin(ctx) {
		return
	}
	for {
		caughtUp, ok := f.collect(ctx)
		if !ok {
			return
		}
		if f.sub.Dropped() != f.dropped {
			if !f.catchUp(ctx) {
				return
			}
		} else if caughtUp {
			f.advance(ctx)
		}
	}
}

// begin reads the watermark, and tells of what came since.
func (f *feed[T]) begin(ctx context.Context) bool {
	return f.persist(ctx, "read the watermark", f.readMark) && f.catchUp(ctx)
}

// collect takes announcements until it is time for a watermark, and delivers them
// in batches. caughtUp: it has taken all that there was.
func (f *feed[T]) collect(ctx context.Context) (caughtUp, ok bool) {
	until, stop := f.s.o.Clock.Timer(feedMark)
	defer stop()
	for {
		var full <-chan time.Time
		halt := func() {}
		if len(f.batch) > 0 {
			full, halt = f.s.o.Clock.Timer(feedDelay)
		}
		for timed := false; !timed && len(f.batch) < feedBatch; {
			select {
			case ev, open := <-f.sub.C:
				if !open {
					halt()
					return false, false
				}
				if f.take(ev); full == nil {
					full, halt = f.s.o.Clock.Timer(feedDelay)
				}
			case <-full:
				timed = true
			case <-until:
				halt()
				return true, f.flush(ctx)
			case <-ctx.Done():
				halt()
				return false, false
			}
		}
		halt()
		if !f.flush(ctx) {
			return false, false
		}
		if f.sub.Dropped() != f.dropped {
			return false, true
		}
	}
}

func (f *feed[T]) take(ev effects.Event) {
	var v T
	if err := json.Unmarshal(ev.Data, &v); err != nil { // the machine made it
		f.s.log.Error("an announcement cannot be read", "event", ev.Kind.String(), "run", ev.Source.ID, "error", err)
		return
	}
	f.batch = append(f.batch, v)
}

// flush delivers the batch, and tries again until that goes well or ctx ends.
func (f *feed[T]) flush(ctx context.Context) bool {
	if len(f.batch) == 0 {
		return ctx.Err() == nil
	}
	ok := f.persist(ctx, "deliver", func(ctx context.Context) error { return f.deliver(ctx, f.batch) })
	f.batch = nil // the receiver may keep it
	return ok
}

// persist does something until it goes well; false where ctx has ended.
func (f *feed[T]) persist(ctx context.Context, what string, fn func(context.Context) error) bool {
	var wait backoff
	for {
		err := fn(ctx)
		switch {
		case ctx.Err() != nil:
			return false
		case err == nil:
			return true
		case errors.Is(err, shell.ErrStopped):
			return false
		}
		f.s.log.Error("could not tell what runs have come to; trying again", "feed", f.name, "step", what, "error", err)
		if !f.s.pause(ctx, wait.next()) {
			return false
		}
	}
}

// reached is the journal batch that the store is at: all that was announced by then
// is in the subscription.
func (f *feed[T]) reached(ctx context.Context) (seq uint64, err error) {
	err = f.s.e.Store().View(ctx, func(tx store.ReadTx) error {
		seq, err = tx.Seq()
		return err
	})
	if err != nil {
		return 0, err
	}
	// The loop answers after it has announced what it has committed; that it could not
	// commit something is of no concern.
	if err := f.s.e.Health(ctx); errors.Is(err, shell.ErrStopped) {
		return 0, err
	}
	return seq, ctx.Err()
}

// advance moves the watermark to where the store is, once all of that is taken.
func (f *feed[T]) advance(ctx context.Context) {
	seq, err := f.reached(ctx)
	if err != nil || seq == f.mark {
		return
	}
	if f.drain(ctx) && f.sub.Dropped() == f.dropped {
		f.storeMark(ctx, seq)
	}
}

// drain takes and delivers what is in the subscription now.
func (f *feed[T]) drain(ctx context.Context) bool {
	for range len(f.sub.C) {
		ev, open := <-f.sub.C
		if !open {
			return false
		}
		f.take(ev)
		if len(f.batch) >= feedBatch && !f.flush(ctx) {
			return false
		}
	}
	return f.flush(ctx)
}

// catchUp tells of each run that was written after the watermark.
func (f *feed[T]) catchUp(ctx context.Context) bool {
	for {
		dropped := f.sub.Dropped()
		if !f.drain(ctx) { // the older ones first
			return false
		}
		var seq uint64
		ok := f.persist(ctx, "read the runs again", func(ctx context.Context) (err error) {
			if seq, err = f.reached(ctx); err != nil {
				return err
			}
			return f.readAgain(ctx)
		})
		if !ok || !f.flush(ctx) {
			return false
		}
		f.dropped = dropped
		if f.sub.Dropped() == dropped {
			f.storeMark(ctx, seq) // what is left in the subscription came later, or was read too
			return true
		}
	}
}

// readAgain reads the runs that were written after the watermark.
func (f *feed[T]) readAgain(ctx context.Context) error {
	var from store.Cursor
	for more := true; more; {
		var found []core.Orchestrator
		err := f.s.e.Store().View(ctx, func(tx store.ReadTx) error {
			entries, err := tx.Scan(core.KindOrchestrator, core.TermAll, from, false, feedBatch)
			if err != nil {
				return err
			}
			more = len(entries) == feedBatch
			for _, c := range entries {
				if from = c; f.decode(tx, c, &found) != nil {
					f.s.log.Warn("a run cannot be read: nobody is told of it", "feed", f.name, "run", c.ID)
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		for _, o := range found {
			f.batch = append(f.batch, f.rebuild(o)...)
		}
		if len(f.batch) >= feedBatch && !f.flush(ctx) {
			return ctx.Err()
		}
	}
	return nil
}

// decode adds the run where it was written after the watermark.
func (f *feed[T]) decode(tx store.ReadTx, c store.Cursor, found *[]core.Orchestrator) error {
	rec, err := tx.Get(core.KindOrchestrator, c.ID)
	if err != nil || rec.Seq <= f.mark {
		return err
	}
	st, err := core.DecodeState(core.KindOrchestrator, rec.State)
	if o, ok := st.(core.Orchestrator); ok && err == nil {
		*found = append(*found, o)
	}
	return err
}

// metaName is where the store keeps the watermark.
func (f *feed[T]) metaName() string { return "jobs/feed/" + f.name }

func (f *feed[T]) readMark(ctx context.Context) error {
	return f.s.e.Store().View(ctx, func(tx store.ReadTx) error {
		b, err := tx.Meta(f.metaName())
		if err != nil {
			return err
		}
		seq, err := tx.Seq()
		if err != nil {
			return err
		}
		if len(b) == 8 {
			f.mark = binary.BigEndian.Uint64(b)
		}
		if f.mark > seq { // of another store: all is told again
			f.mark = 0
		}
		return nil
	})
}

// storeMark keeps the watermark. Where that fails more is told again, no more.
func (f *feed[T]) storeMark(ctx context.Context, seq uint64) {
	if seq == f.mark {
		return
	}
	err := f.s.e.Store().Update(ctx, func(tx store.Tx) error {
		return tx.SetMeta(f.metaName(), binary.BigEndian.AppendUint64(nil, seq))
	})
	if err != nil {
		if ctx.Err() == nil {
			f.s.log.Warn("the watermark could not be stored", "feed", f.name, "error", fmt.Errorf("set %s: %w", f.metaName(), err))
		}
		return
	}
	f.mark = seq
}
