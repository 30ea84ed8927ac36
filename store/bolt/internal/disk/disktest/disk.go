// Package disktest is a file system in memory that knows what of it would be left
// after a loss of power, and fails what it is told to.
//
// A [Disk] keeps apart what its users see, as if through the page cache, and what was
// made durable by a sync of a file or a folder. [Disk.Lose] makes of it another one, as
// it may be found after the loss: what was synced is there; of the rest each page or
// sector is there as any write left it, or torn, or not at all, in any order, and each
// name may be there or not.
//
// It is a model of disks that keep what is beside what they write: a sector that is
// written again with the same bytes at its beginning still has them after a loss.
package disktest

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"

	"github.com/orrery-go/orrery/store/bolt/internal/disk"
)

// Op is one operation.
type Op struct {
	Kind    Kind
	Path    string // of a rename: the old one
	Off     int64  // of Read, Write and Truncate
	Len     int    // of Read and Write
	Extends bool   // it needs more room on the disk than there was before
}

// Kind is what an operation does.
type Kind string

// The kinds of operations.
const (
	Mkdir    Kind = "mkdir"
	Create   Kind = "create"
	Open     Kind = "open"       // for reading
	OpenRW   Kind = "open to rw" // for writing, an existing file
	Read     Kind = "read"
	Write    Kind = "write"
	Truncate Kind = "truncate"
	Sync     Kind = "sync"
	Rename   Kind = "rename"
	Remove   Kind = "remove"
	SyncDir  Kind = "syncdir"
	ReadDir  Kind = "readdir"
	Stat     Kind = "stat"
)

// Changes tells whether the operation changes what is on the disk, or what of it is
// durable.
func (o Op) Changes() bool {
	switch o.Kind {
	case Open, OpenRW, Read, ReadDir, Stat:
		return false
	default:
		return true
	}
}

// Disk is a file system with absolute paths, of which the root is there. It is safe for
// concurrent use, but its hooks are to be set while nobody uses it.
type Disk struct {
	// Fail is asked before each operation, in its goroutine; its error becomes that
	// of the operation, which then has done nothing but: a write may have written its
	// first half, and what a sync should have made durable may or may not be, and is
	// not tried again, though reads go on to show it.
	Fail func(Op) error
	// After is called after each operation that succeeded, in its goroutine.
	After func(Op)
	// Strict refuses to rename and to remove a file that is open, as Windows does.
	Strict bool

	mu      sync.Mutex
	names   map[string]*node // as its users see them
	durable map[string]*node
	pending []naming // what names has and durable has not yet, in order
	opened  int
}

var _ disk.FS = (*Disk)(nil)

// errOpen is why a Strict disk refuses.
var errOpen = errors.New("the file is being used by another process")

// naming is one change of names: to gets node, from loses its own.
type naming struct {
	from, to string
	node     *node
}

// dirs are the folders that a sync makes it durable in.
func (n naming) touches(dir string) bool {
	return n.from != "" && filepath.Dir(n.from) == dir || n.to != "" && filepath.Dir(n.to) == dir
}

func (n naming) apply(names map[string]*node) {
	if n.from != "" {
		if names[n.from] != n.node {
			return // it was never given
		}
		delete(names, n.from)
	}
	if n.to != "" {
		names[n.to] = n.node
	}
}

// New is an empty disk.
func New() *Disk {
	root := map[string]*node{filepath.Clean("/"): {dir: true}}
	return &Disk{names: root, durable: maps.Clone(root)}
}

// Opened is how many files are open.
func (d *Disk) Opened() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.opened
}

// do carries out one operation.
func (d *Disk) do(op Op, f func() error) error {
	if d.Fail != nil {
		if err := d.Fail(op); err != nil {
			return &fs.PathError{Op: string(op.Kind), Path: op.Path, Err: err}
		}
	}
	d.mu.Lock()
	err := f()
	d.mu.Unlock()
	if err != nil {
		return &fs.PathError{Op: string(op.Kind), Path: op.Path, Err: err}
	}
	if d.After != nil {
		d.After(op)
	}
	return nil
}

// change changes a name, at once for its users, and not yet durably.
func (d *Disk) change(n naming) {
	n.apply(d.names)
	d.pending = append(d.pending, n)
}

func (d *Disk) inFolder(path string) error {
	switch parent := d.names[filepath.Dir(path)]; {
	case parent == nil:
		return fs.ErrNotExist
	case !parent.dir:
		return syscall.ENOTDIR
	}
	return nil
}

