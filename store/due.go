package store

import (
	"encoding/binary"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
)

// DueKey is a key of the due index (A5): milliseconds since 1970, big endian,
// then the id's 16 bytes; so byte order is time order.
type DueKey [24]byte

// NewDueKey makes the key of a record that is due at that time. A negative
// time clamps to 0.
func NewDueKey(at effects.Time, id uuid.UUID) DueKey {
	var k DueKey
	binary.BigEndian.PutUint64(k[:8], uint64(max(at, 0)))
	copy(k[8:], id[:])
	return k
}

// DueUpperBound is the greatest key that is due at now: now, then 16 × 0xff.
func DueUpperBound(now effects.Time) DueKey {
	var k DueKey
	binary.BigEndian.PutUint64(k[:8], uint64(max(now, 0)))
	for i := 8; i < len(k); i++ {
		k[i] = 0xff
	}
	return k
}

// At gives the time that the key holds.
func (k DueKey) At() effects.Time { return effects.Time(binary.BigEndian.Uint64(k[:8])) }

// ID gives the id that the key holds.
func (k DueKey) ID() uuid.UUID { return uuid.UUID(k[8:]) }

// DueEntry is one entry of the due index.
type DueEntry struct {
	Key  DueKey
	Kind effects.Kind
	// Share is what [Write] said of the record's tenant, so that entries can be sorted by
	// tenants without reading their records; 0: not known, such as in a database of an earlier
	// version. A store keeps it, and does not look at it.
	Share uint32
}
