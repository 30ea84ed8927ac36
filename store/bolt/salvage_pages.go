package bolt

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
)

// span is a part of a table that cannot be read.
type span struct {
	table    string
	from, to []byte // from on, before to; nil: the table's begin, its end
	why      string
}

func (s *span) has(table string, key []byte) bool {
	return s.table == table && bytes.Compare(key, s.from) >= 0 && (s.to == nil || bytes.Compare(key, s.to) < 0)
}

// pageSalvage reads the trees of a damaged file: around what cannot be read, never twice
// through the same page, and nothing that is free.
type pageSalvage struct {
	w     *walker
	free  []uint64 // a bit for each page that is free; nil: nobody knows
	found func(table string, k, v []byte) (sound bool)
	lost  []span
	doubt []span // around entries that are not sound: their keys may have been others
}

func newPageSalvage(f *os.File, m metaPage, found func(table string, k, v []byte) bool) *pageSalvage {
	w := &walker{f: f, size: int(m.pageSize), pages: m.pages, full: true, report: func(string) {}}
	w.used = make([]uint64, w.pages/64+1)
	w.told = -1 << 30 // it never gives up
	s := &pageSalvage{w: w, found: found}
	list := &walker{f: f, size: w.size, pages: w.pages, report: func(string) {}, used: make([]uint64, len(w.used))}
	list.use(0)
	list.use(1)
	if m.freelist != noFreelist && list.freelist(m.freelist) == nil && list.told == 0 {
		s.free = list.used // with the meta pages and the free list's own, which hold no tree either
	}
	w.use(0)
	w.use(1)
	return s
}

func (s *pageSalvage) isFree(id uint64) bool {
	return s.free != nil && s.free[id/64]&(1<<(id%64)) != 0
}

func (s *pageSalvage) lose(table string, from, to []byte, format string, args ...any) {
	s.lost = append(s.lost, span{table, bytes.Clone(from), bytes.Clone(to), fmt.Sprintf(format, args...)})
}

// tables walks all that the root bucket leads to; ok is false where nothing of it can be read.
func (s *pageSalvage) tables(root uint64) (ok bool) {
	s.tree("", root, 0, nil, nil, func(flags uint32, k, v []byte) bool {
		if flags&leafBucket == 0 || len(v) < bucketHeader {
			return false
		}
		ok = true
		name := string(k)
		if page := binary.NativeEndian.Uint64(v); page != 0 {
			s.tree(name, page, 0, nil, nil, func(_ uint32, k, v []byte) bool { return s.found(name, k, v) })
			return true
		}
		if b := v[bucketHeader:]; len(b) >= pageHeader && binary.NativeEndian.Uint16(b[8:]) == flagLeaf {
			s.leaf(name, 0, page{flags: flagLeaf, count: binary.NativeEndian.Uint16(b[10:]), body: b}, nil, nil, func(_ uint32, k, v []byte) bool { return s.found(name, k, v) })
		} else {
			s.lose(name, nil, nil, "its page within the root bucket is none")
		}
		return true
	})
	return ok
}

// read reads a page that belongs to a tree.
func (s *pageSalvage) read(id uint64) (p page, branch bool, err error) {
	switch ok, _ := s.w.claim(id); {
	case !ok:
		return p, false, fmt.Errorf("page %d is led to twice, or is beyond the file", id)
	case s.isFree(id):
		return p, false, fmt.Errorf("page %d is free", id)
	}
	return s.load(id)
}

