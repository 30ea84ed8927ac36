package bolt

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"

	"go.etcd.io/bbolt"

	"github.com/orrery-go/orrery/store"
)

// The layout of bbolt's pages (its internal/common.Page), in the machine's byte
// order: a header of id (8), flags (2), count (2), overflow (4), then elements.
const (
	flagBranch   = 0x01
	flagLeaf     = 0x02
	flagFreelist = 0x10
	elementLen   = 16 // of a branch: pos, ksize, page; of a leaf: flags, pos, ksize, vsize
	leafBucket   = 0x01
	bucketHeader = 16 // root page, sequence
	maxDepth     = 48
)

var errTooMany = errors.New("more is wrong than is worth telling")

// walkPages looks at the B+trees of a file without a memory map, and reports
// what bbolt would panic on, or worse: two branches that lead to one page would
// send it round in circles until the stack is full, which ends the process, and
// a page that is in use and on the free list would be overwritten.
//
// Where full is false it reads branch pages only, about one in a hundred, so that
// it can precede every use of the file; else it reads them all. It needs a read
// transaction that keeps the pages as they are.
//
// Before the first change it also looks at the free list; later that is not the
// one of the transaction.
func walkPages(tx *bbolt.Tx, full, free bool, report func(what string)) (err error) {
	f, err := os.Open(tx.DB().Path())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	size := tx.DB().Info().PageSize
	w := &walker{f: f, size: size, pages: uint64(tx.Size()) / uint64(size), full: full, report: report}
	w.used = make([]uint64, w.pages/64+1)
	w.use(0)
	w.use(1)
	err = w.tree(uint64(tx.Cursor().Bucket().Root()), 0, func(flags uint32, key, value []byte) error {
		if flags&leafBucket == 0 || len(value) < bucketHeader {
			return w.complain("key %q of the root is no bucket", key)
		}
		if root := binary.NativeEndian.Uint64(value); root != 0 { // else it is inline
			w.leaves = 0
			return w.tree(root, 0, nil)
		}
		return w.inline(key, value)
	})
	if err == nil && free {
		err = w.freelistOf(f)
	}
	if errors.Is(err, errTooMany) {
		return nil
	}
	return err
}

type walker struct {
	f      *os.File
	size   int
	pages  uint64
	used   []uint64 // one bit for each page
	full   bool
	leaves int // the level of the leaves of the tree that is walked; 0: not known yet
	report func(string)
	told   int
}

func (w *walker) complain(format string, args ...any) error {
	w.report(fmt.Sprintf(format, args...))
	if w.told++; w.told >= 20 {
		return errTooMany
	}
	return nil
}

// use marks a page, and reports whether it was free to be used.
func (w *walker) use(page uint64) bool {
	bit := uint64(1) << (page % 64)
	fresh := w.used[page/64]&bit == 0
	w.used[page/64] |= bit
	return fresh
}

// claim marks a page that a tree leads to.
func (w *walker) claim(page uint64) (ok bool, err error) {
	if page < 2 || page >= w.pages {
		return false, w.complain("page %d is led to, but the file has %d", page, w.pages)
	}
	if !w.use(page) {
		return false, w.complain("page %d is led to twice", page)
	}
	return true, nil
}

type page struct {
	flags, count uint16
	body         []byte // with the header
}

// read reads a page with what overflows it; ok is false where it cannot be one.
func (w *walker) read(id uint64, whole bool) (p page, ok bool, err error) {
	b := make([]byte, w.size)
	if !whole {
		b = b[:pageHeader]
	}
	if _, err := w.f.ReadAt(b, int64(id)*int64(w.size)); err != nil {
		return p, false, err
	}
	p = page{flags: binary.NativeEndian.Uint16(b[8:]), count: binary.NativeEndian.Uint16(b[10:]), body: b}
	overflow := uint64(binary.NativeEndian.Uint32(b[12:]))
	if self := binary.NativeEndian.Uint64(b); self != id || p.flags != flagBranch && p.flags != flagLeaf || id+overflow >= w.pages {
		return p, false, w.complain("page %d is none of a tree: id %d, flags %#x, %d more pages", id, self, p.flags, overflow)
	}
	if !whole || overflow == 0 {
		return p, true, nil
	}
	for i := range overflow {
		if !w.use(id + 1 + i) {
			return p, false, w.complain("page %d belongs to page %d and to another", id+1+i, id)
		}
	}
	p.body = make([]byte, (overflow+1)*uint64(w.size))
	_, err = w.f.ReadAt(p.body, int64(id)*int64(w.size))
	return p, true, err
}

