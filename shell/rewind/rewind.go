// Package rewind gives what a store had after an earlier batch. Each batch of the journal has what
// leads from the records that it left back to those that it found ([store.Changed]), so the batches
// behind the one that is asked for are undone, by whichever core they were decided.
//
// rewind.go has what callers see; journal.go reads the batches that are to be undone; sorter.go
// sorts their changes by record; undo.go applies those of one record; sink.go puts the old records
// among those that have stayed, with what each of them waits for (waiting.go).
package rewind

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

// DefaultMemory is the default of [Options.Memory].
const DefaultMemory = 128 << 20

// ErrUnreachable says that the journal does not reach back to what is asked for.
var ErrUnreachable = errors.New("the journal does not reach that far back")

// Options say how far to go back, and bound what that takes. Batch or At is needed.
type Options struct {
	// Batch is the last batch that stays.
	Batch uint64
	// At is the clock reading of the last batch that stays: the first batch that was decided later ends
	// it, and whatever follows that one goes too. Batch and At exclude each other.
	At effects.Time
	// Memory is about how many bytes are sorted in memory (default [DefaultMemory]). Beside that there are
	// 8 bytes for each batch that is undone, and one record at a time.
	Memory int64
	// Spill is the folder of the temporary files for what does not fit into it, which are removed at the end.
	// Default: [os.TempDir]. They need room for about the records that are changed, in JSON, and for the
	// changes of the batches that are undone.
	Spill string
}

// Source is a store that can be rewound. Nobody may write to it meanwhile. [store/bolt.Store] and
// [store/memory.Store] are such stores.
type Source interface {
	store.Store
	store.Exporter
}

// Place is a batch and its clock reading.
type Place struct {
	Batch uint64
	At    effects.Time // zero: it is not known, as the journal begins behind the batch
}

func (p Place) String() string {
	if p.At.IsZero() {
		return fmt.Sprintf("batch %d", p.Batch)
	}
	return fmt.Sprintf("batch %d of %s", p.Batch, p.At)
}

// Report tells of an export. What it counts as left out no journal has, so it cannot be had back.
type Report struct {
	From        Place  // the last batch of the source
	To          Place  // the last batch that stays
	Records     uint64 // that are as they were, and not as the source has them
	Gone        uint64 // of these, those that the source does not have any more
	Interrupted uint64 // effects that may have begun by then: they are interrupted, as after a crash
	Webhooks    uint64 // left out, as they came later
	RunLogs     uint64 // left out, as their attempts had not ended
}

// Rewind is a [store.Exporter] that gives what a store had after an earlier batch: records with
// their versions, what they wait for, and the journal up to that batch. What each batch left is
// checked against its digest, so Export fails rather than giving something else.
//
// What cannot be told from the journal is as after a crash: each effect that a record waits for
// counts as begun, unless it still waits for its turn. Claims are left out, with all tokens that they
// had. Webhooks that had come by then and are still there stay; those that were handled since
// are lost. Of logs of runs those of attempts that had ended, or had their logs stored, by then stay. What was set aside since is told as omitted,
// as far as the journal has no earlier state of it. Index terms are those of this build.
type Rewind struct {
	from   Source
	o      Options
	report Report
}

// New gives what a store had. Nothing is read before it is exported.
func New(from Source, o Options) *Rewind {
	o.Memory = cmp.Or(max(o.Memory, 0), DefaultMemory)
	return &Rewind{from: from, o: o}
}

// Report tells of the last Export, which must have returned; of one that failed it tells only how far that came.
func (r *Rewind) Report() Report { return r.report }

// Export implements [store.Exporter]. The error wraps [ErrUnreachable] if the journal does not have
// what it takes, and [store.ErrCorrupt] if something does not fit together; it names the batch.
func (r *Rewind) Export(ctx context.Context, to store.Sink) (err error) {
	r.report = Report{}
	if (r.o.Batch == 0) == r.o.At.IsZero() {
		return errors.New("rewind: give a batch or a time")
	}
	j := &journal{ctx: ctx, o: r.o, report: &r.report, aside: map[effects.Ref]int{}, changes: newSorter(r.o.Spill, r.o.Memory/2)}
	defer func() { err = errors.Join(err, j.changes.close()) }()
	if err := r.from.View(ctx, j.read); err != nil {
		return fmt.Errorf("rewind: %w", err)
	}
	s := newSink(to, j)
	defer func() { err = errors.Join(err, s.close()) }()
	if err := r.from.Export(ctx, s); err != nil {
		return fmt.Errorf("rewind to %s: %w", r.report.To, err)
	}
	return nil
}
