package jobs

import (
	"encoding/binary"
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
