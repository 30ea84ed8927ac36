package repartition

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/engine"
	"github.com/orrery-go/orrery/store"
)

// Rule gives the partition of a tenant, of so many.
type Rule func(of core.Scope, partitions int) int

// survey is what is known of the sources before anything is copied.
type survey struct {
	from    []Source
	targets int
	o       Options

	index      []index // by source: records that do not depend on another one
	late       []index // and the others, once they were copied
	seq        uint64  // the last batch of any
	seqs       []uint64
	epoch      uint64       // the last one of any
	seen       effects.Time // the last sign of life of an engine that has not ended cleanly
	schedulers map[uuid.UUID]*shard
	pods       uint64 // runs that may have some
	pod        effects.Ref
	sessions   uint64 // tasks whose session may live
	session    effects.Ref
}

// shard is what becomes of the schedulers under one id.
type shard struct {
	version, seq uint64
	parts        []sourced
}

type sourced struct {
	source int
	core.Scheduler
}

func look(ctx context.Context, from []Source, targets int, o Options) (*survey, error) {
	s := &survey{from: from, targets: targets, o: o, index: make([]index, len(from)), late: make([]index, len(from)), seqs: make([]uint64, len(from)), schedulers: map[uuid.UUID]*shard{}}
	for k, source := range from {
		if source == nil {
			continue
		}
		s.index[k], s.late[k] = index{}, index{}
		if err := source.View(ctx, func(tx store.ReadTx) error { return s.read(ctx, k, tx) }); err != nil {
			return nil, fmt.Errorf("partition %d: %w", k, err)
		}
	}
	if s.pods > 0 && !o.LeavePods {
		return nil, fmt.Errorf("%w: %d, such as %s: a database with another number of partitions does not know them for its own: let the runs end first", ErrPods, s.pods, s.pod)
	}
	if s.sessions > 0 && !o.LeaveSessions {
		return nil, fmt.Errorf("%w: %d, such as %s: another number of partitions has them under other names, so nobody would watch or end what runs: let the tasks end first, or cancel them", ErrSessions, s.sessions, s.session)
	}
	return s, nil
}

func (s *survey) read(ctx context.Context, k int, tx store.ReadTx) error {
	seq, err := tx.Seq()
	if err != nil {
		return err
	}
	s.seqs[k], s.seq = seq, max(s.seq, seq)
	epochs, err := tx.Epochs()
	if err != nil {
		return err
	}
	for _, e := range epochs {
		s.epoch = max(s.epoch, e.Number)
		if e.First > 0 {
			s.seq = max(s.seq, e.First-1)
		}
	}
	claims, err := tx.Claims(engine.ClaimPrefix)
	if err != nil {
		return err
	}
	for _, c := range claims {
		if c.Holder != "" {
			s.seen = max(s.seen, c.Renewed)
		}
	}
	if s.targets > 1 {
		hooks, err := tx.Webhooks(1)
		if _, rest := store.Unreadable(err); rest != nil {
			return rest
		}
		if len(hooks) > 0 {
			return fmt.Errorf("%w, such as %s of route %q: start the daemon on it once more, and stop it again", ErrWebhooks, hooks[0].ID, hooks[0].Route)
		}
	}
	n := 0
	_, rest := store.Unreadable(tx.Records(func(r store.Record) error {
		if n++; n%1000 == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return s.record(k, r)
	}))
	return rest
}

// record notes where a record goes, unless that depends on another one. What cannot be decoded is left to the division.
func (s *survey) record(k int, r store.Record) error {
	ref := effects.Ref{Kind: r.Kind, ID: r.ID}
	if r.Kind == core.KindScheduler {
		return s.scheduler(k, r)
	}
	if r.Kind == core.KindOrchestrator {
		if run, err := core.DecodeState(r.Kind, r.State); err == nil && run.(core.Orchestrator).InCluster {
			if s.pods++; s.pods == 1 {
				s.pod = ref
			}
		}
	}
	if r.Kind == core.KindTask {
		if task, err := core.DecodeState(r.Kind, r.State); err == nil && task.(core.Task).Spawned {
			if s.sessions++; s.sessions == 1 {
				s.session = ref
			}
		}
	}
	b, err := core.StoredBelonging(r.Kind, r.State)
	if err != nil || !b.With.IsZero() {
		return nil //nolint:nilerr // see above
	}
	s.index[k].add(ref, s.target(k, ref, b))
	return nil
}

// find gives the target of a record of a source; false: it is not known.
func (s *survey) find(source int, ref effects.Ref) (to int, ok bool) {
	if to, ok = s.index[source].find(ref); !ok {
		to, ok = s.late[source].find(ref)
	}
	return to, ok
}

// target gives the target of a record that does not depend on another one.
func (s *survey) target(k int, ref effects.Ref, b core.Belonging) int {
	switch {
	case b.Each && k < s.targets:
		return k
	case b.Each:
		return nowhere
	case ref == core.BusRef() && k != s.o.Place(core.Scope{}, len(s.from)):
		return nowhere // the engine registers the program's subscribers again
	}
	return s.o.Place(b.Of, s.targets)
}

func (s *survey) scheduler(k int, r store.Record) error {
	state, err := core.DecodeState(r.Kind, r.State)
	if err != nil {
		return nil //nolint:nilerr // the division sets it aside
	}
	of := s.schedulers[r.ID]
	if of == nil {
		of = &shard{}
		s.schedulers[r.ID] = of
	}
	of.version, of.seq = max(of.version, r.Version), max(of.seq, r.Seq)
	of.parts = append(of.parts, sourced{k, state.(core.Scheduler)})
	return nil
}

// made is a record that the copy makes.
type made struct {
	to    int
	state core.State
	store.Record
}

// makeSchedulers gives each target the schedulers of its runs, by id. A run that is tracked, and whose record is not there, counts for nobody.
func (s *survey) makeSchedulers() (all []made) {
	for id, of := range s.schedulers { // order-free: they are sorted below
		for to := range s.targets {
			var parts []core.Scheduler
			for _, p := range of.parts {
				part := p.Scheduler
				part.Runs = nil
				for _, run := range p.Runs {
					if at, ok := s.find(p.source, effects.Ref{Kind: core.KindOrchestrator, ID: run.Run}); ok && at == to {
						part.Runs = append(part.Runs, run)
					}
				}
				if len(part.Runs) > 0 {
					parts = append(parts, part)
				}
			}
			if len(parts) == 0 {
				continue // it is made with the first run
			}
			state := core.MergeSchedulers(parts...)
			r := store.Record{Kind: core.KindScheduler, ID: id, Version: of.version, Seq: of.seq, State: state.AppendJSON(nil)}
			all = append(all, made{to, state, r})
		}
	}
	slices.SortFunc(all, func(a, b made) int {
		if c := slices.Compare(a.ID[:], b.ID[:]); c != 0 {
			return c
		}
		return a.to - b.to
	})
	return all
}
