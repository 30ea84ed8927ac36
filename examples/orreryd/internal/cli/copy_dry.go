package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/examples/orreryd/internal/config"
	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
	"github.com/orrery-go/orrery/shell/repartition"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/bolt"
	"github.com/orrery-go/orrery/store/postgres"
	"github.com/orrery-go/orrery/store/stream"
)

// dryRun tells what a copy would do, and why it would be refused.
func (c *copying) dryRun(ctx context.Context) (err error) {
	to, err := c.partitionsToFill(ctx)
	if err != nil {
		return err
	}
	if !config.IsDatabaseURL(c.from) {
		if _, err := os.Stat(c.from); errors.Is(err, os.ErrNotExist) {
			return &exitError{code: exitNotFound, err: fmt.Errorf("--from: there is no file %s", c.from)}
		}
		return withStopped(c.from, func(st *bolt.Store) error { return c.plan(ctx, []source{st}, to) })
	}
	seen, err := c.look(ctx)
	if err != nil {
		return err
	}
	sources, opened := make([]source, len(seen)), make([]*postgres.Store, len(seen))
	defer func() { err = errors.Join(err, closeAll(opened)) }()
	for k, p := range seen {
		if p.Token == 0 {
			continue
		}
		if opened[k], err = beside(ctx, "--from", c.from, k); err != nil {
			return err
		}
		sources[k] = opened[k]
	}
	return c.plan(ctx, sources, to)
}

// partitionsToFill gives the number of partitions of the database that would be made, if it can be.
func (c *copying) partitionsToFill(ctx context.Context) (int, error) {
	if !config.IsDatabaseURL(c.to) {
		if _, err := os.Lstat(c.to); err == nil {
			return 0, c.existsHint(os.ErrExist)
		}
		return 1, nil
	}
	name := storeName(c.to)
	cluster, err := postgres.Connect(ctx, c.to, postgres.Options{ReadOnly: true})
	if errors.Is(err, store.ErrNotFound) { // nobody has made its tables
		return max(c.partitions, 1), nil
	}
	if err != nil {
		return 0, fmt.Errorf("--to: %s: %w", name, err)
	}
	defer cluster.Close()
	layout, err := cluster.Layout(ctx)
	var was *store.Layout
	switch {
	case err == nil:
		was = &layout
	case errors.Is(err, store.ErrNotFound):
		layout.Partitions = 1
	default:
		return 0, fmt.Errorf("--to: %s: %w", name, err)
	}
	to, err := c.partitionsIn(layout)
	if err != nil {
		return 0, err
	}
	made, err := cluster.Partitions(ctx)
	if err != nil {
		return 0, fmt.Errorf("--to: %s: %w", name, err)
	}
	var opened []int
	for _, p := range made {
		opened = append(opened, p.Number)
	}
	if to > 1 {
		if err := (store.Layout{Partitions: to, Rule: core.PartitionRule}).CanSet(was, opened); err != nil {
			return 0, fmt.Errorf("--partitions: %s: %w", name, err)
		}
	}
	for _, p := range made {
		if err := postgres.CanFill(p); err != nil {
			return 0, fmt.Errorf("--to: %s: %w", name, err)
		}
	}
	return to, nil
}

// plan reads all that would be copied, and tells of it.
func (c *copying) plan(ctx context.Context, sources []source, to int) error {
	if err := c.verifyAll(ctx, sources); err != nil {
		return err
	}
	p := newProgress(c.err)
	defer p.end()
	told := &summed{tell: p.tell}
	from, streams := told.sources(sources)
	targets := make([]repartition.Target, to)
	for k := range targets {
		targets[k] = func(ctx context.Context, from store.Exporter) error { return from.Export(ctx, stream.Nothing{}) }
	}
	o := repartition.Options{Place: core.Partition, At: effects.TimeOf(time.Now()), LeavePods: c.leavePods, LeaveSessions: c.leaveSessions}
	report, err := repartition.Copy(ctx, from, targets, o)
	var refused []error
	for (errors.Is(err, repartition.ErrPods) && !o.LeavePods) || (errors.Is(err, repartition.ErrSessions) && !o.LeaveSessions) { // what else is to be told
		refused = append(refused, copyHint(err))
		o.LeavePods, o.LeaveSessions = o.LeavePods || errors.Is(err, repartition.ErrPods), o.LeaveSessions || errors.Is(err, repartition.ErrSessions)
		report, err = repartition.Copy(ctx, from, targets, o)
	}
	p.end()
	if err != nil {
		return copyHint(err)
	}
	if report.Journal {
		lacks(&report, streams)
	}
	return c.planned(len(sources), report, refused)
}

// planned tells what would go where. The error is why the copy would be refused.
func (c *copying) planned(partitions int, r repartition.Report, refused []error) error {
	report := copyReport{
		From: storeName(c.from), To: storeName(c.to), Batch: r.Batch, Journal: r.Journal, Partitions: len(r.Records), Left: r.Left, DryRun: true, Records: r.Records,
	}
	for _, n := range r.Records {
		report.Entries += n
	}
	if r.Damaged > 0 {
		refused = append(refused, fmt.Errorf("it would lack what cannot be read (%d): the database is damaged: see orreryd check, orreryd salvage", r.Damaged))
	}
	for _, err := range refused {
		report.Refused = append(report.Refused, err.Error())
	}
	journal := fmt.Sprintf("with the journal, up to batch %d", r.Batch)
	if !r.Journal {
		journal = fmt.Sprintf("the journal would stay behind, and a new one begin with batch %d", r.Batch+1)
	}
	var says strings.Builder
	text.Sayf(&says, "%s would have %s of %s, which has %s, in %s; %s\n", text.Clean(report.To), counted(int(report.Entries), "record"), text.Clean(report.From),
		counted(partitions, "partition"), counted(report.Partitions, "partition"), journal)
	if report.Partitions > 1 {
		for k, n := range r.Records {
			text.Sayf(&says, "partition %d: %s\n", k, counted(int(n), "record"))
		}
	}
	for _, l := range r.Left {
		text.Sayf(&says, "would stay behind: %s\n", text.Clean(l.String()))
	}
	for _, o := range r.Omitted {
		text.Sayf(&says, "would be left out: %s\n", text.Clean(o.String()))
	}
	if err := c.show(report, says.String()+"nothing was written\n"); err != nil {
		return err
	}
	if err := errors.Join(refused...); err != nil {
		return fmt.Errorf("the copy would fail: %w", err)
	}
	return nil
}
