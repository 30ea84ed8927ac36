package disktest

import (
	"bytes"
	"maps"
	"path/filepath"
	"slices"
)

// How much of what was not synced a loss leaves.
const (
	leavesNothing = iota
	leavesAll
	leavesSome // each by itself
	ways
)

// Lose gives one of the disks that may be found after a loss of power at this moment.
// draw gives a number from 0 up to but not including n, and is the only source of
// chance. The disk itself goes on as it is.
func (d *Disk) Lose(draw func(n int) int) *Disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	names := maps.Clone(d.durable)
	way := leavesNothing
	if len(d.pending) > 0 {
		way = draw(ways)
	}
	for _, n := range d.pending {
		if way == leavesAll || way == leavesSome && draw(2) == 1 {
			n.apply(names)
		}
	}
	left := New()
	made := map[*node]*node{}
	for _, path := range slices.Sorted(maps.Keys(names)) { // a folder before what is in it
		n := names[path]
		if parent := left.durable[filepath.Dir(path)]; parent == nil || !parent.dir {
			continue
		}
		if made[n] == nil {
			made[n] = n.lose(draw)
		}
		left.durable[path] = made[n]
	}
	left.names = maps.Clone(left.durable)
	return left
}

// Kill gives the disk as a process finds it that is started after this moment, in which
// the one that used the disk was killed: with all that was written, of which what was
// not synced may still be lost. The disk itself goes on as it is.
func (d *Disk) Kill() *Disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	copies := map[*node]*node{}
	of := func(n *node) *node {
		if copies[n] == nil {
			copies[n] = n.copy()
		}
		return copies[n]
	}
	left := &Disk{names: map[string]*node{}, durable: map[string]*node{}}
	for path, n := range d.names {
		left.names[path] = of(n)
	}
	for path, n := range d.durable {
		left.durable[path] = of(n)
	}
	for _, n := range d.pending {
		left.pending = append(left.pending, naming{from: n.from, to: n.to, node: of(n.node)})
	}
	return left
}

// Clone gives a disk with the same files, all of them as they are seen, and durable.
func (d *Disk) Clone() *Disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	left := &Disk{names: map[string]*node{}}
	for path, n := range d.names {
		left.names[path] = &node{dir: n.dir, seen: slices.Clone(n.seen), durable: slices.Clone(n.seen)}
	}
	left.durable = maps.Clone(left.names)
	return left
}

func (n *node) lose(draw func(int) int) *node {
	if n.dir {
		return &node{dir: true}
	}
	sizes := append([]int64{int64(len(n.durable))}, n.sizes...)
	size := sizes[draw(len(sizes))]
	b := make([]byte, size)
	copy(b, n.durable)
	way := leavesNothing
	if len(n.was) > 0 {
		way = draw(ways)
	}
	for _, p := range slices.Sorted(maps.Keys(n.was)) {
		off := p * pageSize
		if off >= size || way == leavesNothing {
			continue
		}
		was := n.was[p]
		left := was[len(was)-1]
		if way == leavesSome {
			left = mix(n.states(p), draw)
		}
		copy(b[off:], left)
	}
	return &node{seen: b, durable: slices.Clone(b)}
}

// states are all that a page may be found as, if it is not torn.
func (n *node) states(p int64) [][]byte {
	all := append([][]byte{page(n.durable, p)}, n.was[p]...)
	if p*pageSize >= int64(len(n.durable)) {
		// It never had a place: what is in the one that it gets may be seen.
		all = append(all, bytes.Repeat([]byte("what another file had there... "), pageSize/31+1)[:pageSize])
	}
	return all
}

// mix makes one of several states of a page: one of them, or each sector as one of them
// has it, or the beginning of one and the end of another.
func mix(states [][]byte, draw func(int) int) []byte {
	pick := func() []byte { return states[draw(len(states))] }
	switch draw(3) {
	case 0:
		return pick()
	case 1:
		b := make([]byte, 0, pageSize)
		for s := 0; s < pageSize; s += sectorSize {
			b = append(b, pick()[s:s+sectorSize]...)
		}
		return b
	default:
		cut := draw(pageSize)
		return append(slices.Clone(pick()[:cut]), pick()[cut:]...)
	}
}
