package disktest

import (
	"fmt"
	"path/filepath"
	"slices"
)

// Content is what reads of a file would show; it panics if there is none.
func (d *Disk) Content(path string) []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.existing(path).seen)
}

// SetContent replaces what a file holds, or makes one, durably: as damage does, or a
// person with another program.
func (d *Disk) SetContent(path string, content []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := &node{seen: slices.Clone(content), durable: slices.Clone(content)}
	d.names[filepath.Clean(path)], d.durable[filepath.Clean(path)] = n, n
}

// Vanish takes a file away, durably; it panics if there is none.
func (d *Disk) Vanish(path string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.existing(path)
	delete(d.names, filepath.Clean(path))
	delete(d.durable, filepath.Clean(path))
}

func (d *Disk) existing(path string) *node {
	n := d.names[filepath.Clean(path)]
	if n == nil || n.dir {
		panic(fmt.Sprintf("no file %s", path))
	}
	return n
}
