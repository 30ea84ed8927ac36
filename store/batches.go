package store

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
)

// Batch is one batch of the journal: what was decided on, and what it has changed.
type Batch struct {
	Seq   uint64
	Entry []byte // as AppendJournal got it; valid until the transaction ends
	// Known says that Digest and Changes are: builds before journals had them noted none.
	Known   bool
	Digest  uint64    // the sum of [Digest] over all that the batch wrote
	Changes []Changed // one for each record, in no order that counts
}

// Changed is what a batch did to one record.
type Changed struct {
	Kind   effects.Kind
	ID     uuid.UUID
	Before uint64 // the batch that had changed the record before; zero: there was no record
	Gone   bool   // the batch deleted it
	// Delta leads back to the state that the batch found; from no bytes at all where the
	// record is gone. It is zero for a record that was not there, and for one that is gone and
	// of which the epoch's [ReadTx.Base] has that state.
	Delta Delta
}

// Delta leads from the state that a batch left back to the one that it found: what lies
// between Prefix bytes at the beginning and Suffix bytes at the end was Middle.
type Delta struct {
	Prefix, Suffix int
	Middle         []byte // valid until the transaction ends
}

// DeltaOf gives the delta that leads from after back to before, of which it keeps a part.
func DeltaOf(before, after []byte) Delta {
	n := min(len(before), len(after))
	p := same(before[:n], after[:n])
	s := 0
	for s < n-p && before[len(before)-1-s] == after[len(after)-1-s] {
		s++
	}
	return Delta{Prefix: p, Suffix: s, Middle: before[p : len(before)-s]}
}

// same gives how many bytes two slices of one length have in common at the beginning.
func same(a, b []byte) (n int) {
	for n+8 <= len(a) && binary.LittleEndian.Uint64(a[n:]) == binary.LittleEndian.Uint64(b[n:]) {
		n += 8
	}
	for n < len(a) && a[n] == b[n] {
		n++
	}
	return n
}

// Before appends the state that the batch found to dst, given the one that it left; false:
// the delta belongs to another state.
func (d Delta) Before(dst, after []byte) ([]byte, bool) {
	if d.Prefix < 0 || d.Suffix < 0 || d.Prefix > len(after) || d.Suffix > len(after)-d.Prefix {
		return dst, false
	}
	dst = append(dst, after[:d.Prefix]...)
	dst = append(dst, d.Middle...)
	return append(dst, after[len(after)-d.Suffix:]...), true
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Digest gives a checksum of one record as a batch left it; nil: deleted. The digest of a
// batch is the sum of those of its records, so that their order does not matter.
func Digest(kind effects.Kind, id uuid.UUID, state []byte) uint64 {
	var b [MaxKind + 2 + len(id)]byte
	head := append(append(append(b[:0], kind...), 0), id[:]...)
	if state == nil {
		return uint64(crc32.Checksum(append(head, 0), castagnoli))
	}
	return uint64(crc32.Update(crc32.Checksum(append(head, 1), castagnoli), castagnoli, state))
}