// tree walks the tree under a page. visit is called with the leaf entries, and
// makes the walk read all leaves.
func (w *walker) tree(id uint64, depth int, visit func(flags uint32, key, value []byte) error) error {
	if depth > maxDepth {
		return w.complain("page %d is %d levels deep", id, depth)
	}
	if ok, err := w.claim(id); !ok {
		return err
	}
	leaf, ok, err := w.read(id, false)
	if !ok || err != nil || leaf.flags == flagLeaf && !w.full && visit == nil {
		return err
	}
	p, ok, err := w.read(id, true)
	if !ok || err != nil {
		return err
	}
	if p.flags == flagLeaf {
		return w.leaf(id, p, visit)
	}
	children, ok, err := w.children(id, p)
	if !ok || err != nil {
		return err
	}
	if !w.full && visit == nil {
		if ok, err := w.onLeaves(children, depth+1); ok || err != nil {
			return err
		}
		w.warm(children)
	}
	for _, child := range children {
		if err := w.tree(child, depth+1, visit); err != nil {
			return err
		}
	}
	return nil
}

// onLeaves claims pages that are leaves, and reports whether they are. All leaves of a tree are on one
// level, so the way to the first one tells of the others.
func (w *walker) onLeaves(pages []uint64, level int) (bool, error) {
	if w.leaves == 0 && pages[0] >= 2 && pages[0] < w.pages {
		if first, ok, err := w.read(pages[0], false); !ok || err != nil {
			return err != nil, err
		} else if first.flags == flagLeaf {
			w.leaves = level
		}
	}
	if level != w.leaves {
		return false, nil
	}
	for _, page := range pages {
		if _, err := w.claim(page); err != nil {
			return true, err
		}
	}
	return true, nil
}

// warm reads pages many at a time, so that the walk need not wait for the disk at each of them.
func (w *walker) warm(pages []uint64) {
	const readers = 16
	var wg sync.WaitGroup
	for i := range min(readers, len(pages)) {
		wg.Go(func() {
			room := make([]byte, w.size)
			for ; i < len(pages); i += readers {
				if pages[i] < w.pages {
					_, _ = w.f.ReadAt(room, int64(pages[i])*int64(w.size)) // the walk finds what is wrong
				}
			}
		})
	}
	wg.Wait()
}

// children gives the pages that a branch leads to.
func (w *walker) children(id uint64, p page) (out []uint64, ok bool, err error) {
	if p.count == 0 || pageHeader+int(p.count)*elementLen > len(p.body) {
		return nil, false, w.complain("branch page %d has %d elements", id, p.count)
	}
	var last []byte
	for i := range int(p.count) {
		at := pageHeader + i*elementLen
		e := p.body[at:]
		key, ok := cut(p.body, at, binary.NativeEndian.Uint32(e), binary.NativeEndian.Uint32(e[4:]))
		if !ok || i > 0 && bytes.Compare(last, key) >= 0 {
			return nil, false, w.complain("branch page %d: key %d is out of order or beyond the page", id, i)
		}
		last = key
		out = append(out, binary.NativeEndian.Uint64(e[8:]))
	}
	return out, true, nil
}

