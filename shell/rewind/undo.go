package rewind

import (
	"bytes"
	"fmt"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

// chain undoes the changes of one record, the last one first.
type chain struct {
	*journal
	ref   effects.Ref
	aside bool // the record was set aside, so it may be gone without a change
	since int  // how often that was behind the batch that stays, so nobody knows its state then
	seen  int  // of these, those that lie behind a change that was undone
	ended bool // behind the change that comes next the record is not there
	other bool // the record of now is another one under the same id

	known   bool // whether the record is there, and its state if it is
	there   bool
	state   []byte
	seq     uint64 // the batch that wrote it last
	version uint64 // zero: it is not known yet
	based   bool   // what stood there a base has, which comes next
	undone  uint64
	lastSeq uint64 // of the last entry, for errors

	before uint64 // changes up to the batch that stays, since the record is there
	whole  bool   // of these none is left to come
	room   [2][]byte
}

// undo goes back from what the source has of a record, with Version 0 nothing; name is that of the
// entries that come next.
func (j *journal) undo(name []byte, ref effects.Ref, now store.Record) (c *chain, err error) {
	since, aside := j.aside[ref]
	c = &chain{journal: j, ref: ref, aside: aside, since: since}
	c.there = now.Version != 0
	c.known, c.ended = c.there || since == 0, !c.there
	c.state, c.seq, c.version = now.State, now.Seq, now.Version
	for {
		key, value, ok := j.changes.peek()
		if !ok || len(key) != len(name)+changeTail || !bytes.HasPrefix(key, name) {
			break
		}
		_, e := parse(key, value)
		switch {
		case e.seq > j.to && e.base:
			err = c.anchor(&e)
		case e.seq > j.to:
			err = c.change(&e)
		case e.base:
			c.foundation(&e)
		default:
			err = c.earlier(&e)
		}
		if err == nil {
			err = j.changes.next()
		}
		if err != nil {
			return nil, err
		}
	}
	return c, c.finish()
}

func (c *chain) corrupt(seq uint64, format string, args ...any) error {
	return fmt.Errorf("%w: batch %d: %s: %s", store.ErrCorrupt, seq, c.ref, fmt.Sprintf(format, args...))
}

// lose notes that the state is not known any more; that is an error unless it was set aside.
func (c *chain) lose(seq uint64, why string) error {
	if !c.aside {
		return c.corrupt(seq, "%s", why)
	}
	c.known = false
	return nil
}

// missing reports whether the record may have been set aside between the batch that stays and the
// first of its changes behind that.
func (c *chain) missing() bool { return c.since > c.seen }

// change undoes one.
func (c *chain) change(e *entry) error {
	gone := e.flags&flagGone != 0
	c.undone++
	if c.ended && !gone {
		c.seen++ // without a change
	}
	c.ended = e.flags&flagNew != 0
	c.other = c.other || c.ended || gone
	switch {
	case c.based:
		return c.corrupt(e.seq, "no epoch keeps the state that batch %d deleted", c.lastSeq)
	case c.known && c.there && (gone || c.seq != e.seq):
		if err := c.lose(e.seq, fmt.Sprintf("the record is of batch %d then", c.seq)); err != nil {
			return err
		}
	case c.known && !c.there && !gone:
		if err := c.lose(e.seq, "the record is not there"); err != nil {
			return err
		}
	}
	if gone {
		c.known, c.there, c.state, c.version = true, false, nil, 0
	}
	if c.known {
		c.digests[e.seq-c.to] -= c.digest()
	} else {
		c.untold(e.seq)
	}
	c.lastSeq, c.seq = e.seq, e.before
	switch {
	case e.flags&flagNew != 0:
		c.known, c.there, c.state, c.version = true, false, nil, 0
	case e.flags&flagBased != 0:
		c.known, c.based = false, true
	case gone || c.known:
		after := c.state
		c.room[0], c.room[1] = c.room[1], c.room[0]
		before, ok := e.delta.Before(c.room[0][:0], after)
		if !ok || len(before) == 0 {
			return c.corrupt(e.seq, "its change does not lead back from the state that it left")
		}
		c.room[0], c.state, c.there = before, before, true
		if c.version > 0 {
			c.version--
		}
	}
	return nil
}

// digest gives that of the state at hand.
func (c *chain) digest() uint64 {
	if !c.there {
		return store.Digest(c.ref.Kind, c.ref.ID, nil)
	}
	return store.Digest(c.ref.Kind, c.ref.ID, c.state)
}

// anchor takes what an epoch keeps of the record as it was before the epoch.
func (c *chain) anchor(e *entry) error {
	switch {
	case c.known && c.there && (c.seq != e.of || !bytes.Equal(c.state, e.state)):
		return c.corrupt(e.seq, "the state that the epoch keeps is another one")
	case c.known && !c.there && !c.aside:
		return c.corrupt(e.seq, "the epoch keeps a state, and there was no record")
	}
	c.take(e)
	return nil
}

func (c *chain) take(e *entry) {
	c.known, c.there, c.based = true, true, false
	c.room[0] = append(c.room[0][:0], e.state...)
	c.state, c.seq, c.version = c.room[0], e.of, e.version
}

// earlier counts a change that stays.
func (c *chain) earlier(e *entry) error {
	gone := e.flags&flagGone != 0
	switch { // the digest needs nothing of what came before
	case e.seq != c.to:
	case gone:
		c.digests[0] -= store.Digest(c.ref.Kind, c.ref.ID, nil)
	case !c.known:
		c.untold(e.seq)
	}
	if !c.counted {
		return nil
	}
	if c.before == 0 && !c.whole { // the last one that stays
		switch {
		case c.based:
			return c.corrupt(e.seq, "no epoch keeps the state that batch %d deleted", c.lastSeq)
		case c.known && !c.there && !gone && c.aside && !c.missing() && e.seq < c.to: // it went without a change
		case c.known && (c.there == gone || c.there && c.seq != e.seq):
			if err := c.lose(e.seq, "it does not lead to the record"); err != nil {
				return err
			}
		}
		if gone {
			c.known, c.there = true, false
		}
		if !c.known && e.seq == c.to {
			c.untold(e.seq)
		}
	}
	if gone {
		c.whole = true
	}
	if !c.whole {
		c.before++
		c.whole = e.flags&flagNew != 0
	}
	return nil
}

// foundation takes what the epoch of the batch that stays keeps of the record as it was before that.
func (c *chain) foundation(e *entry) {
	switch {
	case c.based || !c.known && c.counted && c.before == 0 && !c.whole:
		c.take(e)
	case c.known && c.there && c.version == 0 && !c.whole:
		c.version = e.version + c.before
	}
}

// finish ends with what the record was after the batch that stays.
func (c *chain) finish() error {
	switch {
	case c.based:
		return c.corrupt(c.lastSeq, "no epoch keeps the state that it deleted")
	case c.known && c.there && c.seq > c.to:
		return c.corrupt(c.seq, "the journal does not have its change")
	}
	if c.version == 0 {
		c.version = max(c.before, 1)
	}
	return nil
}
