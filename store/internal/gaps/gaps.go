// Package gaps remembers ranges of keys of which a cursor has found none to be there, so that others that come to one step over
// it, instead of over each key that was deleted in it.
package gaps

import (
	"bytes"
	"slices"
	"sync/atomic"
)

// A Gap is a range of keys of which none is there, in a layer of changes with
// all that is beneath it. What is beneath a layer may be written to where it belongs meanwhile,
// which changes nothing of what is there; only a put can.
type Gap struct {
	From []byte
	To   []byte // the first key behind it; nil: it has no end
}

// behind reports whether the gap ends at the key or before it.
func (g *Gap) behind(key []byte) bool { return g.To != nil && bytes.Compare(g.To, key) <= 0 }

// Least is how many deleted keys are to be stepped over before a gap is noted. A variable for the tests.
var Least = 16

// most is how many are noted for a layer; then it begins anew.
const most = 64

// List are those of one layer, in order, without any in common. Several readers may note a gap of the same layer at the same
// time; only one goroutine at a time may put. The zero value is empty.
type List struct {
	list atomic.Pointer[[]Gap] // not changed once others may see it
	own  bool                  // nobody but the transaction that writes to the layer has seen the slice
}

// All gives them. The slice is not to be changed.
func (g *List) All() []Gap {
	if list := g.list.Load(); list != nil {
		return *list
	}
	return nil
}

// find gives the first gap that ends behind a key.
func find(list []Gap, key []byte) int {
	n, _ := slices.BinarySearchFunc(list, key, func(g Gap, key []byte) int {
		if g.behind(key) {
			return -1
		}
		return 1
	})
	return n
}

// Around gives the gap that a key is in.
func (g *List) Around(key []byte) (Gap, bool) {
	list := g.All()
	if n := find(list, key); n < len(list) && bytes.Compare(list[n].From, key) <= 0 {
		return list[n], true
	}
	return Gap{}, false
}

// Note adds a gap, in one with those that it has a part of. Where another reader notes
// one at the same time either is lost.
func (g *List) Note(from, to []byte) {
	found := Gap{From: bytes.Clone(from), To: bytes.Clone(to)}
	list := g.All()
	if len(list) >= most {
		list = nil
	}
	first := find(list, from)
	last := first
	for last < len(list) && (to == nil || bytes.Compare(list[last].From, to) < 0) {
		last++
	}
	if first < last {
		if before := list[first].From; bytes.Compare(before, from) < 0 {
			found.From = before
		}
		if behind := list[last-1]; to != nil && !behind.behind(to) {
			found.To = behind.To
		}
	}
	g.store(slices.Concat(list[:first], []Gap{found}, list[last:]))
}

// Put ends the gap that a key is in before the key, which is there from now on.
func (g *List) Put(key []byte) {
	list := g.All()
	n := find(list, key)
	if n == len(list) || bytes.Compare(list[n].From, key) > 0 {
		return
	}
	if !g.own {
		list, g.own = slices.Clone(list), true
		g.store(list)
	}
	if bytes.Equal(list[n].From, key) {
		g.store(slices.Delete(list, n, n+1))
		return
	}
	list[n].To = key
}

// store is apart so that a put that meets no gap, which most are, takes no memory.
func (g *List) store(list []Gap) { g.list.Store(&list) }

// Take makes the gaps those of another list.
func (g *List) Take(from *List) { g.list.Store(from.list.Load()) }

// Clear forgets all.
func (g *List) Clear() { g.list.Store(nil) }
