package tables

import (
	"slices"

	"github.com/orrery-go/orrery/store"
)

// Learned is what one [Tx] has found that the next one would look for again: nobody else writes to
// the store. It belongs to who holds the writer's place. The zero value knows nothing.
type Learned struct {
	commit uint64 // after which seq and epochs are so
	seq    uint64
	epochs []store.Epoch // nil: nothing is known of that commit

	claim    store.Claim // the one that was read last, and its stored form
	rawClaim []byte

	scratch []byte // room for one value
}

// tell has a transaction know what it would read, if the last commit is still the one before it.
func (l *Learned) tell(t *Tx) {
	if l.epochs != nil && l.commit == t.b.Last() {
		t.seq, t.seqKnown, t.epochs = l.seq, true, l.epochs
	}
}

// from notes what a transaction has left that was committed as the given commit, or changed nothing
// since then.
func (l *Learned) from(t *Tx, commit uint64) {
	l.epochs = nil
	if t.seqKnown && t.epochs != nil {
		l.commit, l.seq, l.epochs = commit, t.seq, slices.Clip(t.epochs) // who begins another one copies them
	}
}
