package memory

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/orrery-go/orrery/store"
)

var (
	_ store.Handover = (*Process)(nil)
	_ store.Handover = (*Formers)(nil)
)

// Formers are former owners of partitions, and what they have reported: the part of a database in memory that is a [store.Handover]. A [Cluster] has
// its own; it is exported for other databases of tests.
type Formers struct {
	owner func(partition int) string

	mu      sync.Mutex
	formers map[formerKey]*former
	results map[formerKey][]byte
}

// NewFormers makes an empty one. Owner gives the session of a partition's owner, empty if nobody owns it; each call but Formers and Report asks it once, and what it gives
// must not change until the call has returned.
func NewFormers(owner func(partition int) string) *Formers {
	return &Formers{owner: owner, formers: make(map[formerKey]*former), results: make(map[formerKey][]byte)}
}

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

// owns refuses a session that does not own the partition.
func (d *Formers) owns(partition int, session string) error {
	if session == "" || d.owner(partition) != session {
		return store.ErrFenced
	}
	return nil
}

// Remain implements [store.Handover].
func (d *Formers) Remain(_ context.Context, f store.Former) error {
	if err := d.owns(f.Partition, f.Session); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	k := formerKey{partition: f.Partition, session: f.Session}
	f.Beat, f.Running = 1, slices.Clone(f.Running)
	if was := d.formers[k]; was != nil {
		f.Beat = was.Beat + 1
	}
	d.formers[k] = &former{Former: f}
	return nil
}

// Report implements [store.Handover].
func (d *Formers) Report(_ context.Context, f store.Former, results []store.FormerResult) ([]store.FormerStop, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	is := d.formers[formerKey{partition: f.Partition, session: f.Session}]
	if is == nil {
		return nil, store.ErrFenced
	}
	is.Beat++
	is.Running = slices.Clone(f.Running)
	for _, r := range results {
		k := formerKey{f.Partition, f.Session, r.Key}
		if _, there := d.results[k]; !there {
			d.results[k] = bytes.Clone(r.Data)
		}
	}
	return slices.Clone(is.stops), nil
}

// Depart implements [store.Handover].
func (d *Formers) Depart(_ context.Context, partition int, by, session string) error {
	if by != session {
		if err := d.owns(partition, by); err != nil {
			return err
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.formers, formerKey{partition: partition, session: session})
	return nil
}

// Formers implements [store.Handover].
func (d *Formers) Formers(_ context.Context, partition, most int) (all []store.Former, results []store.FormerResult, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for k, f := range d.formers {
		if k.partition == partition {
			is := f.Former
			is.Running = slices.Clone(is.Running)
			all = append(all, is)
		}
	}
	slices.SortFunc(all, func(a, b store.Former) int { return cmp.Compare(a.Session, b.Session) })
	for _, k := range slices.SortedFunc(maps.Keys(d.results), compareResults) {
		if k.partition == partition && len(results) < most {
			results = append(results, store.FormerResult{Session: k.session, Key: k.key, Data: bytes.Clone(d.results[k])})
		}
	}
	return all, results, nil
}

func compareResults(a, b formerKey) int {
	return cmp.Or(cmp.Compare(a.session, b.session), bytes.Compare(a.key.ID[:], b.key.ID[:]), cmp.Compare(a.key.N, b.key.N))
}

// Stop implements [store.Handover].
func (d *Formers) Stop(_ context.Context, partition int, by, session string, stops []store.FormerStop) error {
	if err := d.owns(partition, by); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if f := d.formers[formerKey{partition: partition, session: session}]; f != nil {
		f.stops = slices.Clone(stops)
	}
	return nil
}

// Taken implements [store.Handover].
func (d *Formers) Taken(_ context.Context, partition int, by string, results []store.FormerResult) error {
	if err := d.owns(partition, by); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, r := range results {
		delete(d.results, formerKey{partition, r.Session, r.Key})
	}
	return nil
}

// Remain implements [store.Handover].
func (p *Process) Remain(ctx context.Context, f store.Former) error {
	err := p.ask(ctx, func() error { return p.c.formers.Remain(ctx, f) })
	if err != nil {
		return fmt.Errorf("remain in partition %d: %w", f.Partition, err)
	}
	return nil
}

// Report implements [store.Handover].
func (p *Process) Report(ctx context.Context, f store.Former, results []store.FormerResult) (stops []store.FormerStop, err error) {
	err = p.ask(ctx, func() (err error) {
		stops, err = p.c.formers.Report(ctx, f, results)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("report to partition %d: %w", f.Partition, err)
	}
	return stops, nil
}

// Depart implements [store.Handover].
func (p *Process) Depart(ctx context.Context, partition int, by, session string) error {
	err := p.ask(ctx, func() error { return p.c.formers.Depart(ctx, partition, by, session) })
	if err != nil {
		return fmt.Errorf("depart from partition %d: %w", partition, err)
	}
	return nil
}

// Formers implements [store.Handover].
func (p *Process) Formers(ctx context.Context, partition, most int) (all []store.Former, results []store.FormerResult, err error) {
	err = p.ask(ctx, func() (err error) {
		all, results, err = p.c.formers.Formers(ctx, partition, most)
		return err
	})
	if err != nil {
		return nil, nil, fmt.Errorf("list the former owners of partition %d: %w", partition, err)
	}
	return all, results, nil
}

// Stop implements [store.Handover].
func (p *Process) Stop(ctx context.Context, partition int, by, session string, stops []store.FormerStop) error {
	err := p.ask(ctx, func() error { return p.c.formers.Stop(ctx, partition, by, session, stops) })
	if err != nil {
		return fmt.Errorf("stop what a former owner of partition %d carries out: %w", partition, err)
	}
	return nil
}

// Taken implements [store.Handover].
func (p *Process) Taken(ctx context.Context, partition int, by string, results []store.FormerResult) error {
	err := p.ask(ctx, func() error { return p.c.formers.Taken(ctx, partition, by, results) })
	if err != nil {
		return fmt.Errorf("take results of former owners of partition %d: %w", partition, err)
	}
	return nil
}
