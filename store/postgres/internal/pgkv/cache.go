package pgkv

import (
	"bytes"
	"cmp"
	"slices"
	"sync"

	"github.com/tidwall/btree"
)

// known is an entry that was read.
type known struct{ key, value []byte }

// segment is a range of keys of one table of which is known what the database has, and what it
// has not.
type segment struct {
	from    []byte
	to      []byte  // the first key behind it; nil: it has no end
	entries []known // in order
	bytes   int
	used    uint64 // when it was of use last, by the cache's count
}

// segmentCost is what a segment takes in memory beside its entries, about; entryCost an entry beside its bytes.
const (
	segmentCost = 200
	entryCost   = 64
	// mostEntries is how many entries a segment has before it is split.
	mostEntries = 512
)

func (s *segment) covers(key []byte) bool {
	return bytes.Compare(s.from, key) <= 0 && (s.to == nil || bytes.Compare(key, s.to) < 0)
}

// find gives the place of the first entry from a key on.
func (s *segment) find(key []byte) (int, bool) {
	return slices.BinarySearchFunc(s.entries, key, func(e known, key []byte) int { return bytes.Compare(e.key, key) })
}

func (s *segment) measure() {
	s.bytes = segmentCost + len(s.from)
	for _, e := range s.entries {
		s.bytes += entryCost + len(e.key) + len(e.value)
	}
}

// cache has ranges of the database's tables that were read. Whoever alone writes to them keeps it true:
// see apply. It is safe for concurrent use; what it hands out never changes.
type cache struct {
	mu     sync.Mutex
	tables map[int32]*btree.BTreeG[*segment] // by where they begin
	bytes  int
	most   int
	clock  uint64
	// changes counts what was applied: what was read before that must not be learned after it.
	changes uint64
}

func newCache(most int) *cache {
	return &cache{tables: make(map[int32]*btree.BTreeG[*segment]), most: most}
}

func (c *cache) table(tab int32) *btree.BTreeG[*segment] {
	t := c.tables[tab]
	if t == nil {
		t = btree.NewBTreeGOptions(func(a, b *segment) bool { return bytes.Compare(a.from, b.from) < 0 }, btree.Options{NoLocks: true, Degree: degree})
		c.tables[tab] = t
	}
	return t
}

// segment gives the one that covers a key.
func (c *cache) segment(t *btree.BTreeG[*segment], key []byte) (found *segment) {
	t.Descend(&segment{from: key}, func(s *segment) bool {
		if s.covers(key) {
			found = s
		}
		return false
	})
	if found != nil {
		c.clock++
		found.used = c.clock
	}
	return found
}

// get gives the value of a key; known: it can tell.
func (c *cache) get(tab int32, key []byte) (value []byte, there, isKnown bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.segment(c.table(tab), key)
	if s == nil {
		return nil, false, false
	}
	if i, ok := s.find(key); ok {
		return s.entries[i].value, true, true
	}
	return nil, false, true
}

// up gives the first entry from a key on, with a nil key where there is none. Where it cannot tell,
// unknown is where its knowledge ends, and to the key at which it begins anew, nil: nowhere.
func (c *cache) up(tab int32, from []byte) (e known, unknown, to []byte, isKnown bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.table(tab)
	for {
		s := c.segment(t, from)
		if s == nil {
			t.Ascend(&segment{from: from}, func(s *segment) bool {
				to = s.from
				return false
			})
			return known{}, from, to, false
		}
		if i, _ := s.find(from); i < len(s.entries) {
			return s.entries[i], nil, nil, true
		}
		if s.to == nil {
			return known{}, nil, nil, true
		}
		from = s.to
	}
}

// below gives the last entry before a key; nil: the last of all. Where it cannot tell, unknown is where its
// knowledge ends, and from where that of what is before begins.
func (c *cache) below(tab int32, end []byte) (e known, unknown, from []byte, isKnown bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.table(tab)
	for {
		var s *segment // the last one that begins before end
		visit := func(x *segment) bool {
			if end != nil && bytes.Compare(x.from, end) >= 0 {
				return true
			}
			s = x
			return false
		}
		if end == nil {
			t.Reverse(visit)
		} else {
			t.Descend(&segment{from: end}, visit)
		}
		if s == nil || s.to != nil && (end == nil || bytes.Compare(s.to, end) < 0) {
			if s != nil {
				from = s.to
			}
			return known{}, end, from, false
		}
		c.clock++
		s.used = c.clock
		i := len(s.entries)
		if end != nil {
			i, _ = s.find(end)
		}
		if i > 0 {
			return s.entries[i-1], nil, nil, true
		}
		if len(s.from) == 0 {
			return known{}, nil, nil, true
		}
		end = s.from
	}
}

// now is to be asked before a read whose result is learned.
func (c *cache) now() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.changes
}

