package engine

import (
	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

// cache keeps decoded states between batches: what is created is soon
// completed, and a hot machine is decoded once. It holds two generations and
// drops the older one when the younger is full, which is as good as LRU here
// and needs no list.
type cache struct {
	young, old map[effects.Ref]cached
	bytes      int
}

type cached struct {
	state   core.State
	version uint64
	seq     uint64
	size    int          // of the stored form
	held    int          // bytes in memory beyond it
	terms   []store.Term // of the state; nil: not known
	shares  effects.Ref  // a record whose state is held in memory by this one, and by others; zero: none
}

const (
	cacheEntries = 1 << 15
	cacheBytes   = 32 << 20 // of each generation
)

func (c *cache) init() {
	c.young = make(map[effects.Ref]cached)
	c.old = nil
	c.bytes = 0
}

func (c *cache) get(ref effects.Ref) (cached, bool) {
	if v, ok := c.young[ref]; ok {
		return v, true
	}
	v, ok := c.old[ref]
	if ok {
		c.put(ref, v)
	}
	return v, ok
}

func (c *cache) put(ref effects.Ref, v cached) {
	if len(c.young) >= cacheEntries || c.bytes+v.size+v.held > cacheBytes {
		c.old, c.young, c.bytes = c.young, make(map[effects.Ref]cached), 0
	}
	c.bytes += v.size + v.held
	if was, ok := c.young[ref]; ok {
		c.bytes -= was.size + was.held
	}
	c.young[ref] = v
	if v.shares.IsZero() {
		return
	}
	if _, ok := c.young[v.shares]; !ok { // it is held as long as this state is, and counts as long
		if shared, ok := c.old[v.shares]; ok {
			c.put(v.shares, shared)
		}
	}
}

func (c *cache) drop(ref effects.Ref) {
	if v, ok := c.young[ref]; ok {
		c.bytes -= v.size + v.held
		delete(c.young, ref)
	}
	delete(c.old, ref)
}
