package pgkv

import (
	"bytes"
	"slices"
	"sync/atomic"
)

// A gap is a range of keys of which a cursor has found none to be there, in a layer with
// all that is beneath it: others that come to it step over it, instead of over each key
// that was deleted in it. What is beneath a layer may be brought into the database meanwhile,
// which changes nothing of what is there; only a put can.
type gap struct {
	from []byte
	to   []byte // the first key behind it; nil: it has no end
}

// behind reports whether the gap ends at the key or before it.
func (g *gap) behind(key []byte) bool { return g.to != nil && bytes.Compare(g.to, key) <= 0 }

// leastGap is how many deleted keys are stepped over before a gap is noted.
var leastGap = 16 // a variable for the tests

// mostGaps is how many are noted for a layer; then it begins anew.
const mostGaps = 64

// gaps are those of one layer, in order, without any in common. The slice is not changed once
// others may see it: several readers may note a gap of the same layer.
type gaps struct {
	list atomic.Pointer[[]gap]
	own  bool // nobody but the transaction that writes to the layer has seen the slice
}

func (g *gaps) load() []gap {
	if list := g.list.Load(); list != nil {
		return *list
	}
	return nil
}

// find gives the first gap that ends behind a key.
func find(list []gap, key []byte) int {
	n, _ := slices.BinarySearchFunc(list, key, func(g gap, key []byte) int {
		if g.behind(key) {
			return -1
		}
		return 1
	})
	return n
}

// around gives the gap that a key is in.
func (g *gaps) around(key []byte) (gap, bool) {
	list := g.load()
	if n := find(list, key); n < len(list) && bytes.Compare(list[n].from, key) <= 0 {
		return list[n], true
	}
	return gap{}, false
}

// note adds a gap, in one with those that it has a part of. Where another reader notes
// one at the same time either is lost.
func (g *gaps) note(from, to []byte) {
	found := gap{from: bytes.Clone(from), to: bytes.Clone(to)}
	list := g.load()
	if len(list) >= mostGaps {
		list = nil
	}
	first := find(list, from)
	last := first
	for last < len(list) && (to == nil || bytes.Compare(list[last].from, to) < 0) {
		last++
	}
	if first < last {
		if before := list[first].from; bytes.Compare(before, from) < 0 {
			found.from = before
		}
		if behind := list[last-1]; to != nil && !behind.behind(to) {
			found.to = behind.to
		}
	}
	g.store(slices.Concat(list[:first], []gap{found}, list[last:]))
}

// put ends the gap that a key is in before the key, which is there from now on.
func (g *gaps) put(key []byte) {
	list := g.load()
	n := find(list, key)
	if n == len(list) || bytes.Compare(list[n].from, key) > 0 {
		return
	}
	if !g.own {
		list, g.own = slices.Clone(list), true
		g.store(list)
	}
	if bytes.Equal(list[n].from, key) {
		g.store(slices.Delete(list, n, n+1))
		return
	}
	list[n].to = key
}

// store is apart so that a put that meets no gap, which most are, takes no memory.
func (g *gaps) store(list []gap) { g.list.Store(&list) }
