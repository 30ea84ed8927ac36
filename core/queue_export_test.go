package core

import "github.com/google/uuid"

// ItemID lets the tests name items.
func ItemID(queue uuid.UUID, number, step uint64) uuid.UUID { return itemID(queue, number, step) }

// Header is the queue as it is stored.
func (q Queue) Header() Queue { return q.header() }
