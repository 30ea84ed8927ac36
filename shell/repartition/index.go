package repartition

import (
	"bytes"
	"sort"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
)

// nowhere stands in an index for a record that stays behind.
const nowhere = 1<<16 - 1

// index says to which target each record of a source goes. It takes 18 bytes for each record.
type index map[effects.Kind]*ofKind

// ofKind has the records of one kind, in the order of their ids.
type ofKind struct {
	ids []uuid.UUID
	to  []uint16
}

// add notes a record. Those of one kind come in the order of their ids.
func (x index) add(ref effects.Ref, to int) {
	of := x[ref.Kind]
	if of == nil {
		of = &ofKind{}
		x[ref.Kind] = of
	}
	of.ids, of.to = append(of.ids, ref.ID), append(of.to, uint16(to))
}

// find gives the target of a record; false: it is not known.
func (x index) find(ref effects.Ref) (to int, ok bool) {
	of := x[ref.Kind]
	if of == nil {
		return 0, false
	}
	i := sort.Search(len(of.ids), func(i int) bool { return bytes.Compare(of.ids[i][:], ref.ID[:]) >= 0 })
	if i == len(of.ids) || of.ids[i] != ref.ID {
		return 0, false
	}
	return int(of.to[i]), true
}
