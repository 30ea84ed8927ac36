package kv

import (
	"bytes"

	"github.com/tidwall/btree"
	"go.etcd.io/bbolt"

	"github.com/orrery-go/orrery/store/bolt/internal/archive"
)

// Cursor walks through a table in the order of the keys. What the transaction writes
// meanwhile it sees from its next step on. Its methods give nil where there is no
// further key; Seek, First or Last then begin anew.
type Cursor struct {
	table   *Table
	sources [4]source // the newest first: where two have a key the first one counts
	many    int
	down    bool
	warm    bool   // it passes over the past
	changed int    // of the table, when the sources were placed
	key     []byte // where it stands; nil: nowhere
}

// source is one of the places that a table's entries stand in.
type source struct {
	iter   btree.IterG[entry]
	bucket *bbolt.Cursor // nil: it is a layer, or
	past   *archive.Cursor
	k, v   []byte // k nil: no further one
}

// Cursor gives a new cursor that stands nowhere.
func (t *Table) Cursor() *Cursor { return &Cursor{table: t} }

// place makes the sources anew, as the table is now.
func (c *Cursor) place() {
	t := c.table
	c.many, c.changed = 0, t.changed
	for _, l := range [...]*layer{t.top, t.frozen} {
		if l != nil && l.tree.Len() > 0 {
			s := &c.sources[c.many]
			s.bucket, s.past = nil, nil
			s.iter.Release()
			s.iter.Init(l.tree, false)
			c.many++
		}
		if l.hides() {
			return
		}
	}
	if t.bucket != nil {
		s := &c.sources[c.many]
		s.bucket, s.past = t.bucket.Cursor(), nil
		c.many++
	}
	if past := t.pastCursor(c.warm); past != nil {
		s := &c.sources[c.many]
		s.bucket, s.past = nil, past
		c.many++
	}
}

// at takes what a source in the file stands at.
func (s *source) at(k, v []byte) {
	if k != nil && v == nil { // a bucket in a bucket, which is damage: whoever reads the value tells
		v = []byte{}
	}
	s.k, s.v = k, v
}

func (s *source) stand(ok bool) {
	if !ok {
		s.k, s.v = nil, nil
		return
	}
	e := s.iter.Item()
	s.k, s.v = e.key, e.value
}

// seek places the source at the first key from that one on; nil: at the first of all.
func (s *source) seek(key []byte) {
	switch {
	case s.past != nil:
		s.at(s.past.Seek(key))
		s.check()
	case s.bucket != nil && key == nil:
		s.at(s.bucket.First())
	case s.bucket != nil:
		s.at(s.bucket.Seek(key))
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
	case s.past != nil && last:
		s.at(s.past.Last())
		s.check()
	case s.past != nil:
		s.at(s.past.Prev())
		s.check()
	case s.bucket != nil && last:
		s.at(s.bucket.Last())
	case s.bucket != nil:
		s.at(s.bucket.Prev())
	case last:
		s.stand(s.iter.Last())
	default:
		s.stand(s.iter.Prev())
	}
}

func (s *source) step(down bool) {
	switch {
	case s.past != nil && down:
		s.at(s.past.Prev())
		s.check()
	case s.past != nil:
		s.at(s.past.Next())
		s.check()
	case s.bucket != nil && down:
		s.at(s.bucket.Prev())
	case s.bucket != nil:
		s.at(s.bucket.Next())
	case down:
		s.stand(s.iter.Prev())
	default:
		s.stand(s.iter.Next())
	}
}

// Seek stands at the first key from that one on.
func (c *Cursor) Seek(key []byte) (k, v []byte) { return c.up(key, false) }

// First stands at the first key.
func (c *Cursor) First() (k, v []byte) { return c.up(nil, false) }

// Last stands at the last key.
func (c *Cursor) Last() (k, v []byte) { return c.downFrom(nil) }

// Next steps to the next key.
func (c *Cursor) Next() (k, v []byte) {
	if c.key == nil {
		return nil, nil
	}
	if c.down || c.changed != c.table.changed {
		return c.up(c.key, true)
	}
	c.pass(c.key)
	return c.pick()
}

// Prev steps to the key before.
func (c *Cursor) Prev() (k, v []byte) {
	if c.key == nil {
		return nil, nil
	}
	if !c.down || c.changed != c.table.changed {
		return c.downFrom(c.key)
	}
	c.pass(c.key)
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
	if c.many == 1 { // the common case: nothing has changed in this table since a checkpoint
		if s := &c.sources[0]; s.k != nil && bytes.Equal(s.k, key) {
			s.step(c.down)
		}
		return
	}
	for i := range c.many {
		if s := &c.sources[i]; s.k != nil && bytes.Equal(s.k, key) {
			s.step(c.down)
		}
	}
}

// pick stands at the nearest key of the sources that is there.
func (c *Cursor) pick() (k, v []byte) {
	if c.many == 1 && c.sources[0].bucket != nil { // which has no deletions
		s := &c.sources[0]
		c.key = s.k
		return s.k, s.v
	}
	for {
		c.key = nil
		for i := range c.many {
			s := &c.sources[i]
			if s.k == nil {
				continue
			}
			if order := bytes.Compare(s.k, c.key); c.key == nil || order < 0 && !c.down || order > 0 && c.down {
				c.key, v = s.k, s.v
			}
		}
		if c.key == nil {
			return nil, nil
		}
		if v != nil {
			return c.key, v
		}
		c.pass(c.key)
	}
}