// load reads a page, whatever of its head is wrong as long as the rest of it shows what it is.
func (s *pageSalvage) load(id uint64) (p page, branch bool, err error) {
	b := make([]byte, s.w.size)
	if _, err := s.w.f.ReadAt(b, int64(id)*int64(s.w.size)); err != nil {
		return p, false, fmt.Errorf("page %d: %w", id, err)
	}
	p = page{flags: binary.NativeEndian.Uint16(b[8:]), count: binary.NativeEndian.Uint16(b[10:]), body: b}
	if more := uint64(binary.NativeEndian.Uint32(b[12:])); more > 0 && s.overflows(id, more) {
		p.body = make([]byte, (more+1)*uint64(s.w.size))
		if _, err := s.w.f.ReadAt(p.body, int64(id)*int64(s.w.size)); err != nil {
			return p, false, fmt.Errorf("page %d: %w", id, err)
		}
		for i := range more {
			s.w.use(id + 1 + i)
		}
	}
	switch {
	case p.flags == flagBranch, p.flags == flagLeaf:
		return p, p.flags == flagBranch, nil
	case binary.NativeEndian.Uint64(b) != id:
	case p.ordered(leafPos, int(p.count)):
		return p, false, nil
	case p.ordered(branchPos, int(p.count)):
		return p, true, nil
	}
	return p, false, fmt.Errorf("page %d is none of a tree", id)
}

// overflows reports whether the pages behind one can be part of it.
func (s *pageSalvage) overflows(id, more uint64) bool {
	for next := id + 1; next <= id+more; next++ {
		if next >= s.w.pages || s.w.used[next/64]&(1<<(next%64)) != 0 || s.isFree(next) {
			return false
		}
		var head [pageHeader]byte
		if _, err := s.w.f.ReadAt(head[:], int64(next)*int64(s.w.size)); err != nil {
			return false
		}
		flags := binary.NativeEndian.Uint16(head[8:])
		if binary.NativeEndian.Uint64(head[:]) == next && (flags == flagBranch || flags == flagLeaf || flags == flagFreelist) {
			return false // a page of its own
		}
	}
	return true
}

// tree walks a tree whose keys are from from on and before to.
func (s *pageSalvage) tree(table string, id uint64, depth int, from, to []byte, visit func(flags uint32, k, v []byte) bool) {
	if depth > maxDepth {
		s.lose(table, from, to, "page %d is %d levels deep", id, depth)
		return
	}
	p, branch, err := s.read(id)
	switch {
	case err != nil:
		s.lose(table, from, to, "%v", err)
	case branch:
		s.branch(table, id, depth, p, from, to, visit)
	default:
		s.leaf(table, id, p, from, to, visit)
	}
}

func (s *pageSalvage) branch(table string, id uint64, depth int, p page, from, to []byte, visit func(uint32, []byte, []byte) bool) {
	count := p.elements(branchPos)
	if count == 0 || pageHeader+count*elementLen > len(p.body) {
		s.lose(table, from, to, "branch page %d has %d elements", id, count)
		return
	}
	type child struct {
		key  []byte // nil: it cannot be read
		page uint64
	}
	children := make([]child, count)
	for i := range children {
		at := pageHeader + i*elementLen
		e := p.body[at:]
		key, ok := cut(p.body, at, binary.NativeEndian.Uint32(e), binary.NativeEndian.Uint32(e[4:]))
		if ok && len(key) > 0 && (i == 0 || bytes.Compare(key, from) >= 0) && (to == nil || bytes.Compare(key, to) < 0) {
			children[i].key = key
		}
		children[i].page = binary.NativeEndian.Uint64(e[8:])
	}
	for i, c := range children {
		begin, end := from, to
		if i > 0 && c.key != nil {
			begin = c.key
		}
		for _, next := range children[i+1:] {
			if next.key != nil {
				end = next.key
				break
			}
		}
		s.tree(table, c.page, depth+1, begin, end, visit)
	}
}

// leaf visits the entries of a page that can be read.
func (s *pageSalvage) leaf(table string, id uint64, p page, from, to []byte, visit func(flags uint32, k, v []byte) bool) {
	entries, bad := entriesOf(p)
	within := span{table: table, from: from, to: to}
	some := len(entries) == 0
	for _, e := range entries {
		some = some || within.has(table, e.key)
	}
	if !some {
		s.lose(table, from, to, "page %d holds other keys than the ones that lead there", id)
		return
	}
	if bad > 0 {
		s.lose(table, from, to, "leaf page %d: %d of its entries are beyond the page", id, bad)
	}
	before := from
	for i, e := range entries {
		if visit(e.flags, e.key, e.value) {
			before = bytes.Clone(e.key)
			continue
		}
		behind := to
		if i+1 < len(entries) {
			behind = bytes.Clone(entries[i+1].key)
		}
		s.doubt = append(s.doubt, span{table: table, from: before, to: behind})
	}
}