// following gives the least key that is greater than a key.
func following(key []byte) []byte { return append(slices.Clip(key), 0) }

// learn notes what the database has from one key on and before another (nil: to the end), unless the database was
// changed since the read began: then it is to be read anew.
func (c *cache) learn(since uint64, tab int32, from, to []byte, entries []known) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.changes != since {
		return
	}
	t := c.table(tab)
	for { // what is known already stays
		s := c.segment(t, from)
		if s == nil {
			break
		}
		if s.to == nil {
			return
		}
		from = s.to
	}
	t.Ascend(&segment{from: from}, func(s *segment) bool {
		if to == nil || bytes.Compare(s.from, to) < 0 {
			to = s.from
		}
		return false
	})
	if to != nil && bytes.Compare(from, to) >= 0 {
		return
	}
	s := &segment{from: from, to: to}
	first, _ := (&segment{entries: entries}).find(from)
	end := len(entries)
	if to != nil {
		end, _ = (&segment{entries: entries}).find(to)
	}
	s.entries = slices.Clone(entries[first:end])
	c.add(t, s)
	if c.bytes > c.most {
		c.evict()
	}
}

func (c *cache) add(t *btree.BTreeG[*segment], s *segment) {
	c.clock++
	s.used = c.clock
	s.measure()
	t.Set(s)
	c.bytes += s.bytes
}

// evict forgets the segments that were not of use for longest, down to half of the most; not the last one.
func (c *cache) evict() {
	type place struct {
		t *btree.BTreeG[*segment]
		s *segment
	}
	var all []place
	for _, t := range c.tables {
		t.Scan(func(s *segment) bool {
			all = append(all, place{t, s})
			return true
		})
	}
	slices.SortFunc(all, func(a, b place) int { return cmp.Compare(a.s.used, b.s.used) })
	for _, p := range all[:len(all)-1] {
		if c.bytes <= c.most/2 {
			return
		}
		p.t.Delete(p.s)
		c.bytes -= p.s.bytes
	}
}

// applied is how many entries are applied at once: readers wait meanwhile.
const applied = 1024

// apply brings what was written to the database into what is known of it. tabs gives the numbers of the tables
// there; made are those that had nothing before.
func (c *cache) apply(o *overlay, tabs func(number int) int32, made map[int32]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changes++
	for number, l := range o.layers {
		if l == nil {
			continue
		}
		tab := tabs(number)
		t := c.table(tab)
		if l.gone || made[tab] {
			t.Scan(func(s *segment) bool {
				c.bytes -= s.bytes
				return true
			})
			t.Clear()
			c.add(t, &segment{from: []byte{}})
		}
		iter := l.tree.Iter()
		n := 0
		for ok := iter.First(); ok; ok = iter.Next() {
			c.applyOne(t, iter.Item())
			if n++; n%applied == 0 { // whoever reads on has the overlay above
				c.mu.Unlock()
				c.mu.Lock()
			}
		}
		iter.Release()
	}
	if c.bytes > c.most {
		c.evict()
	}
}

func (c *cache) applyOne(t *btree.BTreeG[*segment], e entry) {
	s := c.covering(t, e.key)
	if s == nil {
		return
	}
	i, there := s.find(e.key)
	c.bytes -= s.bytes
	switch {
	case e.value == nil && there:
		s.bytes -= entryCost + len(s.entries[i].key) + len(s.entries[i].value)
		s.entries = slices.Delete(s.entries, i, i+1)
	case e.value == nil:
	case there:
		s.bytes += len(e.value) - len(s.entries[i].value)
		s.entries[i].value = bytes.Clone(e.value)
	default:
		// The copies keep no frame from being forgotten.
		s.bytes += entryCost + len(e.key) + len(e.value)
		s.entries = slices.Insert(s.entries, i, known{bytes.Clone(e.key), bytes.Clone(e.value)})
	}
	c.bytes += s.bytes
	if len(s.entries) > mostEntries {
		c.split(t, s)
	}
}

// covering is segment of which no use is made.
func (c *cache) covering(t *btree.BTreeG[*segment], key []byte) (found *segment) {
	t.Descend(&segment{from: key}, func(s *segment) bool {
		if s.covers(key) {
			found = s
		}
		return false
	})
	return found
}

// split makes two of a segment. Keys mostly grow, so the first one is left nearly full.
func (c *cache) split(t *btree.BTreeG[*segment], s *segment) {
	at := len(s.entries) * 7 / 8
	right := &segment{from: s.entries[at].key, to: s.to, entries: slices.Clone(s.entries[at:]), used: s.used}
	c.bytes -= s.bytes
	s.entries, s.to = slices.Clip(s.entries[:at]), right.from
	s.measure()
	right.measure()
	c.bytes += s.bytes + right.bytes
	t.Set(right)
}
