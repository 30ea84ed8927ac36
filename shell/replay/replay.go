// Package replay folds the journal of a store through the core and compares
// what comes out with what is stored, byte for byte (F3).
//
// replay.go has what callers see; journal.go reads the journal and the records ahead of
// fold.go, which makes its batches again over the states of states.go; those that are too
// many for the memory go to spill.go under the index of index.go. scan.go has the lists that
// batches read, compare.go holds the end against the store.
package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

// DefaultMemory is the default of [Options.Memory].
const DefaultMemory = 128 << 20

// Options bound a verification. The zero value is a sound default.
type Options struct {
	// MaxDivergences ends the comparison early (default 100): the first ones
	// tell what is wrong.
	MaxDivergences int
	// Memory is about how many bytes the states may take that are kept in memory (default
	// [DefaultMemory]). Others are put aside in a temporary file, of which an index stays
	// in memory: some 25 bytes for each machine, which count too, but at least a quarter
	// of Memory is for the states. The program's collector needs about as much again.
	Memory int64
	// Spill is the folder of that file, which is made when it is needed and removed at
	// the end. Default: [os.TempDir]. It needs room for about the form in JSON of each
	// machine that the journal touches.
	Spill string
	// Subscribers are those that the program brought along when the journal was written: see
	// [shell.Options]. What they made of an event is made again.
	Subscribers map[string]core.Subscriber
}

// Report is what a verification found.
type Report struct {
	FirstBatch  uint64 // the first batch that the journal still holds; 0: none
	Batches     uint64
	Inputs      uint64
	Entities    uint64 // machines that the journal touched
	Untouched   uint64 // stored machines that it did not touch: only their form was checked
	OtherCores  map[string]uint64
	OtherTZDBs  map[string]uint64
	Divergences []Divergence
	Truncated   bool // there are more divergences
}

// Clean reports whether nothing differed.
func (r Report) Clean() bool { return len(r.Divergences) == 0 }

// Divergence is one difference between the replay and the store.
type Divergence struct {
	Ref   effects.Ref // zero where it concerns the journal itself
	Seq   uint64      // the batch at which it shows; 0: at the end
	What  string
	Want  []byte // by the replay; nil: nothing
	Found []byte // in the store; nil: nothing
}

// String gives the divergence in one line.
func (d Divergence) String() string {
	s := d.What
	if !d.Ref.IsZero() {
		s = d.Ref.String() + ": " + s
	}
	if d.Seq != 0 {
		s = fmt.Sprintf("batch %d: %s", d.Seq, s)
	}
	if d.Want != nil || d.Found != nil {
		s += fmt.Sprintf(": replayed %s, stored %s", text(d.Want), text(d.Found))
	}
	return s
}

func text(b []byte) string {
	const limit = 2000
	switch {
	case b == nil:
		return "nothing"
	case len(b) > limit:
		return string(b[:limit]) + "…"
	default:
		return string(b)
	}
}

var errEnough = errors.New("enough divergences")

// Verify replays the journal from its first batch and compares with the stored
// records, their due and list entries, and the outbox. It reads one consistent
// snapshot and writes nothing to the store; it may run beside a working engine, whose
// database may grow meanwhile, since it keeps what the snapshot needs. The error
// says that the verification itself could not be done; what differs stands in
// the report.
//
// It uses two processors and bounded memory, see [Options]. Beside that it keeps some 40
// bytes for each item that stands in a list of a queue.
func Verify(ctx context.Context, st store.Store, o Options) (rep Report, err error) {
	f := &fold{
		ctx: ctx, limit: cmp.Or(max(o.MaxDivergences, 0), 100), program: o.Subscribers,
		states: newStates(cmp.Or(max(o.Memory, 0), DefaultMemory), o.Spill),
		lists:  newLists(),
		report: Report{OtherCores: map[string]uint64{}, OtherTZDBs: map[string]uint64{}},
	}
	defer func() { err = errors.Join(err, f.states.close()) }()
	err = st.View(ctx, func(tx store.ReadTx) error {
		f.tx = &snapshot{tx: tx}
		return f.run()
	})
	if errors.Is(err, errEnough) {
		f.report.Truncated = true
		err = nil
	}
	return f.report, err
}
