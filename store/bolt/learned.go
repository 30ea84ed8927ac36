package bolt

import (
	"slices"

	"github.com/orrery-go/orrery/store"
)

// learned is what one Update has found that the next one would look for again: nobody else writes to
// the store. It belongs to who holds the writer's place.
type learned struct {
	commit uint64 // after which seq and epochs are so
	seq    uint64
	epochs []store.Epoch // nil: nothing is known of that commit

	claim    store.Claim // the one that was read last, and its stored form
	rawClaim []byte
}

// tell has a transaction know what it would read, if the last commit is still the one before it.
func (l *learned) tell(t *tx) {
	if l.epochs != nil && l.commit == t.readTx.tx.Last() {
		t.seq, t.seqKnown, t.epochs = l.seq, true, l.epochs
	}
}

// from notes what a transaction has left that was committed as the given commit, or changed nothing
// since then.
func (l *learned) from(t *tx, commit uint64) {
	l.epochs = nil
	if t.seqKnown && t.epochs != nil {
		l.commit, l.seq, l.epochs = commit, t.seq, slices.Clip(t.epochs) // who begins another one copies them
	}
}
