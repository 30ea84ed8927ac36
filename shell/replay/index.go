package replay

// index leads from machines to what was put aside of them: 16 bytes for each, in tables that
// are between half and nine tenths full. It has no keys but 32 bits of a hash, so whoever
// looks something up must hold it against what the slot leads to.
type index struct {
	tables [256]table // by the first byte of the hash
	n      int
	slots  int // used or free
}

// table is a hash table with linear probing.
type table struct {
	slots []slot
	n     int
}

// slot is what the index has of a machine.
type slot struct {
	meta uint64 // from the top: where it is in the file (in units of 8 bytes), 24 bits of the hash, flags
	sum  uint64 // hash of the stored form
}

const (
	placeShift = 28
	tagShift   = 4
	tagBits    = 24
	tagMask    = 1<<tagBits - 1
	maxPlace   = 1<<(64-placeShift) - 1

	flagUsed  = 1 // else the slot is free
	flagGone  = 2 // the machine does not exist any more
	flagQuiet = 4 // it waits for nothing, neither a time nor an effect
	flagSeen  = 8 // the comparison has met it
)

func (s *slot) has(flag uint64) bool { return s.meta&flag != 0 }

// set says what the slot leads to.
func (s *slot) set(place int64, flags uint64) {
	s.meta = uint64(place)/align<<placeShift | s.meta&(tagMask<<tagShift) | flagUsed | flags
}

func (s *slot) place() int64 { return int64(s.meta>>placeShift) * align }

// tagOf gives the bits of a hash that are kept; the table is chosen by the eight above.
func tagOf(hash uint64) uint64 { return hash >> (56 - tagBits) & tagMask }

// home is where the search for a tag begins.
func (t *table) home(tag uint64) int { return int(tag * uint64(len(t.slots)) >> tagBits) }

// find gives the slot of a hash for which is says true; nil if there is none.
func (x *index) find(hash uint64, is func(*slot) (bool, error)) (*slot, error) {
	t := &x.tables[hash>>56]
	if len(t.slots) == 0 {
		return nil, nil
	}
	tag := tagOf(hash)
	for i := t.home(tag); ; i++ {
		if i == len(t.slots) {
			i = 0
		}
		s := &t.slots[i]
		if !s.has(flagUsed) {
			return nil, nil
		}
		if s.meta>>tagShift&tagMask != tag {
			continue
		}
		if ok, err := is(s); ok || err != nil {
			return s, err
		}
	}
}

// add gives a new slot for a hash, with nothing but its tag.
func (x *index) add(hash uint64) *slot {
	t := &x.tables[hash>>56]
	if 10*(t.n+1) > 9*len(t.slots) {
		x.slots += t.grow()
	}
	t.n++
	x.n++
	return t.place(tagOf(hash)<<tagShift | flagUsed)
}

// place puts a slot where its tag belongs.
func (t *table) place(meta uint64) *slot {
	i := t.home(meta >> tagShift & tagMask)
	for t.slots[i].has(flagUsed) {
		if i++; i == len(t.slots) {
			i = 0
		}
	}
	t.slots[i].meta = meta
	return &t.slots[i]
}

// grow gives by how many slots.
func (t *table) grow() int {
	old := t.slots
	t.slots = make([]slot, len(old)+len(old)/2+16)
	for _, s := range old {
		if s.has(flagUsed) {
			t.place(s.meta).sum = s.sum
		}
	}
	return len(t.slots) - len(old)
}

// bytes is what the index takes.
func (x *index) bytes() int64 { return 16 * int64(x.slots) }

// each calls fn for each slot.
func (x *index) each(fn func(*slot) error) error {
	for i := range x.tables {
		slots := x.tables[i].slots
		for j := range slots {
			if slots[j].has(flagUsed) {
				if err := fn(&slots[j]); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