// elements is how many a page has: the bytes of the first one begin behind the last one, so that a
// wrong count is found out, unless that does not fit either.
func (p page) elements(posAt int) int {
	if len(p.body) < pageHeader+elementLen {
		return 0
	}
	pos := int64(binary.NativeEndian.Uint32(p.body[pageHeader+posAt:]))
	n := int(pos / elementLen)
	if pos%elementLen != 0 || n == 0 || int64(pageHeader)+pos > int64(len(p.body)) {
		return int(p.count)
	}
	if !p.ordered(posAt, n) {
		return int(p.count)
	}
	return max(n, int(p.count)) // what is none will not be sound
}

// ordered reports whether a page may have that many elements: their keys are within it, and in order.
func (p page) ordered(posAt, n int) bool {
	var last []byte
	for i := range n {
		at := pageHeader + i*elementLen
		if at+elementLen > len(p.body) {
			return false
		}
		e := p.body[at:]
		key, ok := cut(p.body, at, binary.NativeEndian.Uint32(e[posAt:]), binary.NativeEndian.Uint32(e[posAt+4:]))
		if !ok || len(key) == 0 || bytes.Compare(last, key) >= 0 {
			return false
		}
		last = key
	}
	return n > 0
}

// Where the position of an element's bytes stands in it; behind it the size of its key.
const (
	branchPos = 0
	leafPos   = 4
)

type leafEntry struct {
	flags      uint32
	key, value []byte
}

// entriesOf gives the entries of a leaf that are within it, and how many are not.
func entriesOf(p page) (entries []leafEntry, bad int) {
	count := p.elements(leafPos)
	for i := range count {
		at := pageHeader + i*elementLen
		if at+elementLen > len(p.body) {
			return entries, bad + count - i
		}
		e := p.body[at:]
		pos, ksize, vsize := binary.NativeEndian.Uint32(e[4:]), binary.NativeEndian.Uint32(e[8:]), binary.NativeEndian.Uint32(e[12:])
		key, ok := cut(p.body, at, pos, ksize)
		var value []byte
		if ok {
			value, ok = cut(p.body, at+int(ksize), pos, vsize)
		}
		if !ok || len(key) == 0 {
			bad++
			continue
		}
		entries = append(entries, leafEntry{binary.NativeEndian.Uint32(e), key, value})
	}
	return entries, bad
}

// orphans looks at the pages that nothing leads to though they are not free, because what led there
// cannot be read: their entries belong where keys are lost, if they are sound there.
func (s *pageSalvage) orphans(sound func(table string, k, v []byte) bool) {
	if s.free == nil || len(s.lost) == 0 {
		return
	}
	for id := uint64(2); id < s.w.pages; id++ {
		if s.w.used[id/64]&(1<<(id%64)) != 0 || s.isFree(id) {
			continue
		}
		whole, branch, err := s.load(id)
		if err != nil || branch {
			continue
		}
		entries, _ := entriesOf(whole)
		for i := range s.lost {
			if adopts(&s.lost[i], entries, sound) {
				for _, e := range entries {
					s.found(s.lost[i].table, e.key, e.value)
				}
				break
			}
		}
	}
}

// adopts reports whether all entries of a leaf are in a span, and most of them sound there.
func adopts(in *span, entries []leafEntry, sound func(table string, k, v []byte) bool) bool {
	good := 0
	for _, e := range entries {
		if !in.has(in.table, e.key) || e.flags != 0 {
			return false
		}
		if sound(in.table, e.key, e.value) {
			good++
		}
	}
	return good > 0 && good >= len(entries)-1
}
