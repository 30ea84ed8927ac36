package archive

import (
	"bytes"
	"sort"
)

// Cursor walks through a table of a snapshot in the order of the keys. What it gives stays
// valid. It is for one goroutine. Its methods give nil where there is no further key, and
// also where Err tells why it cannot be read.
type Cursor struct {
	snap    *Snapshot
	table   string
	part    int     // the part, and
	blocks  []block // its blocks of the table, and
	block   int     // which of them
	entries []entry // it has, and
	at      int     // where the cursor stands among them
	loaded  bool
	err     error
}

// Cursor gives a cursor that stands nowhere.
func (s *Snapshot) Cursor(table string) *Cursor { return &Cursor{snap: s, table: table} }

// Err gives what kept the cursor from reading; nil: nothing did.
func (c *Cursor) Err() error { return c.err }

// load places the cursor at a part, and lists the table's blocks there.
func (c *Cursor) load(i int) bool {
	if c.loaded && c.part == i {
		return true
	}
	blocks, err := c.snap.parts[i].index(c.table)
	if err != nil {
		return c.fail(err)
	}
	c.part, c.blocks, c.loaded, c.block, c.entries = i, blocks, true, -1, nil
	return true
}

func (c *Cursor) fail(err error) bool {
	c.err, c.loaded, c.entries = err, false, nil
	return false
}

// open reads a block of the part.
func (c *Cursor) open(i int) bool {
	if c.block == i && c.entries != nil {
		return true
	}
	entries, err := c.snap.parts[c.part].entries(c.blocks[i])
	if err != nil {
		return c.fail(err)
	}
	c.block, c.entries = i, entries
	return true
}

func (c *Cursor) here() (k, v []byte) {
	if c.at < 0 || c.at >= len(c.entries) {
		return nil, nil
	}
	e := c.entries[c.at]
	return e.key, e.value
}

// Seek stands at the first key from that one on.
func (c *Cursor) Seek(key []byte) (k, v []byte) {
	c.err = nil
	parts := c.snap.parts
	// What follows the key stands in no file before the last one that begins at or before the
	// key's number, unless that begins so low for another table.
	i := max(sort.Search(len(parts), func(i int) bool { return parts[i].first > number(key) })-1, 0)
	for ; i > 0; i-- {
		if !c.load(i) {
			return nil, nil
		}
		if len(c.blocks) > 0 && bytes.Compare(c.blocks[0].first, key) <= 0 {
			break
		}
	}
	for ; i < len(parts); i++ {
		if !c.load(i) {
			return nil, nil
		}
		b := sort.Search(len(c.blocks), func(b int) bool { return bytes.Compare(c.blocks[b].last, key) >= 0 })
		if b == len(c.blocks) {
			continue
		}
		if !c.open(b) {
			return nil, nil
		}
		c.at = sort.Search(len(c.entries), func(e int) bool { return bytes.Compare(c.entries[e].key, key) >= 0 })
		return c.here()
	}
	c.entries = nil
	return nil, nil
}

// First stands at the first key.
func (c *Cursor) First() (k, v []byte) { return c.Seek(nil) }

// Last stands at the last key.
func (c *Cursor) Last() (k, v []byte) {
	c.err = nil
	return c.lastOf(len(c.snap.parts) - 1)
}

// lastOf stands at the last key in a part or before it.
func (c *Cursor) lastOf(i int) (k, v []byte) {
	for ; i >= 0; i-- {
		if !c.load(i) {
			return nil, nil
		}
		if n := len(c.blocks); n > 0 {
			if !c.open(n - 1) {
				return nil, nil
			}
			c.at = len(c.entries) - 1
			return c.here()
		}
	}
	c.entries = nil
	return nil, nil
}

// Next steps to the next key.
func (c *Cursor) Next() (k, v []byte) {
	if c.entries == nil {
		return nil, nil
	}
	if c.at++; c.at < len(c.entries) {
		return c.here()
	}
	for {
		switch {
		case c.block+1 < len(c.blocks):
			if !c.open(c.block + 1) {
				return nil, nil
			}
			c.at = 0
			return c.here()
		case c.part+1 == len(c.snap.parts):
			c.entries = nil
			return nil, nil
		case !c.load(c.part + 1):
			return nil, nil
		}
	}
}

// Prev steps to the key before.
func (c *Cursor) Prev() (k, v []byte) {
	if c.entries == nil {
		return nil, nil
	}
	if c.at--; c.at >= 0 {
		return c.here()
	}
	if c.block > 0 {
		if !c.open(c.block - 1) {
			return nil, nil
		}
		c.at = len(c.entries) - 1
		return c.here()
	}
	return c.lastOf(c.part - 1)
}
