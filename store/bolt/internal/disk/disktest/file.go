package disktest

import (
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"time"
)

// pageSize is what the page cache keeps and writes at once.
const pageSize = 4 << 10

// sectorSize is what a drive writes at once.
const sectorSize = 512

// node is a file or a folder.
type node struct {
	dir     bool
	seen    []byte             // what reads show
	durable []byte             // what was synced
	was     map[int64][][]byte // of each page that is not durable: what it was after each write
	dirty   map[int64]bool     // the pages that the next sync writes
	sizes   []int64            // those that the file has had since it was synced
	opened  int
}

func (n *node) copy() *node {
	c := &node{dir: n.dir, seen: slices.Clone(n.seen), durable: slices.Clone(n.durable), sizes: slices.Clone(n.sizes), dirty: maps.Clone(n.dirty)}
	if n.was != nil {
		c.was = make(map[int64][][]byte, len(n.was))
	}
	for p, was := range n.was {
		c.was[p] = slices.Clip(was) // a state of a page is never written to
	}
	return c
}

// page is one page of a content, padded with zeros.
func page(content []byte, p int64) []byte {
	b := make([]byte, pageSize)
	if off := p * pageSize; off < int64(len(content)) {
		copy(b, content[off:])
	}
	return b
}

// changed keeps what the pages of a part of the file are now.
func (n *node) changed(off, end int64) {
	if n.was == nil {
		n.was, n.dirty = map[int64][][]byte{}, map[int64]bool{}
	}
	for p := off / pageSize; p*pageSize < end; p++ {
		n.was[p] = append(n.was[p], page(n.seen, p))
		n.dirty[p] = true
	}
}

func (n *node) resize(size int64) {
	if size == int64(len(n.seen)) {
		return
	}
	if size < int64(len(n.seen)) {
		n.seen = n.seen[:size:size]
	} else {
		n.seen = append(n.seen, make([]byte, size-int64(len(n.seen)))...)
	}
	n.sizes = append(n.sizes, size)
}

func (n *node) truncate(size int64) {
	old := int64(len(n.seen))
	n.resize(size)
	n.changed(min(size, old), max(size, old))
}

func (n *node) write(b []byte, off int64) {
	n.resize(max(int64(len(n.seen)), off+int64(len(b))))
	copy(n.seen[off:], b)
	n.changed(off, off+int64(len(b)))
}

// sync makes the dirty pages durable, as they are now.
func (n *node) sync() {
	size := int64(len(n.seen))
	if int64(len(n.durable)) > size {
		n.durable = n.durable[:size]
	}
	n.durable = append(n.durable, make([]byte, size-int64(len(n.durable)))...)
	for p := range n.dirty {
		if off := p * pageSize; off < size {
			copy(n.durable[off:min(off+pageSize, size)], n.seen[off:])
		}
		delete(n.was, p)
	}
	clear(n.dirty)
	n.sizes = nil
}

// file is an open file.
type file struct {
	d      *Disk
	node   *node
	path   string
	writes bool
	closed bool
}

func (f *file) Name() string { return f.path }

func (f *file) do(op Op, do func() error) error {
	return f.d.do(op, func() error {
		if f.closed {
			return fs.ErrClosed
		}
		return do()
	})
}

func (f *file) ReadAt(b []byte, off int64) (n int, err error) {
	err = f.do(Op{Kind: Read, Path: f.path, Off: off, Len: len(b)}, func() error {
		if off < int64(len(f.node.seen)) {
			n = copy(b, f.node.seen[off:])
		}
		return nil
	})
	if err == nil && n < len(b) {
		err = io.EOF
	}
	return n, err
}

func (f *file) WriteAt(b []byte, off int64) (int, error) {
	f.d.mu.Lock()
	extends := off+int64(len(b)) > int64(len(f.node.seen))
	f.d.mu.Unlock()
	wrote := false
	err := f.do(Op{Kind: Write, Path: f.path, Off: off, Len: len(b), Extends: extends}, func() error {
		wrote = true
		if !f.writes {
			return fs.ErrPermission
		}
		f.node.write(b, off)
		return nil
	})
	if err == nil {
		return len(b), nil
	}
	n := 0
	if f.writes && !wrote { // Fail has failed it
		n = len(b) / 2
		f.d.mu.Lock()
		f.node.write(b[:n], off)
		f.d.mu.Unlock()
	}
	return n, err
}

func (f *file) Truncate(size int64) error {
	return f.do(Op{Kind: Truncate, Path: f.path, Off: size}, func() error {
		if !f.writes {
			return fs.ErrPermission
		}
		f.node.truncate(size)
		return nil
	})
}

func (f *file) Sync() error {
	tried := false
	err := f.do(Op{Kind: Sync, Path: f.path}, func() error {
		tried = true
		f.node.sync()
		return nil
	})
	if !tried {
		f.d.mu.Lock()
		clear(f.node.dirty)
		f.d.mu.Unlock()
	}
	return err
}

func (f *file) Stat() (fi fs.FileInfo, err error) {
	err = f.do(Op{Kind: Stat, Path: f.path}, func() error {
		fi = info{filepath.Base(f.path), int64(len(f.node.seen)), false}
		return nil
	})
	return fi, err
}

func (f *file) Close() error {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if f.closed {
		return fs.ErrClosed
	}
	f.closed = true
	f.d.opened--
	f.node.opened--
	return nil
}

type info struct {
	name string
	size int64
	dir  bool
}

func (i info) Name() string       { return i.name }
func (i info) Size() int64        { return i.size }
func (i info) IsDir() bool        { return i.dir }
func (i info) ModTime() time.Time { return time.Time{} }
func (i info) Sys() any           { return nil }
func (i info) Mode() fs.FileMode {
	if i.dir {
		return fs.ModeDir | 0o700
	}
	return 0o600
}
