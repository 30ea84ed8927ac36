package cli

import (
	"context"
	"errors"
	"fmt"
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

// partitionsOfCopy gives the number of partitions of the database that is made.
func (c *copying) partitionsOfCopy(ctx context.Context) (int, error) {
	if !config.IsDatabaseURL(c.to) {
		return 1, nil
	}
	layout, err := layoutOf(ctx, "--to", c.to)
	if err != nil {
		return 0, err
	}
	return c.partitionsIn(layout)
}

// partitionsIn gives the number of partitions of a copy into a database that is divided so.
func (c *copying) partitionsIn(layout store.Layout) (int, error) {
	switch {
	case layout.Partitions > 1 && layout.Rule != core.PartitionRule:
		return 0, fmt.Errorf("--to: %s has %s, and this program knows rule %d: copy into it with a newer one", storeName(c.to), layout, core.PartitionRule)
	case c.partitions == 0 || c.partitions == layout.Partitions:
		return layout.Partitions, nil
	case layout.Partitions > 1:
		return 0, usagef("--partitions: %d: %s is divided into %d already: leave it out, or name another database with --to", c.partitions, storeName(c.to), layout.Partitions)
	}
	return c.partitions, nil
}

// divideTarget divides the database that is made, if that is new; else it has the partitions already.
func (c *copying) divideTarget(ctx context.Context, partitions int) error {
	if partitions == 1 {
		return nil
	}
	cluster, err := postgres.Connect(ctx, c.to, postgres.Options{})
	if err != nil {
		return fmt.Errorf("--to: %s: %w", storeName(c.to), err)
	}
	defer cluster.Close()
	if err := cluster.SetLayout(ctx, store.Layout{Partitions: partitions, Rule: core.PartitionRule}); err != nil {
		return fmt.Errorf("--partitions: %s: %w", storeName(c.to), err)
	}
	return nil
}

// repartition copies where the source, or the copy, has several partitions.
func (c *copying) repartition(ctx context.Context, sources []source, to int, p *progress) error {
	told := &summed{tell: p.tell}
	from, streams := told.sources(sources)
	report, err := c.into(ctx, from, to)
	p.end()
	if err != nil {
		return err
	}
	if report.Journal {
		lacks(&report, streams)
	}
	return c.doneWith(len(sources), report)
}

// lacks adds what could not be read, which the streams know where the journal is copied.
func lacks(report *repartition.Report, streams []*streamed) {
	for _, s := range streams {
		report.Omitted, report.Damaged = append(report.Omitted, s.sum.Omitted...), report.Damaged+s.sum.Left
	}
}

// summed sums the progress of several streams.
type summed struct {
	tell func(stream.Progress)
	all  []stream.Progress
}

// of gives what is told of one more stream.
func (s *summed) of() func(stream.Progress) {
	n := len(s.all)
	s.all = append(s.all, stream.Progress{})
	return func(at stream.Progress) {
		s.all[n] = at
		sum := stream.Progress{Section: at.Section}
		for _, p := range s.all {
			sum.Entries, sum.Bytes, sum.Raw, sum.About = sum.Entries+p.Entries, sum.Bytes+p.Bytes, sum.Raw+p.Raw, sum.About+p.About
		}
		s.tell(sum)
	}
}

// streamedSource is a source that is copied through a stream.
type streamedSource struct {
	store.Store
	*streamed
}

// sources has all be copied through streams. Nil ones stay nil.
func (s *summed) sources(all []source) (from []repartition.Source, streams []*streamed) {
	from = make([]repartition.Source, len(all))
	for k, source := range all {
		if source != nil {
			one := &streamed{from: source, tell: s.of()}
			from[k], streams = streamedSource{source, one}, append(streams, one)
		}
	}
	return from, streams
}

// into fills the database that is made, and verifies it.
func (c *copying) into(ctx context.Context, from []repartition.Source, to int) (report repartition.Report, err error) {
	o := repartition.Options{Place: core.Partition, At: effects.TimeOf(time.Now()), LeavePods: c.leavePods, LeaveSessions: c.leaveSessions}
	if !config.IsDatabaseURL(c.to) {
		file := func(ctx context.Context, from store.Exporter) error {
			_, err := bolt.MakeFile(ctx, c.to, from)
			return c.existsHint(err)
		}
		if report, err = repartition.Copy(ctx, from, []repartition.Target{file}, o); err != nil {
			return report, copyHint(err)
		}
		return report, withStopped(c.to, func(st *bolt.Store) error { return c.verifyCopy(ctx, st) })
	}
	if err := c.divideTarget(ctx, to); err != nil {
		return report, err
	}
	stores, err := c.openTargets(ctx, from, to)
	defer func() { err = errors.Join(err, closeAll(stores)) }()
	if err != nil {
		return report, err
	}
	targets := make([]repartition.Target, to)
	for k, st := range stores {
		if st != nil {
			targets[k] = st.Import
		}
	}
	err = heldAll(ctx, stores, func(ctx context.Context) error {
		if report, err = repartition.Copy(ctx, from, targets, o); err != nil {
			return copyHint(err)
		}
		for k, st := range stores {
			if st == nil {
				continue
			}
			if err := c.verifyCopy(ctx, st); err != nil {
				return fmt.Errorf("partition %d: %w", k, err)
			}
		}
		return nil
	})
	if err != nil {
		err = fmt.Errorf("--to: %s: %w", storeName(c.to), err)
	}
	return report, err
}

// copyHint says what a caller of the command does about runs that have pods, and tasks that have sessions.
func copyHint(err error) error {
	switch {
	case errors.Is(err, repartition.ErrPods):
		return fmt.Errorf("%w, or copy with --leave-pods, and delete their pods", err)
	case errors.Is(err, repartition.ErrSessions):
		return fmt.Errorf("%w, or copy with --leave-sessions, and end the sessions", err)
	}
	return err
}

// openTargets opens the partitions that are to be filled. One that is to be what the source has, where nobody has ever worked, is nil.
func (c *copying) openTargets(ctx context.Context, from []repartition.Source, to int) (stores []*postgres.Store, err error) {
	for k := range to {
		if to == len(from) && from[k] == nil {
			stores = append(stores, nil)
			continue
		}
		st, err := postgres.Open(ctx, c.to, postgres.Options{Owner: copyOwner, Address: copyAddress(), Partition: k, Fill: true})
		if err != nil {
			return stores, fmt.Errorf("--to: %s: %w", storeName(c.to), err)
		}
		stores = append(stores, st)
	}
	return stores, nil
}

// verifyCopy folds the journal of what was made, and looks at each record.
func (c *copying) verifyCopy(ctx context.Context, st store.Store) error {
	if c.trusting {
		return nil
	}
	clean, err := c.replays(ctx, st)
	if err == nil && !clean {
		err = errors.New("what was made is not sound: it is of no use")
	}
	return err
}

func (c *copying) doneWith(partitions int, r repartition.Report) error {
	report := copyReport{From: storeName(c.from), To: storeName(c.to), Batch: r.Batch, Journal: r.Journal, Partitions: len(r.Records), Left: r.Left}
	for _, n := range r.Records {
		report.Entries += n
	}
	from, to := text.Clean(report.From), text.Clean(report.To)
	said := fmt.Sprintf("%s has all of %s in %s", to, from, counted(report.Partitions, "partition"))
	if !r.Journal {
		said = fmt.Sprintf("%s has %s of %s, which had %s, in %s; the journal stays behind, a new one begins with batch %d",
			to, counted(int(report.Entries), "record"), from, counted(partitions, "partition"), counted(report.Partitions, "partition"), r.Batch+1)
	}
	err := c.show(report, fmt.Sprintf("%s; no daemon is to be started on %s any more\n", said, from))
	for _, l := range r.Left {
		text.Sayf(c.err, "stays behind: %s\n", text.Clean(l.String()))
	}
	if err == nil {
		err = c.tellLeftOut("copy", r.Omitted, r.Damaged)
	}
	return err
}
