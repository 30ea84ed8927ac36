package kv

import (
	"bytes"

	"github.com/tidwall/btree"
	"go.etcd.io/bbolt"

	"github.com/orrery-go/orrery/store/internal/gaps"
)

// Cursor walks through a table in the order of the keys. What the transaction writes
// meanwhile it sees from its next step on. Its methods give nil where there is no
// further key; Seek, First or Last then begin anew.
type Cursor struct {
	table   *Table
	sources [4]source // the newest first: where two have a key the first one counts
	many    int
	alone   *bbolt.Cursor // the file's, where it is the only source; else nil
	down    bool
	warm    bool    // it passes over the past
	changed int     // of the table, when the sources were placed
	key     []byte  // where it stands; nil: nowhere
	stand   [4]bool // which sources stand there
}

// source is one of the places that a table's entries stand in.
type source struct {
	iter   btree.IterG[entry]
	disk   stored  // nil: it is a layer
	k, v   []byte  // k nil: no further one
	far    *placed // the value, if it is a large one
	mapped bool    // it is bbolt's, whose entries are parts of the file
}

// stored is a cursor over what is on the disk: bbolt's, or the archive's.
type stored interface {
	First() (k, v []byte)
	Seek(key []byte) (k, v []byte)
	Last() (k, v []byte)
	Next() (k, v []byte)
	Prev() (k, v []byte)
}

// Cursor gives a new cursor that stands nowhere.
func (t *Table) Cursor() *Cursor { return &Cursor{table: t} }

// place makes the sources anew, as the table is now.
func (c *Cursor) place() {
	t := c.table
	c.many, c.changed, c.alone = 0, t.changed, nil
	for _, l := range [...]*layer{t.top, t.frozen} {
		if l != nil && l.tree.Len() > 0 {
			s := &c.sources[c.many]
			s.disk, s.mapped = nil, false
			s.iter.Release()
			s.iter.Init(l.tree, false)
			c.many++
		}
		if l.hides() {
			return
		}
	}
	if t.bucket != nil {
		bucket := t.bucket.Cursor()
		c.sources[c.many].disk, c.sources[c.many].mapped = bucket, true
		if c.many++; c.many == 1 {
			c.alone = bucket
		}
	}
	if t.past != nil && !c.warm {
		c.sources[c.many].disk, c.sources[c.many].mapped, c.alone = t.tx.pastOf(t.name), false, nil
		c.many++
	}
}

// at takes what a source in the file stands at.
func (s *source) at(k, v []byte) {
	if k != nil && v == nil { // a bucket in a bucket, which is damage: whoever reads the value tells
		v = []byte{}
	}
	s.k, s.v, s.far = k, v, nil
}

func (s *source) stand(ok bool) {
	if !ok {
		s.k, s.v, s.far = nil, nil, nil
		return
	}
	e := s.iter.Item()
	s.k, s.v, s.far = e.key, e.value, e.placed
}

// seek places the source at the first key from that one on; nil: at the first of all.
func (s *source) seek(key []byte) {
	switch {
	case s.disk != nil && key == nil:
		s.at(s.disk.First())
	case s.disk != nil:
		s.at(s.disk.Seek(key))
	case key == nil:
		s.stand(s.iter.First())
	default:
		s.stand(s.iter.Seek(entry{key: key}))
	}
}

// seekBelow places the source at the last key before that one; nil: at the last of all.
func (s *source) seekBelow(key []byte) {
	if key != nil {
		s.seek(key)
	}
	last := key == nil || s.k == nil
	switch {
	case s.disk != nil && last:
		s.at(s.disk.Last())
	case s.disk != nil:
		s.at(s.disk.Prev())
	case last:
		s.stand(s.iter.Last())
	default:
		s.stand(s.iter.Prev())
	}
}

func (s *source) step(down bool) {
	switch {
	case s.disk != nil && down:
		s.at(s.disk.Prev())
	case s.disk != nil:
		s.at(s.disk.Next())
	case down:
		s.stand(s.iter.Prev())
	default:
		s.stand(s.iter.Next())
	}
}

// Seek stands at the first key from that one on.
func (c *Cursor) Seek(key []byte) (k, v []byte) {
	c.table.tx.enter()
	defer c.table.tx.leave()
	return c.up(key, false)
}

// First stands at the first key.
func (c *Cursor) First() (k, v []byte) {
	c.table.tx.enter()
	defer c.table.tx.leave()
	return c.up(nil, false)
}

