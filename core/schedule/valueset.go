package schedule

import (
	"iter"
	"math/bits"
)

// A valueSet is a set of numbers from 0 to 191: the values of a field, counted
// from its smallest.
type valueSet [3]uint64

func (s *valueSet) add(v int)      { s[v/64] |= 1 << (v % 64) }
func (s *valueSet) has(v int) bool { return s[v/64]&(1<<(v%64)) != 0 }

func (s *valueSet) len() int {
	n := 0
	for _, w := range s {
		n += bits.OnesCount64(w)
	}
	return n
}

// values gives the members below the bound, in order.
func (s *valueSet) values(bound int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for v := range bound {
			if s.has(v) && !yield(v) {
				return
			}
		}
	}
}

// next gives the member after v, or the bound.
func (s *valueSet) next(v, bound int) int {
	for v++; v < bound && !s.has(v); {
		v++
	}
	return v
}