// Mkdir is part of disk.FS.
func (d *Disk) Mkdir(path string, _ fs.FileMode) error {
	path = filepath.Clean(path)
	return d.do(Op{Kind: Mkdir, Path: path, Extends: true}, func() error {
		if err := d.inFolder(path); err != nil {
			return err
		}
		if d.names[path] != nil {
			return fs.ErrExist
		}
		d.change(naming{to: path, node: &node{dir: true}})
		return nil
	})
}

// OpenFile is part of disk.FS.
func (d *Disk) OpenFile(path string, flag int, _ fs.FileMode) (disk.File, error) {
	path = filepath.Clean(path)
	d.mu.Lock()
	there := d.names[path] != nil
	d.mu.Unlock()
	op := Op{Kind: Open, Path: path}
	switch {
	case !there && flag&os.O_CREATE != 0:
		op.Kind, op.Extends = Create, true
	case flag&(os.O_WRONLY|os.O_RDWR) != 0:
		op.Kind = OpenRW
	}
	f := &file{d: d, path: path, writes: flag&(os.O_WRONLY|os.O_RDWR) != 0}
	err := d.do(op, func() error {
		if err := d.inFolder(path); err != nil {
			return err
		}
		f.node = d.names[path]
		switch {
		case f.node == nil && flag&os.O_CREATE == 0:
			return fs.ErrNotExist
		case f.node != nil && flag&os.O_EXCL != 0:
			return fs.ErrExist
		case f.node != nil && f.node.dir:
			return syscall.EISDIR
		case f.node == nil:
			f.node = &node{}
			d.change(naming{to: path, node: f.node})
		case flag&os.O_TRUNC != 0:
			f.node.truncate(0)
		}
		d.opened++
		f.node.opened++
		return nil
	})
	if err != nil {
		return nil, err
	}
	return f, nil
}

// Rename is part of disk.FS.
func (d *Disk) Rename(from, to string) error {
	from, to = filepath.Clean(from), filepath.Clean(to)
	return d.do(Op{Kind: Rename, Path: from}, func() error {
		n := d.names[from]
		if n == nil {
			return fs.ErrNotExist
		}
		if n.dir {
			return fmt.Errorf("renaming a folder: %w", fs.ErrInvalid)
		}
		if err := d.inFolder(to); err != nil {
			return err
		}
		if other := d.names[to]; d.Strict && (n.opened > 0 || other != nil && other.opened > 0) {
			return errOpen
		}
		d.change(naming{from: from, to: to, node: n})
		return nil
	})
}

// Remove is part of disk.FS.
func (d *Disk) Remove(path string) error {
	path = filepath.Clean(path)
	return d.do(Op{Kind: Remove, Path: path}, func() error {
		n := d.names[path]
		if n == nil {
			return fs.ErrNotExist
		}
		for other := range d.names {
			if n.dir && other != path && filepath.Dir(other) == path {
				return syscall.ENOTEMPTY
			}
		}
		if d.Strict && n.opened > 0 {
			return errOpen
		}
		d.change(naming{from: path, node: n})
		return nil
	})
}

// SyncDir is part of disk.FS.
func (d *Disk) SyncDir(path string) error {
	path = filepath.Clean(path)
	return d.do(Op{Kind: SyncDir, Path: path}, func() error {
		if n := d.names[path]; n == nil || !n.dir {
			return fs.ErrNotExist
		}
		d.pending = slices.DeleteFunc(d.pending, func(n naming) bool {
			if !n.touches(path) {
				return false
			}
			n.apply(d.durable)
			return true
		})
		return nil
	})
}

// ReadDir is part of disk.FS.
func (d *Disk) ReadDir(path string) (entries []fs.DirEntry, err error) {
	path = filepath.Clean(path)
	err = d.do(Op{Kind: ReadDir, Path: path}, func() error {
		if n := d.names[path]; n == nil {
			return fs.ErrNotExist
		} else if !n.dir {
			return syscall.ENOTDIR
		}
		for name, n := range d.names {
			if name != path && filepath.Dir(name) == path {
				entries = append(entries, fs.FileInfoToDirEntry(info{filepath.Base(name), int64(len(n.seen)), n.dir}))
			}
		}
		return nil
	})
	slices.SortFunc(entries, func(a, b fs.DirEntry) int {
		if a.Name() < b.Name() {
			return -1
		}
		return 1
	})
	return entries, err
}

// Stat is part of disk.FS.
func (d *Disk) Stat(path string) (fi fs.FileInfo, err error) {
	path = filepath.Clean(path)
	err = d.do(Op{Kind: Stat, Path: path}, func() error {
		n := d.names[path]
		if n == nil {
			return fs.ErrNotExist
		}
		fi = info{filepath.Base(path), int64(len(n.seen)), n.dir}
		return nil
	})
	return fi, err
}
