package jobs

import (
	"encoding/binary"
	"math"
	"strings"
)

// feedMeta begins the names under which the store keeps the watermarks of feeds.
const feedMeta = "jobs/feed/"

// MetaAt gives what a small value of the store is to be in a copy of what the store had after an
// earlier batch: a feed has delivered nothing of the batches that are to come.
func MetaAt(name string, value []byte, seq uint64) []byte {
	if strings.HasPrefix(name, feedMeta) && len(value) == 8 && binary.BigEndian.Uint64(value) > seq {
		return binary.BigEndian.AppendUint64(nil, seq)
	}
	return value
}

// MetaOfPartition gives what a small value of the store is to be in a partition that is made of the records of several
// partitions, or of a part of one; nil: it is not to be there. Of each of them it gets the value; nil: it has none. known is false
// for a name that is not this package's.
//
// A feed has delivered what all of them have. The identities of database and cluster, by which runners know their pods, stay behind: two databases with the
// same ones would each take the pods of the other for its own.
func MetaOfPartition(name string, of [][]byte) (value []byte, known bool) {
	if name == databaseMeta || name == clusterMeta {
		return nil, true
	}
	if !strings.HasPrefix(name, feedMeta) {
		return nil, false
	}
	least := uint64(math.MaxUint64)
	for _, v := range of {
		if len(v) != 8 {
			return nil, true // all is delivered again
		}
		least = min(least, binary.BigEndian.Uint64(v))
	}
	return binary.BigEndian.AppendUint64(nil, least), true
}
