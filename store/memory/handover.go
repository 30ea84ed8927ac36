package memory

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/orrery-go/orrery/store"
)

var _ store.Handover = (*Process)(nil)

// former is a former owner of a partition, as the database has it.
type former struct {
	store.Former
	stops []store.FormerStop
}

// formerKey names a former owner, and with a key what came of an effect.
type formerKey struct {
	partition int
	session   string
	key       store.EffectKey
}

// Remain implements [store.Handover].
func (p *Process) Remain(ctx context.Context, f store.Former) error {
	err := p.ask(ctx, func() error {
		k := formerKey{partition: f.Partition, session: f.Session}
		f.Beat, f.Running = 1, slices.Clone(f.Running)
		if was := p.c.formers[k]; was != nil {
			f.Beat = was.Beat + 1
		}
		p.c.formers[k] = &former{Former: f}
		return nil
	})
	if err != nil {
		return fmt.Errorf("remain in partition %d: %w", f.Partition, err)
	}
	return nil
}

// Report implements [store.Handover].
func (p *Process) Report(ctx context.Context, f store.Former, results []store.FormerResult) (stops []store.FormerStop, err error) {
	err = p.ask(ctx, func() error {
		is := p.c.formers[formerKey{partition: f.Partition, session: f.Session}]
		if is == nil {
			return store.ErrFenced
		}
		is.Beat++
		is.Running = slices.Clone(f.Running)
		for _, r := range results {
			k := formerKey{f.Partition, f.Session, r.Key}
			if _, there := p.c.results[k]; !there {
				p.c.results[k] = bytes.Clone(r.Data)
			}
		}
		stops = slices.Clone(is.stops)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("report to partition %d: %w", f.Partition, err)
	}
	return stops, nil
}

// Depart implements [store.Handover].
func (p *Process) Depart(ctx context.Context, partition int, session string) error {
	err := p.ask(ctx, func() error {
		delete(p.c.formers, formerKey{partition: partition, session: session})
		return nil
	})
	if err != nil {
		return fmt.Errorf("depart from partition %d: %w", partition, err)
	}
	return nil
}

// Formers implements [store.Handover].
func (p *Process) Formers(ctx context.Context, partition, most int) (all []store.Former, results []store.FormerResult, err error) {
	err = p.ask(ctx, func() error {
		for k, f := range p.c.formers {
			if k.partition == partition {
				is := f.Former
				is.Running = slices.Clone(is.Running)
				all = append(all, is)
			}
		}
		slices.SortFunc(all, func(a, b store.Former) int { return cmp.Compare(a.Session, b.Session) })
		for _, k := range slices.SortedFunc(maps.Keys(p.c.results), compareResults) {
			if k.partition == partition && len(results) < most {
				results = append(results, store.FormerResult{Session: k.session, Key: k.key, Data: bytes.Clone(p.c.results[k])})
			}
		}
		return nil
	})
	if err != nil {
		return nil, nil, fmt.Errorf("list the former owners of partition %d: %w", partition, err)
	}
	return all, results, nil
}

func compareResults(a, b formerKey) int {
	return cmp.Or(cmp.Compare(a.session, b.session), bytes.Compare(a.key.ID[:], b.key.ID[:]), cmp.Compare(a.key.N, b.key.N))
}

// Stop implements [store.Handover].
func (p *Process) Stop(ctx context.Context, partition int, session string, stops []store.FormerStop) error {
	err := p.ask(ctx, func() error {
		if f := p.c.formers[formerKey{partition: partition, session: session}]; f != nil {
			f.stops = slices.Clone(stops)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("stop what a former owner of partition %d carries out: %w", partition, err)
	}
	return nil
}

// Taken implements [store.Handover].
func (p *Process) Taken(ctx context.Context, partition int, results []store.FormerResult) error {
	err := p.ask(ctx, func() error {
		for _, r := range results {
			delete(p.c.results, formerKey{partition, r.Session, r.Key})
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("take results of former owners of partition %d: %w", partition, err)
	}
	return nil
}