// Last stands at the last key.
func (c *Cursor) Last() (k, v []byte) {
	c.table.tx.enter()
	defer c.table.tx.leave()
	return c.downFrom(nil)
}

// Next steps to the next key.
func (c *Cursor) Next() (k, v []byte) {
	c.table.tx.enter()
	defer c.table.tx.leave()
	if c.key == nil {
		return nil, nil
	}
	if c.down || c.changed != c.table.changed {
		return c.up(c.key, true)
	}
	if c.alone != nil { // the common case: nothing has changed in this table since a checkpoint
		if k, v = c.alone.Next(); v == nil && k != nil {
			v = []byte{} // as in source.at
		}
		c.key = c.table.tx.copied(k)
		return c.key, c.table.tx.copied(v)
	}
	c.step()
	return c.pick()
}

// Prev steps to the key before.
func (c *Cursor) Prev() (k, v []byte) {
	c.table.tx.enter()
	defer c.table.tx.leave()
	if c.key == nil {
		return nil, nil
	}
	if !c.down || c.changed != c.table.changed {
		return c.downFrom(c.key)
	}
	c.step()
	return c.pick()
}

// up places the sources at the first key from that one on, or behind it.
func (c *Cursor) up(key []byte, behind bool) (k, v []byte) {
	c.key = nil
	if c.changed != c.table.changed || c.many == 0 {
		c.place()
	}
	c.down = false
	for i := range c.many {
		c.sources[i].seek(key)
	}
	if behind {
		c.pass(key)
	}
	return c.pick()
}

func (c *Cursor) downFrom(key []byte) (k, v []byte) {
	c.key = nil
	if c.changed != c.table.changed || c.many == 0 {
		c.place()
	}
	c.down = true
	for i := range c.many {
		c.sources[i].seekBelow(key)
	}
	return c.pick()
}

// pass moves each source on that stands at a key.
func (c *Cursor) pass(key []byte) {
	for i := range c.many {
		if s := &c.sources[i]; s.k != nil && bytes.Equal(s.k, key) {
			s.step(c.down)
		}
	}
}

// step moves each source on that stands where the cursor does.
func (c *Cursor) step() {
	for i := range c.many {
		if c.stand[i] {
			c.sources[i].step(c.down)
		}
	}
}

// pick stands at the nearest key of the sources that is there.
func (c *Cursor) pick() (k, v []byte) {
	s := c.nearest()
	if s != nil && s.v == nil && s.far == nil {
		s = c.skip()
	}
	if s == nil {
		return nil, nil
	}
	if s.mapped {
		c.key = c.table.tx.copied(c.key)
		return c.key, c.table.tx.copied(s.v)
	}
	return c.key, c.table.tx.value(s.v, s.far)
}

// nearest stands at the nearest key of the sources, and gives the one that counts; nil: there
// is no further key. Where that has no value the key was deleted.
func (c *Cursor) nearest() (first *source) {
	c.key = nil
	for i := range c.many {
		s := &c.sources[i]
		c.stand[i] = false
		if s.k == nil {
			continue
		}
		order := -1
		if c.key != nil {
			if order = bytes.Compare(s.k, c.key); c.down {
				order = -order
			}
		}
		switch {
		case order < 0:
			c.key, first = s.k, s
			c.stand = [4]bool{}
			c.stand[i] = true
		case order == 0:
			c.stand[i] = true
		}
	}
	return first
}

// skip steps over keys that were deleted, from one of them on. Where they are many it
// notes that nothing is there, for those who come after it.
func (c *Cursor) skip() (s *source) {
	known := c.table.gaps(c.warm)
	first, last, skipped := c.key, c.key, 0
	for s = c.nearest(); s != nil && s.v == nil && s.far == nil; s = c.nearest() {
		last = c.key
		if g, ok := known.Around(c.key); ok {
			c.over(g)
			continue
		}
		c.step()
		skipped++
	}
	switch {
	case skipped < gaps.Least:
	case c.down:
		known.Note(last, first)
	default:
		known.Note(first, c.key)
	}
	return s
}

// over places the sources behind a gap.
func (c *Cursor) over(g gaps.Gap) {
	for i := range c.many {
		switch s := &c.sources[i]; {
		case c.down:
			s.seekBelow(g.From)
		case g.To == nil:
			s.k, s.v, s.far = nil, nil, nil
		default:
			s.seek(g.To)
		}
	}
}