// leaf looks at the entries of a leaf page.
func (w *walker) leaf(id uint64, p page, visit func(flags uint32, key, value []byte) error) error {
	if pageHeader+int(p.count)*elementLen > len(p.body) {
		return w.complain("leaf page %d has %d elements", id, p.count)
	}
	var last []byte
	for i := range int(p.count) {
		at := pageHeader + i*elementLen
		e := p.body[at:]
		pos, ksize, vsize := binary.NativeEndian.Uint32(e[4:]), binary.NativeEndian.Uint32(e[8:]), binary.NativeEndian.Uint32(e[12:])
		key, ok := cut(p.body, at, pos, ksize)
		value, vok := cut(p.body, at+int(ksize), pos, vsize)
		if !ok || !vok || len(key) == 0 || i > 0 && bytes.Compare(last, key) >= 0 {
			return w.complain("leaf page %d: entry %d is out of order or beyond the page", id, i)
		}
		last = key
		if visit != nil {
			if err := visit(binary.NativeEndian.Uint32(e), key, value); err != nil {
				return err
			}
		} else if flags := binary.NativeEndian.Uint32(e); flags != 0 {
			return w.complain("leaf page %d: entry %d has flags %#x", id, i, flags)
		}
	}
	return nil
}

// inline looks at a small bucket that stands in its parent's leaf.
func (w *walker) inline(key, value []byte) error {
	b := value[bucketHeader:]
	if len(b) < pageHeader || binary.NativeEndian.Uint16(b[8:]) != flagLeaf {
		return w.complain("bucket %q: its inline page is none", key)
	}
	return w.leaf(0, page{flags: flagLeaf, count: binary.NativeEndian.Uint16(b[10:]), body: b}, nil)
}

// cut gives size bytes at from+pos of a page, where they are within it.
func cut(b []byte, from int, pos, size uint32) ([]byte, bool) {
	start := int64(from) + int64(pos)
	end := start + int64(size)
	if end > int64(len(b)) {
		return nil, false
	}
	return b[start:end], true
}

func (w *walker) freelistOf(f *os.File) error {
	m, err := readMeta(f)
	if err != nil {
		return err
	}
	return w.freelist(m.freelist)
}

// freelist holds the free list against the pages that the trees use.
func (w *walker) freelist(id uint64) error {
	if id == noFreelist {
		return nil
	}
	if ok, err := w.claim(id); !ok {
		return err
	}
	b := make([]byte, w.size)
	if _, err := w.f.ReadAt(b, int64(id)*int64(w.size)); err != nil {
		return err
	}
	self, flags, overflow := binary.NativeEndian.Uint64(b), binary.NativeEndian.Uint16(b[8:]), uint64(binary.NativeEndian.Uint32(b[12:]))
	if self != id || flags != flagFreelist || id+overflow >= w.pages {
		return w.complain("page %d is no free list: id %d, flags %#x, %d more pages", id, self, flags, overflow)
	}
	b = make([]byte, (overflow+1)*uint64(w.size))
	if _, err := w.f.ReadAt(b, int64(id)*int64(w.size)); err != nil {
		return err
	}
	count, ids := uint64(binary.NativeEndian.Uint16(b[10:])), b[pageHeader:]
	if count == 0xffff { // then the first id is the count
		count, ids = binary.NativeEndian.Uint64(ids), ids[8:]
	}
	if count > uint64(len(ids)/8) {
		return w.complain("the free list counts %d pages, more than it has room for", count)
	}
	for i := range count {
		free := binary.NativeEndian.Uint64(ids[8*i:])
		if free < 2 || free >= w.pages || !w.use(free) {
			return w.complain("page %d is on the free list, and in use or not there", free)
		}
	}
	return nil
}

// fullWalk is the size of a file whose pages are all looked at when it is
// opened, a matter of a fifth of a second. In a greater one a damaged leaf page
// is found when it is read, or by Check.
var fullWalk int64 = 256 << 20 // a variable for the tests

// probe opens the file for reading alone and walks its pages, before anything
// changes it.
func probe(path string, opts Options) (err error) {
	db, err := openFile(path, Options{ReadOnly: true, LockTimeout: opts.LockTimeout, MapSize: -1}, &identity{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeFile(db)) }()
	defer guard("walk the pages", &err)
	return db.View(func(tx *bbolt.Tx) error {
		var wrong []string
		err := walkPages(tx, tx.Size() <= fullWalk, true, func(what string) { wrong = append(wrong, what) })
		if err == nil && len(wrong) > 0 {
			err = fmt.Errorf("%w: %s", store.ErrCorrupt, wrong[0])
		}
		return err
	})
}
