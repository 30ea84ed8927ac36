package replay

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"hash/crc32"
	"slices"

	"github.com/orrery-go/orrery/effects"
)

// change is what a batch has left of a machine.
type change struct {
	ref    effects.Ref
	stored []byte // its stored form; nil: it does not exist any more
}

// digestOf is a batch in a number: CRC-32C of the changes that it has stored, so that a
// replay can tell which batch was the first to come out otherwise. The order is that of the
// kinds, as bytes, then of the ids; each machine is there once, as the batch has left it, and
// one that was made and unmade within the batch is not there. Of each there is
//
//	the kind, then a zero byte
//	the id, 16 bytes
//	the number of bytes of the stored form and 1, little endian in 4 bytes; 0: it does not exist any more
//	the stored form
//
// A batch that has stored nothing is 0. The changes come into that order.
//
// Due times, list terms and outbox entries follow from the stored form, so they need not be
// in it. Bytes that a disk has changed are found by checksums of their own: 32 bits are for
// decisions that came out otherwise.
func digestOf(changes []change) uint32 {
	slices.SortFunc(changes, func(a, b change) int {
		return cmp.Or(cmp.Compare(a.ref.Kind, b.ref.Kind), bytes.Compare(a.ref.ID[:], b.ref.ID[:]))
	})
	sum, head := uint32(0), make([]byte, 0, 64)
	for _, c := range changes {
		head = append(append(append(head[:0], c.ref.Kind...), 0), c.ref.ID[:]...)
		n := uint32(0)
		if c.stored != nil {
			n = uint32(len(c.stored)) + 1
		}
		sum = crc32.Update(sum, castagnoli, binary.LittleEndian.AppendUint32(head, n))
		sum = crc32.Update(sum, castagnoli, c.stored)
	}
	return sum
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)
